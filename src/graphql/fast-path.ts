import type { FastifyRequest } from 'fastify';
import type { GraphQLContext } from './builder.js';
import type { DocumentCache } from './documents.js';
import { executeRequest, type PreparedRequest, tooLarge } from './execution.js';

/**
 * The short way for the common request: a JSON POST of a valid operation, whose answer has data. It is executed without the
 * Fetch API request and response of Yoga's HTTP layer around it, which cost several times as much. Every other request is left
 * to Yoga, and so is every refusal; the same body comes out either way.
 *
 * Returns the body of the answer, or null where Yoga is to answer.
 */
export async function answerFast(
  request: FastifyRequest,
  prepared: PreparedRequest,
  context: GraphQLContext,
  documents: DocumentCache,
): Promise<string | null> {
  const { operation, document } = prepared;
  if (operation === null || prepared.refusal !== null || !isUsual(request)) return null;
  if (operation.run !== null) {
    const answer = await operation.run(prepared.coerced, context);
    if (answer === 'too large') prepared.refusal ??= [tooLarge()];
    if (prepared.refusal !== null) return null;
    if (answer !== 'unusual') return (answer as { body: string }).body;
  }
  const result = await executeRequest(prepared, context);
  if (result.data === undefined) return null;
  if (result.errors === undefined && operation.learn()) documents.weighAgain(document);
  return JSON.stringify(result);
}

/** Whether a request has nothing but what is read here; Yoga knows what else there may be. */
function isUsual({ method, body }: FastifyRequest): boolean {
  if (method !== 'POST') return false;
  for (const name in body as object) if (!USUAL.has(name)) return false;
  return true;
}

const USUAL = new Set(['query', 'variables', 'operationName']);
