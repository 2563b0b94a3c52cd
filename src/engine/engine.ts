import type { GraphQLSchema } from 'graphql';
import { createAnswerer } from './answer.js';
import { declaredCost, type LimitedSchema } from './cost.js';
import { createDocumentCache, readDocument } from './documents.js';
import type { ErrorTerms } from './errors.js';
import { executeRequest, prepareRequest } from './execution.js';
import { LIMITS } from './limits.js';
import { nameEnumValues } from './nodes.js';

export type Engine = ReturnType<typeof createEngine>;

/**
 * Runs the documents of a schema: reads and checks them within limits, works out their cost, compiles frequent ones, and answers over HTTP.
 * Fields declare their cost by `costs` in their extensions, and resolvers are given a context that extends EngineContext.
 */
export function createEngine(
  schema: GraphQLSchema,
  { shown = schema, limits = LIMITS, costOf = declaredCost }: Partial<Omit<LimitedSchema, 'schema'>> = {},
) {
  nameEnumValues(schema);
  const on: LimitedSchema = { schema, shown, limits, costOf };
  return {
    readDocument: (text: string) => readDocument(on, text),
    createDocumentCache: () => createDocumentCache(on),
    prepareRequest,
    executeRequest,
    createAnswerer: (terms: ErrorTerms) => createAnswerer(schema, terms),
  };
}
