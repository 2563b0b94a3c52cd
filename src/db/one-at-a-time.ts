import { setImmediate as nextTick } from 'node:timers/promises';
import { cacheKey } from './batched-read.js';

/** Runs an expensive read once at a time for each project, so no other project waits for it. Equal requests that have not started share one read. */
export function oneAtATime<Key extends { readonly projectId: number }, Result>(
  read: (key: Key) => Promise<Result>,
): (key: Key) => Promise<Result> {
  const lastOfProject = new Map<number, Promise<unknown>>();
  const waiting = new Map<string, Promise<Result>>();
  return (key) => {
    const text = cacheKey(key);
    const equal = waiting.get(text);
    if (equal !== undefined) return equal;
    const { projectId } = key;
    const result = runAfter(lastOfProject.get(projectId));
    waiting.set(text, result);
    const ended = result.then(release, release);
    lastOfProject.set(projectId, ended);
    return result;

    async function runAfter(before: Promise<unknown> | undefined): Promise<Result> {
      await before;
      await nextTick();
      waiting.delete(text);
      return read(key);
    }

    function release(): void {
      if (lastOfProject.get(projectId) === ended) lastOfProject.delete(projectId);
    }
  };
}

/** Runs a read at most `most` times at once for each project, so that one request cannot take all connections. */
export function fewAtATime<Key extends { readonly projectId: number }, Result>(
  most: number,
  read: (key: Key) => Promise<Result>,
): (key: Key) => Promise<Result> {
  const projects = new Map<number, Turns>();
  return async (key) => {
    const { projectId } = key;
    const turns = projects.get(projectId) ?? createTurns(most);
    projects.set(projectId, turns);
    try {
      return await turns.run(() => read(key));
    } finally {
      if (turns.running() === 0) projects.delete(projectId);
    }
  };
}

/** Runs work at most `most` times at once, in the order in which it comes. */
export interface Turns {
  /** The number of those that run at this moment. */
  running(): number;
  /** Runs work in its turn. Rejects where the signal aborts before that. */
  run<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result>;
}

export function createTurns(most: number): Turns {
  const waiting: (() => void)[] = [];
  let running = 0;

  /** Resolves when work that ends hands its place over. */
  function turn(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = () => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = () => {
        waiting.splice(waiting.indexOf(begin), 1);
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', leave, { once: true });
      waiting.push(begin);
    });
  }

  return {
    running: () => running,
    async run(work, signal) {
      signal?.throwIfAborted();
      if (running < most) running += 1;
      else await turn(signal);
      try {
        return await work();
      } finally {
        const next = waiting.shift();
        if (next !== undefined) next();
        else running -= 1;
      }
    },
  };
}
