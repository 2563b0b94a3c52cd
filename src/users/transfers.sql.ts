import { arrayText } from '../db/prepared-statement.js';
import { Prisma, type Queryable } from '../db/statements.js';
import type { CountedFilter } from '../domain/filters.js';
import type { UserRecord } from '../domain/identities.js';
import { projectDeleted } from '../domain/projects.js';
import type { ExportedUser } from '../domain/users.js';
import { AppError } from '../errors.js';
import { linkedIdentity } from './find-users.sql.js';
import { COLUMNS, PRIMARY } from './identities.sql.js';
import { isLinked } from './logins.sql.js';
import { isOpenAtEnd, isOpenAtStart, methodIs } from './totals.sql.js';
import {
  changesFields,
  EXPORTED_COLUMNS,
  IMPORTED_COLUMN_NAMES,
  IMPORTED_VALUES,
  type ImportChange,
  importUpdates,
  isToBeLinked,
  linkedAccount,
  OR_BECOMES_EXTERNAL,
  RECORD_COLUMN_NAMES,
  recordArrays,
  throwLinkingError,
} from './user-columns.sql.js';
import { throwExternalIdError } from './write-users.sql.js';

/** Records as the parameters of a statement: an array for each column. */
export interface ImportRows {
  readonly users: Prisma.Sql;
  readonly accounts: Prisma.Sql;
  /** The keys of the accounts of each record, separated by spaces; those of external ones end with a plus. */
  readonly addressKeys: string;
}

/** Arrays, because PostgreSQL reads them in half the time of JSON. The account of a record has its place, from 1. */
export function toImportRows(records: readonly UserRecord[]): ImportRows {
  const accounts = records.flatMap((record, index) =>
    record.accounts.map((account) => ({ place: index + 1, account })),
  );
  const keyOf = ({ addressKey, walletType }: UserRecord['accounts'][number]) =>
    walletType === 'external' ? `${addressKey}+` : addressKey;
  const keysOf = (record: UserRecord) => record.accounts.map(keyOf).join(' ');
  return {
    users: recordArrays(records),
    addressKeys: arrayText(records.map(keysOf)),
    accounts: Prisma.join([
      Prisma.sql`${arrayText(accounts.map(({ place }) => place))}::int[]`,
      Prisma.sql`${arrayText(accounts.map(({ account }) => account.network))}::network[]`,
      Prisma.sql`${arrayText(accounts.map(({ account }) => account.publicKey))}::text[]`,
      Prisma.sql`${arrayText(accounts.map(({ account }) => account.addressKey))}::text[]`,
      Prisma.sql`${arrayText(accounts.map(({ account }) => account.walletType))}::wallet_type[]`,
    ]),
  };
}

/** Writes users whose identity and external id are free, in order. Returns the id of each that is new, and null for another. No two records share an identity. */
export async function addUsers(db: Queryable, projectId: number, rows: ImportRows): Promise<(number | null)[]> {
  const written = await write<{ id: number | null }>(db, addMissing(projectId, rows));
  return written.map(({ id }) => id);
}

/**
 * Writes users with their accounts in one statement, and returns the ids of those who are new. Fields of a record change those of the user; accounts are
 * only added. `complete` has the id of a user whose accounts are all there, for each place, or 0. No two records may share an identity.
 * BAD_USER_INPUT if a user would have too many accounts; CONFLICT if another user has the external id of one.
 */
export async function addOrUpdateUsers(
  db: Queryable,
  projectId: number,
  rows: ImportRows,
  complete: readonly number[],
  how: ImportChange,
): Promise<number[]> {
  const created = await write<{ id: number }>(db, addOrUpdate(projectId, rows, complete, how));
  return created.map(({ id }) => id);
}

/** Runs a statement of an import, whose refusals are errors of the caller. */
export function write<Row>(db: Queryable, statement: Prisma.Sql): Promise<Row[]> {
  return db
    .query<Row>(statement)
    .catch(throwProjectError)
    .catch(throwExternalIdError)
    .catch(throwLinkingError)
    .catch(throwIdentityError);
}

