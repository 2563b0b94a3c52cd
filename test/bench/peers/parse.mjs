import { createRequire } from 'node:module';
import pg from 'pg';

/**
 * Peer parse: Parse Server with its default settings, without its log. At its first start it makes its own tables beside those of the
 * other peers, and is then filled with the same users: in its class of users, because that is what it is picked for, with the accounts
 * of a user in one field, so that it needs no second query. Its only index of ours is the one that lists are sorted by.
 */

const { ParseServer } = createRequire(import.meta.url)('parse-server');

const connectionString = process.env['DATABASE_URL'];
const [text, number, date, array] = ['String', 'Number', 'Date', 'Array'].map((type) => ({ type }));

const server = await ParseServer.startApp({
  appId: process.env['PARSE_APP_ID'],
  masterKey: process.env['PARSE_MASTER_KEY'],
  databaseURI: `${connectionString}?max=${process.env['DATABASE_POOL_SIZE']}&idleTimeoutMillis=0`,
  schema: {
    definitions: [
      {
        className: '_User',
        fields: {
          authMethod: text,
          authValue: text,
          wallet: text,
          lastLogin: date,
          loginCount: number,
          accounts: array,
        },
      },
    ],
  },
  mountPath: '/parse',
  mountGraphQL: true,
  graphQLPath: '/graphql',
  host: '127.0.0.1',
  port: 0,
  serverURL: 'http://127.0.0.1/parse',
  verifyServerUrl: false,
  silent: true,
});

// Parse Server would close everything twice, with an error.
process.removeAllListeners('SIGTERM');

const client = new pg.Client({ connectionString });
await client.connect();
const { rowCount: isFilled } = await client.query('SELECT FROM "_User" LIMIT 1');
if (!isFilled) {
  await client.query('SET synchronous_commit = off');
  await client.query(
    `INSERT INTO "_User" ("objectId", "createdAt", "updatedAt", username, "authMethod", "authValue", wallet, "lastLogin", "loginCount", accounts)
     SELECT id, created_at, created_at, auth_method || ':' || auth_value, auth_method, auth_value, wallet, last_login, login_count,
       (SELECT coalesce(jsonb_agg(jsonb_build_object(
          'id', a.id, 'network', a.network, 'publicKey', a.public_key, 'walletType', a.wallet_type) ORDER BY a.id), '[]')
        FROM accounts a WHERE a.project_id = u.project_id AND a.user_id = u.id)
     FROM users u WHERE project_id = $1 AND deleted_at IS NULL ORDER BY id`,
    [process.env['PROJECT_ID']],
  );
  await client.query('CREATE INDEX user_created_at ON "_User" ("createdAt")');
  await client.query('VACUUM (ANALYZE) "_User"');
}
await client.end();
process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${server.server.address().port}` })}\n`);
