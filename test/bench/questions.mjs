import { withClient } from './data.mjs';
import { likeOf, PARSE_HEADERS } from './processes.mjs';

/**
 * The requests in the form of each server, and the common form of the answers. A request is {method, path, headers?, body?};
 * credentials are added for ours. These read; those that write are in writes.mjs.
 */

const FIELDS =
  'id authMethod authValue wallet createdAt lastLogin loginCount accounts { id network publicKey walletType }';
export const USER = `query User($id: ID!) { user(id: $id) { ${FIELDS} } }`;
const LIST = `query Users($after: String) { users(first: 10, after: $after) { nodes { ${FIELDS} } } }`;
const LIST_WITH_TOTAL = `query Users($after: String) { users(first: 10, after: $after) { totalCount nodes { ${FIELDS} } } }`;
const ENTITIES = `query ($representations: [_Any!]!) { _entities(representations: $representations) { ... on User { ${FIELDS} } } }`;
const CURSORS = 'query Cursors($after: String) { users(first: 100, after: $after) { edges { cursor } } }';

// PostGraphile has other names. It pages by cursor too: with OFFSET it would read the accounts of skipped users.
const POSTGRAPHILE_FIELDS =
  'rowId authMethod authValue wallet createdAt lastLogin loginCount accountsList(orderBy: [PRIMARY_KEY_ASC]) { rowId network publicKey walletType }';
const postgraphileList = (first, fields) => `query Users($after: Cursor) {
  allUsers(first: ${first}, after: $after, orderBy: [CREATED_AT_DESC, ROW_ID_DESC]) { ${fields} } }`;
const POSTGRAPHILE = {
  user: `query User($id: BigInt!) { userByRowId(rowId: $id) { ${POSTGRAPHILE_FIELDS} } }`,
  list: postgraphileList(10, `nodes { ${POSTGRAPHILE_FIELDS} }`),
  listWithTotal: postgraphileList(10, `totalCount nodes { ${POSTGRAPHILE_FIELDS} }`),
  cursors: postgraphileList(100, 'edges { cursor }'),
};

// Parse Server has its own as well. Its cursors are offsets. Without a filter it answers an estimate of the total (reltuples), so the
// questions with the total have one that all users meet.
const PARSE_FIELDS =
  'objectId authMethod authValue wallet createdAt lastLogin loginCount accounts { ... on Element { value } }';
const parseList = (first, fields, filter = '') => `query Users($after: String) {
  users(first: ${first}, after: $after, order: [createdAt_DESC]${filter}) { ${fields} } }`;
const PARSE = {
  user: `query User($id: ID!) { user(id: $id) { ${PARSE_FIELDS} } }`,
  list: parseList(10, `edges { node { ${PARSE_FIELDS} } }`),
  listWithTotal: parseList(10, `count edges { node { ${PARSE_FIELDS} } }`, ', where: { createdAt: { exists: true } }'),
  cursors: parseList(100, 'edges { cursor }'),
  path: (page) => `/parse/users?order=-createdAt&limit=10&skip=${page * 10}`,
  withTotal: `&count=1&where=${encodeURIComponent('{"createdAt":{"$exists":true}}')}`,
};

export const get = (path) => ({ method: 'GET', path });
export const post = (path, body) => ({ method: 'POST', path, body: JSON.stringify(body) });
export const graphql = (query, variables) => post('/graphql', { query, variables });

/** Ours with default settings, which log each request, beside ours with LOG_LEVEL=warn: `ours` at most a tenth faster. */
export const DEFAULTS = { peer: 'ours+', requests: { 1: 1.1, 16: 1.1, 64: 1.1 }, isMost: true };
export const POSTGRAPHILE_TO_REACH = { peer: 'c', requests: { 1: 1.5, 16: 3, 64: 4 } };

/**
 * Per scenario: `ask` makes the request of each server for an item, and `items` names the pool of items. `toReach` has
 * the targets against a peer: our requests a second ÷ its, by connections, and our 99th percentile ÷ its with 16 and 64.
 */
