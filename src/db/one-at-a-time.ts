import { setImmediate as nextTick } from 'node:timers/promises';
import { cacheKey } from './batched-read.js';

/**
 * Runs an expensive read once at a time for each project: requests of one project wait for each other, and no other project
 * waits for them. Equal requests that have not started yet share one read.
 */
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
  const projects = new Map<number, { running: number; readonly waiting: (() => void)[] }>();
  return async (key) => {
    const { projectId } = key;
    const project = projects.get(projectId) ?? { running: 0, waiting: [] };
    projects.set(projectId, project);
    if (project.running < most) project.running += 1;
    // The read that ends hands its place over.
    else await new Promise<void>((resolve) => project.waiting.push(resolve));
    try {
      return await read(key);
    } finally {
      const next = project.waiting.shift();
      if (next !== undefined) next();
      else project.running -= 1;
      if (project.running === 0) projects.delete(projectId);
    }
  };
}
