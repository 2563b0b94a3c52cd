import { setTimeout as sleep } from 'node:timers/promises';
import { createSourceEventStream, type ExecutionArgs, type ExecutionResult, execute, GraphQLError } from 'graphql';
import type { Services } from '../context.js';
import { LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import type { DocumentCache } from '../engine/document-cache.js';
import { codeOf, type ErrorTerms, toGraphQLError, toGraphQLErrors } from '../engine/errors.js';
import {
  isTooLarge,
  type PreparedRequest,
  prepareRequest,
  weightOfCost,
  weightOfReading,
} from '../engine/execution.js';
import { AppError } from '../errors.js';
import { HEARTBEAT, type OpenStream } from '../http/lifetime.js';
import type { Follower, GraphQLContext, Requester } from './builder.js';
import type { ChangeEvent } from './changes.js';
import { contextOf } from './context.js';
import { schema } from './schema.js';

/*
 * Subscriptions over Server-Sent Events, in graphql-sse's distinct connections mode: an event `next` for each result and `complete` at the end.
 * Yoga would execute them with its own executor, and each stream would take several times the memory.
 */

const RETRY_MS = 500;

type Subscription = ReturnType<typeof keepSubscription>;

/** The part of a request that a stream keeps, perhaps for days: the text of the document, its variables, and the cost of an event. The syntax tree is the cache's. */
export function keepSubscription({ query, operationName, variables = {}, operation, cost }: PreparedRequest) {
  const names = operation?.node.variableDefinitions?.map(({ variable }) => variable.name.value) ?? [];
  const declared = names.flatMap((name) => (name in variables ? [[name, variables[name]]] : []));
  return { parameters: { query, operationName, variables: Object.fromEntries(declared) }, cost };
}

interface SubscriptionOptions {
  readonly requester: Requester;
  readonly documents: DocumentCache;
  readonly services: Services;
  readonly stream: OpenStream;
}

/** The events of a subscription that is not refused, as text, until its stream ends. */
export async function* subscriptionEvents(
  subscription: Subscription,
  options: SubscriptionOptions,
): AsyncGenerator<string, void> {
  const { stream, requester, services } = options;
  const terms = { report: requester.report, docsOf: services.docsOf };
  try {
    const changes = await open(subscription, options);
    if (!(Symbol.asyncIterator in changes)) yield next(changes, terms);
    else for await (const event of changes) yield await eventOf(event as ChangeEvent, subscription, options);
    if (stream.signal.aborted) throw stream.signal.reason;
  } catch (error) {
    // The client has gone.
    if (stream.isGone()) return;
    yield next({ errors: [toGraphQLError(error, terms)] }, terms);
  }
  yield 'event: complete\ndata:\n\n';
}

/** The changes that a subscription follows, or why there are none. */
function open(subscription: Subscription, options: SubscriptionOptions) {
  const { requester, services, documents, stream } = options;
  const prepared = prepare(subscription, documents, requester);
  const follower: Follower = {
    signal: stream.signal,
    admit: stream.admit,
    tellLater: (cursor) =>
      stream.atHeartbeat(() => eventOf({ cursor, change: null }, subscription, options).catch(() => HEARTBEAT)),
  };
  return createSourceEventStream(argumentsOf(prepared, contextOf(requester, prepared, services, { follower })));
}

/** Reads the document again where the cache has evicted it. The requester is charged for that. */
function prepare(
  { parameters }: Subscription,
  documents: DocumentCache,
  { scope, addWeight }: Requester,
): PreparedRequest {
  const { query } = parameters;
  if (documents.find(query) === null) addWeight(weightOfReading(query));
  return prepareRequest(documents.findOrRead(query, scope.appId), parameters);
}

/** Executes the operation for an event when admission lets it, and waits where its queue is full: a stream must not lose a change. */
async function eventOf(
  event: ChangeEvent,
  subscription: Subscription,
  { requester, documents, services, stream }: SubscriptionOptions,
): Promise<string> {
  for (;;) {
    try {
      return await stream.admit(async (scope, addWeight) => {
        const now = { ...requester, scope, addWeight };
        const prepared = prepare(subscription, documents, now);
        const context = contextOf(now, prepared, services);
        return next(await executeFor(event, prepared, context), context);
      }, weightOfCost(subscription.cost));
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'UNAVAILABLE') || stream.signal.aborted) throw error;
      await sleep(RETRY_MS, undefined, { ref: false, signal: stream.signal }).catch(() => undefined);
    }
  }
}

/** A result that cannot be sent has no user, and an error with the cursor: its client goes on after it. */
async function executeFor(
  event: ChangeEvent,
  prepared: PreparedRequest,
  context: GraphQLContext,
): Promise<ExecutionResult> {
  const result = await execute({ ...argumentsOf(prepared, context), rootValue: event });
  if (event.change === null || (prepared.refusal === null && !isTooLarge(result))) return result;
  const message = `event: got more, expected at most ${LARGEST_ANSWER_BYTES} bytes. Ask for fewer fields of the user.`;
  const user = new GraphQLError(message, {
    extensions: { ...codeOf('BAD_USER_INPUT', context), cursor: event.cursor },
  });
  return execute({ ...argumentsOf(prepared, context), rootValue: { ...event, change: { ...event.change, user } } });
}

function argumentsOf({ document, operationName, variables = {} }: PreparedRequest, context: GraphQLContext) {
  return {
    schema,
    document: document.tree as NonNullable<typeof document.tree>,
    contextValue: context,
    variableValues: variables,
    ...(operationName !== undefined && { operationName }),
  } satisfies ExecutionArgs;
}

function next(result: ExecutionResult, terms: ErrorTerms): string {
  const shown = result.errors ? { ...result, errors: toGraphQLErrors(result.errors, terms) } : result;
  return `event: next\ndata: ${JSON.stringify(shown)}\n\n`;
}
