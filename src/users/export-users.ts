import { cacheKey } from '../db/batched-read.js';
import type { Queryable } from '../db/statements.js';
import { CSV_HEAD, formatBan, formatCsvUser, formatLine } from '../domain/export-format.js';
import { type CountedFilter, userFilter } from '../domain/filters.js';
import { foldAuthValue } from '../domain/identities.js';
import type { UserFormat } from '../domain/import-format.js';
import type { SpoolFile } from '../domain/stored.js';
import type { BanState, ExportedUser } from '../domain/users.js';
import { findSnapshotCursor } from '../feed/changes.js';
import { type BannedIdentity, type BanPage, exportBans, findBanned } from './bans.sql.js';
import { BATCH_SIZE } from './import-input.js';
import type { Leave } from './moving/leave.js';
import { exportUsers } from './transfers.sql.js';

/* Writes an export: users, and the bans after them. */

export interface ExportOptions {
  /** By default every current user. */
  readonly filter?: CountedFilter;
  /** By default NDJSON, which an import reads. */
  readonly format?: UserFormat;
  readonly requestId?: string | null;
  readonly write: (chunk: string) => Promise<void>;
  readonly signal: AbortSignal;
}

export interface Exported {
  users: number;
  bans: number;
  /** From where to follow the changes: those that the snapshot of the export may not have. */
  cursor: string;
  /** What the system to which they leave cannot hold, as plural nouns, with how often. */
  not_kept?: Readonly<Record<string, number>>;
}

interface ExportWork extends Required<Pick<ExportOptions, 'filter' | 'format' | 'signal'>> {
  readonly leave: Leave | null;
  readonly write: SpoolFile['write'];
}

/** Writes the users, and the bans after all users, from the snapshot of a transaction. */
export async function writeExport(
  tx: Queryable,
  projectId: number,
  { filter, format, leave, write, signal }: ExportWork,
): Promise<Exported> {
  const exported: Exported = { users: 0, bans: 0, cursor: await findSnapshotCursor(tx) };
  const toText = format === 'csv' ? formatCsvUser : formatLine;
  await write(leave?.head ?? (format === 'csv' ? CSV_HEAD : ''));
  for (let afterId = 0; ; ) {
    const { lastId, users } = await exportUsers(tx, projectId, filter, afterId, BATCH_SIZE);
    signal.throwIfAborted();
    if (lastId === null) break;
    await write(leave ? leave.write(users, await bansOf(tx, projectId, users)) : users.map(toText).join(''));
    exported.users += users.length;
    afterId = lastId;
  }
  const hasBans = isEveryone(filter) && format !== 'csv';
  for (let after: BannedIdentity | null = null; hasBans; ) {
    const { bans, last }: BanPage = await exportBans(tx, projectId, after, BATCH_SIZE);
    signal.throwIfAborted();
    if (last === null) break;
    after = last;
    if (!leave) await write(bans.map(formatBan).join(''));
    exported.bans += bans.length;
  }
  if (!leave) return exported;
  await write(leave.end(hasBans ? exported.bans : null));
  return { ...exported, ...leave.report() };
}

/** The bans of users, by their IDs: that of the user or of the primary identity. */
async function bansOf(tx: Queryable, projectId: number, users: readonly ExportedUser[]) {
  const bans = new Map<number, BanState>();
  if (users.length === 0) return bans;
  const keys = users.map(({ id: userId }) => ({ projectId, userId }));
  for (const ban of await findBanned(tx, keys)) {
    const { id, auth_method, auth_value } = users[ban.keyIndex - 1] as ExportedUser;
    const isPrimary = () =>
      ban.authMethod === auth_method && ban.authValueKey === foldAuthValue(auth_method, auth_value, 'auth_value');
    if (ban.isOfUser || isPrimary()) bans.set(id, ban);
  }
  return bans;
}

/** True for a filter that selects every user. */
export const isEveryone = (filter: CountedFilter) => filter === EVERYONE || cacheKey(filter) === cacheKey(EVERYONE);
export const EVERYONE = userFilter({});

/** The parts of a filter that restrict the users. */
export function describeFilter({ createdFrom, createdTo, loginMethods }: CountedFilter) {
  return {
    ...(createdFrom > EVERYONE.createdFrom && { from: createdFrom }),
    ...(createdTo < EVERYONE.createdTo && { to: createdTo }),
    ...(loginMethods !== null && { login_methods: loginMethods }),
  };
}
