import {
  type ArgumentNode,
  type ASTNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type GraphQLField,
  type GraphQLObjectType,
  getNamedType,
  getNullableType,
  getOperationAST,
  getVariableValues,
  isListType,
  isObjectType,
  type OperationDefinitionNode,
  SchemaMetaFieldDef,
  type SelectionSetNode,
  TypeMetaFieldDef,
  TypeNameMetaFieldDef,
} from 'graphql';
import { PAGE_SIZE } from '../services/filters.js';
import { schema } from './schema.js';
import { MAX_IDS } from './users.js';

/**
 * What one document may ask. All but the cost are of the document alone and are looked at once, before it is validated;
 * the cost sees the variables and is looked at before every execution.
 *
 * It is our own because nothing that is kept well does this: graphql-armor knows neither variables nor rows and follows
 * every spread of a fragment again, which is the very amplification; graphql-query-complexity and Pothos's plugin see
 * variables, but walk the whole document on every execution, which a compiled query does not even look at.
 */
export const LIMITS = {
  /** Of the text, before it is parsed: what is parsed is remembered. */
  characters: 50_000,
  tokens: 4_000,
  /** Fields within fields; the introspection that tools send has 15. */
  depth: 20,
  rootFields: 200,
  aliases: 250,
  directives: 50,
  /** Fragments, inline ones too, and the places where they are spread. */
  fragments: 200,
  cost: 20_000,
} as const;

/** Of all documents together that are remembered in one place, so that nobody fills the memory with theirs. */
export const REMEMBERED_TOKENS = 100_000;

const NAMES: Partial<Record<keyof typeof LIMITS, string>> = { rootFields: 'root fields' };

/** The sentence of a limit: its name, what arrived, what is accepted. */
export function excess(limit: keyof typeof LIMITS, arrived: number | string): string {
  return `${NAMES[limit] ?? limit}: got ${arrived}, expected at most ${LIMITS[limit]}.`;
}

/** A limit that a document is beyond, whatever its variables are; null where it keeps them all. It need not be valid. */
export function findExcess(document: DocumentNode): GraphQLError | null {
  const fragments = fragmentsOf(document);
  const depths = new Map<string, number>();
  const arrived = { aliases: 0, directives: 0, fragments: fragments.size, depth: 0, rootFields: 0 };

  const depthOf = ({ selections }: SelectionSetNode): number => {
    let deepest = 0;
    for (const selection of selections) {
      countDirectives(selection);
      if (selection.kind === 'Field') {
        if (selection.alias) arrived.aliases += 1;
        deepest = Math.max(deepest, 1 + (selection.selectionSet ? depthOf(selection.selectionSet) : 0));
        continue;
      }
      arrived.fragments += 1;
      const depth =
        selection.kind === 'InlineFragment' ? depthOf(selection.selectionSet) : depthOfFragment(selection.name.value);
      deepest = Math.max(deepest, depth);
    }
    return deepest;
  };
  const depthOfFragment = (name: string): number => {
    const known = depths.get(name);
    const fragment = fragments.get(name);
    if (known !== undefined || fragment === undefined) return known ?? 0;
    // For the time being, so that a fragment that spreads itself has an end; validation refuses it.
    depths.set(name, 0);
    const depth = depthOf(fragment.selectionSet);
    depths.set(name, depth);
    return depth;
  };
  const countDirectives = (node: ASTNode) => {
    if ('directives' in node) arrived.directives += node.directives?.length ?? 0;
  };

  for (const node of document.definitions) {
    countDirectives(node);
    if (node.kind === 'FragmentDefinition') depthOfFragment(node.name.value);
    if (node.kind !== 'OperationDefinition') continue;
    for (const variable of node.variableDefinitions ?? []) countDirectives(variable);
    arrived.depth = Math.max(arrived.depth, depthOf(node.selectionSet));
    arrived.rootFields = Math.max(arrived.rootFields, rootFieldsOf(node, fragments).length);
  }
  const names = ['depth', 'rootFields', 'aliases', 'directives', 'fragments'] as const;
  const beyond = names.find((name) => arrived[name] > LIMITS[name]);
  return beyond === undefined ? null : new GraphQLError(excess(beyond, arrived[beyond]));
}

/** Before the cost of one row or of what is below it: what a field asks of the database. */
const SURCHARGES = {
  /** An index is searched. */
  search: 10,
  /** A row is written, in a transaction of its own. */
  write: 100,
  /** Users are counted. */
  total: 200,
} as const;

/** Accounts are not counted beforehand; users have few, and never so many that it would matter for a page. */
const ACCOUNTS_PER_USER = 3;
/** An email or an address is that of one user nearly always. */
const USERS_PER_SEARCH = 3;
/** Other lists of introspection: a type has 3 fields on average, and a field less than one argument. */
const INTROSPECTED_PER_TYPE = 2;

