import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, inject, test } from 'vitest';
import { createProjects } from '#dist/projects/projects.js';
import { findSecrets } from '#dist/projects/secrets.sql.js';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { idOf, parseAnswer, sendPieces } from '../support/rest.js';

/** Accepted credentials are cached for a short time. A secret that ends in any way is refused within a second. */

// With its own database, because the tests end the secrets of all projects.
const app = useTestApp({ ownDatabase: true });
let project: TestProject;
beforeEach(async () => {
  project = await app.createProject();
  expect(await status()).toBe(200);
});

const status = async () => (await project.rest('/server/users/count')).status;
const sql = (text: string) => app.context.db.pool.query(text);
/** Ends all secrets as another process would, without telling this process. */
const endSecrets = () => sql(`UPDATE app_secrets SET expires_at = now() - interval '1 ms'`);

/**
 * Sends requests until one is refused, and returns when the last accepted one was sent. The time that a busy machine
 * takes to answer is not included.
 */
async function acceptedMs(): Promise<number> {
  const startedAt = performance.now();
  let last = 0;
  for (;;) {
    const sentAfterMs = performance.now() - startedAt;
    if ((await status()) !== 200) return last;
    if (sentAfterMs > 5_000) throw new Error('The secret is believed for ever.');
    last = sentAfterMs;
  }
}

test('a secret that another process ended is refused within a second', async () => {
  await endSecrets();
  expect(await acceptedMs()).toBeLessThan(1_000);
});

test('a project that another process disabled is refused within a second, and one that it limited is limited', async () => {
  await sql('UPDATE projects SET requests_per_minute = 1000000');
  const policy = async () => (await project.rest('/server/users/count')).headers.get('ratelimit-policy');
  await expect.poll(policy).toBe('"project";q=1000000;w=60');
  await sql('UPDATE projects SET disabled_at = now()');
  expect(await acceptedMs()).toBeLessThan(1_000);
  await sql('UPDATE projects SET disabled_at = NULL');
  // A refusal is not remembered.
  expect(await status()).toBe(200);
});

test('the process that rotates a secret refuses the old one at once', async () => {
  const { projects, secrets } = app.context.services;
  await secrets.rotateSecret(await projects.getScope(project.appId), { overlapMs: 0 });
  expect(await status()).toBe(401);
});

test('a later rotation leaves the end that an earlier one promised, and one without an overlap ends all', async () => {
  const { projects, secrets } = app.context.services;
  const scope = await projects.getScope(project.appId);
  const rotate = (overlapMs: number) => secrets.rotateSecret(scope, { overlapMs });
  const ends = async () => (await secrets.listSecrets(scope)).map(({ expiresAt }) => expiresAt);
  const first = await rotate(86_400_000);
  const second = await rotate(3_600_000);
  expect(await ends()).toEqual([first.previousExpiresAt, second.previousExpiresAt, null]);
  expect(await status()).toBe(200);
  await rotate(0);
  expect(await status()).toBe(401);
  expect((await secrets.listSecrets(scope)).map(({ isLive }) => isLive)).toEqual([false, false, false, true]);
});

test('the credentials of a deleted project are refused within a second', async () => {
  await sql('DELETE FROM projects');
  expect(await acceptedMs()).toBeLessThan(1_000);
});

describe('a request whose body arrives later than a second after its headers', () => {
  const wallet = { address: stellarAddress(1) };
  const REQUESTS: [line: string, body: (id: number) => unknown, revoked: number, disabled: number][] = [
    ['DELETE /server/users/ID', () => ({}), 401, 401],
    ['POST /graphql', (id) => ({ query: `mutation { deleteUser(id: ${id}) { id } }` }), 401, 403],
    ['POST /server/wallets/verify', () => wallet, 401, 401],
    ['POST /wallets/verify', () => ({ wallets: [wallet] }), 401, 403],
  ];
  /** The status of a request of which the last byte is sent after `meanwhile` and more than a second. */
  async function send(line: string, body: unknown, meanwhile: () => Promise<unknown>): Promise<number> {
    const text = JSON.stringify(body);
    const headers = { ...project.credentials, host: 'a', connection: 'close', 'content-type': 'application/json' };
    const lines = Object.entries({ ...headers, 'content-length': text.length }).map(
      ([name, value]) => `${name}: ${value}`,
    );
    const pieces = [`${line} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${text.slice(0, -1)}`, text.slice(-1)];
    let isFirst = true;
    const between = async () => {
      if (!isFirst) return;
      isFirst = false;
      await meanwhile();
      await sleep(1_100);
    };
    return parseAnswer(await sendPieces(app.url, pieces, between)).status;
  }

  test.each<[what: string, end: string, statuses: number[]]>([
    [
      'does nothing if its secret',
      `UPDATE app_secrets SET expires_at = now() - interval '1 ms'`,
      REQUESTS.map(([, , status]) => status),
    ],
    [
      'does nothing if its project',
      'UPDATE projects SET disabled_at = now()',
      REQUESTS.map(([, , , status]) => status),
    ],
    ['is answered if nothing', 'SELECT 1', REQUESTS.map(() => 200)],
  ])('%s has ended meanwhile', async (_what, end, statuses) => {
    const names = REQUESTS.map(([line]) => line);
    await project.addUsers(...names.map((auth_value) => ({ auth_method: 'passkey', auth_value })));
    const ids = await Promise.all(names.map((name) => idOf(project, name)));
    const sent = REQUESTS.map(([line, body], n) =>
      send(line.replace('ID', String(ids[n])), body(ids[n] as number), () => sql(end)),
    );
    expect(await Promise.all(sent)).toEqual(statuses);
    const { rows } = await sql(
      'SELECT id::int FROM users WHERE project_id = (SELECT max(id) FROM projects) AND deleted_at IS NULL',
    );
    expect(rows.length).toBe(statuses.includes(200) ? 2 : 4);
  });
});

