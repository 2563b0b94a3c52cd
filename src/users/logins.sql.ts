import {
  arrayOfKeys,
  type KeyColumns,
  type KeyedRead,
  keyedStatement,
  Prisma,
  type Queryable,
  SHORT_LOCK_LIMIT,
  THIS_INSTANT,
} from '../db/statements.js';
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
import { CURRENT_USER_OF_IDENTITY, currentUserBy } from './find-users.sql.js';
import {
  banOf,
  isToBeLinked,
  LOGIN_COLUMN_NAMES,
  LOGIN_COLUMNS,
  linkedAccount,
  loginUpdates,
  SHOWN_COLUMNS,
  shownColumns,
} from './user-columns.sql.js';

/* Logins are the most frequent writes by far, and share statements. No model can say them. */

/** A login to be recorded. */
export interface Login extends MaybeRetried {
  readonly projectId: number;
  readonly profile: Profile;
}

/** The outcome of a login. The user is there where there is neither a refusal nor an earlier answer. */
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

const PROFILE_COLUMNS: KeyColumns<Login> = Object.fromEntries(
  LOGIN_COLUMNS.map(({ name, type, field }) => [name, [type, ({ profile }) => profile[field as keyof LoginFields]]]),
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

const IS_BANNED = Prisma.sql`(${banOf('k', Prisma.sql`true`)})`;

/**
 * The reason for which `k` is refused. It is asked for before anything is written: a refusal by a constraint would undo the logins beside it.
 * Constraints remain for what others write at the same time, and for a lone login.
 */
const REFUSAL = Prisma.sql`
  CASE
    WHEN ${IS_BANNED} THEN 'banned'
    WHEN k.external_id IS NOT NULL OR k.networks <> '' THEN (
      SELECT CASE
        WHEN had.external_id <> k.external_id THEN 'external id kept'
        WHEN k.external_id IS NOT NULL AND (SELECT other.id FROM (${currentUserBy('external_id')}) AS other) <> coalesce(had.id, 0)
          THEN 'external id taken'
        WHEN had.id IS NOT NULL AND k.networks <> ''
          THEN (SELECT accounts::text FROM (${WOULD_HAVE}) AS would_have(accounts) WHERE accounts > ${MAX_ACCOUNTS}::int)
      END
      FROM (SELECT) AS always LEFT JOIN LATERAL (${CURRENT_USER_OF_IDENTITY}) AS had ON true
    )
  END`;
const BAN = Prisma.sql`CASE WHEN ${IS_BANNED} THEN 'banned' END`;

/** Users are locked in one order. */
const IN_ORDER = Prisma.sql`ORDER BY project_id, auth_method, auth_value_key`;

const IS_USER_OF_KEY = Prisma.sql`u.project_id = k.project_id AND u.auth_method = k.auth_method AND u.auth_value_key = k.auth_value_key`;

/** The logins that say nothing of the email of a user whose identity is an email, which is the login email of the first login only. */
const unsaid = arrayOfKeys((logins: readonly Login[]) =>
  logins.filter(({ profile }) => profile.saidEmail === null && profile.loginEmail !== null).map(textOf),
);
const SAYS_NO_EMAIL = Prisma.sql`
          excluded.login_email IS DISTINCT FROM existing.login_email
          AND concat_ws(' ', excluded.project_id, excluded.auth_method, excluded.auth_value_key) = ANY (${unsaid}::text[])`;

/**
 * A user who exists keeps the id, so no repeated login takes a number: ids would tell one project how often the users of others log in.
 * Where that user is removed at this moment, it undoes the statement (`isUserRemoved`), which is to be run again.
 */
const ID = Prisma.sql`coalesce((SELECT had.id FROM (${CURRENT_USER_OF_IDENTITY}) AS had), nextval('users_id_seq'))`;

/** Registers or counts. */
const writeUsers = (keys: Prisma.Sql) => Prisma.sql`
      INSERT INTO users AS existing (id, project_id, ${LOGIN_COLUMN_NAMES}, last_login, login_count)
      SELECT ${ID}, project_id, ${LOGIN_COLUMN_NAMES}, ${THIS_INSTANT}, 1 FROM ${keys}
      ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL DO UPDATE SET
        ${loginUpdates(SAYS_NO_EMAIL)},
        last_login = greatest(existing.last_login, excluded.last_login),
        login_count = least(existing.login_count::bigint + 1, 2147483647)`;

const WRITTEN_USERS = Prisma.sql`
    u AS (
      ${writeUsers(Prisma.sql`k WHERE refusal IS NULL AND earlier IS NULL ${IN_ORDER}`)}
      RETURNING *, xmax = 0 AS created
    )`;

/** Logins that only register or count: no join, a tenth faster, a lone one a third. Refused ones have no row, and rows no place (`placesOf`). */
const plainStatement = (keys: Prisma.Sql, isLone: boolean) => Prisma.sql`
    ${writeUsers(Prisma.sql`${keys} WHERE ${IS_BANNED} IS NULL ${isLone ? Prisma.empty : IN_ORDER}`)}
    RETURNING existing.project_id AS "projectId", existing.auth_value_key AS "authValueKey",
      NULL AS refusal, ${NO_ANSWER} AS earlier, ${shownColumns('existing')}, xmax = 0 AS created`;

/** Links the accounts that are new. The login wallet becomes external where it was linked as custodial. */
const ADDED_ACCOUNTS = Prisma.sql`
    added AS (
      INSERT INTO accounts AS linked (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT u.project_id, u.id, a.network::network, a.public_key, a.address_key, a.wallet_type::wallet_type
      FROM k
      JOIN u ON ${IS_USER_OF_KEY}
      CROSS JOIN LATERAL unnest(${listOf('networks')}, ${listOf('public_keys')}, ${listOf('address_keys')}, ${listOf('wallet_types')})
        WITH ORDINALITY AS a(network, public_key, address_key, wallet_type, ordinal)
      WHERE ${isToBeLinked(Prisma.sql`u.created`, listOf('address_keys'))}
      ORDER BY u.project_id, u.id, a.ordinal
      ON CONFLICT (project_id, user_id, address_key) DO UPDATE SET wallet_type = 'external'
        WHERE linked.wallet_type = 'custodial' AND excluded.wallet_type = 'external'
    )`;

const STORED_ANSWERS = Prisma.sql`
    stored AS (
      ${storeAnswers(Prisma.sql`jsonb_build_object('id', u.id, 'created', u.created)`, Prisma.sql`k JOIN u ON ${IS_USER_OF_KEY}`)}
    )`;

/** Parts of the text that few logins need: PostgreSQL prepares each part of a text for each execution. */
interface Parts {
  /** Accounts or external ids. */
  readonly links: boolean;
  readonly retries: boolean;
  /** True to wait for a lock as long as any statement. */
  readonly waits: boolean;
}

function loginStatement({ links, retries, waits }: Parts): KeyedRead<Login, WrittenRow> {
  const columns = {
    project_id: ['int', ({ projectId }) => projectId],
    ...PROFILE_COLUMNS,
    ...(links && ACCOUNT_COLUMNS),
    ...(retries && KEY_COLUMNS),
  } satisfies KeyColumns<Login>;
  const written = [WRITTEN_USERS, ...(links ? [ADDED_ACCOUNTS] : []), ...(retries ? [STORED_ANSWERS] : [])];
  return keyedStatement(columns, (keyRows, isLone) => {
    const keys = waits ? keyRows : Prisma.sql`${SHORT_LOCK_LIMIT}, ${keyRows}`;
    if (!links && !retries) return plainStatement(keys, isLone);
    return Prisma.sql`
    WITH k AS MATERIALIZED (
      SELECT k.*, ${links && !isLone ? REFUSAL : BAN} AS refusal, ${retries ? EARLIER : NO_ANSWER} AS earlier
      FROM ${keys}
    ), ${Prisma.join(written)}
    SELECT k.key_index::int AS "keyIndex", k.refusal, k.earlier, ${SHOWN_COLUMNS}, u.created
    FROM k LEFT JOIN u ON ${IS_USER_OF_KEY}`;
  });
}
const EITHER = [false, true];
const STATEMENTS = EITHER.map((links) =>
  EITHER.map((retries) => EITHER.map((waits) => loginStatement({ links, retries, waits }))),
);

/**
 * For each login: registers the identity or counts a login of it, and links the accounts that are new, in one statement.
 * Of two first logins at the same time, the unique index of current identities makes the later one count as a login.
 * No two logins may share an identity, an external id or an idempotency key. Unless it `waits`, it waits for a lock only for a moment (55P03).
 * Returns a row for each login, in their order; null for one that is banned.
 */
export async function recordLogins(
  db: Queryable,
  logins: readonly Login[],
  waits: boolean,
): Promise<(LoginRow | null)[]> {
  const links = logins.some(({ profile }) => profile.accounts.length > 0 || profile.externalId !== null);
  const retries = logins.some(({ retry }) => retry !== null);
  const statement = STATEMENTS[Number(links)]?.[Number(retries)]?.[Number(waits)] as KeyedRead<Login, WrittenRow>;
  const rows = await statement(db, logins);
  if (logins.length === 1) return [rows[0] ?? null];
  const ordered = new Array<LoginRow | null>(logins.length).fill(null);
  const places = links || retries ? null : placesOf(logins);
  for (const row of rows) ordered[places?.get(`${row.projectId} ${identityText(row)}`) ?? row.keyIndex - 1] = row;
  return ordered;
}

const placesOf = (logins: readonly Login[]) => new Map(logins.map((login, place) => [textOf(login), place]));

/** True if a statement failed because a user was removed while it counted a login of that user. */
export function isUserRemoved(error: unknown): boolean {
  return (error as { constraint?: unknown }).constraint === 'users_pkey';
}

/** The user of an earlier login, also if they were removed since; null if they were erased. */
export async function findRegistered(db: Queryable, projectId: number, id: number): Promise<User | null> {
  const [user] = await db.query<User>(Prisma.sql`
    SELECT ${SHOWN_COLUMNS} FROM users u WHERE u.project_id = ${projectId}::int AND u.id = ${id}::bigint`);
  return user ?? null;
}
