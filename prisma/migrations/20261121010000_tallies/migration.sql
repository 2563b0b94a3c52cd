-- Exact totals without scanning, and any page without OFFSET over what lies before it.
--
-- Every statement that changes who is a current user, by whatever way it comes, appends its changes to tally_deltas in its
-- own transaction (triggers below). Nobody waits for anybody: there is no counter that two writers share. From time to
-- time fold_tallies moves what has been committed into tallies and tally_slices. At any instant, in any snapshot,
-- tallies + deltas = the users; a reader who adds both up in one statement is exact, folded or not.

CREATE TYPE "tally_span" AS ENUM ('all', 'month', 'day');

-- Current users by login method and UTC time of creation: in all, by month, by day. A span of 'all' starts on 1970-01-01.
CREATE TABLE "tallies" (
    "project_id" INTEGER NOT NULL,
    "span" "tally_span" NOT NULL,
    "starts_on" DATE NOT NULL,
    "login_method" "login_method" NOT NULL,
    "users" BIGINT NOT NULL,
    CONSTRAINT "tallies_pkey" PRIMARY KEY ("project_id", "span", "starts_on", "login_method"),
    CONSTRAINT "tallies_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 60);

-- Days with many users, cut at positions (created_at, id) into slices of about a thousand. A slice reaches to the start of
-- the next one of its day, or to the end of the day. Positions, and not times, because an import may bring a million users
-- of one instant.
CREATE TABLE "tally_slices" (
    "project_id" INTEGER NOT NULL,
    "starts_at" TIMESTAMPTZ(3) NOT NULL,
    "starts_id" BIGINT NOT NULL,
    "login_method" "login_method" NOT NULL,
    "users" BIGINT NOT NULL,
    CONSTRAINT "tally_slices_pkey" PRIMARY KEY ("project_id", "starts_at", "starts_id", "login_method"),
    CONSTRAINT "tally_slices_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 60);

-- Changes that are not folded yet: a current user more (1) or less (-1) at a position. Without a foreign key, because it
-- would lock the row of the project once more for every registration.
CREATE TABLE "tally_deltas" (
    "project_id" INTEGER NOT NULL,
    "id" BIGSERIAL NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL,
    "user_id" BIGINT NOT NULL,
    "login_method" "login_method" NOT NULL,
    "change" SMALLINT NOT NULL,
    CONSTRAINT "tally_deltas_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "tally_deltas_change_is_one" CHECK ("change" IN (-1, 1))
);

CREATE FUNCTION record_inserted_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT project_id, created_at, id, login_method, 1 FROM new_users WHERE deleted_at IS NULL;
    RETURN NULL;
END $$;

-- A login updates a user without changing any tally: what was there before and is there after cancels out.
CREATE FUNCTION record_updated_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT changed.*, 1 FROM (
        SELECT project_id, created_at, id, login_method FROM new_users WHERE deleted_at IS NULL
        EXCEPT ALL
        SELECT project_id, created_at, id, login_method FROM old_users WHERE deleted_at IS NULL
    ) AS changed
    UNION ALL
    SELECT changed.*, -1 FROM (
        SELECT project_id, created_at, id, login_method FROM old_users WHERE deleted_at IS NULL
        EXCEPT ALL
        SELECT project_id, created_at, id, login_method FROM new_users WHERE deleted_at IS NULL
    ) AS changed;
    RETURN NULL;
END $$;

-- Users whose project goes with them leave no delta: its tallies go too.
CREATE FUNCTION record_deleted_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT old_users.project_id, old_users.created_at, old_users.id, old_users.login_method, -1
    FROM old_users
    JOIN projects ON projects.id = old_users.project_id
    WHERE old_users.deleted_at IS NULL;
    RETURN NULL;
END $$;

CREATE FUNCTION forget_tallies() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tally_deltas;
    DELETE FROM tally_slices;
    DELETE FROM tallies;
    RETURN NULL;
END $$;

CREATE TRIGGER users_tally_insert AFTER INSERT ON users
    REFERENCING NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION record_inserted_users();
CREATE TRIGGER users_tally_update AFTER UPDATE ON users
    REFERENCING OLD TABLE AS old_users NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION record_updated_users();
CREATE TRIGGER users_tally_delete AFTER DELETE ON users
    REFERENCING OLD TABLE AS old_users FOR EACH STATEMENT EXECUTE FUNCTION record_deleted_users();
CREATE TRIGGER users_tally_truncate AFTER TRUNCATE ON users
    FOR EACH STATEMENT EXECUTE FUNCTION forget_tallies();

-- The UTC day of an instant, and the instant at which a UTC day starts, whatever the time zone of the session.
CREATE FUNCTION utc_day(instant timestamptz) RETURNS date LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (instant AT TIME ZONE 'UTC')::date;
CREATE FUNCTION utc_start(day date) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN day::timestamp AT TIME ZONE 'UTC';

-- Moves up to `most` committed deltas of a project into its tallies and returns how many; 0 also while somebody else folds.
-- One statement takes them away and counts them, so that no snapshot sees them twice or not at all.
CREATE FUNCTION fold_tallies(project integer, most integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    upto bigint;
    folded integer;
    touched date[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(1968399457, project) THEN
        RETURN 0;
    END IF;
    -- A range of ids rather than a list of them: no plan for it is a bad one.
    SELECT max(id) INTO upto
    FROM (SELECT id FROM tally_deltas WHERE project_id = project ORDER BY id LIMIT most) AS oldest;
    WITH taken AS (
        DELETE FROM tally_deltas
        WHERE project_id = project AND id <= upto
        RETURNING created_at, user_id, login_method, change
    ), spans AS (
        INSERT INTO tallies AS tally (project_id, span, starts_on, login_method, users)
        SELECT project, each.span, each.starts_on, taken.login_method, sum(taken.change)
        FROM taken
        CROSS JOIN LATERAL (
            VALUES ('all'::tally_span, DATE '1970-01-01'),
                   ('month'::tally_span, date_trunc('month', taken.created_at AT TIME ZONE 'UTC')::date),
                   ('day'::tally_span, utc_day(taken.created_at))
        ) AS each (span, starts_on)
        GROUP BY each.span, each.starts_on, taken.login_method
        HAVING sum(taken.change) <> 0
        ORDER BY each.span, each.starts_on, taken.login_method
        ON CONFLICT (project_id, span, starts_on, login_method) DO UPDATE SET users = tally.users + excluded.users
    ), slices AS (
        INSERT INTO tally_slices AS tally (project_id, starts_at, starts_id, login_method, users)
        SELECT project, slice.starts_at, slice.starts_id, taken.login_method, sum(taken.change)
        FROM taken
        CROSS JOIN LATERAL (
            SELECT s.starts_at, s.starts_id
            FROM tally_slices s
            WHERE s.project_id = project
                AND (s.starts_at, s.starts_id) <= (taken.created_at, taken.user_id)
                AND s.starts_at >= utc_start(utc_day(taken.created_at))
            ORDER BY s.starts_at DESC, s.starts_id DESC
            LIMIT 1
        ) AS slice
        GROUP BY slice.starts_at, slice.starts_id, taken.login_method
        HAVING sum(taken.change) <> 0
        ORDER BY slice.starts_at, slice.starts_id, taken.login_method
        ON CONFLICT (project_id, starts_at, starts_id, login_method) DO UPDATE SET users = tally.users + excluded.users
    )
    SELECT count(*), array_agg(DISTINCT utc_day(created_at)) INTO folded, touched FROM taken;

    -- While much is left to fold, every cut would have to look through all of it.
    IF folded < most THEN
        PERFORM cut_crowded_days(project, touched);
    END IF;
    RETURN folded;
END $$;

-- Cuts days with more than 2,000 users into slices, and slices that have come to have more again. `days` are the days to
-- look at; null is all.
CREATE FUNCTION cut_crowded_days(project integer, days date[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    crowded record;
BEGIN
    PERFORM pg_advisory_xact_lock(1968399457, project);
    IF days IS NULL THEN
        days := (SELECT array_agg(DISTINCT starts_on) FROM tallies WHERE project_id = project AND span = 'day');
    END IF;
    FOR crowded IN
        SELECT utc_start(t.starts_on) AS from_at, 0::bigint AS from_id, utc_start(t.starts_on + 1) AS to_at, 0::bigint AS to_id
        FROM tallies t
        WHERE t.project_id = project AND t.span = 'day' AND t.starts_on = ANY (days)
            AND NOT EXISTS (
                SELECT FROM tally_slices s
                WHERE s.project_id = project AND s.starts_at >= utc_start(t.starts_on) AND s.starts_at < utc_start(t.starts_on + 1)
            )
        GROUP BY t.starts_on
        HAVING sum(t.users) > 2000
        UNION ALL
        SELECT slice.starts_at, slice.starts_id, slice.ends_at, slice.ends_id
        FROM (
            SELECT s.starts_at, s.starts_id, sum(s.users) AS users,
                coalesce(lead(s.starts_at) OVER day, utc_start(utc_day(s.starts_at) + 1)) AS ends_at,
                coalesce(lead(s.starts_id) OVER day, 0) AS ends_id
            FROM unnest(days) AS each (day)
            JOIN tally_slices s
                ON s.project_id = project AND s.starts_at >= utc_start(each.day) AND s.starts_at < utc_start(each.day + 1)
            GROUP BY s.starts_at, s.starts_id
            WINDOW day AS (PARTITION BY utc_day(s.starts_at) ORDER BY s.starts_at, s.starts_id)
        ) AS slice
        WHERE slice.users > 2000
    LOOP
        PERFORM cut_tally_slices(project, crowded.from_at, crowded.from_id, crowded.to_at, crowded.to_id);
    END LOOP;
END $$;

-- Cuts the positions from (from_at, from_id) to before (to_at, to_id), within one day, into slices of a thousand users. The
-- caller folds, so nobody else touches the slices. What is counted here less what is still a delta is what the slices
-- are to hold: one statement, one snapshot.
CREATE FUNCTION cut_tally_slices(project integer, from_at timestamptz, from_id bigint, to_at timestamptz, to_id bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tally_slices
    WHERE project_id = project AND (starts_at, starts_id) >= (from_at, from_id) AND (starts_at, starts_id) < (to_at, to_id);

    INSERT INTO tally_slices (project_id, starts_at, starts_id, login_method, users)
    WITH numbered AS (
        SELECT u.created_at, u.id, u.login_method, (row_number() OVER (ORDER BY u.created_at, u.id) - 1) / 1000 AS slice
        FROM users u
        WHERE u.project_id = project AND u.deleted_at IS NULL
            AND (u.created_at, u.id) >= (from_at, from_id) AND (u.created_at, u.id) < (to_at, to_id)
    ), starts AS (
        -- The first slice starts where the range does, so that every later position of the range has a slice.
        SELECT 0 AS slice, from_at AS starts_at, from_id AS starts_id
        UNION ALL
        (SELECT DISTINCT ON (slice) slice, created_at, id FROM numbered WHERE slice > 0 ORDER BY slice, created_at, id)
    ), counted AS (
        SELECT starts.starts_at, starts.starts_id, numbered.login_method, count(*) AS users
        FROM numbered JOIN starts USING (slice)
        GROUP BY 1, 2, 3
        UNION ALL
        SELECT place.starts_at, place.starts_id, d.login_method, -sum(d.change)
        FROM tally_deltas d
        CROSS JOIN LATERAL (
            SELECT s.starts_at, s.starts_id FROM starts s
            WHERE (s.starts_at, s.starts_id) <= (d.created_at, d.user_id)
            ORDER BY s.starts_at DESC, s.starts_id DESC
            LIMIT 1
        ) AS place
        WHERE d.project_id = project
            AND (d.created_at, d.user_id) >= (from_at, from_id) AND (d.created_at, d.user_id) < (to_at, to_id)
        GROUP BY 1, 2, 3
        UNION ALL
        -- Every slice has its row even while it is empty: its start is a boundary.
        SELECT starts_at, starts_id, 'email', 0 FROM starts
    )
    SELECT project, starts_at, starts_id, login_method, sum(users)
    FROM counted
    GROUP BY starts_at, starts_id, login_method;
END $$;

-- What is there already is counted once, here.
INSERT INTO tallies (project_id, span, starts_on, login_method, users)
SELECT u.project_id, each.span, each.starts_on, u.login_method, count(*)
FROM users u
CROSS JOIN LATERAL (
    VALUES ('all'::tally_span, DATE '1970-01-01'),
           ('month'::tally_span, date_trunc('month', u.created_at AT TIME ZONE 'UTC')::date),
           ('day'::tally_span, utc_day(u.created_at))
) AS each (span, starts_on)
WHERE u.deleted_at IS NULL
GROUP BY u.project_id, each.span, each.starts_on, u.login_method;
