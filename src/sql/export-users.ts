import { Prisma, type Queryable } from '../db/statements.js';
import type { UserFilter } from '../domain/filters.js';
import type { ExportedUser } from '../domain/users.js';
import { isOpenAtEnd, isOpenAtStart } from './totals/time-ranges.js';
import { methodIs } from './totals/totals.js';
import { EXPORTED_COLUMNS } from './user-columns.js';

/** The next `limit` matching users after an id. In the order of ids, so that an import of them keeps the order of the list. */
export function exportUsers(
  db: Queryable,
  projectId: number,
  filter: UserFilter,
  afterId: number,
  limit: number,
): Promise<ExportedUser[]> {
  const { createdFrom, createdTo } = filter;
  return db.query(Prisma.sql`
    SELECT u.id, ${EXPORTED_COLUMNS},
           coalesce((
             SELECT jsonb_agg(jsonb_build_object('network', a.network, 'public_key', a.public_key, 'wallet_type', a.wallet_type) ORDER BY a.id)
             FROM accounts a
             WHERE a.project_id = u.project_id AND a.user_id = u.id
           ), '[]') AS accounts
    FROM users u
    -- Written so that it fits no index of current users, none of which has the order of ids.
    WHERE u.project_id = ${projectId} AND u.id > ${afterId}::bigint AND (u.deleted_at IS NULL)::int = 1
      ${isOpenAtStart(filter) ? Prisma.empty : Prisma.sql`AND u.created_at >= ${createdFrom}::timestamptz`}
      ${isOpenAtEnd(filter) ? Prisma.empty : Prisma.sql`AND u.created_at <= ${createdTo}::timestamptz`} ${methodIs('u', filter)}
    ORDER BY u.id
    LIMIT ${limit}::bigint`);
}