export const SCENARIOS = [
  {
    name: 'REST one user',
    items: 'ids',
    ask: { ...same(['ours', 'a'], (id) => get(`/server/users/${id}`)), parse: (id) => get(`/parse/users/${id}`) },
    read: (body) => readUser(body.result ?? fromParse(body)),
    toReach: [{ peer: 'a', requests: { 1: 0.9, 16: 1.4, 64: 2.2 }, p99: 1.25 }, DEFAULTS],
  },
  {
    name: 'REST verify',
    items: 'wallets',
    ask: same(['ours', 'a'], ({ address, userId }) =>
      post('/server/wallets/verify', userId === null ? { address } : { address, user_id: userId }),
    ),
    read: (body) => body.result,
    toReach: [{ peer: 'a', requests: { 1: 0.9, 16: 1.3, 64: 2.0 }, p99: 1.25 }, DEFAULTS],
  },
  {
    name: 'REST list of 10 (ours with the exact total, the peer without any)',
    items: 'pages',
    ask: {
      ...same(['ours', 'a'], (page) => get(`/server/users?page=${page + 1}&limit=10`)),
      parse: (page) => get(PARSE.path(page)),
    },
    read: readUsers,
    toReach: [{ peer: 'a', requests: { 1: 0.8, 16: 1.0, 64: 1.4 }, p99: 1.25 }, DEFAULTS],
  },
  {
    name: 'REST list of 10 + total',
    items: 'pages',
    ask: {
      ours: (page) => get(`/server/users?page=${page + 1}&limit=10`),
      parse: (page) => get(PARSE.path(page) + PARSE.withTotal),
    },
    read: (body) => ({ total: body.result?.total_user ?? body.count, users: readUsers(body) }),
    toReach: [],
  },
  {
    name: 'GraphQL one user + accounts',
    items: 'ids',
    ask: {
      ...same(['ours', 'b', 'd'], (id) => graphql(USER, { id: String(id) })),
      c: (id) => graphql(POSTGRAPHILE.user, { id: String(id) }),
      parse: (id) => graphql(PARSE.user, { id: String(id) }),
    },
    read: ({ data }) => readNode(data.user ?? data.userByRowId),
    toReach: [{ peer: 'b', requests: { 1: 0.9, 16: 1.3, 64: 2.0 }, p99: 1.25 }, POSTGRAPHILE_TO_REACH, DEFAULTS],
  },
  {
    name: 'GraphQL list of 10 + accounts',
    items: 'pages',
    ask: {
      ...same(['ours', 'b'], (page, cursors) => graphql(LIST, { after: cursors[page] })),
      c: (page, cursors) => graphql(POSTGRAPHILE.list, { after: cursors[page] }),
      parse: (page, cursors) => graphql(PARSE.list, { after: cursors[page] }),
      // Only the first page: with a cursor of two columns, Prisma 7.10 selects all following rows without LIMIT.
      d: () => graphql(LIST, { after: null }),
    },
    firstPageOnly: ['d'],
    read: ({ data }) => nodesOf(data.allUsers ?? data.users).map(readNode),
    toReach: [{ peer: 'b', requests: { 1: 0.8, 16: 1.0, 64: 1.3 }, p99: 1.25 }, POSTGRAPHILE_TO_REACH, DEFAULTS],
  },
  {
    name: 'GraphQL list of 10 + accounts + total',
    items: 'pages',
    ask: {
      ...same(['ours', 'b'], (page, cursors) => graphql(LIST_WITH_TOTAL, { after: cursors[page] })),
      c: (page, cursors) => graphql(POSTGRAPHILE.listWithTotal, { after: cursors[page] }),
      parse: (page, cursors) => graphql(PARSE.listWithTotal, { after: cursors[page] }),
    },
    read: ({ data: { users, allUsers = users } }) => ({
      total: Number(allUsers.totalCount ?? allUsers.count),
      users: nodesOf(allUsers).map(readNode),
    }),
    toReach: [{ peer: 'b', requests: { 64: 50 } }, { peer: 'c', requests: { 64: 50 } }, DEFAULTS],
  },
  {
    name: 'GraphQL entities: 10 users + accounts, as a gateway fetches them',
    items: 'tens',
    ask: same(['ours', 'd'], (ids) =>
      graphql(ENTITIES, { representations: ids.map((id) => ({ __typename: 'User', id: String(id) })) }),
    ),
    read: ({ data }) => data._entities.map(readNode),
    toReach: [DEFAULTS],
  },
];

export function same(servers, ask) {
  return Object.fromEntries(servers.map((server) => [server, ask]));
}

/**
 * The items to request: random ids and wallets of the whole project, and the first `pages` pages. Half of the wallets
 * are requested with the id of their user, and one in ten belongs to no user.
 */
