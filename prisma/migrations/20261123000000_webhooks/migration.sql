-- Webhooks: endpoints to which the changes of a project are sent (docs/decisions/webhooks.md). An endpoint is a place in the feed.

ALTER TYPE "audit_action" ADD VALUE 'add_webhook';
ALTER TYPE "audit_action" ADD VALUE 'remove_webhook';
ALTER TYPE "audit_action" ADD VALUE 'rotate_webhook';
ALTER TYPE "audit_action" ADD VALUE 'replay_webhook';
ALTER TYPE "audit_action" ADD VALUE 'enable_webhook';
ALTER TYPE "audit_action" ADD VALUE 'test_webhook';

CREATE TYPE "webhook_status" AS ENUM ('enabled', 'paused', 'disabled');

CREATE TABLE "webhooks" (
    "project_id" INTEGER NOT NULL,
    "id" SERIAL NOT NULL,
    "url" TEXT NOT NULL,
    "description" TEXT NOT NULL,
    -- Empty: all.
    "types" "change_type"[] NOT NULL,
    -- Every change up to this id has been delivered. The timeline is that of the feed when it was written: a feed that began anew, because
    -- a dump was restored without it, has others.
    "place" BIGINT NOT NULL,
    "timeline" TEXT COLLATE "C" NOT NULL,
    -- How often an operator has moved the place. A delivery that began before the last move does not move it again.
    "moves" INTEGER NOT NULL DEFAULT 0,
    "status" "webhook_status" NOT NULL DEFAULT 'enabled',
    -- Why it is not enabled.
    "reason" TEXT,
    -- Failed attempts since the last one that was accepted, and since when.
    "failures" INTEGER NOT NULL DEFAULT 0,
    "failing_since" TIMESTAMPTZ(3),
    "next_attempt_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    -- The process that delivers, and until when no other may.
    "leased_by" TEXT,
    "leased_until" TIMESTAMPTZ(3),
    "last_delivered_at" TIMESTAMPTZ(3),
    -- The last attempts, the newest first.
    "attempts" JSONB NOT NULL DEFAULT '[]',
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "webhooks_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "webhooks_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "webhooks_reason_unless_enabled" CHECK (("status" = 'enabled') = ("reason" IS NULL))
) WITH (fillfactor = 50);

-- What signs. As it is, because a signature needs it: one who reads this table can sign.
CREATE TABLE "webhook_secrets" (
    "project_id" INTEGER NOT NULL,
    "webhook_id" INTEGER NOT NULL,
    "id" SERIAL NOT NULL,
    "secret" BYTEA NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    "expires_at" TIMESTAMPTZ(3),
    CONSTRAINT "webhook_secrets_pkey" PRIMARY KEY ("project_id", "webhook_id", "id"),
    CONSTRAINT "webhook_secrets_webhook_fkey" FOREIGN KEY ("project_id", "webhook_id") REFERENCES "webhooks" ("project_id", "id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "webhook_secrets_secret_has_32_bytes" CHECK (octet_length("secret") = 32)
);
