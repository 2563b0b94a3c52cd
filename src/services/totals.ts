import type { Database } from '../db/database.js';
import type { ProjectScope } from '../domain/projects.js';
import { compareTallies, repairTallies, type TallyDifference } from '../sql/totals/check-tallies.js';
import { cutCrowdedDays, foldTallies, MAX_FOLDED, type Total } from '../sql/totals/totals.js';
import { createBackground, type OnFailure } from './background.js';

export type Totals = ReturnType<typeof createTotals>;

/** With more pending deltas than this, a fold pays off for the next reader. */
const MAX_PENDING = 64;
/** After so many users added or removed, a fold starts without waiting for a reader. */
const MAX_UNREAD = 1_000;
/** A fold leaves dead rows, which slow down every reader. After this many they are vacuumed. */
const MAX_FOLDED_UNVACUUMED = 5_000;

/** Keeps exact totals cheap: statements add up the tallies and the pending deltas, and folds keep the deltas few. */
export function createTotals(db: Database, onFailure: OnFailure) {
  const inBackground = createBackground(onFailure);
  const folding = new Map<number, Promise<void>>();
  /** By project: how many users this process has added or removed since a fold. */
  const unread = new Map<number, number>();
  let foldedSinceVacuum = 0;

  async function fold(projectId: number): Promise<void> {
    let folded = 0;
    for (let batch = MAX_FOLDED; batch === MAX_FOLDED; folded += batch) {
      batch = await db.transaction('READ COMMITTED', (tx) => foldTallies(tx, projectId));
    }
    foldedSinceVacuum += folded;
    if (foldedSinceVacuum > MAX_FOLDED_UNVACUUMED) {
      foldedSinceVacuum = 0;
      await db.vacuumDeltas();
    }
    // Of several folds only the last one looked for crowded days, and only among its own deltas.
    if (folded >= MAX_FOLDED) {
      await db.transaction('READ COMMITTED', (tx) => cutCrowdedDays(tx, projectId));
    }
  }

  /** Folds in the background, once at a time for a project. It changes no total, so after a failure the next reader tries again. */
  function foldInBackground(projectId: number): void {
    if (folding.has(projectId)) return;
    unread.delete(projectId);
    const folded = inBackground('Folding totals', () => fold(projectId));
    folding.set(
      projectId,
      folded.finally(() => folding.delete(projectId)),
    );
  }

  return {
    /** Starts a fold if the statement of a total had many pending deltas to add up. To be called by every reader of a total. */
    scheduleFold(projectId: number, { pending }: Pick<Total, 'pending'>): void {
      if (pending > MAX_PENDING) foldInBackground(projectId);
    },

    /** To be called when a user is added or removed: else the first reader after many would have to add up all of them. */
    countChange(projectId: number): void {
      const count = (unread.get(projectId) ?? 0) + 1;
      unread.set(projectId, count);
      if (count >= MAX_UNREAD) foldInBackground(projectId);
    },

    /** Folds the pending deltas now. */
    async fold(scope: ProjectScope): Promise<void> {
      const projectId = scope.projectIdFor('operate');
      await folding.get(projectId);
      await fold(projectId);
    },

    /** Counts the project's users and returns where its tallies differ. */
    check(scope: ProjectScope): Promise<TallyDifference[]> {
      const projectId = scope.projectIdFor('operate');
      // To count takes as long as it takes: a transaction has no time limit, behind a pooler either.
      return db.transaction('READ COMMITTED', (tx) => compareTallies(tx, projectId));
    },

    /** Corrects the tallies and returns the differences. */
    repair(scope: ProjectScope): Promise<TallyDifference[]> {
      const projectId = scope.projectIdFor('operate');
      return db.transaction('READ COMMITTED', (tx) => repairTallies(tx, projectId));
    },

    /** Waits for the folds in the background. */
    async flush(): Promise<void> {
      await Promise.all(folding.values());
    },
  };
}
