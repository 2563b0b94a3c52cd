import { LRUCache } from 'lru-cache';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import { INPUT_LIMITS, isTooLong } from '../domain/input-limits.js';
import {
  DOCUMENTS_OF_PROJECT,
  type DocumentSet,
  type DocumentToAdd,
  documentIdOf,
  type ProjectScope,
  type RegisteredDocument,
} from '../domain/projects.js';
import { AppError, badInput } from '../errors.js';
import { recordAction } from './audit.sql.js';
import { insertDocuments, listProjectsWithDocuments, readDocuments } from './documents.sql.js';

/** The memory for texts in this process, of all projects. */
const MAX_CACHED_BYTES = 32 * 2 ** 20;
/** Of a text beside its characters, which may take two bytes each. */
const BYTES_OF_ENTRY = 200;

/** How many projects are looked at when the service starts. */
const PROJECTS_AT_START = 1_000;

type ReadListener = (appId: string, documents: DocumentSet) => Promise<void>;

/**
 * The GraphQL documents that projects have registered. Each process keeps them in memory by project. The scope of a request says how often
 * they have changed, so a process reads them again after a change as soon as it would notice a revoked secret. `onChanged` is called when
 * they have changed in this process.
 */
export function createDocuments(db: Database, onChanged: () => void, onFailure: OnFailure) {
  const inBackground = createBackground(onFailure);
  const sets = new LRUCache<string, { readonly version: number; readonly documents: DocumentSet }>({
    maxSize: MAX_CACHED_BYTES,
    sizeCalculation: ({ documents }) =>
      [...documents.values()].reduce((bytes, { length }) => bytes + 2 * length + BYTES_OF_ENTRY, BYTES_OF_ENTRY),
  });
  const reading = new Map<string, Promise<DocumentSet>>();
  const listeners = new Set<ReadListener>();
  let warming = Promise.resolve();
  let isClosing = false;

  async function read(appId: string): Promise<DocumentSet> {
    const row = await readDocuments(db, appId);
    const documents = new Map(row?.documents.map(({ id, text }) => [id, text]));
    sets.set(appId, { version: row?.version ?? 0, documents });
    for (const listener of listeners) void inBackground('Preparing documents', () => listener(appId, documents));
    return documents;
  }

  /** Requests that arrive together share a read. */
  function readOnce(appId: string): Promise<DocumentSet> {
    const begun = reading.get(appId) ?? read(appId).finally(() => reading.delete(appId));
    reading.set(appId, begun);
    return begun;
  }

  return {
    /** The documents of a caller's project, if they are in memory and have not changed. */
    known({ appId, documentsVersion }: ProjectScope): DocumentSet | null {
      const set = sets.get(appId);
      return set?.version === documentsVersion ? set.documents : null;
    },

    /** The documents of a caller's project from the database. */
    async read(scope: ProjectScope): Promise<DocumentSet> {
      const read = await readOnce(scope.appId);
      // It may have begun before a change that the caller has seen.
      return sets.get(scope.appId)?.version === scope.documentsVersion ? read : readOnce(scope.appId);
    },

    /** Calls `listener` with the documents of each project that is read. Returns a function that ends this. */
    onRead(listener: ReadListener): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },

    /** Reads the documents of projects in the background, those that changed last first, before they are asked for. */
    start(): void {
      warming = inBackground('Reading registered documents', async () => {
        for (const { appId } of await listProjectsWithDocuments(db, PROJECTS_AT_START)) {
          if (isClosing || sets.calculatedSize > MAX_CACHED_BYTES / 2) return;
          await readOnce(appId);
        }
      });
    },

    close(): Promise<void> {
      isClosing = true;
      return warming;
    },

    /** Adds documents, all or none; one that is there already gets the new name. Returns their ids in order. BAD_USER_INPUT. */
    async addDocuments(scope: ProjectScope, documents: readonly DocumentToAdd[], requestId: string | null = null) {
      const actor = scope.actorFor('operate', requestId);
      for (const { name } of documents) requireName(name);
      // The last of equal texts gives the name.
      const byId = new Map(documents.map(({ name, text }) => [documentIdOf(text), { name, text }]));
      const added = [...byId].map(([id, { name, text }]) => ({ id, name, text }));
      await db.transaction('READ COMMITTED', async (tx) => {
        const sum = await insertDocuments(tx, actor, added);
        for (const limit of ['count', 'bytes'] as const) {
          if (sum[limit] > DOCUMENTS_OF_PROJECT[limit]) throw tooMany(limit, sum[limit]);
        }
      });
      onChanged();
      return added.map(({ id, name }) => ({ id, name }));
    },

    /** Oldest first. */
    async listDocuments(scope: ProjectScope): Promise<RegisteredDocument[]> {
      const where = { projectId: scope.projectIdFor('inspect') };
      const found = await db.models(({ document }) =>
        document.findMany({ where, orderBy: [{ createdAt: 'asc' }, { id: 'asc' }] }),
      );
      return found.map(({ id, name, createdAt, text }) => {
        return { id, name, createdAt: createdAt.toISOString(), bytes: Buffer.byteLength(text) };
      });
    },

    /** Removes a document and returns its name. NOT_FOUND. */
    async removeDocument(scope: ProjectScope, id: string, requestId: string | null = null): Promise<string> {
      const actor = scope.actorFor('operate', requestId);
      const { projectId } = actor;
      const name = await db.change(async (tx) => {
        // Tells all processes, and lets no other transaction change the documents until this one ends.
        await tx.project.updateMany({ where: { id: projectId }, data: { documentsVersion: { increment: 1 } } });
        const document = isTooLong('documentId', id) ? null : await tx.document.findFirst({ where: { projectId, id } });
        if (document === null) throw new AppError('NOT_FOUND', 'The project has no document with this ID.');
        await tx.document.deleteMany({ where: { projectId, id } });
        await recordAction(tx, actor, 'remove_document', { document: id, name: document.name });
        return document.name;
      });
      onChanged();
      return name;
    },
  };
}

export type Documents = ReturnType<typeof createDocuments>;

function requireName(name: string): void {
  if (!isTooLong('documentName', name) && /^[^\p{Cc}\p{Cs}]+$/u.test(name) && name.trim() === name) return;
  throw badInput('name', name, `text of 1 to ${INPUT_LIMITS.documentName.max} characters on one line`);
}

function tooMany(limit: 'count' | 'bytes', arrived: number): AppError {
  const what = limit === 'count' ? 'documents' : 'bytes of documents';
  return new AppError(
    'BAD_USER_INPUT',
    `The project would have ${arrived} ${what}, expected at most ${DOCUMENTS_OF_PROJECT[limit]}. Remove some.`,
  );
}
