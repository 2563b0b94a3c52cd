import type { KeyedRow } from '../db/batched-read.js';
import { type KeyColumns, type KeyedRead, keyedStatement, Prisma, type Queryable } from '../db/statements.js';
import { METHODS_BY_PREFIX, type Position } from '../domain/filters.js';
import { endOfPrefix, type Identity, type Prefix } from '../domain/identities.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { UserDetails } from '../domain/users.js';
import {
  banOf,
  LINKED_ACCOUNTS,
  LINKED_ACCOUNTS_IF_WANTED,
  SHOWN_COLUMNS,
  toUser,
  type UserRow,
} from './user-columns.sql.js';

/* Each key has its own subquery (LATERAL, with OFFSET 0 so that the planner does not merge it): always one index look-up a key, never a scan. */

interface Keyed {
  readonly projectId: number;
  readonly withAccounts: boolean;
}
export type UserKey = Keyed & { readonly id: bigint };
export type IdentityKey = Keyed & Pick<Identity, 'authMethod' | 'authValueKey'>;
export type ExternalIdKey = Keyed & { readonly externalId: string };
/** The value is a folded login email or the key of an address (`SearchedBy`). */
export type SearchKey = Keyed & { readonly value: string };

/** For each key `k`, whose columns have what it looks for, the users `u` whom `selection` selects. */
function findByKey<Key extends Keyed, Row = UserRow>(
  columns: KeyColumns<Key>,
  selection: Prisma.Sql,
  where = Prisma.empty,
): KeyedRead<Key, Row> {
  return keyedStatement(
    {
      project_id: ['int', ({ projectId }) => projectId],
      ...columns,
      with_accounts: ['boolean', ({ withAccounts }) => withAccounts],
    },
    (keys) => Prisma.sql`
      SELECT k.key_index::int AS "keyIndex", ${SHOWN_COLUMNS}, ${LINKED_ACCOUNTS_IF_WANTED}
      FROM ${keys}
      CROSS JOIN LATERAL (${selection}) AS u ${where}`,
  );
}

/**
 * The current user with a value that only one has, from a column that the key has too. It is compared as a range and ordered:
 * only its own index has that order. A plan made while the table was empty would use another index, and read a whole project for each key.
 */
export function currentUserBy(name: 'auth_value_key' | 'external_id', others = Prisma.empty): Prisma.Sql {
  const column = Prisma.raw(name);
  return Prisma.sql`
      SELECT * FROM users u
      WHERE u.project_id = k.project_id ${others} AND u.${column} >= k.${column} AND u.${column} <= k.${column} AND u.deleted_at IS NULL
      ORDER BY u.${column}
      LIMIT 1`;
}

/** The current user with the identity of the key. */
export const CURRENT_USER_OF_IDENTITY = currentUserBy('auth_value_key', Prisma.sql`AND u.auth_method = k.auth_method`);

/** The identity of the key, where a current user has it linked. */
export const LINKED_IDENTITY = Prisma.sql`
      SELECT * FROM identities i
      WHERE i.project_id = k.project_id AND i.auth_method = k.auth_method
        AND i.auth_value_key >= k.auth_value_key AND i.auth_value_key <= k.auth_value_key AND NOT i.removed
      ORDER BY i.auth_value_key
      LIMIT 1`;

/** Current users by an identity, primary or linked, at most one for each key. */
export const findUsersByIdentity = findByKey<IdentityKey>(
  {
    auth_method: ['text', ({ authMethod }) => authMethod],
    auth_value_key: ['text', ({ authValueKey }) => authValueKey],
  },
  Prisma.sql`
      (${CURRENT_USER_OF_IDENTITY})
      UNION ALL
      SELECT u.* FROM (${LINKED_IDENTITY}) AS linked CROSS JOIN LATERAL (${userById('linked', 'user_id')}) AS u
      LIMIT 1`,
);

/** Current users by external id, at most one for each key. */
export const findUsersByExternalId = findByKey<ExternalIdKey>(
  { external_id: ['text', ({ externalId }) => externalId] },
  currentUserBy('external_id'),
);

/**
 * The user, current or removed, whose id is in a column of `source`. The caller checks outside of it whether the user is current:
 * inside, a plan made while the table was empty would use an index of current users, and read a whole project for each id.
 */
export function userById(source: string, column: string): Prisma.Sql {
  const [from, id] = [Prisma.raw(source), Prisma.raw(column)];
  return Prisma.sql`SELECT * FROM users u WHERE u.project_id = ${from}.project_id AND u.id = ${from}.${id} OFFSET 0`;
}

