import type { ArrayItem } from '../db/prepared-statement.js';
import { type KeyColumns, keyedWrite, Prisma, type Queryable, THIS_INSTANT } from '../db/statements.js';
import { identityText, type LinkedAccount, MAX_ACCOUNTS, type Profile } from '../domain/identities.js';
import type { LoginFields, User } from '../domain/users.js';
import {
  EARLIER,
  type Earlier,
  KEY_COLUMNS,
  type MaybeRetried,
  NO_ANSWER,
  storeAnswers,
} from '../projects/idempotency.sql.js';
import { CURRENT_USER_OF_IDENTITY, currentUserBy, LINKED_IDENTITY, userById } from './find-users.sql.js';
import {
  isBanned,
  isOtherEmail,
  isToBeLinked,
  LINKED_COLUMNS,
  LOGIN_COLUMNS,
  linkedAccount,
  loginUpdates,
  namesOf,
  OR_BECOMES_EXTERNAL,
  PLAIN_COLUMNS,
  PRIMARY_LOGIN,
  SHOWN_COLUMNS,
  shownColumns,
} from './user-columns.sql.js';

/* Logins are the most frequent writes by far, and share statements. No model can say them. */

/** A login to be recorded. */
export interface Login extends MaybeRetried {
  readonly projectId: number;
  readonly profile: Profile;
}

/** The outcome of a login. The user is there where there is neither a refusal nor an earlier answer, and the identity is primary. */
export interface LoginRow extends User {
  readonly created: boolean;
  /** Why nothing was written. A number is how many accounts the user would have. */
  readonly refusal: 'banned' | 'external id kept' | 'external id taken' | `${number}` | null;
  readonly earlier: Earlier<{ id: number; created: boolean }> | null;
}

/** A text that no other login of a statement has. */
const textOf = ({ projectId, profile }: Login) => `${projectId} ${identityText(profile)}`;

/** A row of the statement of plain logins, which has no place of a key. */
interface WrittenRow extends LoginRow {
  readonly projectId: number;
  readonly authValueKey: string;
}

const profileColumns = (columns: typeof LOGIN_COLUMNS): KeyColumns<Login> =>
  Object.fromEntries(
    columns.map(({ name, type, field }) => [
      name,
      [type, ({ profile }) => profile[field as keyof LoginFields] as ArrayItem],
    ]),
  );

/** The words of accounts in a column of the key: arrays in an array would have to be of one length. No word contains a space. */
const words = (field: keyof LinkedAccount) => (login: Login) =>
  login.profile.accounts.map((account) => account[field]).join(' ');
const ACCOUNT_COLUMNS: KeyColumns<Login> = {
  networks: ['text', words('network')],
  public_keys: ['text', words('publicKey')],
  address_keys: ['text', words('addressKey')],
  wallet_types: ['text', words('walletType')],
};
/** The columns of keys that say all that a login may say. */
export const ALL_OF_LOGIN: KeyColumns<Login> = {
  project_id: ['int', ({ projectId }) => projectId],
  ...profileColumns(LOGIN_COLUMNS),
  ...ACCOUNT_COLUMNS,
  ...KEY_COLUMNS,
};
const listOf = (column: string) => Prisma.raw(`string_to_array(k.${column}, ' ')`);

/** The number of accounts that the user `had` would have with those of `k`; 0 where all of these are linked already. */
const WOULD_HAVE = Prisma.sql`
  SELECT CASE WHEN count(*) = 0 THEN 0 ELSE count(*) + (
    SELECT count(*) FROM (
      SELECT 1 FROM accounts a
      WHERE a.project_id = had.project_id AND a.user_id >= had.id AND a.user_id <= had.id
      ORDER BY a.user_id
      OFFSET 0
    ) AS linked
  ) END
  FROM unnest(${listOf('address_keys')}) AS given(address_key)
  WHERE ${linkedAccount('id', 'given.address_key', 'had')} IS NULL`;

const IS_BANNED = isBanned('k');

/**
 * The reason for which `k` is refused, whose user is `had`, if there is one. It is asked for before anything is written: a refusal by a constraint would undo the logins beside it.
 * Constraints remain for what others write at the same time, and for a lone login. Of a linked identity, only the statement of linked ones has the user.
 */
