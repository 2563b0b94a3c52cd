import type { KeyedRow } from '../db/batched-read.js';
import { type KeyColumns, type KeyedRead, keyedStatement, Prisma, type Queryable } from '../db/statements.js';
import { METHODS_BY_PREFIX } from '../domain/bounds.js';
import { endOfPrefix, type Identity, type Prefix } from '../domain/identities.js';
import { LINKED_ACCOUNTS_IF_WANTED, SHOWN_COLUMNS, type UserRow } from './user-columns.sql.js';

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

/** The identity of a row, where a current user of the project has it linked. */
export function linkedIdentity(row: 'k' | 'r', projectId: Prisma.Sql): Prisma.Sql {
  const of = Prisma.raw(row);
  return Prisma.sql`
      SELECT * FROM identities i
      WHERE i.project_id = ${projectId} AND i.auth_method = ${of}.auth_method
        AND i.auth_value_key >= ${of}.auth_value_key AND i.auth_value_key <= ${of}.auth_value_key AND NOT i.removed
      ORDER BY i.auth_value_key
      LIMIT 1`;
}

/** The identity of the key, where a current user has it linked. */
export const LINKED_IDENTITY = linkedIdentity('k', Prisma.sql`k.project_id`);

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

/** Of users `u`: those whose primary identity has another email than the user, as its index has it. */
const HAS_OTHER_EMAIL = Prisma.sql`u.deleted_at IS NULL AND u.identity_email IS DISTINCT FROM u.login_email`;

/** At most `limit` current users `u` with an email of `k`, as many whose primary identity has it, and as many rows for linked ones: of nulls where the user is among the first. */
const withEmail = (columns: Prisma.Sql, limit: number) => Prisma.sql`
    (
      SELECT ${columns} FROM users u
      WHERE u.project_id = k.project_id AND u.login_email = k.value AND u.deleted_at IS NULL
      LIMIT ${limit}::bigint
    )
    UNION ALL
    (
      SELECT ${columns} FROM users u
      WHERE u.project_id = k.project_id AND u.identity_email = k.value AND ${HAS_OTHER_EMAIL}
      LIMIT ${limit}::bigint
    )
    UNION ALL
    (
      SELECT ${columns}
      FROM (
        SELECT i.project_id, i.user_id FROM identities i
        WHERE i.project_id = k.project_id AND i.login_email = k.value AND NOT i.removed
        LIMIT ${limit}::bigint
      ) AS i
      LEFT JOIN LATERAL (${userById('i', 'user_id')}) AS u ON u.login_email IS DISTINCT FROM k.value
    )`;