interface FieldCost {
  readonly surcharge?: number;
  /** How many rows the lists of the answer have: the field's own list, or those below it that do not say it themselves. */
  readonly rows?: Rows;
}

/** A number, or what the first of some arguments says that is given; more than `atMost` is refused by the field itself. */
type Rows = number | { readonly of: readonly string[]; readonly otherwise: number; readonly atMost: number };

/** The fields that cost more than the 1 of every field. */
export const FIELD_COSTS: Readonly<Record<string, FieldCost>> = {
  'Query.user': { surcharge: SURCHARGES.search },
  'Query.users': {
    surcharge: SURCHARGES.search,
    rows: { of: ['first', 'last'], otherwise: PAGE_SIZE.default, atMost: PAGE_SIZE.max },
  },
  'UserConnection.totalCount': { surcharge: SURCHARGES.total },
  // It always has its total.
  'Query.userPage': {
    surcharge: SURCHARGES.search + SURCHARGES.total,
    rows: { of: ['limit'], otherwise: PAGE_SIZE.default, atMost: PAGE_SIZE.max },
  },
  'Query.userCount': { surcharge: SURCHARGES.total },
  'Query.searchUsers': { surcharge: SURCHARGES.search, rows: USERS_PER_SEARCH },
  'Query.usersByIds': { surcharge: SURCHARGES.search, rows: { of: ['ids'], otherwise: 0, atMost: MAX_IDS } },
  'Query.verifyWallet': { surcharge: SURCHARGES.search },
  'User.accounts': { rows: ACCOUNTS_PER_USER },
  'Mutation.deleteUser': { surcharge: SURCHARGES.write },
  'Mutation.recordLogin': { surcharge: SURCHARGES.write },
  '__Schema.types': { rows: Object.keys(schema.getTypeMap()).length },
};

/** The cost of an operation for its variables, as they are coerced. */
export type Cost = (variables: Readonly<Record<string, unknown>>) => number;

const costs = new WeakMap<DocumentNode, Map<string, Cost>>();

/**
 * What a valid operation costs with the variables of a request: a field costs 1, a list multiplies what is below it by
 * the rows it may have, and totals, searches and writes cost more. Directives are not looked at, so a field that one leaves out is
 * counted. 0 where the operation does not exist or the variables do not fit: nothing is executed then.
 */
export function costOf(
  document: DocumentNode,
  operationName: string | null | undefined,
  variables: Readonly<Record<string, unknown>> | null | undefined,
): number {
  const operation = getOperationAST(document, operationName);
  if (!operation) return 0;
  const { coerced } = getVariableValues(schema, operation.variableDefinitions ?? [], variables ?? {}, { maxErrors: 1 });
  return coerced === undefined ? 0 : findCost(document, operation)(coerced);
}

/** The cost of an operation, worked out once for each document: a sum with as many terms as fields whose rows vary. */
export function findCost(document: DocumentNode, operation: OperationDefinitionNode): Cost {
  const name = operation.name?.value ?? '';
  let ofDocument = costs.get(document);
  if (ofDocument === undefined) {
    ofDocument = new Map();
    costs.set(document, ofDocument);
  }
  let cost = ofDocument.get(name);
  if (cost === undefined) {
    cost = weighOperation(document, operation);
    ofDocument.set(name, cost);
  }
  return cost;
}

function weighOperation(document: DocumentNode, operation: OperationDefinitionNode): Cost {
  const fragments = fragmentsOf(document);
  const type = schema.getRootType(operation.operation) as GraphQLObjectType;
  const weigh = createWeigher(fragments);
  let fixed = 0;
  const varying: { readonly perRow: number; readonly rows: Cost }[] = [];
  for (const node of rootFieldsOf(operation, fragments)) {
    const { once, perRow, field, rows } = weigh(type, node);
    fixed += once;
    const count = typeof rows === 'object' ? readRows(field, node, rows) : (rows ?? 0);
    if (typeof count === 'number') fixed += count * perRow;
    else varying.push({ perRow, rows: count });
  }
  return (variables) => {
    let cost = fixed;
    for (const { perRow, rows } of varying) cost += perRow * rows(variables);
    return cost;
  };
}

/** What is paid once, and what for each row of a list whose length a field further up says. */
interface Weight {
  once: number;
  perRow: number;
}

