import { Prisma, type Queryable } from '../db/statements.js';
import type { Actor } from '../domain/projects.js';
import { insertAuditEntries } from './audit.sql.js';

/*
 * What servers read from one snapshot, at their start and after a change, and what adds up to a thousand documents by one text: models would
 * prepare one statement for each number of documents. The rest is in documents.ts, by models.
 */

interface DocumentText {
  readonly id: string;
  readonly text: string;
}

/** All documents of a project, and how often they have changed, from one snapshot. Nothing if the project was deleted. */
export async function readDocuments(db: Queryable, appId: string) {
  const [row] = await db.query<{ version: number; documents: DocumentText[] }>(Prisma.sql`
    SELECT p.documents_version AS version,
           coalesce(
             (SELECT json_agg(json_build_object('id', d.id, 'text', d.text) ORDER BY d.created_at, d.id)
              FROM documents d WHERE d.project_id = p.id),
             '[]'
           ) AS documents
    FROM projects p
    WHERE p.app_id = ${appId}`);
  return row;
}

/** The projects that have documents, those whose changed last first. */
export function listProjectsWithDocuments(db: Queryable, limit: number): Promise<{ appId: string }[]> {
  return db.query(Prisma.sql`
    SELECT p.app_id AS "appId"
    FROM projects p
    JOIN (SELECT project_id, max(created_at) AS newest FROM documents GROUP BY project_id) d ON d.project_id = p.id
    WHERE p.disabled_at IS NULL
    ORDER BY d.newest DESC, p.id
    LIMIT ${limit}::bigint`);
}

/** Adds documents, or renames those that are there, with audit entries. Returns how many documents there are, with how many bytes. */
export async function insertDocuments(
  tx: Queryable,
  actor: Actor,
  documents: readonly (DocumentText & { readonly name: string })[],
): Promise<{ count: number; bytes: number }> {
  const { projectId } = actor;
  // Tells all processes, and lets no other transaction change the documents until this one ends.
  await tx.query(Prisma.sql`
    UPDATE projects SET documents_version = documents_version + 1 WHERE id = ${projectId}::int`);
  const ids = documents.map(({ id }) => id);
  const names = documents.map(({ name }) => name);
  const texts = documents.map(({ text }) => text);
  const entries = Prisma.sql`SELECT NULL::bigint, jsonb_build_object('document', id, 'name', name) FROM added`;
  await tx.query(Prisma.sql`
    WITH added AS (
      INSERT INTO documents AS known (project_id, id, name, text)
      SELECT ${projectId}::int, given.* FROM unnest(${ids}::text[], ${names}::text[], ${texts}::text[]) AS given
      ON CONFLICT (project_id, id) DO UPDATE SET name = EXCLUDED.name WHERE known.name <> EXCLUDED.name
      RETURNING id, name
    )
    ${insertAuditEntries(actor, 'add_document', entries)}`);
  const [sum] = await tx.query<{ count: number; bytes: number }>(Prisma.sql`
    SELECT count(*)::int AS count, coalesce(sum(octet_length(text)), 0)::int AS bytes
    FROM documents WHERE project_id = ${projectId}::int`);
  return sum ?? { count: 0, bytes: 0 };
}
