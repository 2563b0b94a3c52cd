-- What a first login with metadata costs PostgreSQL, without an index of metadata and with each kind of one; and what a page of users with a value costs.
-- In a database that `userdir migrate` has made for this, as its owner: psql DATABASE -q -f test/bench/metadata-index.sql
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS btree_gin;
INSERT INTO projects (id, name, app_id) VALUES (1000000, 'Bench', 'app_0000000000000000000bench');
INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at, metadata)
SELECT 1000000, 'google', 'before' || n, 'before' || n, '2026-01-01'::timestamptz + n * interval '1 minute',
    jsonb_build_object('plan', 'plan-' || n % 5, 'team', 'team-' || n % 1000, 'customer', 'customer-' || n)
FROM generate_series(1, 300000) AS n;
VACUUM ANALYZE users;
CREATE TABLE bench_times (variant text, round int, ms float8);

-- The time of the processor that this session has used, in ms: others on the machine hardly change it. On the machine of the server, as a superuser.
CREATE FUNCTION bench_used() RETURNS float8 LANGUAGE sql VOLATILE AS $$
    SELECT 10 * (part[14]::float8 + part[15]::float8)
    FROM string_to_array(regexp_replace(pg_read_file('/proc/self/stat'), '\(.*\)', 'name'), ' ') AS part
$$;
CREATE TABLE bench_keys (project_id int, key text, value text, user_id bigint, PRIMARY KEY (project_id, key, value, user_id));

CREATE FUNCTION bench_copy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO bench_keys SELECT NEW.project_id, pair.key, pair.value, NEW.id FROM jsonb_each_text(NEW.metadata) AS pair;
    RETURN NULL;
END $$;

-- An index of each key under each condition. Its order is that of a page.
CREATE PROCEDURE bench_indexes(led_by text, conditions text[]) LANGUAGE plpgsql AS $$
DECLARE
    key text;
    condition text;
BEGIN
    FOREACH condition IN ARRAY conditions LOOP
        FOREACH key IN ARRAY ARRAY['plan', 'team', 'customer'] LOOP
            EXECUTE format(
                'CREATE INDEX %I ON users (%s(metadata ->> %L), created_at DESC, id DESC) WHERE deleted_at IS NULL AND metadata ? %L AND %s',
                left('bench_' || key || md5(condition), 60), led_by, key, key, condition);
        END LOOP;
    END LOOP;
END $$;

CREATE PROCEDURE bench_drop() LANGUAGE plpgsql AS $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT indexname FROM pg_indexes WHERE tablename = 'users' AND indexname LIKE 'bench%' LOOP
        EXECUTE format('DROP INDEX %I', name);
    END LOOP;
    DROP TRIGGER IF EXISTS bench_copy ON users;
END $$;

CREATE PROCEDURE bench_round(variant text, round int) LANGUAGE plpgsql AS $$
DECLARE
    started float8;
    others text[];
BEGIN
    IF variant = 'GIN of metadata' THEN
        CREATE INDEX bench_idx ON users USING gin (metadata jsonb_path_ops) WHERE deleted_at IS NULL;
    ELSIF variant = 'GIN led by the project' THEN
        CREATE INDEX bench_idx ON users USING gin (project_id, metadata jsonb_path_ops) WHERE deleted_at IS NULL;
    ELSIF variant = 'three keys of all projects' THEN
        CALL bench_indexes('project_id, ', ARRAY['true']);
    ELSIF variant = 'three keys of the project' THEN
        CALL bench_indexes('', ARRAY['project_id = 1000000']);
    ELSIF variant = 'three keys of each of 30 other projects' THEN
        others := ARRAY(SELECT format('project_id = %s', 1000000 + n) FROM generate_series(1, 30) AS n);
        CALL bench_indexes('', others);
    ELSIF variant = 'a copy in a table' THEN
        CREATE TRIGGER bench_copy AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION bench_copy();
    END IF;
    COMMIT;
    started := bench_used();
    FOR n IN 1 .. 20000 LOOP
        INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, metadata)
        VALUES (1000000, 'google', variant || round || n, variant || round || n,
            jsonb_build_object('plan', 'plan-' || n % 5, 'team', 'team-' || n % 1000, 'customer', 'customer-' || n));
        IF n % 100 = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
    INSERT INTO bench_times VALUES (variant, round, bench_used() - started);
    CALL bench_drop();
    COMMIT;
END $$;

SELECT format('CALL bench_round(%L, %s)', variant, round)
FROM generate_series(1, 4) AS round, unnest(ARRAY['no index', 'GIN of metadata', 'GIN led by the project', 'a copy in a table',
    'three keys of all projects', 'three keys of the project', 'three keys of each of 30 other projects']) AS variant
ORDER BY round, variant <> 'no index', variant
\gexec

-- The first round fills caches.
SELECT variant, round(min(ms) / 20)::int AS "microseconds a user, best", round(avg(ms) / 20)::int AS "on average",
    round((min(ms) / (SELECT min(ms) FROM bench_times WHERE variant = 'no index' AND round > 1))::numeric, 2) AS ratio
FROM bench_times WHERE round > 1 GROUP BY variant ORDER BY 2;

-- A page of ten users whose value 62,000 users have, 320 and one; of a prepared statement that many projects share, as those of the service.
CREATE FUNCTION bench_page(variant text, condition text) RETURNS TABLE (value text, index text, "ms a page" numeric) LANGUAGE plpgsql AS $$
DECLARE
    plan json;
    pair text[];
BEGIN
    FOREACH pair SLICE 1 IN ARRAY ARRAY[['plan', 'plan-3'], ['team', 'team-7'], ['customer', 'customer-77']] LOOP
        FOR n IN 1 .. 3 LOOP
            EXECUTE format('EXPLAIN (ANALYZE, FORMAT JSON) SELECT p.* FROM unnest(ARRAY[1000000]) AS k(project_id) CROSS JOIN LATERAL ('
                'SELECT u.id FROM users u WHERE u.project_id = %1$s AND u.deleted_at IS NULL AND ' || condition ||
                ' ORDER BY u.created_at DESC, u.id DESC LIMIT 10) AS p',
                CASE WHEN variant = 'three keys of the project' THEN '1000000' ELSE 'k.project_id' END, pair[1], pair[2]) INTO plan;
        END LOOP;
        RETURN QUERY SELECT pair[2], variant, round((plan -> 0 ->> 'Execution Time')::numeric, 2);
    END LOOP;
END $$;
CREATE INDEX bench_gin ON users USING gin (project_id, metadata jsonb_path_ops) WHERE deleted_at IS NULL;
VACUUM ANALYZE users;
SELECT * FROM bench_page('GIN led by the project', 'u.metadata @> jsonb_build_object(%2$L, %3$L)');
CALL bench_drop();
CALL bench_indexes('project_id, ', ARRAY['true']);
ANALYZE users;
SELECT * FROM bench_page('three keys of all projects', '(u.metadata ->> %2$L) = %3$L AND u.metadata ? %2$L');
CALL bench_drop();
CALL bench_indexes('', ARRAY['project_id = 1000000']);
ANALYZE users;
SELECT * FROM bench_page('three keys of the project', '(u.metadata ->> %2$L) = %3$L AND u.metadata ? %2$L');
SELECT * FROM bench_page('the same, of a project that the statement does not name', '(u.metadata ->> %2$L) = %3$L AND u.metadata ? %2$L');
CALL bench_drop();
