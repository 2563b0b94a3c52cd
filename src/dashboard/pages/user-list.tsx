import type { ComponentChildren } from 'preact';
import { plural } from './format.js';
import { api, graphql, type Init, inProject, type Query, send, useAnswer, useQuery } from './graphql.js';
import { FIRST_PAGE, type UrlState, useUrlState } from './location.js';
import { asked, command, type Recipe } from './recipes.js';
import { CursorPager, type PageInfo } from './table.js';
import { isFiltered, parametersOf, stateFrom, type UserFilter, type UserState } from './user-filter.js';
import { FOUND_ROW, ROW, type Row } from './user-table.js';

/* The list of the page of users, by the URL: how each of its four questions is asked, and how to ask it without the dashboard. */

interface UserList extends Query<unknown> {
  readonly rows: readonly Row[] | undefined;
  /** What is to be said of the rows, once they are there. */
  readonly note: string | undefined;
  /** The links to the other pages. */
  readonly pages: ComponentChildren;
  /** Whether the next page may have rows where this one has none. */
  readonly hasMore?: boolean;
  readonly recipe: Recipe | undefined;
}

/** The list for the URL. Exactly one of the four questions is asked. */
export function useUserList(appId: string, filter: UserFilter, url: UrlState): UserList {
  const search = url['q'];
  const removed = url['removed'] === '1';
  const state = removed || search ? null : stateFrom(url);
  const found = useFound(appId, search, removed);
  const gone = useRemoved(appId, removed && !search ? url : null);
  const scan = useScan(appId, filter, state, url);
  const walk = useWalk(appId, filter, search || removed || state ? null : url);
  if (search) return found;
  if (removed) return gone;
  return state ? scan : walk;
}

const USERS = inProject(
  api(
    `query Users($filter: UserFilter, $first: Int, $after: String, $last: Int, $before: String) {
      users(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
        totalCount
        nodes { ...Row }
        pageInfo { startCursor endCursor hasNextPage hasPreviousPage }
      }
    }`,
    [ROW],
  ),
);

const PAGE_SIZES = ['10', '25', '50', '100'];
const isOldestFirst = (url: UrlState) => url['order'] === 'oldest';
const limitOf = ({ limit }: UrlState) => (PAGE_SIZES.includes(limit ?? '') ? Number(limit) : 25);

/** Users in order, with their number. */
function useWalk(appId: string, filter: UserFilter, url: UrlState | null): UserList {
  const { after = null, before = null } = url ?? {};
  const oldestFirst = isOldestFirst(url ?? {});
  const limit = limitOf(url ?? {});
  // The API has the newest first: in the other order, onwards is towards its beginning.
  const fromOldest = oldestFirst !== (before !== null);
  const variables = {
    project: appId,
    filter,
    ...(oldestFirst ? { after: before, before: after } : { after, before }),
    ...(fromOldest ? { first: null, last: limit } : { first: limit, last: null }),
  };
  const answer = useQuery(USERS, url && variables);
  const shown = answer.data?.users;
  const isFirst = after === null && before === null && !oldestFirst;
  const parameters = new URLSearchParams({ limit: String(limit), ...parametersOf(filter) });
  return {
    ...answer,
    rows: oldestFirst ? shown?.nodes.toReversed() : shown?.nodes,
    note: shown && describeTotal(shown.totalCount, filter),
    pages: shown && shown.totalCount > 0 && (
      <div class="list-footer">
        <CursorPager pageInfo={inOrder(shown.pageInfo, oldestFirst)} backwards oldestFirst={oldestFirst} />
        <RowsOfPage limit={limit} />
      </div>
    ),
    recipe: {
      ...asked(USERS, variables),
      // Over REST, pages have numbers.
      ...(isFirst && { curl: { path: `/server/users?${parameters}` } }),
      ...(!oldestFirst && before === null && { userdir: listing(appId, { limit, after }, filter) }),
    },
  };
}

/** The values of an option that a command spells its own way. */
const AS_TYPED = new Map<unknown, string>([
  [true, 'yes'],
  [false, 'no'],
]);

