-- The users whom an import has created, a row for each batch of its lines, so that it can be undone (docs/moving.md).

-- step: the parts of imports
-- locks: projects (SHARE ROW EXCLUSIVE)
CREATE TABLE "import_parts" (
    "project_id" INTEGER NOT NULL,
    -- The entry of the import in the audit trail.
    "import_id" BIGINT NOT NULL,
    "first_user_id" BIGINT NOT NULL,
    "user_ids" BIGINT[] NOT NULL,
    "imported_at" TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP),
    CONSTRAINT "import_parts_pkey" PRIMARY KEY ("project_id", "import_id", "first_user_id"),
    CONSTRAINT "import_parts_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
);
