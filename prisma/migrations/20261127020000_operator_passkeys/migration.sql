-- Passkeys (WebAuthn) with which operators sign in (docs/decisions/passkeys.md). A session knows the passkey that began it, and ends with it. A
-- release before this one goes on with links and sessions.

-- step: the passkeys of operators, and what browsers are asked to sign
-- locks: operator_sessions (ACCESS EXCLUSIVE), operators (SHARE ROW EXCLUSIVE)
CREATE TABLE "operator_passkeys" (
    "id" SERIAL NOT NULL,
    "operator_id" INTEGER NOT NULL,
    "name" TEXT NOT NULL,
    -- The name of the host to which browsers bind it.
    "host" TEXT COLLATE "C" NOT NULL,
    "credential_id" BYTEA NOT NULL,
    "public_key" BYTEA NOT NULL,
    -- How often the authenticator says that it has signed; 0 for one that does not count.
    "counter" BIGINT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "last_used_at" TIMESTAMPTZ(3),
    CONSTRAINT "operator_passkeys_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "operator_passkeys_operator_id_fkey" FOREIGN KEY ("operator_id") REFERENCES "operators" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "operator_passkeys_name_is_one_line" CHECK (char_length("name") BETWEEN 1 AND 64 AND "name" !~ '[[:cntrl:]]'),
    CONSTRAINT "operator_passkeys_credential_is_short" CHECK (octet_length("credential_id") BETWEEN 1 AND 1023)
);
CREATE UNIQUE INDEX "operator_passkeys_credential_id_key" ON "operator_passkeys" ("credential_id");
CREATE INDEX "operator_passkeys_operator_id_idx" ON "operator_passkeys" ("operator_id");

-- Random values that are signed once. Everybody may ask for one to sign in: the oldest make room for new ones.
CREATE TABLE "passkey_challenges" (
    "id" BIGSERIAL NOT NULL,
    "challenge_hash" BYTEA NOT NULL,
    -- The session that adds a passkey, which has one at a time; null for a sign-in.
    "session_id" INTEGER,
    "expires_at" TIMESTAMPTZ(3) NOT NULL,
    CONSTRAINT "passkey_challenges_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "passkey_challenges_session_id_fkey" FOREIGN KEY ("session_id") REFERENCES "operator_sessions" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "passkey_challenges_hash_is_sha256" CHECK (octet_length("challenge_hash") = 32)
);
CREATE UNIQUE INDEX "passkey_challenges_challenge_hash_key" ON "passkey_challenges" ("challenge_hash");
CREATE UNIQUE INDEX "passkey_challenges_session_id_key" ON "passkey_challenges" ("session_id");

ALTER TABLE "operator_sessions" ADD COLUMN "passkey_id" INTEGER;
ALTER TABLE "operator_sessions" ADD CONSTRAINT "operator_sessions_passkey_id_fkey" FOREIGN KEY ("passkey_id")
    REFERENCES "operator_passkeys" ("id") ON DELETE CASCADE ON UPDATE CASCADE NOT VALID;

-- step without a transaction: checks that sessions have passkeys that exist
ALTER TABLE "operator_sessions" VALIDATE CONSTRAINT "operator_sessions_passkey_id_fkey";

-- step without a transaction: finds the sessions of a passkey
CREATE INDEX CONCURRENTLY IF NOT EXISTS "operator_sessions_passkey_id_idx" ON "operator_sessions" ("passkey_id") WHERE (passkey_id IS NOT NULL);
