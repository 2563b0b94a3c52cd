-- Whether a project is being moved is asked once for each statement that writes users or accounts, by the functions that record it, and no more for
-- each row. That took an eighth of the time of a statement of many logins. Replication fires neither.
DROP TRIGGER users_refuse_moving ON users;
DROP TRIGGER accounts_refuse_moving ON accounts;

-- As in 20261122020000_changes, but for the checks. A login that counts inserts nobody.
CREATE OR REPLACE FUNCTION record_inserted_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM new_users) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM project_moves) THEN
        PERFORM require_project_here(written.project_id, TG_OP) FROM (SELECT DISTINCT project_id FROM new_users) AS written;
    END IF;
    WITH counted AS (
        INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
        SELECT project_id, created_at, id, login_method, 1 FROM new_users WHERE deleted_at IS NULL
    )
    INSERT INTO changes (project_id, type, user_id)
    SELECT project_id, 'user.created', id FROM new_users WHERE deleted_at IS NULL ORDER BY id;
    RETURN NULL;
END $$;

-- The other functions stay as they are, but for the check before their first statement.
DO $do$
DECLARE
    check_of CONSTANT text := $check$
    IF EXISTS (SELECT FROM project_moves) THEN
        PERFORM require_project_here(written.project_id, TG_OP) FROM (SELECT DISTINCT project_id FROM rows_of) AS written;
    END IF;$check$;
    ours record;
BEGIN
    EXECUTE format('ALTER FUNCTION record_inserted_users() SET search_path = %I, pg_temp', current_schema());
    FOR ours IN
        SELECT f.name, f.result, replace(p.prosrc, f.place, f.place || replace(check_of, 'rows_of', f.written)) AS source
        FROM pg_proc p
        JOIN (VALUES
            ('record_deleted_users', 'trigger', 'BEGIN', 'old_users'),
            ('record_removed_accounts', 'trigger', 'BEGIN', 'old_accounts'),
            ('record_added_accounts', 'trigger', E'RETURN NULL;\n    END IF;', 'new_accounts'),
            ('record_changed_accounts', 'trigger', E'RETURN NULL;\n    END IF;', 'new_accounts'),
            -- It writes the function for updates, whenever users get a column.
            ('write_record_updated_users', 'void', E'IF NOT EXISTS (SELECT FROM new_users) THEN\n        RETURN NULL;\n    END IF;', 'new_users')
        ) AS f(name, result, place, written) ON f.name = p.proname
        WHERE p.pronamespace = current_schema()::regnamespace
    LOOP
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION %I() RETURNS %s LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
            ours.name, ours.result, current_schema(), ours.source
        );
    END LOOP;
END $do$;
SELECT write_record_updated_users();