/** Current users by id, at most one for each key. */
export const findUsersById = findByKey<UserKey>(
  { id: ['bigint', ({ id }) => id] },
  userById('k', 'id'),
  Prisma.sql`WHERE u.deleted_at IS NULL`,
);

/** Users are searched by a folded login email, or by the key of an address among their accounts. */
export type SearchedBy = 'email' | 'address';

/** At most `limit` users `u` who match the key `k`, in no order. Removed users of an address count as rows of nulls, so no search reads more links than `limit`. */
const MATCHING: Record<SearchedBy, (limit: number) => Prisma.Sql> = {
  email: (limit) => Prisma.sql`
    SELECT u.* FROM users u
    WHERE u.project_id = k.project_id AND u.login_email = k.value AND u.deleted_at IS NULL
    LIMIT ${limit}::bigint`,
  address: (limit) => Prisma.sql`
    SELECT u.*
    FROM (
      SELECT a.project_id, a.user_id FROM accounts a
      WHERE a.project_id = k.project_id AND a.address_key = k.value
      LIMIT ${limit}::bigint
    ) AS a
    LEFT JOIN LATERAL (${userById('a', 'user_id')}) AS u ON u.deleted_at IS NULL`,
};

/** A row of `findFewUsers`; the id is null if the user was removed. */
export type FewRow = KeyedRow<{ [Column in keyof UserRow]: UserRow[Column] | null }>;

/** Current users for each key, in no order. A key with `limit` rows may match more users. */
export const findFewUsers = (by: SearchedBy, limit: number): KeyedRead<SearchKey, FewRow> =>
  findByKey({ value: ['text', ({ value }) => value] }, MATCHING[by](limit));

/** A user who matches, with what is needed to decide whether the answer is too large. */
export interface MeasuredUser {
  id: number;
  createdAt: string;
  /** At most this many bytes of JSON in an answer of the REST interface, which has every field. */
  bytes: number;
}

/** The longest JSON of a user without its texts, and of an account with them. */
const USER_BYTES = 250;
const ACCOUNT_BYTES = 130;

/** User `u` as a MeasuredUser, without reading the texts and accounts themselves. */
function measured(withAccounts: boolean): Prisma.Sql {
  const accounts = Prisma.sql`(SELECT count(*) FROM accounts a WHERE a.project_id = u.project_id AND a.user_id = u.id)`;
  return Prisma.sql`
    u.id, u.created_at AS "createdAt",
    (${USER_BYTES}::int + octet_length(to_json(u.auth_value)::text) + coalesce(octet_length(u.wallet), 0)
      + ${withAccounts ? Prisma.sql`${ACCOUNT_BYTES}::int * ${accounts}` : Prisma.sql`0`})::int AS bytes`;
}

/** At most `limit` current users with an email. */
export function measureByEmail(db: Queryable, { projectId, value, withAccounts }: SearchKey, limit: number) {
  return db.query<MeasuredUser>(Prisma.sql`
    SELECT ${measured(withAccounts)}
    FROM users u
    WHERE u.project_id = ${projectId}::int AND u.login_email = ${value} AND u.deleted_at IS NULL
    LIMIT ${limit}::bigint`);
}

/** The users of the next `limit` links of an address after a link, with nulls for removed users. */
export function measureByAddress(
  db: Queryable,
  { projectId, value, withAccounts }: SearchKey,
  afterLink: number,
  limit: number,
): Promise<({ link: number } & (MeasuredUser | { id: null }))[]> {
  return db.query(Prisma.sql`
    SELECT a.link, ${measured(withAccounts)}
    FROM (
      SELECT a.id AS link, a.project_id, a.user_id FROM accounts a
      WHERE a.project_id = ${projectId}::int AND a.address_key = ${value} AND a.id > ${afterLink}::bigint
      ORDER BY a.id
      LIMIT ${limit}::bigint
    ) AS a
    LEFT JOIN LATERAL (${userById('a', 'user_id')}) AS u ON u.deleted_at IS NULL
    ORDER BY a.link`);
}

/* A user, or a removed one, whom an operator looks up by any mark. */

type DetailsRow = UserRow &
  Pick<UserDetails, 'removedAt'> & { bannedAt: string | null; reason: string | null; expiresAt: string | null };

