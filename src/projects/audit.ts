import type { Database } from '../db/database.js';
import { isForeignKeyViolation } from '../db/failures.js';
import { formatCsvLine } from '../domain/csv-cells.js';
import { cursor, type Position, positionOf } from '../domain/cursors.js';
import { atMost, isTooLong } from '../domain/input-limits.js';
import { dateBound } from '../domain/parameters.js';
import { parse, userId } from '../domain/parse.js';
import {
  AUDIT_ACTIONS,
  type AuditEntry,
  type AuditFilter,
  type AuditQuestion,
  entryJson,
  type ProjectScope,
} from '../domain/projects.js';
import { badInput } from '../errors.js';
import { findAuditEntryBefore, listAuditEntries, listAuditPage, recordAction } from './audit.sql.js';

const arguments_ = { userId: userId('userId'), since: dateBound('since', 'first'), until: dateBound('until', 'last') };

/** The audit trail. The statements that change something write its entries. */
export interface Audit {
  /** After which position the newest `limit` entries from an instant on begin; null: with the first of all. BAD_USER_INPUT. */
  findStart(scope: ProjectScope, earliest: string | null | undefined, limit: number): Promise<Position | null>;
  /** The next `limit` entries after a position (null: from the first on), oldest first. */
  listEntries(scope: ProjectScope, after: Position | null, limit: number): Promise<AuditEntry[]>;
  /** The next `limit` entries after a cursor (null: from the newest on) that meet all conditions. BAD_USER_INPUT. */
  listPage(scope: ProjectScope, question: AuditQuestion, page: AuditPage): Promise<ListedAuditPage>;
  /** Says what is wrong with conditions. BAD_USER_INPUT. */
  checkQuestion(question: AuditQuestion): void;
  /** Writes the entries that meet all conditions, newest first, and returns their number. Entries are only added, so it needs no snapshot. */
  exportEntries(scope: ProjectScope, question: AuditQuestion, options: ExportEntriesOptions): Promise<number>;
  /** Records what an operator was refused. The role does not allow it, so the entry is all that remains of it. A project that is gone has no trail. */
  recordRefusal(scope: ProjectScope, requestId: string | null, refused: string): Promise<void>;
}

/** A page of the trail. */
export interface AuditPage {
  /** The cursor of the page before; null for the first one. */
  readonly after: string | null;
  readonly limit: number;
}

/** A page of the trail as it was read. */
export interface ListedAuditPage {
  readonly entries: AuditEntry[];
  readonly hasNext: boolean;
}

export interface ExportEntriesOptions {
  readonly format: 'ndjson' | 'csv';
  readonly write: (chunk: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export function createAudit(db: Database): Audit {
  return {
    async findStart(scope, earliest, limit) {
      const { since } = readQuestion({ since: earliest });
      const before = await findAuditEntryBefore(db.replicaReads, scope.projectIdFor('inspect'), since, limit);
      return before === undefined ? since && { createdAt: since, id: 0 } : positionOf(before);
    },

    listEntries(scope, after, limit) {
      return listAuditEntries(db.replicaReads, scope.projectIdFor('inspect'), after, limit);
    },

    async listPage(scope, question, page) {
      const { after, limit } = page;
      const projectId = scope.projectIdFor('inspect');
      const position = after === null ? null : parse(cursor('after', 'the audit trail'), after);
      const entries = await listAuditPage(db.replicaReads, projectId, readQuestion(question), position, limit + 1);
      return { entries: entries.slice(0, limit), hasNext: entries.length > limit };
    },

    checkQuestion: (question) => void readQuestion(question),

    async exportEntries(scope, question, options) {
      const projectId = scope.projectIdFor('inspect');
      const filter = readQuestion(question);
      const { format, write, signal } = options;
      let exported = 0;
      if (format === 'csv') await write(formatCsvLine(CSV_COLUMNS));
      for (let last: AuditEntry | undefined; ; ) {
        const after = last === undefined ? null : positionOf(last);
        const entries = await listAuditPage(db.replicaReads, projectId, filter, after, BATCH_SIZE);
        signal.throwIfAborted();
        last = entries.at(-1);
        if (last === undefined) return exported;
        await write(entries.map(format === 'csv' ? formatCsvEntry : formatEntry).join(''));
        exported += entries.length;
      }
    },

    async recordRefusal(scope, requestId, refused) {
      await recordAction(db, scope.actorFor('inspect', requestId), 'refuse', { refused }).catch((error) => {
        if (!isForeignKeyViolation(error)) throw error;
      });
    },
  };
}

const BATCH_SIZE = 1_000;
const CSV_COLUMNS = ['id', 'at', 'actor', 'action', 'user_id', 'request_id', 'details'];

function formatEntry(entry: AuditEntry): string {
  return `${JSON.stringify(entryJson(entry))}\n`;
}

function formatCsvEntry({ id, at, actor, action, userId: user, requestId, details }: AuditEntry): string {
  return formatCsvLine([id, at, actor, action, user, requestId, JSON.stringify(details)]);
}

function readQuestion({ actor, action, userId: id, since, until }: AuditQuestion): AuditFilter {
  if (actor != null && isTooLong('actor', actor)) throw badInput('actor', actor, `text of ${atMost('actor')}`);
  const auditAction = AUDIT_ACTIONS.find((name) => name === action);
  if (action != null && auditAction === undefined)
    throw badInput('action', action, `one of ${AUDIT_ACTIONS.join(', ')}`);
  return {
    actor: actor ?? null,
    action: auditAction ?? null,
    userId: id == null ? null : parse(arguments_.userId, id),
    since: since == null ? null : parse(arguments_.since, since),
    until: until == null ? null : parse(arguments_.until, until),
  };
}
