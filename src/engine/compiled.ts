import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLEnumType,
  type GraphQLField,
  type GraphQLLeafType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNullableType,
  isEnumType,
  isLeafType,
  isListType,
  isNonNullType,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { isTooLargeAnswer, LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import { isSliceOver, nextSlice } from '../http/turns.js';
import { type EngineContext, type Outcome, rowCostOf } from './cost.js';
import { fragmentsOf } from './limits.js';
import { argumentsReader, objectTypeOf } from './nodes.js';

/*
 * Compiles operations that come again into closures: an execution does not walk the document, and writes JSON without building the result first.
 * Only the common case is compiled: GraphQL.js executes an operation with directives or introspection. It executes a query again after an error,
 * a forbidden null, or a promise below the root, so the wording of errors stays in one place. A mutation is compiled if it has one root field, and
 * is never executed again: GraphQL.js answers with what that field has returned or thrown.
 */

/** Executes an operation with its coerced variables. */
export type Run = (variables: Record<string, unknown>, context: EngineContext) => Promise<Compiled>;

/** The body of the answer; or that it would be too large; or that GraphQL.js has to answer, from the outcome where that is given. */
export type Compiled = { readonly body: string } | 'too large' | { readonly outcome: Outcome | undefined };

/** Bounds of the operations of a document that are kept. */
export interface CompiledSize {
  /** Compiled fields, and how many there may be. */
  fields: number;
  readonly most: number;
  /** Characters of answers. */
  answers: number;
}

/** The needs of the resolvers of one execution beside their parent. */
interface Execution {
  readonly context: EngineContext;
  readonly variables: Record<string, unknown>;
  /** The value that the root field of a mutation has returned, or its error. */
  outcome?: Outcome;
}

/** Reads a field of its parent. */
type Read = (parent: unknown, execution: Execution) => unknown;
/** Writes a value as JSON. Throws BAILOUT where the value does not fit its type. */
type Write = (value: unknown, execution: Execution) => string;

/** The field nodes of a selection that have one key in the answer. */
interface SelectedField {
  /** The key as JSON, with the brace or comma before it and the colon after it. */
  readonly key: string;
  readonly name: string;
  readonly nodes: readonly FieldNode[];
}

/** A field of the query itself, whose value may be a promise. */
interface RootField {
  readonly read: Read;
  readonly write: Write;
}

const BAILOUT = new Error('GraphQL.js has to execute this.');
const TOO_LARGE = new Error('The answer is too large.');

/** The definitions to which the selections of an operation refer. */
interface Source {
  readonly schema: GraphQLSchema;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Record<string, FragmentDefinitionNode>;
  readonly size: CompiledSize;
}

/** Compiles an operation of a valid document. Null where it uses something that is not compiled. */
export function compile(
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  size: CompiledSize,
): Run | null {
  if (operation.operation === 'subscription') return null;
  const fragments = Object.fromEntries(fragmentsOf(document));
  try {
    const type = schema.getRootType(operation.operation) as GraphQLObjectType;
    const source = { schema, operation, fragments, size };
    const fields = selectedFields(source, type, [operation.selectionSet]).map((field) =>
      compileRoot(source, type, field),
    );
    if (operation.operation === 'mutation' && fields.length > 1) return null;
    return (variables, context) => execute(fields, { context, variables });
  } catch (error) {
    if (error === BAILOUT) return null;
    throw error;
  }
}

async function execute(fields: readonly RootField[], execution: Execution): Promise<Compiled> {
  try {
    const values = await readAll(fields, execution);
    let body = '{"data":';
    for (const [index, { write }] of fields.entries()) {
      body += write(values[index], execution);
      if (body.length > LARGEST_ANSWER_BYTES) throw TOO_LARGE;
      if (index + 1 < fields.length && isSliceOver()) await nextSlice(execution.context.project);
    }
    body += '}}';
    return isTooLargeAnswer(body) ? 'too large' : { body };
  } catch (error) {
    // GraphQL.js will meet any other error again, and will answer and report it.
    return error === TOO_LARGE ? 'too large' : { outcome: execution.outcome };
  }
}

/** The values of root fields, of which nearly every query has one: to await it alone spares three promises. */
async function readAll(fields: readonly RootField[], execution: Execution): Promise<unknown[]> {
  const [first] = fields;
  if (fields.length === 1 && first !== undefined) return [await first.read(undefined, execution)];
  // Async functions, so that a resolver that throws does not leave the promise of another without a handler.
  return Promise.all(fields.map(async ({ read }) => read(undefined, execution)));
}

/** The fields that an object has in the answer, in its order. */
function selectedFields(
  source: Source,
  type: GraphQLObjectType,
  selections: readonly SelectionSetNode[],
): SelectedField[] {
  const selected = new Map<string, FieldNode[]>();
  const visited = new Set<string>();
  for (const selection of selections) collectFields(source, type, selection, selected, visited);
  source.size.fields += selected.size;
  if (source.size.fields > source.size.most) throw BAILOUT;
  return [...selected].map(([key, nodes], place) => ({
    key: `${place === 0 ? '{' : ','}${JSON.stringify(key)}:`,
    name: (nodes[0] as FieldNode).name.value,
    nodes,
  }));
}

function compileRoot(source: Source, type: GraphQLObjectType, selected: SelectedField): RootField {
  if (selected.name === '__typename') return { read: () => undefined, write: writeTypename(type, selected) };
  const field = fieldOf(type, selected);
  const write = compileValue(source, field.type, selected.nodes);
  return {
    read: readRoot(source, type, field, selected),
    write: (value, execution) => selected.key + write(value, execution),
  };
}

/** Writes a field of its parent, with its key. One function, because a list calls it for each field of each item. */
function compileField(source: Source, type: GraphQLObjectType, selected: SelectedField): Write {
  const { key, name, nodes } = selected;
  if (name === '__typename') return writeTypename(type, selected);
  const field = fieldOf(type, selected);
  const read = readBelow(field, nodes);
  if (isLeafType(getNullableType(field.type))) return writeLeaf(key, field.type, read);
  const write = compileValue(source, field.type, nodes);
  return (parent, execution) => key + write(read(parent, execution), execution);
}

function writeTypename(type: GraphQLObjectType, { key }: SelectedField): Write {
  const text = `${key}"${type.name}"`;
  return () => text;
}

function fieldOf(type: GraphQLObjectType, { name }: SelectedField): Field {
  // Introspection.
  return type.getFields()[name] ?? bailOut();
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
  { schema, operation, fragments }: Source,
  parentType: GraphQLObjectType,
  field: Field,
  { nodes: fieldNodes }: SelectedField,
): Read {
  const { resolve, name: fieldName, type: returnType } = field;
  if (resolve === undefined) throw BAILOUT;
  const node = fieldNodes[0] as FieldNode;
  const path = { prev: undefined, key: (node.alias ?? node.name).value, typename: parentType.name };
  const readArguments = argumentsReader(field, node);
  const fixed = { fieldName, fieldNodes, returnType, parentType, path, schema, fragments, operation };
  const isMutation = operation.operation === 'mutation';
  return (_parent, execution) => {
    const { context, variables: variableValues } = execution;
    const info: GraphQLResolveInfo = { ...fixed, rootValue: undefined, variableValues };
    const args = readArguments(variableValues);
    const value = () => resolve(undefined, args, context, info);
    return isMutation ? keepOutcome(execution, value) : value();
  };
}

async function keepOutcome(execution: Execution, work: () => unknown): Promise<unknown> {
  try {
    const value = await work();
    execution.outcome = { value };
    return value;
  } catch (error) {
    execution.outcome = { error };
    throw error;
  }
}

/** Reads any other field: a property, or a resolver without arguments that returns at once. */
function readBelow(field: Field, nodes: readonly FieldNode[]): Read {
  const { resolve, name } = field;
  if (resolve === undefined) return (parent) => (parent as Record<string, unknown>)[name];
  if (nodes.some((node) => node.arguments?.length)) throw BAILOUT;
  // Below the root only the charge for rows uses `info`, and of it only the nodes.
  if (resolve.length > 3 && rowCostOf(nodes[0] as FieldNode) === undefined) throw BAILOUT;
  const info = { fieldNodes: nodes } as unknown as GraphQLResolveInfo;
  return (parent, { context }) => {
    const value = resolve(parent, {}, context, info);
    if (!(value instanceof Promise)) return value;
    // It is no longer needed, and its failure must not end the process.
    value.catch(() => undefined);
    throw BAILOUT;
  };
}

function compileValue(source: Source, type: GraphQLOutputType, nodes: readonly FieldNode[]): Write {
  if (isLeafType(getNullableType(type))) return writeLeaf('', type, (value) => value);
  const write = compilePresent(source, getNullableType(type), nodes);
  return (value, execution) => (value == null ? writeNull('', type) : write(value, execution));
}

/** Writes a list or an object that is not null. */
function compilePresent(source: Source, type: GraphQLOutputType, nodes: readonly FieldNode[]): Write {
  if (isListType(type)) return writeList(compileValue(source, type.ofType, nodes));
  const objectType = objectTypeOf(type);
  if (objectType === null || objectType.isTypeOf) throw BAILOUT;
  const selections = nodes.flatMap((node) => node.selectionSet ?? []);
  const fields = selectedFields(source, objectType, selections);
  return writeObject(fields.map((field) => compileField(source, objectType, field)));
}

/** Characters that JSON escapes: quotes, backslashes, controls, and halves of surrogate pairs. */
const ESCAPED = /["\\\p{Cc}\p{Cs}]/u;

/** Writes a leaf behind its key. Numeric ids, instants of this service and texts without escapes only need quotes; others go through `serialize`. */
function writeLeaf(key: string, returned: GraphQLOutputType, read: Read): Write {
  const type = getNullableType(returned) as GraphQLLeafType;
  if (isEnumType(type)) return writeEnum(key, returned, read);
  const start = `${key}"`;
  const other = (value: unknown) => {
    if (value == null) return writeNull(key, returned);
    return key + (JSON.stringify(type.serialize(value)) ?? bailOut());
  };
  switch (type.name) {
    case 'ID':
      return (parent, execution) => {
        const value = read(parent, execution);
        return Number.isSafeInteger(value) ? `${start}${value}"` : other(value);
      };
    case 'DateTime':
      return (parent, execution) => {
        const value = read(parent, execution);
        return typeof value === 'string' ? `${start}${value}"` : other(value);
      };
    case 'String':
      return (parent, execution) => {
        const value = read(parent, execution);
        return typeof value === 'string' && !ESCAPED.test(value) ? `${start}${value}"` : other(value);
      };
    default:
      return (parent, execution) => other(read(parent, execution));
  }
}

/** Enums have few values: to compare a text with each of them takes less time than to hash it for a Map. */
function writeEnum(key: string, returned: GraphQLOutputType, read: Read): Write {
  const members = (getNullableType(returned) as GraphQLEnumType).getValues();
  const values = members.map(({ value }) => value);
  const texts = members.map(({ name }) => `"${name}"`);
  return (parent, execution) => {
    const value = read(parent, execution);
    for (let place = 0; place < values.length; place += 1) if (values[place] === value) return key + texts[place];
    return value == null ? writeNull(key, returned) : bailOut();
  };
}

function writeNull(key: string, returned: GraphQLOutputType): string {
  return isNonNullType(returned) ? bailOut() : `${key}null`;
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

function writeObject(fields: readonly Write[]): Write {
  return (value, execution) => {
    if (typeof value !== 'object' || value instanceof Error) throw BAILOUT;
    let text = '';
    for (const write of fields) text += write(value, execution);
    return `${text}}`;
  };
}

function bailOut(): never {
  throw BAILOUT;
}
