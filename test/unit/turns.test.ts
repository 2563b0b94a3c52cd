import { afterEach, expect, test, vi } from 'vitest';
import { isSliceOver, setAlone } from '#dist/http/turns.js';

afterEach(async () => {
  vi.restoreAllMocks();
  setAlone(false);
  // The slice ends with the turn.
  await new Promise(setImmediate);
});

test.each([
  ['several projects are active', false, 1],
  ['one project is alone', true, 4],
])('while %s, work that can wait may take that long in a turn', async (_, isAlone, ms) => {
  let now = 100;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  setAlone(isAlone);
  expect(isSliceOver()).toBe(false);
  now += ms;
  expect(isSliceOver()).toBe(false);
  now += 0.1;
  expect(isSliceOver()).toBe(true);
  await new Promise(setImmediate);
  expect(isSliceOver()).toBe(false);
});

test('a turn is over at once where another project arrives', () => {
  let now = 100;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
  setAlone(true);
  expect(isSliceOver()).toBe(false);
  now += 2;
  expect(isSliceOver()).toBe(false);
  setAlone(false);
  expect(isSliceOver()).toBe(true);
});
