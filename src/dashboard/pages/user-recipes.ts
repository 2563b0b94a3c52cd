import type { Commands } from '#dist/cli/commands.js';
import type { GivenTerms } from './ban-terms.js';
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

export const removalRecipe = (appId: string, id: string): Recipe => ({
  graphql: { operation: 'mutation DeleteUser($id: ID!) { deleteUser(id: $id) { id } }', variables: { id } },
  curl: { method: 'DELETE', path: `/server/users/${encodeURIComponent(id)}` },
  userdir: command('user remove', { project: appId, userId: id }),
});

/** A mutation that answers the user, with its arguments by their types. */
function changeRecipe(field: string, types: Readonly<Record<string, string>>, variables: object): Recipe {
  const list = (one: (name: string) => string) => Object.keys(types).map(one).join(', ');
  const declared = list((name) => `$${name}: ${types[name]}`);
  const given = list((name) => `${name}: $${name}`);
  return { graphql: { operation: `mutation (${declared}) {\n  ${field}(${given}) { user { id } }\n}`, variables } };
}

type UpdateOptions = Omit<Commands['user update'], 'project' | 'userId'>;
/** Changes of a user; null takes a value away. The metadata are JSON text. */
export type UserChanges = { readonly [Name in keyof UpdateOptions]?: string | null };

export const updateRecipe = (appId: string, id: string, { metadata, ...texts }: UserChanges): Recipe => ({
  ...changeRecipe(
    'updateUser',
    { id: 'ID!', input: 'UpdateUserInput!' },
    { id, input: { ...texts, ...(metadata !== undefined && { metadata: metadata && jsonOr(metadata) }) } },
  ),
  userdir: command('user update', {
    project: appId,
    userId: id,
    ...Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, text ?? ''])),
    ...(metadata !== undefined && { metadata: metadata ?? '' }),
  }),
});

/** JSON that may be half typed. */
function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

interface GivenIdentity {
  readonly authMethod: string;
  readonly authValue: string;
}
interface LinkInput extends GivenIdentity {
  readonly email?: string;
  readonly emailVerified?: boolean;
  readonly primary?: boolean;
}

export const linkRecipe = (appId: string, userId: string, input: LinkInput): Recipe => {
  const { authMethod: method, authValue: value, ...options } = input;
  return {
    ...changeRecipe('linkIdentity', { userId: 'ID!', input: 'LinkIdentityInput!' }, { userId, input }),
    userdir: command('user link', { project: appId, userId, method, value, ...options }),
  };
};

export const unlinkRecipe = (appId: string, userId: string, { authMethod, authValue }: GivenIdentity): Recipe => {
  const variables = { userId, identity: { authMethod, authValue } };
  return {
    ...changeRecipe('unlinkIdentity', { userId: 'ID!', identity: 'IdentityInput!' }, variables),
    userdir: command('user unlink', { project: appId, userId, method: authMethod, value: authValue }),
  };
};

export const unlinkAccountRecipe = (appId: string, userId: string, address: string): Recipe => ({
  ...changeRecipe('unlinkAccount', { userId: 'ID!', address: 'String!' }, { userId, address }),
  userdir: command('user unlink', { project: appId, userId, address }),
});

export const mergeRecipe = ({ appId, from, into }: { appId: string; from: string; into: string }): Recipe => ({
  ...changeRecipe('mergeUsers', { from: 'ID!', into: 'ID!' }, { from, into }),
  userdir: command('user merge', { project: appId, from, into }),
});

const termsOf = ({ reason, expiresAt, untilLifted }: GivenTerms) => ({
  ...(reason !== undefined && { reason }),
  ...((expiresAt !== undefined || untilLifted) && { until: expiresAt ?? '' }),
});

export const banUserRecipe = (appId: string, change: 'ban' | 'unban', id: string, terms: GivenTerms): Recipe => ({
  // An argument without a value is refused.
  ...changeRecipe(
    `${change}User`,
    {
      id: 'ID!',
      ...Object.fromEntries(Object.keys(terms).map((term) => [term, term === 'untilLifted' ? 'Boolean' : 'String'])),
    },
    { id, ...terms },
  ),
  userdir: command(`user ${change}`, { project: appId, userId: id, ...termsOf(terms) }),
});

export const banRecipe = (
  appId: string,
  change: 'ban' | 'unban',
  { authMethod, authValue }: GivenIdentity,
  terms: GivenTerms = {},
): Recipe => ({
  userdir: command(`user ${change}`, {
    project: appId,
    method: authMethod,
    value: authValue,
    ...termsOf(terms),
  }),
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
