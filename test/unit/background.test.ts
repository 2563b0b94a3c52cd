import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createBackground } from '#dist/db/background.js';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

test('the same failure is reported once a minute, another one immediately, and the work never rejects', async () => {
  const told: [unknown, string][] = [];
  const inBackground = createBackground((error, what) => told.push([error, what]));
  const failure = (code: string) => Object.assign(new Error('away'), { code });
  const fail = (what: string, error: Error) =>
    inBackground(what, async () => {
      throw error;
    });
  const [first, another, later] = [failure('A'), failure('B'), failure('A')];
  await fail('Folding', first);
  vi.advanceTimersByTime(59_999);
  await fail('Folding', failure('A'));
  await fail('Folding', another);
  await fail('Marking', first);
  vi.advanceTimersByTime(1);
  await fail('Folding', later);
  await inBackground('Folding', async () => undefined);
  expect(told).toEqual([
    [first, 'Folding'],
    [another, 'Folding'],
    [first, 'Marking'],
    [later, 'Folding'],
  ]);
});
