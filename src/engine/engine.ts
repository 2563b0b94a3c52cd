import type { GraphQLSchema } from 'graphql';
import { type Answerer, createAnswerer } from './answer.js';
import { declaredCost, type LimitedSchema } from './cost.js';
import { createDocumentCache, type DocumentCache } from './document-cache.js';
import { type ReadDocument, readDocument } from './documents.js';
import type { ErrorTerms } from './errors.js';
import { executeRequest, prepareRequest } from './execution.js';
import { LIMITS } from './limits.js';
import { nameEnumValues } from './nodes.js';

/**
 * Runs the documents of a schema: reads and checks them within limits, works out their cost, compiles frequent ones, and answers over HTTP.
 * Fields declare their cost by `costs` in their extensions, and resolvers are given a context that extends EngineContext.
 */
export interface Engine {
  /** Parses a document, checks it against the limits and validates it. Never throws: `errors` has what is wrong. */
  readDocument(text: string): ReadDocument;
  /** An empty cache of documents of this schema. */
  createDocumentCache(): DocumentCache;
  readonly prepareRequest: typeof prepareRequest;
  readonly executeRequest: typeof executeRequest;
  /** `terms` are for errors that belong to no resolver. */
  createAnswerer(terms: ErrorTerms): Answerer;
}

export type EngineOptions = Partial<Omit<LimitedSchema, 'schema'>>;

export function createEngine(
  schema: GraphQLSchema,
  { shown = schema, limits = LIMITS, costOf = declaredCost }: EngineOptions = {},
): Engine {
  nameEnumValues(schema);
  const on: LimitedSchema = { schema, shown, limits, costOf };
  return {
    readDocument: (text) => readDocument(on, text),
    createDocumentCache: () => createDocumentCache(on),
    prepareRequest,
    executeRequest,
    createAnswerer: (terms) => createAnswerer(schema, terms),
  };
}
