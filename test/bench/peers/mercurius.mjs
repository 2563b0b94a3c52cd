import Fastify from 'fastify';
import mercurius from 'mercurius';
import { loginReturning } from './statements.mjs';
import { listen, projectId, rowsOf } from './support.mjs';

/**
 * Peer b: Mercurius with its JIT compiler and hand-written SQL. A question is one round trip where its accounts come with
 * their users, as they do from both root fields of queries; cursors are row-value seeks; the total is counted only where it is asked for,
 * beside the rows.
 */

const schema = `
  type Query {
    user(id: ID!): User
    users(first: Int! = 10, after: String): UserConnection!
  }
  type Mutation { recordLogin(input: RecordLoginInput!): RecordLoginPayload! }
  input RecordLoginInput { authMethod: String!  authValue: String! }
  type RecordLoginPayload { created: Boolean!  user: User! }
  type UserConnection { edges: [UserEdge!]!  nodes: [User!]!  totalCount: Int! }
  type UserEdge { cursor: String!  node: User! }
  type User {
    id: ID!  authMethod: String!  authValue: String!  wallet: String
    createdAt: String!  lastLogin: String  loginCount: Int!  accounts: [Account!]!
  }
  type Account { id: ID!  network: Network!  publicKey: String!  walletType: WalletType! }
  enum Network { STELLAR ETHEREUM }
  enum WalletType { CUSTODIAL EXTERNAL }
`;

const COLUMNS = `
  u.id, u.auth_method AS "authMethod", u.auth_value AS "authValue", u.wallet, u.login_count AS "loginCount",
  to_char(u.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "createdAt",
  to_char(u.last_login AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS "lastLogin"`;
const USER = `${COLUMNS},
  (
    SELECT coalesce(json_agg(json_build_object(
      'id', a.id, 'network', upper(a.network::text), 'publicKey', a.public_key, 'walletType', upper(a.wallet_type::text)
    ) ORDER BY a.id), '[]')
    FROM accounts a WHERE a.project_id = u.project_id AND a.user_id = u.id
  ) AS accounts`;

const GET_USER = `SELECT ${USER} FROM users u WHERE u.project_id = $1 AND u.id = $2 AND u.deleted_at IS NULL`;

const NEWEST_FIRST = 'ORDER BY u.created_at DESC, u.id DESC LIMIT $2';
const NEWEST = `SELECT ${USER} FROM users u WHERE u.project_id = $1 AND u.deleted_at IS NULL ${NEWEST_FIRST}`;
const AFTER = `
  SELECT ${USER} FROM users u
  WHERE u.project_id = $1 AND u.deleted_at IS NULL AND (u.created_at, u.id) < ($3::timestamptz, $4::bigint) ${NEWEST_FIRST}`;

const LOGIN = loginReturning(COLUMNS);

const COUNT = 'SELECT count(*) AS total FROM users u WHERE u.project_id = $1 AND u.deleted_at IS NULL';

function listUsers(first, after) {
  if (after == null) return rowsOf('users', NEWEST, [projectId, first]);
  const [createdAt, id] = Buffer.from(after, 'base64url').toString().split(' ');
  return rowsOf('users-after', AFTER, [projectId, first, createdAt, id]);
}

const resolvers = {
  Query: {
    user: async (_root, { id }) => (await rowsOf('user', GET_USER, [projectId, id]))[0] ?? null,
    users: async (_root, { first, after }, _context, info) => {
      const [nodes, total] = await Promise.all([
        listUsers(first, after),
        selectsTotal(info.fieldNodes) ? rowsOf('count', COUNT, [projectId]) : null,
      ]);
      return { nodes, totalCount: total?.[0].total };
    },
  },
  Mutation: {
    recordLogin: async (_root, { input: { authMethod, authValue } }) => {
      const [user] = await rowsOf('login', LOGIN, [projectId, authMethod, authValue]);
      return { created: user.created, user };
    },
  },
  UserConnection: { edges: ({ nodes }) => nodes },
  UserEdge: {
    node: (user) => user,
    cursor: ({ createdAt, id }) => Buffer.from(`${createdAt} ${id}`).toString('base64url'),
  },
};

/** Whether the total is among the fields; the nodes of an operation that is known stay the same, so it is decided once. */
const decided = new WeakMap();
function selectsTotal(fieldNodes) {
  const [node] = fieldNodes;
  if (!decided.has(node)) {
    decided.set(
      node,
      node.selectionSet.selections.some(({ name }) => name?.value === 'totalCount'),
    );
  }
  return decided.get(node);
}

const app = Fastify({ logger: false });
app.register(mercurius, { schema, resolvers, jit: 1, graphiql: false });

await listen(app);
