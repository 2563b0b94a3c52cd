import { Prisma, type Queryable } from '../db/statements.js';
import type { UserFilter } from '../domain/filters.js';
import type { ExportedUser } from '../domain/users.js';
import { isOpenAtEnd, isOpenAtStart } from './totals/time-ranges.js';
import { methodIs } from './totals/totals.js';
import { EXPORTED_COLUMNS } from './user-columns.js';

/** Those of the next `limit` users after an id who match, in the order of ids, so that an import of them keeps the order of the list. */
export interface ExportedBatch {
  /** The last user that was looked at; null where there is none after the id. */
  readonly lastId: number | null;
  readonly users: ExportedUser[];
}

/**
 * The users are chosen before they are filtered: with a filter, a planner without statistics would read and sort the whole project for each
 * batch.
 */
export async function exportUsers(
  db: Queryable,
  projectId: number,
  filter: UserFilter,
  afterId: number,
  limit: number,
): Promise<ExportedBatch> {
  const { createdFrom, createdTo } = filter;
  const rows = await db.query<ExportedUser & { lastId: number | null }>(Prisma.sql`
    WITH next AS MATERIALIZED (
      SELECT * FROM users WHERE project_id = ${projectId}::int AND id > ${afterId}::bigint ORDER BY id LIMIT ${limit}::bigint
    )
    SELECT last.id AS "lastId", u.id, ${EXPORTED_COLUMNS},
           coalesce((
             SELECT jsonb_agg(jsonb_build_object('network', a.network, 'public_key', a.public_key, 'wallet_type', a.wallet_type) ORDER BY a.id)
             FROM accounts a
             WHERE a.project_id = u.project_id AND a.user_id = u.id
           ), '[]') AS accounts
    FROM (SELECT max(id) AS id FROM next) AS last
    LEFT JOIN next u ON u.deleted_at IS NULL
      ${isOpenAtStart(filter) ? Prisma.empty : Prisma.sql`AND u.created_at >= ${createdFrom}::timestamptz`}
      ${isOpenAtEnd(filter) ? Prisma.empty : Prisma.sql`AND u.created_at <= ${createdTo}::timestamptz`} ${methodIs('u', filter)}
    ORDER BY u.id`);
  // Where none of them matches, there is one row without a user.
  const users = rows.flatMap(({ lastId: _, ...user }) => (user.id === null ? [] : [user]));
  return { lastId: rows[0]?.lastId ?? null, users };
}
