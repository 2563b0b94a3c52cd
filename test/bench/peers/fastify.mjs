import Fastify from 'fastify';
import { CLAIM_KEY, LINK_ACCOUNTS, loginReturning, REMOVE_USER } from './statements.mjs';
import { listen, projectId, rowsOf, transaction } from './support.mjs';

/**
 * Peer a: a hand-written server on Fastify and pg. One prepared statement and one round trip a route, compiled serializers,
 * no logging. Its list has no total. Only what takes two statements, a login with accounts and a removal with its key, is a transaction.
 */

const COLUMNS = `
  u.id, u.auth_method, u.auth_value, u.wallet, u.login_count,
  to_char(u.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at,
  to_char(u.last_login AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS last_login`;
const USER = `${COLUMNS},
  (
    SELECT coalesce(json_agg(json_build_object('id', a.id, 'network', a.network, 'public_key', a.public_key) ORDER BY a.id), '[]')
    FROM accounts a WHERE a.project_id = u.project_id AND a.user_id = u.id
  ) AS accounts`;

const GET_USER = `SELECT ${USER} FROM users u WHERE u.project_id = $1 AND u.id = $2 AND u.deleted_at IS NULL`;

// The page first: accounts of users whom OFFSET skips would be read for nothing.
const LIST_USERS = `
  SELECT ${USER} FROM (
    SELECT * FROM users WHERE project_id = $1 AND deleted_at IS NULL
    ORDER BY created_at DESC, id DESC LIMIT $2 OFFSET $3
  ) u
  ORDER BY u.created_at DESC, u.id DESC`;

const VERIFY = `
  SELECT a.user_id, a.network, a.wallet_type, u.auth_method
  FROM accounts a JOIN users u ON u.project_id = a.project_id AND u.id = a.user_id
  WHERE a.project_id = $1 AND a.address_key = $2 AND ($3::bigint IS NULL OR a.user_id = $3) AND u.deleted_at IS NULL
  ORDER BY a.user_id LIMIT 1`;

const LOGIN = loginReturning(COLUMNS);

const text = { type: 'string' };
const optionalText = { type: ['string', 'null'] };
const integer = { type: 'integer' };
const answer = (result) => ({ 200: { type: 'object', properties: { message: text, result } } });
const columns = {
  id: integer,
  auth_method: text,
  auth_value: text,
  wallet: optionalText,
  created_at: text,
  last_login: optionalText,
  login_count: integer,
};
const user = {
  type: 'object',
  properties: {
    ...columns,
    accounts: {
      type: 'array',
      items: { type: 'object', properties: { id: integer, network: text, public_key: text } },
    },
  },
};

const app = Fastify({ logger: false });

app.get('/server/users/:user_id', {
  schema: { params: { type: 'object', properties: { user_id: integer } }, response: answer(user) },
  async handler({ params }, reply) {
    const [result] = await rowsOf('user', GET_USER, [projectId, params.user_id]);
    if (result === undefined) return reply.code(404).send({ error: 'There is no such user.' });
    return { message: 'User found.', result };
  },
});

app.get('/server/users', {
  schema: {
    querystring: {
      type: 'object',
      properties: {
        page: { type: 'integer', minimum: 1, default: 1 },
        limit: { type: 'integer', minimum: 1, maximum: 100, default: 10 },
      },
    },
    response: answer({
      type: 'object',
      properties: { page: integer, limit: integer, users: { type: 'array', items: user } },
    }),
  },
  async handler({ query: { page, limit } }) {
    const users = await rowsOf('users', LIST_USERS, [projectId, limit, (page - 1) * limit]);
    return { message: 'Users listed.', result: { page, limit, users } };
  },
});

app.post('/server/wallets/verify', {
  schema: {
    body: {
      type: 'object',
      required: ['address'],
      properties: {
        address: { type: 'string', pattern: '^(G[A-Z2-7]{55}|0x[0-9a-fA-F]{40})$' },
        user_id: { type: 'integer', minimum: 1 },
      },
    },
    response: answer({
      type: 'object',
      properties: {
        exists: { type: 'boolean' },
        user_id: integer,
        network: text,
        wallet_type: text,
        auth_method: text,
      },
    }),
  },
  async handler({ body: { address, user_id } }) {
    const key = address.startsWith('0x') ? address.toLowerCase() : address;
    const [owner] = await rowsOf('verify', VERIFY, [projectId, key, user_id ?? null]);
    return {
      message: 'Wallet verified.',
      result: owner === undefined ? { exists: false } : { exists: true, ...owner },
    };
  },
});

app.post('/server/logins', {
  schema: {
    body: {
      type: 'object',
      required: ['auth_method', 'auth_value'],
      properties: {
        auth_method: text,
        auth_value: text,
        accounts: {
          type: 'array',
          items: {
            type: 'object',
            required: ['network', 'public_key'],
            properties: { network: text, public_key: text },
          },
        },
      },
    },
    response: answer({ type: 'object', properties: { ...columns, created: { type: 'boolean' } } }),
  },
  async handler({ body: { auth_method, auth_value, accounts } }) {
    const login = (rowsOf) => rowsOf('login', LOGIN, [projectId, auth_method, auth_value]);
    if (accounts === undefined) return { message: 'Login recorded.', result: (await login(rowsOf))[0] };
    const result = await transaction(async (rowsOf) => {
      const [user] = await login(rowsOf);
      const [networks, addresses] = [accounts.map(({ network }) => network), accounts.map((each) => each.public_key)];
      await rowsOf('link', LINK_ACCOUNTS, [projectId, user.id, networks, addresses]);
      return user;
    });
    return { message: 'Login recorded.', result };
  },
});

app.delete('/server/users/:user_id', {
  schema: {
    params: { type: 'object', properties: { user_id: integer } },
    headers: { type: 'object', required: ['idempotency-key'], properties: { 'idempotency-key': text } },
    response: { 200: { type: 'object', properties: { message: text } } },
  },
  async handler({ params, headers }) {
    await transaction(async (rowsOf) => {
      const [key] = await rowsOf('claim', CLAIM_KEY, [projectId, headers['idempotency-key'], params.user_id]);
      if (!key.claimed && key.user_id !== params.user_id) throw failure(409, 'The key is of another removal.');
      if (!key.claimed) return;
      const [removed] = await rowsOf('remove', REMOVE_USER, [projectId, params.user_id]);
      if (removed === undefined) throw failure(404, 'There is no such user.');
    });
    return { message: 'User removed.' };
  },
});

const failure = (statusCode, message) => Object.assign(new Error(message), { statusCode });

await listen(app);
