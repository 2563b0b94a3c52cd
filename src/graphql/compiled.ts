import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getArgumentValues,
  getOperationAST,
  getVariableValues,
  isEnumType,
  isLeafType,
  isListType,
  isNonNullType,
  isObjectType,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import type { GraphQLContext } from './builder.js';
import { findCost, fragmentsOf, LIMITS, REMEMBERED_TOKENS } from './limits.js';

/** What a request asks to be executed. */
export interface Operation {
  readonly query: string;
  readonly variables: Record<string, unknown> | undefined;
  readonly operationName: string | undefined;
}

/** Executions without an error after which a query is compiled, so that nobody pays for queries that do not come again. */
const COMPILED_AFTER = 3;
/** Queries that are remembered, also by the tokens of all together; the oldest is forgotten for a new one. */
const MAX_QUERIES = 1_000;
/** Longer texts cost more to keep than they save. */
const LONGEST_QUERY = 20_000;

/**
 * Queries that come again and again, compiled: that spares parsing and validating them, and their data is written as JSON
 * without being made first.
 *
 * Only the good case is compiled. Whatever is unusual about a query (directives, introspection), and every execution that
 * costs too much or meets an error, a null where none may be, or a promise below the root, is left to Yoga's executor: a query has no
 * effect, so it can be executed again, and there is one place where errors are worded.
 */
export function createCompiledQueries(schema: GraphQLSchema) {
  const queries = new Map<string, { executions: number; run: Run | null; readonly tokens: number }>();
  let tokens = 0;
  const forgetOldest = () => {
    for (const [key, query] of queries) {
      if (queries.size <= MAX_QUERIES && tokens <= REMEMBERED_TOKENS) return;
      queries.delete(key);
      tokens -= query.tokens;
    }
  };
  // A text may hold several operations.
  const keyOf = ({ query, operationName = '' }: Operation) => `${operationName} ${query}`;

  return {
    /** The body of the answer, or null where another is to execute the operation. */
    async execute(operation: Operation, context: GraphQLContext): Promise<string | null> {
      const run = queries.get(keyOf(operation))?.run;
      return run ? run(operation.variables ?? {}, context) : null;
    },

    /** To be told of every operation that was executed without an error. */
    learn(operation: Operation, document: DocumentNode): void {
      if (operation.query.length > LONGEST_QUERY) return;
      const key = keyOf(operation);
      let query = queries.get(key);
      if (query === undefined) {
        query = { executions: 0, run: null, tokens: document.tokenCount ?? LIMITS.tokens };
        queries.set(key, query);
        tokens += query.tokens;
        forgetOldest();
      }
      query.executions += 1;
      if (query.executions === COMPILED_AFTER) query.run = compile(schema, document, operation.operationName);
    },
  };
}

type Run = (variables: Record<string, unknown>, context: GraphQLContext) => Promise<string | null>;

/** One execution: what its resolvers need beside their parent. */
interface Execution {
  readonly context: GraphQLContext;
  readonly variables: Record<string, unknown>;
}

/** Reads a field of a parent. */
type Read = (parent: unknown, execution: Execution) => unknown;
/** Writes a value as JSON; throws UNUSUAL where it is not as it should be. */
type Write = (value: unknown, execution: Execution) => string;

interface CompiledField {
  /** As JSON, with what stands before and after it in its object. */
  readonly key: string;
  readonly read: Read;
  readonly write: Write;
}

const UNUSUAL = new Error('This is for the executor.');

/** What the selections of an operation refer to. */
interface Source {
  readonly schema: GraphQLSchema;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Record<string, FragmentDefinitionNode>;
}

/** A valid query, or null where it has something that is not compiled. */
export function compile(schema: GraphQLSchema, document: DocumentNode, operationName: string | undefined): Run | null {
  const operation = getOperationAST(document, operationName);
  if (operation?.operation !== 'query') return null;
  const fragments = Object.fromEntries(fragmentsOf(document));
  try {
    const type = schema.getQueryType() as GraphQLObjectType;
    const fields = compileFields({ schema, operation, fragments }, type, [operation.selectionSet], true);
    const cost = findCost(document, operation);
    return async (variables, context) => {
      const { coerced } = getVariableValues(schema, operation.variableDefinitions ?? [], variables, { maxErrors: 1 });
      if (coerced === undefined) return null;
      const costs = cost(coerced);
      if (costs > LIMITS.cost) return null;
      context.begin(operation, costs);
      return execute(fields, { context, variables: coerced });
    };
  } catch (error) {
    if (error === UNUSUAL) return null;
    throw error;
  }
}

async function execute(fields: readonly CompiledField[], execution: Execution): Promise<string | null> {
  try {
    // In functions of their own, so that one that throws leaves no other alone with its failure.
    const values = await Promise.all(fields.map(async ({ read }) => read(undefined, execution)));
    const texts = fields.map(({ key, write }, index) => key + write(values[index], execution));
    return `{"data":${texts.join('')}}}`;
  } catch {
    // Whatever it was comes up again where errors are answered and reported.
    return null;
  }
}

