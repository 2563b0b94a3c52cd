-- Notes of operators on users. They are personal data: they go with their user, and nothing else has their text.

-- step: notes of operators on users
-- locks: users (SHARE ROW EXCLUSIVE)
ALTER TYPE "audit_action" ADD VALUE 'add_note';
ALTER TYPE "audit_action" ADD VALUE 'remove_note';

CREATE TABLE "user_notes" (
    "project_id" INTEGER NOT NULL,
    "user_id" BIGINT NOT NULL,
    "id" BIGSERIAL NOT NULL,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    -- As in the audit trail.
    "actor" TEXT NOT NULL,
    "note" TEXT NOT NULL,
    CONSTRAINT "user_notes_pkey" PRIMARY KEY ("project_id", "user_id", "id"),
    CONSTRAINT "user_notes_user_fkey" FOREIGN KEY ("project_id", "user_id") REFERENCES "users" ("project_id", "id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "user_notes_note_is_short" CHECK (char_length("note") BETWEEN 1 AND 2000)
);
-- An id must be exact in JSON.
ALTER SEQUENCE "user_notes_id_seq" MAXVALUE 9007199254740991;
