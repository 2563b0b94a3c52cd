import type { Database } from '../db/client.js';
import { compareTallies, repairTallies, type TallyDifference } from '../sql/totals/check-tallies.js';
import { cutCrowdedDays, FOLD_AT_ONCE, foldTallies, type Total } from '../sql/totals/totals.js';
import { createBackground, type OnFailure } from './background.js';
import type { ProjectScope } from './projects.js';

export type { TallyDifference };
export type Totals = ReturnType<typeof createTotals>;

/** A reader adds up this many pending changes without noticing; beyond it they are folded behind his back. */
const PENDING_TO_FOLD = 64;
/** What was folded leaves dead rows behind, past which every reader walks until they are vacuumed. */
const FOLDED_TO_VACUUM = 5_000;

/** Exact totals: they are read with the rows they belong to, and kept cheap by folding what has piled up. */
export function createTotals(db: Database, onFailure: OnFailure) {
  const inBackground = createBackground(onFailure);
  const folding = new Map<number, Promise<void>>();
  let foldedSinceVacuum = 0;

  async function fold(projectId: number): Promise<void> {
    let folded = 0;
    for (let batch = FOLD_AT_ONCE; batch === FOLD_AT_ONCE; folded += batch) {
      batch = await db.transaction('READ COMMITTED', (tx) => foldTallies(tx, projectId));
    }
    foldedSinceVacuum += folded;
    if (foldedSinceVacuum > FOLDED_TO_VACUUM) {
      foldedSinceVacuum = 0;
      await db.vacuumDeltas();
    }
    // Of several folds only the last has looked for crowded days, and only among its own.
    if (folded >= FOLD_AT_ONCE) {
      await db.transaction('READ COMMITTED', (tx) => cutCrowdedDays(tx, projectId));
    }
  }

  /** Folds in the background, once at a time for a project. It changes no total, so a failure waits for the next reader. */
  function foldLater(projectId: number): void {
    if (folding.has(projectId)) return;
    const folded = inBackground('Folding totals', () => fold(projectId));
    folding.set(
      projectId,
      folded.finally(() => folding.delete(projectId)),
    );
  }

  return {
    /** The number of a total that a statement has read. */
    read(projectId: number, { total, pending }: Total): number {
      if (pending > PENDING_TO_FOLD) foldLater(projectId);
      return total;
    },

    /** Folds what is pending now. */
    async fold(scope: ProjectScope): Promise<void> {
      const projectId = scope.idFor('operate');
      await folding.get(projectId);
      await fold(projectId);
    },

    /** Counts the project's users again and returns where its tallies say otherwise. */
    check(scope: ProjectScope): Promise<TallyDifference[]> {
      return compareTallies(db, scope.idFor('operate'));
    },

    /** Makes the tallies say what the users do; returns the differences that it has mended. */
    repair(scope: ProjectScope): Promise<TallyDifference[]> {
      const projectId = scope.idFor('operate');
      return db.transaction('READ COMMITTED', (tx) => repairTallies(tx, projectId));
    },

    /** Waits for the folds that are under way. */
    async settle(): Promise<void> {
      await Promise.all(folding.values());
    },
  };
}
