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
  if (operation.run !== null) {
    const answer = await operation.run(prepared.coerced, context);
    if (answer === 'too large') prepared.refusal ??= [tooLarge()];
    if (prepared.refusal !== null) return null;
    if (answer !== 'bailout') return (answer as { body: string }).body;
    context = context.again();
  }
  const result = await executeRequest(prepared, context);
  if (result.data === undefined) return null;
  if (result.errors === undefined && operation.countExecution()) documents.updateSize(document);
  return JSON.stringify(result);
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
