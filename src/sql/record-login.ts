import { Prisma, type Queryable } from '../db/statements.js';
import type { Profile } from '../domain/identities.js';
import type { User } from '../domain/users.js';
import { throwExternalIdError } from './external-ids.js';
import { isToBeLinked, throwLinkingError } from './linked-accounts.js';
import { LOGIN_COLUMN_NAMES, LOGIN_UPDATES, loginValues, SHOWN_COLUMNS } from './user-columns.js';

/**
 * Registers the identity or counts a login of it, and links the accounts that are new. It is one statement, so one transaction:
 * of two first logins at the same time, the unique index of current identities makes the later one count as a login. The login
 * wallet becomes external where it was linked as custodial. Null if the identity is banned; BAD_USER_INPUT if the user would
 * have too many accounts; CONFLICT if the external id is that of another user, or the user has another one.
 */
export async function recordLogin(
  db: Queryable,
  projectId: number,
  profile: Profile,
): Promise<(User & { created: boolean }) | null> {
  const accounts = profile.accounts;
  const rows = await db
    .query<User & { created: boolean }>(Prisma.sql`
    WITH u AS (
      INSERT INTO users AS existing (project_id, ${LOGIN_COLUMN_NAMES}, last_login, login_count)
      SELECT ${projectId}::int, ${loginValues(profile)}, now(), 1
      WHERE NOT EXISTS (
        SELECT 1 FROM bans
        WHERE project_id = ${projectId}::int AND auth_method = ${profile.authMethod} AND auth_value_key = ${profile.authValueKey}
      )
      ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL DO UPDATE SET
        ${LOGIN_UPDATES},
        last_login = greatest(existing.last_login, excluded.last_login),
        login_count = least(existing.login_count::bigint + 1, 2147483647)
      RETURNING *, xmax = 0 AS created
    ), added AS (
      INSERT INTO accounts AS linked (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT u.project_id, u.id, a.network::network, a.public_key, a.address_key, a.wallet_type::wallet_type
      FROM u, unnest(
        ${accounts.map((account) => account.network)}::text[],
        ${accounts.map((account) => account.publicKey)}::text[],
        ${accounts.map((account) => account.addressKey)}::text[],
        ${accounts.map((account) => account.walletType)}::text[]
      ) WITH ORDINALITY AS a(network, public_key, address_key, wallet_type, ordinal)
      WHERE ${isToBeLinked(Prisma.sql`u.created`, Prisma.sql`${accounts.map((account) => account.addressKey)}::text[]`)}
      ORDER BY a.ordinal
      ON CONFLICT (project_id, user_id, address_key) DO UPDATE SET wallet_type = 'external'
        WHERE linked.wallet_type = 'custodial' AND excluded.wallet_type = 'external'
    )
    SELECT ${SHOWN_COLUMNS}, u.created FROM u`)
    .catch(throwExternalIdError)
    .catch(throwLinkingError);
  return rows[0] ?? null;
}

/** The user of an earlier login, also if they were removed since; null if they were erased. */
export async function findRegistered(db: Queryable, projectId: number, id: number): Promise<User | null> {
  const [user] = await db.query<User>(Prisma.sql`
    SELECT ${SHOWN_COLUMNS} FROM users u WHERE u.project_id = ${projectId}::int AND u.id = ${id}::bigint`);
  return user ?? null;
}
