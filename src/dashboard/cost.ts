import {
  type FragmentDefinitionNode,
  GraphQLError,
  type GraphQLField,
  type GraphQLObjectType,
  getArgumentValues,
  getNamedType,
  getNullableType,
  isListType,
  isObjectType,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { DEFAULT_PAGE, MAX_PAGE } from './paging.js';

/** How much an answer may cost, as far as its arguments tell. A page of everything about 100 users has a half. */
export const MAX_COST = 20_000;
/** What is read for itself costs as much as so many values: a document has at most 400 such reads. */
const READ_COST = 50;
/** What a page has read already. */
const PARTS_OF_PAGE: readonly string[] = ['nodes', 'pageInfo'];
/** A list that belongs to something has about so many items, one that is searched MAX_PAGE. */
const USUAL_LENGTH = 4;
const LENGTHS = ['first', 'last', 'limit'] as const;

/**
 * Refuses an operation whose answer could be too large, or take too many reads. A field costs 1, one that has arguments or fields of
 * its own is taken for a read, and a list or a page multiplies what is below it. The operators are few and trusted, so this is simpler
 * than the cost of the public schema (engine/cost.ts), and it reads the variables at every depth. It ends as soon as the limit is
 * reached, however often fragments are spread.
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
      if (field === undefined || !(selection.selectionSet || field.args.length > 0)) continue;
      // The length of a page is an argument of the page: the list within it has none.
      const isOfPage = PARTS_OF_PAGE.includes(field.name);
      if (!isOfPage) cost += times * READ_COST;
      const below = getNamedType(field.type);
      if (!selection.selectionSet || !isObjectType(below)) continue;
      const length = isOfPage ? 1 : lengthOf(field, getArgumentValues(field, selection, variables));
      walk(below, selection.selectionSet, times * length);
    }
  }

  walk(root, selectionSet, 1);
  if (cost <= MAX_COST) return null;
  return new GraphQLError(`cost: got more, expected at most ${MAX_COST}. Ask for fewer fields, or for shorter pages.`);
}

/** How many items a field has, as far as that can be told. */
function lengthOf({ args, type }: GraphQLField<unknown, unknown>, given: Record<string, unknown>): number {
  for (const name of LENGTHS) {
    const value = given[name];
    if (typeof value === 'number') return Math.max(1, value);
  }
  const list = given['ids'];
  if (Array.isArray(list)) return Math.max(1, list.length);
  if (args.some(({ name }) => (LENGTHS as readonly string[]).includes(name))) return DEFAULT_PAGE;
  if (!isListType(getNullableType(type))) return 1;
  return args.length === 0 ? USUAL_LENGTH : MAX_PAGE;
}