/** The users with these ids, current or removed, newest first. */
export async function describeUsers(db: Queryable, projectId: number, ids: readonly bigint[]): Promise<UserDetails[]> {
  const rows = await db.query<DetailsRow>(Prisma.sql`
    SELECT ${SHOWN_COLUMNS}, ${LINKED_ACCOUNTS}, u.deleted_at AS "removedAt", b.created_at AS "bannedAt", b.reason, b.expires_at AS "expiresAt"
    FROM (SELECT DISTINCT ${projectId}::int AS project_id, unnest(${ids}::bigint[]) AS id) AS k
    CROSS JOIN LATERAL (${userById('k', 'id')}) AS u
    LEFT JOIN LATERAL (${banOf('u', Prisma.sql`b.*`)}) AS b ON true
    ORDER BY u.created_at DESC, u.id DESC`);
  return rows.map((row) => {
    const { accounts = [], ...user } = toUser(row);
    const { removedAt, bannedAt: createdAt, reason, expiresAt } = row;
    return { ...user, accounts, removedAt, ban: createdAt === null ? null : { createdAt, reason, expiresAt } };
  });
}

/** A user with this id, current or removed; null if the project has none. */
export async function describeUser(db: Queryable, projectId: number, id: bigint): Promise<UserDetails | null> {
  const [user] = id > LARGEST_ID ? [] : await describeUsers(db, projectId, [id]);
  return user ?? null;
}

/** The identity of a user, current or removed, as it is stored; null if the project has none with this id. */
export async function findIdentity(db: Queryable, projectId: number, id: bigint): Promise<Identity | null> {
  const [identity] = await db.query<Identity>(Prisma.sql`
    SELECT u.auth_method AS "authMethod", u.auth_value AS "authValue", u.auth_value_key AS "authValueKey"
    FROM users u WHERE u.project_id = ${projectId}::int AND u.id = ${id}::bigint`);
  return identity ?? null;
}

/** A row for each login method of the current users of `project`, one step of the index for each, and a last one of null. */
const methodsOf = (project: Prisma.Sql, most = Prisma.empty) => {
  const current = Prisma.sql`u.project_id = ${project} AND u.deleted_at IS NULL`;
  return Prisma.sql`
    WITH RECURSIVE methods AS (
      (SELECT u.auth_method, 1 AS place FROM users u WHERE ${current} ORDER BY u.auth_method LIMIT 1)
      UNION ALL
      SELECT (SELECT u.auth_method FROM users u WHERE ${current} AND u.auth_method > methods.auth_method ORDER BY u.auth_method LIMIT 1), place + 1
      FROM methods WHERE methods.auth_method IS NOT NULL ${most}
    )`;
};

/** The ids of the current users with this compared value, under whatever method: it looks under each that the project has. */
export async function findIdsByValue(db: Queryable, projectId: number, authValueKey: string): Promise<bigint[]> {
  const rows = await db.query<{ id: number }>(Prisma.sql`
    ${methodsOf(Prisma.sql`${projectId}::int`)}
    SELECT found.id FROM methods CROSS JOIN LATERAL (
      -- Found as in findUsersByIdentity.
      SELECT u.id FROM users u
      WHERE u.project_id = ${projectId}::int AND u.deleted_at IS NULL AND u.auth_method = methods.auth_method
        AND u.auth_value_key >= ${authValueKey}::text AND u.auth_value_key <= ${authValueKey}::text
      ORDER BY u.auth_value_key
      LIMIT 1
    ) AS found`);
  return rows.map(({ id }) => BigInt(id));
}

/** Asks for at most `limit` users with a prefix. */
export type PrefixKey = Keyed & Prefix & { readonly limit: number };

/** The users with a column between `from` and `to` of the key, in its order, which is that of its own index. */
function beginningWith(column: string, [from, to]: readonly [string, string], where = Prisma.empty): Prisma.Sql {
  const [value, start, end] = [column, from, to].map((name) => Prisma.raw(name)) as [
    Prisma.Sql,
    Prisma.Sql,
    Prisma.Sql,
  ];
  return Prisma.sql`
      SELECT u.id, u.${value} AS value FROM users u
      WHERE u.project_id = k.project_id ${where} AND u.${value} >= k.${start} AND u.${value} < k.${end} AND u.deleted_at IS NULL
      ORDER BY u.${value}
      LIMIT k.size`;
}

const EXACT = ['exact', 'exact_end'] as const;
const FOLDED = ['folded', 'folded_end'] as const;
const OF_METHOD = Prisma.sql`AND u.auth_method = methods.auth_method`;

/** A row of `findUsersByPrefix`; the id is null where the project has login methods that were not searched. */
export type PrefixRow = KeyedRow<{ [Column in keyof UserRow]: UserRow[Column] | null } & { place: number }>;

/**
 * Current users whose login email, identity or external id begins with a text, with their `place` in alphabetical order.
 * Each column, and each method of identities, has an index in that order, of which at most `limit` rows are read.
 * Identities are searched under the first METHODS_BY_PREFIX methods; a last row tells that there are more, unless `limit` users are before it.
 */
