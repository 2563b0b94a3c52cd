import {
  type ASTVisitor,
  type DocumentNode,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  type OperationDefinitionNode,
  parse,
  specifiedRules,
  type ValidationContext,
  validate,
} from 'graphql';
import { redact } from '../errors.js';
import { type CompiledSize, compile, type Run } from './compiled.js';
import { type Cost, introspectionLimit, type LimitedSchema, operationCost } from './cost.js';
import { blameArgument, nameKeys } from './errors.js';
import { beyond, dropTokens, findExceededLimit, fragmentsOf, type Limits, MAX_ERRORS, rootFieldsOf } from './limits.js';
import { type ReadVariables, variablesReader } from './nodes.js';

/** A document after parsing and validation. `tree` is null where it is not valid. */
export interface ReadDocument {
  readonly text: string;
  readonly tree: DocumentNode | null;
  readonly errors: readonly GraphQLError[];
  /** The schema for which it was read. */
  readonly on: LimitedSchema;
  /** The operation with this name, or the only one. Null where there is none. */
  operation(name: string | undefined): KnownOperation | null;
  /** All its operations. */
  operations(): readonly KnownOperation[];
  /** Bounds of its operations that are kept, compiled or as an answer. */
  readonly compiled: CompiledSize;
}

/** An operation of a valid document, with what is computed once for all its executions. */
export interface KnownOperation {
  readonly node: OperationDefinitionNode;
  /** The schema that executes it: the shown one, if it asks what that is. GraphQL.js tells of the schema that executes an operation. */
  readonly schema: GraphQLSchema;
  /** Null where it has none, or one that could be a secret or an address. */
  readonly loggedName: string | null;
  readonly cost: Cost;
  /** The most that it may cost. */
  readonly costLimit: number;
  /** The cost of its largest event; null if it is no subscription. */
  readonly largestCost: Cost | null;
  readonly readVariables: ReadVariables;
  /** The compiled operation, once it has been executed often enough. Introspection without variables has one answer, which is kept. */
  readonly run: Run | null;
  /** Counts an execution without an error. Returns true where it has just set `run`. */
  countExecution(body: string): boolean;
  /** Compiles it before it has been executed. */
  compile(): void;
}

/** An operation is compiled after this many executions without an error. Most operations never come again. */
const COMPILED_AFTER = 3;
/** A fragment is compiled for each spread, so an operation may have more fields than its document has tokens. */
const FIELDS_PER_TOKEN = 2;
/** A longer name could contain a hash of a secret. */
const LONGEST_LOGGED_NAME = 60;

/** A subscription whose field is left out has no events, and GraphQL.js fails. Version 17 has this rule of the specification (5.2.4.1). */
function noConditionsOnSubscriptions(context: ValidationContext): ASTVisitor {
  return {
    Directive(node) {
      if (context.getParentType()?.name !== 'Subscription') return;
      context.reportError(
        new GraphQLError('A subscription must not use @skip or @include for its field.', { nodes: node }),
      );
    },
  };
}
const RULES = [...specifiedRules, noConditionsOnSubscriptions];

const NOTHING: CompiledSize = { fields: 0, most: 0, answers: 0 };