const refusalOf = (had: Prisma.Sql) => Prisma.sql`
  CASE
    WHEN ${IS_BANNED} THEN 'banned'
    WHEN k.external_id IS NOT NULL OR k.networks <> '' THEN (
      SELECT CASE
        WHEN had.external_id <> k.external_id THEN 'external id kept'
        WHEN k.external_id IS NOT NULL AND (SELECT other.id FROM (${currentUserBy('external_id')}) AS other) <> coalesce(had.id, 0)
          AND (had.id IS NOT NULL OR linked_user(k.project_id, k.auth_method, k.auth_value_key) IS NULL)
          THEN 'external id taken'
        WHEN had.id IS NOT NULL AND k.networks <> ''
          THEN (SELECT accounts::text FROM (${WOULD_HAVE}) AS would_have(accounts) WHERE accounts > ${MAX_ACCOUNTS}::int)
      END
      FROM (SELECT) AS always LEFT JOIN LATERAL (${had}) AS had ON true
    )
  END`;
const BAN = Prisma.sql`CASE WHEN ${IS_BANNED} THEN 'banned' END`;

/** Users are locked in one order. */
export const IN_ORDER = Prisma.sql`ORDER BY project_id, auth_method, auth_value_key`;

export const IS_USER_OF_KEY = Prisma.sql`u.project_id = k.project_id AND u.auth_method = k.auth_method AND u.auth_value_key = k.auth_value_key`;

/**
 * A user who exists keeps the id, so no repeated login takes a number: ids would tell one project how often the users of others log in.
 * Where that user is removed at this moment, it undoes the statement (`isUserRemoved`), which is to be run again. Null for a linked identity:
 * only a login that would register somebody looks for one, and who links it meanwhile makes the statement fail (`isLinked`).
 */
const ID = Prisma.sql`coalesce((SELECT had.id FROM (${CURRENT_USER_OF_IDENTITY}) AS had),
        CASE WHEN linked_user(k.project_id, k.auth_method, k.auth_value_key) IS NULL THEN nextval('users_id_seq') END)`;

const COUNTED = Prisma.sql`
        last_login = greatest(existing.last_login, excluded.last_login),
        login_count = least(existing.login_count::bigint + 1, 2147483647)`;

/** Registers or counts, where the identity is not linked. */
const writeUsers = (keys: Prisma.Sql, columns: typeof LOGIN_COLUMNS) => Prisma.sql`
      INSERT INTO users AS existing (id, project_id, ${namesOf(columns)}, last_login, login_count)
      SELECT * FROM (SELECT ${ID} AS id, project_id, ${namesOf(columns)}, ${THIS_INSTANT}, 1 FROM ${keys}) AS login WHERE id IS NOT NULL
      ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL DO UPDATE SET
        ${loginUpdates(columns)}, identity_login = NULL, ${COUNTED}`;

const writtenUsers = (columns: typeof LOGIN_COLUMNS) => Prisma.sql`
    u AS (
      ${writeUsers(Prisma.sql`k WHERE refusal IS NULL AND earlier IS NULL ${IN_ORDER}`, columns)}
      RETURNING *, xmax = 0 AS created
    )`;

/** Logins that only register or count: no join, a tenth faster, a lone one a third. Others have no row, and rows no place (`placesOf`). */
const plainStatement = (keys: Prisma.Sql, isLone: boolean) => Prisma.sql`
    ${writeUsers(Prisma.sql`${keys} WHERE ${IS_BANNED} IS NULL ${isLone ? Prisma.empty : IN_ORDER}`, PLAIN_COLUMNS)}
    RETURNING existing.project_id AS "projectId", existing.auth_value_key AS "authValueKey",
      NULL AS refusal, ${NO_ANSWER} AS earlier, ${shownColumns('existing')}, xmax = 0 AS created`;

