import { Prisma, type Queryable } from '../db/client.js';
import { LINKED_ACCOUNTS, type Placed } from './columns.js';

/** The accounts of users, as one text each (`toAccounts`). */
export function findAccountsByUser(
  db: Queryable,
  keys: readonly { projectId: number; userId: number }[],
): Promise<Placed<{ linked: string }>[]> {
  return db.query(Prisma.sql`
    SELECT u.place::int AS place, ${LINKED_ACCOUNTS}
    FROM unnest(${keys.map((key) => key.projectId)}::int[], ${keys.map((key) => key.userId)}::bigint[])
      WITH ORDINALITY AS u(project_id, id, place)`);
}
