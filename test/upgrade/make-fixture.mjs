/**
 * Keeps two databases of this release, for the tests of later ones: VERSION.sql.gz, a dump, and VERSION.data.tar.br, an embedded data directory.
 * Every column of every table has a value somewhere. Needs TEST_DATABASE_URL, a PostgreSQL 15 where databases may be created, and its pg_dump.
 */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const folder = mkdtempSync(join(tmpdir(), 'userdir-fixture-'));
const database = new URL(process.env.TEST_DATABASE_URL);
database.pathname = `/userdir_fixture_${process.pid}`;

/** Columns that have a value only while something happens. */
const EMPTY_AT_REST = new Set(['_prisma_migrations.logs', '_prisma_migrations.rolled_back_at']);

const receiver = createServer((request, response) => {
  request.resume();
  response.writeHead({ '/gone': 410, '/broken': 500 }[request.url] ?? 204).end();
});
await once(receiver.listen(0, '127.0.0.1'), 'listening');
const addressOf = (path) => `http://127.0.0.1:${receiver.address().port}${path}`;

async function onServer(text) {
  const client = new pg.Client(process.env.TEST_DATABASE_URL);
  await client.connect();
  await client.query(text).finally(() => client.end());
}

async function postgresSql(text) {
  const client = new pg.Client(database.href);
  await client.connect();
  return (await client.query(text).finally(() => client.end())).rows;
}

async function embeddedSql(text) {
  const engine = await PGlite.create(join(folder, 'data/pgdata'));
  return (await engine.query(text).finally(() => engine.close())).rows;
}

/** Makes rows in every table. `sql` runs a statement while no process has the database. */
async function fill(settings, sql) {
  const env = {
    PATH: process.env.PATH,
    OPERATOR: 'ada',
    DEMO: 'off',
    WEBHOOKS_ALLOW_PRIVATE: 'on',
    LOG_LEVEL: 'fatal',
    ...settings,
  };
  const run = async (...args) => {
    const running = promisify(execFile)(process.execPath, [join(ROOT, 'dist/cli.js'), ...args, '--json'], { env });
    return JSON.parse((await running).stdout);
  };
  const importLines = (project, lines, ...options) => {
    const file = join(folder, 'lines.ndjson');
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
    return run('user', 'import', '--project', project, ...options, file);
  };

  async function serve(work) {
    const child = spawn(process.execPath, [join(ROOT, 'dist/cli.js'), 'serve', '--json'], {
      env: { ...env, PORT: '0' },
    });
    const [line] = await once(child.stdout, 'data');
    await work(JSON.parse(line).url);
    child.kill('SIGTERM');
    await once(child, 'exit');
  }

  const one = await run('project', 'create', '--name', 'One');
  const two = await run('project', 'create', '--name', 'Two');
  await run('project', 'limit', two.app_id, '--rate', '6000');
  await run('project', 'disable', two.app_id);
  await run(
    'project',
    'add-secret',
    one.app_id,
    '--label',
    'reader',
    '--scope',
    'read,changes',
    '--expires-in',
    '365d',
  );
  await run('operator', 'add', 'bob', '--role', 'support', '--project', one.app_id);
  await run('dashboard', '--operator', 'bob');
  // A day that is crowded enough for slices, and each kind of user.
  const users = Array.from({ length: 2_200 }, (_, index) => ({
    auth_method: ['email', 'google', 'passkey'][index % 3],
    auth_value: `user-${index}@example.com`,
    created_at: new Date(Date.UTC(2026, 0, 31, 0, 0, index * 10)).toISOString(),
  }));
  await importLines(one.app_id, [
    ...users,
    { auth_method: 'wallet', auth_value: '0x52908400098527886E0F7030069857D2E4169EE7' },
    {
      auth_method: 'google',
      auth_value: 'Ærøskøbing-1',
      email: 'grace@example.com',
      wallet: 'GAJ2EHAQYH7ZST46FB62S4S74EPIJKTJ6RMRMGLVOFQM5QP24OA75K6G',
      external_id: 'crm-1',
      created_at: '1999-12-31T23:59:59.999Z',
      last_login: '2026-02-01T00:00:00.001Z',
      login_count: 7,
      accounts: [
        { network: 'stellar', public_key: 'GAJ2EHAQYH7ZST46FB62S4S74EPIJKTJ6RMRMGLVOFQM5QP24OA75K6G' },
        { network: 'ethereum', public_key: '0x52908400098527886E0F7030069857D2E4169EE7', wallet_type: 'custodial' },
      ],
    },
    { ban: { auth_method: 'email', auth_value: 'eve@example.com' } },
    { ban: { auth_method: 'email', auth_value: 'mallory@example.com', reason: 'spam', expires_at: '2100-01-01' } },
  ]);
  await importLines(one.app_id, [{ ...users[5], external_id: 'crm-2' }], '--on-conflict', 'update');
  await importLines(two.app_id, users.slice(0, 10));

  await serve(async (url) => {
    for (const path of ['/good', '/gone', '/broken'])
      await run(
        'webhook',
        'add',
        '--project',
        one.app_id,
        '--url',
        addressOf(path),
        '--types',
        'user.created,user.removed',
      );
    const { id } = (await run('webhook', 'list', '--project', one.app_id))[0];
    await run('webhook', 'rotate', '--project', one.app_id, String(id), '--overlap', '24h');
    const headers = {
      'service-app-id': one.app_id,
      'service-app-secret': one.app_secret,
      'content-type': 'application/json',
    };
    const login = (value) =>
      fetch(`${url}/graphql`, {
        method: 'POST',
        headers,
        body: JSON.stringify({
          query: `mutation { recordLogin(input: { authMethod: "email", authValue: "${value}" }, idempotencyKey: "${value}") { user { id } } }`,
        }),
      });
    for (const value of ['a@example.com', 'a@example.com', 'b@example.com']) await login(value);
    await fetch(`${url}/server/users/2`, { method: 'DELETE', headers: { ...headers, 'idempotency-key': 'remove-2' } });
    await fetch(`${url}/server/users/3`, { method: 'DELETE', headers });
    // It folds the deltas, and is noted as a use of the secret.
    await fetch(`${url}/server/users/count`, { headers });
    for (
      let list = [];
      !(list.some(({ status }) => status === 'disabled') && list.some(({ failures }) => failures > 0));
      await sleep(100)
    )
      list = await run('webhook', 'list', '--project', one.app_id);
  });

  // What needs days, a browser or another database.
  for (const statement of [
    "UPDATE operators SET subject = 'https://id.example.com 1' WHERE name = 'bob'",
    "INSERT INTO operator_sessions (operator_id, token_hash, expires_at, user_agent) SELECT id, sha256('session'), '2026-01-01T12:00Z', 'a browser' FROM operators WHERE name = 'bob'",
    "INSERT INTO operator_passkeys (operator_id, name, host, credential_id, public_key, counter, last_used_at) SELECT id, 'a key', 'localhost', 'id', 'key', 1, now() FROM operators WHERE name = 'bob'",
    "INSERT INTO operator_sessions (operator_id, token_hash, expires_at, user_agent, passkey_id) SELECT operator_id, sha256('by passkey'), '2100-01-01', 'a browser', id FROM operator_passkeys",
    "INSERT INTO passkey_challenges (challenge_hash, session_id, expires_at) SELECT sha256('challenge'), id, '2100-01-01' FROM operator_sessions WHERE passkey_id IS NOT NULL",
    "UPDATE operator_log SET request_id = 'a request' WHERE id = 1",
    "UPDATE operators SET last_seen_at = '2026-01-01T00:00Z' WHERE name = 'bob'",
    `WITH old AS (DELETE FROM changes WHERE id < 2000 RETURNING project_id, id)
     INSERT INTO changes_pruned (project_id, through) SELECT project_id, max(id) FROM old GROUP BY project_id`,
    "INSERT INTO project_moves (project_id, step, other, mark) SELECT id, 'copying', 'another', 1 FROM projects WHERE name = 'Two'",
    'UPDATE webhooks SET leased_by = $$a process that died$$, leased_until = now(), resend_after = now() WHERE failures > 0',
    // As a restore does: the next start begins another timeline.
    'VACUUM FULL changes_feed',
  ])
    await sql(statement);
  await serve(async () => sleep(2_000));
  // Deltas that are not folded.
  await importLines(one.app_id, [{ auth_method: 'passkey', auth_value: 'last' }]);
  await requireEveryColumn(sql);
}