/** At least `limit` rows `u` for users who match the key `k`, if so many do, in no order, perhaps twice. Rows of nulls, as for removed users of an address, count too, so no search reads many more. */
const MATCHING: Record<SearchedBy, (limit: number) => Prisma.Sql> = {
  email: (limit) => withEmail(Prisma.sql`u.*`, limit),
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

/** Current users for each key, in no order, perhaps twice. A key with `limit` rows or more may match more users. */
export const findFewUsers = (by: SearchedBy, limit: number): KeyedRead<SearchKey, FewRow> =>
  findByKey({ value: ['text', ({ value }) => value] }, MATCHING[by](limit));

/** A user who matches, with what is needed to decide whether the answer is too large. */
export interface MeasuredUser {
  id: number;
  createdAt: string;
  /** At most this many bytes of JSON in an answer of the REST interface, which has every field. */
  bytes: number;
}

/** A row of nulls stands for no user. */
export type MeasuredRow = MeasuredUser | { id: null };

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

/** At least `limit` rows for current users with an email, if there are so many, perhaps twice, or of nulls. */
export function measureByEmail(db: Queryable, { projectId, value, withAccounts }: SearchKey, limit: number) {
  return db.query<MeasuredRow>(Prisma.sql`
    SELECT u.* FROM (SELECT ${projectId}::int AS project_id, ${value}::text AS value) AS k
    CROSS JOIN LATERAL (${withEmail(measured(withAccounts), limit)}) AS u`);
}

/** The users of the next `limit` links of an address after a link, with nulls for removed users. */
export function measureByAddress(
  db: Queryable,
  { projectId, value, withAccounts }: SearchKey,
  afterLink: number,
  limit: number,
): Promise<({ link: number } & MeasuredRow)[]> {
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

/** Where current identities stand, primary and linked ones, as rows `u`. */
interface Place {
  readonly rows: Prisma.Sql;
  readonly userId: Prisma.Sql;
  readonly isCurrent: Prisma.Sql;
}
const PLACES: readonly Place[] = [
  { rows: Prisma.sql`users u`, userId: Prisma.sql`u.id`, isCurrent: Prisma.sql`u.deleted_at IS NULL` },
  { rows: Prisma.sql`identities u`, userId: Prisma.sql`u.user_id`, isCurrent: Prisma.sql`NOT u.removed` },
];
const inBoth = (read: (place: Place) => Prisma.Sql) =>
  Prisma.join(
    PLACES.map((place) => Prisma.sql`(${read(place)})`),
    ' UNION ALL ',
  );

/** A row for each login method of the current identities of `project`, one step of the index for each, and a last one of null. */
const methodsOf = ({ rows, isCurrent }: Place, project: Prisma.Sql, most = Prisma.empty) => {
  const current = Prisma.sql`u.project_id = ${project} AND ${isCurrent}`;
  return Prisma.sql`
    WITH RECURSIVE methods AS (
      (SELECT u.auth_method, 1 AS place FROM ${rows} WHERE ${current} ORDER BY u.auth_method LIMIT 1)
      UNION ALL
      SELECT (SELECT u.auth_method FROM ${rows} WHERE ${current} AND u.auth_method > methods.auth_method ORDER BY u.auth_method LIMIT 1), place + 1
      FROM methods WHERE methods.auth_method IS NOT NULL ${most}
    )`;
};

/** The ids of the current users with this compared value, under whatever method: it looks under each that the project has. */
export async function findIdsByValue(db: Queryable, projectId: number, authValueKey: string): Promise<bigint[]> {
  const rows = await db.query<{ id: number }>(
    inBoth(
      (place) => Prisma.sql`
    ${methodsOf(place, Prisma.sql`${projectId}::int`)}
    SELECT found.id FROM methods CROSS JOIN LATERAL (
      -- Found as in findUsersByIdentity.
      SELECT ${place.userId} AS id FROM ${place.rows}
      WHERE u.project_id = ${projectId}::int AND ${place.isCurrent} AND u.auth_method = methods.auth_method
        AND u.auth_value_key >= ${authValueKey}::text AND u.auth_value_key <= ${authValueKey}::text
      ORDER BY u.auth_value_key
      LIMIT 1
    ) AS found`,
    ),
  );
  return rows.map(({ id }) => BigInt(id));
}

/** Asks for at most `limit` users with a prefix. */
export type PrefixKey = Keyed & Prefix & { readonly limit: number };

/** The users with a column of `place` between `from` and `to` of the key, in its order, which is that of its own index. */
function beginningWith(
  { rows, userId, isCurrent }: Place,
  column: string,
  [from, to]: readonly [string, string],
  where = Prisma.empty,
): Prisma.Sql {
  const [value, start, end] = [column, from, to].map((name) => Prisma.raw(name)) as [
    Prisma.Sql,
    Prisma.Sql,
    Prisma.Sql,
  ];
  return Prisma.sql`
      SELECT ${userId} AS id, u.${value} AS value FROM ${rows}
      WHERE u.project_id = k.project_id ${where} AND u.${value} >= k.${start} AND u.${value} < k.${end} AND ${isCurrent}
      ORDER BY u.${value}
      LIMIT k.size`;
}

const EXACT = ['exact', 'exact_end'] as const;
const FOLDED = ['folded', 'folded_end'] as const;
const OF_METHOD = Prisma.sql`AND u.auth_method = methods.auth_method`;

/** A row of `findUsersByPrefix`; the id is null where the project has login methods that were not searched. */
export type PrefixRow = KeyedRow<{ [Column in keyof UserRow]: UserRow[Column] | null } & { place: number }>;

/**
 * Current users of whom an email, an identity or the external id begins with a text, with their `place` in alphabetical order.
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
        (${beginningWith(PLACES[0] as Place, 'external_id', EXACT)})
        UNION ALL
        ${inBoth((place) => beginningWith(place, 'login_email', FOLDED))}
        UNION ALL
        (${beginningWith({ ...(PLACES[0] as Place), isCurrent: HAS_OTHER_EMAIL }, 'identity_email', FOLDED)})
        UNION ALL
        ${inBoth(
          (place) => Prisma.sql`
          ${methodsOf(place, Prisma.sql`k.project_id`, Prisma.sql`AND place <= ${METHODS_BY_PREFIX}::int`)}
          SELECT identity.* FROM methods CROSS JOIN LATERAL (
            (${beginningWith(place, 'auth_value_key', EXACT, OF_METHOD)})
            UNION ALL
            (${beginningWith(place, 'auth_value_key', FOLDED, Prisma.sql`${OF_METHOD} AND k.folded <> k.exact`)})
          ) AS identity
          WHERE methods.place <= ${METHODS_BY_PREFIX}::int
          UNION ALL
          SELECT NULL, NULL FROM methods WHERE methods.place > ${METHODS_BY_PREFIX}::int AND methods.auth_method IS NOT NULL`,
        )}
      ) AS matching
      GROUP BY id
      ORDER BY place
      LIMIT k.size
    ) AS found
    LEFT JOIN LATERAL (${userById('found', 'id')}) AS u ON true`,
);
