import { execute, type ModelTransaction, Prisma, type Queryable } from '../db/statements.js';

/* Models lock no rows. The rest is in notes.ts, by models. */

/** Lets no other transaction add a note to a user, current or removed, or erase the user, until this one ends. */
export async function lockUser(tx: Queryable | ModelTransaction, projectId: number, id: bigint): Promise<void> {
  await execute(
    tx,
    Prisma.sql`SELECT FROM users WHERE project_id = ${projectId}::int AND id = ${id}::bigint FOR NO KEY UPDATE`,
  );
}
