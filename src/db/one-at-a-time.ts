import { setImmediate as nextTurn } from 'node:timers/promises';
import { keyText } from './key-text.js';

/**
 * A costly read, of which a project has one at a time: its own requests wait for each other, and not those of others for them. Who
 * asks the same as one that has not begun waits with it.
 */
export function oneAtATime<Key extends { readonly projectId: number }, Result>(
  read: (key: Key) => Promise<Result>,
): (key: Key) => Promise<Result> {
  const lastOf = new Map<number, Promise<unknown>>();
  const waiting = new Map<string, Promise<Result>>();
  return (key) => {
    const text = keyText(key);
    const same = waiting.get(text);
    if (same !== undefined) return same;
    const { projectId } = key;
    const before = lastOf.get(projectId);
    const result = begin(before);
    waiting.set(text, result);
    const ended = result.then(leave, leave);
    lastOf.set(projectId, ended);
    return result;

    async function begin(earlier: Promise<unknown> | undefined): Promise<Result> {
      await earlier;
      await nextTurn();
      waiting.delete(text);
      return read(key);
    }

    function leave(): void {
      if (lastOf.get(projectId) === ended) lastOf.delete(projectId);
    }
  };
}