async function requireEveryColumn(sql) {
  const columns = await sql(`
    SELECT c.relname AS table, a.attname AS column FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped`);
  const tests = columns.map(
    (each) =>
      `SELECT '${each.table}.${each.column}' AS name WHERE NOT EXISTS (SELECT FROM "${each.table}" WHERE "${each.column}" IS NOT NULL)`,
  );
  const empty = (await sql(tests.join(' UNION ALL ')))
    .map(({ name }) => name)
    .filter((name) => !EMPTY_AT_REST.has(name));
  if (empty.length > 0) throw new Error(`Give these a value: ${empty.join(', ')}`);
}

/** The log of a database that was closed is not needed. */
async function dropLog() {
  const engine = await PGlite.create(join(folder, 'data/pgdata'));
  for (const statement of ['SET wal_recycle = off', 'SELECT pg_switch_wal()', 'CHECKPOINT'])
    await engine.exec(statement);
  await engine.close();
}

/** Three databases of a directory have nearly the same files: side by side they take the space of one. */
function archive(directory) {
  const paths = execFileSync('find', ['.', '-printf', '%f\t%p\n'], { cwd: directory, encoding: 'utf8' });
  const list = paths
    .trim()
    .split('\n')
    .sort()
    .map((line) => line.split('\t')[1])
    .join('\n');
  const options = ['--create', '--no-recursion', '--files-from=-', '--owner=0', '--group=0'];
  return execFileSync('tar', options, { cwd: directory, input: list, maxBuffer: 2 ** 28 });
}

const save = (name, bytes) => {
  writeFileSync(new URL(`${version}.${name}`, import.meta.url), bytes);
  process.stdout.write(`test/upgrade/${version}.${name}: ${bytes.length} bytes\n`);
};

try {
  await onServer(`CREATE DATABASE ${database.pathname.slice(1)}`);
  await fill({ DATABASE_URL: database.href, DATA_DIR: join(folder, 'none') }, postgresSql);
  const dump = ['--no-owner', '--no-privileges', '--rows-per-insert=1000', database.href];
  save('sql.gz', gzipSync(execFileSync('pg_dump', dump, { maxBuffer: 2 ** 28 }), { level: 9 }));
  await fill({ DATA_DIR: join(folder, 'data') }, embeddedSql);
  await dropLog();
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 10,
    [constants.BROTLI_PARAM_LGWIN]: 30,
    [constants.BROTLI_PARAM_LARGE_WINDOW]: 1,
  };
  save('data.tar.br', brotliCompressSync(archive(join(folder, 'data')), { params }));
} finally {
  receiver.close();
  rmSync(folder, { recursive: true, force: true });
  await onServer(`DROP DATABASE IF EXISTS ${database.pathname.slice(1)} WITH (FORCE)`);
}
