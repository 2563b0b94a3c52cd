import {
  type FragmentDefinitionNode,
  getArgumentValues,
  getNamedType,
  getNullableType,
  GraphQLError,
  type GraphQLObjectType,
  isListType,
  isObjectType,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';

/** How many values an answer may have, as far as its arguments tell. A page of everything about 100 users has a quarter. */
export const MAX_COST = 20_000;
/** A list whose length no argument says has about so many items. */
const USUAL_LENGTH = 4;
const LENGTHS = ['first', 'last', 'limit'] as const;

/**
 * Refuses an operation whose answer could be too large. A field costs 1, and a list or a page multiplies what is below it. The
 * operators are few and trusted, so this is simpler than the cost of the public schema (graphql/cost.ts), and it reads the variables
 * at every depth. It ends as soon as the limit is reached, however often fragments are spread.
 */
export function refuseCostly(
  root: GraphQLObjectType,
  { selectionSet }: OperationDefinitionNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
  variables: Record<string, unknown>,
): GraphQLError | null {
  let cost = 0;

  function walk(type: GraphQLObjectType, { selections }: SelectionSetNode, times: number): void {
    for (const selection of selections) {
      if (cost > MAX_COST) return;
      if (selection.kind === 'FragmentSpread') {
        const fragment = fragments.get(selection.name.value);
        if (fragment) walk(type, fragment.selectionSet, times);
        continue;
      }
      if (selection.kind === 'InlineFragment') {
        walk(type, selection.selectionSet, times);
        continue;
      }
      cost += times;
      const field = type.getFields()[selection.name.value];
      const below = field && getNamedType(field.type);
      if (field === undefined || !selection.selectionSet || !isObjectType(below)) continue;
      const asked = lengthOf(getArgumentValues(field, selection, variables));
      const isList = isListType(getNullableType(field.type));
      // The length of a page is an argument of the page: the list within it has none.
      const isOfPage = selection.name.value === 'nodes';
      walk(below, selection.selectionSet, times * (asked ?? (isList && !isOfPage ? USUAL_LENGTH : 1)));
    }
  }

  walk(root, selectionSet, 1);
  if (cost <= MAX_COST) return null;
  return new GraphQLError(`cost: got more, expected at most ${MAX_COST}. Ask for fewer fields, or for shorter pages.`);
}

function lengthOf(args: Record<string, unknown>): number | null {
  for (const name of LENGTHS) {
    const value = args[name];
    if (typeof value === 'number') return Math.max(1, value);
  }
  const list = args['ids'];
  return Array.isArray(list) ? Math.max(1, list.length) : null;
}
