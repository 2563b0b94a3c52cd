import { createSourceEventStream, type ExecutionResult, execute } from 'graphql';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppError } from '../errors.js';
import { HEARTBEAT, type OpenStream } from '../http/streams.js';
import type { GraphQLContext } from './builder.js';
import { toGraphQLError, toGraphQLErrors } from './errors.js';
import type { PreparedRequest } from './execution.js';
import { schema } from './schema.js';

/*
 * Subscriptions over Server-Sent Events, in the form of graphql-sse's distinct connections mode: an event `next` for each result and
 * `complete` at the end. Yoga would execute them with its own executor, and writes each stream with a timer and a Fetch API response of
 * its own, which take several times the memory.
 */

const RETRY_MS = 500;

/** The events of a subscription that is not refused, as text, until its stream ends. */
export async function* subscriptionEvents(
  prepared: PreparedRequest,
  context: GraphQLContext,
  stream: OpenStream,
): AsyncGenerator<string, void> {
  const { document, operationName, variables = {} } = prepared;
  const parameters = {
    schema,
    document: document.tree as NonNullable<typeof document.tree>,
    contextValue: context,
    variableValues: variables,
    ...(operationName !== undefined && { operationName }),
  };
  try {
    const events = await createSourceEventStream(parameters);
    if (!(Symbol.asyncIterator in events)) yield next(events, context);
    else {
      // From here on no change is missed, also without a cursor.
      yield HEARTBEAT;
      for await (const rootValue of events) {
        yield next(await admitted(stream, async () => execute({ ...parameters, rootValue })), context);
      }
    }
    if (stream.signal.aborted) throw stream.signal.reason;
  } catch (error) {
    // The client has gone.
    if (stream.isGone()) return;
    yield next({ errors: [toGraphQLError(error, context.report)] }, context);
  }
  yield 'event: complete\ndata:\n\n';
}

/** Executes when admission lets it, and waits where its queue is full: a stream must not lose a change. */
async function admitted<Result>({ admit, signal }: OpenStream, work: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await admit(work);
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'UNAVAILABLE') || signal.aborted) throw error;
      await sleep(RETRY_MS, undefined, { ref: false, signal }).catch(() => undefined);
    }
  }
}

function next(result: ExecutionResult, { report }: GraphQLContext): string {
  const shown = result.errors ? { ...result, errors: toGraphQLErrors(result.errors, report) } : result;
  return `event: next\ndata: ${JSON.stringify(shown)}\n\n`;
}