/** A page of users, as the command lists it: the newest first. */
function listing(
  project: string,
  { limit, after }: { readonly limit: number; readonly after: string | null },
  { loginMethods, ...dates }: UserFilter,
  state: UserState | null = null,
) {
  const states = Object.entries(state ?? {}).map(([name, value]) => [name, AS_TYPED.get(value) ?? String(value)]);
  const kinds = loginMethods && { loginMethods: loginMethods.join(',').toLowerCase() };
  return command('user list', {
    project,
    ...dates,
    ...kinds,
    ...Object.fromEntries(states),
    limit,
    after: after ?? undefined,
  });
}

function describeTotal(total: number, filter: UserFilter): string {
  return isFiltered(filter)
    ? `${plural(total, 'user')} ${total === 1 ? 'matches' : 'match'} the filter`
    : plural(total, 'user');
}

/** The pages around one whose rows are shown turned around. */
function inOrder(page: Required<PageInfo>, oldestFirst: boolean): PageInfo {
  const { startCursor, endCursor, hasNextPage, hasPreviousPage } = page;
  if (!oldestFirst) return page;
  return {
    startCursor: endCursor,
    endCursor: startCursor,
    hasNextPage: hasPreviousPage,
    hasPreviousPage: hasNextPage,
  };
}

function RowsOfPage({ limit }: { limit: number }) {
  const { go } = useUrlState();
  return (
    <label class="inline">
      <span class="quiet">Rows</span>
      <select value={String(limit)} onChange={(event) => go({ ...FIRST_PAGE, limit: event.currentTarget.value })}>
        {PAGE_SIZES.map((size) => (
          <option key={size}>{size}</option>
        ))}
      </select>
    </label>
  );
}

/** Such users are not counted. */
const BY_STATE = inProject(
  api(
    `query UsersByState($filter: UserFilter, $first: Int, $after: String, $last: Int, $before: String) {
      users(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
        nodes { ...Row }
        pageInfo { startCursor endCursor hasNextPage hasPreviousPage }
      }
    }`,
    [ROW],
  ),
);

/** The service looks at 1,000 users at a time. For one page it is asked so often, and not again after so long. */
const SCAN = { times: 5, ms: 2_000 };

/** Users by their state, who are looked at one by one. */
function useScan(appId: string, filter: UserFilter, state: UserState | null, url: UrlState): UserList {
  const { after = null } = url;
  const oldestFirst = isOldestFirst(url);
  const limit = limitOf(url);
  const variablesOf = (count: number, place: string | null) => ({
    project: appId,
    filter: { ...filter, ...state },
    ...(oldestFirst ? { last: count, before: place } : { first: count, after: place }),
  });
  async function ask(init: Init) {
    const rows: Row[] = [];
    const endsAt = performance.now() + SCAN.ms;
    let end = after;
    for (let times = 0; times < SCAN.times && rows.length < limit && performance.now() < endsAt; times += 1) {
      const { users } = await send(BY_STATE, variablesOf(limit - rows.length, end), init);
      rows.push(...(oldestFirst ? users.nodes.toReversed() : users.nodes));
      const { hasNextPage, endCursor } = inOrder(users.pageInfo, oldestFirst);
      end = hasNextPage ? endCursor : null;
      if (end === null) break;
    }
    return { rows, end };
  }
  const asking = variablesOf(limit, after);
  const answer = useAnswer(state && { key: `scan ${JSON.stringify(asking)}`, ask });
  const { rows, end = null } = answer.data ?? {};
  return {
    ...answer,
    rows,
    hasMore: end !== null,
    note:
      rows &&
      (end
        ? 'Not all users were looked at yet: the next page goes on.'
        : `All users were looked at${after ? '' : `: ${plural(rows.length, 'user')} found`}.`),
    pages: rows && <CursorPager pageInfo={{ endCursor: end, hasNextPage: end !== null }} oldestFirst={oldestFirst} />,
    recipe: {
      ...asked(BY_STATE, asking),
      ...(!oldestFirst && { userdir: listing(appId, { limit, after }, filter, state) }),
    },
  };
}