export async function drawItems(data, random, { count, pages }) {
  const drawId = () => data.firstId + Math.floor(random() * data.users);
  const ids = Array.from({ length: count }, drawId);
  const { rows } = await withClient(data.ours, (client) =>
    client.query(
      `SELECT DISTINCT ON (user_id) public_key, user_id::int FROM accounts
       WHERE project_id = $1 AND user_id = ANY($2::bigint[]) ORDER BY user_id, id`,
      [data.projectId, ids],
    ),
  );
  const wallets = shuffle(rows, random).map(({ public_key: address, user_id: userId }, index) => {
    if (index % 10 === 0) return { address: `0x${hex(random, 40)}`, userId: null };
    return { address, userId: index % 2 === 0 ? userId : null };
  });
  const starts = Array.from({ length: count }, (_, index) => (index === 0 ? 0 : Math.floor(random() * pages)));
  const tens = Array.from({ length: count }, () => Array.from({ length: 10 }, drawId));
  return { ids, wallets, pages: starts, tens };
}

export function shuffle(list, random) {
  return list
    .map((value) => ({ value, place: random() }))
    .sort((a, b) => a.place - b.place)
    .map(({ value }) => value);
}

function hex(random, digits) {
  return Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join('');
}

/** The same numbers for the same seed, so that every server gets the same requests. */
export function seededRandom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The headers of every request to a server. */
export function headersFor(server, data) {
  const credentials = {
    ours: { 'service-app-id': data.appId, 'service-app-secret': data.appSecret },
    parse: PARSE_HEADERS,
  };
  return { 'content-type': 'application/json', ...credentials[likeOf(server)] };
}

/** Sends one request; throws unless the answer is successful. */
export async function ask({ name, url }, data, { method, path, headers: own, body }) {
  const headers = { ...headersFor(name, data), ...own };
  if (body === undefined) delete headers['content-type'];
  const response = await fetch(url + path, { method, headers, body });
  const answer = await response.json();
  if (response.status !== 200 || answer.errors !== undefined) {
    throw new Error(
      `${name} answered ${method} ${path} ${body ?? ''} with ${response.status} ${JSON.stringify(answer)}`,
    );
  }
  return answer;
}

/** The cursor before each page of 10 users, in the form of the server; the first page has none. */
export async function readCursors(server, data, pages) {
  const cursors = [null];
  let after = null;
  while (cursors.length < pages) {
    const question = { c: POSTGRAPHILE.cursors, parse: PARSE.cursors }[likeOf(server.name)] ?? CURSORS;
    const { data: answer } = await ask(server, data, graphql(question, { after }));
    const { edges } = answer.allUsers ?? answer.users;
    if (edges.length === 0) break;
    for (let place = 9; place < edges.length; place += 10) cursors.push(edges[place].cursor);
    after = edges.at(-1).cursor;
  }
  return cursors;
}

/** A user of Parse Server's REST as ours has it. It leaves out what is null. */
function fromParse({ objectId, authMethod, authValue, wallet = null, createdAt, lastLogin, loginCount, accounts }) {
  return {
    id: Number(objectId),
    auth_method: authMethod,
    auth_value: authValue,
    wallet,
    created_at: createdAt,
    last_login: lastLogin?.iso ?? null,
    login_count: loginCount,
    accounts: accounts.map(({ publicKey, ...account }) => ({ ...account, public_key: publicKey })),
  };
}

function readUsers({ result, results }) {
  return (result?.users ?? results.map(fromParse)).map(readUser);
}

function nodesOf({ nodes, edges }) {
  return nodes ?? edges.map(({ node }) => node);
}

/** Converts a REST user to the common form. */
function readUser({ id, auth_method, auth_value, wallet, created_at, last_login, login_count, accounts }) {
  return {
    id,
    authMethod: auth_method,
    authValue: auth_value,
    wallet,
    createdAt: created_at,
    lastLogin: last_login,
    loginCount: login_count,
    accounts: accounts.map((account) => ({ id: account.id, network: account.network, publicKey: account.public_key })),
  };
}

/** Converts a GraphQL user to the common form, whatever the server names the id and the accounts. */
function readNode({ id, rowId, objectId, accounts, accountsList, createdAt, lastLogin, ...user }) {
  return {
    ...user,
    id: Number(id ?? rowId ?? objectId),
    createdAt: new Date(createdAt).toISOString(),
    lastLogin: lastLogin === null ? null : new Date(lastLogin).toISOString(),
    accounts: (accounts ?? accountsList)
      .map(({ value, ...own }) => value ?? own)
      .map((account) => ({
        ...account,
        id: Number(account.id ?? account.rowId),
        rowId: undefined,
        network: account.network.toLowerCase(),
        walletType: account.walletType.toLowerCase(),
      })),
  };
}
