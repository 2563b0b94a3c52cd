import { execute, keyedStatement, type ModelTransaction, Prisma, type Queryable, readValue } from '../db/statements.js';
import type { Position } from '../domain/cursors.js';
import type { Actor, ProjectRow, ProjectSummary } from '../domain/projects.js';
import { insertLogEntries } from './operators.sql.js';

/*
 * Lists with exact totals or a literal search (a model's `contains` takes % and _ as wildcards), reads for every request of an operator
 * or the start of a server, and steps of a deletion. Changes of a project are made by models (users/project-lifecycle.ts).
 */

export async function findProjectId(db: Queryable, appId: string): Promise<number | null> {
  const [project] = await db.query<{ id: number }>(Prisma.sql`SELECT id FROM projects WHERE app_id = ${appId}`);
  return project?.id ?? null;
}

/** Projects of a page with their exact numbers of users. Deltas are added up in the order of their key: to the planner a few projects may look like all. */
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

/** `limit` projects, or all if there are no more, drawn anew each time. Reads the ids of all projects. */
export function sampleProjects(db: Queryable, limit: number): Promise<ProjectSummary[]> {
  return db.query(summaries(Prisma.sql`SELECT * FROM projects ORDER BY random() LIMIT ${limit}::bigint`));
}

export function countProjects(db: Queryable): Promise<number> {
  return readValue(db, Prisma.sql`SELECT count(*) FROM projects`);
}

const PROJECT = Prisma.sql`
  p.id, p.app_id AS "appId", p.name, p.created_at AS "createdAt", p.disabled_at AS "disabledAt",
  p.requests_per_minute AS "requestsPerMinute"`;

/** Projects by App ID: at most one row for each key. */
export const findProjects = keyedStatement<string, ProjectRow>(
  { app_id: ['text', (appId) => appId] },
  (appIds) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", ${PROJECT} FROM ${appIds} JOIN projects p ON p.app_id = k.app_id`,
);

export interface ProjectPage {
  /** Only some of these projects; null: of all. */
  readonly among: readonly number[] | null;
  readonly search: string | null;
  readonly after: Position | null;
  readonly limit: number;
  /** By default the newest come first. */
  readonly oldestFirst?: boolean;
}

/** The next `limit` projects after a position whose name or App ID contains `search` (null: all), with their number. */
export function listProjectPage(
  db: Queryable,
  { among, search, after, limit, oldestFirst = false }: ProjectPage,
): Promise<({ total: number } & { [Column in keyof ProjectRow]: ProjectRow[Column] | null })[]> {
  const [isAfter, beyond, order] = oldestFirst
    ? [Prisma.sql`>`, '-infinity', Prisma.sql`p.created_at, p.id`]
    : [Prisma.sql`<`, 'infinity', Prisma.sql`p.created_at DESC, p.id DESC`];
  const matches = Prisma.sql`
    (${search}::text IS NULL OR strpos(lower(p.name), lower(${search}::text)) > 0 OR strpos(p.app_id, ${search}::text) > 0)
    AND (${among}::int[] IS NULL OR p.id = ANY (${among}::int[]))`;
  return db.query(Prisma.sql`
    SELECT counted.total, ${PROJECT}
    FROM (SELECT count(*) AS total FROM projects p WHERE ${matches}) AS counted
    LEFT JOIN LATERAL (
      SELECT * FROM projects p
      WHERE ${matches}
        AND (p.created_at, p.id) ${isAfter} (${after?.createdAt ?? beyond}::timestamptz, ${after?.id ?? 0}::bigint)
      ORDER BY ${order}
      LIMIT ${limit}::bigint
    ) AS p ON true
    ORDER BY ${order}`);
}

/** Lets no other transaction change a project, its secrets or its webhooks until this one ends. */
export async function lockProject(tx: Queryable | ModelTransaction, projectId: number): Promise<void> {
  await execute(tx, Prisma.sql`SELECT FROM projects WHERE id = ${projectId}::int FOR NO KEY UPDATE`);
}

export interface ProjectTable {
  readonly name: string;
  /** The columns of its primary key after the project, separated by commas. */
  readonly key: string;
}

/** Tables with many rows of a project; foreign keys delete the rest. The trail comes last, so that it tells of a deletion that was interrupted. */
export const LARGE_TABLES: readonly ProjectTable[] = [
  { name: 'users', key: 'id' },
  { name: 'bans', key: 'id' },
  { name: 'idempotency_keys', key: 'key' },
  { name: 'audit_log', key: 'id' },
];

/** Deletes up to `limit` rows that a project has in a table, and what belongs to them. Returns how many rows. */
export async function deleteRows(db: Queryable, projectId: number, table: ProjectTable, limit: number) {
  const [name, key] = [Prisma.raw(table.name), Prisma.raw(table.key)];
  // In the order of the key, because a scan would pass over deleted rows each time, and by ctid, for which there is one plan.
  // A row that is changed meanwhile has another ctid, and is left to a later batch.
  const [row] = await db.query<{ deleted: number }>(Prisma.sql`
    WITH deleted AS (
      DELETE FROM ${name} WHERE project_id = ${projectId}::int AND ctid = ANY (ARRAY(
        SELECT ctid FROM ${name} WHERE project_id = ${projectId}::int ORDER BY ${key} LIMIT ${limit}::bigint
      ))
      RETURNING 1
    )
    SELECT count(*) AS deleted FROM deleted`);
  return row?.deleted ?? 0;
}

/** Deletes a project with everything that it has left, also what was added meanwhile. The log of the operators keeps the name. */
export async function deleteProject(db: Queryable, actor: Actor): Promise<void> {
  const entry = Prisma.sql`SELECT jsonb_build_object('app_id', app_id, 'name', name) FROM deleted`;
  await db.query(Prisma.sql`
    WITH deleted AS (
      DELETE FROM projects WHERE id = ${actor.projectId}::int RETURNING app_id, name
    )
    ${insertLogEntries(actor, 'delete_project', entry)}`);
}