/** Parses a document, checks it against the limits and validates it. Never throws: `errors` has what is wrong. */
export function readDocument(on: LimitedSchema, text: string): ReadDocument {
  const { schema, limits } = on;
  const none = { text, tree: null, on, operation: () => null, operations: () => [], compiled: NOTHING };
  const refused = (...errors: GraphQLError[]) => ({ ...none, errors });
  if (text.length > limits.characters) return refused(beyond('characters', text.length, limits));
  if (text.trim() === '') return refused(new GraphQLError('query: got an empty document, expected an operation.'));
  const lines = text.match(/\r\n|\n|\r/g)?.length ?? 0;
  if (lines > limits.lines) return refused(beyond('lines', lines, limits));
  try {
    const tree = parse(text, { maxTokens: limits.tokens });
    const exceeded = findExceededLimit(tree, limits);
    if (exceeded !== null) return refused(exceeded);
    const errors = validate(schema, tree, RULES, { maxErrors: MAX_ERRORS })
      .map((error) => nameKeys(schema, error))
      .map((error) => withoutNodes(error, tree));
    if (errors.length > 0) return refused(...errors);
    dropTokens(tree);
    const compiled = { ...NOTHING, most: FIELDS_PER_TOKEN * (tree.tokenCount ?? 0) };
    const operation = knownOperations(on, tree, compiled);
    const operations = () =>
      tree.definitions.flatMap((node) => (node.kind === 'OperationDefinition' && operation(node.name?.value)) || []);
    return { text, tree, errors, on, compiled, operation, operations };
  } catch (error) {
    if (error instanceof GraphQLError) return refused(explain(error, limits));
    // The parser and the validator recurse as deep as lists and objects nest, until the stack is full.
    if (error instanceof RangeError) return refused(beyond('depth', 'too many to follow', limits));
    throw error;
  }
}

/** Names the limit where the parser found too many tokens. It reports that only by this text; "more that" is its own spelling. */
function explain(error: GraphQLError, limits: Limits): GraphQLError {
  return error.message.includes(`more that ${limits.tokens} tokens`) ? beyond('tokens', 'more', limits) : error;
}

/** A copy of an error with its positions and its argument, but without the nodes, which refer to all tokens, and so to the whole tree. */
function withoutNodes(error: GraphQLError, tree: DocumentNode): GraphQLError {
  const { message, source, positions } = error;
  const extensions = blameArgument(tree, error);
  return new GraphQLError(message, { source: source ?? null, positions: positions ?? null, extensions });
}

function knownOperations(on: LimitedSchema, tree: DocumentNode, compiled: CompiledSize): ReadDocument['operation'] {
  const operations = new Map<OperationDefinitionNode, KnownOperation>();
  return (name) => {
    const node = getOperationAST(tree, name);
    // Yoga refuses a kind of operation that the schema does not have.
    if (!node || !on.schema.getRootType(node.operation)) return null;
    let operation = operations.get(node);
    if (operation === undefined) {
      operation = knownOperation(on, tree, node, compiled);
      operations.set(node, operation);
    }
    return operation;
  };
}

function knownOperation(
  on: LimitedSchema,
  tree: DocumentNode,
  node: OperationDefinitionNode,
  compiled: CompiledSize,
): KnownOperation {
  const { schema } = on;
  let executions = 0;
  const roots = rootFieldsOf(node, fragmentsOf(tree)).map(({ name }) => name.value);
  const isIntrospection = roots.every((name) => name.startsWith('__'));
  const isConstant = isIntrospection && !node.variableDefinitions?.length;
  const operation = {
    node,
    schema: roots.includes('__schema') || roots.includes('__type') ? on.shown : schema,
    loggedName: loggedNameOf(node),
    cost: operationCost(on, tree, node),
    costLimit: isIntrospection ? introspectionLimit(on) : on.limits.cost,
    largestCost: node.operation === 'subscription' ? operationCost(on, tree, node, true) : null,
    readVariables: variablesReader(schema, node.variableDefinitions ?? []),
    run: null as Run | null,
    countExecution(body: string): boolean {
      executions += 1;
      if (operation.run !== null) return false;
      if (isConstant) {
        operation.run = async () => ({ body });
        compiled.answers += body.length;
      } else if (executions === COMPILED_AFTER) operation.run = compile(schema, tree, node, compiled);
      return operation.run !== null;
    },
    compile(): void {
      operation.run ??= compile(schema, tree, node, compiled);
    },
  };
  return operation;
}

function loggedNameOf({ name }: OperationDefinitionNode): string | null {
  const text = name?.value ?? '';
  if (text === '' || text.length > LONGEST_LOGGED_NAME || redact(text) !== text) return null;
  // A copy: a part of the document would keep all of it in memory for as long as the name is kept.
  return Buffer.from(text).toString();
}
