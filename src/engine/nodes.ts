import {
  type ASTNode,
  type FieldNode,
  GraphQLError,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getArgumentValues,
  getNamedType,
  getNullableType,
  getVariableValues,
  isEnumType,
  isIntrospectionType,
  isLeafType,
  isNonNullType,
  isObjectType,
  isUnionType,
  type SelectionSetNode,
  typeFromAST,
  type ValueNode,
  type VariableDefinitionNode,
  valueFromAST,
} from 'graphql';
import { AppError } from '../errors.js';
import { MAX_ERRORS } from './limits.js';

/* Keeps what is computed once for a node of a document: types and selections of its fields, its variables, its arguments. */

/** Keeps a value that is computed once for a node on the node itself: once a WeakMap is old, a scavenge counts its keys as alive (docs/decisions/garbage.md). */
export function nodeProperty<Node extends ASTNode, Value>(description: string) {
  const key = Symbol(description);
  type Noted = Node & { [key]?: Value };
  return {
    get: (node: Node): Value | undefined => (node as Noted)[key],
    set: (node: Node, value: Value): void => {
      (node as Noted)[key] = value;
    },
  };
}

const definitions = nodeProperty<FieldNode, GraphQLField<unknown, unknown>>('definition');

/** Notes the field of the schema that a node asks for (cost.ts). */
export const setDefinition = definitions.set;
/** The field of the schema that a node of a valid operation asks for. */
export const definitionOf = definitions.get;

/** The object type that a field returns; null for a leaf. The only union, `_Entity`, has one member, which stands for it. */
export function objectTypeOf(returned: GraphQLOutputType): GraphQLObjectType | null {
  const type = getNamedType(returned);
  if (!isUnionType(type)) return isObjectType(type) ? type : null;
  const [member, ...others] = type.getTypes();
  if (member === undefined || others.length > 0) throw new Error(`${type.name} has several members.`);
  return member;
}

/** True if a field of the schema, written `Type.field`, is selected anywhere below the resolved one, also in a fragment or with `@skip`. */
export function selects({ fieldNodes, returnType, fragments }: GraphQLResolveInfo, coordinate: string): boolean {
  const type = objectTypeOf(returnType);
  return fieldNodes.some(
    ({ selectionSet }) => selectionSet && coordinatesBelow(type, selectionSet, fragments).has(coordinate),
  );
}

/** Each selection is walked once for its document, however often it is spread and executed. */
const fieldsBelow = nodeProperty<SelectionSetNode, ReadonlySet<string>>('fields below');

/** All fields below a selection of a type, as `Type.field`. There are no more than the schema has. */
function coordinatesBelow(
  type: GraphQLObjectType | null,
  selectionSet: SelectionSetNode,
  fragments: GraphQLResolveInfo['fragments'],
): ReadonlySet<string> {
  const done = fieldsBelow.get(selectionSet);
  if (done !== undefined) return done;
  const coordinates = new Set<string>();
  fieldsBelow.set(selectionSet, coordinates);
  for (const selection of selectionSet.selections) {
    const isField = selection.kind === 'Field';
    const field = isField && type !== null ? type.getFields()[selection.name.value] : undefined;
    if (field) coordinates.add(`${type?.name}.${field.name}`);
    const below =
      selection.kind === 'FragmentSpread' ? fragments[selection.name.value]?.selectionSet : selection.selectionSet;
    if (below === undefined || (isField && field === undefined)) continue;
    // A fragment is on the type itself: the schema has no interfaces.
    const typeBelow = field ? objectTypeOf(field.type) : type;
    for (const coordinate of coordinatesBelow(typeBelow, below, fragments)) coordinates.add(coordinate);
  }
  return coordinates;
}

/*
 * Most operations hand variables of scalars and enums to arguments as they are; other arguments are constants. These are read once here.
 * GraphQL.js reads them for each request, which takes 15 % of the CPU of a user over one connection and 5 % over 16
 * (2026-11-26, `node test/bench/cost.mjs --scenario 'GraphQL one user + accounts' --servers ours --builds PLAIN/dist`).
 * All else is left to GraphQL.js, and so is every error: the answers are its own.
 */

type Values = Record<string, unknown>;

/** Coerced variables, or why they cannot be. */
export type ReadVariables = (values: Values) => { coerced?: Values; errors?: readonly GraphQLError[] };

type Variable = NonNullable<ReturnType<typeof plainVariable>>;

/** A reader of the variables of an operation, which coerces them. */
export function variablesReader(schema: GraphQLSchema, definitions: readonly VariableDefinitionNode[]): ReadVariables {
  const variables = definitions.map((definition) => plainVariable(schema, definition));
  const isPlain = variables.every((variable) => variable !== null);
  return (values) => {
    const coerced = isPlain ? coercePlain(variables, values) : null;
    if (coerced !== null) return { coerced };
    return getVariableValues(schema, definitions, values, { maxErrors: MAX_ERRORS });
  };
}

