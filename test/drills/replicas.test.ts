import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { type Cluster, createCluster, hasPostgres } from '../support/cluster.js';
import { type Credentials, type RunningServer, startServer, userdirJson } from '../support/command.js';
import { queryPostgres } from '../support/engines.js';
import { PATIENCE } from '../support/waiting.js';
import { countLost } from '../support/writers.js';
import { missingPrograms, type NodeName, startPatroni } from './patroni.js';

/**
 * Lists, logins and gets while a standby dies, freezes or falls behind, and while the primary is replaced: whether anything fails, and how long
 * lists still come from a standby that is not good.
 */

const CLIENTS = 8;
const LOGIN = `mutation ($value: String!) { recordLogin(input: { authMethod: "passkey", authValue: $value }) { user { id } } }`;
const WINDOW = '{ users(first: 20) { nodes { id accounts { network } } totalCount } }';
const CHANGES = '{ changes(first: 20) { nodes { id } } }';
const STEADY_MS = 2_000;
const LEFT_WITHIN_MS = 3_000;

/** What a request answers while there is no primary. */
const AWAY = /^503 1 /;
/** Between two turns of a client, which leaves some of the machine to the standbys. */
const PAUSE_MS = 50;
/** How old a list may be: DATABASE_REPLICA_MAX_LAG_MS and a quarter of a second, as documented, and the time of a request. */
const MAX_AGE_MS = 2_000;

