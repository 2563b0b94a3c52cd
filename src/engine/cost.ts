import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  type GraphQLFieldResolver,
  type GraphQLObjectType,
  type GraphQLSchema,
  getIntrospectionQuery,
  getNullableType,
  isListType,
  isObjectType,
  type OperationDefinitionNode,
  parse,
  SchemaMetaFieldDef,
  type SelectionSetNode,
  TypeMetaFieldDef,
  TypeNameMetaFieldDef,
  type ValueNode,
} from 'graphql';
import type { ErrorTerms } from './errors.js';
import { fragmentsOf, type Limits, rootFieldsOf } from './limits.js';
import { nodeProperty, objectTypeOf, setDefinition } from './nodes.js';

/*
 * The cost of an operation, from the costs that the fields declare. graphql-armor knows neither variables nor rows, and walks a fragment again
 * at each spread: an amplification. graphql-query-complexity and Pothos's plugin walk the whole document on every execution.
 */

type Field = GraphQLField<unknown, unknown>;

/** The cost of a field beyond the 1 that every field costs. The field declares it in its `extensions`. */
export interface FieldCost {
  /** The cost of the field's own work in the database, without its rows and without the fields below it. */
  readonly surcharge?: number;
  /** The number of rows of the field's own list, or of the lists below it that do not declare it themselves. */
  readonly rows?: Rows;
  /** Fields of an input object that is an argument: what it costs if any of them is given. */
  readonly options?: {
    readonly of: readonly [argument: string, fields: readonly string[]];
    readonly surcharge: number;
  };
  /** A list in the arguments: where it is, and what each of its items costs. */
  readonly items?: { readonly of: readonly [argument: string, field?: string]; readonly each: number };
}

/** The number of rows of a list. */
export interface Rows {
  /** The arguments of which the first that is given says it: the number, or a list with an item a row. */
  readonly of?: readonly string[];
  /** An estimate where no argument says it. Rows beyond it are charged when they are read. */
  readonly otherwise: number;
  /** There are never more. */
  readonly atMost: number;
}

/** The cost of one unit of admission. */
export const COST_PER_UNIT = 50;

/** The `extensions` of a field that costs more than 1. */
export function costs(cost: FieldCost): { readonly cost: FieldCost } {
  return { cost };
}

/** The cost that a field declares; empty for a field that costs 1. */
export function declaredCost({ extensions }: Pick<GraphQLField<unknown, unknown>, 'extensions'>): FieldCost {
  return (extensions['cost'] as FieldCost | undefined) ?? {};
}

/** The value that a field has returned, or its error. */
export type Outcome = { readonly value: unknown } | { readonly error: unknown };

/** The engine's part of the context of a schema's resolvers. */
export interface EngineContext extends ErrorTerms {
  /** The App ID of the project whose turn of the event loop the work takes. */
  readonly project: string;
  /** True if the operation may take long: its fields begin in several turns of the event loop then. */
  readonly isLarge: boolean;
  /** Adds to the cost of the operation; false where it cannot be answered for that. */
  readonly charge: (cost: number) => boolean;
  /** The context of a second execution, charged only beyond the first. With an outcome it does not call the root field, which had that outcome. */
  readonly again: (outcome?: Outcome) => EngineContext;
  readonly outcome?: Outcome | undefined;
}

/** A schema, what its documents may have, and what its fields cost. */
export interface LimitedSchema {
  readonly schema: GraphQLSchema;
  /** The schema as introspection tells of it. */
  readonly shown: GraphQLSchema;
  readonly limits: Limits;
  readonly costOf: (field: Field) => FieldCost;
}

/** The numbers of these that introspection finds on average, below the list of all types or directives. */
const INTROSPECTED: Readonly<Record<string, number>> = {
  fields: 3,
  args: 1 / 3,
  inputFields: 1 / 2,
  enumValues: 1,
  interfaces: 0,
  possibleTypes: 0,
  ofType: 1 / 2,
};
/** GraphQL.js takes about twice as long for a field of introspection as for another one. */
const INTROSPECTION_COST = 2;

