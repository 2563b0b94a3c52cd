import { type GraphQLSchema, parse } from 'graphql';
import { createYoga, type Plugin } from 'graphql-yoga';
import { RETRY_SOON } from '../errors.js';
import { helpHeader } from '../http/failures.js';
import { JSON_TYPE } from '../http/media-types.js';
import type { LoggedOperation } from '../http/request-log.js';
import { isSliceOver, nextSlice } from '../http/turns.js';
import type { EngineContext } from './cost.js';
import type { DocumentCache } from './documents.js';
import { type ErrorTerms, toGraphQLError } from './errors.js';
import { errorsOf, executeRequest, type PreparedRequest, tooLarge } from './execution.js';

/** The answer to a GraphQL request over HTTP. */
export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: string;
  /** The code of its first error. */
  readonly failure: string | null;
}

/** A request as Yoga reads it, where Yoga has to answer. */
export interface HttpRequest {
  readonly method: string;
  /** The path with its parameters. */
  readonly url: string;
  /** The media type of the answer: one of the two that this service knows. */
  readonly accept: string;
  /** The JSON of a POST. */
  readonly body: Uint8Array | null;
}

/** The server's part of Yoga's context. */
interface ServerContext {
  readonly prepared: PreparedRequest;
  readonly context: EngineContext;
}

/** The answer to a refused common request, as Yoga makes it: the highest status, except those that are 200 as JSON. Null if not refused. */
function answerRefused(accept: string, prepared: PreparedRequest, terms: ErrorTerms): Answer | null {
  const refusals = prepared.refusal ?? prepared.document.errors;
  if (!prepared.isPlain || refusals.length === 0) return null;
  let status = 200;
  const errors = errorsOf(prepared, refusals, terms).map((error) => {
    const { http, ...extensions } = error.extensions as { http?: { spec?: boolean; status: number } };
    if (http !== undefined && !(http.spec && accept === JSON_TYPE)) status = Math.max(status, http.status);
    return { ...error.toJSON(), extensions };
  });
  const headers = { 'content-type': `${accept}; charset=utf-8` };
  return { status, headers, body: JSON.stringify({ errors }), failure: prepared.failure };
}

/** Answers prepared requests. `terms` are for errors that belong to no resolver. */
export function createAnswerer(schema: GraphQLSchema, documents: DocumentCache, terms: ErrorTerms) {
  const yoga = createYoga<ServerContext, EngineContext>({
    schema,
    context: ({ context }) => context,
    parserAndValidationCache: false,
    plugins: [usePreparedRequest(terms)],
    // executeRequest masks the errors of resolvers, because it knows the request.
    maskedErrors: { maskError: (error: unknown) => toGraphQLError(error, terms) },
    // Yoga would log each refused request as an error, with the refused value.
    logging: false,
    graphiql: false,
    landingPage: false,
    // No CORS: a secret does not belong in a page of another origin. Fastify limits the body. Uploads are not used.
    cors: false,
    maxRequestBodySize: false,
    multipart: false,
  });

  async function answerByYoga(request: HttpRequest, prepared: PreparedRequest, context: EngineContext) {
    const { method, url, accept, body } = request;
    const headers = { accept, ...(body !== null && { 'content-type': 'application/json' }) };
    const init = { method, headers, ...(body !== null && { body: Buffer.from(body) }) };
    const response = await yoga.fetch(`http://localhost${url}`, init, { prepared, context });
    return {
      status: response.status,
      headers: Object.fromEntries(response.headers.entries()),
      body: await response.text(),
      failure: prepared.failure,
    };
  }

  return {
    async answer(request: HttpRequest, prepared: PreparedRequest, context: EngineContext): Promise<Answer> {
      const body = await answerFast(prepared, context, documents);
      const answer: Answer =
        body === null
          ? (answerRefused(request.accept, prepared, context) ?? (await answerByYoga(request, prepared, context)))
          : {
              status: 200,
              headers: { 'content-type': `${request.accept}; charset=utf-8` },
              body,
              failure: prepared.failure,
            };
      if (prepared.isUnavailable)
        return refuse({ ...answer, status: 503, headers: { ...answer.headers, ...RETRY_SOON } });
      return answer.status < 400 ? answer : refuse(answer);
    },
    dispose: async () => yoga.dispose(),
  };
}

