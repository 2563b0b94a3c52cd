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
import type { ImportReport, LineOutcome } from '../domain/import-results.js';
import { show } from '../errors.js';
import { type ImportedBans, importBans } from './bans.sql.js';
import { findHolders, findLinkStates, type Holder, type Link, linkIdentities } from './import-links.sql.js';
import { fail, type LinePlace, lineOf, type RunningReport, type Tell, takeFailures } from './import-report.js';
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

/** What was written of lines. */
interface Written {
  /** The ids of the users who are new. */
  readonly created: readonly number[];
  /** The numbers of the lines of others who were changed. */
  readonly updated: readonly number[];
}

const NOTHING: Written = { created: [], updated: [] };

/** A project in a transaction, with the report of what becomes of the lines there. */
interface Target {
  readonly db: Queryable;
  readonly projectId: number;
  readonly report: RunningReport;
}

/** Writes the lines of a batch, in a transaction. Returns the ids of the users who are new, and tells what became of each line where that is wanted. */
export async function writeBatch(
  target: Target,
  { bans, users }: PreparedBatch,
  onConflict: OnConflict,
  tell: Tell | null,
): Promise<readonly number[]> {
  const { db, projectId, report } = target;
  const written = await writeUsers(target, users, onConflict);
  // After the users, whom they may ban.
  if (bans.length > 0) countBans(report, bans.length, await importBans(db, projectId, bans));
  if (users.lines.length > 0) await tell?.(await outcomesOf(target, users, written, onConflict));
  return written.created;
}

async function writeUsers(target: Target, users: PreparedUsers, onConflict: OnConflict): Promise<Written> {
  if (users.lines.length === 0) return NOTHING;
  if (!isChange(onConflict)) return { ...NOTHING, created: await addLines(target, users, onConflict) };
  return updateByHalves(target, await asUsers(target.db, target.projectId, users), onConflict);
}

/** What became of each line, in their order, with those that have failed. */
async function outcomesOf(
  { db, projectId, report }: Target,
  users: PreparedUsers,
  written: Written,
  onConflict: OnConflict,
): Promise<LineOutcome[]> {
  const failures = takeFailures(report);
  const failed = new Set(failures.map(lineOf));
  const lines = users.lines.filter(({ line }) => !failed.has(line));
  const ids = await findUserIds(
    db,
    projectId,
    lines.map(({ record }) => record),
  );
  const isNew = new Set(written.created);
  const updated = new Set(written.updated);
  const rest = onConflict === 'skip' ? 'skipped' : 'unchanged';
  const outcomes = lines.map(({ line, sourceId }, place): LineOutcome => {
    const id = ids[place] ?? null;
    const outcome = id !== null && isNew.has(id) ? 'created' : updated.has(line) ? 'updated' : rest;
    return { line, source_id: sourceId, user_id: id, outcome };
  });
  return [...failures, ...outcomes].sort((one, other) => one.line - other.line);
}

/** Writes lines by halves while one of them may have the external id of another user, as if they were written one after another. */
async function updateByHalves(target: Target, part: PreparedUsers, how: ImportChange): Promise<Written> {
  const { left, ...written } = await updateLines(target, part, how);
  if (left.length === 1) fail(target.report, left[0] as UserLine, externalIdTaken().message);
  if (left.length < 2) return written;
  const middle = left.length >> 1;
  const first = await updateByHalves(target, prepareUsers(left.slice(0, middle)), how);
  const second = await updateByHalves(target, prepareUsers(left.slice(middle)), how);
  return {
    created: [...written.created, ...first.created, ...second.created],
    updated: [...written.updated, ...first.updated, ...second.updated],
  };
}

/** True where users who exist are changed. */
const isChange = (onConflict: OnConflict): onConflict is ImportChange =>
  onConflict === 'update' || onConflict === 'replace';

function countBans(report: ImportReport, lines: number, { added, ended }: ImportedBans): void {
  report.bans = (report.bans ?? 0) + added;
  report.bans_ended = (report.bans_ended ?? 0) + ended;
  report.bans_kept = (report.bans_kept ?? 0) + lines - added - ended;
}

/** Adds the users of lines, and returns their ids. The database decides of each line whether it is a new one. */
async function addLines(target: Target, part: PreparedUsers, onConflict: 'skip' | 'fail'): Promise<readonly number[]> {
  const { db, projectId } = target;
  const { prepared, links } = await withLinks(target, part, onConflict);
  const { lines, rows } = prepared;
  const ids = await addUsers(db, projectId, rows);
  const left = lines.filter((_, place) => ids[place] === null);
  await linkIdentities(db, projectId, without(left, links));
  await reportAdded(target, { lines, left }, onConflict);
  return ids.filter((id) => id !== null);
}