/** The cost of an operation with its coerced variables. */
export type Cost = (variables: Readonly<Record<string, unknown>>) => number;

/** The price of a list before it is read: its number of rows, and the cost of a row with all that is below it. */
export interface RowCost {
  readonly rows: number | Cost;
  readonly perRow: number;
}

/** Set when the cost of its operation is computed, before anything is executed. */
const rowCosts = nodeProperty<FieldNode, RowCost>('cost of a row');

/** The price of this field if it is a list that declares its rows. */
export const rowCostOf = rowCosts.get;

/**
 * The cost of a valid operation with the variables of a request. A field costs 1. A list multiplies what is below it by the rows it may have, at
 * least by one. Totals, searches and writes cost more. Directives are ignored, so a field that `@skip` leaves out is counted.
 * The document and each fragment are walked once, here, into a sum with one term for each root field whose rows depend on variables.
 * With `isLargest` every list has as many rows as it ever can, instead of an estimate.
 */
export function operationCost(
  on: Pick<LimitedSchema, 'schema' | 'shown' | 'costOf'>,
  document: DocumentNode,
  operation: OperationDefinitionNode,
  isLargest = false,
): Cost {
  const fragments = fragmentsOf(document);
  const type = on.schema.getRootType(operation.operation) as GraphQLObjectType;
  const walk = createCostWalk(on, fragments, isLargest);
  let fixed = 0;
  const varying: Cost[] = [];
  const add = (count: number | Cost, cost: number) => {
    if (typeof count === 'number') fixed += count * cost;
    else varying.push((variables) => count(variables) * cost);
  };
  for (const node of rootFieldsOf(operation, fragments)) {
    const { once, perRow, field, rows } = walk(type, node);
    fixed += once;
    add(rows ?? 1, perRow);
    const { items, options } = on.costOf(field);
    if (options !== undefined) add(readOptions(node, options.of), options.surcharge);
    if (items !== undefined) add(readItems(node, items.of), items.each);
  }
  return (variables) => Math.ceil(varying.reduce((cost, term) => cost + term(variables), fixed));
}

/** What the introspection query of common tools may ask for. */
const INTROSPECTION = {
  descriptions: true,
  schemaDescription: true,
  specifiedByUrl: true,
  directiveIsRepeatable: true,
  inputValueDeprecation: true,
  oneOf: true,
};
/** How much more than that query an operation of introspection may cost. */
const INTROSPECTION_ROOM = 1.25;
const introspectionLimits = new WeakMap<LimitedSchema, number>();

/**
 * The most that an operation may cost that asks for nothing but introspection. It grows with the schema: tools send one query, and it must not be
 * refused because there are more types.
 */
export function introspectionLimit(on: LimitedSchema): number {
  let limit = introspectionLimits.get(on);
  if (limit === undefined) {
    const document = parse(getIntrospectionQuery(INTROSPECTION));
    const cost = operationCost(on, document, document.definitions[0] as OperationDefinitionNode)({});
    limit = Math.max(on.limits.cost, Math.ceil(INTROSPECTION_ROOM * cost));
    introspectionLimits.set(on, limit);
  }
  return limit;
}

/** An empty list must not make what is below it free: the document is still checked and compiled. */
function atLeastOne(rows: number): number {
  return Math.max(rows, 1);
}

/** The cost that is paid once, and the cost for each row of a list whose length a field above it gives. */
interface CostParts {
  once: number;
  perRow: number;
}

