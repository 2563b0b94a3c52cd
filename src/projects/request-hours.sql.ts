import { Prisma, type Queryable } from '../db/statements.js';
import type { RequestHour, Tally } from '../domain/requests.js';

/** Tallies of requests by the hour. */

export interface HourOfProject extends Tally {
  readonly appId: string;
  /** When it began. */
  readonly hour: string;
}

const HOURS_SHOWN = 30 * 24;
const THIS_HOUR = Prisma.sql`date_trunc('hour', now(), 'UTC')`;
/** An hour that has left the chart. */
const FIRST_HOUR = Prisma.sql`(${THIS_HOUR} - ${HOURS_SHOWN - 1}::int * interval '1 hour')`;

/**
 * Adds to the tallies of many projects. Those of a project that is gone are dropped. In the order of the key, so that processes that add at once do not wait for each other in a circle.
 */
export async function addToHours(db: Queryable, hours: readonly HourOfProject[]): Promise<void> {
  await db.query(Prisma.sql`
    INSERT INTO request_hours AS known (project_id, hour, requests, failures, logins)
    SELECT p.id, counted.hour, counted.requests, counted.failures, counted.logins
    FROM jsonb_to_recordset(${JSON.stringify(hours)}::jsonb)
      AS counted ("appId" text, hour timestamptz, requests int, failures int, logins int)
    -- Each by the index of App IDs, however many projects there are.
    CROSS JOIN LATERAL (SELECT id FROM projects WHERE app_id = counted."appId" LIMIT 1) AS p
    ORDER BY p.id, counted.hour
    ON CONFLICT (project_id, hour) DO UPDATE
    SET requests = known.requests + excluded.requests, failures = known.failures + excluded.failures,
        logins = known.logins + excluded.logins`);
}

/** The tallies of a project in each of the last 30 days’ hours, this one included, the oldest first. */
export function listHours(db: Queryable, projectId: number): Promise<RequestHour[]> {
  return db.query(Prisma.sql`
    SELECT each.hour::timestamptz(3) AS "from", coalesce(h.requests, 0) AS requests, coalesce(h.failures, 0) AS failures,
           coalesce(h.logins, 0) AS logins
    FROM generate_series(${FIRST_HOUR}, ${THIS_HOUR}, interval '1 hour') AS each (hour)
    LEFT JOIN request_hours h ON h.project_id = ${projectId}::int AND h.hour = each.hour
    ORDER BY each.hour`);
}

/** The projects with hours that are a day older than any that is shown: about a day of them is deleted at once. */
export async function listProjectsWithOldHours(db: Queryable): Promise<number[]> {
  const rows = await db.query<{ id: number }>(Prisma.sql`
    SELECT p.id FROM projects p, LATERAL (
      SELECT hour FROM request_hours WHERE project_id = p.id ORDER BY hour LIMIT 1
    ) AS oldest
    WHERE oldest.hour < ${FIRST_HOUR} - interval '1 day'`);
  return rows.map(({ id }) => id);
}

/** Deletes the hours of a project that are not shown any more. */
export async function deleteOldHours(db: Queryable, projectId: number): Promise<void> {
  await db.query(Prisma.sql`DELETE FROM request_hours WHERE project_id = ${projectId}::int AND hour < ${FIRST_HOUR}`);
}
