import { Prisma, type Queryable } from '../db/statements.js';
import type { ProjectSummary } from '../domain/projects.js';

/** The id of a project, or null. */
export async function findProjectId(db: Queryable, appId: string): Promise<number | null> {
  const [project] = await db.query<{ id: number }>(Prisma.sql`SELECT id FROM projects WHERE app_id = ${appId}`);
  return project?.id ?? null;
}

/** Every project with its exact number of current users, oldest first. */
export function listProjects(db: Queryable): Promise<ProjectSummary[]> {
  return db.query(Prisma.sql`
    SELECT p.id, p.name, p.app_id AS "appId", p.created_at AS "createdAt",
           (
             (SELECT coalesce(sum(t.users), 0) FROM tallies t WHERE t.project_id = p.id AND t.span = 'all')
             + (SELECT coalesce(sum(d.change), 0) FROM tally_deltas d WHERE d.project_id = p.id)
           )::float8 AS "totalUser"
    FROM projects p
    ORDER BY p.id`);
}
