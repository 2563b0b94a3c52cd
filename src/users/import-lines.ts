import type { Queryable } from '../db/statements.js';
import type { BanRecord } from '../domain/bans.js';
import {
  externalIdTaken,
  identityText,
  MAX_ACCOUNTS,
  MAX_IDENTITIES,
  tooManyAccounts,
  tooManyIdentities,
  type UserRecord,
} from '../domain/identities.js';
import type { LineRecord, OnConflict } from '../domain/import-format.js';
import { show } from '../errors.js';
import { type ImportedBans, importBans } from './bans.sql.js';
import { findHolders, findLinkStates, type Holder, type Link, linkIdentities } from './import-links.sql.js';
import {
  fail,
  type ImportReport,
  type LineOutcome,
  type LinePlace,
  lineOf,
  type RunningReport,
  type Tell,
} from './import-report.js';
import { findUserIds } from './imports.sql.js';
import {
  addOrUpdateUsers,
  addUsers,
  type Difference,
  findDifferences,
  findOverfull,
  findTaken,
  type ImportRows,
  toImportRows,
} from './transfers.sql.js';
import type { ImportChange } from './user-columns.sql.js';

/* Writes the lines of an import, or checks them (import-users.ts says when). */

export interface ParsedLine extends LinePlace {
  readonly record: LineRecord;
}

/** A line with a user. */
interface UserLine extends LinePlace {
  readonly record: UserRecord;
}

/** Lines of different users. */
interface PreparedUsers {
  readonly lines: readonly UserLine[];
  readonly rows: ImportRows;
}

/** A batch in the form of the statements that write it, which takes the time of a fifth of them. */
export interface PreparedBatch {
  readonly bans: readonly BanRecord[];
  readonly users: PreparedUsers;
}

export function prepareBatch(batch: readonly ParsedLine[]): PreparedBatch {
  const bans = batch.flatMap(({ record }) => ('ban' in record ? [record.ban] : []));
  const users = batch.flatMap(({ record, ...place }) => ('user' in record ? [{ ...place, record: record.user }] : []));
  return { bans, users: prepareUsers(users) };
}

export const isEmptyBatch = ({ bans, users }: PreparedBatch): boolean => bans.length === 0 && users.lines.length === 0;

function prepareUsers(lines: readonly UserLine[]): PreparedUsers {
  return { lines, rows: toImportRows(lines.map(({ record }) => record)) };
}

/** Writes the lines of a batch, in a transaction. Returns the ids of the users who are new, and tells what became of each line where that is wanted. */
export async function writeBatch(
  db: Queryable,
  projectId: number,
  { bans, users }: PreparedBatch,
  report: RunningReport,
  onConflict: OnConflict,
  tell: Tell | null,
): Promise<readonly number[]> {
  const created: number[] = [];
  const updated = new Set<number>();
  if (users.lines.length > 0) await writeUsers();
  // After the users, whom they may ban.
  if (bans.length > 0) countBans(report, bans.length, await importBans(db, projectId, bans));
  if (users.lines.length > 0) await tell?.(await outcomesOf());
  return created;

  async function writeUsers(): Promise<void> {
    if (isChange(onConflict)) await updateByHalves(await asUsers(db, projectId, users), onConflict);
    else await addLines(db, projectId, users, report, onConflict, created);
  }

  async function outcomesOf(): Promise<LineOutcome[]> {
    const failures = report.failures?.splice(0) ?? [];
    const failed = new Set(failures.map(lineOf));
    const lines = users.lines.filter(({ line }) => !failed.has(line));
    const ids = await findUserIds(
      db,
      projectId,
      lines.map(({ record }) => record),
    );
    const isNew = new Set(created);
    const rest = onConflict === 'skip' ? 'skipped' : 'unchanged';
    const outcomes = lines.map(({ line, sourceId }, place): LineOutcome => {
      const id = ids[place] ?? null;
      const outcome = id !== null && isNew.has(id) ? 'created' : updated.has(line) ? 'updated' : rest;
      return { line, source_id: sourceId, user_id: id, outcome };
    });
    return [...failures, ...outcomes].sort((one, other) => one.line - other.line);
  }

  /** Writes lines by halves while one of them may have the external id of another user, as if they were written one after another. */
  async function updateByHalves(part: PreparedUsers, how: ImportChange): Promise<void> {
    const left = await updateLines(db, projectId, part, report, how, { created, updated });
    if (left.length === 1) return fail(report, left[0] as UserLine, externalIdTaken().message);
    const middle = left.length >> 1;
    for (const half of [left.slice(0, middle), left.slice(middle)])
      if (half.length > 0) await updateByHalves(prepareUsers(half), how);
  }
}

/** True where users who exist are changed. */
const isChange = (onConflict: OnConflict): onConflict is ImportChange =>
  onConflict === 'update' || onConflict === 'replace';

function countBans(report: ImportReport, lines: number, { added, ended }: ImportedBans): void {
  report.bans = (report.bans ?? 0) + added;
  report.bans_ended = (report.bans_ended ?? 0) + ended;
  report.bans_kept = (report.bans_kept ?? 0) + lines - added - ended;
}

