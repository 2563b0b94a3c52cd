import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { isTooLong } from '../domain/input-limits.js';
import type { DocumentCache } from '../engine/document-cache.js';
import type { ReadDocument } from '../engine/documents.js';
import { toGraphQLErrors } from '../engine/errors.js';
import {
  operationOf,
  type Parameters,
  type PreparedRequest,
  prepareRequest,
  weightOfReading,
  weightOfRequest,
} from '../engine/execution.js';
import { LIMITS, limitExceeded } from '../engine/limits.js';
import { AppError, badInput } from '../errors.js';
import { isSliceOver, nextSlice } from '../http/turns.js';
import { engine } from './engine.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The parameters of a GraphQL request, once they are found well-formed. */
    graphqlParameters: Parameters | null;
    /** The JSON of the body of a GraphQL request. */
    json: Buffer | null;
    /** A GraphQL request, once it is read and its cost is known. */
    graphql: PreparedRequest | null;
  }
}

/**
 * Reads the documents of requests and weighs them. A document that is not cached is read when admission starts its request, because that may
 * take longer than executing it. The request then goes on without waiting again, because a syntax tree takes much memory.
 */
export interface RequestReader {
  /** The weight of executing a request or, if its document is not in the cache, of reading it. */
  weigh(request: FastifyRequest): number;
  /** Reads a document that was not in the cache, and adds the weight of executing it. */
  read(request: FastifyRequest): Promise<void> | undefined;
}

export function createRequestReader(documents: DocumentCache, persisted: PersistedQueries): RequestReader {
  function prepare(request: FastifyRequest, document: ReadDocument): number {
    const parameters = request.graphqlParameters as Parameters;
    const prepared = prepareRequest(document, parameters);
    request.graphql = prepared;
    request.operation = operationOf(prepared);
    const { hash, query } = parameters;
    // Kept once it is known to be valid.
    if (hash !== undefined && document.tree !== null) persisted.add(request.scope.appId, hash, query);
    return weightOfRequest(prepared);
  }

  return {
    weigh(request) {
      const { query } = request.graphqlParameters as Parameters;
      const document = documents.find(query);
      return document === null ? weightOfReading(query) : prepare(request, document);
    },

    read(request) {
      if (request.graphql !== null) return undefined;
      const { query } = request.graphqlParameters as Parameters;
      // Another request may have read it while this one waited.
      request.addWeight(prepare(request, documents.findOrRead(query, request.scope.appId)));
      return isSliceOver() ? nextSlice(request.scope.appId) : undefined;
    },
  };
}

/** The document of a request. At most one of `query` and `documentId` is there. */
export interface GivenDocument {
  readonly query: string | undefined;
  /** The id of a document of DOCUMENTS_DIR. */
  readonly documentId: string | undefined;
  /** The hash of an automatic persisted query: with `query` to store it, alone to ask for it. */
  readonly hash: string | undefined;
}

const HASH = /^[0-9a-f]{64}$/;
const PREFIX = /^sha256:/;

/** Reads how a request gives its document. Throws BAD_USER_INPUT. */
export function readGivenDocument({ query, documentId, extensions }: Record<string, unknown>): GivenDocument {
  const hash = readPersistedQuery((extensions as Record<string, unknown> | null | undefined)?.['persistedQuery']);
  if (documentId != null) {
    if (query != null || hash !== undefined)
      throw new AppError('BAD_USER_INPUT', 'query, documentId: got both, expected one of them.');
    return { query: undefined, documentId: readDocumentId(documentId), hash: undefined };
  }
  if (typeof query === 'string' || (query == null && hash !== undefined))
    return { query: query ?? undefined, documentId: undefined, hash };
  throw new AppError(
    'BAD_USER_INPUT',
    'query: expected one GraphQL document, or documentId with the id of a document of the service, in a JSON object or in the URL.',
  );
}

function readDocumentId(value: unknown): string {
  const id = typeof value === 'string' && !isTooLong('documentId', value) ? value.replace(PREFIX, '') : '';
  if (HASH.test(id)) return id;
  throw badInput('documentId', value, '64 hexadecimal digits, with or without "sha256:" before them');
}

/** The hash in `extensions.persistedQuery`, as Apollo's clients send it; undefined without it. */
function readPersistedQuery(value: unknown): string | undefined {
  if (value == null) return undefined;
  const { version, sha256Hash: hash } = value as Record<string, unknown>;
  if (version !== 1) throw badInput('extensions.persistedQuery.version', version, '1');
  if (typeof hash === 'string' && !isTooLong('documentId', hash) && HASH.test(hash)) return hash;
  throw badInput('extensions.persistedQuery.sha256Hash', hash, '64 hexadecimal digits');
}

/** The memory for texts of automatic persisted queries of a project, and for how many projects there is that. */
const PERSISTED_BYTES_OF_PROJECT = 256 * 1_024;
const PERSISTED_PROJECTS = 200;

