import { type Account, Prisma, type Reader } from '../db/client.js';
import { ACCOUNT_COLUMNS, type Placed } from './columns.js';

/** The accounts of users, oldest first within each user. */
export function findAccountsByUser(
  db: Reader,
  keys: readonly { projectId: number; userId: bigint }[],
): Promise<Placed<Account>[]> {
  return db.read(Prisma.sql`
    SELECT k.place::int AS place, ${ACCOUNT_COLUMNS}
    FROM unnest(${keys.map((key) => key.projectId)}::int[], ${keys.map((key) => key.userId)}::bigint[])
      WITH ORDINALITY AS k(project_id, user_id, place)
    CROSS JOIN LATERAL (
      SELECT * FROM accounts a WHERE a.project_id = k.project_id AND a.user_id = k.user_id OFFSET 0
    ) AS a
    ORDER BY a.id`);
}
