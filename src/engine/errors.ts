import { type ASTNode, GraphQLError, getNamedType, isInputObjectType } from 'graphql';
import { type AppError, type DocsOf, type ErrorCode, fromUnknown, isErrorCode, redact } from '../errors.js';
import { MAX_ERRORS } from './limits.js';
import { definitionOf } from './nodes.js';

/** Messages of GraphQL.js repeat values: how much of one is searched for secrets, and how much is answered. */
const READ_LENGTH = 2_000;
const MESSAGE_LENGTH = 500;
/** A value in such a message that is too long to be shown whole. */
const LONG_VALUE = /"((?:[^"\\]|\\.){200})(?:[^"\\]|\\.)+"?/gs;

/** What becomes of the errors of a request. */
export interface ErrorTerms {
  /** Gets those that the operator should know. */
  readonly report: (failure: AppError) => void;
  /** Absent where callers have no documentation of the codes. */
  readonly docsOf?: DocsOf | undefined;
}

/** The errors of an execution as the caller may see them. */
export function toGraphQLErrors(errors: readonly unknown[], terms: ErrorTerms): GraphQLError[] {
  const shown = errors.slice(0, MAX_ERRORS).map((error) => toGraphQLError(error, terms));
  const last = shown.at(-1);
  if (errors.length === shown.length || last === undefined) return shown;
  const message = `${last.message} (More errors are not shown.)`;
  return [...shown.slice(0, -1), new GraphQLError(message, { ...positionOf(last), extensions: last.extensions })];
}

/**
 * An error of an execution as the caller may see it: the public message, its position, `extensions.code`, `extensions.docs` and, if the
 * value of an argument was refused, `extensions.argument`.
 */
export function toGraphQLError(error: unknown, terms: ErrorTerms): GraphQLError {
  if (!(error instanceof GraphQLError)) return asGraphQLError(error, undefined, terms);
  if (error.originalError !== undefined && !(error.originalError instanceof GraphQLError)) {
    return asGraphQLError(error.originalError, error, terms);
  }
  if (isErrorCode(error.extensions['code'])) return error;
  // An error of GraphQL.js or Yoga about the request: its form, syntax or validity, or a value that does not fit its type. Their
  // own codes depend on where a value stands, so callers do not get them.
  const http = (error.extensions['http'] as { status?: number } | undefined) ?? REFUSED;
  return new GraphQLError(shorten(error.message), {
    ...positionOf(error),
    extensions: {
      // Only a request that was not executed has a status. A field that fails does not change it.
      ...(error.path === undefined && { http }),
      ...codeOf(http.status === 405 ? 'METHOD_NOT_ALLOWED' : 'BAD_USER_INPUT', terms),
    },
  });
}

/** Tells Yoga the status with application/graphql-response+json. With application/json it stays 200. */
const REFUSED = { spec: true, status: 400 };
/** Tells Yoga the status with either media type. */
export const BAD_REQUEST = { status: 400 };

/** Shortens a message of GraphQL.js and removes secrets and personal data, because it repeats values. */
function shorten(message: string): string {
  const text = redact(message.slice(0, READ_LENGTH).replace(LONG_VALUE, '"$1…"'));
  return text.length > MESSAGE_LENGTH ? `${text.slice(0, MESSAGE_LENGTH).replace(/[\ud800-\udbff]$/, '')}…` : text;
}

function asGraphQLError(error: unknown, wrapper: GraphQLError | undefined, terms: ErrorTerms): GraphQLError {
  const failure = fromUnknown(error);
  if (failure.status >= 500) terms.report(failure);
  const argument = failure.code === 'BAD_USER_INPUT' ? argumentAtFault(failure.message, wrapper?.nodes?.[0]) : null;
  return new GraphQLError(failure.publicMessage, {
    ...(wrapper && positionOf(wrapper)),
    extensions: { ...extensionsOf(failure, terms), ...(argument !== null && { argument }) },
  });
}

/** What the error of a failure says to programs: its code and, as the header Retry-After, the seconds to wait before a retry. */
export function extensionsOf({ code, retryAfter }: AppError, terms: Pick<ErrorTerms, 'docsOf'>) {
  return { ...codeOf(code, terms), ...(retryAfter !== null && { retryAfter }) };
}

/** A code, and where its documentation is. */
export function codeOf(code: ErrorCode, { docsOf }: Pick<ErrorTerms, 'docsOf'>) {
  return { code, ...(docsOf !== undefined && { docs: docsOf(code) }) };
}

function positionOf({ nodes, source, positions, path }: GraphQLError) {
  return { nodes: nodes ?? null, source: source ?? null, positions: positions ?? null, path: path ?? null };
}

/** The name with which the error of a value begins (errors.ts); of several names the first. */
const NAME = /^([a-zA-Z]\w*(?:\[\d+\])?(?:\.\w+)*)(?:, \w+)*: /;

/**
 * The argument of a field that an error is about: its name or, within an input object or a list, the path to the value, such as
 * `input.accounts[0].publicKey`. Null if the error is not about an argument.
 */
function argumentAtFault(message: string, node: ASTNode | undefined): string | null {
  const path = NAME.exec(message)?.[1];
  if (path === undefined || node?.kind !== 'Field') return null;
  const [name = ''] = path.split(/[.[]/);
  for (const argument of definitionOf(node)?.args ?? []) {
    if (argument.name === name) return path;
    const type = getNamedType(argument.type);
    if (isInputObjectType(type) && Object.hasOwn(type.getFields(), name)) return `${argument.name}.${path}`;
  }
  return null;
}
