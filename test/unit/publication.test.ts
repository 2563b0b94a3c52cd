import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createPublication } from '#dist/feed/publication.js';

/** What a process knows of what is published, by a clock that the test sets. */

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

test('each listener hears of each change of what is published, until it ends', () => {
  const publication = createPublication();
  const heard: [string, number][] = [];
  expect(publication.hasListeners()).toBe(false);
  const stop = publication.listen((id) => heard.push(['first', id]));
  const stopOther = publication.listen((id) => heard.push(['other', id]));
  publication.announce(3);
  publication.announce(3);
  stop();
  expect(publication.hasListeners()).toBe(true);
  publication.announce(4);
  stopOther();
  publication.announce(5);
  expect([publication.hasListeners(), publication.published()]).toEqual([false, 5]);
  expect(heard).toEqual([
    ['first', 3],
    ['other', 3],
    ['other', 4],
  ]);
});

test('it is busy while somebody listens, and for five seconds after a change', () => {
  const publication = createPublication();
  expect(publication.isBusy()).toBe(false);
  const stop = publication.listen(() => undefined);
  expect(publication.isBusy()).toBe(true);
  stop();
  expect(publication.isBusy()).toBe(false);
  publication.announce(1);
  vi.advanceTimersByTime(4_999);
  // What was known is no change.
  publication.announce(1);
  expect(publication.isBusy()).toBe(true);
  vi.advanceTimersByTime(1);
  expect(publication.isBusy()).toBe(false);
});

test('it lags since the first change that is not published, until all are', () => {
  const publication = createPublication();
  publication.announce(1);
  vi.advanceTimersByTime(1_000);
  expect(publication.lagSeconds()).toBe(0);
  publication.awaitNext();
  vi.advanceTimersByTime(1_500);
  publication.awaitNext();
  publication.announce(2, 3);
  vi.advanceTimersByTime(500);
  expect(publication.lagSeconds()).toBe(2);
  publication.announce(3, 3);
  expect(publication.lagSeconds()).toBe(0);
});

test('who waits for a listener goes on with the first one, and where it is woken', async () => {
  const publication = createPublication();
  const begin = (way: () => void) => {
    let isOver = false;
    void publication.untilListened().then(() => {
      isOver = true;
    });
    return async () => {
      await Promise.resolve();
      const before = isOver;
      way();
      await new Promise((resolve) => setImmediate(resolve));
      return [before, isOver];
    };
  };
  let stop = () => {};
  expect(await begin(() => publication.wake())()).toEqual([false, true]);
  const listen = () => {
    stop = publication.listen(() => undefined);
  };
  expect(await begin(listen)()).toEqual([false, true]);
  // One is there.
  expect(await begin(() => undefined)()).toEqual([true, true]);
  stop();
});
