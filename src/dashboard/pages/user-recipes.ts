import type { UrlState } from './location.js';
import { command, type Recipe } from './recipes.js';
import { parametersOf, stateFrom, type UserFilter } from './user-filter.js';

/** The list of users by the project's API. */
export function recipeFor(appId: string, query: UrlState, filter: UserFilter): Recipe | undefined {
  if (query['q']) return searchRecipe(appId, query['q'], query['removed'] === '1');
  if (query['removed'] === '1') return { userdir: command('user removed', { project: appId }) };
  const limit = Number(query['limit'] ?? 25);
  // The command exports all users, so it shows the same only without a filter.
  const userdir = Object.keys(filter).length === 0 && { userdir: command('user export', { project: appId }) };
  const state = stateFrom(query);
  if (state?.contains !== undefined) return undefined;
  if (state) {
    const [first, after = null] = [limit, query['after']];
    const inOrder = query['order'] === 'oldest' ? { last: first, before: after } : { first, after };
    return { graphql: { operation: SCAN, variables: { filter: { ...filter, ...state }, ...inOrder } } };
  }
  const [after = null, before = null] = [query['after'], query['before']];
  const oldestFirst = query['order'] === 'oldest';
  const variables =
    oldestFirst === (before === null)
      ? { filter, last: limit, before: oldestFirst ? after : before }
      : { filter, first: limit, after: oldestFirst ? before : after };
  const isFirst = after === null && before === null && !oldestFirst;
  const parameters = new URLSearchParams({ limit: String(limit), ...parametersOf(filter) });
  return {
    graphql: { operation: LIST, variables },
    // Over REST, pages have numbers.
    ...(isFirst && { curl: { path: `/server/users?${parameters}` } }),
    ...userdir,
  };
}

/** A whole ID, email or address, or else the beginning of one. */
function searchRecipe(appId: string, any: string, removed: boolean): Recipe {
  const userdir = command('user search', { project: appId, any, removed });
  if (removed) return { userdir };
  if (/^\d+$/.test(any)) return { ...userRecipe(any), userdir };
  const kind = /^[^@]*@.*\../.test(any) ? 'email' : ADDRESS.test(any) ? 'address' : null;
  if (!kind)
    return {
      graphql: { operation: BEGINNING, variables: { prefix: any } },
      userdir: command('user search', { project: appId, prefix: any }),
    };
  return {
    graphql: { operation: SEARCH, variables: { by: { [kind]: any } } },
    curl: { path: `/server/users/search?${new URLSearchParams({ [kind]: any })}` },
    userdir,
  };
}

const ADDRESS = /^(0x[\da-f]{40}|G[A-Z2-7]{55})$/i;

export const userRecipe = (id: string): Recipe => ({
  graphql: { operation: GET, variables: { id } },
  curl: { path: `/server/users/${encodeURIComponent(id)}` },
});

const LIST = `query Users($filter: UserFilter, $first: Int, $after: String, $last: Int, $before: String) {
  users(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
    totalCount
    nodes { id authMethod authValue createdAt lastLogin loginCount }
    pageInfo { hasNextPage endCursor hasPreviousPage startCursor }
  }
}`;

// Such users are not counted.
const SCAN = LIST.replace('    totalCount\n', '');

const SEARCH = `query SearchUsers($by: UserSearch!) {
  searchUsers(by: $by) { id authMethod authValue createdAt lastLogin loginCount }
}`;

const BEGINNING = `query UsersByPrefix($prefix: String!) {
  usersByPrefix(prefix: $prefix, first: 50) {
    hasMore
    users { id authMethod authValue createdAt lastLogin loginCount }
  }
}`;

const GET = `query User($id: ID!) {
  user(id: $id) {
    id authMethod authValue email externalId wallet createdAt lastLogin loginCount
    accounts { network publicKey walletType }
  }
}`;
