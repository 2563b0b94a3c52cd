/**
 * What the feed of changes costs and how fast it is, on PostgreSQL:
 *
 *   TEST_DATABASE_URL=postgres://… node test/bench/changes.mjs [logins|streams|latency|webhooks]
 *
 * - logins: first logins a second with the triggers of the feed ÷ without them, in alternating rounds of one run.
 * - streams: the memory of 1,000 open subscriptions.
 * - latency: from the commit of a change to its arrival at a stream, at 1,000 changes a second.
 * - webhooks: the same to a subscription and to two webhooks at once. The receiver is a process of its own. SECONDS is how long (20).
 */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { parseConfig } from '../../dist/config/config.js';
import { createContext } from '../../dist/context.js';
import { camelCase, parseProfile } from '../../dist/domain/identities.js';

const CLI = fileURLToPath(new URL('../../dist/cli.js', import.meta.url));
const SERVER = process.env.TEST_DATABASE_URL;
if (SERVER === undefined) throw new Error('Set TEST_DATABASE_URL to a PostgreSQL where databases may be created.');

const ROUNDS = Number(process.env.ROUNDS ?? 40);
const ROUND_MS = Number(process.env.ROUND_MS ?? 700);
const STREAMS = Number(process.env.STREAMS ?? 1_000);
const CHANGES_PER_SECOND = 1_000;
const LATENCY_SECONDS = Number(process.env.SECONDS ?? 20);

const name = `userdir_bench_${randomUUID().slice(0, 8)}`;
const url = Object.assign(new URL(SERVER), { pathname: `/${name}` }).href;
const onServer = async (sql) => {
  const client = new pg.Client(SERVER);
  await client.connect();
  await client.query(sql).finally(() => client.end());
};

const median = (values) => quantile(values, 0.5);
const quantile = (values, q) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))];

async function open() {
  const context = createContext(
    parseConfig({ DATABASE_URL: url, DATABASE_POOL_SIZE: '16', WEBHOOKS_ALLOW_PRIVATE: 'on' }),
    { command: 'bench' },
  );
  await context.open();
  const credentials = await context.services.projects.createProject('Bench');
  return { context, ...credentials, scope: await context.services.projects.getScope(credentials.appId) };
}

let serial = 0;
const profile = () => {
  serial += 1;
  const address = `0x${serial.toString(16).padStart(40, '0')}`;

  const accounts = [{ network: 'ethereum', publicKey: address }];
  return parseProfile({ authMethod: 'google', authValue: `${name}-${serial}`, accounts }, camelCase);
};

/** First logins in one round, 32 at a time. */
async function loginsPerSecond({ context, scope }) {
  const until = performance.now() + ROUND_MS;
  let done = 0;
  const write = async () => {
    while (performance.now() < until) {
      await context.services.logins.recordLogin(scope, profile());
      done += 1;
    }
  };
  const started = performance.now();
  await Promise.all(Array.from({ length: 32 }, write));
  return (done * 1_000) / (performance.now() - started);
}

/** The functions of the tallies as they were before the feed, and the triggers that only the feed has. */
async function switchOf(pool) {
  const tallies = readFileSync(
    new URL('../../prisma/migrations/20261121010000_tallies/migration.sql', import.meta.url),
    'utf8',
  );
  const names = ['record_inserted_users', 'record_updated_users', 'record_deleted_users'];
  const bodyOf = (name) => new RegExp(`CREATE FUNCTION ${name}\\(\\)[^;]*?AS \\$\\$(.*?)\\$\\$;`, 's').exec(tallies)[1];
  const without = names.map(
    (name) =>
      `CREATE OR REPLACE FUNCTION ${name}() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$${bodyOf(name)}$$`,
  );
  const { rows } = await pool.query(`SELECT pg_get_functiondef(oid) AS text FROM pg_proc WHERE proname = ANY ($1)`, [
    names,
  ]);
  const how = { with: [rows.map(({ text }) => text), 'ENABLE'], without: [without, 'DISABLE'] };
  return async (which) => {
    const [functions, verb] = how[which];
    for (const text of functions) await pool.query(text);
    for (const event of ['insert', 'update', 'delete']) {
      await pool.query(`ALTER TABLE accounts ${verb} TRIGGER accounts_changes_${event}`);
    }
  };
}