/** CONFLICT for an identity that was free when the lines were compared with the database. */
function throwIdentityError(error: unknown): never {
  if (!isLinked(error) && (error as { constraint?: unknown }).constraint !== 'users_identity_key') throw error;
  throw new AppError(
    'CONFLICT',
    'While the file was imported, another user has got one of its identities. Import it again.',
  );
}

/** NOT_FOUND for a project that was deleted while its import waited or was sent. */
export function throwProjectError(error: unknown): never {
  const { constraint } = error as { constraint?: unknown };
  if (constraint !== 'users_project_id_fkey' && constraint !== 'audit_log_project_id_fkey') throw error;
  throw projectDeleted();
}

/** The first key of the lock that the transaction of an import holds; the second is the project. */
const IMPORT_LOCK = 1968399460;

/** Locks out other imports of a project; false if one is running. For tables that it fills, the planner is told which index to take. */
export async function tryToImportAlone(tx: Queryable, projectId: number): Promise<boolean> {
  const [row] = await tx.query<{ alone: boolean }>(Prisma.sql`
    SELECT pg_try_advisory_xact_lock(${IMPORT_LOCK}::int, ${projectId}::int) AS alone,
           set_config('enable_sort', 'off', true), set_config('enable_seqscan', 'off', true)`);
  return row?.alone === true;
}

const record = (users: Prisma.Sql) => Prisma.sql`
  record AS MATERIALIZED (
    SELECT r.*, nextval('users_id_seq') AS id
    FROM unnest(${users}) WITH ORDINALITY AS r(${RECORD_COLUMN_NAMES}, place)
  )`;

/** The current user who has the identity of row `r` linked, or null. */
const linkedTo = (projectId: number) => Prisma.sql`(
  SELECT linked.user_id FROM (${linkedIdentity('r', Prisma.sql`${projectId}::int`)}) AS linked)`;

const insertUsers = (projectId: number) => Prisma.sql`
  INSERT INTO users AS existing (project_id, id, ${IMPORTED_COLUMN_NAMES})
  SELECT ${projectId}::int, id, ${IMPORTED_VALUES} FROM record r WHERE ${linkedTo(projectId)} IS NULL`;

/** Columns of the current user with the identity of row `r`, in the plan of findUsersByIdentity. */
export const withIdentity = (projectId: number, columns: string, lock = Prisma.empty) => Prisma.sql`(
  SELECT ${Prisma.raw(columns)} FROM users u
  WHERE u.project_id = ${projectId}::int AND u.auth_method = r.auth_method
    AND u.auth_value_key >= r.auth_value_key AND u.auth_value_key <= r.auth_value_key AND u.deleted_at IS NULL
  ORDER BY u.auth_value_key
  LIMIT 1 ${lock})`;

/** The current user who has the identity of row `r`, as the primary one or linked, or null. */
export const holderOf = (projectId: number) =>
  Prisma.sql`coalesce(${withIdentity(projectId, 'u.id')}, ${linkedTo(projectId)})`;

/** Columns of the current user with the external id of row `r`. */
const withExternalId = (projectId: number, columns: string) => Prisma.sql`(
  SELECT ${Prisma.raw(columns)} FROM users u
  WHERE u.project_id = ${projectId}::int AND u.external_id >= r.external_id AND u.external_id <= r.external_id AND u.deleted_at IS NULL
  ORDER BY u.external_id
  LIMIT 1)`;

/** A column of the row of `placed` that has the place of account `a`, from an array that is made once; null where there is none. */
function ofPlace(column: string): Prisma.Sql {
  return Prisma.raw(
    `(SELECT array_agg(${column} ORDER BY record.place) FROM record LEFT JOIN placed USING (place))[a.place]`,
  );
}

