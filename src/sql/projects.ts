import { Prisma, type Queryable } from '../db/statements.js';
import type { ProjectSummary } from '../domain/projects.js';

/** The id of a project, or null. */
export async function findProjectId(db: Queryable, appId: string): Promise<number | null> {
  const [project] = await db.query<{ id: number }>(Prisma.sql`SELECT id FROM projects WHERE app_id = ${appId}`);
  return project?.id ?? null;
}

/** What is shown of a project `p`, with its exact number of current users. */
const SUMMARY = Prisma.sql`
  p.id, p.name, p.app_id AS "appId", p.created_at AS "createdAt", p.disabled_at AS "disabledAt",
  p.requests_per_minute AS "requestsPerMinute",
  (
    (SELECT coalesce(sum(t.users), 0) FROM tallies t WHERE t.project_id = p.id AND t.span = 'all')
    + (SELECT coalesce(sum(d.change), 0) FROM tally_deltas d WHERE d.project_id = p.id)
  )::float8 AS "totalUser"`;

/** Every project with its exact number of current users, oldest first. */
export function listProjects(db: Queryable): Promise<ProjectSummary[]> {
  return db.query(Prisma.sql`SELECT ${SUMMARY} FROM projects p ORDER BY p.id`);
}

/** One project, or nothing if it was deleted. */
export async function findProject(db: Queryable, projectId: number): Promise<ProjectSummary | undefined> {
  const [project] = await db.query<ProjectSummary>(
    Prisma.sql`SELECT ${SUMMARY} FROM projects p WHERE p.id = ${projectId}::int`,
  );
  return project;
}

/** The number of projects. */
export async function countProjects(db: Queryable): Promise<number> {
  const [row] = await db.query<{ count: number }>(Prisma.sql`SELECT count(*) FROM projects`);
  return row?.count ?? 0;
}
