-- What a secret is good for.
CREATE TYPE "secret_scope" AS ENUM ('read', 'verify', 'write');

ALTER TABLE "app_secrets"
    ADD COLUMN "label" TEXT NOT NULL DEFAULT 'main',
    ADD COLUMN "scopes" "secret_scope"[] NOT NULL DEFAULT '{read,verify,write}',
    ADD COLUMN "last_used_at" TIMESTAMPTZ(3),
    ADD CONSTRAINT "app_secrets_label_is_one_line" CHECK (char_length("label") BETWEEN 1 AND 64 AND "label" !~ '[[:cntrl:]]'),
    -- The audit trail calls whoever runs the command so.
    ADD CONSTRAINT "app_secrets_label_is_not_the_operator" CHECK ("label" <> 'operator'),
    ADD CONSTRAINT "app_secrets_is_good_for_something" CHECK (cardinality("scopes") > 0 AND array_position("scopes", NULL) IS NULL);

-- That a secret was used ends nobody's belief in it.
DROP TRIGGER app_secrets_announce ON app_secrets;
CREATE TRIGGER app_secrets_announce AFTER UPDATE OF project_id, secret_hash, label, scopes, expires_at OR DELETE ON app_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();

CREATE TYPE "audit_action" AS ENUM ('remove', 'ban', 'unban', 'import', 'purge', 'add_secret', 'rotate', 'revoke');

-- Who did what, written in the transaction of the act. No personal data: a user is named by id, without a foreign key, because
-- the entry outlives the user.
CREATE SEQUENCE "audit_log_id_seq" AS BIGINT MAXVALUE 9007199254740991;
CREATE TABLE "audit_log" (
    "project_id" INTEGER NOT NULL,
    "id" BIGINT NOT NULL DEFAULT nextval('audit_log_id_seq'),
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "actor" TEXT NOT NULL,
    "request_id" TEXT,
    "action" "audit_action" NOT NULL,
    "user_id" BIGINT,
    "details" JSONB NOT NULL,
    CONSTRAINT "audit_log_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "audit_log_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
);
ALTER SEQUENCE "audit_log_id_seq" OWNED BY "audit_log"."id";
CREATE INDEX "audit_log_at_idx" ON "audit_log" ("project_id", "at", "id");
