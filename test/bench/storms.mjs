/** The storms of a project: every kind of operation that it can send, not only cheap ones. */

const ALL =
  'id authMethod loginMethod authValue wallet createdAt lastLogin loginCount accounts { id network publicKey walletType }';

const many = (count, make) => Array.from({ length: count }, (_, index) => make(index)).join(' ');
const get = (path) => ({ method: 'GET', path });
const graphql = (query, variables) => ({
  method: 'POST',
  path: '/graphql',
  body: JSON.stringify({ query, variables }),
});

/** A user with as many accounts as one can have, who changes with each of these logins. */
const changing = (n) =>
  graphql(
    'mutation ($email: String!) { recordLogin(input: { authMethod: "github", authValue: "changing", email: $email }) { created } }',
    { email: `changing.${n}@example.com` },
  );
const manyAccounts = () =>
  graphql(
    `mutation { recordLogin(input: { authMethod: "github", authValue: "changing", accounts: [${many(100, (n) => `{ network: ETHEREUM, publicKey: "0x${(n + 1).toString(16).padStart(40, '0')}" }`)}] }) { created } }`,
  );
/** The largest events that a subscription may have. */
const subscription = () =>
  graphql(
    `subscription { changes { change { id user { ${many(3, (n) => `a${n}: accounts { id network publicKey }`)} } } } }`,
  );

/**
 * Storms by name: requests on a project whose user ids start at `firstId`, and `headers` if they differ; `before` is sent once, and
 * `streams` are open meanwhile, of which every second is not read.
 */
export function stormsOn({ firstId, users, headers }) {
  const id = (n) => firstId + ((n * 7_919) % users);
  const list = (count, make) => Array.from({ length: count }, (_, n) => make(n));
  return {
    'one user': { requests: list(2_000, (n) => get(`/server/users/${id(n)}`)) },
    'pages of 100': { requests: list(500, (n) => get(`/server/users?limit=100&page=${n + 1}`)) },
    'verdicts, 500 a request': {
      requests: list(20, (n) => ({
        method: 'POST',
        path: '/wallets/verify',
        body: JSON.stringify({
          wallets: list(500, (m) => ({ address: `0x${(n * 500 + m).toString(16).padStart(40, '0')}` })),
        }),
      })),
    },
    searches: { requests: list(500, (n) => get(`/server/users/search?email=nobody.${n}@example.com`)) },
    'wrong secrets': {
      requests: list(500, (n) => get(`/server/users/${id(n)}`)),
      headers: { ...headers, 'service-app-secret': 'wrong' },
    },
    'logins, one a request': {
      requests: list(2_000, (n) =>
        graphql('mutation ($v: String!) { recordLogin(input: { authMethod: "github", authValue: $v }) { created } }', {
          v: `storm ${n}`,
        }),
      ),
    },
    'logins that are refused': {
      before: graphql(
        'mutation { recordLogin(input: { authMethod: "github", authValue: "holder", externalId: "taken" }) { created } }',
      ),
      requests: list(500, (n) =>
        graphql(
          'mutation ($v: String!) { recordLogin(input: { authMethod: "github", authValue: $v, externalId: "taken" }) { created } }',
          { v: `refused ${n}` },
        ),
      ),
    },
    'logins, 95 a request': {
      requests: list(20, (n) =>
        graphql(
          `mutation { ${many(95, (m) => `a${m}: recordLogin(input: { authMethod: "github", authValue: "storm ${n} ${m}" }) { created }`)} }`,
        ),
      ),
    },
    'wide lists': {
      requests: list(20, (n) => graphql(`{ ${many(4, (m) => `a${n}x${m}: users(first: 100) { nodes { ${ALL} } }`)} }`)),
    },
    'wide lists, not compiled': {
      requests: list(20, (n) =>
        graphql(`{ ${many(4, (m) => `a${n}x${m}: users(first: 100) { nodes @include(if: true) { ${ALL} } }`)} }`),
      ),
    },
    'users by id, 1,000 a request': {
      requests: [
        graphql(`query ($ids: [ID!]!) { ${many(10, (m) => `a${m}: usersByIds(ids: $ids) { id }`)} }`, {
          ids: list(100, (n) => String(id(n))),
        }),
      ],
    },
    'counts, 49 a request': {
      requests: list(20, (n) =>
        graphql(
          `{ ${many(49, (m) => `a${m}: userCount(filter: { startDate: "2025-01-${String(1 + (n % 28)).padStart(2, '0')}T00:00:${String(m % 60).padStart(2, '0')}Z" })`)} }`,
        ),
      ),
    },
    'searches, 100 a request': {
      requests: list(20, (n) =>
        graphql(`{ ${many(100, (m) => `a${m}: searchUsers(by: { email: "${n}.${m}@example.com" }) { id }`)} }`),
      ),
    },
    'errors, 100 a request': { requests: [graphql(`{ ${many(100, (m) => `a${m}: user(id: "x") { id }`)} }`)] },
    'documents that are not valid': {
      requests: list(50, (n) => graphql(`{ users { ${many(900, (m) => `nope${n}x${m}`)} } }`)),
    },
    'documents that are new': {
      requests: list(1_500, (n) =>
        graphql(`{ ${many(100, (m) => `a${n}x${m}: users(first: 1) { nodes { accounts { id } } }`)} }`),
      ),
    },
    'subscriptions that are refused': {
      requests: list(50, (n) =>
        graphql(`subscription { changes { change { user { ${many(140, (m) => `a${n}x${m}: accounts { id }`)} } } } }`),
      ),
    },
    'introspection that is new': {
      requests: list(1_500, (n) =>
        graphql(
          `{ __schema { ${many(9, (m) => `a${n}x${m}: types { fields { name description args { name } } }`)} } }`,
        ),
      ),
    },
    'changes of a type, 1 of 1': { requests: [get('/changes?limit=1&types=user.removed')] },
    'changes of a type, 100 a request': {
      requests: [
        graphql(`{ ${many(100, (m) => `a${m}: changes(first: 1, types: [USER_REMOVED]) { nodes { id } }`)} }`),
      ],
    },
    'events of 30 subscriptions': {
      before: manyAccounts(),
      streams: { count: 30, request: subscription() },
      requests: list(500, changing),
    },
    'events of 1,000 streams': {
      streams: { count: 1_000, request: get('/changes') },
      requests: list(500, changing),
    },
    'bodies of 250 KiB that are refused': {
      requests: [graphql('{ __typename }', Object.fromEntries(list(18_000, (n) => [`k${n}`, n])))],
    },
  };
}
