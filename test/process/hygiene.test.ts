import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import {
  type Credentials,
  type Outcome,
  type RunningServer,
  startServer,
  useDatabase,
  userdir,
  withDirectory,
} from '../support/command.js';

/**
 * Logs and errors contain no secret, hash, email or address. The test calls every kind of operation, including failures
 * where the database names a user in its message, then searches all output.
 */

const TRAP = 'trap@example.com';
const EMAILS = [TRAP, 'ada@example.com', 'grace.hopper@mail.example.org'] as const;
const ADDRESSES = [stellarAddress(1), stellarAddress(2), ethereumAddress(3)] as const;

const database = useDatabase();
let server: RunningServer;

/** Runs SQL while no server uses the database. */
const onDatabase = (sql: string): Promise<Record<string, unknown>[]> =>
  withDirectory(database.env, async ({ db }) => (await db.pool.query(sql)).rows);

beforeAll(async () => {
  // PostgreSQL reports this failure with the whole row, including the email.
  await onDatabase(`ALTER TABLE users ADD CONSTRAINT trap CHECK (auth_value <> '${TRAP}')`);
  server = await startServer({ ...database.env, DEMO: 'off', LOG_LEVEL: 'trace' });
});
afterAll(() => server.stop());

const errorBodies: string[] = [];
const outcomes: Outcome[] = [];
const secrets: string[] = [];

async function command(args: string[], input = ''): Promise<string> {
  const outcome = await userdir({ ...database.env, LOG_LEVEL: 'trace' }, args, input);
  outcomes.push(outcome);
  return outcome.stdout;
}

/** Includes the secret, which the command shows only once. */
async function showing(args: string[]) {
  const { app_id, app_secret } = JSON.parse(await command([...args, '--json']));
  secrets.push(app_secret);
  return { app_id, app_secret } as Credentials;
}

async function ask(path: string, init: RequestInit): Promise<number> {
  const response = await fetch(server.url + path, init);
  const body = await response.text();
  if (response.status >= 400 || body.includes('"errors"')) errorBodies.push(body);
  return response.status;
}

const postJson = (headers: Record<string, string>, body: string) => ({
  method: 'POST',
  headers: { ...headers, 'content-type': 'application/json' },
  body,
});

