-- What an operator does to a project as a whole, and to a user who was removed by mistake.
ALTER TYPE "audit_action" ADD VALUE 'restore';
ALTER TYPE "audit_action" ADD VALUE 'rename';
ALTER TYPE "audit_action" ADD VALUE 'disable';
ALTER TYPE "audit_action" ADD VALUE 'enable';
ALTER TYPE "audit_action" ADD VALUE 'limit';
ALTER TYPE "audit_action" ADD VALUE 'delete';

ALTER TABLE "projects"
    ADD COLUMN "disabled_at" TIMESTAMPTZ(3),
    ADD COLUMN "requests_per_minute" INTEGER,
    ADD CONSTRAINT "projects_requests_per_minute_in_range" CHECK ("requests_per_minute" BETWEEN 1 AND 100000000);

-- Cached credentials know whether their project is disabled, and its limit.
CREATE TRIGGER projects_announce AFTER UPDATE OF disabled_at, requests_per_minute ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();

-- Deltas have no foreign key. The name of the trigger comes after those of the foreign keys, so the users are gone by then.
CREATE FUNCTION forget_deltas() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM tally_deltas WHERE project_id = OLD.id;
    RETURN NULL;
END $$;

CREATE TRIGGER projects_forget_deltas AFTER DELETE ON projects
    FOR EACH ROW EXECUTE FUNCTION forget_deltas();

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION forget_deltas() SET search_path = %I, pg_temp', current_schema());
END $$;

-- A place in the list of bans that names nobody.
CREATE SEQUENCE "bans_id_seq" AS BIGINT MAXVALUE 9007199254740991;
ALTER TABLE "bans" ADD COLUMN "id" BIGINT NOT NULL DEFAULT nextval('bans_id_seq');
ALTER SEQUENCE "bans_id_seq" OWNED BY "bans"."id";
CREATE INDEX "bans_created_at_idx" ON "bans" ("project_id", "created_at", "id");
