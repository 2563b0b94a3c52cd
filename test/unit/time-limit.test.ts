import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createTimeLimit } from '#dist/db/prepared-statement.js';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Work that notes that it was given up, and is closed then, as a statement is. */
function open(limit: ReturnType<typeof createTimeLimit>) {
  const work = {
    givenUp: 0,
    giveUp() {
      work.givenUp += 1;
      limit.close(slot);
    },
  };
  const slot = limit.open(work);
  return { work, close: () => limit.close(slot) };
}

test('gives up what is open for longer than the limit, once, and nothing else', () => {
  const limit = createTimeLimit(1_000);
  const early = open(limit);
  const closed = open(limit);
  vi.advanceTimersByTime(700);
  const late = open(limit);
  closed.close();
  vi.advanceTimersByTime(600);
  expect([early, closed, late].map(({ work }) => work.givenUp)).toEqual([1, 0, 0]);
  vi.advanceTimersByTime(10_000);
  expect([early, closed, late].map(({ work }) => work.givenUp)).toEqual([1, 0, 1]);
});

test('has no timer while nothing is open, and one however much is', () => {
  const limit = createTimeLimit(1_000);
  expect(vi.getTimerCount()).toBe(0);
  const all = Array.from({ length: 50 }, () => open(limit));
  expect(vi.getTimerCount()).toBe(1);
  for (const { close } of all) close();
  vi.advanceTimersByTime(1_000);
  expect(vi.getTimerCount()).toBe(0);
  const again = open(limit);
  vi.advanceTimersByTime(2_000);
  expect(again.work.givenUp).toBe(1);
});
