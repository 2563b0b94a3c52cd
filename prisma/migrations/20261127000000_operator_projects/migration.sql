-- Operators who may act in some projects only (docs/decisions/dashboard.md). The release before this one knows no limits.

-- step: the projects of operators
-- locks: operators (ACCESS EXCLUSIVE), projects (SHARE ROW EXCLUSIVE)
-- Not told by their rows below: the last of them may go with its project.
ALTER TABLE "operators" ADD COLUMN "is_limited" BOOLEAN NOT NULL DEFAULT false;

CREATE TABLE "operator_projects" (
    "operator_id" INTEGER NOT NULL,
    "project_id" INTEGER NOT NULL,
    CONSTRAINT "operator_projects_pkey" PRIMARY KEY ("operator_id", "project_id"),
    CONSTRAINT "operator_projects_operator_id_fkey" FOREIGN KEY ("operator_id") REFERENCES "operators" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT "operator_projects_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
);
-- For the deletion of a project.
CREATE INDEX "operator_projects_project_id_idx" ON "operator_projects" ("project_id");