// An embedded database has only one process, so there is no other process to notify.
const hasOtherProcesses = inject('engine') === 'postgres';
const LISTENERS = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN userdir_secrets'`;

async function listeners(): Promise<number> {
  return (await sql(LISTENERS)).rows.length;
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const endsAt = performance.now() + 5_000;
  while (!(await isTrue())) {
    if (performance.now() > endsAt) throw new Error('It did not come true within 5 s.');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

test.runIf(hasOtherProcesses)(
  'with a notification from the database, an ended secret is refused long before its cache entry expires',
  async ({ annotate }) => {
    await until(async () => (await listeners()) === 1);
    const took: number[] = [];
    for (let round = 0; round < 5; round += 1) {
      project = await app.createProject();
      expect(await status()).toBe(200);
      await endSecrets();
      took.push(await acceptedMs());
    }
    await annotate(`${took.map(Math.round).join(', ')} ms`);
    // Without the notification, each round would take the full cache time.
    expect(Math.min(...took)).toBeLessThan(400);
  },
);

test.runIf(hasOtherProcesses)('a lost connection for notifications is restored without a late refusal', async () => {
  await until(async () => (await listeners()) === 1);
  await sql(`SELECT pg_terminate_backend(pid) FROM (${LISTENERS}) AS listeners`);
  await expect.poll(() => app.logged.join('')).toContain('Listening for changed secrets');
  expect(await status()).toBe(200);
  await endSecrets();
  expect(await acceptedMs()).toBeLessThan(1_000);
  await until(async () => (await listeners()) === 1);
});

/**
 * The same projects over a database without notifications, whose answers arrive when the test allows it.
 */
function slowProjects() {
  const { db } = app.context;
  let arrival = Promise.resolve();
  const projects = createProjects(
    {
      ...db,
      listen: () => undefined,
      query: async (statement) => {
        const rows = await db.query(statement);
        await arrival;
        return rows as never;
      },
    },
    randomBytes,
    () => undefined,
  );
  return {
    projects,
    /** Holds back all answers from now on. The returned function releases them. */
    holdAnswers(): () => void {
      let release = () => {};
      arrival = new Promise((resolve) => {
        release = resolve;
      });
      return release;
    },
  };
}

test('a refused secret leaves the cached credentials, so its next check is for an anonymous request', async () => {
  const { projects } = slowProjects();
  expect(projects.cachedCredentials(project)).toBe('miss');
  await projects.authenticate(project);
  projects.forgetCredentials();
  expect(projects.cachedCredentials(project)).toBe('stale');
  await endSecrets();
  await expect(projects.authenticate(project)).rejects.toThrow(
    'The App ID and the App Secret do not belong together: check that both are of one project of this service, and that the secret has not ended.',
  );
  expect(projects.cachedCredentials(project)).toBe('miss');
  await projects.flush();
});

test('a wrong secret does not remove the right one from the cached credentials', async () => {
  const { projects } = slowProjects();
  await projects.authenticate(project);
  await expect(projects.authenticate({ ...project, appSecret: 'wrong' })).rejects.toThrow('do not belong together');
  expect(projects.cachedCredentials(project)).not.toBe('miss');
  await projects.flush();
});

test('the cache time of a secret begins when it is looked up, not when a late answer arrives', async () => {
  const { projects, holdAnswers } = slowProjects();
  const release = holdAnswers();
  const answer = projects.authenticate(project);
  await sleep(1_000);
  release();
  await answer;
  expect(projects.cachedCredentials(project)).toBe('stale');
  await projects.flush();
});

test('a use that cannot be recorded is reported, and refuses no request', async () => {
  const { db } = app.context;
  const query: typeof db.query = (statement) =>
    /UPDATE app_secrets/.test(statement.text) ? Promise.reject(new Error('The disk is full.')) : db.query(statement);
  const reported: unknown[] = [];
  const projects = createProjects({ ...db, listen: () => undefined, query }, randomBytes, (error, what) =>
    reported.push([what, (error as Error).message]),
  );
  const { appId, appSecret } = await app.context.services.projects.createProject('Unused');
  await projects.authenticate({ appId, appSecret });
  await projects.flush();
  expect(reported).toEqual([['Recording the use of a secret', 'The disk is full.']]);
});

test('no secret is cached beyond its expiry by the clock of the database', async () => {
  const { db } = app.context;
  const left = async () => (await findSecrets(db, [project.appId])).map(({ leftMs }) => leftMs);
  expect(await left()).toEqual([null]);
  await sql(`UPDATE app_secrets SET expires_at = now() + interval '1 hour'`);
  const [leftMs] = await left();
  expect(leftMs).toBeGreaterThan(3_000_000);
  // The column has milliseconds, to which an instant is rounded.
  expect(leftMs).toBeLessThan(3_600_001);

  // As if each secret expired at the time of the statement.
  const query: typeof db.query = async (statement) =>
    (await db.query<object>(statement)).map((row) => ('leftMs' in row ? { ...row, leftMs: 0 } : row)) as never;
  const projects = createProjects({ ...db, listen: () => undefined, query }, randomBytes, () => undefined);
  await projects.authenticate(project);
  expect(projects.cachedCredentials(project)).toBe('stale');
  await projects.flush();
});
