import type { Database } from '../db/database.js';
import * as sql from './changes.sql.js';

/** Tells followers when their project has new changes: one statement for all projects that are followed, at each publication. */
export interface News {
  /** Of a project from now on, until it is forgotten. */
  of(projectId: number, signal: AbortSignal): ProjectNews;
}

export interface ProjectNews {
  /** Resolves once the project may have changes that were not published when this began, or when the signal aborts. */
  wait(): Promise<void>;
  /** Ends it. */
  forget(): void;
}

export function createNews(db: Database, listen: (listener: (published: number) => void) => () => void): News {
  const waiting = new Map<number, Set<() => void>>();
  let checked: number | null = null;
  let latest = 0;
  let isChecking = false;
  let stopListening: (() => void) | null = null;

  function wake(projectIds: Iterable<number>): void {
    for (const projectId of projectIds) for (const resolve of waiting.get(projectId) ?? []) resolve();
  }

  async function check(published: number): Promise<void> {
    const from = checked;
    checked = published;
    // A smaller number is that of a database that was restored.
    if (from === null || published < from) return wake([...waiting.keys()]);
    await sql.findChangedProjects(db, [...waiting.keys()], from, published).then(wake, () => wake([...waiting.keys()]));
  }

  /** One look at a time: what is published meanwhile is in the next one, however much it is. */
  async function checkLatest(published: number): Promise<void> {
    latest = published;
    if (isChecking) return;
    isChecking = true;
    while (checked !== latest) await check(latest);
    isChecking = false;
  }

  return {
    of(projectId, signal) {
      stopListening ??= listen(checkLatest);
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