/** Counts lines as new users, but those that are `left`, because their users exist or others have their external ids. */
async function reportAdded(
  { db, projectId, report }: Target,
  { lines, left }: Readonly<Record<'lines' | 'left', readonly UserLine[]>>,
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

/** Counts what `writeBatch` would do with the users of a batch. It writes nothing, and sees nothing of what the batches before would have written. */
export async function checkBatch(target: Target, { users }: PreparedBatch, onConflict: OnConflict): Promise<void> {
  if (users.lines.length === 0) return;
  if (isChange(onConflict)) await checkUpdates(target, users, onConflict);
  else await checkAdditions(target, users, onConflict);
}

async function checkAdditions(target: Target, users: PreparedUsers, onConflict: 'skip' | 'fail'): Promise<void> {
  const { db, projectId } = target;
  const { lines } = (await withLinks(target, users, onConflict)).prepared;
  const records = lines.map(({ record }) => record);
  const ids = await findUserIds(db, projectId, records);
  const taken = new Set(await findTaken(db, projectId, records));
  const left = lines.filter((_, place) => ids[place] !== null || taken.has(place + 1));
  await reportAdded(target, { lines, left }, onConflict);
}

async function checkUpdates(target: Target, users: PreparedUsers, how: ImportChange): Promise<void> {
  const given = await asUsers(target.db, target.projectId, users);
  const { lines } = await planUpdates(target, given, how, { locks: false });
  for (const line of lines) if (line.isTaken) fail(target.report, line, externalIdTaken().message);
  const written = lines.filter(({ isTaken }) => !isTaken);
  countWritten(target.report, written.length, written.filter(({ id }) => id === null).length);
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
  { db, projectId, report }: Target,
  part: PreparedUsers,
  onConflict: OnConflict,
): Promise<{ readonly prepared: PreparedUsers; readonly links: readonly Link[] }> {
  const links = part.lines.flatMap(({ line, record }) =>
    (record.linked ?? []).map((identity) => ({ line, user: record, identity })),
  );
  if (links.length === 0) return { prepared: part, links };
  const present = new Set<Link>();
  const failed = new Map<number, string>();
  const counts = new Map<number, number>();
  for (const { place, own, holder, count } of await findLinkStates(db, projectId, links)) {
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

/** What an update of lines is to do. The lines that fail are in the report, and so is what nothing or only a link is to be written of. */
interface UpdatePlan {
  /** Those that can be written as far as it is known, with their identities. */
  readonly prepared: PreparedUsers;
  /** Of them, those of new users and of users of whom anything else than an identity is new. */
  readonly lines: readonly (UserLine & Difference)[];
  /** The identities that are linked to these users, and to those of whom nothing else is new. */
  readonly links: readonly Link[];
  readonly onlyLinked: readonly Link[];
}

/** Compares lines with the users who exist. With `locks`, these stay as they are until the end of the transaction. */
async function planUpdates(
  target: Target,
  part: PreparedUsers,
  how: ImportChange,
  { locks }: { readonly locks: boolean },
): Promise<UpdatePlan> {
  const { db, projectId, report } = target;
  const { prepared, links } = await withLinks(target, part, how);
  const differences = await findDifferences(db, projectId, prepared.rows, how);
  const different = differences.map((difference) => ({
    ...(prepared.lines[difference.place - 1] as UserLine),
    ...difference,
  }));
  const onlyLinked = without(different, links);
  countUnchanged(report, prepared.lines.length - different.length, new Set(onlyLinked.map(lineOf)).size);
  const linked = different.filter(({ linkedTo }) => linkedTo !== null);
  for (const line of linked) fail(report, line, linkedElsewhere(line.linkedTo));
  const own = linked.length === 0 ? different : different.filter(({ linkedTo }) => linkedTo === null);
  return { prepared, lines: await withoutOverfull(target, own, locks), links, onlyLinked };
}

function countUnchanged(report: RunningReport, lines: number, onlyLinked: number): void {
  report.imported += lines;
  report.updated += onlyLinked;
  report.unchanged += lines - onlyLinked;
}

function countWritten(report: RunningReport, lines: number, created: number): void {
  report.imported += lines;
  report.created += created;
  report.updated += lines - created;
}

/** Adds or updates the users of lines, but none who has all that the line gives. `left` are lines of which one may have another user's external id. */
async function updateLines(
  target: Target,
  part: PreparedUsers,
  how: ImportChange,
): Promise<Written & { readonly left: readonly UserLine[] }> {
  const { db, projectId, report } = target;
  const { prepared, lines, links, onlyLinked } = await planUpdates(target, part, how, { locks: true });
  await linkIdentities(db, projectId, onlyLinked);
  const linked = onlyLinked.map(lineOf);
  if (lines.length === 0 || lines.some(({ isTaken }) => isTaken)) return { left: lines, created: [], updated: linked };
  const { rows } = lines.length === prepared.lines.length ? prepared : prepareUsers(lines);
  const complete = lines.map(({ id, addsAccounts }) => (addsAccounts ? 0 : (id ?? 0)));
  const created = await addOrUpdateUsers(db, projectId, rows, complete, how);
  const numbers = new Set(lines.map(lineOf));
  await linkIdentities(
    db,
    projectId,
    links.filter(({ line }) => numbers.has(line)),
  );
  countWritten(report, lines.length, created.length);
  return { left: [], created, updated: [...linked, ...numbers] };
}

const linkedElsewhere = (id: number | null) =>
  `This identity is linked to user ${id}: an update of that user needs a line with the primary identity.`;

/** The lines except those that would give a user too many accounts, which go into the report. */
async function withoutOverfull<Line extends UserLine & Difference>(
  { db, projectId, report }: Target,
  lines: readonly Line[],
  locks: boolean,
): Promise<readonly Line[]> {
  const adding = lines.filter(({ id, addsAccounts }) => id !== null && addsAccounts);
  const records = adding.map(({ record }) => record);
  const overfull = new Set<UserLine>();
  for (const { recordIndex, accounts } of await findOverfull(db, projectId, records, { most: MAX_ACCOUNTS, locks })) {
    const line = adding[recordIndex] as Line;
    overfull.add(line);
    fail(report, line, tooManyAccounts(accounts).message);
  }
  return overfull.size === 0 ? lines : lines.filter((line) => !overfull.has(line));
}