const REMOVED = graphql(
  `query RemovedUsers($appId: ID!, $oldestFirst: Boolean!, $after: String) {
    project(appId: $appId) {
      removedUsers(oldestFirst: $oldestFirst, first: 50, after: $after) {
        nodes { ...FoundRow }
        pageInfo { endCursor hasNextPage }
      }
    }
  }`,
  [FOUND_ROW],
);

/** Removed users who are not erased yet. */
function useRemoved(appId: string, url: UrlState | null): UserList {
  const { after = null } = url ?? {};
  const oldestFirst = isOldestFirst(url ?? {});
  const answer = useQuery(REMOVED, url && { appId, oldestFirst, after });
  const shown = answer.data?.project?.removedUsers;
  return {
    ...answer,
    rows: shown?.nodes,
    note: 'Removed users can be restored until a purge erases them.',
    pages: shown && <CursorPager pageInfo={shown.pageInfo} oldestFirst={oldestFirst} />,
    recipe: { userdir: command('user removed', { project: appId }) },
  };
}

const FIND = graphql(
  `query FindUsers($appId: ID!, $any: String!, $removed: Boolean!) {
    project(appId: $appId) { findUsers(any: $any, removed: $removed) { ...FoundRow } }
  }`,
  [FOUND_ROW],
);

const BEGINNING = inProject(
  api(
    `query UsersByPrefix($prefix: String!) {
      usersByPrefix(prefix: $prefix, first: 50) { hasMore users { ...Row } }
    }`,
    [ROW],
  ),
);

/** Users whom a text means, and then current ones of whom something begins with it. */
function useFound(appId: string, search: string | undefined, removed: boolean): UserList {
  const answer = useAnswer(
    search
      ? {
          key: `search ${appId} ${removed} ${search}`,
          async ask(init) {
            const [meant, begun] = await Promise.all([
              send(FIND, { appId, any: search, removed }, init),
              removed ? null : send(BEGINNING, { project: appId, prefix: search }, init),
            ]);
            const { users = [], hasMore = false } = begun?.usersByPrefix ?? {};
            return { rows: eachOnce<Row>([...(meant.project?.findUsers ?? []), ...users]), hasMore };
          },
        }
      : null,
  );
  const { rows, hasMore } = answer.data ?? {};
  return {
    ...answer,
    rows,
    note: rows && `${plural(rows.length, 'user')} found${hasMore ? ', and there may be more' : ''}`,
    pages: null,
    recipe: search ? searchRecipe(appId, search, removed) : undefined,
  };
}

const eachOnce = <User extends { readonly id: string }>(users: readonly User[]) => [
  ...new Map(users.map((user) => [user.id, user])).values(),
];

const SEARCH = inProject(api(`query SearchUsers($by: UserSearch!) { searchUsers(by: $by) { ...Row } }`, [ROW]));

const ADDRESS = /^(0x[\da-f]{40}|G[A-Z2-7]{55})$/i;

/** A whole ID, email or address, or else the beginning of one. */
function searchRecipe(appId: string, any: string, removed: boolean): Recipe {
  const userdir = command('user search', { project: appId, any, removed });
  if (removed) return { userdir };
  if (/^\d+$/.test(any)) return { ...userRecipe(appId, any), userdir };
  const [isEmail, isAddress] = [/^[^@]*@.*\../.test(any), ADDRESS.test(any)];
  if (!isEmail && !isAddress)
    return {
      ...asked(BEGINNING, { project: appId, prefix: any }),
      userdir: command('user search', { project: appId, prefix: any }),
    };
  const by = isEmail ? { email: any } : { address: any };
  return {
    ...asked(SEARCH, { project: appId, by }),
    curl: { path: `/server/users/search?${new URLSearchParams(by as Record<string, string>)}` },
    userdir,
  };
}

const USER = inProject(
  api(`query User($id: ID!) {
    user(id: $id) {
      id authMethod authValue email wallet externalId createdAt lastLogin loginCount
      accounts { network publicKey walletType }
    }
  }`),
);

/** One user by ID. */
export const userRecipe = (appId: string, id: string): Recipe => ({
  ...asked(USER, { project: appId, id }),
  curl: { path: `/server/users/${encodeURIComponent(id)}` },
});