/** A new user has no accounts yet, and the id of the record. Accounts find their user in an array: a join would not keep their order. */
function addMissing(projectId: number, { users, accounts }: ImportRows): Prisma.Sql {
  return Prisma.sql`
    WITH ${record(users)}, written AS (
      ${insertUsers(projectId)} ON CONFLICT DO NOTHING
      RETURNING existing.id
    ), placed AS MATERIALIZED (
      SELECT record.place, record.id FROM record JOIN written USING (id)
    ), added AS (
      INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT ${projectId}::int, u.id, a.network, a.public_key, a.address_key, a.wallet_type
      FROM unnest(${accounts}) AS a(place, network, public_key, address_key, wallet_type)
      CROSS JOIN LATERAL (SELECT ${ofPlace('placed.id')} AS id OFFSET 0) AS u
      WHERE u.id IS NOT NULL
    )
    SELECT written.id FROM record LEFT JOIN written USING (id) ORDER BY record.place`;
}

/** Records as rows `r`, with the user `holder` who has the external id of each, and another primary identity. */
export function withHolders(projectId: number, records: readonly UserRecord[], columns: string): Prisma.Sql {
  const arrays = Prisma.join(
    (['authMethod', 'authValueKey', 'externalId'] as const).map(
      (field) => Prisma.sql`${arrayText(records.map((record) => record[field]))}::text[]`,
    ),
  );
  return Prisma.sql`
    FROM unnest(${arrays}) WITH ORDINALITY AS r(auth_method, auth_value_key, external_id, place)
    CROSS JOIN LATERAL ${withExternalId(projectId, columns)} AS holder
    WHERE (holder.auth_method, holder.auth_value_key) IS DISTINCT FROM (r.auth_method, r.auth_value_key)`;
}

/** The places, from 1, of records that would be new users, but whose external id another user has. Who has the identity linked is no new user. */
export async function findTaken(db: Queryable, projectId: number, records: readonly UserRecord[]): Promise<number[]> {
  if (records.every(({ externalId }) => externalId === null)) return [];
  const taken = await db.query<{ place: number }>(Prisma.sql`
    SELECT r.place::int ${withHolders(projectId, records, 'u.auth_method, u.auth_value_key')}
      AND ${withIdentity(projectId, 'u.id')} IS NULL AND ${linkedTo(projectId)} IS NULL`);
  return taken.map(({ place }) => place);
}

/**
 * An existing user may have the login wallet as a custodial account. One who registers while the statement runs counts as updated.
 * Rows are joined by one value: PostgreSQL takes two for so selective that it would compare each row with each.
 */
function addOrUpdate(
  projectId: number,
  { users, accounts, addressKeys }: ImportRows,
  complete: readonly number[],
  how: ImportChange,
): Prisma.Sql {
  const keys = Prisma.sql`string_to_array(replace((${addressKeys}::text[])[a.place], '+', ''), ' ')`;
  return Prisma.sql`
    WITH ${record(users)}, written AS (
      ${insertUsers(projectId)}
      ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL DO UPDATE SET ${importUpdates(how)}
      RETURNING existing.id, existing.auth_method || ' ' || existing.auth_value_key AS identity, xmax = 0 AS is_new
    ), placed AS MATERIALIZED (
      SELECT r.place, written.id, written.is_new
      FROM (SELECT place, auth_method || ' ' || auth_value_key AS identity FROM record) AS r JOIN written USING (identity)
    ), added AS (
      INSERT INTO accounts AS linked (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT u.project_id, u.id, a.network, a.public_key, a.address_key, a.wallet_type
      FROM unnest(${accounts}) AS a(place, network, public_key, address_key, wallet_type)
      CROSS JOIN LATERAL (
        SELECT ${projectId}::int AS project_id, ${ofPlace('placed.id')} AS id, ${ofPlace('placed.is_new')} AS is_new OFFSET 0
      ) AS u
      WHERE u.id <> (${arrayText(complete)}::bigint[])[a.place] AND ${isToBeLinked(Prisma.sql`u.is_new`, keys)}
      ${OR_BECOMES_EXTERNAL}
    )
    SELECT id FROM placed WHERE is_new`;
}

