import {
  type ASTNode,
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type Location,
  type OperationDefinitionNode,
  type SelectionSetNode,
  visit,
} from 'graphql';
import { atMost, type InputKind, isTooLong } from '../input-limits.js';

/**
 * What one document may ask. All but the cost (cost.ts) are of the document alone and are checked once, before it is
 * validated. Every check takes time in proportion to the tokens of the document.
 */
export const LIMITS = {
  /** Of the text, before it is parsed. */
  characters: 50_000,
  tokens: 4_000,
  /** GraphQL.js counts them again for every error, to say where it is. */
  lines: 2_000,
  /** Fields within fields; the introspection that tools send has 15. */
  depth: 20,
  operations: 50,
  rootFields: 200,
  aliases: 250,
  directives: 50,
  /** Fragments, inline ones too, and the places where they are spread. */
  fragments: 200,
  cost: 20_000,
} as const;

const NAMES: Partial<Record<keyof typeof LIMITS, string>> = { rootFields: 'root fields' };

/** The sentence of a limit: its name, what arrived, what is accepted. */
export function excess(limit: keyof typeof LIMITS, arrived: number | string): string {
  return `${NAMES[limit] ?? limit}: got ${arrived}, expected at most ${LIMITS[limit]}.`;
}

/** The limit that a document exceeds, whatever its variables are; null where it keeps all. It need not be valid. */
export function findExcess(document: DocumentNode): GraphQLError | null {
  return findLongText(document) ?? findTooMany(document);
}

/** The first name or literal of a document that is too long. A long alias would come back with every row of an answer. */
function findLongText(document: DocumentNode): GraphQLError | null {
  let found: GraphQLError | null = null;
  const check = (kind: InputKind, text: string, name: string) => {
    if (found === null && isTooLong(kind, text)) {
      found = new GraphQLError(`${name}: got ${text.length} characters, expected ${atMost(kind)}.`);
    }
  };
  visit(document, {
    Name: ({ value }) => check('graphqlName', value, 'name'),
    StringValue: ({ value }) => check('text', value, 'text'),
    IntValue: ({ value }) => check('text', value, 'number'),
    FloatValue: ({ value }) => check('text', value, 'number'),
  });
  return found;
}

function findTooMany(document: DocumentNode): GraphQLError | null {
  const fragments = fragmentsOf(document);
  const depths = new Map<string, number>();
  const arrived = { aliases: 0, directives: 0, fragments: fragments.size, depth: 0, operations: 0, rootFields: 0 };

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
    // For now, so that a fragment that spreads itself comes to an end; validation refuses it.
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
    // More operations are not looked at: each may follow all fragments.
    if (arrived.operations > LIMITS.operations) continue;
    for (const variable of node.variableDefinitions ?? []) countDirectives(variable);
    arrived.depth = Math.max(arrived.depth, depthOf(node.selectionSet));
    arrived.rootFields = Math.max(arrived.rootFields, rootFieldsOf(node, fragments).length);
  }
  const names = ['operations', 'depth', 'rootFields', 'aliases', 'directives', 'fragments'] as const;
  const beyond = names.find((name) => arrived[name] > LIMITS[name]);
  return beyond === undefined ? null : new GraphQLError(excess(beyond, arrived[beyond]));
}

/**
 * Cuts the tokens off a parsed document. Every node refers to the linked list of all of them, comments included, which
 * takes ten times the memory of the nodes; errors need the positions only.
 */
export function dropTokens(document: DocumentNode): void {
  visit(document, {
    enter({ loc }) {
      if (loc) Object.assign(loc as { -readonly [Key in keyof Location]?: unknown }, NO_TOKENS);
    },
  });
}

const NO_TOKENS = { startToken: undefined, endToken: undefined };

/** The fragments that a document defines, by name. */
export function fragmentsOf({ definitions }: DocumentNode): Map<string, FragmentDefinitionNode> {
  return new Map(definitions.flatMap((node) => (node.kind === 'FragmentDefinition' ? [[node.name.value, node]] : [])));
}

/** The fields of an operation itself, those of a fragment once, as they are executed. */
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
