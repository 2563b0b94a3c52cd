import type { GraphQLContext } from './builder.js';
import type { DocumentCache } from './documents.js';
import { executeRequest, type PreparedRequest, tooLarge } from './execution.js';

/**
 * Answers the common request, a JSON POST of a valid operation whose answer has data. It skips the Fetch API request and
 * response of Yoga's HTTP layer, which cost several times as much as the rest. Yoga answers every other request and every
 * refusal. The body is the same either way.
 *
 * Returns the body of the answer, or null where Yoga has to answer.
 */
export async function answerFast(
  prepared: PreparedRequest,
  context: GraphQLContext,
  documents: DocumentCache,
): Promise<string | null> {
  const { operation, document } = prepared;
  if (operation === null || prepared.refusal !== null || !prepared.isPlain) return null;
  let asker = context;
  if (operation.run !== null) {
    const { first, again } = chargingOnce(context);
    const answer = await operation.run(prepared.coerced, first);
    if (answer === 'too large') prepared.refusal ??= [tooLarge()];
    if (prepared.refusal !== null) return null;
    if (answer !== 'bailout') return (answer as { body: string }).body;
    asker = again();
  }
  const result = await executeRequest(prepared, asker);
  if (result.data === undefined) return null;
  if (result.errors === undefined && operation.countExecution()) documents.updateSize(document);
  return JSON.stringify(result);
}

/** The contexts of two executions of one request. What the first has charged for rows, the other charges only beyond that. */
function chargingOnce(context: GraphQLContext): { first: GraphQLContext; again: () => GraphQLContext } {
  let paid = 0;
  const first = (cost: number) => {
    paid += cost;
    return context.charge(cost);
  };
  const rest = (cost: number) => {
    const due = Math.max(0, cost - paid);
    paid -= cost - due;
    return due === 0 || context.charge(due);
  };
  return { first: { ...context, charge: first }, again: () => ({ ...context, charge: rest }) };
}

/** Whether a request has only the parameters that are read here. */
export function isPlainPost(method: string, body: object): boolean {
  if (method !== 'POST') return false;
  for (const name in body) {
    if (!PLAIN_PARAMETERS.has(name) && !(name === 'extensions' && isPersistedQuery(body))) return false;
  }
  return true;
}

const PLAIN_PARAMETERS = new Set(['query', 'documentId', 'variables', 'operationName']);

/** Whether the only extension of a request is the hash of its query. */
function isPersistedQuery(body: object): boolean {
  const names = Object.keys((body as { extensions?: object | null }).extensions ?? {});
  return names.length === 1 && names[0] === 'persistedQuery';
}
