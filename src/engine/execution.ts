import {
  type DocumentNode,
  type ExecutionResult,
  execute,
  GraphQLError,
  Kind,
  type OperationDefinitionNode,
  OperationTypeNode,
} from 'graphql';
import { atMost, isTooLargeAnswer, isTooLong, LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import { expected, show } from '../errors.js';
import type { LoggedOperation } from '../http/request-log.js';
import { isSliceOver, nextSlice } from '../http/turns.js';
import { withSpan } from '../telemetry/request-trace.js';
import { COST_PER_UNIT, chargingForRows, declaredCost, type EngineContext } from './cost.js';
import type { DocumentCache } from './document-cache.js';
import type { KnownOperation, ReadDocument } from './documents.js';
import {
  BAD_REQUEST,
  belowChange,
  blameArgumentOfVariable,
  type ErrorTerms,
  nameKeys,
  placeOfVariable,
  toGraphQLErrors,
} from './errors.js';
import { beyond, fragmentsOf, LIMITS, limitExceeded } from './limits.js';
import { requireWrittenValues } from './nodes.js';
import type { Resolver, WrapResolver } from './wrap-resolvers.js';

/** The parameters of a GraphQL request, from a body or a URL. */
export interface Parameters {
  readonly query: string;
  readonly variables: Record<string, unknown> | undefined;
  readonly operationName: string | undefined;
  /** The hash under which the query is to be kept, if it is valid (graphql/request.ts). */
  readonly hash?: string | undefined;
  /** True for a JSON POST with these parameters only. Yoga knows the others. */
  readonly isPlain?: boolean;
  /** The Accept header: a stream, which a subscription needs, or an answer. */
  readonly accept?: string | undefined;
}

/** A request that has been read and whose cost is known: what to execute, or why it is refused. */
export interface PreparedRequest extends Parameters {
  readonly document: ReadDocument;
  /** Null where the document is not valid or has no such operation. */
  readonly operation: KnownOperation | null;
  /** The variables, coerced to their types, with defaults. */
  readonly coerced: Record<string, unknown>;
  /** The estimate before execution; 0 where it is not executed. */
  readonly cost: number;
  /** Why it is not executed, or why its result is not answered. */
  refusal: readonly GraphQLError[] | null;
  /** True if the database was away, so that no root field has an answer. */
  isUnavailable: boolean;
  /** The code of the first error of its answer, once that is known. */
  failure: string | null;
}

/** Finds the operation of a request in its document, checks its variables and works out its cost. */
export function prepareRequest(document: ReadDocument, parameters: Parameters): PreparedRequest {
  const { operationName, variables = {} } = parameters;
  const { limits } = document.on;
  const operation = document.operation(operationName);
  const prepared = {
    ...parameters,
    document,
    operation,
    coerced: {},
    cost: 0,
    refusal: null,
    isUnavailable: false,
    failure: null,
  };
  if (operation === null) {
    const fault = findMissingOperation(document, operationName);
    // Yoga executes no operation of the document, and so does not find out by itself.
    return fault === null ? prepared : { ...prepared, document: { ...document, tree: null }, refusal: [fault] };
  }
  for (const definition of operation.node.variableDefinitions ?? []) {
    const { value: name } = definition.variable.name;
    const fault = findLongValue(variables[name]);
    if (fault === null) continue;
    const { path, argument } = placeOfVariable(
      document.on.schema,
      rootsOf(operation, document),
      definition,
      fault.keys,
    );
    const error = new GraphQLError(`${path}: ${fault.words}`);
    return { ...prepared, refusal: [asBadRequest(error, argument === null ? {} : { argument })] };
  }
  const { coerced, errors = [] } = operation.readVariables(variables);
  if (coerced === undefined) {
    const roots = rootsOf(operation, document);
    const refuse = (error: GraphQLError) =>
      asBadRequest(nameKeys(document.on.schema, error), blameArgumentOfVariable(roots, error));
    return { ...prepared, refusal: errors.map(refuse) };
  }
  const cost = operation.cost(coerced);
  const ofEvent = operation.largestCost?.(coerced) ?? 0;
  const { costLimit } = operation;
  if (cost > costLimit)
    return { ...prepared, coerced, cost, refusal: [beyond('cost', cost, { ...limits, cost: costLimit })] };
  if (ofEvent > limits.eventCost)
    return { ...prepared, coerced, cost, refusal: [beyond('eventCost', ofEvent, limits)] };
  return { ...prepared, coerced, cost };
}

/** Deeper than any input type of the schema. */
const MAX_DEPTH = 8;

/** What is wrong with a value in a variable, and the keys and places that lead to it. */
interface LongValue {
  readonly keys: readonly (string | number)[];
  readonly words: string;
}

/** The fault of a variable with a text that is too long, before GraphQL.js reads it and repeats it in an error. */
function findLongValue(value: unknown, keys: LongValue['keys'] = []): LongValue | null {
  if (typeof value === 'string')
    return isTooLong('text', value) ? { keys, words: `got ${show(value)}, expected ${atMost('text')}.` } : null;
  if (typeof value !== 'object' || value === null) return null;
  if (keys.length + 1 === MAX_DEPTH)
    return { keys: [], words: `got more levels, expected at most ${MAX_DEPTH} within each other.` };
  for (const [key, item] of Object.entries(value)) {
    if (isTooLong('graphqlName', key))
      return { keys, words: `got a key of ${key.length} characters, expected ${atMost('graphqlName')}.` };
    const fault = findLongValue(item, [...keys, Array.isArray(value) ? Number(key) : key]);
    if (fault !== null) return fault;
  }
  return null;
}

/** The operation and the fragments of its document, in which its variables stand. */
const rootsOf = ({ node }: KnownOperation, { tree }: ReadDocument) => [
  node,
  ...fragmentsOf(tree as DocumentNode).values(),
];

/** The status is 400 with either media type, as for a malformed body. */
function asBadRequest({ message, nodes }: GraphQLError, extensions = {}): GraphQLError {
  return new GraphQLError(message, { nodes: nodes ?? null, extensions: { ...extensions, http: BAD_REQUEST } });
}

const OPERATIONS_NAMED = 5;

/** The error if a valid document does not have the operation of a request. */
function findMissingOperation({ tree }: ReadDocument, operationName: string | undefined): GraphQLError | null {
  const operations = tree?.definitions.filter(({ kind }) => kind === Kind.OPERATION_DEFINITION) ?? [];
  const names = operations.map((node) => (node as OperationDefinitionNode).name?.value);
  const isThere = operationName === undefined ? names.length === 1 : names.includes(operationName);
  // Of a kind of operation that the schema does not have, Yoga says so.
  if (tree === null || isThere) return null;
  const message =
    names.length === 0
      ? 'query: got only fragments, expected an operation.'
      : expected('operationName', operationName, formOfName(names));
  return asBadRequest(new GraphQLError(message));
}

function formOfName(names: readonly (string | undefined)[]): string {
  // Such an operation is alone.
  if (names[0] === undefined) return 'nothing, because the operation of the document has no name';
  const more = names.length > OPERATIONS_NAMED ? ` or one of ${names.length - OPERATIONS_NAMED} more` : '';
  return `the name of an operation in the document: ${names.slice(0, OPERATIONS_NAMED).join(', ')}${more}`;
}

/** Executes a prepared request with GraphQL.js. A result without `data` is a refusal. */
export async function executeRequest(request: PreparedRequest, context: ErrorTerms): Promise<ExecutionResult> {
  const { document, operation, operationName, variables = {} } = request;
  if (document.tree === null || request.refusal !== null) return refusalOf(request, context);
  const result = await execute({
    schema: operation?.schema ?? document.on.schema,
    document: document.tree,
    contextValue: context,
    variableValues: variables,
    ...(operationName !== undefined && { operationName }),
  });
  if (request.refusal === null && result.data === undefined) request.refusal = result.errors ?? [];
  if (request.refusal === null && isTooLarge(result)) request.refusal = [tooLarge(request)];
  if (request.refusal !== null) return refusalOf(request, context);
  if (result.errors === undefined) return result;
  const errors = errorsOf(request, result.errors, context);
  const isEmpty = Object.values(result.data ?? {}).every((value) => value === null);
  request.isUnavailable = isEmpty && errors.some(({ extensions }) => extensions['code'] === 'UNAVAILABLE');
  return { ...result, errors };
}

function refusalOf(request: PreparedRequest, terms: ErrorTerms): ExecutionResult {
  return { errors: errorsOf(request, request.refusal ?? request.document.errors, terms) };
}

const isChange = ({ operation }: PreparedRequest) => operation?.node.operation === OperationTypeNode.MUTATION;

/** The errors of a request as its caller may see them. Notes the code of the first one. */
export function errorsOf(request: PreparedRequest, errors: readonly GraphQLError[], terms: ErrorTerms): GraphQLError[] {
  const shown = toGraphQLErrors(isChange(request) ? errors.map(belowChange) : errors, terms);
  if (shown[0] !== undefined) request.failure = String(shown[0].extensions['code']);
  return shown;
}

/** The error for an answer that is too large to be sent. */
function tooLarge(request: PreparedRequest): GraphQLError {
  const advice = isChange(request)
    ? 'The change was made. Read what you need.'
    : 'Ask for fewer fields, or for fewer users at once.';
  return new GraphQLError(`answer: got more, expected at most ${LARGEST_ANSWER_BYTES} bytes. ${advice}`);
}

/**
 * The body of the answer to the common request, a JSON POST of a valid operation whose answer has data; null where answer.ts has to answer.
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
    if (answer === 'too large') prepared.refusal ??= [tooLarge(prepared)];
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

/** The operation of a request as the log and the metrics name it. */
export function operationOf({ operation, cost }: PreparedRequest): LoggedOperation | null {
  return operation && { type: operation.node.operation, name: operation.loggedName, cost };
}

/** JSON writes a character in at most six bytes. */
const BYTES_OF_CHARACTER = 6;

/** True if the answer would be too large to be sent. */
export function isTooLarge({ data }: ExecutionResult): boolean {
  // Counted first: serializing a far too large result would take long, or fail.
  const characters = lengthOf(data, 0);
  if (characters * BYTES_OF_CHARACTER <= LARGEST_ANSWER_BYTES) return false;
  return characters > LARGEST_ANSWER_BYTES || isTooLargeAnswer(JSON.stringify({ data }));
}

/** The least characters that a value has as JSON, plus `before`: without escapes, and one of the brackets of what is empty. Stops as soon as they are too many. */
function lengthOf(value: unknown, before: number): number {
  if (typeof value === 'string') return before + value.length + 2;
  if (typeof value !== 'object' || value === null) return before + String(value).length;
  let length = before + 1;
  const isList = Array.isArray(value);
  for (const key in value) {
    // A comma or a bracket follows each value; a key has quotes and a colon.
    length = lengthOf((value as Record<string, unknown>)[key], length + 1 + (isList ? 0 : key.length + 3));
    if (length > LARGEST_ANSWER_BYTES) return length;
  }
  return length;
}

/* The weight of requests in units of admission (http/admission.ts). A unit is about the work of one user. */

/** One unit in characters of a document to parse and validate. */
const CHARACTERS_PER_UNIT = 500;

/** The weight of reading a document for the first time. */
export function weightOfReading(text: string): number {
  return 1 + Math.floor(Math.min(text.length, LIMITS.characters) / CHARACTERS_PER_UNIT);
}

/** The weight of executing a request that was read. A refusal takes little. */
export function weightOfRequest({ refusal, cost }: Pick<PreparedRequest, 'refusal' | 'cost'>): number {
  return refusal === null ? weightOfCost(cost) : 1;
}

/** The weight of an operation of this cost. */
export function weightOfCost(cost: number): number {
  return 1 + Math.floor(cost / COST_PER_UNIT);
}

/** A smaller operation starts all its root fields at once, so that their reads share statements. */
const LARGE_COST = 500;
const ASK_FOR_LESS =
  'The users that match, their accounts, or the changes that were looked at, are more than one answer can have: ask for fewer at once.';

/** True if an operation may take long: its fields begin in several turns of the event loop then. */
export function isLarge({ cost }: Pick<PreparedRequest, 'cost'>): boolean {
  return cost >= LARGE_COST;
}

/** Begins to count the cost of an execution, for `EngineContext.charge`. `addWeight` gets units beyond the most that was charged before. */
export function countCosts(
  prepared: PreparedRequest | null,
  addWeight: (units: number) => void,
): () => EngineContext['charge'] {
  const paid = prepared?.cost ?? 0;
  let weighed = paid;
  return () => {
    let charged = paid;
    return (cost) => {
      charged += cost;
      if (charged > weighed) {
        addWeight(weightOfCost(charged) - weightOfCost(weighed));
        weighed = charged;
      }
      // A mutation is always answered, because its work is done.
      if (prepared === null || prepared.operation?.node.operation === 'mutation') return true;
      const { limits } = prepared.document.on;
      if (charged <= limits.cost) return true;
      prepared.refusal ??= [new GraphQLError(`${limitExceeded('cost', 'more', limits)} ${ASK_FOR_LESS}`)];
      return false;
    };
  };
}

/** The `extensions` of a query that a lost value would widen. Mutations need none. */
export const NEEDS_VALUES = { needsValues: true };

/** Refuses arguments that have lost their value. */
function withWrittenValues(resolve: Resolver): Resolver {
  return (...given) => {
    requireWrittenValues(given[3]);
    return resolve(...given);
  };
}

/** Charges for lists, refuses arguments without their value, traces root fields, and spreads them and events over turns of the event loop. */
export const wrapForEngine: WrapResolver = (resolve, field) => {
  const { parentType, name, type } = field;
  const charging =
    type.kind === 'List' && declaredCost({ extensions: field.extensions ?? {} }).rows
      ? chargingForRows(resolve)
      : resolve;
  if (!['Query', 'Mutation', 'Subscription'].includes(parentType)) return charging;
  const step = { kind: 'resolver', name: `${parentType}.${name}` } as const;
  const isMutation = parentType === 'Mutation';
  const checked = isMutation || field.extensions?.['needsValues'] ? withWrittenValues(charging) : charging;
  const traced: Resolver =
    parentType === 'Subscription' ? checked : (...given) => withSpan(step, () => checked(...given));
  return isMutation ? onlyOnce(traced) : inSlices(traced);
};

/** The outcome of an execution before this one stands for the work. */
function onlyOnce(resolve: Resolver): Resolver {
  return (...given) => {
    const { outcome } = given[2] as EngineContext;
    if (outcome === undefined) return resolve(...given);
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  };
}

/** Starts root fields of a large query, with perhaps thousands of rows, in several turns; those of a smaller one share statements. */
function inSlices(resolve: Resolver): Resolver {
  return (...given) => {
    const { isLarge: isSlow, project } = given[2] as EngineContext;
    const inSlice = (value: unknown) => (isSliceOver() ? nextSlice(project).then(() => value) : value);
    if (isSlow && isSliceOver()) return nextSlice(project).then(() => resolve(...given));
    const answer = resolve(...given);
    return answer instanceof Promise ? answer.then(inSlice) : answer;
  };
}
