import { GraphQLError } from 'graphql';
import { type AppError, fromUnknown, isErrorCode } from '../errors.js';
import { redact } from '../telemetry/redact.js';

/** How many errors one answer has; the last says that there were more. */
export const MAX_ERRORS = 5;
/** How much of a message of GraphQL's own is read, which repeats values, and how much is answered. */
const READ_LENGTH = 2_000;
const MESSAGE_LENGTH = 500;
/** A text within such a message that is longer than a value may be shown. */
const LONG_VALUE = /"((?:[^"\\]|\\.){200})(?:[^"\\]|\\.)+"?/gs;

/** The errors of an execution as its caller may see them. `report` is told what an operator should know of. */
export function toGraphQLErrors(errors: readonly unknown[], report: (failure: AppError) => void): GraphQLError[] {
  const shown = errors.slice(0, MAX_ERRORS).map((error) => toGraphQLError(error, report));
  const last = shown.at(-1);
  if (errors.length === shown.length || last === undefined) return shown;
  const message = `${last.message} (More errors are not shown.)`;
  return [...shown.slice(0, -1), new GraphQLError(message, { ...placeOf(last), extensions: last.extensions })];
}

/**
 * An error of an execution as its caller may see it: the public message, where it happened, and `extensions.code`.
 * `report` is told what an operator should know of.
 */
export function toGraphQLError(error: unknown, report: (failure: AppError) => void): GraphQLError {
  if (!(error instanceof GraphQLError)) return asGraphQLError(error, undefined, report);
  if (error.originalError !== undefined && !(error.originalError instanceof GraphQLError)) {
    return asGraphQLError(error.originalError, error, report);
  }
  if (isErrorCode(error.extensions['code'])) return error;
  // A complaint of GraphQL's or Yoga's own about the request: its form, its syntax, its validity, or a value that does not
  // fit its type. Their codes for these differ by where a value stands, so they do not reach the caller.
  const http = (error.extensions['http'] as { status?: number } | undefined) ?? REFUSED;
  return new GraphQLError(shorten(error.message), {
    ...placeOf(error),
    extensions: {
      // A status is for a request that was not executed; a field that fails leaves it as it is.
      ...(error.path === undefined && { http }),
      code: http.status === 405 ? 'METHOD_NOT_ALLOWED' : 'BAD_USER_INPUT',
    },
  });
}

/** For Yoga: the status with media type application/graphql-response+json; with application/json it stays 200. */
const REFUSED = { spec: true, status: 400 };
/** For Yoga: the status with either media type. */
export const BAD_REQUEST = { status: 400 };

/** A message of GraphQL's own, which repeats values, without secrets and personal data and never long. */
function shorten(message: string): string {
  const text = redact(message.slice(0, READ_LENGTH).replace(LONG_VALUE, '"$1…"'));
  return text.length > MESSAGE_LENGTH ? `${text.slice(0, MESSAGE_LENGTH).replace(/[\ud800-\udbff]$/, '')}…` : text;
}

function asGraphQLError(
  error: unknown,
  wrapper: GraphQLError | undefined,
  report: (failure: AppError) => void,
): GraphQLError {
  const failure = fromUnknown(error);
  if (failure.code === 'INTERNAL_SERVER_ERROR') report(failure);
  return new GraphQLError(failure.publicMessage, {
    ...(wrapper && placeOf(wrapper)),
    extensions: { code: failure.code },
  });
}

function placeOf({ nodes, source, positions, path }: GraphQLError) {
  return { nodes: nodes ?? null, source: source ?? null, positions: positions ?? null, path: path ?? null };
}