/** The fields of an object, in the order of the answer. */
function compileFields(
  source: Source,
  type: GraphQLObjectType,
  selections: readonly SelectionSetNode[],
  isRoot: boolean,
): CompiledField[] {
  const nodes = new Map<string, FieldNode[]>();
  for (const selection of selections) collectFields(source, type, selection, nodes);
  return [...nodes].map(([key, alike], place) => {
    const name = (alike[0] as FieldNode).name.value;
    const named = { key: `${place === 0 ? '{' : ','}${JSON.stringify(key)}:` };
    if (name === '__typename') {
      const text = JSON.stringify(type.name);
      return { ...named, read: () => undefined, write: () => text };
    }
    const field = type.getFields()[name];
    // Introspection.
    if (field === undefined) throw UNUSUAL;
    const read = isRoot ? readRoot(source, type, field, alike, key) : readBelow(field, alike);
    return { ...named, read, write: compileValue(source, field.type, alike) };
  });
}

/** Adds the fields of a selection to `nodes`, by their key in the answer. */
function collectFields(
  source: Source,
  type: GraphQLObjectType,
  { selections }: SelectionSetNode,
  nodes: Map<string, FieldNode[]>,
): void {
  for (const selection of selections) {
    if (selection.directives?.length) throw UNUSUAL;
    if (selection.kind === 'Field') {
      const key = (selection.alias ?? selection.name).value;
      nodes.set(key, [...(nodes.get(key) ?? []), selection]);
      continue;
    }
    const fragment = selection.kind === 'InlineFragment' ? selection : source.fragments[selection.name.value];
    const condition = fragment?.typeCondition?.name.value ?? type.name;
    if (fragment === undefined || condition !== type.name) throw UNUSUAL;
    collectFields(source, type, fragment.selectionSet, nodes);
  }
}

type Field = GraphQLField<unknown, unknown>;

/** A field of the query itself: it may have arguments and be a promise. */
function readRoot(
  { schema, operation, fragments }: Source,
  parentType: GraphQLObjectType,
  field: Field,
  fieldNodes: readonly FieldNode[],
  key: string,
): Read {
  const { resolve, name: fieldName, type: returnType } = field;
  if (resolve === undefined) throw UNUSUAL;
  const path = { prev: undefined, key, typename: parentType.name };
  const fixed = { fieldName, fieldNodes, returnType, parentType, path, schema, fragments, operation };
  return (_parent, { context, variables: variableValues }) => {
    const args = getArgumentValues(field, fieldNodes[0] as FieldNode, variableValues);
    const info: GraphQLResolveInfo = { ...fixed, rootValue: undefined, variableValues };
    return resolve(undefined, args, context, info);
  };
}

/** A field of anything else: a property, or a resolver without arguments that answers at once. */
function readBelow(field: Field, nodes: readonly FieldNode[]): Read {
  const { resolve, name } = field;
  if (resolve === undefined) return (parent) => (parent as Record<string, unknown>)[name];
  if (resolve.length > 3 || nodes.some((node) => node.arguments?.length)) throw UNUSUAL;
  // No resolver that takes no more than a context looks at what comes after it.
  const noInfo = undefined as unknown as GraphQLResolveInfo;
  return (parent, { context }) => {
    const value = resolve(parent, {}, context, noInfo);
    if (value instanceof Promise) throw abandoned(value);
    return value;
  };
}

/** Nobody waits for this promise any more; that it may fail is nobody's concern either. */
function abandoned(promise: Promise<unknown>): Error {
  promise.catch(() => undefined);
  return UNUSUAL;
}

function compileValue(source: Source, type: GraphQLOutputType, nodes: readonly FieldNode[]): Write {
  if (isNonNullType(type)) {
    const write = compilePresent(source, type.ofType, nodes);
    return (value, execution) => (value == null ? unusual() : write(value, execution));
  }
  const write = compilePresent(source, type, nodes);
  return (value, execution) => (value == null ? 'null' : write(value, execution));
}

/** A value that is not null. */
function compilePresent(source: Source, type: GraphQLOutputType, nodes: readonly FieldNode[]): Write {
  if (isListType(type)) return writeList(compileValue(source, type.ofType, nodes));
  if (isEnumType(type)) {
    const names = new Map(type.getValues().map(({ name, value }) => [value, JSON.stringify(name)]));
    return (value) => names.get(value) ?? unusual();
  }
  if (isLeafType(type)) return (value) => quote(type.serialize(value));
  if (!isObjectType(type) || type.isTypeOf) throw UNUSUAL;
  const selections = nodes.flatMap((node) => node.selectionSet ?? []);
  return writeObject(compileFields(source, type, selections, false));
}

function writeList(writeItem: Write): Write {
  return (value, execution) => {
    if (!Array.isArray(value)) throw UNUSUAL;
    let text = '[';
    for (let place = 0; place < value.length; place += 1) {
      text += (place === 0 ? '' : ',') + writeItem(value[place], execution);
    }
    return `${text}]`;
  };
}

function writeObject(fields: readonly CompiledField[]): Write {
  return (value, execution) => {
    if (typeof value !== 'object' || value instanceof Error) throw UNUSUAL;
    let text = '';
    for (const { key, read, write } of fields) text += key + write(read(value, execution), execution);
    return `${text}}`;
  };
}

/** What JSON writes otherwise than as it is: quotes, backslashes, controls, and halves of surrogate pairs. */
const ESCAPED = /["\\\p{Cc}\p{Cs}]/u;

/** A serialized leaf as JSON; most are plain strings, which are cheaper to quote than to stringify. */
function quote(leaf: unknown): string {
  if (typeof leaf === 'string') return ESCAPED.test(leaf) ? JSON.stringify(leaf) : `"${leaf}"`;
  return JSON.stringify(leaf) ?? unusual();
}

function unusual(): never {
  throw UNUSUAL;
}