/** Automatic persisted queries by their hash, with memory for each project, so that none pushes out another's. A client whose query is gone sends it again. */
export interface PersistedQueries {
  /** The text; undefined if it is not kept. */
  find(appId: string, hash: string): string | undefined;
  /** Keeps a query whose hash is right and which is valid. */
  add(appId: string, hash: string, text: string): void;
}

export function createPersistedQueries(): PersistedQueries {
  const projects = new LRUCache<string, LRUCache<string, string>>({ max: PERSISTED_PROJECTS });
  return {
    find: (appId, hash) => projects.get(appId)?.get(hash),

    add(appId, hash, text) {
      let ofProject = projects.get(appId);
      if (ofProject === undefined) {
        const maxSize = PERSISTED_BYTES_OF_PROJECT;
        ofProject = new LRUCache({ maxSize, sizeCalculation: ({ length }) => 2 * length + 2 * hash.length });
        projects.set(appId, ofProject);
      }
      if (!ofProject.has(hash)) ofProject.set(hash, text);
    },
  };
}

/** The documents that all projects may name, by id. */
export type DocumentSet = ReadonlyMap<string, string>;

const documentIdOf = (text: string) => createHash('sha256').update(text).digest('hex');

/** Finds the text of a project's document. DOCUMENT_NOT_FOUND; PERSISTED_QUERY_NOT_FOUND; BAD_USER_INPUT for a query with another hash. */
export type FindText = (appId: string, given: GivenDocument) => string;

export function createTextFinder(shared: DocumentSet, persisted: PersistedQueries): FindText {
  return (appId, { query, documentId, hash }) => {
    if (documentId !== undefined) return shared.get(documentId) ?? refuseUnknown();
    if (query === undefined) {
      const asked = hash as string;
      return persisted.find(appId, asked) ?? shared.get(asked) ?? askForQuery();
    }
    // A longer query is refused by its length.
    if (hash !== undefined && query.length <= LIMITS.characters && documentIdOf(query) !== hash)
      throw badInput('extensions.persistedQuery.sha256Hash', hash, 'the SHA-256 of the query, in hexadecimal');
    return query;
  };
}

function refuseUnknown(): never {
  throw new AppError('DOCUMENT_NOT_FOUND', 'The service has no document with this id.');
}

function askForQuery(): never {
  // Clients go by this text.
  throw new AppError('PERSISTED_QUERY_NOT_FOUND', 'PersistedQueryNotFound');
}

/** Documents of the service count towards no project's memory. */
const OF_NO_PROJECT = '';

/** Reads and compiles documents before they are asked for, one in a turn of the event loop, as far as there is memory. */
export async function warmDocuments(cache: DocumentCache, documents: DocumentSet): Promise<void> {
  for (const text of documents.values()) {
    if (!cache.warm(text, OF_NO_PROJECT)) return;
    await nextTurn();
  }
}

/** The faults of a document of DOCUMENTS_DIR: a sentence for each, with its line. */
export function findFaults(text: string): string[] {
  const { errors, operations } = engine.readDocument(text);
  const invalid = toGraphQLErrors(errors, { report: () => undefined }).map(({ message, locations }) => {
    const line = locations?.[0]?.line;
    return line === undefined ? message : `line ${line}: ${message}`;
  });
  // Without variables, lists have their default lengths.
  const dear = operations().flatMap(({ node, cost, costLimit }) => {
    const name = node.name === undefined ? '' : `${node.name.value}: `;
    if (cost({}) <= costLimit) return [];
    return [`${name}${limitExceeded('cost', cost({}), { ...LIMITS, cost: costLimit })}`];
  });
  return [...invalid, ...dear];
}

/** The most documents of the directory, and the bytes of their texts together. */
const MAX_DOCUMENTS = { count: 1_000, bytes: 2 ** 20 };

/** The documents in the `.graphql` files of a directory, for all projects. Throws an error that names each file and line that is wrong. */
export async function readDocumentsDir(dir: string): Promise<DocumentSet> {
  const files = await readdir(dir).catch((cause) => {
    throw new Error(`DOCUMENTS_DIR ${dir} cannot be read.`, { cause });
  });
  const names = files.filter((name) => name.endsWith('.graphql')).sort();
  const documents = new Map<string, string>();
  const faults: string[] = [];
  let bytes = 0;
  for (const name of names) {
    const text = await readFile(join(dir, name), 'utf8');
    bytes += Buffer.byteLength(text);
    faults.push(...findFaults(text).map((fault) => `${name}: ${fault}`));
    documents.set(documentIdOf(text), text);
  }
  const { count: most, bytes: mostBytes } = MAX_DOCUMENTS;
  if (names.length > most || bytes > mostBytes)
    faults.push(`got ${names.length} files of ${bytes} bytes, expected at most ${most} files of ${mostBytes} bytes.`);
  if (faults.length > 0) throw new Error(`DOCUMENTS_DIR ${dir} cannot be used.\n${faults.join('\n')}`);
  return documents;
}
