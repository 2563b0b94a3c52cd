-- What is recorded of an update asks one question instead of three where there is nothing to record, as after each login. That was a tenth of
-- what a lone login takes PostgreSQL. The rest of the function stays as it is.

-- step: asks once whether an update of users has to be recorded
DO $do$
DECLARE
    three_questions CONSTANT text := $guard$    IF NOT EXISTS (SELECT FROM new_users) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM project_moves) THEN
        PERFORM require_project_here(written.project_id, TG_OP) FROM (SELECT DISTINCT project_id FROM new_users) AS written;
    END IF;
    IF NOT EXISTS (
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (%s)
            IS DISTINCT FROM (%s)
    ) THEN
        RETURN NULL;
    END IF;
$guard$;
    one_question CONSTANT text := $guard$    IF NOT EXISTS (
        SELECT FROM project_moves
        UNION ALL
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (%s)
            IS DISTINCT FROM (%s)
    ) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM project_moves) THEN
        PERFORM require_project_here(written.project_id, TG_OP) FROM (SELECT DISTINCT project_id FROM new_users) AS written;
    END IF;
$guard$;
    source CONSTANT text NOT NULL := (
        SELECT replace(prosrc, three_questions, one_question) FROM pg_proc
        WHERE proname = 'write_record_updated_users' AND pronamespace = current_schema()::regnamespace
    );
BEGIN
    IF position(one_question IN source) = 0 THEN
        RAISE EXCEPTION 'write_record_updated_users is not the function that this migration expects';
    END IF;
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION write_record_updated_users() RETURNS void LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
        current_schema(), source
    );
END $do$;
SELECT write_record_updated_users();
