import { afterEach, describe, expect, test } from 'vitest';
import { createServer } from '#dist/app/app.js';
import { parseConfig } from '#dist/config/config.js';
import { createLogger } from '#dist/telemetry/logger.js';
import { startTestApp, type TestApp, type TestProject } from '../support/app.js';
import { explained } from '../support/graphql.js';
import { startProxy, type TcpProxy } from '../support/proxy.js';

/** The limit of requests per minute and project (RATE_LIMIT), counted in the process or in Redis (REDIS_URL). */

const LIMIT = 5;
const RATE_LIMIT = String(LIMIT);
const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start(env: Record<string, string>): Promise<{ app: TestApp; project: TestProject }> {
  const app = await startTestApp({ env });
  closers.push(() => app.close());
  return { app, project: await app.createProject() };
}

/** The remaining requests and the seconds until the reset, from the header. */
function leftOf(headers: Headers): { requests: number; seconds: number } {
  const [, requests, seconds] = /^"project";r=(\d+);t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? [];
  return { requests: Number(requests), seconds: Number(seconds) };
}

const count = (project: TestProject) => project.rest('/server/users/count');

async function statuses(project: TestProject, times: number): Promise<number[]> {
  const answers: number[] = [];
  for (let time = 0; time < times; time += 1) answers.push((await count(project)).status);
  return answers;
}

test('without RATE_LIMIT there is no limit and no rate limit header', async () => {
  const { project } = await start({});
  const { status, headers } = await count(project);
  expect(status).toBe(200);
  expect([...headers.keys()].filter((name) => name.startsWith('ratelimit'))).toEqual([]);
});

test('every answer states the remaining requests, and requests over the limit are 429 in REST and GraphQL', async () => {
  const { project } = await start({ RATE_LIMIT });
  for (let left = LIMIT - 1; left >= 0; left -= 1) {
    const { status, headers } = left % 2 === 0 ? await count(project) : await project.graphql('{ userCount }');
    expect(status).toBe(200);
    expect(headers.get('ratelimit-policy')).toBe(`"project";q=${LIMIT};w=60`);
    const { requests, seconds } = leftOf(headers);
    expect(requests).toBe(left);
    expect(seconds).toBeGreaterThanOrEqual(50);
    expect(seconds).toBeLessThanOrEqual(60);
  }
  const message = `More than ${LIMIT} requests of this project in a minute.`;
  const refused = await count(project);
  expect([refused.status, refused.body]).toEqual([429, { error: message }]);
  expect(leftOf(refused.headers).requests).toBe(0);
  expect(refused.headers.get('retry-after')).toBe(String(leftOf(refused.headers).seconds));
  const { status, errors, headers } = await project.graphql('{ userCount }');
  expect(status).toBe(429);
  expect(headers.get('retry-after')).toMatch(/^\d+$/);
  const retryAfter = Number(headers.get('retry-after'));
  expect(errors).toEqual([{ message, extensions: { ...explained('RATE_LIMITED'), retryAfter } }]);
});

test('a request over the limit is not executed', async () => {
  const { app, project } = await start({ RATE_LIMIT });
  await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
  const { id } = (await project.rest('/server/users')).body.result.users[0];
  await statuses(project, LIMIT - 1);
  expect((await project.rest(`/server/users/${id}`, { method: 'DELETE' })).status).toBe(429);
  const { rows } = await app.context.db.pool.query('SELECT deleted_at FROM users WHERE id = $1', [id]);
  expect(rows).toEqual([{ deleted_at: null }]);
});

test('each project has its own limit; bad requests count towards it, wrong credentials do not', async () => {
  const { app, project } = await start({ RATE_LIMIT });
  const other = await app.createProject();
  for (let time = 0; time < 2 * LIMIT; time += 1) {
    const { status, headers } = await project.rest('/server/users', { headers: { 'service-app-secret': 'wrong' } });
    expect([status, headers.get('ratelimit')]).toEqual([401, null]);
  }
  expect((await project.rest('/server/users?limit=0')).status).toBe(400);
  expect((await project.rest('/server/nothing')).status).toBe(404);
  expect(await statuses(project, LIMIT - 1)).toEqual([200, 200, 200, 429]);
  expect(await statuses(other, LIMIT + 1)).toEqual([200, 200, 200, 200, 200, 429]);
});

