-- Answers to requests that came with a key, for their retries. The primary key lets one of several at once act; the others wait
-- for it. No personal data: an answer names a user by id.
CREATE TABLE "idempotency_keys" (
    "project_id" INTEGER NOT NULL,
    "key" TEXT COLLATE "C" NOT NULL,
    "request_hash" BYTEA NOT NULL,
    "answer" JSONB,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "idempotency_keys_pkey" PRIMARY KEY ("project_id", "key"),
    CONSTRAINT "idempotency_keys_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "idempotency_keys_key_is_short" CHECK (char_length("key") BETWEEN 1 AND 255)
);
CREATE INDEX "idempotency_keys_created_at_idx" ON "idempotency_keys" ("project_id", "created_at");