/** Weighs fields with all that is below them; each fragment once, however often it is spread. */
function createWeigher(fragments: ReadonlyMap<string, FragmentDefinitionNode>) {
  const known = new Map<string, Weight>();

  const weighField = (parent: GraphQLObjectType, node: FieldNode) => {
    const field = fieldOf(parent, node.name.value);
    const { surcharge = 0, rows = defaultRows(parent, field) } = FIELD_COSTS[`${parent.name}.${field.name}`] ?? {};
    const type = getNamedType(field.type);
    const below = node.selectionSet && isObjectType(type) ? weighSelections(type, node.selectionSet) : NOTHING;
    const isList = isListType(getNullableType(field.type));
    return {
      field,
      rows,
      once: 1 + surcharge + (isList ? 0 : below.once),
      perRow: isList ? below.once + below.perRow : below.perRow,
    };
  };

  const weighSelections = (type: GraphQLObjectType, { selections }: SelectionSetNode): Weight => {
    const sum = { once: 0, perRow: 0 };
    const add = (once: number, perRow: number) => {
      sum.once += once;
      sum.perRow += perRow;
    };
    for (const selection of selections) {
      if (selection.kind === 'Field') {
        const { once, perRow, rows } = weighField(type, selection);
        // Below the root, where a length is a number or none.
        const most = typeof rows === 'object' ? rows.atMost : rows;
        if (most === undefined) add(once, perRow);
        else add(once + most * perRow, 0);
      } else {
        const { once, perRow } =
          selection.kind === 'FragmentSpread'
            ? weighFragment(type, selection.name.value)
            : weighSelections(type, selection.selectionSet);
        add(once, perRow);
      }
    }
    return sum;
  };

  const weighFragment = (type: GraphQLObjectType, name: string): Weight => {
    let weight = known.get(name);
    if (weight === undefined) {
      const fragment = fragments.get(name);
      weight = fragment ? weighSelections(type, fragment.selectionSet) : NOTHING;
      known.set(name, weight);
    }
    return weight;
  };

  return weighField;
}

const NOTHING: Weight = { once: 0, perRow: 0 };
const META_FIELDS = [SchemaMetaFieldDef, TypeMetaFieldDef, TypeNameMetaFieldDef];

type Field = GraphQLField<unknown, unknown>;

function fieldOf(parent: GraphQLObjectType, name: string): Field {
  return (parent.getFields()[name] ?? META_FIELDS.find((field) => field.name === name)) as Field;
}

function defaultRows(parent: GraphQLObjectType, { type }: Field): number | undefined {
  return parent.name.startsWith('__') && isListType(getNullableType(type)) ? INTROSPECTED_PER_TYPE : undefined;
}

/** How many rows the arguments of a field say: a number, or, where a variable decides, how to tell from the variables. */
function readRows({ args }: Field, { arguments: given = [] }: FieldNode, rows: Exclude<Rows, number>): number | Cost {
  const { of, otherwise, atMost } = rows;
  const candidates = of.map((name) => {
    const isList = isListType(getNullableType(args.find((arg) => arg.name === name)?.type));
    return readLength(
      given.find((argument) => argument.name.value === name),
      isList,
    );
  });
  const read: Cost = (variables) => {
    for (const candidate of candidates) {
      const length = typeof candidate === 'string' ? lengthOf(variables[candidate]) : candidate;
      if (length !== null) return Math.min(Math.max(length, 0), atMost);
    }
    return otherwise;
  };
  return candidates.some((candidate) => typeof candidate === 'string') ? read : read({});
}

/** The number that an argument says, null where it says none, or the name of the variable that does. */
function readLength(argument: ArgumentNode | undefined, isList: boolean): number | string | null {
  if (argument === undefined || argument.value.kind === 'NullValue') return null;
  if (argument.value.kind === 'Variable') return argument.value.name.value;
  if (argument.value.kind === 'ListValue') return argument.value.values.length;
  // One value where a list is wanted is a list of it.
  return isList || argument.value.kind !== 'IntValue' ? 1 : Number(argument.value.value);
}

function lengthOf(value: unknown): number | null {
  if (Array.isArray(value)) return value.length;
  return typeof value === 'number' ? value : null;
}

/** The fragments that a document defines, by name. */
export function fragmentsOf({ definitions }: DocumentNode): Map<string, FragmentDefinitionNode> {
  return new Map(definitions.flatMap((node) => (node.kind === 'FragmentDefinition' ? [[node.name.value, node]] : [])));
}

/** The fields of an operation itself, those of a fragment once, as they are executed. */
function rootFieldsOf(
  { selectionSet }: OperationDefinitionNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): FieldNode[] {
  const visited = new Set<string>();
  const collect = ({ selections }: SelectionSetNode): FieldNode[] =>
    selections.flatMap((selection) => {
      if (selection.kind === 'Field') return [selection];
      if (selection.kind === 'InlineFragment') return collect(selection.selectionSet);
      const fragment = fragments.get(selection.name.value);
      if (fragment === undefined || visited.has(selection.name.value)) return [];
      visited.add(selection.name.value);
      return collect(fragment.selectionSet);
    });
  return collect(selectionSet);
}
