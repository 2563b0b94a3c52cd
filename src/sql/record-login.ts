import { Prisma, type Queryable } from '../db/client.js';
import type { Profile } from '../domain/identities.js';
import { USER_COLUMNS, type User } from './columns.js';

/**
 * Registers the identity or counts a login of it, and adds the accounts that it does not have yet: one statement, so one
 * transaction. Racing first logins meet at the unique index of live identities; the later one counts as a login. Null where
 * the identity is banned. The login wallet becomes external where it is linked as custodial.
 */
export async function recordLogin(
  db: Queryable,
  projectId: number,
  profile: Profile,
): Promise<(User & { created: boolean }) | null> {
  const accounts = profile.accounts;
  const rows = await db.query<User & { created: boolean }>(Prisma.sql`
    WITH u AS (
      INSERT INTO users AS existing
        (project_id, auth_method, auth_value, auth_value_key, login_email, wallet, last_login, login_count)
      SELECT ${projectId}::int, ${profile.authMethod}, ${profile.authValue}, ${profile.authValueKey}, ${profile.loginEmail},
             ${profile.wallet}, now(), 1
      WHERE NOT EXISTS (
        SELECT 1 FROM bans
        WHERE project_id = ${projectId}::int AND auth_method = ${profile.authMethod} AND auth_value_key = ${profile.authValueKey}
      )
      ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL DO UPDATE SET
        login_email = coalesce(excluded.login_email, existing.login_email),
        wallet = coalesce(excluded.wallet, existing.wallet),
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
      ) WITH ORDINALITY AS a(network, public_key, address_key, wallet_type, place)
      WHERE ${isToBeLinked(Prisma.sql`u.created`, Prisma.sql`${accounts.map((account) => account.addressKey)}::text[]`)}
      ORDER BY a.place
      ON CONFLICT (project_id, user_id, address_key) DO UPDATE SET wallet_type = 'external'
        WHERE linked.wallet_type = 'custodial' AND excluded.wallet_type = 'external'
    )
    SELECT ${USER_COLUMNS}, u.created FROM u`);
  return rows[0] ?? null;
}

/**
 * Whether account `a` is to be written for user `u`: it is not linked yet and there is room for it, or it becomes external. What is
 * linked already is left alone, and its row not even locked. A subquery, because no plan for it is a bad one; a new user needs none of it.
 */
export function isToBeLinked(isNewUser: Prisma.Sql, addressKeys: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`
    (${isNewUser} OR CASE (
      SELECT known.wallet_type FROM accounts known
      WHERE known.project_id = u.project_id AND known.user_id = u.id AND known.address_key = a.address_key
    )
      WHEN 'external' THEN false
      WHEN 'custodial' THEN a.wallet_type::text = 'external'
      ELSE require_account_room(u.project_id, u.id, ${addressKeys})
    END)`;
}

/** The user of a login, also where they have been removed since; null where they have been erased. */
export async function findRegistered(db: Queryable, projectId: number, id: number): Promise<User | null> {
  const [user] = await db.query<User>(Prisma.sql`
    SELECT ${USER_COLUMNS} FROM users u WHERE u.project_id = ${projectId}::int AND u.id = ${id}::bigint`);
  return user ?? null;
}