async function logins(opened) {
  const turn = await switchOf(opened.context.db.pool);
  await loginsPerSecond(opened);
  const rates = { with: [], without: [] };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const which of round % 2 === 0 ? ['with', 'without'] : ['without', 'with']) {
      await turn(which);
      rates[which].push(await loginsPerSecond(opened));
    }
  }
  await turn('with');
  const ratios = rates.with.map((rate, round) => rate / rates.without[round]);
  return {
    with_feed: Math.round(median(rates.with)),
    without_feed: Math.round(median(rates.without)),
    ratio: Number((median(rates.with) / median(rates.without)).toFixed(3)),
    median_of_ratios: Number(median(ratios).toFixed(3)),
  };
}

async function serve() {
  const child = spawn(process.execPath, [CLI, 'serve', '--json'], {
    env: {
      ...process.env,
      DATABASE_URL: url,
      PORT: '0',
      DEMO: 'off',
      LOG_LEVEL: 'warn',
      WEBHOOKS_ALLOW_PRIVATE: 'on',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [line] = await once(createInterface({ input: child.stdout }), 'line');
  return { child, port: Number(new URL(JSON.parse(line).url).port) };
}

async function stop({ child }) {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

const rssMiB = ({ child }) =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]) / 1_024;

/** Opens a stream; resolves with its socket once the first bytes have arrived. */
async function openStream(port, { appId, appSecret }, subscription, onLine = () => {}) {
  const body = JSON.stringify({ query: 'subscription { changes { cursor change { id type userId } } }' });
  const request = subscription
    ? `POST /graphql HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`
    : 'GET /changes HTTP/1.1\r\n';
  const socket = connect(port, '127.0.0.1');
  socket.setNoDelay();
  socket.write(
    `${request}host: bench\r\naccept: text/event-stream\r\nservice-app-id: ${appId}\r\nservice-app-secret: ${appSecret}\r\n\r\n${subscription ? body : ''}`,
  );
  const [first] = await once(socket, 'data');
  if (!String(first).startsWith('HTTP/1.1 200')) throw new Error(String(first));
  createInterface({ input: socket }).on('line', onLine);
  return socket;
}

async function streams(opened) {
  const server = await serve();
  const warm = await openStream(server.port, opened, true);
  await sleep(5_000);
  const before = rssMiB(server);
  const sockets = [];
  for (let count = 0; count < STREAMS; count += 50) {
    sockets.push(...(await Promise.all(Array.from({ length: 50 }, () => openStream(server.port, opened, true)))));
  }
  await sleep(10_000);
  const idle = rssMiB(server);
  await opened.context.services.logins.recordLogin(opened.scope, profile());
  await sleep(5_000);
  const after = rssMiB(server);
  for (const socket of [warm, ...sockets]) socket.destroy();
  await stop(server);
  return {
    streams: STREAMS,
    mib_before: Math.round(before),
    mib_open: Math.round(idle),
    mib_after_a_change: Math.round(after),
    mib_of_streams: Math.round(Math.max(idle, after) - before),
  };
}

/** Writes users by plain SQL at a fixed rate, and hands each commit to `onCommit`. Returns the rate. */
async function writeAtRate({ context, appId }, onCommit) {
  const { pool } = context.db;
  const { rows } = await pool.query('SELECT id FROM projects WHERE app_id = $1', [appId]);
  let written = 0;
  const started = performance.now();
  const write = async () => {
    while (written < CHANGES_PER_SECOND * LATENCY_SECONDS) {
      written += 1;
      const due = started + (written * 1_000) / CHANGES_PER_SECOND;
      if (due > performance.now()) await sleep(due - performance.now());
      const inserted = await pool.query(
        `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT $1, 'x', k, k FROM (SELECT gen_random_uuid()::text AS k) AS n RETURNING id`,
        [rows[0].id],
      );
      onCommit(Number(inserted.rows[0].id));
    }
  };
  await Promise.all(Array.from({ length: 12 }, write));
  return Math.round((written * 1_000) / (performance.now() - started));
}

const latencies = (delays) => ({
  arrived: delays.length,
  p50_ms: Math.round(quantile(delays, 0.5)),
  p99_ms: Math.round(quantile(delays, 0.99)),
});

async function latency(opened) {
  const server = await serve();
  const committed = new Map();
  const delays = [];
  const socket = await openStream(server.port, opened, false, (line) => {
    const { user_id: id, type } = line.startsWith('data: ') ? JSON.parse(line.slice(6)) : {};
    const at = committed.get(id);
    // A change may arrive before its writer hears of the commit.
    if (type === 'user.created') delays.push(at === undefined ? 0 : performance.now() - at);
  });
  const rate = await writeAtRate(opened, (id) => committed.set(id, performance.now()));
  await sleep(2_000);
  socket.destroy();
  await stop(server);
  return { changes_per_second: rate, ...latencies(delays) };
}

/** Accepts everything, and prints the path, the user and the time (of the machine) of each message. */
const RECEIVER = `
  const { createServer } = require('node:http');
  createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => { body += chunk; });
    request.on('end', () => {
      const at = performance.timeOrigin + performance.now();
      response.writeHead(204).end();
      process.stdout.write(request.url + ' ' + JSON.parse(body).data.user_id + ' ' + at + '\\n');
    });
  }).listen(0, '127.0.0.1', function () { process.stdout.write(this.address().port + '\\n'); });`;

async function webhooks(opened) {
  const server = await serve();
  const receiver = spawn(process.execPath, ['-e', RECEIVER], { stdio: ['ignore', 'pipe', 'inherit'] });
  const lines = createInterface({ input: receiver.stdout });
  const [port] = await once(lines, 'line');
  const { services } = opened.context;
  for (const path of ['one', 'two']) {
    const given = { url: `http://127.0.0.1:${port}/${path}`, description: '', types: null };
    await services.webhooks.addWebhook(opened.scope, given);
  }
  const now = () => performance.timeOrigin + performance.now();
  const committed = new Map();
  const arrivals = { '/one': [], '/two': [], subscription: [] };
  lines.on('line', (line) => {
    const [path, id, at] = line.split(' ');
    arrivals[path].push([Number(id), Number(at)]);
  });
  const socket = await openStream(server.port, opened, true, (line) => {
    const change = line.startsWith('data: {') ? JSON.parse(line.slice(6)).data?.changes.change : undefined;
    if (change?.type === 'USER_CREATED') arrivals.subscription.push([Number(change.userId), now()]);
  });
  // Until both are noticed and connected to.
  await services.logins.recordLogin(opened.scope, profile());
  while (Object.values(arrivals).some(({ length }) => length === 0)) await sleep(50);
  for (const list of Object.values(arrivals)) list.length = 0;
  const rate = await writeAtRate(opened, (id) => committed.set(id, now()));
  const wanted = committed.size;
  for (let waited = 0; waited < 60 && arrivals['/two'].length < wanted; waited += 1) await sleep(1_000);
  await sleep(1_000);
  socket.destroy();
  receiver.kill();
  await stop(server);
  const delaysOf = (list) =>
    list.flatMap(([id, at]) => (committed.has(id) ? [Math.max(0, at - committed.get(id))] : []));
  return {
    changes_per_second: rate,
    subscription: latencies(delaysOf(arrivals.subscription)),
    webhook_one: latencies(delaysOf(arrivals['/one'])),
    webhook_two: latencies(delaysOf(arrivals['/two'])),
  };
}

await onServer(`CREATE DATABASE ${name}`);
try {
  const opened = await open();
  const wanted = process.argv.slice(2);
  for (const [what, measure] of Object.entries({ logins, streams, latency, webhooks })) {
    if (wanted.length > 0 && !wanted.includes(what)) continue;
    process.stdout.write(`${JSON.stringify({ [what]: await measure(opened) })}\n`);
  }
  await opened.context.close();
} finally {
  await onServer(`DROP DATABASE ${name} WITH (FORCE)`);
}
