import { type Network, Prisma, type Queryable, type WalletType } from '../db/client.js';

export interface ExportedUser {
  id: number;
  authMethod: string;
  authValue: string;
  loginEmail: string | null;
  wallet: string | null;
  /** Instants are ISO 8601 text. */
  createdAt: string;
  lastLogin: string | null;
  loginCount: number;
  /** In the import's own form, oldest first. */
  accounts: { network: Network; public_key: string; wallet_type: WalletType }[];
}

/** The next `limit` current users after an id, in the order of ids, so that an import of them keeps the order of the list. */
export function exportUsers(db: Queryable, projectId: number, afterId: number, limit: number): Promise<ExportedUser[]> {
  return db.query(Prisma.sql`
    SELECT u.id, u.auth_method AS "authMethod", u.auth_value AS "authValue", u.login_email AS "loginEmail", u.wallet,
           u.created_at AS "createdAt", u.last_login AS "lastLogin", u.login_count AS "loginCount",
           coalesce((
             SELECT jsonb_agg(jsonb_build_object('network', a.network, 'public_key', a.public_key, 'wallet_type', a.wallet_type) ORDER BY a.id)
             FROM accounts a
             WHERE a.project_id = u.project_id AND a.user_id = u.id
           ), '[]') AS accounts
    FROM users u
    WHERE u.project_id = ${projectId} AND u.id > ${afterId}::bigint AND u.deleted_at IS NULL
    ORDER BY u.id
    LIMIT ${limit}::bigint`);
}
