-- The people who use the dashboard. They are not of one project, so no key here begins with a project.
CREATE TYPE "operator_role" AS ENUM ('viewer', 'support', 'admin');

CREATE TABLE "operators" (
    "id" SERIAL NOT NULL,
    "name" TEXT COLLATE "C" NOT NULL,
    "role" "operator_role" NOT NULL,
    "subject" TEXT COLLATE "C",
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_seen_at" TIMESTAMPTZ(3),
    CONSTRAINT "operators_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "operators_name_is_one_word" CHECK ("name" ~ '^[a-z0-9][a-z0-9._@+-]{0,63}$')
);
CREATE UNIQUE INDEX "operators_name_key" ON "operators" ("name");
CREATE UNIQUE INDEX "operators_subject_key" ON "operators" ("subject");

-- Of sessions and links only the SHA-256 of their token is kept: it has 256 random bits, so that no slow hash is needed.
CREATE TABLE "operator_sessions" (
    "id" SERIAL NOT NULL,
    "operator_id" INTEGER NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_seen_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    "user_agent" TEXT NOT NULL,
    CONSTRAINT "operator_sessions_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "operator_sessions_operator_id_fkey" FOREIGN KEY ("operator_id") REFERENCES "operators" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "operator_sessions_token_hash_is_sha256" CHECK (octet_length("token_hash") = 32)
);
CREATE UNIQUE INDEX "operator_sessions_token_hash_key" ON "operator_sessions" ("token_hash");
CREATE INDEX "operator_sessions_operator_id_idx" ON "operator_sessions" ("operator_id");

CREATE TABLE "login_links" (
    "id" SERIAL NOT NULL,
    "operator_id" INTEGER NOT NULL,
    "token_hash" BYTEA NOT NULL,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    CONSTRAINT "login_links_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "login_links_operator_id_fkey" FOREIGN KEY ("operator_id") REFERENCES "operators" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "login_links_token_hash_is_sha256" CHECK (octet_length("token_hash") = 32)
);
CREATE UNIQUE INDEX "login_links_token_hash_key" ON "login_links" ("token_hash");
CREATE INDEX "login_links_operator_id_idx" ON "login_links" ("operator_id");

-- What was done beside the projects. Operators are named and not referred to: an entry outlives its operator.
CREATE SEQUENCE "operator_log_id_seq" AS BIGINT MAXVALUE 9007199254740991;
CREATE TABLE "operator_log" (
    "id" BIGINT NOT NULL DEFAULT nextval('operator_log_id_seq'),
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "actor" TEXT NOT NULL,
    "request_id" TEXT,
    "action" TEXT NOT NULL,
    "details" JSONB NOT NULL,
    CONSTRAINT "operator_log_pkey" PRIMARY KEY ("id")
);
ALTER SEQUENCE "operator_log_id_seq" OWNED BY "operator_log"."id";
CREATE INDEX "operator_log_at_idx" ON "operator_log" ("at", "id");

-- The audit trail: a project's creation, exports, and what an operator was refused.
ALTER TYPE "audit_action" ADD VALUE IF NOT EXISTS 'create';
ALTER TYPE "audit_action" ADD VALUE IF NOT EXISTS 'export';
ALTER TYPE "audit_action" ADD VALUE IF NOT EXISTS 'refuse';
CREATE INDEX "audit_log_user_idx" ON "audit_log" ("project_id", "user_id", "at", "id") WHERE "user_id" IS NOT NULL;
CREATE INDEX "audit_log_actor_idx" ON "audit_log" ("project_id", "actor", "at", "id");
CREATE INDEX "audit_log_action_idx" ON "audit_log" ("project_id", "action", "at", "id");

-- The audit trail calls an operator `operator:NAME`, so that no secret may be called so.
UPDATE "app_secrets" SET "label" = 'operator-' || substr("label", 10) WHERE "label" LIKE 'operator:%';
ALTER TABLE "app_secrets"
    DROP CONSTRAINT "app_secrets_label_is_not_the_operator",
    ADD CONSTRAINT "app_secrets_label_is_not_an_operator" CHECK ("label" <> 'operator' AND "label" NOT LIKE 'operator:%');
