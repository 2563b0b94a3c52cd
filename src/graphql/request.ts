import type { FastifyRequest } from 'fastify';
import type { Elsewhere } from '../http/elsewhere.js';
import { isSliceOver, nextSlice } from '../http/event-loop.js';
import { operationOf } from './context.js';
import type { DocumentCache, ReadDocument } from './documents.js';
import type { AnsweredElsewhere, AskedElsewhere } from './elsewhere.js';
import { type Parameters, prepareRequest } from './execution.js';
import type { PersistedQueries } from './registered-documents.js';
import { weightOfReading, weightOfRequest } from './weight.js';

/** This thread reads and executes what weighs no more. */
const LIGHT_UNITS = 8;
/** It reads a new document of this weight, because handing it over would take as long. */
const TINY_UNITS = 1;
/** Bytes of variables that it reads. */
const LIGHT_VARIABLES = 4_096;

/**
 * Reads the documents of requests and weighs them. A document that is not in the cache is read when admission starts its
 * request, because that may take longer than executing it. The request then goes on without waiting again: a request that waits
 * with a syntax tree takes much memory.
 *
 * While the second thread is ready, it gets every request that is not known to be light. It is started when a project sends such a
 * request beside others.
 */
export function createRequestReader(
  documents: DocumentCache,
  persisted: PersistedQueries,
  elsewhere: Elsewhere<AskedElsewhere, AnsweredElsewhere>,
) {
  function prepare(request: FastifyRequest, document: ReadDocument): number {
    const parameters = request.graphqlParameters as Parameters;
    const prepared = prepareRequest(document, parameters);
    request.graphql = prepared;
    request.operation = operationOf(prepared);
    if (document.tree !== null) keepQuery(request);
    return weightOfRequest(prepared);
  }

  /** Keeps an automatic persisted query, once it is known to be valid. */
  function keepQuery({ graphqlParameters, scope }: FastifyRequest): void {
    const { hash, query } = graphqlParameters as Parameters;
    if (hash !== undefined) persisted.add(scope.appId, hash, query);
  }

  function handOver(request: FastifyRequest): boolean {
    request.isForElsewhere = elsewhere.takes(request);
    return request.isForElsewhere;
  }

  /** Whether a document that is not in the cache may be read here, although the second thread is ready. */
  function mayReadHere(query: string, appId: string): boolean {
    const weight = weightOfReading(query);
    return weight <= TINY_UNITS || (weight <= LIGHT_UNITS && documents.wasSeen(query, appId));
  }

  return {
    keepQuery,

    /** The weight of executing a request or, if its document is not in the cache, of reading it. */
    weigh(request: FastifyRequest): number {
      const { query } = request.graphqlParameters as Parameters;
      const hasMuch = request.json !== null && request.json.length - query.length > LIGHT_VARIABLES;
      if (hasMuch && handOver(request)) return weightOfReading(query);
      const known = documents.find(query);
      if (known === null) {
        if (!mayReadHere(query, request.scope.appId)) handOver(request);
        return weightOfReading(query);
      }
      const weight = prepare(request, known);
      if (weight > LIGHT_UNITS) handOver(request);
      return weight;
    },

    /** Reads a document that was not in the cache, and adds the weight of executing it. */
    read(request: FastifyRequest): Promise<void> | undefined {
      if (request.graphql !== null || request.isForElsewhere) return undefined;
      const { query } = request.graphqlParameters as Parameters;
      // Another request may have read it while this one waited.
      const weight = prepare(request, documents.findOrRead(query, request.scope.appId));
      request.addWeight(weight);
      if (weight > LIGHT_UNITS) handOver(request);
      return isSliceOver() ? nextSlice(request.scope.appId) : undefined;
    },

    /** Remembers that a document of this weight may be read here the next time. */
    noteLight(query: string, appId: string, weight: number): void {
      if (weight <= LIGHT_UNITS && weightOfReading(query) <= LIGHT_UNITS) documents.see(query, appId);
    },
  };
}
