-- What the triggers of moves cost: CPU time of PostgreSQL for a login, with and without them. As a superuser, in a migrated database:
-- psql -X -f test/bench/project-moves.sql URL. Leaves nothing behind.
\set QUIET on
SET synchronous_commit = off;
SET jit = off;
SET plan_cache_mode = force_generic_plan;
INSERT INTO projects (id, name, app_id) VALUES (2147483647, 'Bench', 'bench');

-- In microseconds, since this session began.
CREATE FUNCTION pg_temp.cpu() RETURNS bigint LANGUAGE sql AS $$
    SELECT (split_part(stat, ' ', 14)::bigint + split_part(stat, ' ', 15)::bigint) * 10000 FROM pg_read_file('/proc/self/stat', 0, 1000) AS stat
$$;

CREATE PROCEDURE pg_temp.log_in(what text, users bigint, logins integer) LANGUAGE plpgsql AS $$
DECLARE
    started bigint := pg_temp.cpu();
BEGIN
    FOR login IN 1..logins LOOP
        INSERT INTO users AS existing (project_id, auth_method, auth_value, auth_value_key, last_login, login_count)
        SELECT 2147483647, 'passkey', each.value, each.value, now(), 1
        FROM (SELECT floor(random() * users)::text AS value) AS each
        ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL DO UPDATE SET
            last_login = greatest(existing.last_login, excluded.last_login), login_count = existing.login_count + 1;
        COMMIT;
    END LOOP;
    RAISE NOTICE '%: % µs', what, round((pg_temp.cpu() - started)::numeric / logins, 1);
END $$;

CALL pg_temp.log_in('warm', 5000, 10000);
\set rounds 'CALL pg_temp.log_in(''a login again'', 5000, 20000); CALL pg_temp.log_in(''a first login'', 1000000000000, 20000);'
\echo with the triggers
:rounds :rounds :rounds
ALTER TABLE users DISABLE TRIGGER users_refuse_moving;
\echo without
:rounds :rounds :rounds
ALTER TABLE users ENABLE TRIGGER users_refuse_moving;
DELETE FROM projects WHERE id = 2147483647;
