import { Prisma, type Queryable } from '../db/statements.js';
import { cutCrowdedDays } from './totals.sql.js';

export interface TallyDifference {
  span: 'all' | 'month' | 'day' | 'slice';
  /** Start of the span, ISO 8601. */
  starts_at: string;
  login_method: string;
  /** The number of users by counting them. */
  expected: number;
  /** The number of users by tallies and pending deltas. */
  actual: number;
}

/** The tallies of a project by span: by counting users (`counted`), and by tallies and pending deltas (`tallied`). */
function spans(projectId: number): Prisma.Sql {
  const spansOf = (createdAt: Prisma.Sql) => Prisma.sql`
    CROSS JOIN LATERAL (
      VALUES ('all'::tally_span, DATE '1970-01-01'),
             ('month'::tally_span, date_trunc('month', ${createdAt} AT TIME ZONE 'UTC')::date),
             ('day'::tally_span, utc_day(${createdAt}))
    ) AS each (span, starts_on)`;
  return Prisma.sql`
    counted AS (
      SELECT each.span, each.starts_on, u.login_method, count(*) AS users
      FROM users u ${spansOf(Prisma.sql`u.created_at`)}
      WHERE u.project_id = ${projectId}::int AND u.deleted_at IS NULL
      GROUP BY 1, 2, 3
    ), tallied AS (
      SELECT span, starts_on, login_method, sum(users) AS users
      FROM (
        SELECT span, starts_on, login_method, users FROM tallies WHERE project_id = ${projectId}::int
        UNION ALL
        SELECT each.span, each.starts_on, d.login_method, d.change
        FROM tally_deltas d ${spansOf(Prisma.sql`d.created_at`)}
        WHERE d.project_id = ${projectId}::int
      ) AS told
      GROUP BY 1, 2, 3
    )`;
}

/** The differences between the tallies and slices of a project and a count, in one snapshot. */
export function compareTallies(db: Queryable, projectId: number): Promise<TallyDifference[]> {
  return db.query(Prisma.sql`
    WITH ${spans(projectId)}, ranges AS (
      SELECT s.starts_at, s.starts_id,
             coalesce(lead(s.starts_at) OVER day, utc_start(utc_day(s.starts_at) + 1)) AS ends_at,
             coalesce(lead(s.starts_id) OVER day, 0) AS ends_id
      FROM (SELECT DISTINCT starts_at, starts_id FROM tally_slices WHERE project_id = ${projectId}::int) AS s
      WINDOW day AS (PARTITION BY utc_day(s.starts_at) ORDER BY s.starts_at, s.starts_id)
    ), slices AS (
      SELECT r.starts_at, r.starts_id, each.login_method, sum(each.counted) AS counted, sum(each.tallied) AS tallied
      FROM ranges r
      CROSS JOIN LATERAL (
        SELECT m.login_method, (
                 SELECT count(*)
                 FROM users u
                 WHERE u.project_id = ${projectId}::int AND u.deleted_at IS NULL AND u.login_method = m.login_method
                   AND (u.created_at, u.id) >= (r.starts_at, r.starts_id) AND (u.created_at, u.id) < (r.ends_at, r.ends_id)
               ) AS counted, 0 AS tallied
        FROM unnest(enum_range(NULL::login_method)) AS m(login_method)
        UNION ALL
        SELECT s.login_method, 0, s.users
        FROM tally_slices s
        WHERE s.project_id = ${projectId}::int AND s.starts_at = r.starts_at AND s.starts_id = r.starts_id
        UNION ALL
        SELECT d.login_method, 0, d.change
        FROM tally_deltas d
        WHERE d.project_id = ${projectId}::int
          AND (d.created_at, d.user_id) >= (r.starts_at, r.starts_id) AND (d.created_at, d.user_id) < (r.ends_at, r.ends_id)
      ) AS each
      GROUP BY 1, 2, 3
    )
    SELECT span::text, ${iso(Prisma.sql`utc_start(starts_on)`)} AS starts_at, login_method::text,
           coalesce(counted.users, 0)::float8 AS expected, coalesce(tallied.users, 0)::float8 AS actual
    FROM counted
    FULL JOIN tallied USING (span, starts_on, login_method)
    WHERE coalesce(counted.users, 0) <> coalesce(tallied.users, 0)
    UNION ALL
    SELECT 'slice', ${iso(Prisma.sql`starts_at`)}, login_method::text, counted::float8, tallied::float8
    FROM slices
    WHERE counted <> tallied
    ORDER BY 1, 2, 3`);
}

function iso(instant: Prisma.Sql): Prisma.Sql {
  return Prisma.sql`to_char(${instant} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;
}

/** Corrects the differences and returns them. Must run in a transaction; folds wait until it ends. */
export async function repairTallies(tx: Queryable, projectId: number): Promise<TallyDifference[]> {
  await tx.query(Prisma.sql`SELECT pg_advisory_xact_lock(1968399457, ${projectId}::int)`);
  const differences = await compareTallies(tx, projectId);
  // Each statement sees a later snapshot than the one before, so each compares again.
  await tx.query(Prisma.sql`
    WITH ${spans(projectId)}
    INSERT INTO tallies AS tally (project_id, span, starts_on, login_method, users)
    SELECT ${projectId}::int, span, starts_on, login_method, coalesce(counted.users, 0) - coalesce(tallied.users, 0)
    FROM counted
    FULL JOIN tallied USING (span, starts_on, login_method)
    WHERE coalesce(counted.users, 0) <> coalesce(tallied.users, 0)
    ON CONFLICT (project_id, span, starts_on, login_method) DO UPDATE SET users = tally.users + excluded.users`);
  await tx.query(Prisma.sql`DELETE FROM tally_slices WHERE project_id = ${projectId}::int`);
  await cutCrowdedDays(tx, projectId);
  return differences;
}
