-- A project stays in its database: one that is too large is divided by promoting a standby (docs/scaling.md). 20261128060000_no_notes has left
-- the releases behind that ask for the table.

-- step: no write asks any more whether its project is being moved
DO $do$
DECLARE
    check_of CONSTANT text := E'\n *IF EXISTS \\(SELECT FROM project_moves\\) THEN\n *PERFORM require_project_here[^;]*;\n *END IF;';
    question_of CONSTANT text := E'SELECT FROM project_moves\n *UNION ALL\n *';
    ours record;
BEGIN
    -- By the index of its key, though the table is empty almost always.
    PERFORM set_config('enable_seqscan', 'off', true);
    IF EXISTS (SELECT FROM project_moves WHERE project_id > 0 AND step <> 'copying') THEN
        RAISE EXCEPTION 'A project is being moved: end its move, or abort it, by the release that began it.';
    END IF;
    FOR ours IN
        SELECT p.proname AS name, format_type(p.prorettype, NULL) AS result,
               regexp_replace(regexp_replace(p.prosrc, check_of, '', 'g'), question_of, '', 'g') AS source
        FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.pronargs = 0 AND p.prosrc LIKE '%FROM project_moves%'
    LOOP
        EXECUTE format(
            'CREATE OR REPLACE FUNCTION %I() RETURNS %s LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
            ours.name, ours.result, current_schema(), ours.source
        );
    END LOOP;
    PERFORM write_record_updated_users();
    IF EXISTS (
        SELECT FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND pronargs = 0 AND prosrc LIKE '%FROM project_moves%'
    ) THEN
        RAISE EXCEPTION 'A function still asks for project_moves.';
    END IF;
END $do$;

-- step: bans are written without a check
-- locks: bans (ACCESS EXCLUSIVE)
DROP TRIGGER bans_refuse_moving ON bans;

-- step: the audit trail is written without a check
-- locks: audit_log (ACCESS EXCLUSIVE)
DROP TRIGGER audit_log_refuse_moving ON audit_log;

-- step: tallies are written without a check
-- locks: tallies (ACCESS EXCLUSIVE), tally_slices (ACCESS EXCLUSIVE)
DROP TRIGGER tallies_refuse_moving ON tallies;
DROP TRIGGER tally_slices_refuse_moving ON tally_slices;

-- step: webhooks are written without a check
-- locks: webhook_secrets (ACCESS EXCLUSIVE), webhooks (ACCESS EXCLUSIVE)
DROP TRIGGER webhooks_refuse_moving ON webhooks;
DROP TRIGGER webhook_secrets_refuse_moving ON webhook_secrets;

-- step: projects and secrets are written without a check
-- locks: app_secrets (ACCESS EXCLUSIVE), projects (ACCESS EXCLUSIVE)
DROP TRIGGER projects_refuse_moving ON projects;
DROP TRIGGER app_secrets_refuse_moving ON app_secrets;

-- step: nothing is kept of moves
-- locks: project_moves (ACCESS EXCLUSIVE)
DROP TABLE project_moves;
DROP FUNCTION refuse_moving_rows();
DROP FUNCTION refuse_moving_project();
DROP FUNCTION require_project_here(integer, text);
DROP TYPE move_step;
