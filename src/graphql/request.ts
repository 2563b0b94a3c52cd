import type { FastifyRequest } from 'fastify';
import { GraphQLError } from 'graphql';
import { isSliceOver, nextSlice } from '../http/event-loop.js';
import { reportFailure } from '../http/failures.js';
import type { LoggedOperation } from '../http/request-log.js';
import type { Services } from '../services/services.js';
import type { GraphQLContext } from './builder.js';
import { type DocumentCache, type ReadDocument, readDocument } from './documents.js';
import { type Parameters, type PreparedRequest, prepareRequest } from './execution.js';
import { limitExceeded, LIMITS } from './limits.js';
import type { PersistedQueries } from './registered-documents.js';

/** The GraphQL cost of one unit of admission (http/admission.ts), which is about the work of one user. */
const COST_PER_UNIT = 50;
/** One unit in characters of a document to parse and validate. */
const CHARACTERS_PER_UNIT = 500;

/**
 * Reads the documents of requests and weighs them. A document that is not in the cache is read when admission starts its
 * request, because that may take longer than executing it. The request then goes on without waiting again: a request that waits
 * with a syntax tree takes much memory.
 */
export function createRequestReader(documents: DocumentCache, persisted: PersistedQueries) {
  function prepare(request: FastifyRequest, document: ReadDocument): number {
    const parameters = request.graphqlParameters as Parameters;
    const prepared = prepareRequest(document, parameters);
    const { hash, query } = parameters;
    if (hash !== undefined && document.tree !== null) persisted.add(request.scope.appId, hash, query);
    request.graphql = prepared;
    request.operation = operationOf(prepared);
    return prepared.refusal === null ? weightOfCost(prepared.cost) : 1;
  }

  return {
    /** The weight of executing a request or, if its document is not in the cache, of reading it. */
    weigh(request: FastifyRequest): number {
      const { query } = request.graphqlParameters as Parameters;
      const known = documents.find(query);
      return known === null ? weightOfReading(query) : prepare(request, known);
    },

    /** Reads a document that was not in the cache, and adds the weight of executing it. */
    read(request: FastifyRequest): Promise<void> | undefined {
      if (request.graphql !== null) return undefined;
      const { query } = request.graphqlParameters as Parameters;
      // Another request may have read it while this one waited.
      let document = documents.find(query);
      if (document === null) {
        document = readDocument(query);
        documents.add(document, request.scope.appId);
      }
      request.addWeight(prepare(request, document));
      return isSliceOver() ? nextSlice(request.scope.appId) : undefined;
    },
  };
}

/** The weight of reading a document for the first time. */
export function weightOfReading(text: string): number {
  return 1 + Math.floor(Math.min(text.length, LIMITS.characters) / CHARACTERS_PER_UNIT);
}

/** The weight of an operation of this cost. */
export function weightOfCost(cost: number): number {
  return 1 + Math.floor(cost / COST_PER_UNIT);
}

/** The operation as the log, the metrics and the cost report name it. */
function operationOf({ operation, cost }: PreparedRequest): LoggedOperation | null {
  return operation && { type: operation.node.operation, name: operation.loggedName, cost };
}

/** A smaller operation starts all its root fields at once, so that their reads share statements. */
const LARGE_COST = 2_000;
const ASK_FOR_LESS =
  'The users that match, or their accounts, are more than one answer can have: ask for fewer at once.';

/** The context of the resolvers of a request. */
export function contextOf(
  request: FastifyRequest,
  services: Services,
  follower: GraphQLContext['follower'] = null,
): GraphQLContext {
  let charged = request.graphql?.cost ?? 0;
  return {
    scope: request.scope,
    services,
    requestId: request.id,
    follower,
    isLarge: charged >= LARGE_COST,
    charge(cost) {
      charged += cost;
      request.addWeight(Math.floor(cost / COST_PER_UNIT));
      // A change that is not sent would be skipped.
      if (charged <= LIMITS.cost || follower !== null) return true;
      // A mutation is always answered, because its work is done.
      const prepared = request.graphql as PreparedRequest;
      if (prepared.operation?.node.operation === 'mutation') return true;
      prepared.refusal ??= [new GraphQLError(`${limitExceeded('cost', 'more')} ${ASK_FOR_LESS}`)];
      return false;
    },
    report: (failure) => reportFailure(failure, request, 'A resolver failed.'),
  };
}
