import type { Database } from '../db/database.js';
import type { Project } from '../db/generated/prisma/client.js';
import { inBatches, type Queryable } from '../db/statements.js';
import { MAX_REQUESTS_PER_MINUTE } from '../domain/bounds.js';
import {
  type Actor,
  type AuditAction,
  type DeletedPart,
  type ProjectScope,
  requireProjectName,
} from '../domain/projects.js';
import { AppError, afterwards, badInput } from '../errors.js';
import { pruneChanges } from '../feed/changes.sql.js';
import { recordAction } from '../projects/audit.sql.js';
import * as sql from '../projects/projects.sql.js';
import { type Waiting, withoutImport } from './one-import.js';
import type { Totals } from './totals.js';

/** Rows in a transaction of a deletion. A user may have 100 accounts, which go with the user. */
const BATCH_SIZE = 2_000;

/** The signal ends a deletion before it is complete. The project stays disabled, and a second deletion deletes the rest. */
export interface DeletionOptions extends Waiting {
  /** Called with the number of users who are deleted so far, removed ones included. */
  readonly progress: (users: number) => void;
}

/** Changes a project as a whole, idempotently, and tells whether something has changed. */
export interface ProjectLifecycle {
  /** Gives the project another name. BAD_USER_INPUT. */
  renameProject(scope: ProjectScope, name: string, requestId?: string | null): Promise<boolean>;
  /** Refuses the project's credentials with PROJECT_DISABLED, within a second in every process. Its data is kept. */
  disableProject(scope: ProjectScope, requestId?: string | null): Promise<boolean>;
  /** Accepts the project's credentials again. */
  enableProject(scope: ProjectScope, requestId?: string | null): Promise<boolean>;
  /** The project's own rate limit instead of RATE_LIMIT; null for RATE_LIMIT. In effect within a second. BAD_USER_INPUT. */
  limitProject(scope: ProjectScope, requestsPerMinute: number | null, requestId?: string | null): Promise<boolean>;
  /**
   * Disables the project, then deletes it with all that it has, in transactions of bounded size, and returns the number of its users.
   * This cannot be undone. Its totals are exact until the end. UNAVAILABLE if an import of it runs for longer than `waitMs`.
   */
  deleteProject(scope: ProjectScope, options: DeletionOptions, requestId?: string | null): Promise<number>;
  /**
   * Deletes as much of the project as it can in about `ms`, as deleteProject does, and tells how many users that were. A part that `goesOn`
   * with a deletion is not recorded again. `isBusy`: an import of the project keeps it waiting.
   */
  deletePart(scope: ProjectScope, part: PartOfDeletion, requestId?: string | null): Promise<DeletedPart>;
}

export interface PartOfDeletion {
  readonly ms: number;
  /** True if an earlier part was deleted before. */
  readonly goesOn: boolean;
}

/** `onChanged` hears that the credentials of a project may have changed. */
export function createProjectLifecycle(db: Database, totals: Totals, onChanged: () => void): ProjectLifecycle {
  const deletion = { db, totals, onChanged };

  return {
    async renameProject(scope, name, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      const to = requireProjectName(name);
      return change(db, actor, 'rename', ({ name: from }) =>
        from === to ? undefined : { data: { name: to }, details: { from, to } },
      );
    },

    async disableProject(scope, requestId = null) {
      const hasChanged = await change(db, scope.actorFor('operate', requestId), 'disable', ({ disabledAt }) =>
        disabledAt === null ? { data: { disabledAt: new Date() } } : undefined,
      );
      onChanged();
      return hasChanged;
    },

    async enableProject(scope, requestId = null) {
      const hasChanged = await change(db, scope.actorFor('operate', requestId), 'enable', ({ disabledAt }) =>
        disabledAt === null ? undefined : { data: { disabledAt: null } },
      );
      onChanged();
      return hasChanged;
    },

    async limitProject(scope, requestsPerMinute, requestId = null) {
      const isInRange = (rate: number) => Number.isInteger(rate) && rate >= 1 && rate <= MAX_REQUESTS_PER_MINUTE;
      if (requestsPerMinute !== null && !isInRange(requestsPerMinute))
        throw badInput('rate', requestsPerMinute, `a whole number from 1 to ${MAX_REQUESTS_PER_MINUTE}`);
      const details = { requests_per_minute: requestsPerMinute };
      const hasChanged = await change(db, scope.actorFor('operate', requestId), 'limit', (before) =>
        before.requestsPerMinute === requestsPerMinute ? undefined : { data: { requestsPerMinute }, details },
      );
      onChanged();
      return hasChanged;
    },

    async deleteProject(scope, options, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      await change(db, actor, 'delete', ({ disabledAt }) => ({ data: { disabledAt: disabledAt ?? new Date() } }));
      onChanged();
      let users = 0;
      for await (const deleted of deleteRows(deletion, scope, actor, options)) {
        users += deleted;
        if (deleted > 0) options.progress(users);
      }
      return users;
    },

    async deletePart(scope, { ms, goesOn }, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      await change(db, actor, 'delete', ({ disabledAt }) =>
        goesOn && disabledAt !== null ? undefined : { data: { disabledAt: disabledAt ?? new Date() } },
      );
      onChanged();
      return deleteFor(ms, deletion, scope, actor);
    },
  };
}

