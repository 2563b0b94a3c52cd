import {
  type ASTNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type Location,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { atMost, type InputKind, isTooLong } from '../domain/input-limits.js';

/**
 * The limits of one document. All except the cost (cost.ts) depend on the document alone, are checked once before it is validated, and take time
 * in proportion to its tokens. Reading it, and executing it where nothing is waited for, cannot be interrupted: neither takes longer than 10 ms.
 */
export const LIMITS = {
  /** Of the text. Checked before it is parsed. */
  characters: 20_000,
  /** Of the body or the URL of a request for a subscription: its stream keeps what it declares. */
  subscriptionBytes: 8_192,
  tokens: 2_000,
  /** GraphQL.js counts the lines again for each error, to report its position. */
  lines: 2_000,
  /** Fields within fields. The introspection query of common tools has 15. */
  depth: 20,
  operations: 50,
  rootFields: 100,
  aliases: 150,
  directives: 50,
  /** Fragment definitions, spreads and inline fragments. */
  fragments: 100,
  /** Fields beside another one of the same name. GraphQL.js compares each of them with each, with all that is below them. */
  repetitions: 20,
  cost: 10_000,
  /** Of the largest event of a subscription, which is executed for each stream. */
  eventCost: 1_000,
};

/** The number of errors in one answer. The last one tells that there were more. */
export const MAX_ERRORS = 5;

type Limit = keyof typeof LIMITS;
export type Limits = Readonly<typeof LIMITS>;

const NAMES: Partial<Record<Limit, string>> = {
  rootFields: 'root fields',
  subscriptionBytes: 'bytes of a request for a subscription',
  eventCost: 'cost of the largest event',
};

/** The message for a limit that is exceeded: its name, what arrived, what is accepted. */
export function limitExceeded(limit: Limit, arrived: number | string, limits: Limits = LIMITS): string {
  return `${NAMES[limit] ?? limit}: got ${arrived}, expected at most ${limits[limit]}.`;
}

/** The error for it. */
export function beyond(...exceeded: Parameters<typeof limitExceeded>): GraphQLError {
  return new GraphQLError(limitExceeded(...exceeded));
}

/** The first limit that a document exceeds, as an error; null where it keeps them all. The document may be invalid. */
export function findExceededLimit(document: DocumentNode, limits: Limits): GraphQLError | null {
  return findLongText(document) ?? findTooMany(document, limits);
}

type TextNode = Extract<ASTNode, { kind: 'Name' | 'StringValue' | 'IntValue' | 'FloatValue' }>;
/** The kinds of text that a document has, by their nodes: what limits each, and what errors call it. */
const TEXTS: Partial<Record<ASTNode['kind'], { kind: InputKind; name: string }>> = {
  Name: { kind: 'graphqlName', name: 'name' },
  StringValue: { kind: 'text', name: 'text' },
  IntValue: { kind: 'text', name: 'number' },
  FloatValue: { kind: 'text', name: 'number' },
};

/** The first name or literal that is too long. A long alias would be repeated in each row of the answer. */
function findLongText(document: DocumentNode): GraphQLError | null {
  let fault: GraphQLError | null = null;
  walk(document, (node) => {
    const text = TEXTS[node.kind];
    if (text === undefined || fault !== null) return;
    const { value } = node as TextNode;
    if (!isTooLong(text.kind, value)) return;
    fault = new GraphQLError(`${text.name}: got ${value.length} characters, expected ${atMost(text.kind)}.`);
  });
  return fault;
}

/** Visits every node. GraphQL.js's `visit`, which can also edit, takes several times as long. */
function walk(node: ASTNode, enter: (node: ASTNode) => void): void {
  enter(node);
  for (const key in node) {
    const child = (node as unknown as Record<string, ASTNode | ASTNode[] | string | boolean | undefined>)[key];
    if (typeof child !== 'object' || key === 'loc') continue;
    if (Array.isArray(child)) for (const item of child) walk(item, enter);
    else walk(child, enter);
  }
}

function findTooMany(document: DocumentNode, limits: Limits): GraphQLError | null {
  const fragments = fragmentsOf(document);
  const depths = new Map<string, number>();
  const arrived = {
    aliases: 0,
    directives: 0,
    fragments: fragments.size,
    repetitions: 0,
    depth: 0,
    operations: 0,
    rootFields: 0,
  };

  const depthOf = ({ selections }: SelectionSetNode, names = new Set<string>()): number => {
    let deepest = 0;
    for (const selection of selections) {
      countDirectives(selection);
      if (selection.kind === 'Field') {
        if (selection.alias) arrived.aliases += 1;
        const { value: name } = selection.alias ?? selection.name;
        if (names.has(name)) arrived.repetitions += 1;
        names.add(name);
        deepest = Math.max(deepest, 1 + (selection.selectionSet ? depthOf(selection.selectionSet) : 0));
        continue;
      }
      arrived.fragments += 1;
      const depth =
        selection.kind === 'InlineFragment'
          ? depthOf(selection.selectionSet, names)
          : depthOfFragment(selection.name.value);
      deepest = Math.max(deepest, depth);
    }
    return deepest;
  };
  const depthOfFragment = (name: string): number => {
    const cached = depths.get(name);
    const fragment = fragments.get(name);
    if (cached !== undefined || fragment === undefined) return cached ?? 0;
    // Set first, so that a fragment that spreads itself does not recurse for ever. Validation refuses it later.
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
    arrived.operations += 1;
    // Beyond the limit they are only counted: each may spread all fragments.
    if (arrived.operations > limits.operations) continue;
    for (const variable of node.variableDefinitions ?? []) countDirectives(variable);
    arrived.depth = Math.max(arrived.depth, depthOf(node.selectionSet));
    arrived.rootFields = Math.max(arrived.rootFields, rootFieldsOf(node, fragments).length);
  }
  const names = ['operations', 'depth', 'rootFields', 'aliases', 'directives', 'fragments', 'repetitions'] as const;
  const exceeded = names.find((name) => arrived[name] > limits[name]);
  return exceeded === undefined ? null : beyond(exceeded, arrived[exceeded], limits);
}

/** Removes the tokens from a parsed document: with comments, they take ten times the memory of the nodes. Errors need only the positions. */
export function dropTokens(document: DocumentNode): void {
  walk(document, ({ loc }) => {
    const tokens = loc as { -readonly [Key in keyof Location]?: unknown } | undefined;
    if (tokens === undefined) return;
    tokens.startToken = undefined;
    tokens.endToken = undefined;
  });
}

/** The fragments that a document defines, by name. */
export function fragmentsOf({ definitions }: DocumentNode): Map<string, FragmentDefinitionNode> {
  return new Map(definitions.flatMap((node) => (node.kind === 'FragmentDefinition' ? [[node.name.value, node]] : [])));
}

/** The root fields of an operation. Those of a fragment count once, as they are executed once. */
export function rootFieldsOf(
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