/** Null for a variable with a default, of a list or of an input object. */
function plainVariable(schema: GraphQLSchema, { variable, type: node, defaultValue }: VariableDefinitionNode) {
  const type = typeFromAST(schema, node);
  const plain = getNullableType(type);
  if (defaultValue !== undefined || !isLeafType(plain)) return null;
  return { name: variable.name.value, type: plain, isNullable: !isNonNullType(type) };
}

/** Null where a value is missing or does not fit its type. */
function coercePlain(variables: readonly Variable[], values: Values): Values | null {
  const coerced: Values = {};
  for (const { name, type, isNullable } of variables) {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    if (value == null) {
      if (!isNullable) return null;
      if (value === null) coerced[name] = null;
      continue;
    }
    try {
      coerced[name] = type.parseValue(value);
    } catch {
      return null;
    }
    if (coerced[name] === undefined) return null;
  }
  return coerced;
}

/** Makes the errors of the enums of a schema say which values they accept. */
export function nameEnumValues(schema: GraphQLSchema): void {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isEnumType(type) || isIntrospectionType(type) || Object.hasOwn(type, 'parseValue')) continue;
    const accepted = ` Expected one of ${type
      .getValues()
      .map(({ name }) => name)
      .join(', ')}`;
    const named =
      <Args extends unknown[]>(read: (...args: Args) => unknown) =>
      (...args: Args) => {
        try {
          return read.apply(type, args);
        } catch (error) {
          if (!(error instanceof GraphQLError)) throw error;
          const isQuoted = error.nodes?.[0]?.kind === 'StringValue';
          const message = `${error.message}${accepted}${isQuoted ? ', without quotes' : ''}.`;
          throw new GraphQLError(message, { nodes: error.nodes ?? null });
        }
      };
    type.parseValue = named(type.parseValue);
    type.parseLiteral = named(type.parseLiteral);
  }
}

/** A reader of the arguments of a field from coerced variables. */
export function argumentsReader(field: GraphQLField<unknown, unknown>, node: FieldNode): (variables: Values) => Values {
  const slow = (variables: Values) => getArgumentValues(field, node, variables);
  const constants: Values = {};
  const names: (readonly [name: string, variable: string])[] = [];
  for (const { name, value } of node.arguments ?? []) {
    if (value.kind === 'Variable') names.push([name.value, value.name.value]);
    else constants[name.value] = constantOf(field, name.value, value);
  }
  const hasDefaults = field.args.some(({ defaultValue }) => defaultValue !== undefined);
  if (hasDefaults || Object.values(constants).includes(undefined)) return slow;
  return (variables) => {
    const values: Values = { ...constants };
    for (const [name, variable] of names) {
      if (!Object.hasOwn(variables, variable) || variables[variable] === null) return slow(variables);
      values[name] = variables[variable];
    }
    return values;
  };
}

/** The value of an argument that is a scalar or an enum in the document; undefined for any other. */
function constantOf({ args }: GraphQLField<unknown, unknown>, argument: string, value: ValueNode): unknown {
  const type = args.find(({ name }) => name === argument)?.type;
  return type !== undefined && isLeafType(getNullableType(type)) ? valueFromAST(value, type) : undefined;
}

/** A variable that stands in the arguments of a field, and the path to it, such as `input.email`. */
type Use = readonly [path: string, variable: string];

const uses = nodeProperty<FieldNode, readonly Use[]>('variables in arguments');

/** Refuses an argument, or a field of an input object, whose variable has no value: GraphQL takes it as absent, so a lost value would change the question. */
export function requireWrittenValues({ fieldNodes: [node], variableValues }: GraphQLResolveInfo): void {
  if (node === undefined) return;
  let written = uses.get(node);
  if (written === undefined) {
    written = (node.arguments ?? []).flatMap(({ name, value }) => usesIn(name.value, value));
    uses.set(node, written);
  }
  for (const [, variable] of written) {
    if (Object.hasOwn(variableValues, variable)) continue;
    throw lostValues(written.filter(([, name]) => !Object.hasOwn(variableValues, name)));
  }
}

function lostValues(lost: readonly Use[]): AppError {
  const said = lost.slice(0, MAX_ERRORS).map(([path, variable]) => {
    return `${path}: got no value for the variable $${variable}, expected one. If none is meant, leave ${path} out of the document.`;
  });
  return new AppError('BAD_USER_INPUT', said.join(' '));
}

function usesIn(path: string, value: ValueNode): Use[] {
  switch (value.kind) {
    case 'Variable':
      return [[path, value.name.value]];
    case 'ObjectValue':
      return value.fields.flatMap((field) => usesIn(`${path}.${field.name.value}`, field.value));
    case 'ListValue':
      return value.values.flatMap((item, place) => usesIn(`${path}[${place}]`, item));
    default:
      return [];
  }
}
