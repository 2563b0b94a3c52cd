CREATE TYPE "login_method" AS ENUM ('email', 'passkey', 'wallet', 'socials');
CREATE TYPE "network" AS ENUM ('stellar', 'ethereum');
CREATE TYPE "wallet_type" AS ENUM ('custodial', 'external');

CREATE TABLE "projects" (
    "id" SERIAL NOT NULL,
    "name" TEXT NOT NULL,
    "app_id" TEXT COLLATE "C" NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "projects_pkey" PRIMARY KEY ("id")
);
CREATE UNIQUE INDEX "projects_app_id_key" ON "projects" ("app_id");

CREATE TABLE "app_secrets" (
    "project_id" INTEGER NOT NULL,
    "id" SERIAL NOT NULL,
    "secret_hash" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    CONSTRAINT "app_secrets_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "app_secrets_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "app_secrets_secret_hash_is_sha256" CHECK (octet_length("secret_hash") = 32)
);
CREATE UNIQUE INDEX "app_secrets_secret_hash_key" ON "app_secrets" ("project_id", "secret_hash");

-- An id must survive JSON in every client: the sequences end where a double stops counting (2^53 - 1).
CREATE SEQUENCE "users_id_seq" AS BIGINT MAXVALUE 9007199254740991;
CREATE SEQUENCE "accounts_id_seq" AS BIGINT MAXVALUE 9007199254740991;

-- Columns that are only ever compared for equality are in the collation "C": the same order and the same
-- index on every server, whatever its locale, and none to rebuild when the locale's library changes.
CREATE TABLE "users" (
    "project_id" INTEGER NOT NULL,
    "id" BIGINT NOT NULL DEFAULT nextval('users_id_seq'),
    "auth_method" TEXT COLLATE "C" NOT NULL,
    "auth_value" TEXT NOT NULL,
    "auth_value_key" TEXT COLLATE "C" NOT NULL,
    "login_method" "login_method" NOT NULL GENERATED ALWAYS AS (
        CASE "auth_method"
            WHEN 'email' THEN 'email'::"login_method"
            WHEN 'passkey' THEN 'passkey'::"login_method"
            WHEN 'wallet' THEN 'wallet'::"login_method"
            ELSE 'socials'::"login_method"
        END
    ) STORED,
    "login_email" TEXT COLLATE "C",
    "wallet" TEXT,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_login" TIMESTAMPTZ(3),
    "login_count" INTEGER NOT NULL DEFAULT 0,
    "deleted_at" TIMESTAMPTZ(3),
    CONSTRAINT "users_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "users_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "users_login_count_not_negative" CHECK ("login_count" >= 0),
    -- The range of the API's dates: a filter bound outside it can be moved to its edge without changing any answer.
    CONSTRAINT "users_created_at_in_range" CHECK ("created_at" >= '1970-01-01T00:00:00Z' AND "created_at" < '10000-01-01T00:00:00Z')
);
ALTER SEQUENCE "users_id_seq" OWNED BY "users"."id";
CREATE UNIQUE INDEX "users_identity_key" ON "users" ("project_id", "auth_method", "auth_value_key") WHERE deleted_at IS NULL;
CREATE INDEX "users_newest_idx" ON "users" ("project_id", "created_at" DESC, "id" DESC) WHERE deleted_at IS NULL;
CREATE INDEX "users_method_newest_idx" ON "users" ("project_id", "login_method", "created_at" DESC, "id" DESC) WHERE deleted_at IS NULL;
CREATE INDEX "users_login_email_idx" ON "users" ("project_id", "login_email") WHERE deleted_at IS NULL;
CREATE INDEX "users_deleted_idx" ON "users" ("project_id", "deleted_at") WHERE deleted_at IS NOT NULL;

CREATE TABLE "accounts" (
    "project_id" INTEGER NOT NULL,
    "id" BIGINT NOT NULL DEFAULT nextval('accounts_id_seq'),
    "user_id" BIGINT NOT NULL,
    "network" "network" NOT NULL,
    "public_key" TEXT NOT NULL,
    "address_key" TEXT COLLATE "C" NOT NULL,
    "wallet_type" "wallet_type" NOT NULL,
    CONSTRAINT "accounts_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "accounts_user_fkey" FOREIGN KEY ("project_id", "user_id") REFERENCES "users" ("project_id", "id")
        ON DELETE CASCADE ON UPDATE CASCADE
);
ALTER SEQUENCE "accounts_id_seq" OWNED BY "accounts"."id";
CREATE UNIQUE INDEX "accounts_user_address_key" ON "accounts" ("project_id", "user_id", "address_key");
CREATE INDEX "accounts_address_idx" ON "accounts" ("project_id", "address_key", "user_id");

CREATE TABLE "bans" (
    "project_id" INTEGER NOT NULL,
    "auth_method" TEXT COLLATE "C" NOT NULL,
    "auth_value_key" TEXT COLLATE "C" NOT NULL,
    "auth_value" TEXT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "bans_pkey" PRIMARY KEY ("project_id", "auth_method", "auth_value_key"),
    CONSTRAINT "bans_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
);
