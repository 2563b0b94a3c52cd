-- GraphQL documents that a project has registered: requests name them by id (docs/decisions/documents.md).
ALTER TYPE "audit_action" ADD VALUE 'add_document';
ALTER TYPE "audit_action" ADD VALUE 'remove_document';

-- The id is the SHA-256 of the text in hexadecimal, as clients compute it.
CREATE TABLE "documents" (
    "project_id" INTEGER NOT NULL,
    "id" TEXT COLLATE "C" NOT NULL,
    "name" TEXT NOT NULL,
    "text" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "documents_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "documents_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "documents_id_is_sha256" CHECK ("id" = encode(sha256(convert_to("text", 'UTF8')), 'hex')),
    CONSTRAINT "documents_name_is_one_line" CHECK (char_length("name") BETWEEN 1 AND 200 AND "name" !~ '[[:cntrl:]]')
);

-- Counts the changes of a project's documents. It comes with the credentials, so that every process sees a change as soon as it would see a
-- revoked secret, and keeps the documents until then.
ALTER TABLE "projects" ADD COLUMN "documents_version" INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER projects_announce ON projects;
CREATE TRIGGER projects_announce AFTER UPDATE OF disabled_at, requests_per_minute, documents_version ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();

-- A secret for which only registered documents are executed.
ALTER TABLE "app_secrets" ADD COLUMN "documents_only" BOOLEAN NOT NULL DEFAULT false;

DROP TRIGGER app_secrets_announce ON app_secrets;
CREATE TRIGGER app_secrets_announce AFTER UPDATE OF project_id, secret_hash, label, scopes, expires_at, documents_only OR DELETE ON app_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();

-- Documents themselves need none: each of their changes updates the project.
DROP TRIGGER app_secrets_refuse_moving ON app_secrets;
CREATE TRIGGER app_secrets_refuse_moving
    AFTER INSERT OR UPDATE OF project_id, secret_hash, label, scopes, expires_at, documents_only OR DELETE ON app_secrets
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
