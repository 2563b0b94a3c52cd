import type { KeyedRow } from '../db/batched-read.js';
import { Prisma, type Queryable } from '../db/statements.js';
import type { Position } from '../domain/filters.js';
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