interface ProjectChange {
  /** The instant of `disabledAt` is compared with no other, so it is by the clock of this process. */
  readonly data: Partial<Pick<Project, 'name' | 'disabledAt' | 'requestsPerMinute'>>;
  readonly details?: Readonly<Record<string, unknown>>;
}

/** Changes a project by its state before, with an audit entry. A change of nothing (undefined) is not recorded. */
async function change(
  db: Database,
  actor: Actor,
  action: AuditAction,
  changeOf: (before: Project) => ProjectChange | undefined,
): Promise<boolean> {
  return db.change(async (tx) => {
    const where = { id: actor.projectId };
    await sql.lockProject(tx, where.id);
    const before = await tx.project.findUnique({ where });
    const changed = before === null ? undefined : changeOf(before);
    if (changed === undefined) return false;
    await tx.project.update({ where, data: changed.data });
    await recordAction(tx, actor, action, changed.details ?? {});
    return true;
  });
}

/** What a deletion uses. */
interface Deletion {
  readonly db: Database;
  readonly totals: Pick<Totals, 'fold'>;
  readonly onChanged: () => void;
}

/** Deletes what the project has, in transactions of bounded size. Yields after each how many users it has deleted. */
async function* deleteRows(
  { db, totals, onChanged }: Deletion,
  scope: ProjectScope,
  actor: Actor,
  options: Waiting,
): AsyncGenerator<number> {
  const alone = <Result>(work: (tx: Queryable) => Promise<Result>, waiting: Waiting = options) =>
    withoutImport(db, actor.projectId, waiting, work);
  let all = 0;
  for (const table of sql.LARGE_TABLES) {
    for (let deleted = BATCH_SIZE; deleted > 0; ) {
      deleted = await alone((tx) => sql.deleteRows(tx, actor.projectId, table, BATCH_SIZE));
      const users = table.name === 'users' ? deleted : 0;
      all += users;
      yield users;
    }
    if (table.name === 'users') await totals.fold(scope);
  }
  // The rest of the changes goes with the project.
  await inBatches((limit) => alone((tx) => pruneChanges(tx, actor.projectId, 0, limit)));
  // Permitted before, and not at the end: the right of an operator who is limited to the project goes with it.
  const { permit, ...unasked } = options;
  await alone(async (tx) => {
    await permit?.(tx);
    await sql.deleteProject(tx, actor);
  }, unasked);
  onChanged();
  if (all > BATCH_SIZE) await afterwards(db.vacuum());
}

/** Deletes what the project has for about `ms`. */
async function deleteFor(ms: number, deletion: Deletion, scope: ProjectScope, actor: Actor): Promise<DeletedPart> {
  const endsAt = performance.now() + ms;
  let users = 0;
  let isBusy = false;
  const onWait = () => {
    isBusy = true;
  };
  const waiting = { waitMs: ms, onWait, signal: new AbortController().signal };
  try {
    for await (const deleted of deleteRows(deletion, scope, actor, waiting)) {
      users += deleted;
      if (performance.now() > endsAt) return { users, isDone: false, isBusy };
    }
  } catch (error) {
    if (isBusy && error instanceof AppError && error.code === 'UNAVAILABLE') return { users, isDone: false, isBusy };
    throw error;
  }
  return { users, isDone: true, isBusy };
}
