import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  getArgumentValues,
  isEnumType,
  isLeafType,
  isListType,
  isNonNullType,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { isSliceOver, nextSlice } from '../http/event-loop.js';
import { isTooLargeAnswer, LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import type { GraphQLContext } from './builder.js';
import { rowCostOf } from './cost.js';
import { fragmentsOf } from './limits.js';
import { schema } from './schema.js';
import { objectTypeOf } from './selection.js';

/**
 * Compiles queries that come again and again into closures. An execution then does not walk the document, and writes JSON
 * without building the result first.
 *
 * Only the common case is compiled. GraphQL.js executes a query with directives or introspection. If a compiled
 * execution meets an error, a null where none is allowed, or a promise below the root, GraphQL.js executes the query
 * again. A query has no effects, so this is safe, and the wording of errors stays in one place.
 */

/** Executes an operation with its coerced variables. */
export type Run = (variables: Record<string, unknown>, context: GraphQLContext) => Promise<Compiled>;

/** The body of the answer; or that it would be too large; or that GraphQL.js has to answer. */
export type Compiled = { readonly body: string } | 'too large' | 'bailout';

/** How many compiled fields the operations of a document have, and how many they may have. */
export interface CompiledSize {
  fields: number;
  readonly most: number;
}

/** What the resolvers of one execution need beside their parent. */
interface Execution {
  readonly context: GraphQLContext;
  readonly variables: Record<string, unknown>;
}

/** Reads a field of its parent. */
type Read = (parent: unknown, execution: Execution) => unknown;
/** Writes a value as JSON. Throws BAILOUT where the value does not fit its type. */
type Write = (value: unknown, execution: Execution) => string;

interface CompiledField {
  /** The key as JSON, with the brace or comma before it and the colon after it. */
  readonly key: string;
  readonly read: Read;
  readonly write: Write;
}

const BAILOUT = new Error('GraphQL.js has to execute this.');
const TOO_LARGE = new Error('The answer is too large.');

/** What the selections of an operation refer to. */
interface Source {
  readonly operation: OperationDefinitionNode;
  readonly fragments: Record<string, FragmentDefinitionNode>;
  readonly size: CompiledSize;
}

/** Compiles an operation of a valid document. Null where it uses something that is not compiled. */
export function compile(document: DocumentNode, operation: OperationDefinitionNode, size: CompiledSize): Run | null {
  if (operation.operation !== 'query') return null;
  const fragments = Object.fromEntries(fragmentsOf(document));
  try {
    const type = schema.getQueryType() as GraphQLObjectType;
    const fields = compileFields({ operation, fragments, size }, type, [operation.selectionSet], true);
    return (variables, context) => execute(fields, { context, variables });
  } catch (error) {
    if (error === BAILOUT) return null;
    throw error;
  }
}

async function execute(fields: readonly CompiledField[], execution: Execution): Promise<Compiled> {
  try {
    // Async functions, so that a resolver that throws does not leave the promise of another without a handler.
    const values = await Promise.all(fields.map(async ({ read }) => read(undefined, execution)));
    let body = '{"data":';
    for (const [index, { key, write }] of fields.entries()) {
      body += key + write(values[index], execution);
      if (body.length > LARGEST_ANSWER_BYTES) throw TOO_LARGE;
      if (index + 1 < fields.length && isSliceOver()) await nextSlice(execution.context.scope.appId);
    }
    return isTooLargeAnswer(body) ? 'too large' : { body: `${body}}}` };
  } catch (error) {
    // GraphQL.js will meet any other error again, and will answer and report it.
    return error === TOO_LARGE ? 'too large' : 'bailout';
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
  const visited = new Set<string>();
  for (const selection of selections) collectFields(source, type, selection, nodes, visited);
  source.size.fields += nodes.size;
  if (source.size.fields > source.size.most) throw BAILOUT;
  return [...nodes].map(([key, alike], place) => {
    const name = (alike[0] as FieldNode).name.value;
    const named = { key: `${place === 0 ? '{' : ','}${JSON.stringify(key)}:` };
    if (name === '__typename') {
      const text = JSON.stringify(type.name);
      return { ...named, read: () => undefined, write: () => text };
    }
    const field = type.getFields()[name];
    // Introspection.
    if (field === undefined) throw BAILOUT;
    const read = isRoot ? readRoot(source, type, field, alike, key) : readBelow(field, alike);
    return { ...named, read, write: compileValue(source, field.type, alike) };
  });
}

/** Adds the fields of a selection to `nodes`, by their key in the answer. Visits fragments once, like GraphQL.js. */
function collectFields(
  source: Source,
  type: GraphQLObjectType,
  { selections }: SelectionSetNode,
  nodes: Map<string, FieldNode[]>,
  visited: Set<string>,
): void {
  for (const selection of selections) {
    if (selection.directives?.length) throw BAILOUT;
    if (selection.kind === 'Field') {
      const key = (selection.alias ?? selection.name).value;
      const alike = nodes.get(key);
      if (alike === undefined) nodes.set(key, [selection]);
      else alike.push(selection);
      continue;
    }
    const name = selection.kind === 'FragmentSpread' ? selection.name.value : null;
    if (name !== null && visited.has(name)) continue;
    if (name !== null) visited.add(name);
    const fragment = selection.kind === 'InlineFragment' ? selection : source.fragments[selection.name.value];
    const condition = fragment?.typeCondition?.name.value ?? type.name;
    if (fragment === undefined || condition !== type.name) throw BAILOUT;
    collectFields(source, type, fragment.selectionSet, nodes, visited);
  }
}

type Field = GraphQLField<unknown, unknown>;

/** Reads a root field, which may have arguments and may be a promise. */
function readRoot(
  { operation, fragments }: Source,
  parentType: GraphQLObjectType,
  field: Field,
  fieldNodes: readonly FieldNode[],
  key: string,
): Read {
  const { resolve, name: fieldName, type: returnType } = field;
  if (resolve === undefined) throw BAILOUT;
  const path = { prev: undefined, key, typename: parentType.name };
  const fixed = { fieldName, fieldNodes, returnType, parentType, path, schema, fragments, operation };
  return (_parent, { context, variables: variableValues }) => {
    const args = getArgumentValues(field, fieldNodes[0] as FieldNode, variableValues);
    const info: GraphQLResolveInfo = { ...fixed, rootValue: undefined, variableValues };
    return resolve(undefined, args, context, info);
  };
}

/** Reads any other field: a property, or a resolver without arguments that returns at once. */
function readBelow(field: Field, nodes: readonly FieldNode[]): Read {
  const { resolve, name } = field;
  if (resolve === undefined) return (parent) => (parent as Record<string, unknown>)[name];
  if (nodes.some((node) => node.arguments?.length)) throw BAILOUT;
  // Below the root only the charge for rows (rows.ts) uses `info`, and of it only the nodes.
  if (resolve.length > 3 && rowCostOf(nodes[0] as FieldNode) === undefined) throw BAILOUT;
  const info = { fieldNodes: nodes } as unknown as GraphQLResolveInfo;
  return (parent, { context }) => {
    const value = resolve(parent, {}, context, info);
    if (value instanceof Promise) throw ignored(value);
    return value;
  };
}

/** Ignores the outcome of a promise that is no longer needed, so that its failure does not end the process. */
function ignored(promise: Promise<unknown>): Error {
  promise.catch(() => undefined);
  return BAILOUT;
}

function compileValue(source: Source, type: GraphQLOutputType, nodes: readonly FieldNode[]): Write {
  if (isNonNullType(type)) {
    const write = compilePresent(source, type.ofType, nodes);
    return (value, execution) => (value == null ? bailOut() : write(value, execution));
  }
  const write = compilePresent(source, type, nodes);
  return (value, execution) => (value == null ? 'null' : write(value, execution));
}

/** Writes a value that is not null. */
function compilePresent(source: Source, type: GraphQLOutputType, nodes: readonly FieldNode[]): Write {
  if (isListType(type)) return writeList(compileValue(source, type.ofType, nodes));
  if (isEnumType(type)) {
    const names = new Map(type.getValues().map(({ name, value }) => [value, JSON.stringify(name)]));
    return (value) => names.get(value) ?? bailOut();
  }
  if (isLeafType(type)) return (value) => quote(type.serialize(value));
  const objectType = objectTypeOf(type);
  if (objectType === null || objectType.isTypeOf) throw BAILOUT;
  const selections = nodes.flatMap((node) => node.selectionSet ?? []);
  return writeObject(compileFields(source, objectType, selections, false));
}

function writeList(writeItem: Write): Write {
  return (value, execution) => {
    if (!Array.isArray(value)) throw BAILOUT;
    let text = '[';
    for (let place = 0; place < value.length; place += 1) {
      text += (place === 0 ? '' : ',') + writeItem(value[place], execution);
      if (text.length > LARGEST_ANSWER_BYTES) throw TOO_LARGE;
    }
    return `${text}]`;
  };
}

function writeObject(fields: readonly CompiledField[]): Write {
  return (value, execution) => {
    if (typeof value !== 'object' || value instanceof Error) throw BAILOUT;
    let text = '';
    for (const { key, read, write } of fields) text += key + write(read(value, execution), execution);
    return `${text}}`;
  };
}

/** Characters that JSON escapes: quotes, backslashes, controls, and halves of surrogate pairs. */
const ESCAPED = /["\\\p{Cc}\p{Cs}]/u;

/** A serialized leaf as JSON. Most are plain strings, and quoting these is faster than JSON.stringify. */
function quote(leaf: unknown): string {
  if (typeof leaf === 'string') return ESCAPED.test(leaf) ? JSON.stringify(leaf) : `"${leaf}"`;
  return JSON.stringify(leaf) ?? bailOut();
}

function bailOut(): never {
  throw BAILOUT;
}
