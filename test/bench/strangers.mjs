/**
 * What callers without a session, and one busy operator, cost a project and the other operators of the same process:
 *
 *   TEST_DATABASE_URL=postgres://… node test/bench/strangers.mjs [DIST …]
 *
 * With folders of other builds, such as ../before/dist, these are measured beside this one.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { addBuilds, createSeeded, startServer, userdir } from './processes.mjs';

const SERVER = process.env.TEST_DATABASE_URL;
if (SERVER === undefined) throw new Error('Set TEST_DATABASE_URL to a PostgreSQL where databases may be created.');
const SECONDS = Number(process.env.SECONDS_OF_EACH ?? 5);
const USERS = 2_000;

const token = () => randomBytes(32).toString('base64url');
const json = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' };
const post = (path, body, headers = {}) => ({
  method: 'POST',
  path,
  headers: { ...json, ...headers },
  body: JSON.stringify(body),
});
const graphql = (cookie, query) => post('/dashboard/graphql', { query }, { cookie });

/** Sends requests one after another on each of some connections; returns how long those with status 200 took, and all other statuses. */
async function repeat(url, make, { connections, seconds, pauseMs = 0 }) {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const { hostname, port } = new URL(url);
  const took = [];
  const others = {};
  const once = ({ body, ...options }) =>
    new Promise((resolve, reject) => {
      const asked = request({ hostname, port, agent, ...options }, (response) => {
        response.resume().on('end', () => resolve(response.statusCode));
      });
      asked.on('error', reject).end(body);
    });
  const endsAt = performance.now() + seconds * 1_000;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < endsAt) {
        const startedAt = performance.now();
        const status = await once(make());
        if (status === 200) took.push(performance.now() - startedAt);
        else others[status] = (others[status] ?? 0) + 1;
        if (pauseMs > 0) await sleep(pauseMs);
      }
    }),
  );
  agent.destroy();
  took.sort((a, b) => a - b);
  return { rate: took.length / seconds, p50: took[Math.floor(took.length / 2)], worst: took.at(-1), others };
}

async function measure(build) {
  const name = `userdir_bench_${randomUUID().slice(0, 8)}`;
  const databaseUrl = Object.assign(new URL(SERVER), { pathname: `/${name}` }).href;
  await onServer(`CREATE DATABASE ${name}`);
  const server = await startServer(build, { ours: databaseUrl }, 10, { DASHBOARD: 'on' });
  try {
    const { url } = server;
    const project = await createSeeded(databaseUrl, 'Bench', USERS);
    const { port, host } = new URL(url);
    const signIn = async (operator) => {
      const link = await userdir(databaseUrl, ['dashboard', '--operator', operator], { DASHBOARD: 'on', PORT: port });
      const body = { token: /#login=(.+)$/.exec(link.url)[1] };
      const answer = await fetch(`${url}/dashboard/session`, { ...post('/', body), body: JSON.stringify(body) });
      return answer.headers.get('set-cookie').replace(/;.*/s, '');
    };
    await userdir(databaseUrl, ['operator', 'add', 'ada', '--role', 'admin']);
    await userdir(databaseUrl, ['operator', 'add', 'vera', '--role', 'viewer']);
    const [admin, viewer] = [await signIn('ada'), await signIn('vera')];
    const cookieName = admin.replace(/=.*/s, '');
    const own = () => ({ method: 'GET', path: '/server/users?limit=5', headers: { ...project, host } });
    const projectOf = async (beside) => {
      const running = beside && repeat(url, beside, { connections: 1, seconds: SECONDS, pauseMs: 1_000 });
      const result = await repeat(url, own, { connections: 64, seconds: SECONDS });
      await running;
      return result;
    };
    const users = `{ project(appId: "${project['service-app-id']}") { users(limit: 100) { nodes { id authValue } } } }`;
    const meBeside = async (beside, connections) => {
      const running = beside && repeat(url, beside, { connections, seconds: SECONDS });
      await sleep(500);
      const result = await repeat(url, () => graphql(admin, '{ me { name } }'), {
        connections: 1,
        seconds: SECONDS - 1,
        pauseMs: 20,
      });
      return { ...result, beside: await running };
    };
    await projectOf();
    print(`\n| ${build}: a project on 64 connections, beside one request a second | answers a second |\n|---|---:|`);
    for (const [what, beside] of [
      ['nothing', undefined],
      ['/dashboard/graphql without a cookie', () => post('/dashboard/graphql', { query: '{ me { name } }' })],
      ['/dashboard/graphql with a cookie made up', () => graphql(`${cookieName}=${token()}`, '{ me { name } }')],
      ['/dashboard/session with a link made up', () => post('/dashboard/session', { token: token() })],
      [
        '/server with credentials made up',
        () => ({ ...own(), headers: { ...project, 'service-app-secret': token() } }),
      ],
    ])
      print(`| ${what} | ${(await projectOf(beside)).rate.toFixed(0)} |`);
    print(
      `\n| ${build}: { me } of an operator, beside | p50 ms | worst ms | not 200 | answers to the others |\n|---|---:|---:|---|---|`,
    );
    for (const [what, connections, beside] of [
      ['nothing', 0, undefined],
      ['300 with cookies made up', 300, () => graphql(`${cookieName}=${token()}`, '{ me { name } }')],
      ['300 with links made up', 300, () => post('/dashboard/session', { token: token() })],
      ['300 asking for challenges of passkeys', 300, () => post('/dashboard/passkey/challenge', {})],
      ['200 of one viewer, a page of users', 200, () => graphql(viewer, users)],
    ]) {
      const { p50, worst, others, beside: of } = await meBeside(beside, connections);
      const statuses = of && { 200: Math.round(of.rate * SECONDS), ...of.others };
      const show = (value) => (value === undefined ? '' : JSON.stringify(value).replaceAll('"', ''));
      print(`| ${what} | ${p50?.toFixed(1)} | ${worst?.toFixed(0)} | ${show(others)} | ${show(statuses)} |`);
    }
  } finally {
    await server.stop();
    await onServer(`DROP DATABASE ${name} WITH (FORCE)`);
  }
}

async function onServer(sql) {
  const client = new pg.Client(SERVER);
  await client.connect();
  await client.query(sql).finally(() => client.end());
}

const print = (line) => process.stdout.write(`${line}\n`);

for (const build of ['ours', ...addBuilds(process.argv.slice(2))]) await measure(build);