describe("a project's own limit", () => {
  const limit = async (app: TestApp, { appId }: TestProject, requestsPerMinute: number | null) =>
    app.context.services.lifecycle.limitProject(await app.context.services.projects.getScope(appId), requestsPerMinute);
  const policy = async (project: TestProject) => (await count(project)).headers.get('ratelimit-policy');

  test.each([{ RATE_LIMIT }, {}])('overrides RATE_LIMIT (%o), and the minute goes on when it changes', async (env) => {
    const { app, project } = await start(env);
    const other = await app.createProject();
    await limit(app, project, 2);
    expect(await statuses(project, 3)).toEqual([200, 200, 429]);
    expect(await policy(project)).toBe('"project";q=2;w=60');
    await limit(app, project, LIMIT + 1);
    expect(await policy(project)).toBe(`"project";q=${LIMIT + 1};w=60`);
    expect(await statuses(project, 2)).toEqual([200, 429]);
    expect((await count(other)).headers.get('ratelimit')).toBe(
      'RATE_LIMIT' in env ? `"project";r=${LIMIT - 1};t=60` : null,
    );
    await limit(app, project, null);
    expect(await policy(project)).toBe('RATE_LIMIT' in env ? `"project";q=${LIMIT};w=60` : null);
  });

  test('is refused beyond what RATE_LIMIT accepts, and recorded', async () => {
    const { app, project } = await start({});
    for (const bad of [0, -1, 1.5, 100_000_001, Number.NaN])
      await expect(limit(app, project, bad)).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
    for (const rate of [7, 7, null, null]) await limit(app, project, rate);
    const scope = await app.context.services.projects.getScope(project.appId);
    expect(await app.context.services.audit.listEntries(scope, null, 10)).toMatchObject([
      { action: 'create' },
      { action: 'limit', details: { requests_per_minute: 7 } },
      { action: 'limit', details: { requests_per_minute: null } },
    ]);
  });
});

const redisUrl = process.env['TEST_REDIS_URL'];

describe.runIf(redisUrl)('with Redis', () => {
  async function startWithRedis(): Promise<{ proxy: TcpProxy; env: Record<string, string> }> {
    const url = new URL(redisUrl as string);
    const proxy = await startProxy({ host: url.hostname, port: Number(url.port || 6379) });
    closers.push(() => proxy.close());
    url.hostname = '127.0.0.1';
    url.port = String(proxy.port);
    return { proxy, env: { RATE_LIMIT, REDIS_URL: url.href } };
  }

  /** Starts a second server on the same database, which counts like another process. Returns a way to call it. */
  async function startSecond(app: TestApp, env: Record<string, string>) {
    const config = parseConfig(env);
    const server = await createServer({ config, log: createLogger('silent'), context: app.context });
    closers.push(() => server.close());
    return async ({ credentials }: TestProject) => {
      const { statusCode, headers } = await server.inject({ url: '/server/users/count', headers: credentials });
      return { status: statusCode, left: String(headers['ratelimit']) };
    };
  }

  test('several processes share one limit', async () => {
    const { env } = await startWithRedis();
    const { app, project } = await start(env);
    const ask = await startSecond(app, env);
    // Both servers are connected once one sees the count of the other.
    await expect.poll(async () => counted(await app.createProject(), ask)).toBe(LIMIT - 2);
    expect(await statuses(project, 2)).toEqual([200, 200]);
    expect([(await ask(project)).status, (await ask(project)).status]).toEqual([200, 200]);
    expect(await statuses(project, 2)).toEqual([200, 429]);
    expect(await ask(project)).toEqual({ status: 429, left: expect.stringMatching(/^"project";r=0;t=\d+$/) });
  });

  test("several processes share a project's own limit", async () => {
    const { RATE_LIMIT: _, ...env } = (await startWithRedis()).env;
    const { app } = await start(env);
    const ask = await startSecond(app, env);
    const { projects, lifecycle } = app.context.services;
    const limited = async () => {
      const made = await app.createProject();
      await lifecycle.limitProject(await projects.getScope(made.appId), 3);
      return made;
    };
    await expect.poll(async () => counted(await limited(), ask)).toBe(1);
    const project = await limited();
    expect(await statuses(project, 2)).toEqual([200, 200]);
    expect([(await ask(project)).status, (await ask(project)).status]).toEqual([200, 429]);
    expect(await statuses(project, 1)).toEqual([429]);
  });

  /** The remaining requests in the second process after one request to the first. */
  async function counted(project: TestProject, ask: (project: TestProject) => Promise<{ left: string }>) {
    await count(project);
    return Number(/r=(\d+)/.exec((await ask(project)).left)?.[1]);
  }

  test.each(['cut', 'freeze'] as const)(
    'after a fault (%s), each process counts on its own until Redis is back',
    async (fault) => {
      const { proxy, env } = await startWithRedis();
      const { app, project } = await start(env);
      const ask = await startSecond(app, env);
      const isShared = async () => counted(await app.createProject(), ask);
      await expect.poll(isShared).toBe(LIMIT - 2);

      await proxy[fault]();
      expect(await statuses(project, LIMIT + 1)).toEqual([200, 200, 200, 200, 200, 429]);
      expect((await ask(project)).left).toMatch(/r=4;/);
      // Requests stop waiting for Redis when it does not answer.
      await expect.poll(() => tookMs(() => count(project))).toBeLessThan(50);
      expect((await fetch(`${app.url}/readyz`)).status).toBe(200);

      await proxy.restore();
      await expect.poll(isShared, { interval: 100 }).toBe(LIMIT - 2);
    },
  );

  test('the service starts even when Redis is unreachable', async () => {
    const { proxy, env } = await startWithRedis();
    await proxy.cut();
    const { project } = await start(env);
    expect(await statuses(project, LIMIT + 1)).toEqual([200, 200, 200, 200, 200, 429]);
  });
});

async function tookMs(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}
