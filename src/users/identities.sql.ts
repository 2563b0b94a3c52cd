import { keyedStatement, Prisma, type Queryable, THIS_INSTANT } from '../db/statements.js';
import { COUNTED_METHODS } from '../domain/auth-methods.js';
import type { Identity, LinkedAccount } from '../domain/identities.js';
import type { UserIdentity } from '../domain/users.js';
import { userById } from './find-users.sql.js';
import { isToBeLinked, mergeUpdates, OR_BECOMES_EXTERNAL } from './user-columns.sql.js';

/* The identities of a user: the primary one stands in `users`, and those that are linked in `identities`. Triggers keep two users from one identity. */

/** The primary identity of user `u`, in the columns of `identities`. */
export const PRIMARY = Prisma.sql`
  u.project_id, u.id AS user_id, u.auth_method, u.auth_value, u.auth_value_key, u.identity_email AS login_email, u.email_verified,
  coalesce(u.identity_at, u.created_at) AS created_at, nullif(coalesce(u.identity_login, u.last_login), '-infinity') AS last_login`;
export const COLUMNS = Prisma.raw(
  'project_id, user_id, auth_method, auth_value, auth_value_key, login_email, email_verified, created_at, last_login',
);
const SHOWN = Prisma.sql`
  i.id, i.auth_method AS "authMethod", i.auth_value AS "authValue", i.auth_value_key AS "authValueKey", i.login_email AS "loginEmail",
  i.email_verified AS "emailVerified", i.created_at AS "createdAt", i.last_login AS "lastLogin",
  CASE WHEN i.auth_method IN (${Prisma.raw(COUNTED_METHODS.map((method) => `'${method}'`).join(', '))}) THEN i.auth_method ELSE 'socials' END AS "loginMethod"`;

/** An identity of a user as it is stored. */
export interface IdentityRow extends Pick<Identity, 'authValueKey'>, Omit<UserIdentity, 'isPrimary'> {
  /** Null for the primary one. */
  readonly id: number | null;
}

interface DetailsKey {
  readonly projectId: number;
  readonly userId: number;
}

