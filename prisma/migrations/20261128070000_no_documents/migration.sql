-- Projects register no documents, and no secret is limited to them. 2.0.0 is the oldest release already.

-- step: drops the documents of projects
-- locks: documents (ACCESS EXCLUSIVE), projects (ACCESS EXCLUSIVE)
DROP TABLE "documents";
DROP TRIGGER projects_announce ON projects;
CREATE TRIGGER projects_announce AFTER UPDATE OF disabled_at, requests_per_minute ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();
ALTER TABLE "projects" DROP COLUMN "documents_version";

-- step: drops the limit of secrets to documents
-- locks: app_secrets (ACCESS EXCLUSIVE)
DROP TRIGGER app_secrets_announce ON app_secrets;
CREATE TRIGGER app_secrets_announce AFTER UPDATE OF project_id, secret_hash, label, scopes, expires_at OR DELETE ON app_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();
DROP TRIGGER app_secrets_refuse_moving ON app_secrets;
CREATE TRIGGER app_secrets_refuse_moving AFTER INSERT OR UPDATE OF project_id, secret_hash, label, scopes, expires_at OR DELETE ON app_secrets
    FOR EACH ROW EXECUTE FUNCTION refuse_moving_rows();
ALTER TABLE "app_secrets" DROP COLUMN "documents_only";