/** The answer of a request that failed as a whole, with the header that leads to the documentation of its error. */
function refuse({ status, headers, body }: Answer): Answer {
  const { docs, code } = JSON.parse(body).errors[0].extensions;
  return { status, headers: { ...headers, ...(docs !== undefined && helpHeader(docs)) }, body, failure: code };
}

/** Stands for a document that is not valid. Yoga answers the errors of its validation and does not read it. */
const NO_DOCUMENT = parse('{ __typename }');

/** Hands Yoga the prepared request, which GraphQL.js executes: Yoga's own executor does not keep the order of the query (section 7.2.2). */
function usePreparedRequest(terms: ErrorTerms): Plugin {
  const preparedOf = (context: unknown) => (context as ServerContext).prepared;
  const execute = (context: unknown) => executeRequest(preparedOf(context), context as EngineContext);
  return {
    onParams({ setParams, context }) {
      const { query, variables, operationName, document } = preparedOf(context);
      setParams({
        query,
        ...(variables && { variables }),
        // NO_DOCUMENT has no operation of that name.
        ...(document.tree !== null && operationName !== undefined && { operationName }),
      });
    },
    onParse({ context, setParsedDocument }) {
      setParsedDocument(preparedOf(context).document.tree ?? NO_DOCUMENT);
    },
    onValidate({ context, setResult }) {
      // Yoga does not mask validation errors.
      setResult(errorsOf(preparedOf(context), preparedOf(context).document.errors, terms));
    },
    onExecute: ({ args, setExecuteFn }) => setExecuteFn(() => execute(args.contextValue)),
    // A subscription that is refused: others do not come here (graphql/plugin.ts).
    onSubscribe: ({ args, setSubscribeFn }) => setSubscribeFn(() => execute(args.contextValue)),
  };
}

/** The operation of a request as the log and the metrics name it. */
export function operationOf({ operation, cost }: PreparedRequest): LoggedOperation | null {
  return operation && { type: operation.node.operation, name: operation.loggedName, cost };
}

/**
 * The body of the answer to the common request, a JSON POST of a valid operation whose answer has data; null where Yoga has to answer.
 * It skips the Fetch API request and response of Yoga's HTTP layer, which cost several times as much as the rest. The body is the same.
 */
export async function answerFast(
  prepared: PreparedRequest,
  context: EngineContext,
  documents: DocumentCache,
): Promise<string | null> {
  const { operation, document } = prepared;
  if (operation === null || prepared.refusal !== null || !prepared.isPlain) return null;
  if (operation.run !== null) {
    const answer = await operation.run(prepared.coerced, context);
    if (answer === 'too large') prepared.refusal ??= [tooLarge()];
    if (prepared.refusal !== null) return null;
    if (typeof answer === 'object' && 'body' in answer) return answer.body;
    context = context.again(answer === 'too large' ? undefined : answer.outcome);
  }
  const result = await executeRequest(prepared, context);
  if (result.data === undefined) return null;
  if (isSliceOver()) await nextSlice(context.project);
  const body = JSON.stringify(result);
  if (result.errors === undefined && operation.countExecution(body)) documents.updateSize(document);
  return body;
}

/** True if a request has only the parameters that are read here. */
export function isPlainPost(method: string, body: object): boolean {
  if (method !== 'POST') return false;
  for (const name in body) {
    if (!PLAIN_PARAMETERS.has(name) && !(name === 'extensions' && isPersistedQuery(body))) return false;
  }
  return true;
}

const PLAIN_PARAMETERS = new Set(['query', 'documentId', 'variables', 'operationName']);

/** True if the only extension of a request is the hash of its query. */
function isPersistedQuery(body: object): boolean {
  const names = Object.keys((body as { extensions?: object | null }).extensions ?? {});
  return names.length === 1 && names[0] === 'persistedQuery';
}
