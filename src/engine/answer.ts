import { type GraphQLSchema, parse } from 'graphql';
import { createYoga, type Plugin } from 'graphql-yoga';
import { RETRY_SOON } from '../errors.js';
import { helpHeader } from '../http/failures.js';
import { JSON_TYPE } from '../http/media-types.js';
import type { EngineContext } from './cost.js';
import { type ErrorTerms, toGraphQLError } from './errors.js';
import { errorsOf, executeRequest, type PreparedRequest } from './execution.js';

/* Answers what execution.ts does not answer by itself: refusals, errors without data, and what is unusual, which Yoga answers. */

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

/** Answers prepared requests. */
export interface Answerer {
  /** `body` has the nulls of a request that found no database. */
  answer(request: HttpRequest, prepared: PreparedRequest, context: EngineContext, body: string | null): Promise<Answer>;
  dispose(): Promise<void>;
}

/** `terms` are for errors that belong to no resolver. */
export function createAnswerer(schema: GraphQLSchema, terms: ErrorTerms): Answerer {
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
    async answer(request, prepared, context, body) {
      if (body !== null) {
        const headers = { 'content-type': `${request.accept}; charset=utf-8`, ...RETRY_SOON };
        return refuse({ status: 503, headers, body, failure: prepared.failure });
      }
      const answer =
        answerRefused(request.accept, prepared, context) ?? (await answerByYoga(request, prepared, context));
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
