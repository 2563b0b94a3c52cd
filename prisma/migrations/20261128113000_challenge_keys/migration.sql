-- What browsers are asked to sign is itself signed by this service (docs/decisions/passkeys.md), so that nothing is kept of it before it is
-- used: anyone may ask. A release before this one keeps it in passkey_challenges, as before.

-- step: the key by which challenges are signed
CREATE TABLE "challenge_keys" (
    "id" INTEGER NOT NULL DEFAULT 1,
    "key" BYTEA NOT NULL,
    CONSTRAINT "challenge_keys_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "challenge_keys_is_one" CHECK ("id" = 1),
    CONSTRAINT "challenge_keys_is_long" CHECK (octet_length("key") = 32)
);
