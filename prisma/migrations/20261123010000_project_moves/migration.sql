-- Projects that are on their way from one cell's database to another (docs/decisions/cells.md).

-- In the database that a project leaves: `copying`, while it is used; `switching`, when it takes no more writes; `mapping`, when the
-- balancers are told; `leaving`, when the other database serves it and its rows here are deleted. In the other database: `arriving`.
CREATE TYPE "move_step" AS ENUM ('copying', 'switching', 'mapping', 'leaving', 'arriving');

-- A row for each project on its way, so that the table is empty almost always. Without a foreign key: in the other database the row comes
-- before the project.
CREATE TABLE "project_moves" (
    "project_id" INTEGER NOT NULL,
    "step" "move_step" NOT NULL,
    -- The other database: the identifier of its server, and its name.
    "other" TEXT NOT NULL,
    -- The entry of the audit trail that was written last. Once the other database has it, it has everything.
    "mark" BIGINT,
    "started_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "project_moves_pkey" PRIMARY KEY ("project_id")
);

ALTER TYPE "audit_action" ADD VALUE 'move';

-- Refuses a write of a project that is on its way, except while it is copied. The transaction that closes the project takes the same lock alone and
-- changes the step under it: it waits for the transactions that have written, and later ones find the new step. Only a snapshot of its own
-- sees that, so this is meant for READ COMMITTED, in which everything here writes.
CREATE FUNCTION require_project_here(project integer, operation text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_at move_step;
BEGIN
    -- Not waited for: who waits alone for the lock is about to close the project.
    IF pg_try_advisory_xact_lock_shared(1968399459, project) THEN
        SELECT step INTO now_at FROM project_moves WHERE project_id = project;
        IF now_at IS NULL OR now_at = 'copying' OR (now_at = 'leaving' AND operation = 'DELETE') THEN
            RETURN;
        END IF;
    END IF;
    RAISE EXCEPTION 'The project is being moved to another database.' USING ERRCODE = 'UD001';
END $$;

-- Almost always nothing moves. To look for the project at once would open the index as well. The functions name their table with its schema:
-- to set search_path, as the others do, costs several times as much as the rest of them.
DO $do$
BEGIN
    EXECUTE format($sql$
        CREATE FUNCTION refuse_moving_rows() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM %1$I.project_moves) THEN
                IF TG_OP = 'DELETE' THEN
                    PERFORM %1$I.require_project_here(OLD.project_id, TG_OP);
                ELSE
                    PERFORM %1$I.require_project_here(NEW.project_id, TG_OP);
                END IF;
            END IF;
            RETURN NULL;
        END $$
    $sql$, current_schema());
    EXECUTE format($sql$
        CREATE FUNCTION refuse_moving_project() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF EXISTS (SELECT FROM %1$I.project_moves) THEN
                PERFORM %1$I.require_project_here(OLD.id, TG_OP);
            END IF;
            RETURN NULL;
        END $$
    $sql$, current_schema());
END $do$;

-- For what is acknowledged to callers. Each row is checked, and not each statement: a login that counts runs two statements' triggers, and
-- writes one row. Replication fires none of these.
CREATE TRIGGER users_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON users
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
CREATE TRIGGER accounts_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON accounts
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
CREATE TRIGGER bans_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON bans
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
CREATE TRIGGER audit_log_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
-- Not of last_used_at, which is written in the background.
CREATE TRIGGER app_secrets_refuse_moving AFTER INSERT OR UPDATE OF project_id, secret_hash, label, scopes, expires_at OR DELETE ON app_secrets
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
-- A fold or a repair in the database at which a project arrives would contradict what is still to come.
CREATE TRIGGER tallies_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON tallies
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
CREATE TRIGGER tally_slices_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON tally_slices
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
-- Not of its place and its attempts: deliveries stop before the project is closed for them, and what is under way is sent again.
CREATE TRIGGER webhooks_refuse_moving AFTER INSERT OR UPDATE OF url, description, types OR DELETE ON webhooks
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
CREATE TRIGGER webhook_secrets_refuse_moving AFTER INSERT OR UPDATE OR DELETE ON webhook_secrets
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
CREATE TRIGGER projects_refuse_moving AFTER UPDATE OR DELETE ON projects
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_project();

-- Cached credentials know whether their project is here.
CREATE TRIGGER project_moves_announce AFTER INSERT OR UPDATE OR DELETE ON project_moves
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();

-- As in 20261121060000_harden.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION require_project_here(integer, text) SET search_path = %I, pg_temp', current_schema());
END $$;