/** A service with a project, for the drills of one kind of standby. */
async function startService(settings: Record<string, string>) {
  const project: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Drill']);
  const headers = {
    'service-app-id': project.app_id,
    'service-app-secret': project.app_secret,
    'content-type': 'application/json',
  };
  const server: RunningServer = await startServer({
    ...settings,
    METRICS_PORT: '0',
    LOG_LEVEL: 'fatal',
    DEMO: 'off',
  });
  const outcomes = { answers: 0, errors: [] as string[], longestMs: 0, oldestMs: 0 };
  /** When each user was acknowledged, in order. */
  const acknowledged: number[] = [];
  /** Those of the present load. */
  let ids: string[] = [];

  async function send(path: string, init: RequestInit = {}) {
    const startedAt = performance.now();
    const known = acknowledged.length;
    const response = await fetch(server.url + path, { headers, ...init });
    const body = (await response.json()) as { errors?: unknown; data?: unknown; result?: { total_user: number } };
    outcomes.answers += 1;
    outcomes.longestMs = Math.max(outcomes.longestMs, performance.now() - startedAt);
    if (response.status !== 200 || body.errors) {
      outcomes.errors.push(`${response.status} ${response.headers.get('retry-after')} ${path} ${JSON.stringify(body)}`);
    }
    return { body, startedAt, known };
  }
  const graphql = (query: string, variables = {}) =>
    send('/graphql', { method: 'POST', body: JSON.stringify({ query, variables }) });

  /** Registers a user, gets them, and reads lists; also notes how old a count is. */
  async function turn(value: string): Promise<void> {
    const { body } = await graphql(LOGIN, { value });
    const { id } = (body.data as { recordLogin: { user: { id: string } } } | null | undefined)?.recordLogin.user ?? {};
    if (id === undefined) return;
    acknowledged.push(performance.now());
    ids.push(id);
    await send(`/server/users/${id}`);
    const { body: count, startedAt, known } = await send('/server/users/count');
    const total = count.result?.total_user ?? known;
    if (total < known) outcomes.oldestMs = Math.max(outcomes.oldestMs, startedAt - (acknowledged[total] as number));
    await send('/server/users?limit=20');
    await graphql(WINDOW);
    await graphql(CHANGES);
  }

  async function readMetrics() {
    const text = await (await fetch(server.metricsUrl)).text();
    const value = (name: string) =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name} `))
          ?.split(' ')[1],
      );
    return {
      /** 1 if it reads on the standby. */
      used: value('userdir_replica_used'),
      reads: value('userdir_replica_reads_total{server="replica"}'),
      failures: value('userdir_replica_failures_total'),
    };
  }

  const untilUsed = async (isUsed: boolean) => {
    const since = performance.now();
    await vi.waitUntil(async () => (await readMetrics()).used === Number(isUsed), PATIENCE);
    return Math.round(performance.now() - since);
  };

  /** Runs `work` under load, in which nothing fails. Returns what happened meanwhile. */
  async function underLoad(work: () => Promise<string>): Promise<string> {
    const { done, report } = await load(work);
    expect(outcomes.errors).toEqual([]);
    expect(outcomes.longestMs).toBeLessThan(LEFT_WITHIN_MS);
    return `${done}; ${report}`;
  }

  /** Runs `work` under load while the primary is replaced. What fails meanwhile can be sent again, and nothing is lost. */
  async function throughFailover(work: () => Promise<string>, limitMs: number): Promise<string> {
    const { done, report } = await load(work);
    expect(outcomes.errors.filter((error) => !AWAY.test(error))).toEqual([]);
    expect(outcomes.oldestMs).toBeLessThan(MAX_AGE_MS);
    const times = acknowledged.slice(-ids.length);
    const gapMs = Math.round(times.reduce((longest, at, index) => Math.max(longest, at - (times[index - 1] ?? at)), 0));
    expect(gapMs).toBeLessThan(limitMs);
    expect(await countLost(server.url, project, ids)).toBe(0);
    return `${done}; longest time without a login ${gapMs} ms, ${ids.length} acknowledged, 0 lost, ${outcomes.errors.length} answered with 503; ${report}`;
  }

  async function load(work: () => Promise<string>) {
    Object.assign(outcomes, { answers: 0, errors: [], longestMs: 0, oldestMs: 0 });
    ids = [];
    let isOver = false;
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let number = 0; !isOver; number += 1) {
        await turn(`${performance.now()}-${client}-${number}`);
        await sleep(PAUSE_MS);
      }
    });
    const finished = Promise.all(clients);
    const done = await Promise.race([work(), finished.then(() => 'never')]).finally(() => {
      isOver = true;
    });
    await finished;
    const { answers, errors, longestMs, oldestMs } = outcomes;
    const report = `${answers - errors.length} answers without an error, longest ${Math.round(longestMs)} ms, oldest count ${Math.round(oldestMs)} ms`;
    return { done, report };
  }

  return { underLoad, throughFailover, untilUsed, readMetrics, stop: () => server.stop() };
}

type Service = Awaited<ReturnType<typeof startService>>;

describe.skipIf(!hasPostgres)('a service with one standby', () => {
  let primary: Cluster;
  let standby: Cluster;
  let service: Service;

  beforeAll(async () => {
    primary = await createCluster();
    standby = await primary.createStandby({ isSynchronous: false });
    service = await startService({ DATABASE_URL: primary.url, DATABASE_REPLICA_URL: standby.url });
  });
  afterAll(async () => {
    await service?.stop();
    await standby?.drop();
    await primary?.drop();
  });

  const onStandby = (text: string) => queryPostgres(standby.url, text);

  const FAULTS: [name: string, begin: () => unknown, end: () => unknown][] = [
    ['dies', () => standby.kill(), () => standby.start()],
    ['freezes', () => standby.freeze(), () => standby.thaw()],
    ['falls behind', () => onStandby('SELECT pg_wal_replay_pause()'), () => onStandby('SELECT pg_wal_replay_resume()')],
  ];

  test.for(FAULTS)(
    'leaves it within 3 seconds when it %s, without an error, and comes back',
    async (fault, { annotate }) => {
      const [, begin, end] = fault;
      const report = await service.underLoad(async () => {
        await service.untilUsed(true);
        await sleep(STEADY_MS);
        const before = await service.readMetrics();
        expect(before.reads).toBeGreaterThan(0);
        const faultyAt = performance.now();
        await begin();
        await service.untilUsed(false);
        const leftMs = Math.round(performance.now() - faultyAt);
        expect(leftMs).toBeLessThan(LEFT_WITHIN_MS);
        await sleep(STEADY_MS);
        await end();
        const backMs = await service.untilUsed(true);
        await sleep(STEADY_MS);
        const after = await service.readMetrics();
        expect(after.reads).toBeGreaterThan(before.reads);
        return `left after ${leftMs} ms, back after ${backMs} ms, ${after.failures - before.failures} reads made again`;
      });
      await annotate(report);
    },
  );
});

describe.skipIf(missingPrograms.length > 0)('a service with two standbys under Patroni, behind HAProxy', () => {
  let patroni: Awaited<ReturnType<typeof startPatroni>>;
  let service: Service;

  /** With the role of the service, which is no superuser. */
  const asRole = (url: string) =>
    Object.assign(new URL(url), { username: 'userdir', password: 'change-me-4', pathname: '/userdir' }).href;
  const settings = (replicaUrl: string) => ({
    DATABASE_URL: asRole(patroni.url),
    DATABASE_REPLICA_URL: asRole(replicaUrl),
    DATA_DIR: `${patroni.folder}/userdir`,
  });

  beforeAll(async () => {
    patroni = await startPatroni();
    await patroni.healthy();
    await queryPostgres(patroni.url, `CREATE ROLE userdir LOGIN PASSWORD 'change-me-4'`);
    await queryPostgres(patroni.url, `CREATE DATABASE userdir OWNER userdir TEMPLATE template0 ENCODING 'UTF8'`);
    service = await startService(settings(patroni.replicaUrl));
  });
  afterAll(async () => {
    await service?.stop();
    await patroni?.stop();
  });

  test('is found to be set up well by doctor', async () => {
    const { findings } = await userdirJson(settings(patroni.replicaUrl), ['doctor']);
    expect(findings).toContainEqual(expect.objectContaining({ id: 'replica', status: 'passed' }));
    expect(findings.filter(({ status }: { status: string }) => status === 'failed')).toEqual([]);
  });

  test('has what was just written in its lists, if they are read on the synchronous one', async ({ annotate }) => {
    const strict = await startService(settings(patroni.synchronousUrl));
    const report = await strict.underLoad(async () => {
      await strict.untilUsed(true);
      await sleep(STEADY_MS);
      const { reads } = await strict.readMetrics();
      expect(reads).toBeGreaterThan(0);
      return `${reads} lists from the synchronous standby`;
    });
    await strict.stop();
    expect(report).toContain('oldest count 0 ms');
    await annotate(report);
  });

  test.for(['dies', 'freezes'])('fails no request when one of the two %s', async (fault, { annotate }) => {
    // Not the synchronous one: commits would wait for it until Patroni has chosen another.
    const { other } = await patroni.healthy();
    const work = async () => {
      await service.untilUsed(true);
      await sleep(STEADY_MS);
      const before = await service.readMetrics();
      if (fault === 'dies') patroni.kill(other);
      else patroni.freeze(other);
      let last = { at: performance.now(), reads: before.reads };
      let gapMs = 0;
      for (const until = performance.now() + 5 * STEADY_MS; performance.now() < until; await sleep(25)) {
        const { reads } = await service.readMetrics();
        gapMs = Math.max(gapMs, performance.now() - last.at);
        if (reads > last.reads) last = { at: performance.now(), reads };
      }
      expect(last.reads).toBeGreaterThan(before.reads);
      const { failures } = await service.readMetrics();
      return `longest time without a list from a standby ${Math.round(gapMs)} ms, ${failures - before.failures} reads made again`;
    };
    await annotate(
      await service.underLoad(work).finally(() => {
        if (fault === 'dies') patroni.restart(other);
        else patroni.thaw(other);
      }),
    );
    await patroni.healthy();
  });

  const FAILOVERS: [
    name: string,
    limitMs: number,
    begin: (now: { leader: NodeName; standby: NodeName }) => Promise<unknown>,
  ][] = [
    ['is switched over', 5_000, ({ leader, standby }) => patroni.switchOver(leader, standby)],
    ['dies', 15_000, async ({ leader }) => patroni.kill(leader)],
  ];

  test.for(FAILOVERS)(
    'loses nothing when the primary %s, and reads lists on a standby again',
    async ([name, limitMs, begin], { annotate }) => {
      const nodes = await patroni.healthy();
      const report = await service.throughFailover(async () => {
        await service.untilUsed(true);
        await sleep(STEADY_MS);
        await begin(nodes);
        const begunAt = performance.now();
        await vi.waitUntil(async () => (await patroni.leader()) === nodes.standby, PATIENCE);
        const { reads } = await service.readMetrics();
        await vi.waitUntil(async () => (await service.readMetrics()).reads > reads, PATIENCE);
        const backMs = Math.round(performance.now() - begunAt);
        await sleep(STEADY_MS);
        return `lists on a standby of the new primary after ${backMs} ms`;
      }, limitMs);
      await annotate(report);
      if (name === 'dies') patroni.restart(nodes.leader);
      await patroni.healthy();
    },
  );
});
