import type { Database } from '../db/database.js';
import { findChangedProjects } from '../sql/changes.js';

/** Tells followers when their project has new changes: one statement for all projects that are followed, at each publication. */
export function createNews(db: Database, listen: (listener: (published: number) => void) => () => void) {
  const waiting = new Map<number, Set<() => void>>();
  let checked: number | null = null;
  let stopListening: (() => void) | null = null;
  let checking: Promise<void> = Promise.resolve();

  function wake(projectIds: Iterable<number>): void {
    for (const projectId of projectIds) for (const resolve of waiting.get(projectId) ?? []) resolve();
  }

  async function check(published: number): Promise<void> {
    const from = checked;
    checked = published;
    // A smaller number is that of a database that was restored.
    if (from === null || published < from) return wake([...waiting.keys()]);
    await findChangedProjects(db, [...waiting.keys()], from, published).then(wake, () => wake([...waiting.keys()]));
  }

  return {
    /** `wait` resolves once the project may have changes that were not published when this was called, or when `signal` aborts. */
    of(projectId: number, signal: AbortSignal) {
      stopListening ??= listen((published) => {
        checking = checking.then(() => check(published));
      });
      let resolve = () => {};
      const woken = new Promise<void>((done) => {
        resolve = done;
      });
      const ofProject = waiting.get(projectId) ?? new Set();
      waiting.set(projectId, ofProject.add(resolve));
      signal.addEventListener('abort', resolve, { once: true });
      if (signal.aborted) resolve();
      return {
        wait: () => woken,
        forget() {
          signal.removeEventListener('abort', resolve);
          ofProject.delete(resolve);
          if (ofProject.size === 0) waiting.delete(projectId);
          if (waiting.size > 0 || stopListening === null) return;
          stopListening();
          stopListening = null;
          checked = null;
        },
      };
    },
  };
}
