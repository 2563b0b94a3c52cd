import {
  type DocumentNode,
  type ExecutionResult,
  execute,
  GraphQLError,
  getOperationAST,
  getVariableValues,
  parse,
  specifiedRules,
  validate,
} from 'graphql';
import { LRUCache } from 'lru-cache';
import { atMost, isTooLargeAnswer, isTooLong } from '../domain/input-limits.js';
import { MAX_ERRORS, toGraphQLErrors } from '../engine/errors.js';
import { findExceededLimit, fragmentsOf, LIMITS, limitExceeded } from '../engine/limits.js';
import { badInput } from '../errors.js';
import type { DashboardContext } from './builder.js';
import { refuseCostly } from './cost.js';
import { schema } from './schema.js';

/** The longest document: the pages have none of half its length. */
const MAX_CHARACTERS = 20_000;
const MAX_DOCUMENTS = 200;

export interface DashboardRequest {
  readonly query: string;
  readonly variables: Record<string, unknown>;
  readonly operationName: string | undefined;
}

interface ReadDocument {
  readonly tree: DocumentNode | null;
  readonly errors: readonly GraphQLError[];
}

/** The parts of a body, or BAD_USER_INPUT. */
export function readRequest(body: unknown): DashboardRequest {
  const { query, variables, operationName } = (body ?? {}) as Record<string, unknown>;
  if (typeof query !== 'string') throw badInput('query', query, 'a GraphQL document');
  if (variables != null && (typeof variables !== 'object' || Array.isArray(variables)))
    throw badInput('variables', variables, 'a JSON object');
  if (operationName != null && (typeof operationName !== 'string' || isTooLong('graphqlName', operationName)))
    throw badInput('operationName', operationName, `the name of an operation, ${atMost('graphqlName')}`);
  for (const [name, value] of Object.entries(variables ?? {})) refuseLongText(name, value);
  return {
    query,
    variables: (variables ?? {}) as Record<string, unknown>,
    operationName: operationName ?? undefined,
  };
}

/** The body nests 32 levels at most (http/body.ts). */
function refuseLongText(name: string, value: unknown): void {
  if (typeof value === 'string' && isTooLong('text', value)) throw badInput(name, value, `text of ${atMost('text')}`);
  if (typeof value !== 'object' || value === null) return;
  for (const item of Object.values(value)) refuseLongText(name, item);
}

/** Executes operations of the operators’ schema, within limits. The same document is read once. */
export function createExecutor() {
  const documents = new LRUCache<string, ReadDocument>({ max: MAX_DOCUMENTS });

  function read(text: string): ReadDocument {
    const known = documents.get(text);
    if (known !== undefined) return known;
    const document = readDocument(text);
    if (document.errors.length === 0) documents.set(text, document);
    return document;
  }

  return async (
    { query, variables, operationName }: DashboardRequest,
    context: DashboardContext,
  ): Promise<ExecutionResult> => {
    const { report } = context;
    const { tree, errors } = read(query);
    const refuse = (refused: readonly unknown[]) => ({ errors: toGraphQLErrors(refused, report) });
    if (tree === null || errors.length > 0) return refuse(errors);
    const operation = getOperationAST(tree, operationName);
    if (!operation)
      return refuse([new GraphQLError('operationName: expected the name of one operation of the document.')]);
    const root = schema.getRootType(operation.operation);
    if (!root)
      return refuse([new GraphQLError(`operation: got a ${operation.operation}, expected a query or a mutation.`)]);
    const definitions = operation.variableDefinitions ?? [];
    const coerced = getVariableValues(schema, definitions, variables, { maxErrors: MAX_ERRORS });
    if (coerced.errors) return refuse(coerced.errors);
    const costly = refuseCostly(root, operation, fragmentsOf(tree), coerced.coerced);
    if (costly !== null) return refuse([costly]);
    const result = await execute({
      schema,
      document: tree,
      contextValue: context,
      variableValues: variables,
      ...(operationName !== undefined && { operationName }),
    });
    if (!result.errors) return result;
    return { ...result, errors: toGraphQLErrors(result.errors, report).map(namingArgument) };
  };
}

/** How the error of a value begins: with the name of the argument (errors.ts), or of the value within it. */
const ARGUMENT = /^([a-zA-Z]\w*(?:\[\d+\])?(?:\.\w+)*)(?:, \w+)*: /;

/** The same error with `extensions.argument` where a field has refused a value, so that a form can show it there. */
function namingArgument(error: GraphQLError): GraphQLError {
  const argument = error.nodes?.[0]?.kind === 'Field' ? ARGUMENT.exec(error.message)?.[1] : undefined;
  if (argument === undefined || error.extensions['code'] !== 'BAD_USER_INPUT') return error;
  const { message, nodes, source, positions, path, extensions } = error;
  return new GraphQLError(message, {
    nodes: nodes ?? null,
    source: source ?? null,
    positions: positions ?? null,
    path: path ?? null,
    extensions: { ...extensions, argument },
  });
}

/** Parses a document, checks it against the limits and validates it. */
function readDocument(text: string): ReadDocument {
  const refused = (message: string): ReadDocument => ({ tree: null, errors: [new GraphQLError(message)] });
  if (text.length > MAX_CHARACTERS)
    return refused(`characters: got ${text.length}, expected at most ${MAX_CHARACTERS}.`);
  try {
    const tree = parse(text, { maxTokens: LIMITS.tokens });
    const exceeded = findExceededLimit(tree);
    const errors = exceeded ? [exceeded] : validate(schema, tree, specifiedRules, { maxErrors: MAX_ERRORS });
    return { tree, errors };
  } catch (error) {
    if (error instanceof GraphQLError) return { tree: null, errors: [error] };
    // The parser recurses as deep as lists and objects nest.
    if (error instanceof RangeError) return refused(limitExceeded('depth', 'too many to follow'));
    throw error;
  }
}

/** The answer as text; an answer that is too large becomes an error. */
export function toBody(result: ExecutionResult): string {
  const body = JSON.stringify(result);
  if (!isTooLargeAnswer(body)) return body;
  return JSON.stringify({
    errors: [{ message: 'The answer is too large: ask for fewer fields.', extensions: { code: 'BAD_USER_INPUT' } }],
  });
}
