-- Attempts of webhooks in a table of their own, and tallies of them by the hour (docs/decisions/webhooks.md). Both are rings: a new row takes the
-- place of the oldest, so that nothing has to be deleted. Releases before this one go on with the column "attempts", which this one ignores.

-- step: attempts of webhooks and their tallies
-- locks: webhooks (ACCESS EXCLUSIVE)
ALTER TYPE "audit_action" ADD VALUE 'pause_webhook';
ALTER TYPE "audit_action" ADD VALUE 'resume_webhook';
ALTER TYPE "audit_action" ADD VALUE 'update_webhook';
ALTER TYPE "audit_action" ADD VALUE 'resend_webhook';

ALTER TABLE "webhooks"
    -- How often an operator has paused, resumed or changed it. What a turn that began before has come to says nothing about its state.
    ADD COLUMN "edits" INTEGER NOT NULL DEFAULT 0,
    -- Attempts since it was added: the numbers of the rows below.
    ADD COLUMN "accepted" BIGINT NOT NULL DEFAULT '0'::bigint,
    ADD COLUMN "failed" BIGINT NOT NULL DEFAULT '0'::bigint,
    -- Until when no message is sent again by hand: one at a time.
    ADD COLUMN "resend_after" TIMESTAMPTZ(3);

CREATE TABLE "webhook_attempts" (
    "project_id" INTEGER NOT NULL,
    "webhook_id" INTEGER NOT NULL,
    -- Those that failed have a ring of their own, so that successes do not push them out.
    "ok" BOOLEAN NOT NULL,
    "slot" SMALLINT NOT NULL,
    "number" BIGINT NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL,
    -- The cursor of the change, as it was sent.
    "message" TEXT COLLATE "C" NOT NULL,
    "type" "change_type" NOT NULL,
    "status" SMALLINT,
    "ms" INTEGER NOT NULL,
    "error" TEXT,
    -- Whether an operator has sent it again by hand.
    "resent" BOOLEAN NOT NULL,
    CONSTRAINT "webhook_attempts_pkey" PRIMARY KEY ("project_id", "webhook_id", "ok", "slot"),
    CONSTRAINT "webhook_attempts_webhook_fkey" FOREIGN KEY ("project_id", "webhook_id") REFERENCES "webhooks" ("project_id", "id")
        ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 50);

CREATE TABLE "webhook_hours" (
    "project_id" INTEGER NOT NULL,
    "webhook_id" INTEGER NOT NULL,
    -- The hour of the day, in UTC.
    "slot" SMALLINT NOT NULL,
    "hour" TIMESTAMPTZ(3) NOT NULL,
    "accepted" INTEGER NOT NULL,
    "failed" INTEGER NOT NULL,
    CONSTRAINT "webhook_hours_pkey" PRIMARY KEY ("project_id", "webhook_id", "slot"),
    CONSTRAINT "webhook_hours_webhook_fkey" FOREIGN KEY ("project_id", "webhook_id") REFERENCES "webhooks" ("project_id", "id")
        ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 50);
