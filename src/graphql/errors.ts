import { GraphQLError } from 'graphql';
import { type AppError, fromUnknown, isErrorCode } from '../errors.js';
import { redact } from '../redact.js';

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
  // GraphQL.js repeats values.
  return new GraphQLError(redact(error.message), {
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