/** Adds the users of lines. The database decides of each line whether it is one. */
async function addLines(
  tx: Queryable,
  projectId: number,
  part: PreparedUsers,
  report: RunningReport,
  onConflict: 'skip' | 'fail',
  created: number[],
): Promise<void> {
  const { prepared, links } = await withLinks(tx, projectId, part, report, onConflict);
  const { lines, rows } = prepared;
  const ids = await addUsers(tx, projectId, rows);
  const left = lines.filter((_, place) => ids[place] === null);
  created.push(...ids.filter((id) => id !== null));
  await linkIdentities(tx, projectId, without(left, links));
  await reportAdded(tx, projectId, { lines, left }, report, onConflict);
}

/** Counts lines as new users, but those that are `left`, because their users exist or others have their external ids. */
async function reportAdded(
  db: Queryable,
  projectId: number,
  { lines, left }: Readonly<Record<'lines' | 'left', readonly UserLine[]>>,
  report: RunningReport,
  onConflict: 'skip' | 'fail',
): Promise<void> {
  report.imported += lines.length - left.length;
  report.created += lines.length - left.length;
  const records = left.map(({ record }) => record);
  const taken = new Set(await findTaken(db, projectId, records));
  for (const [index, line] of left.entries()) {
    const identity = `auth_method ${show(line.record.authMethod)} and this auth_value`;
    // The external id of another system tells who it is.
    const isPerson = onConflict === 'skip' && line.sourceId !== null;
    if (taken.has(index + 1) && !isPerson) fail(report, line, externalIdTaken().message);
    else if (onConflict === 'skip') report.skipped += 1;
    else fail(report, line, `A user with ${identity} exists already.`);
  }
}

/** Counts what `writeBatch` would do. It writes nothing, and sees nothing of what the batches before would have written. */
export async function checkBatch(
  db: Queryable,
  projectId: number,
  { users }: PreparedBatch,
  report: RunningReport,
  onConflict: OnConflict,
): Promise<void> {
  if (users.lines.length === 0) return;
  const given = isChange(onConflict) ? await asUsers(db, projectId, users) : users;
  const { prepared, links } = await withLinks(db, projectId, given, report, onConflict);
  const { lines, rows } = prepared;
  const records = lines.map(({ record }) => record);
  if (!isChange(onConflict)) {
    const ids = await findUserIds(db, projectId, records);
    const taken = new Set(await findTaken(db, projectId, records));
    const left = lines.filter((_, place) => ids[place] !== null || taken.has(place + 1));
    return reportAdded(db, projectId, { lines, left }, report, onConflict);
  }
  const differences = await findDifferences(db, projectId, rows, onConflict);
  const isFailed = ({ isTaken, linkedTo }: Difference) => isTaken || linkedTo !== null;
  const failed = differences.filter(isFailed);
  for (const { place, linkedTo } of failed)
    fail(
      report,
      lines[place - 1] as UserLine,
      linkedTo === null ? externalIdTaken().message : linkedElsewhere(linkedTo),
    );
  const created = differences.filter((difference) => difference.id === null && !isFailed(difference)).length;
  const different = differences.flatMap(({ place }) => lines[place - 1] ?? []);
  const onlyLinked = new Set(without(different, links).map(lineOf)).size;
  report.imported += lines.length - failed.length;
  report.created += created;
  report.updated += differences.length - failed.length - created + onlyLinked;
  report.unchanged += lines.length - differences.length - onlyLinked;
}

const without = (lines: readonly { line: number }[], links: readonly Link[]) => {
  const numbers = new Set(lines.map(lineOf));
  return links.filter(({ line }) => !numbers.has(line));
};

/**
 * The lines with the identities that they link, but for lines with an identity of another user, or that would give a user too many: these go
 * into the report. Where users who exist are to stay as they are, nothing is said of theirs.
 */
async function withLinks(
  tx: Queryable,
  projectId: number,
  part: PreparedUsers,
  report: RunningReport,
  onConflict: OnConflict,
): Promise<{ readonly prepared: PreparedUsers; readonly links: readonly Link[] }> {
  const links = part.lines.flatMap(({ line, record }) =>
    (record.linked ?? []).map((identity) => ({ line, user: record, identity })),
  );
  if (links.length === 0) return { prepared: part, links };
  const present = new Set<Link>();
  const failed = new Map<number, string>();
  const counts = new Map<number, number>();
  for (const { place, own, holder, count } of await findLinkStates(tx, projectId, links)) {
    const link = links[place - 1] as Link;
    if (own !== null && !isChange(onConflict)) continue;
    const total = (counts.get(link.line) ?? count) + (holder === null ? 1 : 0);
    counts.set(link.line, total);
    if (holder === own) present.add(link);
    else if (holder !== null) failed.set(link.line, linkTaken(link));
    else if (total > MAX_IDENTITIES) failed.set(link.line, tooManyIdentities(total).message);
  }
  for (const line of part.lines) if (failed.has(line.line)) fail(report, line, failed.get(line.line) as string);
  const lines = part.lines.filter(({ line }) => !failed.has(line));
  return {
    prepared: failed.size === 0 ? part : prepareUsers(lines),
    links: links.filter((link) => !present.has(link) && !failed.has(link.line)),
  };
}

