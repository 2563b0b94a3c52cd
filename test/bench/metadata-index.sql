-- What a first login with metadata costs PostgreSQL, without an index of metadata and with each kind of one.
-- In a database that `userdir migrate` has made for this, as its owner: psql DATABASE -q -f test/bench/metadata-index.sql
\set QUIET on
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS btree_gin;
INSERT INTO projects (id, name, app_id) VALUES (1000000, 'Bench', 'app_0000000000000000000bench');
CREATE TABLE bench_times (variant text, round int, ms float8);
CREATE TABLE bench_keys (project_id int, key text, value text, user_id bigint, PRIMARY KEY (project_id, key, value, user_id));

CREATE FUNCTION bench_copy() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO bench_keys SELECT NEW.project_id, pair.key, pair.value, NEW.id FROM jsonb_each_text(NEW.metadata) AS pair;
    RETURN NULL;
END $$;

CREATE PROCEDURE bench_round(variant text, round int) LANGUAGE plpgsql AS $$
DECLARE
    started timestamptz;
BEGIN
    IF variant = 'GIN of metadata' THEN
        CREATE INDEX bench_idx ON users USING gin (metadata jsonb_path_ops) WHERE deleted_at IS NULL;
    ELSIF variant = 'GIN led by the project' THEN
        CREATE INDEX bench_idx ON users USING gin (project_id, metadata jsonb_path_ops) WHERE deleted_at IS NULL;
    ELSIF variant = 'a copy in a table' THEN
        CREATE TRIGGER bench_copy AFTER INSERT ON users FOR EACH ROW EXECUTE FUNCTION bench_copy();
    END IF;
    COMMIT;
    started := clock_timestamp();
    FOR n IN 1 .. 20000 LOOP
        INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, metadata)
        VALUES (1000000, 'google', variant || round || n, variant || round || n,
            jsonb_build_object('plan', 'plan-' || n % 5, 'team', 'team-' || n % 1000, 'customer', 'customer-' || n));
        IF n % 100 = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
    INSERT INTO bench_times VALUES (variant, round, 1000 * extract(epoch FROM clock_timestamp() - started));
    DROP INDEX IF EXISTS bench_idx;
    DROP TRIGGER IF EXISTS bench_copy ON users;
    COMMIT;
END $$;

SELECT format('CALL bench_round(%L, %s)', variant, round)
FROM generate_series(1, 4) AS round, unnest(ARRAY['no index', 'GIN of metadata', 'GIN led by the project', 'a copy in a table']) AS variant
ORDER BY round, variant <> 'no index', variant
\gexec

-- The first round fills caches.
SELECT variant, round(min(ms) / 20)::int AS "microseconds a user, best", round(avg(ms) / 20)::int AS "on average",
    round((min(ms) / (SELECT min(ms) FROM bench_times WHERE variant = 'no index' AND round > 1))::numeric, 2) AS ratio
FROM bench_times WHERE round > 1 GROUP BY variant ORDER BY 2;
