import type { Database } from '../db/database.js';
import type { OperatorLogEntry as OperatorLogEntryModel, Prisma } from '../db/generated/prisma/client.js';
import type { ModelTransaction } from '../db/statements.js';
import {
  type Operator,
  type OperatorAction,
  type OperatorLogEntry,
  type RefusedLogIn,
  requirePermission,
} from '../domain/operators.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { LogActor } from './operators.sql.js';
import { actorNameOf } from './scopes.js';

/** The log of what operators did beside the projects, and of what they were refused there. */
export interface OperatorLog {
  /** Records what an operator was refused beside the projects. */
  recordRefusal(by: Operator, requestId: string | null, refused: string): Promise<void>;
  /** Records that a sign-in was refused, and of whom and why as far as that is known. */
  recordRefusedLogIn(requestId: string | null, details?: RefusedLogIn['details']): Promise<void>;
  /** The entries before the entry `before`, or the last ones (null), newest first. FORBIDDEN. */
  listLog(by: Operator, before: number | null, limit: number): Promise<OperatorLogEntry[]>;
  /** The entry before the newest `limit` ones; 0 if there are no more. FORBIDDEN. */
  findLogStart(by: Operator, limit: number): Promise<number>;
  /** The next entries after the entry `after`, oldest first. FORBIDDEN. */
  listLogAfter(by: Operator, after: number, limit: number): Promise<OperatorLogEntry[]>;
}

export function createOperatorLog(db: Database): OperatorLog {
  async function list(by: Operator, query: Prisma.OperatorLogEntryFindManyArgs): Promise<OperatorLogEntry[]> {
    requirePermission(by, 'govern');
    const entries = await db.models(({ operatorLogEntry }) => operatorLogEntry.findMany(query));
    return entries.map(toLogEntry);
  }

  return {
    async recordRefusal(by, requestId, refused) {
      await db.models((tx) => record(tx, logActor(by, requestId), 'refuse', { refused, role: by.role }));
    },

    async recordRefusedLogIn(requestId, details = {}) {
      await db.models((tx) => record(tx, { actor: 'unknown', requestId }, 'refuse', { refused: 'log_in', ...details }));
    },

    listLog: (by, before, limit) =>
      list(by, { where: { id: { lt: before ?? LARGEST_ID } }, orderBy: { id: 'desc' }, take: limit }),

    async findLogStart(by, limit) {
      const [entry] = await list(by, { orderBy: { id: 'desc' }, skip: limit, take: 1 });
      return entry?.id ?? 0;
    },

    listLogAfter: (by, after, limit) => list(by, { where: { id: { gt: after } }, orderBy: { id: 'asc' }, take: limit }),
  };
}

/** An operator as the log names them. */
export function logActor(by: Pick<Operator, 'name'>, requestId: string | null): LogActor {
  return { actor: actorNameOf(by), requestId };
}

/** Adds an entry to the log, in the transaction of what it records. */
export async function record(
  tx: ModelTransaction,
  by: LogActor,
  action: OperatorAction,
  details: Prisma.InputJsonObject,
): Promise<void> {
  await tx.operatorLogEntry.create({ data: { ...by, action, details } });
}

function toLogEntry({ id, at, actor, requestId, action, details }: OperatorLogEntryModel): OperatorLogEntry {
  return {
    id: Number(id),
    at: at.toISOString(),
    actor,
    requestId,
    action: action as OperatorAction,
    details: details as Record<string, unknown>,
  };
}
