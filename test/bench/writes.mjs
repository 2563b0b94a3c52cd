import { withClient } from './data.mjs';
import { NUMBER } from './load.mjs';
import { DEFAULTS, get, graphql, POSTGRAPHILE_TO_REACH, post, same, shuffle, USER } from './questions.mjs';

/**
 * The questions that write. They are asked of the databases of write-data.mjs. As in questions.mjs, `ask` makes the request of each server for
 * an item; `numbersOf` says which numbers its requests get, and `expected` is a text that every answer must have.
 */

const LOGIN = `mutation Login($input: RecordLoginInput!) { recordLogin(input: $input) {
  created user { id authMethod authValue wallet createdAt lastLogin loginCount } } }`;
const POSTGRAPHILE_LOGIN = `mutation Login($input: RecordLoginInput!) { recordLogin(input: $input) {
  result { created rowId authMethod authValue wallet createdAt lastLogin loginCount } } }`;

const login = ({ authMethod, authValue, accounts }) => graphql(LOGIN, { input: { authMethod, authValue, accounts } });
const restLogin = ({ authMethod, authValue, accounts }) =>
  post('/server/logins', {
    auth_method: authMethod,
    auth_value: authValue,
    accounts: accounts?.map(({ network, publicKey }) => ({ network: network.toLowerCase(), public_key: publicKey })),
  });
const LOGINS = {
  ...same(['ours', 'b'], login),
  a: restLogin,
  c: ({ authMethod, authValue }) => graphql(POSTGRAPHILE_LOGIN, { input: { authMethod, authValue } }),
};

/** Each of ten digits, and more than a load has requests. */
const NEWCOMERS = () => ({ first: 1_000_000_000, step: 1, count: 1_000_000_000 });
/** Users far from each other one after the other, as they are removed in life. */
const REMOVED = ({ firstId, users }) => ({ first: firstId, step: 7_919, count: users });

/** Loads are told apart, so that neither an identity nor a key is ever repeated in a database. */
let loads = 0;

/** A person who has never logged in; `part` is in the address of every account. */
function newcomer(accounts) {
  loads += 1;
  const address = (part) => `0x${part}${String(loads).padStart(29, '0')}${NUMBER}`;
  const linked = accounts.map((part) => ({ network: 'ETHEREUM', publicKey: address(part) }));
  const identity = { authMethod: 'email', authValue: `newcomer.${loads}.${NUMBER}@example.net` };
  return linked.length === 0 ? identity : { ...identity, accounts: linked };
}

function removal() {
  loads += 1;
  const headers = { 'idempotency-key': `removal-${loads}-${NUMBER}` };
  return { method: 'DELETE', path: `/server/users/${NUMBER}`, headers };
}

const LOGINS_DRAWN = 20_000;
const READS_FOR_A_LOGIN = 9;

/** Random users with their identities. */
async function drawUsers(url, { projectId, firstId, users }, random) {
  const ids = Array.from({ length: LOGINS_DRAWN }, () => firstId + Math.floor(random() * users));
  const { rows } = await withClient(url, (client) =>
    client.query(
      `SELECT id::int, auth_method AS "authMethod", auth_value AS "authValue", login_count AS "loginCount" FROM users
       WHERE project_id = $1 AND id = ANY($2::bigint[]) ORDER BY id`,
      [projectId, ids],
    ),
  );
  return shuffle(rows, random);
}

export const WRITES = [
  {
    name: 'GraphQL login of a user who exists',
    draw: drawUsers,
    ask: LOGINS,
    expected: '"created":false',
    read: (body, { loginCount }) => {
      const { authMethod, authValue, wallet, createdAt, ...user } = readLogin(body);
      return { authMethod, authValue, wallet, createdAt, counted: user.loginCount - loginCount, created: user.created };
    },
    toReach: [
      { peer: 'a', requests: { 1: 0.9, 16: 1.3, 64: 2.0 }, p99: 1.25 },
      { peer: 'b', requests: { 1: 0.9, 16: 1.5, 64: 2.2 }, p99: 1.25 },
      POSTGRAPHILE_TO_REACH,
      DEFAULTS,
    ],
  },
  {
    name: 'GraphQL first login',
    draw: () => [newcomer([])],
    numbersOf: NEWCOMERS,
    ask: LOGINS,
    expected: '"created":true',
    read: readNewcomer,
    toReach: [{ peer: 'a', requests: { 1: 0.8, 16: 1.2, 64: 1.8 }, p99: 1.25 }, DEFAULTS],
  },
  {
    name: 'GraphQL first login with two accounts',
    draw: () => [newcomer(['a', 'b'])],
    numbersOf: NEWCOMERS,
    ask: { ours: login, a: restLogin },
    expected: '"created":true',
    read: readNewcomer,
    toReach: [{ peer: 'a', requests: { 1: 1.2, 16: 2, 64: 3 }, p99: 1.25 }, DEFAULTS],
  },
  {
    name: 'GraphQL mix: nine reads of a user + accounts for a login',
    draw: async (url, data, random) => {
      const users = await drawUsers(url, data, random);
      return users.map((user, place) => ({ ...user, logsIn: place % (READS_FOR_A_LOGIN + 1) === READS_FOR_A_LOGIN }));
    },
    ask: {
      ...same(['ours', 'b'], (user) => (user.logsIn ? login(user) : graphql(USER, { id: String(user.id) }))),
      a: (user) => (user.logsIn ? restLogin(user) : get(`/server/users/${user.id}`)),
    },
    read: (body, { logsIn }) => {
      const { authValue, wallet, accounts } = logsIn ? readLogin(body) : camelCase(body.result ?? body.data.user);
      return { authValue, wallet, accounts: accounts?.length };
    },
    toReach: [DEFAULTS],
  },
  {
    name: 'REST removal with a key',
    draw: () => [removal()],
    numbersOf: REMOVED,
    ask: same(['ours', 'a'], (request) => request),
    read: ({ message }) => message,
    toReach: [{ peer: 'a', requests: { 1: 1.0, 16: 1.5, 64: 2 }, p99: 1.25 }, DEFAULTS],
  },
];

/** The user of a login, in the common form. */
function readLogin({ result, data }) {
  if (result !== undefined) return camelCase(result);
  const { created, user, result: row } = data.recordLogin;
  const { createdAt, ...login } = row ?? { created, ...user };
  return { ...login, createdAt: new Date(createdAt).toISOString() };
}

function readNewcomer(body) {
  const { authMethod, wallet, loginCount, created } = readLogin(body);
  return { authMethod, wallet, loginCount, created };
}

/** REST has snake case. */
function camelCase(user) {
  const name = (column) => column.replace(/_(.)/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(user).map(([column, value]) => [name(column), value]));
}
