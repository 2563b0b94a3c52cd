import type { KeyedRow } from '../db/batched-read.js';
import { Prisma, type Queryable } from '../db/statements.js';
import type { Position } from '../domain/filters.js';
import type { ProjectSummary } from '../domain/projects.js';

/** The id of a project, or null. */
export async function findProjectId(db: Queryable, appId: string): Promise<number | null> {
  const [project] = await db.query<{ id: number }>(Prisma.sql`SELECT id FROM projects WHERE app_id = ${appId}`);
  return project?.id ?? null;
}

/**
 * What is shown of the projects of a page, with their exact numbers of current users. The deltas of the page are added up in the
 * order of their key, so that they are read by it: to the planner a few projects may look like all of them.
 */
function summaries(page: Prisma.Sql): Prisma.Sql {
  const ofPage = Prisma.sql`project_id = ANY(ARRAY(SELECT id FROM page))`;
  return Prisma.sql`
    WITH page AS MATERIALIZED (${page})
    SELECT ${PROJECT}, (coalesce(tallied.users, 0) + coalesce(pending.change, 0))::float8 AS "totalUser"
    FROM page p
    LEFT JOIN (
      SELECT project_id, sum(users) AS users FROM tallies WHERE ${ofPage} AND span = 'all' GROUP BY project_id
    ) AS tallied ON tallied.project_id = p.id
    LEFT JOIN (
      SELECT project_id, sum(change) AS change
      FROM (SELECT project_id, change FROM tally_deltas WHERE ${ofPage} ORDER BY project_id, id) AS delta
      GROUP BY project_id
    ) AS pending ON pending.project_id = p.id
    ORDER BY p.id`;
}

/** The next `limit` projects after one, oldest first, with their exact numbers of current users. */
export function listProjects(db: Queryable, after: number, limit: number): Promise<ProjectSummary[]> {
  return db.query(
    summaries(Prisma.sql`SELECT * FROM projects WHERE id > ${after}::int ORDER BY id LIMIT ${limit}::bigint`),
  );
}

/** `limit` projects, or all if there are no more, drawn anew each time. Reads the ids of all projects. */
export function sampleProjects(db: Queryable, limit: number): Promise<ProjectSummary[]> {
  return db.query(summaries(Prisma.sql`SELECT * FROM projects ORDER BY random() LIMIT ${limit}::bigint`));
}

/** One project, or nothing if it was deleted. */
export async function findProject(db: Queryable, projectId: number): Promise<ProjectSummary | undefined> {
  const [project] = await db.query<ProjectSummary>(
    summaries(Prisma.sql`SELECT * FROM projects WHERE id = ${projectId}::int`),
  );
  return project;
}

/** The number of projects. */
export async function countProjects(db: Queryable): Promise<number> {
  const [row] = await db.query<{ count: number }>(Prisma.sql`SELECT count(*) FROM projects`);
  return row?.count ?? 0;
}

/** A project as an operator sees it. */
export interface ProjectRow {
  readonly id: number;
  readonly appId: string;
  readonly name: string;
  /** Instants are ISO 8601 text. */
  readonly createdAt: string;
  /** Since when its credentials are refused; null where they are accepted. */
  readonly disabledAt: string | null;
  /** Its own limit; null where RATE_LIMIT holds. */
  readonly requestsPerMinute: number | null;
}

const PROJECT = Prisma.sql`
  p.id, p.app_id AS "appId", p.name, p.created_at AS "createdAt", p.disabled_at AS "disabledAt",
  p.requests_per_minute AS "requestsPerMinute"`;

/** Projects by App ID: at most one row for each key. */
export function findProjects(db: Queryable, appIds: readonly string[]): Promise<KeyedRow<ProjectRow>[]> {
  return db.query(Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", ${PROJECT}
    FROM unnest(${appIds}::text[]) WITH ORDINALITY AS k(app_id, key_index)
    JOIN projects p ON p.app_id = k.app_id`);
}

/** The next `limit` projects after a position, newest first, whose name or App ID contains `search` (null: all), with their number. */
export function listProjectPage(
  db: Queryable,
  { search, after, limit }: { search: string | null; after: Position | null; limit: number },
): Promise<({ total: number } & { [Column in keyof ProjectRow]: ProjectRow[Column] | null })[]> {
  const matches = Prisma.sql`
    (${search}::text IS NULL OR strpos(lower(p.name), lower(${search}::text)) > 0 OR strpos(p.app_id, ${search}::text) > 0)`;
  return db.query(Prisma.sql`
    SELECT counted.total, ${PROJECT}
    FROM (SELECT count(*) AS total FROM projects p WHERE ${matches}) AS counted
    LEFT JOIN LATERAL (
      SELECT * FROM projects p
      WHERE ${matches}
        AND (p.created_at, p.id) < (${after?.createdAt ?? 'infinity'}::timestamptz, ${after?.id ?? 0}::bigint)
      ORDER BY p.created_at DESC, p.id DESC
      LIMIT ${limit}::bigint
    ) AS p ON true
    ORDER BY p.created_at DESC, p.id DESC`);
}