/** The identities of users, the primary one first, then the oldest; with it the metadata. */
export const findIdentities = keyedStatement<DetailsKey, IdentityRow & { metadata: object | null }>(
  { project_id: ['int', (key) => key.projectId], id: ['bigint', (key) => key.userId] },
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", ${SHOWN}, i.metadata
    FROM ${keys}
    CROSS JOIN LATERAL (
      SELECT NULL::bigint AS id, ${PRIMARY}, u.metadata FROM (${userById('k', 'id')}) AS u
      UNION ALL
      SELECT linked.* FROM (
        SELECT i.id, ${COLUMNS}, NULL::jsonb FROM identities i
        WHERE i.project_id = k.project_id AND i.user_id >= k.id AND i.user_id <= k.id
        ORDER BY i.user_id
      ) AS linked
    ) AS i
    ORDER BY k.key_index, i.id IS NOT NULL, i.created_at, i.id`,
);

/** Users to lock: current ones, also removed ones who were not merged, or also those. */
export type Lockable = 'current' | 'not merged' | 'any';

/** Locks users in the order of their ids, which others do too, and returns the ids. */
export async function lockUsers(tx: Queryable, projectId: number, ids: readonly bigint[], which: Lockable) {
  const rows = await tx.query<{ id: number }>(Prisma.sql`
    SELECT u.id FROM users u
    WHERE u.project_id = ${projectId}::int AND u.id = ANY (${ids}::bigint[]) AND (${which !== 'current'}::boolean OR (u.deleted_at IS NULL)::int = 1)
      AND (${which === 'any'}::boolean OR u.merged_into IS NULL)
    ORDER BY u.id
    FOR NO KEY UPDATE`);
  return rows.map(({ id }) => BigInt(id));
}

/** An identity that is about to be linked, with what was known of it before, if anything was. */
export type NewIdentity = Identity &
  Pick<UserIdentity, 'loginEmail' | 'emailVerified'> &
  Partial<Pick<UserIdentity, 'createdAt' | 'lastLogin'>>;

export async function insertIdentity(tx: Queryable, projectId: number, userId: bigint, identity: NewIdentity) {
  const { authMethod, authValue, authValueKey, loginEmail, emailVerified } = identity;
  const { createdAt = null, lastLogin = null } = identity;
  await tx.query(Prisma.sql`
    INSERT INTO identities (${COLUMNS})
    VALUES (${projectId}::int, ${userId}::bigint, ${authMethod}, ${authValue}, ${authValueKey}, ${loginEmail}, ${emailVerified}::boolean,
            coalesce(${createdAt}::timestamptz, ${THIS_INSTANT}), ${lastLogin}::timestamptz)`);
}

export async function deleteIdentity(tx: Queryable, projectId: number, id: number): Promise<void> {
  await tx.query(Prisma.sql`DELETE FROM identities WHERE project_id = ${projectId}::int AND id = ${id}::bigint`);
}

/** Sets what is known of the email of a linked identity, or of the primary one. */
export async function setEmail(
  tx: Queryable,
  projectId: number,
  userId: bigint,
  { id, loginEmail, emailVerified }: Pick<IdentityRow, 'id' | 'loginEmail' | 'emailVerified'>,
): Promise<void> {
  const [row, column] =
    id === null ? [Prisma.sql`users`, Prisma.sql`identity_email`] : [Prisma.sql`identities`, Prisma.sql`login_email`];
  await tx.query(Prisma.sql`
    UPDATE ${row} SET ${column} = ${loginEmail}, email_verified = ${emailVerified}::boolean
    WHERE project_id = ${projectId}::int AND id = ${id ?? userId}::bigint`);
}

/** Writes an identity in the place of the primary one, whose wallet goes with it. */
export async function setPrimary(tx: Queryable, projectId: number, userId: bigint, identity: NewIdentity) {
  const { authMethod, authValue, authValueKey, loginEmail, emailVerified } = identity;
  const { createdAt = null, lastLogin = null } = identity;
  await tx.query(Prisma.sql`
    UPDATE users SET auth_method = ${authMethod}, auth_value = ${authValue}, auth_value_key = ${authValueKey},
      identity_email = ${loginEmail}, email_verified = ${emailVerified}::boolean,
      identity_at = coalesce(${createdAt}::timestamptz, ${THIS_INSTANT}),
      identity_login = coalesce(${lastLogin}::timestamptz, '-infinity'),
      wallet = CASE WHEN ${authMethod} = 'wallet' THEN ${authValue} ELSE wallet END
    WHERE project_id = ${projectId}::int AND id = ${userId}::bigint`);
}

/** Links the accounts that are new. A wallet becomes external where it was linked as custodial. */
export async function addAccounts(
  tx: Queryable,
  projectId: number,
  userId: bigint,
  accounts: readonly LinkedAccount[],
) {
  if (accounts.length === 0) return;
  const column = (field: keyof LinkedAccount) => accounts.map((account) => account[field]);
  const keys = Prisma.sql`${column('addressKey')}::text[]`;
  await tx.query(Prisma.sql`
    INSERT INTO accounts AS linked (project_id, user_id, network, public_key, address_key, wallet_type)
    SELECT u.project_id, u.id, a.network::network, a.public_key, a.address_key, a.wallet_type::wallet_type
    FROM (SELECT ${projectId}::int AS project_id, ${userId}::bigint AS id) AS u
    CROSS JOIN unnest(${column('network')}::text[], ${column('publicKey')}::text[], ${keys}, ${column('walletType')}::text[])
      AS a(network, public_key, address_key, wallet_type)
    WHERE ${isToBeLinked(Prisma.sql`false`, keys)}
      ${OR_BECOMES_EXTERNAL}`);
}

/** Unlinks an address of a user; false if it is none. */
export async function deleteAccount(tx: Queryable, projectId: number, userId: bigint, addressKey: string) {
  const ofUser = Prisma.sql`project_id = ${projectId}::int`;
  await tx.query(Prisma.sql`
    UPDATE users SET wallet = NULL WHERE ${ofUser} AND id = ${userId}::bigint AND lower(wallet) = lower(${addressKey})`);
  const deleted = await tx.query(Prisma.sql`
    DELETE FROM accounts WHERE ${ofUser} AND user_id = ${userId}::bigint AND address_key = ${addressKey} RETURNING id`);
  return deleted.length > 0;
}

/** The user who goes in a merge, with the primary identity. */
interface MergedUser {
  readonly id: bigint;
  readonly primary: IdentityRow;
}

/** What one user has goes to another one, in an order that leaves no identity with two; both are locked. The first is removed then. */
export async function mergeUsers(
  tx: Queryable,
  projectId: number,
  { id: from, primary }: MergedUser,
  into: bigint,
): Promise<void> {
  const ofFrom = Prisma.sql`project_id = ${projectId}::int AND user_id = ${from}::bigint`;
  const ofInto = Prisma.sql`project_id = ${projectId}::int AND user_id = ${into}::bigint`;
  // Before the identities come, which may have emails.
  await tx.query(Prisma.sql`
    UPDATE users u SET said_email = o.said_email FROM users o
    WHERE u.project_id = ${projectId}::int AND u.id = ${into}::bigint AND o.project_id = u.project_id AND o.id = ${from}::bigint
      AND u.login_email IS NULL AND u.said_email IS NULL AND o.said_email IS NOT NULL`);
  await tx.query(Prisma.sql`
    UPDATE accounts has SET wallet_type = 'external'
    WHERE has.${ofInto} AND has.wallet_type = 'custodial' AND EXISTS (
      SELECT FROM accounts a WHERE a.${ofFrom} AND a.address_key = has.address_key AND a.wallet_type = 'external')`);
  await tx.query(Prisma.sql`
    UPDATE accounts a SET user_id = ${into}::bigint
    WHERE a.${ofFrom} AND NOT EXISTS (SELECT FROM accounts has WHERE has.${ofInto} AND has.address_key = a.address_key)
      AND require_account_room(${projectId}::int, ${into}::bigint, ARRAY(SELECT b.address_key FROM accounts b WHERE b.${ofFrom}))`);
  await tx.query(Prisma.sql`DELETE FROM accounts WHERE ${ofFrom}`);
  await tx.query(Prisma.sql`
    UPDATE users SET deleted_at = ${THIS_INSTANT}, merged_into = ${into}::bigint
    WHERE project_id = ${projectId}::int AND id = ${from}::bigint`);
  await tx.query(Prisma.sql`UPDATE identities SET user_id = ${into}::bigint WHERE ${ofFrom}`);
  await insertIdentity(tx, projectId, into, primary);
  await tx.query(Prisma.sql`
    UPDATE users u SET ${mergeUpdates}
    FROM users o
    WHERE u.project_id = ${projectId}::int AND u.id = ${into}::bigint AND o.project_id = u.project_id AND o.id = ${from}::bigint`);
}
