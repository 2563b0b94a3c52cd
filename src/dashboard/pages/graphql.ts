import type { initGraphQLTada, TadaDocumentNode } from 'gql.tada';
import type { introspection } from './generated/introspection.js';
import { hasEnded, me } from './session.js';

type Tada = initGraphQLTada<{
  introspection: introspection;
  disableMasking: true;
  scalars: { DateTime: string; Date: string; ID: string };
}>;

/** An operation of the operator schema, with the types of its variables and its answer. At run time it is its text. */
export const graphql = ((source: string, fragments: readonly string[] = []) =>
  [source, ...fragments].join('\n')) as unknown as Tada;

export type { ResultOf, VariablesOf } from 'gql.tada';
export type Operation<Result, Variables> = TadaDocumentNode<Result, Variables>;

/** Why a request was refused or failed, in words for a reader. */
export class Failure extends Error {
  constructor(
    message: string,
    /** As in `extensions.code`; UNREACHABLE where there was no answer. */
    readonly code: string,
    /** The argument at fault, if one is. */
    readonly argument: string | null = null,
  ) {
    super(message);
  }
}

export function asFailure(error: unknown): Failure {
  return error instanceof Failure ? error : new Failure(String(error), 'INTERNAL_SERVER_ERROR');
}

interface Answer<Result> {
  readonly data?: Result | null;
  readonly errors?: readonly { message: string; extensions?: { code?: string; argument?: string } }[];
}

/** Sends an operation. Throws a Failure. Where the session has ended, the page shows the sign-in from then on. */
export async function send<Result, Variables>(
  operation: Operation<Result, Variables>,
  variables: Variables,
  signal?: AbortSignal,
): Promise<Result> {
  const response = await post('/dashboard/graphql', { query: operation, variables }, signal);
  const { data, errors } = (await response.json().catch(() => ({}))) as Answer<Result>;
  const error = errors?.[0];
  if (response.status === 401 || error?.extensions?.code === 'UNAUTHENTICATED') {
    if (me.value) hasEnded.value = true;
    me.value = null;
    throw new Failure('Your session has ended. Sign in again.', 'UNAUTHENTICATED');
  }
  if (error) throw new Failure(error.message, error.extensions?.code ?? '', error.extensions?.argument ?? null);
  if (!data) throw new Failure(`The service answered with status ${response.status}.`, 'INTERNAL_SERVER_ERROR');
  return data;
}

/** Sends JSON to this service. Throws a Failure if there is no answer. */
export async function post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) };
  try {
    return await fetch(path, signal ? { ...init, signal } : init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Failure('The service does not answer. Check that it runs, and that you are online.', 'UNREACHABLE');
  }
}
