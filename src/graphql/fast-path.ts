import type { FastifyRequest } from 'fastify';
import { type DocumentNode, type ExecutionResult, getOperationAST, type OperationDefinitionNode } from 'graphql';
import type { YogaServerInstance } from 'graphql-yoga';
import { reportFailure } from '../http.js';
import { redact } from '../redact.js';
import type { Services } from '../services/services.js';
import type { GraphQLContext } from './builder.js';
import { createCompiledQueries, type Operation } from './compiled.js';
import { LIMITS } from './limits.js';
import { schema } from './schema.js';

/** What Yoga's context is made from. */
export interface ServerContext {
  readonly fastify: FastifyRequest;
}

type Yoga = YogaServerInstance<ServerContext, GraphQLContext>;

export interface FastAnswer {
  readonly contentType: string;
  readonly body: string;
}

/** Accept headers whose media type is remembered; clients have few, and more can only be somebody's play. */
const MAX_ACCEPT_HEADERS = 100;

/**
 * The short way for the common request: a JSON POST of a valid operation. A query that came often before runs as it was
 * compiled; any other operation runs through Yoga's own parse, validate and execute, with their caches and plugins, but without
 * the Fetch API request and response around them, which cost several times as much. Everything else is left to Yoga's HTTP
 * layer, and so is every request that fails before it is executed: the same body comes out either way, because a request
 * that is answered here has nothing but data to be written.
 */
export function createFastPath(yoga: Yoga, services: Services) {
  const compiledQueries = createCompiledQueries(schema);
  /** Which media type Yoga chooses for an Accept header, learned from its own answers. */
  const mediaTypes = new Map<string, string>();

  async function execute(operation: Operation, context: ServerContext): Promise<ExecutionResult | null> {
    const enveloped = yoga.getEnveloped(context);
    const document = attempt(() => enveloped.parse(operation.query) as DocumentNode);
    if (document === null || enveloped.validate(schema, document).length > 0) return null;
    if (!getOperationAST(document, operation.operationName)) return null;
    const result = (await enveloped.execute({
      schema,
      document,
      contextValue: await enveloped.contextFactory(),
      variableValues: operation.variables,
      operationName: operation.operationName,
    })) as ExecutionResult;
    if (result.errors === undefined) compiledQueries.learn(operation, document);
    // No data, not even null: the variables did not fit, so nothing was executed.
    return 'data' in result ? result : null;
  }

  return {
    /** The answer, or null where the request is one for Yoga; nothing of it has been executed then. */
    async answer(context: ServerContext): Promise<FastAnswer | null> {
      const { fastify: request } = context;
      const contentType = mediaTypes.get(request.headers.accept ?? '');
      const operation = operationOf(request);
      if (contentType === undefined || operation === null) return null;
      const written = await compiledQueries.execute(operation, contextOf(request, services));
      if (written !== null) return { contentType, body: written };
      const result = await execute(operation, context);
      return result && { contentType, body: JSON.stringify(result) };
    },

    /** Remembers how Yoga has answered. */
    learn(request: FastifyRequest, response: Response): void {
      const contentType = response.headers.get('content-type');
      const isResult = request.method === 'POST' && response.status === 200 && contentType?.includes('json');
      if (isResult && contentType && mediaTypes.size < MAX_ACCEPT_HEADERS) {
        mediaTypes.set(request.headers.accept ?? '', contentType);
      }
    },
  };
}

/** A unit of work (src/admission.ts) in what an operation costs: about that of one user. */
const COST_OF_A_UNIT = 50;

export function contextOf(request: FastifyRequest, services: Services): GraphQLContext {
  return {
    scope: request.scope,
    services,
    requestId: request.id,
    begin(operation, cost) {
      request.operation = { type: operation.operation, name: nameOf(operation), cost };
      if (cost <= LIMITS.cost) request.charge(Math.floor(cost / COST_OF_A_UNIT));
    },
    report: (failure) => reportFailure(failure, request, 'A resolver failed.'),
  };
}

/** Longer ones could hide the hash of a secret. */
const LONGEST_NAME = 60;
const names = new WeakMap<OperationDefinitionNode, string | null>();

/** The name of an operation, which is logged; null where it has none, or one that could be a secret or an address. */
function nameOf(operation: OperationDefinitionNode): string | null {
  let name = names.get(operation);
  if (name === undefined) {
    const given = operation.name?.value ?? '';
    name = given !== '' && given.length <= LONGEST_NAME && redact(given) === given ? given : null;
    names.set(operation, name);
  }
  return name;
}

/** The parameters of a request that has nothing unusual in it. */
function operationOf({ method, body }: FastifyRequest): Operation | null {
  if (method !== 'POST' || typeof body !== 'object' || body === null || Array.isArray(body)) return null;
  const { query, variables, operationName, ...others } = body as Record<string, unknown>;
  const isUsual =
    typeof query === 'string' &&
    (variables == null || (typeof variables === 'object' && !Array.isArray(variables))) &&
    (operationName == null || typeof operationName === 'string') &&
    Object.keys(others).length === 0;
  if (!isUsual) return null;
  return {
    query,
    variables: (variables ?? undefined) as Record<string, unknown> | undefined,
    operationName: (operationName ?? undefined) as string | undefined,
  };
}

function attempt<Value>(make: () => Value): Value | null {
  try {
    return make();
  } catch {
    return null;
  }
}
