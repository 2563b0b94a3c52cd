import { Prisma, type User } from '../db/client.js';

/** A row of users `u` in the shape of the Prisma model. */
export const USER_COLUMNS = Prisma.sql`
  u.project_id AS "projectId", u.id, u.auth_method AS "authMethod", u.auth_value AS "authValue",
  u.auth_value_key AS "authValueKey", u.login_method AS "loginMethod", u.login_email AS "loginEmail", u.wallet,
  u.created_at AS "createdAt", u.last_login AS "lastLogin", u.login_count AS "loginCount", u.deleted_at AS "deletedAt"`;

/** A row of accounts `a` in the shape of the Prisma model. */
export const ACCOUNT_COLUMNS = Prisma.sql`
  a.project_id AS "projectId", a.id, a.user_id AS "userId", a.network, a.public_key AS "publicKey",
  a.address_key AS "addressKey", a.wallet_type AS "walletType"`;

/**
 * A row of a batched read: `place` is the index of the key that it answers. Every batched read takes its keys as arrays
 * of equal length, so that one prepared statement serves any number of them.
 */
export type Placed<Row> = Row & { place: number };

/** A user of a batched read, or a place without one. */
export type PlacedUser = Placed<User>;