/** Links the accounts that are new. The login wallet becomes external where it was linked as custodial. */
export const addedAccounts = (isUserOfKey: Prisma.Sql) => Prisma.sql`
    added AS (
      INSERT INTO accounts AS linked (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT u.project_id, u.id, a.network::network, a.public_key, a.address_key, a.wallet_type::wallet_type
      FROM k
      JOIN u ON ${isUserOfKey}
      CROSS JOIN LATERAL unnest(${listOf('networks')}, ${listOf('public_keys')}, ${listOf('address_keys')}, ${listOf('wallet_types')})
        WITH ORDINALITY AS a(network, public_key, address_key, wallet_type, ordinal)
      WHERE ${isToBeLinked(Prisma.sql`u.created`, listOf('address_keys'))}
      ORDER BY u.project_id, u.id, a.ordinal
      ${OR_BECOMES_EXTERNAL}
    )`;

export const storedAnswers = (isUserOfKey: Prisma.Sql) => Prisma.sql`
    stored AS (
      ${storeAnswers(Prisma.sql`jsonb_build_object('id', u.id, 'created', u.created)`, Prisma.sql`k JOIN u ON ${isUserOfKey}`)}
    )`;

/** Parts of the text that few logins need: PostgreSQL prepares each part of a text for each execution. */
interface Parts {
  /** Anything of the columns that few logins give (`isRare`), or accounts. */
  readonly extras: boolean;
  readonly retries: boolean;
}

function loginStatement({ extras, retries }: Parts) {
  const given = extras ? LOGIN_COLUMNS : PLAIN_COLUMNS;
  const columns = {
    project_id: ['int', ({ projectId }) => projectId],
    ...profileColumns(given),
    ...(extras && ACCOUNT_COLUMNS),
    ...(retries && KEY_COLUMNS),
  } satisfies KeyColumns<Login>;
  const written = [
    writtenUsers(given),
    ...(extras ? [addedAccounts(IS_USER_OF_KEY)] : []),
    ...(retries ? [storedAnswers(IS_USER_OF_KEY)] : []),
  ];
  return keyedWrite<Login, WrittenRow>(columns, (keys, isLone) => {
    if (!extras && !retries) return plainStatement(keys, isLone);
    return Prisma.sql`
    WITH k AS MATERIALIZED (
      SELECT k.*, ${extras && !isLone ? refusalOf(CURRENT_USER_OF_IDENTITY) : BAN} AS refusal, ${retries ? EARLIER : NO_ANSWER} AS earlier
      FROM ${keys}
    ), ${Prisma.join(written)}
    SELECT k.key_index::int AS "keyIndex", k.refusal, k.earlier, ${SHOWN_COLUMNS}, u.created
    FROM k LEFT JOIN u ON ${IS_USER_OF_KEY}`;
  });
}
const STATEMENTS = {
  plain: loginStatement({ extras: false, retries: false }),
  withExtras: loginStatement({ extras: true, retries: false }),
  withRetries: loginStatement({ extras: false, retries: true }),
  withBoth: loginStatement({ extras: true, retries: true }),
};

function statementFor({ extras, retries }: Parts) {
  if (extras) return retries ? STATEMENTS.withBoth : STATEMENTS.withExtras;
  return retries ? STATEMENTS.withRetries : STATEMENTS.plain;
}

/** A user is written by one row of a statement: of more logins of one, the others wait for their turn. */
const IS_LINKED_USER = Prisma.sql`u.project_id = k.project_id AND u.id = k.user_id AND k.turn = 1`;

const IS_OTHER_EMAIL = Prisma.raw(isOtherEmail('k.said_email', 'i.login_email'));