/** The work of an update for a record. */
export interface Difference {
  /** The place of the record, from 1. */
  readonly place: number;
  /** Another user has the external id. */
  readonly isTaken: boolean;
  /** The id of the user, if one exists. */
  readonly id: number | null;
  /** The user has not all of the accounts. */
  readonly addsAccounts: boolean;
  /** The user who has the identity linked, beside another primary one; null where none has. */
  readonly linkedTo: number | null;
}

/** The records that an update would write: the users of the others have all that their records give. */
export function findDifferences(
  db: Queryable,
  projectId: number,
  { users, addressKeys }: ImportRows,
  how: ImportChange,
): Promise<Difference[]> {
  return db.query<Difference>(Prisma.sql`
    SELECT r.place::int, existing.id, found."isTaken", found."addsAccounts",
      CASE WHEN existing.id IS NULL THEN ${linkedTo(projectId)} END AS "linkedTo"
    FROM unnest(${users}, ${addressKeys}::text[]) WITH ORDINALITY AS r(${RECORD_COLUMN_NAMES}, address_keys, place)
    LEFT JOIN LATERAL ${withIdentity(projectId, 'u.*')} AS existing ON true
    CROSS JOIN LATERAL (
      SELECT existing.id IS NULL OR ${changesFields('r', how)} AS differs,
        CASE WHEN r.external_id IS NULL OR r.external_id = existing.external_id THEN false
          ELSE coalesce(${withExternalId(projectId, 'u.id')} <> coalesce(existing.id, 0), false) END AS "isTaken",
        CASE WHEN existing.id IS NULL OR r.address_keys = '' THEN r.address_keys <> '' ELSE NOT string_to_array(r.address_keys, ' ') <@ coalesce((
          SELECT array_agg(has.address_key) || array_agg(has.address_key || '+') FILTER (WHERE has.wallet_type = 'external')
          FROM (
            SELECT a.address_key, a.wallet_type FROM accounts a
            WHERE a.project_id = ${projectId}::int AND a.user_id >= existing.id AND a.user_id <= existing.id
            ORDER BY a.user_id
            OFFSET 0
          ) AS has
        ), '{}') END AS "addsAccounts"
      OFFSET 0
    ) AS found
    WHERE found.differs OR found."addsAccounts"`);
}

/** Records that would give an existing user more than `most` accounts. A second statement counts, to see what was committed before a lock. */
export async function findOverfull(
  tx: Queryable,
  projectId: number,
  records: readonly UserRecord[],
  { most, locks }: { readonly most: number; readonly locks: boolean },
): Promise<{ recordIndex: number; accounts: number }[]> {
  const rows = records.flatMap(({ authMethod, authValueKey, accounts }, index) =>
    accounts.length === 0
      ? []
      : {
          record_index: index,
          auth_method: authMethod,
          auth_value_key: authValueKey,
          keys: accounts.map(({ addressKey }) => addressKey),
        },
  );
  if (rows.length === 0) return [];
  const existing = await tx.query<{ record_index: number; id: number; keys: string[] }>(Prisma.sql`
    SELECT r.record_index, u.id, r.keys
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
      AS r(record_index int, auth_method text, auth_value_key text, keys jsonb)
    CROSS JOIN LATERAL ${withIdentity(projectId, 'u.id', locks ? Prisma.sql`FOR NO KEY UPDATE` : Prisma.empty)} AS u`);
  if (existing.length === 0) return [];
  return tx.query(Prisma.sql`
    SELECT r.record_index AS "recordIndex", (has.accounts + adds.accounts)::int AS accounts
    FROM (
      SELECT ${projectId}::int AS project_id, given.*
      FROM jsonb_to_recordset(${JSON.stringify(existing)}::jsonb) AS given(record_index int, id bigint, keys jsonb)
    ) AS r
    CROSS JOIN LATERAL (
      SELECT count(*) AS accounts FROM (
        SELECT a.id FROM accounts a
        WHERE a.project_id = r.project_id AND a.user_id >= r.id AND a.user_id <= r.id
        ORDER BY a.user_id
        OFFSET 0
      ) AS ordered
    ) AS has
    CROSS JOIN LATERAL (
      SELECT count(*) AS accounts
      FROM jsonb_array_elements_text(r.keys) AS given(key)
      WHERE ${linkedAccount('id', 'given.key', 'r')} IS NULL
    ) AS adds
    WHERE adds.accounts > 0 AND has.accounts + adds.accounts > ${most}::int
    ORDER BY r.record_index`);
}

