import { setImmediate as nextTick } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createTurns, fewAtATime } from '#dist/db/one-at-a-time.js';

/** Reads that end when the test says so. */
function createReads() {
  const running: { project: number; end: (error?: Error) => void }[] = [];
  const read = fewAtATime(2, ({ projectId }: { projectId: number }) => {
    return new Promise<number>((resolve, reject) => {
      running.push({ project: projectId, end: (error) => (error ? reject(error) : resolve(projectId)) });
    });
  });
  return { running, read };
}

test('fewAtATime runs so many reads of a project at once, and those of another project beside them', async () => {
  const { running, read } = createReads();
  const ofOne = Array.from({ length: 5 }, () => read({ projectId: 1 }));
  const ofTwo = read({ projectId: 2 });
  await nextTick();
  expect(running.map(({ project }) => project)).toEqual([1, 1, 2]);
  for (let ended = 0; ended < running.length; ended += 1) {
    running[ended]?.end();
    await nextTick();
    expect(running.slice(ended + 1).filter(({ project }) => project === 1).length).toBeLessThanOrEqual(2);
  }
  expect(await Promise.all([...ofOne, ofTwo])).toEqual([1, 1, 1, 1, 1, 2]);
});

test('fewAtATime goes on after a read that fails, and starts again from nothing', async () => {
  const { running, read } = createReads();
  const results = Array.from({ length: 4 }, () => read({ projectId: 1 }).catch((error: Error) => error.message));
  for (let ended = 0; ended < 4; ended += 1) {
    await nextTick();
    running[ended]?.end(ended % 2 === 0 ? new Error('failed') : undefined);
  }
  expect(await Promise.all(results)).toEqual(['failed', 1, 'failed', 1]);
  const next = read({ projectId: 1 });
  await nextTick();
  running[4]?.end();
  expect(await next).toBe(1);
});

test('what waits for a turn leaves when its signal aborts, and takes no turn', async () => {
  const turns = createTurns(1);
  const ends: (() => void)[] = [];
  const begun: string[] = [];
  const work = (name: string) => () => {
    begun.push(name);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  const aborter = new AbortController();
  const gone = new Error('The client has gone.');
  const results = Promise.allSettled([
    turns.run(work('first')),
    turns.run(work('second'), aborter.signal),
    turns.run(work('third'), new AbortController().signal),
    turns.run(work('never'), AbortSignal.abort(gone)),
  ]);
  await nextTick();
  aborter.abort(gone);
  for (let ended = 0; ended < 2; ended += 1) {
    await nextTick();
    ends[ended]?.();
  }
  const ended = await results;
  expect(begun).toEqual(['first', 'third']);
  expect(ended.map((one) => (one.status === 'rejected' ? one.reason : 'done'))).toEqual(['done', gone, 'done', gone]);
  expect(turns.running()).toBe(0);
});