/** Computes the cost of fields with all that is below them. Walks each fragment once, however often it is spread. */
function createCostWalk(
  { shown, costOf }: Pick<LimitedSchema, 'shown' | 'costOf'>,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
  isLargest: boolean,
) {
  const costsOfFragments = new Map<string, CostParts>();
  /** True while the walk is below the list of all types or directives. */
  let isOfAll = false;

  /** Below the root, variables are not read: the largest length counts where one gives it. */
  const rowsOf = (field: Field, node: FieldNode, rows: Rows, isRoot: boolean): number | Cost => {
    if (rows.of === undefined) return atLeastOne(isLargest ? rows.atMost : rows.otherwise);
    const length = readRows(field, node, rows.of, rows);
    return isRoot || typeof length === 'number' ? length : rows.atMost;
  };

  const costOfField = (parent: GraphQLObjectType, node: FieldNode, isRoot: boolean) => {
    const field = fieldOf(parent, node.name.value);
    setDefinition(node, field);
    const { surcharge = 0, rows: declared }: FieldCost = parent.name.startsWith('__') ? {} : costOf(field);
    const rows =
      declared === undefined ? introspectedRows(shown, parent, field, isOfAll) : rowsOf(field, node, declared, isRoot);
    const type = objectTypeOf(field.type);
    const isMeta = parent.name.startsWith('__');
    const isList = isListType(getNullableType(field.type)) || (isMeta && field.name === 'ofType');
    const wasOfAll = isOfAll;
    isOfAll ||= isList && parent.name === '__Schema';
    const below = node.selectionSet && type ? costOfSelections(type, node.selectionSet) : FREE;
    isOfAll = wasOfAll;
    const perRow = isList ? below.once + below.perRow : below.perRow;
    if (isList && declared !== undefined && rows !== undefined && !isLargest) rowCosts.set(node, { rows, perRow });
    const own = isMeta ? INTROSPECTION_COST : 1;
    return { field, rows, once: own + surcharge + (isList ? 0 : below.once), perRow };
  };

  const costOfSelections = (type: GraphQLObjectType, { selections }: SelectionSetNode): CostParts => {
    const sum = { once: 0, perRow: 0 };
    const add = (once: number, perRow: number) => {
      sum.once += once;
      sum.perRow += perRow;
    };
    for (const selection of selections) {
      if (selection.kind === 'Field') {
        const { once, perRow, rows } = costOfField(type, selection, false);
        if (typeof rows === 'number') add(once + rows * perRow, 0);
        else add(once, perRow);
      } else {
        const { once, perRow } =
          selection.kind === 'FragmentSpread'
            ? costOfFragment(type, selection.name.value)
            : costOfSelections(type, selection.selectionSet);
        add(once, perRow);
      }
    }
    return sum;
  };

  const costOfFragment = (type: GraphQLObjectType, name: string): CostParts => {
    const key = `${name} ${isOfAll}`;
    let parts = costsOfFragments.get(key);
    if (parts === undefined) {
      const fragment = fragments.get(name);
      parts = fragment ? costOfSelections(type, fragment.selectionSet) : FREE;
      costsOfFragments.set(key, parts);
    }
    return parts;
  };

  return (parent: GraphQLObjectType, node: FieldNode) => costOfField(parent, node, true);
}

const FREE: CostParts = { once: 0, perRow: 0 };
const META_FIELDS = [SchemaMetaFieldDef, TypeMetaFieldDef, TypeNameMetaFieldDef];

function fieldOf(parent: GraphQLObjectType, name: string): Field {
  return (parent.getFields()[name] ?? META_FIELDS.find((field) => field.name === name)) as Field;
}

/** The rows of a list of introspection and of `ofType`; undefined for any other field. Of one type, as many count as the largest type has fields. */
function introspectedRows(
  shown: GraphQLSchema,
  parent: GraphQLObjectType,
  { name, type }: Field,
  isOfAll: boolean,
): number | undefined {
  if (!parent.name.startsWith('__')) return undefined;
  if (isOfAll || name === 'ofType') return INTROSPECTED[name] ?? (isListType(getNullableType(type)) ? 1 : undefined);
  if (!isListType(getNullableType(type))) return undefined;
  const types = Object.values(shown.getTypeMap());
  if (parent.name === '__Schema') return name === 'types' ? types.length : shown.getDirectives().length;
  return Math.max(...types.map((type) => (isObjectType(type) ? Object.keys(type.getFields()).length : 1)));
}

