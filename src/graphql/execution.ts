import { type ExecutionResult, execute, GraphQLError, getVariableValues } from 'graphql';
import { atMost, isTooLargeAnswer, isTooLong, LARGEST_ANSWER_BYTES } from '../input-limits.js';
import type { GraphQLContext } from './builder.js';
import type { KnownOperation, ReadDocument } from './documents.js';
import { BAD_REQUEST, MAX_ERRORS, toGraphQLErrors } from './errors.js';
import { excess, LIMITS } from './limits.js';
import { chargeForRows } from './rows.js';
import { schema } from './schema.js';

chargeForRows();

/** What a request says, in whatever way it was sent. */
export interface Parameters {
  readonly query: string;
  readonly variables: Record<string, unknown> | undefined;
  readonly operationName: string | undefined;
}

/** A request that has been read and weighed: what is to be executed, or why it is not. */
export interface PreparedRequest extends Parameters {
  readonly document: ReadDocument;
  /** Null where the document is not valid or has no such operation. */
  readonly operation: KnownOperation | null;
  /** The variables by their types, with their defaults. */
  readonly coerced: Record<string, unknown>;
  /** Before it is executed; 0 where it is not. */
  readonly cost: number;
  /** Why it is not executed, or why what came of it is not answered. */
  refusal: readonly GraphQLError[] | null;
}

/** Finds the operation of a request in its document, and what it costs with the variables of the request. */
export function prepareRequest(document: ReadDocument, parameters: Parameters): PreparedRequest {
  const { operationName, variables = {} } = parameters;
  const operation = document.operation(operationName);
  const prepared = { ...parameters, document, operation, coerced: {}, cost: 0, refusal: null };
  if (operation === null) return prepared;
  const definitions = operation.node.variableDefinitions ?? [];
  for (const { variable } of definitions) {
    const { value: name } = variable.name;
    const fault = findLongValue(variables[name], name, 1);
    if (fault !== null) return { ...prepared, refusal: [fault] };
  }
  const { coerced, errors } = getVariableValues(schema, definitions, variables, { maxErrors: MAX_ERRORS });
  if (coerced === undefined) return { ...prepared, refusal: errors.map(asBadRequest) };
  const cost = operation.cost(coerced);
  const refusal = cost > LIMITS.cost ? [new GraphQLError(excess('cost', cost))] : null;
  return { ...prepared, coerced, cost, refusal };
}

/** More than any variable of the schema nests. */
const MAX_DEPTH = 8;

/** The first text in a variable that is too long to be worked with, before GraphQL.js reads and repeats it. */
function findLongValue(value: unknown, name: string, depth: number): GraphQLError | null {
  if (typeof value === 'string') {
    if (!isTooLong('text', value)) return null;
    return asBadRequest(new GraphQLError(`${name}: got ${value.length} characters, expected ${atMost('text')}.`));
  }
  if (typeof value !== 'object' || value === null) return null;
  if (depth === MAX_DEPTH) {
    return asBadRequest(
      new GraphQLError(`variables: got more levels, expected at most ${MAX_DEPTH} within each other.`),
    );
  }
  for (const [key, item] of Object.entries(value)) {
    if (isTooLong('graphqlName', key)) {
      const sentence = `${name}: got a key of ${key.length} characters, expected ${atMost('graphqlName')}.`;
      return asBadRequest(new GraphQLError(sentence));
    }
    const fault = findLongValue(item, Array.isArray(value) ? `${name}[${key}]` : `${name}.${key}`, depth + 1);
    if (fault !== null) return fault;
  }
  return null;
}

/** With either media type the status is 400, as it is for a malformed body. */
function asBadRequest({ message, nodes }: GraphQLError): GraphQLError {
  return new GraphQLError(message, { nodes: nodes ?? null, extensions: { http: BAD_REQUEST } });
}

/** Executes what was prepared, by GraphQL.js. Without `data` it is a refusal, and nothing of a query has been answered. */
export async function executeRequest(request: PreparedRequest, context: GraphQLContext): Promise<ExecutionResult> {
  const { document, operationName, variables = {} } = request;
  if (document.tree === null || request.refusal !== null) return refusalOf(request, context);
  const result = await execute({
    schema,
    document: document.tree,
    contextValue: context,
    variableValues: variables,
    ...(operationName !== undefined && { operationName }),
  });
  if (request.refusal === null && result.data === undefined) request.refusal = result.errors ?? [];
  if (request.refusal === null && isTooLarge(result)) request.refusal = [tooLarge()];
  if (request.refusal !== null) return refusalOf(request, context);
  return result.errors ? { ...result, errors: toGraphQLErrors(result.errors, context.report) } : result;
}

function refusalOf({ refusal }: PreparedRequest, { report }: GraphQLContext): ExecutionResult {
  return { errors: toGraphQLErrors(refusal ?? [], report) };
}

/** Why an answer is not given that has been made. */
export function tooLarge(): GraphQLError {
  return new GraphQLError(
    `answer: got more, expected at most ${LARGEST_ANSWER_BYTES} bytes. Ask for fewer fields, or for fewer users at once.`,
  );
}

/** JSON writes a character in six bytes at the most. */
const BYTES_OF_CHARACTER = 6;

function isTooLarge({ data }: ExecutionResult): boolean {
  // Counted first, so that no text is made that would be far too long, nor one that cannot be.
  const characters = lengthOf(data, 0);
  if (characters * BYTES_OF_CHARACTER <= LARGEST_ANSWER_BYTES) return false;
  return characters > LARGEST_ANSWER_BYTES || isTooLargeAnswer(JSON.stringify(data));
}

/** About the characters of a value as JSON, added to those before it; stops counting where they are too many. */
function lengthOf(value: unknown, before: number): number {
  if (typeof value === 'string') return before + value.length + 2;
  if (typeof value !== 'object' || value === null) return before + 4;
  let length = before + 2;
  const isList = Array.isArray(value);
  for (const key in value) {
    length = lengthOf((value as Record<string, unknown>)[key], length + (isList ? 1 : key.length + 4));
    if (length > LARGEST_ANSWER_BYTES) return length;
  }
  return length;
}
