import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { LimitedSchema } from './cost.js';
import { type ReadDocument, readDocument } from './documents.js';

/** The memory that cached documents may take: of all projects, and of one project. */
const MAX_BYTES = 48 * 2 ** 20;
const MAX_BYTES_OF_PROJECT = 12 * 2 ** 20;
/** The memory of a token in the tree, and of a compiled field: measured and rounded up. */
const BYTES_PER_TOKEN = 350;
const BYTES_PER_COMPILED_FIELD = 1_000;

interface Entry {
  readonly document: ReadDocument;
  /** The project that sent it first. The document counts towards this project's memory. */
  readonly project: string;
  readonly bytes: number;
  usedAt: number;
}

/** A document in such recent use is not evicted for another one of its project. Otherwise documents that do not fit together would evict each other again and again. */
const KEPT_MS = 10_000;
/** The documents to look at to make room for one. */
const MAX_LOOKED_AT = 16;

/** Bounds of what is remembered as seen once: projects, and documents of each. */
const MAX_SEEN_PROJECTS = 1_000;
const MAX_SEEN_OF_PROJECT = 200;

/**
 * A cache of valid documents, from the second time that a project sends them: one that never comes again would only cost memory and collections.
 * A project that sends many evicts its own documents and not those of other projects.
 */
export interface DocumentCache {
  /** The document; null if it is not cached. */
  find(text: string): ReadDocument | null;
  /** Caches a valid document for the project that has sent it, unless it is the first time or there is no room. */
  add(document: ReadDocument, project: string): void;
  /** The cached document, or else one that is read now, and cached if it has come before. */
  findOrRead(text: string, project: string): ReadDocument;
  /** Reads, compiles and caches a document before it is sent. Returns false once the project's memory is full. */
  warm(text: string, project: string): boolean;
  /** Updates the size of a document that has grown. */
  updateSize(document: ReadDocument): void;
}

export function createDocumentCache(on: LimitedSchema): DocumentCache {
  const projects = new Map<string, { bytes: number; readonly texts: Set<string> }>();
  const bytesOf = (project: string) => projects.get(project)?.bytes ?? 0;
  const documents = new LRUCache<string, Entry>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ bytes }) => bytes,
    dispose: ({ document, project, bytes }) => {
      const own = projects.get(project);
      if (own === undefined) return;
      own.texts.delete(document.text);
      own.bytes -= bytes;
      if (own.texts.size === 0) projects.delete(project);
    },
  });

  /** Hashes of documents by project, because a text may be long: what it has sent before, as far as is remembered. */
  const seen = new LRUCache<string, LRUCache<string, true>>({ max: MAX_SEEN_PROJECTS });

  /** Remembers that the project has sent the document. Returns whether it had before. */
  function remember(text: string, project: string): boolean {
    let ofProject = seen.get(project);
    if (ofProject === undefined) {
      ofProject = new LRUCache({ max: MAX_SEEN_OF_PROJECT });
      seen.set(project, ofProject);
    }
    const hash = hashOf(text);
    if (ofProject.has(hash)) return true;
    ofProject.set(hash, true);
    return false;
  }

  function add(document: ReadDocument, project: string): void {
    const bytes = sizeOf(document);
    const own = projects.get(project) ?? { bytes: 0, texts: new Set() };
    projects.set(project, own);
    own.bytes += bytes;
    own.texts.add(document.text);
    documents.set(document.text, { document, project, bytes, usedAt: performance.now() });
    for (const oldest of own.texts) {
      if (own.bytes <= MAX_BYTES_OF_PROJECT) return;
      documents.delete(oldest);
    }
  }

  /** Evicts documents of a project that were not used for long. Returns whether there is room then. */
  function makeRoom(bytes: number, project: string): boolean {
    const isFull = () => bytesOf(project) + bytes > MAX_BYTES_OF_PROJECT;
    if (!isFull()) return true;
    const texts = projects.get(project)?.texts ?? new Set();
    for (const text of [...texts].slice(0, MAX_LOOKED_AT)) {
      const { usedAt = 0 } = documents.peek(text) ?? {};
      if (performance.now() - usedAt > KEPT_MS) documents.delete(text);
      else {
        // The next time, others are looked at.
        texts.delete(text);
        texts.add(text);
      }
      if (!isFull()) break;
    }
    return !isFull();
  }

  return {
    find(text) {
      const entry = documents.get(text);
      if (entry === undefined) return null;
      entry.usedAt = performance.now();
      return entry.document;
    },

    add(document, project) {
      if (document.errors.length > 0 || !remember(document.text, project) || documents.has(document.text)) return;
      if (makeRoom(sizeOf(document), project)) add(document, project);
    },

    findOrRead(text, project) {
      const cached = this.find(text);
      if (cached !== null) return cached;
      const document = readDocument(on, text);
      this.add(document, project);
      return document;
    },

    warm(text, project) {
      if (documents.has(text)) return true;
      const document = readDocument(on, text);
      for (const operation of document.operations()) operation.compile();
      const hasRoom = bytesOf(project) + sizeOf(document) <= MAX_BYTES_OF_PROJECT;
      if (hasRoom && document.errors.length === 0) add(document, project);
      return hasRoom;
    },

    updateSize({ text }) {
      const entry = documents.peek(text);
      if (entry === undefined) return;
      documents.delete(text);
      add(entry.document, entry.project);
    },
  };
}

function hashOf(text: string): string {
  return createHash('sha1').update(text).digest('base64');
}

function sizeOf({ text, tree, compiled }: ReadDocument): number {
  const ofTree = (tree?.tokenCount ?? 0) * BYTES_PER_TOKEN;
  return 2 * text.length + ofTree + compiled.fields * BYTES_PER_COMPILED_FIELD + compiled.answers;
}