/** The rows for which the arguments of a field ask: a number, or a function of the variables if one of them decides. */
function readRows({ args }: Field, node: FieldNode, of: readonly string[], { otherwise, atMost }: Rows): number | Cost {
  const candidates = of.map((name) => {
    const isList = isListType(getNullableType(args.find((arg) => arg.name === name)?.type));
    return lengthOf(argumentAt(node, name), isList);
  });
  const read: Cost = (variables) => {
    for (const candidate of candidates) {
      const length = typeof candidate === 'function' ? candidate(variables) : candidate;
      if (length !== null) return Math.min(atLeastOne(length), atMost);
    }
    return atLeastOne(otherwise);
  };
  return candidates.some((candidate) => typeof candidate === 'function') ? read : read({});
}

/** The number of items of a list that is an argument, or a field of an argument. */
function readItems(node: FieldNode, [argument, field]: readonly [string, string?]): number | Cost {
  const length = lengthOf(argumentAt(node, argument, field), true) ?? 0;
  return typeof length === 'function' ? (variables) => length(variables) ?? 0 : length;
}

/** 1 if any of some fields of an input object is given, otherwise 0. */
function readOptions(node: FieldNode, [argument, fields]: readonly [string, readonly string[]]): Cost {
  const values = fields.map((field) => argumentAt(node, argument, field));
  return (variables) =>
    Number(values.some((value) => (typeof value === 'function' ? value(variables) != null : value !== null)));
}

type OfVariables<Value> = (variables: Readonly<Record<string, unknown>>) => Value;

/** The value of an argument, or of a field of it: null, a literal, or a function that reads it from the variables. */
function argumentAt(node: FieldNode, argument: string, field?: string): ValueNode | OfVariables<unknown> | null {
  let value = node.arguments?.find(({ name }) => name.value === argument)?.value;
  if (field !== undefined && value?.kind === 'Variable') {
    const { value: name } = value.name;
    return (variables) => (variables[name] as Record<string, unknown> | null | undefined)?.[field];
  }
  if (field !== undefined)
    value = value?.kind === 'ObjectValue' ? value.fields.find(({ name }) => name.value === field)?.value : undefined;
  if (value === undefined || value.kind === 'NullValue') return null;
  if (value.kind !== 'Variable') return value;
  const { value: name } = value.name;
  return (variables) => variables[name];
}

/** The length or the number that is given; null for none. */
function lengthOf(
  argument: ReturnType<typeof argumentAt>,
  isList: boolean,
): number | OfVariables<number | null> | null {
  if (argument === null) return null;
  if (typeof argument === 'function')
    return (variables) => {
      const value = argument(variables);
      if (Array.isArray(value)) return value.length;
      return typeof value === 'number' ? value : null;
    };
  if (argument.kind === 'ListValue') return argument.values.length;
  // One value where a list is wanted is a list of it.
  return isList || argument.kind !== 'IntValue' ? 1 : Number(argument.value);
}

/**
 * Makes the resolver of a list that declares its rows charge for them. The operation pays before it starts for the rows that its arguments ask
 * for, or for an estimate. Each row beyond that is charged as soon as it is read, before it is answered.
 */
export function chargingForRows<Context extends { readonly charge: (cost: number) => boolean }>(
  resolve: GraphQLFieldResolver<unknown, Context>,
): GraphQLFieldResolver<unknown, Context> {
  return (parent, args, context, info) => {
    const charged = (list: unknown): unknown => {
      const rowsRead = countRows(list);
      let cost = 0;
      for (const node of info.fieldNodes) {
        const paid = rowCostOf(node);
        if (paid === undefined) continue;
        const rows = typeof paid.rows === 'number' ? paid.rows : paid.rows(info.variableValues);
        cost += (rowsRead - rows) * paid.perRow;
      }
      // The operation is refused, so the fields of this list need not be resolved.
      return cost > 0 && !context.charge(cost) ? [] : list;
    };
    const list = resolve(parent, args, context, info);
    return list instanceof Promise ? list.then(charged) : charged(list);
  };
}

/** The rows of a list, or of the lists in it. */
function countRows(list: unknown): number {
  if (!Array.isArray(list)) return 0;
  return Array.isArray(list[0]) ? list.reduce<number>((rows, item) => rows + countRows(item), 0) : list.length;
}