export const findUsersByPrefix: KeyedRead<PrefixKey, PrefixRow> = keyedStatement(
  {
    project_id: ['int', ({ projectId }) => projectId],
    exact: ['text', ({ exact }) => exact],
    exact_end: ['text', ({ exact }) => endOfPrefix(exact)],
    folded: ['text', ({ folded }) => folded],
    folded_end: ['text', ({ folded }) => endOfPrefix(folded)],
    size: ['bigint', ({ limit }) => limit],
    with_accounts: ['boolean', ({ withAccounts }) => withAccounts],
  },
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", found.place, ${SHOWN_COLUMNS}, ${LINKED_ACCOUNTS_IF_WANTED}
    FROM ${keys}
    CROSS JOIN LATERAL (
      SELECT k.project_id, id, (row_number() OVER (ORDER BY min(value), id))::int AS place
      FROM (
        (${beginningWith('login_email', FOLDED)})
        UNION ALL
        (${beginningWith('external_id', EXACT)})
        UNION ALL
        (
          ${methodsOf(Prisma.sql`k.project_id`, Prisma.sql`AND place <= ${METHODS_BY_PREFIX}::int`)}
          SELECT identity.* FROM methods CROSS JOIN LATERAL (
            (${beginningWith('auth_value_key', EXACT, OF_METHOD)})
            UNION ALL
            (${beginningWith('auth_value_key', FOLDED, Prisma.sql`${OF_METHOD} AND k.folded <> k.exact`)})
          ) AS identity
          WHERE methods.place <= ${METHODS_BY_PREFIX}::int
          UNION ALL
          SELECT NULL, NULL FROM methods WHERE methods.place > ${METHODS_BY_PREFIX}::int AND methods.auth_method IS NOT NULL
        )
      ) AS matching
      GROUP BY id
      ORDER BY place
      LIMIT k.size
    ) AS found
    LEFT JOIN LATERAL (${userById('found', 'id')}) AS u ON true`,
);

/** A mark of users: an identity, a compared value under any method, a folded email, the key of an address, or an external id. */
export interface Mark {
  readonly identity?: Identity;
  readonly value?: string;
  readonly email?: string;
  readonly addressKey?: string;
  readonly externalId?: string;
}

/** Asks for a page of removed users by the time of the removal, after the place of a user who may be gone. */
export interface RemovedPage {
  readonly after: Position | null;
  readonly limit: number;
  readonly order: 'newest first' | 'oldest first';
}

/** The ids of a page of removed users. */
export async function listRemovedIds(db: Queryable, projectId: number, page: RemovedPage): Promise<bigint[]> {
  const [isAfter, direction, start] =
    page.order === 'newest first'
      ? [Prisma.sql`<`, Prisma.sql`DESC`, 'infinity']
      : [Prisma.sql`>`, Prisma.empty, '-infinity'];
  const { createdAt, id } = page.after ?? { createdAt: start, id: 0 };
  const rows = await db.query<{ id: number }>(Prisma.sql`
    SELECT u.id FROM users u
    WHERE u.project_id = ${projectId}::int AND u.deleted_at IS NOT NULL
      AND (u.deleted_at, u.id) ${isAfter} (${createdAt}::timestamptz, ${id}::bigint)
    ORDER BY u.deleted_at ${direction}, u.id ${direction}
    LIMIT ${page.limit}::bigint`);
  return rows.map((row) => BigInt(row.id));
}

/** The ids of at most `limit` removed users with one of the marks, the last removed first. It reads all removed users. */
export async function findRemovedIds(
  db: Queryable,
  projectId: number,
  { identity, value, email, addressKey, externalId }: Mark,
  limit: number,
): Promise<bigint[]> {
  const rows = await db.query<{ id: number }>(Prisma.sql`
    SELECT u.id FROM users u
    WHERE u.project_id = ${projectId}::int AND u.deleted_at IS NOT NULL AND (
      (u.auth_method = ${identity?.authMethod ?? null}::text AND u.auth_value_key = ${identity?.authValueKey ?? null}::text)
      OR u.auth_value_key = ${value ?? null}::text
      OR u.login_email = ${email ?? null}::text
      OR u.external_id = ${externalId ?? null}::text
      OR u.id IN (
        SELECT a.user_id FROM accounts a WHERE a.project_id = ${projectId}::int AND a.address_key = ${addressKey ?? null}::text
      )
    )
    ORDER BY u.deleted_at DESC, u.id DESC
    LIMIT ${limit}::bigint`);
  return rows.map(({ id }) => BigInt(id));
}