const exportedIdentity = Prisma.sql`
  jsonb_build_object('auth_method', i.auth_method, 'auth_value', i.auth_value, 'email', i.login_email,
    'email_verified', i.email_verified, 'created_at', i.created_at, 'last_login', i.last_login, 'primary', i.id IS NULL)`;

/** Matching users among the next `limit` after an id, in the order of ids, so that an import of them keeps the order of the list. */
export interface ExportedBatch {
  /** The last user that was looked at; null where there is none after the id. */
  readonly lastId: number | null;
  readonly users: ExportedUser[];
}

/** The users are chosen before they are filtered: with a filter, a planner without statistics would read and sort the whole project. */
export async function exportUsers(
  db: Queryable,
  projectId: number,
  filter: CountedFilter,
  afterId: number,
  limit: number,
): Promise<ExportedBatch> {
  const { createdFrom, createdTo } = filter;
  const rows = await db.query<ExportedUser & { lastId: number | null }>(Prisma.sql`
    WITH next AS MATERIALIZED (
      SELECT * FROM users WHERE project_id = ${projectId}::int AND id > ${afterId}::bigint ORDER BY id LIMIT ${limit}::bigint
    )
    SELECT last.id AS "lastId", u.id, ${EXPORTED_COLUMNS}, u.login_email, (
             SELECT ${exportedIdentity} FROM (SELECT NULL::bigint AS id, ${PRIMARY}) AS i
           ) AS primary,
           coalesce((
             SELECT jsonb_agg(jsonb_build_object('network', a.network, 'public_key', a.public_key, 'wallet_type', a.wallet_type) ORDER BY a.id)
             FROM accounts a
             WHERE a.project_id = u.project_id AND a.user_id = u.id
           ), '[]') AS accounts,
           CASE WHEN EXISTS (SELECT FROM identities i WHERE i.project_id = u.project_id AND i.user_id = u.id) THEN (
             SELECT jsonb_agg(${exportedIdentity} ORDER BY i.id IS NOT NULL, i.created_at, i.id)
             FROM (
               SELECT NULL::bigint AS id, ${PRIMARY}
               UNION ALL
               SELECT i.id, ${COLUMNS} FROM identities i WHERE i.project_id = u.project_id AND i.user_id = u.id
             ) AS i
           ) END AS identities
    FROM (SELECT max(id) AS id FROM next) AS last
    LEFT JOIN next u ON u.deleted_at IS NULL
      ${isOpenAtStart(filter) ? Prisma.empty : Prisma.sql`AND u.created_at >= ${createdFrom}::timestamptz`}
      ${isOpenAtEnd(filter) ? Prisma.empty : Prisma.sql`AND u.created_at <= ${createdTo}::timestamptz`} ${methodIs('u', filter)}
    ORDER BY u.id`);
  // Without a matching user, there is one row of nulls.
  const users = rows.flatMap(({ lastId: _, ...user }) => (user.id === null ? [] : [user]));
  return { lastId: rows[0]?.lastId ?? null, users };
}