test('no operation writes secrets or personal data to a log or an error', async () => {
  const { app_id, app_secret } = await showing(['project', 'create', '--name', 'Test']);
  const { app_secret: limited } = await showing(['project', 'add-secret', app_id, '--label', 'r', '--scope', 'read']);
  const right = { 'service-app-id': app_id, 'service-app-secret': app_secret };
  const wrong = `uds_${'wrong'.repeat(9)}`;
  const basic = Buffer.from(`${app_id}:${app_secret}`).toString('base64');
  const lines = [
    { auth_method: 'email', auth_value: EMAILS[1], accounts: [{ network: 'stellar', public_key: ADDRESSES[0] }] },
    { auth_method: 'google', auth_value: '1', email: EMAILS[2], wallet: ADDRESSES[2] },
  ].map((line) => `${JSON.stringify(line)}\n`);
  await command(['user', 'import', '--project', app_id], lines.join(''));
  await command(['user', 'import', '--project', app_id], lines.join(''));
  await command(['user', 'import', '--project', app_id], `{"auth_method":"email","auth_value":"${TRAP}"}\n`);
  const faults = await command(
    ['user', 'import', '--project', app_id],
    `{"auth_method":"wallet","auth_value":"${EMAILS[1]}"}\n{ ${EMAILS[1]}\n`,
  );
  await command(['user', 'ban', '--project', app_id, '--method', 'wallet', '--value', EMAILS[1]]);

  const headers = [right, { authorization: `Basic ${basic}` }, { ...right, 'service-app-secret': limited }];
  for (const each of [...headers, { ...right, 'service-app-secret': wrong }, {}]) {
    await ask('/server/users', { headers: each });
    await ask(`/server/users/count?login_method=${EMAILS[1]}`, { headers: each });
    await ask(`/server/users/search?email=${EMAILS[1]}`, { headers: each });
    await ask(`/server/users/search?email=${EMAILS[1]}&address=${ADDRESSES[0]}`, { headers: each });
    await ask(`/server/users/search?address=${ADDRESSES[0]}`, { headers: each });
    await ask(`/server/users/search?email=${ADDRESSES[2]}`, { headers: each });
    await ask(`/server/users/search?address=${EMAILS[2]}`, { headers: each });
    await ask(`/server/users?page=${app_secret}`, { headers: each });
    await ask(`/server/users/${EMAILS[1]}`, { method: 'DELETE', headers: each });
    await ask(`/server/nowhere/${EMAILS[1]}`, { headers: each });
    await ask('/server/wallets/verify', postJson(each, JSON.stringify({ address: ADDRESSES[0] })));
    await ask('/server/wallets/verify', postJson(each, JSON.stringify({ address: EMAILS[1], user_id: EMAILS[1] })));
    await ask('/server/wallets/verify', postJson(each, `{"address": "${ADDRESSES[0]}"`));
    const wallets = [{ address: ADDRESSES[0] }, { address: EMAILS[1] }];
    await ask('/wallets/verify', postJson(each, JSON.stringify({ wallets })));
    await ask('/wallets/verify', postJson(each, JSON.stringify({ wallets: [EMAILS[1]], [EMAILS[1]]: 1 })));
    const graphql = (query: string, variables?: object) =>
      ask('/graphql', postJson(each, JSON.stringify({ query, variables })));
    await graphql(`{ searchUsers(by: { email: "${EMAILS[1]}" }) { id authValue } }`);
    await graphql(`{ userCount(filter: "${EMAILS[1]}") }`);
    await graphql(`{ userCount(filter: { startDate: "${app_secret}" }) }`);
    await graphql(`{ verifyWallet(address: "${ADDRESSES[1]}", userId: "${EMAILS[1]}") { exists } }`);
    await graphql(`{ ${EMAILS[1]} }`);
    const login = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created } }';
    await graphql(login, {
      input: { authMethod: 'email', authValue: EMAILS[2], wallet: ADDRESSES[2], no: app_secret },
    });
    await graphql(login, { input: { authMethod: 'email', authValue: TRAP } });
    await graphql(login, { input: { authMethod: 'wallet', authValue: EMAILS[1] } });
  }
  await showing(['project', 'rotate', app_id, '--overlap', '1h']);
  await command(['project', 'revoke', app_id, '1']);
  const quiet = [await command(['project', 'secrets', app_id]), await command(['audit', '--project', app_id])];
  const { stderr: log } = await server.stop();

  // The scenario covers every kind of error, and database failures that name a user.
  expect(new Set(errorBodies.map((body) => /"code":"(\w+)"/.exec(body)?.[1]))).toEqual(
    new Set([undefined, 'UNAUTHENTICATED', 'BAD_USER_INPUT', 'FORBIDDEN', 'INTERNAL_SERVER_ERROR']),
  );
  expect(log).toContain('"constraint":"trap"');
  expect(log).toContain('"route":"/server/users/search"');
  expect(faults).toContain('auth_value: got "[email]"');
  expect(faults).toContain('is not valid JSON');

  const hashes = secrets.flatMap((secret) => {
    const hash = createHash('sha256').update(secret).digest();
    return [hash.toString('hex'), hash.toString('base64'), hash.toString('base64url')];
  });
  const never = [...secrets, wrong, basic, ...hashes, ...EMAILS, ...ADDRESSES];
  const written = [log, ...errorBodies, faults, ...quiet, ...outcomes.map(({ stderr }) => stderr)]
    .join('\n')
    .toLowerCase();
  expect(never.filter((text) => written.includes(text.toLowerCase()))).toEqual([]);

  // Only the hash of a secret is stored, in one place.
  const tables = ['projects', 'app_secrets', 'users', 'accounts', 'bans', 'audit_log'];
  const dump = await onDatabase(tables.map((table) => `SELECT t::text AS row FROM ${table} t`).join(' UNION ALL '));
  const kept = dump.map(({ row }) => row).join('\n');
  expect(secrets.filter((secret) => kept.includes(secret))).toEqual([]);
  for (const secret of secrets) expect(kept).toContain(createHash('sha256').update(secret).digest('hex'));
});
