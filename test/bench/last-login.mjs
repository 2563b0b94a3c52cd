/**
 * What an index of the last login would cost each later login, and what a page without one costs, on a PostgreSQL of this machine:
 *
 *   TEST_DATABASE_URL=postgres://… node test/bench/last-login.mjs
 *
 * Logins are counted in CPU time of their PostgreSQL process and in bytes of its log, in alternating rounds with and without the index.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import pg from 'pg';
import { parseConfig } from '../../dist/config/config.js';
import { createContext } from '../../dist/context.js';
import { userFilter } from '../../dist/domain/filters.js';
import { camelCase, parseProfile } from '../../dist/domain/identities.js';

const SERVER = process.env.TEST_DATABASE_URL;
if (SERVER === undefined) throw new Error('Set TEST_DATABASE_URL to a PostgreSQL where databases may be created.');
const USERS = Number(process.env.USERS ?? 20_000);
const ROUNDS = Number(process.env.ROUNDS ?? 4);
const LOGINS = Number(process.env.LOGINS ?? 1_500);

const name = `userdir_bench_${randomUUID().slice(0, 8)}`;
const url = Object.assign(new URL(SERVER), { pathname: `/${name}` }).href;
const onServer = async (sql) => {
  const client = new pg.Client(SERVER);
  await client.connect();
  await client.query(sql).finally(() => client.end());
};
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

await onServer(`CREATE DATABASE ${name}`);
// One connection, so that one process of PostgreSQL does all the work.
const context = createContext(parseConfig({ DATABASE_URL: url, DATABASE_POOL_SIZE: '1' }), { command: 'bench' });
try {
  await context.open();
  const { pool } = context.db;
  const { appId } = await context.services.projects.createProject('Bench');
  const scope = await context.services.projects.getScope(appId);
  await pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, login_email, created_at, last_login, login_count)
     SELECT p.id, 'google', n::text, n::text, n || '@example.com', now() - (${USERS} - n) * interval '1 minute', now() - interval '1 day', 1
     FROM projects p, generate_series(1, ${USERS}) AS n`,
  );
  await pool.query('VACUUM ANALYZE users');

  const read = async () => {
    const { rows } = await pool.query(`SELECT pg_backend_pid() AS pid, pg_current_wal_insert_lsn() - '0/0' AS wal`);
    const [running] = readFileSync(`/proc/${rows[0].pid}/schedstat`, 'utf8').split(' ');
    return { us: Number(running) / 1_000, wal: Number(rows[0].wal) };
  };
  const perLogin = async () => {
    const before = await read();
    for (let n = 0; n < LOGINS; n += 1) {
      const authValue = String(1 + Math.floor(Math.random() * USERS));
      await context.services.logins.recordLogin(scope, parseProfile({ authMethod: 'google', authValue }, camelCase));
    }
    const after = await read();
    return { us: (after.us - before.us) / LOGINS, wal: (after.wal - before.wal) / LOGINS };
  };

  const turn = {
    with: 'CREATE INDEX users_last_login_idx ON users (project_id, last_login) WHERE deleted_at IS NULL',
    without: 'DROP INDEX IF EXISTS users_last_login_idx',
  };
  const measured = { with: [], without: [] };
  // Frees room in every page, as logins do in time.
  await pool.query('UPDATE users SET login_count = 2');
  await pool.query('VACUUM users');
  await perLogin();
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const which of round % 2 === 0 ? ['with', 'without'] : ['without', 'with']) {
      await pool.query(turn.without);
      await pool.query(turn[which]);
      await pool.query('VACUUM users');
      measured[which].push(await perLogin());
    }
  }
  await pool.query(turn.without);
  for (const which of ['with', 'without']) {
    const of = (what) => Math.round(median(measured[which].map((each) => each[what])));
    process.stdout.write(`${which} the index: ${of('us')} µs of CPU and ${of('wal')} bytes of log for each login\n`);
  }

  if (context.services.users.scanWindow !== undefined) {
    const state = { lastLoginBefore: new Date(0), lastLoginAfter: null, banned: null };
    const pages = [];
    let after = null;
    for (let page = 0; page < 50; page += 1) {
      const window = { after, before: null, from: 'newest', limit: 100, withAccounts: false };
      const started = performance.now();
      after = (await context.services.users.scanWindow(scope, userFilter({}), state, window)).end;
      pages.push(performance.now() - started);
    }
    process.stdout.write(`a page of 1,000 users of whom none matches: ${median(pages).toFixed(1)} ms\n`);
  }
} finally {
  await context.close();
  await onServer(`DROP DATABASE ${name} WITH (FORCE)`);
}