/** Logins by linked identities: each counts for its user, and the identity keeps its own last login and its email. */
const linkedStatement = keyedWrite<Login, LoginRow>(
  ALL_OF_LOGIN,
  (keys) => Prisma.sql`
    WITH k AS MATERIALIZED (
      SELECT k.*, ${refusalOf(Prisma.sql`SELECT * FROM (${userById('k', 'user_id')}) AS u WHERE u.deleted_at IS NULL`)} AS refusal, ${EARLIER} AS earlier
      FROM (
        SELECT k.*, linked.user_id, linked.id AS identity_id,
          row_number() OVER (PARTITION BY k.project_id, linked.user_id ORDER BY k.key_index) AS turn
        FROM ${keys}
        LEFT JOIN LATERAL (${LINKED_IDENTITY}) AS linked ON true
      ) AS k
    ), u AS (
      UPDATE users AS existing SET ${loginUpdates(LINKED_COLUMNS)}, identity_login = ${PRIMARY_LOGIN}, ${COUNTED}
      FROM (SELECT k.*, ${THIS_INSTANT} AS last_login FROM k WHERE refusal IS NULL AND earlier IS NULL AND turn = 1) AS excluded
      WHERE existing.project_id = excluded.project_id AND existing.id = excluded.user_id AND (existing.deleted_at IS NULL)::int = 1
      RETURNING existing.*, false AS created
    ), used AS (
      UPDATE identities AS i SET last_login = ${THIS_INSTANT}, login_email = coalesce(k.said_email, i.login_email),
        email_verified = CASE WHEN ${IS_OTHER_EMAIL} THEN k.email_verified ELSE coalesce(k.email_verified, i.email_verified) END
      FROM k JOIN u ON ${IS_LINKED_USER}
      WHERE i.project_id = k.project_id AND i.id = k.identity_id
    ), ${addedAccounts(IS_LINKED_USER)}, ${storedAnswers(IS_LINKED_USER)}
    SELECT k.key_index::int AS "keyIndex", k.refusal, k.earlier, ${SHOWN_COLUMNS}, u.created
    FROM k LEFT JOIN u ON ${IS_LINKED_USER}`,
);

/** For each login by a linked identity, the row of `recordLogins`; null where the identity is not linked, or its user has another login of the statement. */
export async function recordLinkedLogins(
  db: Queryable,
  logins: readonly Login[],
  waits: boolean,
): Promise<(LoginRow | null)[]> {
  const ordered = new Array<LoginRow | null>(logins.length).fill(null);
  for (const row of await linkedStatement(db, logins, waits)) ordered[row.keyIndex - 1] = decided(row);
  return ordered;
}

const decided = (row: LoginRow | undefined) =>
  row === undefined || (row.id === null && row.refusal === null && row.earlier === null) ? null : row;

/**
 * For each login: registers the identity or counts a login of it, and links the accounts that are new, in one statement.
 * Of two first logins at the same time, the unique index of current identities makes the later one count as a login.
 * No two logins may share an identity, an external id or an idempotency key. Unless it `waits`, it waits for a lock only for a moment (55P03).
 * Returns a row for each login, in their order; null for one whose identity is linked or perhaps banned (`recordLinkedLogins` decides it).
 */
export async function recordLogins(
  db: Queryable,
  logins: readonly Login[],
  waits: boolean,
): Promise<(LoginRow | null)[]> {
  const extras = logins.some(({ profile }) => hasExtras(profile));
  const retries = logins.some(({ retry }) => retry !== null);
  const rows = await statementFor({ extras, retries })(db, logins, waits);
  if (logins.length === 1) return [decided(rows[0])];
  const ordered = new Array<LoginRow | null>(logins.length).fill(null);
  const places = extras || retries ? null : placesOf(logins);
  for (const row of rows)
    ordered[places?.get(`${row.projectId} ${identityText(row)}`) ?? row.keyIndex - 1] = decided(row);
  return ordered;
}

/** The fields that few logins give. */
const RARE_FIELDS = LOGIN_COLUMNS.filter(({ isRare }) => isRare).map(({ field }) => field as keyof LoginFields);

function hasExtras(profile: Profile): boolean {
  return profile.accounts.length > 0 || RARE_FIELDS.some((field) => profile[field] !== null);
}

const placesOf = (logins: readonly Login[]) => new Map(logins.map((login, place) => [textOf(login), place]));

/** True if a statement failed because a user was removed while it counted a login of that user. */
export function isUserRemoved(error: unknown): boolean {
  return (error as { constraint?: unknown }).constraint === 'users_pkey';
}

/** True if a statement failed because another user has linked the identity at this moment. */
export function isLinked(error: unknown): boolean {
  return (error as { constraint?: unknown }).constraint === 'identities_identity_key';
}

/** The user of an earlier login, also if they were removed since; null if they were erased. */
export async function findRegistered(db: Queryable, projectId: number, id: number): Promise<User | null> {
  const [user] = await db.query<User>(Prisma.sql`
    SELECT ${SHOWN_COLUMNS} FROM users u WHERE u.project_id = ${projectId}::int AND u.id = ${id}::bigint`);
  return user ?? null;
}
