import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import { GraphQLError } from 'graphql';
import type { RunWithAdmission } from '../http/admit-requests.js';
import { reportFailure } from '../http/failures.js';
import type { LoggedOperation } from '../http/request-log.js';
import type { jsonBodyParser } from '../http/body.js';
import type { Services } from '../services/services.js';
import type { GraphQLContext } from './builder.js';
import { type DocumentCache, type ReadDocument, readDocument } from './documents.js';
import { type Parameters, type PreparedRequest, prepareRequest } from './execution.js';
import { excess, LIMITS } from './limits.js';

/** A unit of work (src/admission.ts) in what an operation costs: about that of one user. */
const COST_OF_A_UNIT = 50;
/** The same in characters of a document that has to be parsed and validated, and in bytes of a body of JSON. */
const CHARACTERS_OF_A_UNIT = 500;
const BYTES_OF_A_UNIT = 16_384;

/**
 * Reads a request and says how many units of work it takes, before it is its turn. A document that is not known is read in a
 * turn of its own: to parse and to validate it may take longer than to execute it.
 */
export function createWeigh(documents: DocumentCache, runWithAdmission: RunWithAdmission) {
  const read = (project: string, text: string) =>
    runWithAdmission(
      project,
      async () => {
        // Another request may have read it since this one began to wait.
        const known = documents.find(text);
        if (known !== null) return known;
        const document = readDocument(text);
        documents.add(document, project);
        // What waits for its turn in the same project does not follow at once: others come between.
        await nextTurn();
        return document;
      },
      unitsOfReading(text),
    );

  return (request: FastifyRequest, parameters: Parameters): number | Promise<number> => {
    const weighed = (document: ReadDocument) => {
      const prepared = prepareRequest(document, parameters);
      request.graphql = prepared;
      request.operation = operationOf(prepared);
      return prepared.refusal === null ? unitsOf(prepared.cost) : 1;
    };
    const known = documents.find(parameters.query);
    return known === null ? read(request.scope.appId, parameters.query).then(weighed) : weighed(known);
  };
}

/** The units of work of a document that is read for the first time. */
export function unitsOfReading(text: string): number {
  return 1 + Math.floor(Math.min(text.length, LIMITS.characters) / CHARACTERS_OF_A_UNIT);
}

/** The units of work of an operation. */
export function unitsOf(cost: number): number {
  return 1 + Math.floor(cost / COST_OF_A_UNIT);
}

/** As the log, the metrics and the caller who asks for the cost are told of it. */
function operationOf({ operation, cost }: PreparedRequest): LoggedOperation | null {
  return operation && { type: operation.node.operation, name: operation.loggedName, cost };
}

/** Smaller operations begin all their fields at once, so that their reads share statements. */
const LARGE_COST = 2_000;
const ASK_FOR_LESS =
  'The users that match, or their accounts, are more than one answer can have: ask for fewer at once.';

/** What the resolvers get of a request. */
export function contextOf(request: FastifyRequest, services: Services): GraphQLContext {
  let charged = request.graphql?.cost ?? 0;
  return {
    scope: request.scope,
    services,
    requestId: request.id,
    isLarge: charged >= LARGE_COST,
    charge(cost) {
      charged += cost;
      request.addWeight(Math.floor(cost / COST_OF_A_UNIT));
      // What a mutation has done is answered in any case.
      const prepared = request.graphql as PreparedRequest;
      if (charged <= LIMITS.cost || prepared.operation?.node.operation === 'mutation') return true;
      prepared.refusal ??= [new GraphQLError(`${excess('cost', 'more')} ${ASK_FOR_LESS}`)];
      return false;
    },
    report: (failure) => reportFailure(failure, request, 'A resolver failed.'),
  };
}

/** The units of work of a body that is parsed in a turn of its own. */
export function unitsOfBody(bytes: number): number {
  return bytes < BYTES_OF_A_UNIT ? 0 : Math.ceil(bytes / BYTES_OF_A_UNIT);
}

type BodyParser = ReturnType<typeof jsonBodyParser>;

/** Parses a large body in a turn of its project, so that many of them do not keep others waiting. */
export function parseWithAdmission(parse: BodyParser, runWithAdmission: RunWithAdmission): BodyParser {
  return (request, body, done) => {
    if (body.length < BYTES_OF_A_UNIT) return parse(request, body, done);
    const parsed = async () => {
      parse(request, body, done);
      await nextTurn();
    };
    runWithAdmission(request.scope.appId, parsed, unitsOfBody(body.length)).catch(done);
  };
}
