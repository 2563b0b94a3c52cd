import {
  type FieldNode,
  type GraphQLError,
  type GraphQLField,
  type GraphQLLeafType,
  getArgumentValues,
  getNullableType,
  getVariableValues,
  isLeafType,
  isNonNullType,
  typeFromAST,
  type ValueNode,
  type VariableDefinitionNode,
  valueFromAST,
} from 'graphql';
import { schema } from '../graphql/schema.js';
import { MAX_ERRORS } from './errors.js';

/*
 * Most operations have variables of scalars and enums, and hand them to arguments as they are; other arguments are constants. Types and
 * constants are read once here; for each request GraphQL.js reads all of them, which takes 3 % of the CPU of a user. Whatever is not plain is
 * left to GraphQL.js, and so is every error: the answers are its own.
 */

type Values = Record<string, unknown>;

/** Coerced variables, or why they cannot be. */
export type ReadVariables = (given: Values) => { coerced?: Values; errors?: readonly GraphQLError[] };

interface Variable {
  readonly name: string;
  readonly type: GraphQLLeafType;
  readonly isNullable: boolean;
}

/** What coerces the variables of an operation. */
export function variablesReader(definitions: readonly VariableDefinitionNode[]): ReadVariables {
  const variables = definitions.map(plainVariable);
  const isPlain = variables.every((variable) => variable !== null);
  return (given) => {
    const coerced = isPlain ? coercePlain(variables, given) : null;
    if (coerced !== null) return { coerced };
    return getVariableValues(schema, definitions, given, { maxErrors: MAX_ERRORS });
  };
}

/** Null for a variable with a default, of a list or of an input object. */
function plainVariable({ variable, type: node, defaultValue }: VariableDefinitionNode): Variable | null {
  const type = typeFromAST(schema, node);
  const plain = getNullableType(type);
  if (defaultValue !== undefined || !isLeafType(plain)) return null;
  return { name: variable.name.value, type: plain, isNullable: !isNonNullType(type) };
}

/** Null where a value is missing or does not fit its type. */
function coercePlain(variables: readonly Variable[], given: Values): Values | null {
  const coerced: Values = {};
  for (const { name, type, isNullable } of variables) {
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
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

/** What reads the arguments of a field from coerced variables. */
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