const linkTaken = ({ identity }: Link) =>
  `identities: another user of this project has the one by ${show(identity.authMethod)}.`;

/**
 * The lines of another system as updates of the users who have their external ids: a person may have other identities there than at an earlier
 * import. Those that a user has not yet are linked. Lines of this service are not changed: they say which identity is the primary one.
 */
async function asUsers(db: Queryable, projectId: number, users: PreparedUsers): Promise<PreparedUsers> {
  const moved = users.lines.filter(({ sourceId, record }) => sourceId !== null && record.externalId !== null);
  if (moved.length === 0) return users;
  const records = moved.map(({ record }) => record);
  const primaries = new Set(users.lines.map(({ record }) => identityText(record)));
  const changed = new Map<number, UserLine>();
  for (const { place, ...primary } of await findHolders(db, projectId, records)) {
    const line = moved[place - 1] as UserLine;
    // Otherwise two lines would be of one user.
    if (!primaries.has(identityText(primary)))
      changed.set(line.line, { ...line, record: ofUser(line.record, primary) });
  }
  return changed.size === 0 ? users : prepareUsers(users.lines.map((line) => changed.get(line.line) ?? line));
}

function ofUser(record: UserRecord, primary: Omit<Holder, 'place'>): UserRecord {
  const {
    authMethod,
    authValue,
    authValueKey,
    identityEmail,
    emailVerified,
    identityAt = null,
    identityLogin,
  } = record;
  const lastLogin = identityLogin instanceof Date ? identityLogin : null;
  const loginEmail = identityEmail;
  const own = { authMethod, authValue, authValueKey, loginEmail, emailVerified, createdAt: identityAt, lastLogin };
  const linked = [own, ...(record.linked ?? [])].filter((one) => identityText(one) !== identityText(primary));
  // Nothing is said of the primary identity.
  return {
    ...record,
    ...primary,
    givenEmail: null,
    emailVerified: null,
    identityAt: null,
    identityLogin: null,
    linked,
  };
}

/** Adds or updates the users of lines, but none who has all that the line gives. Returns lines of which one may have another user's external id. */
async function updateLines(
  tx: Queryable,
  projectId: number,
  part: PreparedUsers,
  report: RunningReport,
  how: ImportChange,
  written: { readonly created: number[]; readonly updated: Set<number> },
): Promise<readonly UserLine[]> {
  const { prepared, links } = await withLinks(tx, projectId, part, report, how);
  const differences = await findDifferences(tx, projectId, prepared.rows, how);
  const different = differences.map((difference) => ({
    ...(prepared.lines[difference.place - 1] as UserLine),
    ...difference,
  }));
  const onlyLinked = without(different, links);
  await linkIdentities(tx, projectId, onlyLinked);
  const updated = new Set(onlyLinked.map(lineOf));
  for (const line of updated) written.updated.add(line);
  report.imported += prepared.lines.length - different.length;
  report.updated += updated.size;
  report.unchanged += prepared.lines.length - different.length - updated.size;
  const linked = different.filter(({ linkedTo }) => linkedTo !== null);
  for (const line of linked) fail(report, line, linkedElsewhere(line.linkedTo));
  const own = linked.length === 0 ? different : different.filter(({ linkedTo }) => linkedTo === null);
  const lines = await withoutOverfull(tx, projectId, own, report);
  if (lines.length === 0 || lines.some(({ isTaken }) => isTaken)) return lines;
  const { rows } = lines.length === prepared.lines.length ? prepared : prepareUsers(lines);
  const complete = lines.map(({ id, addsAccounts }) => (addsAccounts ? 0 : (id ?? 0)));
  const created = await addOrUpdateUsers(tx, projectId, rows, complete, how);
  const numbers = new Set(lines.map(lineOf));
  await linkIdentities(
    tx,
    projectId,
    links.filter(({ line }) => numbers.has(line)),
  );
  written.created.push(...created);
  for (const line of numbers) written.updated.add(line);
  report.imported += lines.length;
  report.created += created.length;
  report.updated += lines.length - created.length;
  return [];
}

const linkedElsewhere = (id: number | null) =>
  `This identity is linked to user ${id}: an update of that user needs a line with the primary identity.`;

/** The lines except those that would give a user too many accounts, which go into the report. */
async function withoutOverfull<Line extends UserLine & Difference>(
  tx: Queryable,
  projectId: number,
  lines: readonly Line[],
  report: RunningReport,
): Promise<readonly Line[]> {
  const adding = lines.filter(({ id, addsAccounts }) => id !== null && addsAccounts);
  const records = adding.map(({ record }) => record);
  const overfull = new Set<UserLine>();
  for (const { recordIndex, accounts } of await findOverfull(tx, projectId, records, MAX_ACCOUNTS)) {
    const line = adding[recordIndex] as Line;
    overfull.add(line);
    fail(report, line, tooManyAccounts(accounts).message);
  }
  return overfull.size === 0 ? lines : lines.filter((line) => !overfull.has(line));
}
