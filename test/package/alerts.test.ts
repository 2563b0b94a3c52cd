import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { parse } from 'yaml';
import { createServer } from '#dist/app/app.js';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import { Prisma } from '#dist/db/statements.js';
import { createLogger } from '#dist/telemetry/logger.js';
import { type Json, startTestApp, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { freePort } from '../support/cluster.js';
import { hasProgram } from '../support/programs.js';
import { PATIENCE } from '../support/waiting.js';

/** The alerts of docs/deploy in a Prometheus, on metrics of services in the states that they are about. */

const run = promisify(execFile);
const FOLDER = join(ROOT, 'docs/deploy');
const [PROMTOOL, PROMETHEUS] = ['/usr/bin/promtool', '/usr/bin/prometheus'];
const rules: { alert: string; annotations: Record<string, string> }[] = parse(
  await readFile(join(FOLDER, 'alerts.yaml'), 'utf8'),
).groups.flatMap((group: Json) => group.rules);

describe.runIf(inject('engine') === 'embedded')('the commands in docs/deploy', () => {
  const known = leafCommands(createProgram({})).map((command) =>
    [command.parent?.parent && command.parent.name(), command.name()].filter(Boolean).join(' '),
  );
  /** Arguments and options may follow the name. */
  const isCommand = (text: string) => known.some((name) => `${text} `.startsWith(`${name} `));

  test('exist, wherever they are named', async () => {
    const texts = await Promise.all((await readdir(FOLDER)).map((name) => readFile(join(FOLDER, name), 'utf8')));
    const text = texts.join('\n');
    const inCode = [...text.matchAll(/(?:`|exec (?:deploy\/)?[\w-]+ (?:-- )?|\n)userdir ([a-z][\w -]*)/g)].map(
      ([, words = '']) => words,
    );
    const asArguments = [...text.matchAll(/^ +(?:command|args): ?(?:\[([a-z-]+)\]|\n +- ([a-z-]+)$)/gm)].map(
      ([, a, b]) => a ?? b ?? '',
    );
    const started = [...text.matchAll(/docker compose run --rm ([a-z-]+)/g)].map(([, words = '']) => words);
    expect(inCode.length).toBeGreaterThan(8);
    expect(asArguments.length).toBeGreaterThan(3);
    expect([...inCode, ...asArguments, ...started].filter((words) => !isCommand(words.trim()))).toEqual([]);
    expect(['webhook enable', 'webhooks', 'serves'].filter(isCommand)).toEqual([]);
  });

  test('stand in alerts as they are typed', () => {
    const nouns = [...new Set(known.filter((name) => name.includes(' ')).map((name) => name.split(' ')[0]))];
    const verbs = [...new Set(known.map((name) => name.split(' ').at(-1)))];
    const bare = new RegExp(`\\b(?:doctor|(?:${nouns.join('|')}) (?:enable|${verbs.join('|')}))\\b`);
    expect('webhook enable goes on').toMatch(bare);
    const texts = rules.flatMap(({ annotations }) => Object.values(annotations));
    expect(texts.filter((text) => bare.test(text.replaceAll(/`userdir [^`]+`/g, '')))).toEqual([]);
  });
});

type Samples = ReadonlyMap<string, number>;

async function scrape(url: string): Promise<Samples> {
  const text = await (await fetch(url)).text();
  const samples = [...text.matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)];
  return new Map(
    samples.map(([, id = '', value]) => [id, Number(value)] as const).filter(([, value]) => Number.isFinite(value)),
  );
}

/** The series of a service that goes on as it did between two scrapes, in the notation of promtool, a sample a minute. */
type Series = ReadonlyMap<string, string>;
const MINUTES = 120;
/** What counts, and ages. Other gauges stay as they are. */
const GROWING = /_(total|bucket|sum|count)(\{|$)|^userdir_\w+_(lag|transaction)_seconds/;

async function record(url: string, act: () => Promise<unknown>): Promise<Series> {
  await act();
  const before = await scrape(url);
  const from = performance.now();
  await act();
  const after = await scrape(url);
  const minutes = (performance.now() - from) / 60_000;
  const goOn = ([id, value]: [string, number]) => {
    const growth = GROWING.test(id) ? Math.max(value - (before.get(id) ?? value), 0) / minutes : 0;
    return [id, `${value}+${growth}x${MINUTES}`] as const;
  };
  return new Map([...[...after].map(goOn), ['up', `1x${MINUTES}`]]);
}

/** The alerts that fire after two hours of these series. */
async function firing(
  series: Series,
  alertnames: readonly string[] = rules.map(({ alert }) => alert),
): Promise<string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'userdir-alerts-'));
  const ofJob = (id: string) =>
    id.replace(
      /(?:\{(.*)\})?$/,
      (_, labels) => `{${labels === undefined ? '' : `${labels},`}job="userdir",instance="a:9464"}`,
    );
  const fires = (alertname: string) => ({
    expr: `count(ALERTS{alertname="${alertname}", alertstate="firing"}) > bool 0 or vector(0)`,
    eval_time: `${MINUTES}m`,
    exp_samples: [{ labels: '{}', value: 0 }],
  });
  const input_series = [...series].map(([id, values]) => ({ series: ofJob(id), values }));
  // No alert is said to fire: promtool then names those that do.
  const tests = [{ interval: '1m', input_series, promql_expr_test: alertnames.map(fires) }];
  const file = join(folder, 'tests.json');
  await writeFile(
    file,
    JSON.stringify({ rule_files: [join(FOLDER, 'alerts.yaml')], evaluation_interval: '1m', tests }),
  );
  const told = await run(PROMTOOL, ['test', 'rules', file]).then(
    () => '',
    ({ stderr, stdout }) => stdout + stderr,
  );
  await rm(folder, { recursive: true });
  const found = [...told.matchAll(/expr: "count\(ALERTS\{alertname=\\?"(\w+)/g)].map(([, name = '']) => name);
  if (told !== '' && found.length === 0) throw new Error(told);
  return found;
}

// Only PostgreSQL has open transactions beside others, and standbys.
describe.runIf(inject('engine') === 'postgres' && hasProgram(PROMTOOL))('of the alerts', () => {
  const app = useTestApp({
    ownDatabase: true,
    env: {
      METRICS_PORT: '0',
      WEBHOOKS_ALLOW_PRIVATE: 'on',
      DATABASE_POOL_SIZE: '4',
      DATABASE_POOL_TIMEOUT_MS: '600000',
    },
    admission: { maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 1 },
  });
  let project: TestProject;
  const tested: string[] = [];
  /** The alerts that fire in a state, and notes that they can. */
  const firingIn = async (series: Series, ...expected: string[]) => {
    tested.push(...expected);
    return firing(series, expected);
  };
  const serveWell = async () => {
    for (let time = 0; time < 20; time += 1) await project.rest('/server/users/count');
  };
  beforeAll(async () => {
    project = await app.createProject();
    app.context.services.changes.start();
  });

  test('none fires for a service that answers', { retry: 3 }, async () => {
    expect(await firing(await record(app.metricsUrl, serveWell))).toEqual([]);
  });

  test('none fires for three restarts in which probes were answered by 503', { retry: 3 }, async () => {
    const config = parseConfig({ DATABASE_URL: 'postgres://127.0.0.1:1/nothing', PORT: '0', METRICS_PORT: '0' });
    const log = createLogger('silent');
    // It is not open: so is a service that starts.
    const starting = await createServer({ config, log, context: createContext(config, { command: 'test' }) });
    await starting.listen({ host: '127.0.0.1', port: 0 });
    const url = `http://127.0.0.1:${(starting.server.address() as AddressInfo).port}/readyz`;
    const probe = async () => {
      for (let time = 0; time < 20; time += 1) expect((await fetch(url)).status).toBe(503);
    };
    const series = await record(starting.metricsUrl ?? '', probe);
    await starting.close();
    const [start = ''] = (series.get('process_start_time_seconds') ?? '').split('+');
    const restarts = Array.from(
      { length: MINUTES },
      (_, minute) => Number(start) + (minute < 100 ? 0 : Math.min(3, Math.ceil((minute - 99) / 5))),
    );
    // Each restart has the database again within a minute.
    const up = restarts.map((start, minute) => Number(start === restarts[minute - 1]));
    const restarting = [
      ['process_start_time_seconds', restarts.join(' ')],
      ['userdir_database_up', up.join(' ')],
    ] as const;
    expect(await firing(new Map([...series, ...restarting]))).toEqual([]);
  });

  test('UserdirRestarts fires for more', async () => {
    const series = await record(app.metricsUrl, serveWell);
    const [start = ''] = (series.get('process_start_time_seconds') ?? '').split('+');
    const restarting = new Map([...series, ['process_start_time_seconds', `${start}+300x${MINUTES}`]]);
    expect(await firingIn(restarting, 'UserdirRestarts')).toEqual(['UserdirRestarts']);
  });

  test('UserdirDown fires if Prometheus reaches no service, and if it knows none', async () => {
    expect(await firingIn(new Map([['up', `0x${MINUTES}`]]), 'UserdirDown')).toEqual(['UserdirDown']);
    expect(await firing(new Map(), ['UserdirDown'])).toEqual(['UserdirDown']);
  });

  test('UserdirFails and UserdirRefuses fire while the queue is full', async () => {
    const flood = async () => {
      let statuses: number[] = [];
      for (let round = 1; round <= 50 && !statuses.includes(503); round += 1)
        statuses = (await Promise.all(Array.from({ length: 60 }, () => project.rest('/server/users/1')))).map(
          ({ status }) => status,
        );
      expect(statuses).toContain(503);
    };
    const both = ['UserdirFails', 'UserdirRefuses'];
    expect(await firingIn(await record(app.metricsUrl, flood), ...both)).toEqual(both);
  });

  test('UserdirDatabaseAway fires while PostgreSQL is away and nobody asks, and what is not known then has no figure', async () => {
    const config = parseConfig({ DATABASE_URL: 'postgres://127.0.0.1:1/nothing', PORT: '0', METRICS_PORT: '0' });
    const log = createLogger('silent');
    // As if PostgreSQL went away after the start.
    const context = Object.assign(createContext(config, { command: 'test' }), { isOpen: true });
    const alone = await createServer({ config, log, context });
    await alone.listen({ host: '127.0.0.1', port: 0 });
    const series = await record(alone.metricsUrl ?? '', () => sleep(50));
    await alone.close();
    expect(await firingIn(series, 'UserdirDatabaseAway')).toEqual(['UserdirDatabaseAway']);
    const unknown = [...series.keys()].filter((id) => /changes_lag|oldest_transaction|webhook_lag|webhooks\{/.test(id));
    expect(unknown).toEqual([]);
  });

  test('UserdirWritesRefused fires while the database takes only reads', async () => {
    const { db } = app.context;
    const write = () =>
      db.transaction('READ COMMITTED', async (tx) => {
        await tx.query(Prisma.sql`SET TRANSACTION READ ONLY`);
        await tx.query(Prisma.sql`CREATE TABLE refused ()`);
      });
    const refuse = () => expect(write()).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    const series = await record(app.metricsUrl, refuse);
    expect(await firingIn(series, 'UserdirWritesRefused')).toEqual(['UserdirWritesRefused']);
  });

  test('UserdirSlow fires if requests take long', async () => {
    const sendSlowly = async () => {
      const headers = { ...project.credentials, 'content-type': 'application/json' };
      const slow = request(`${app.url}/graphql`, { method: 'POST', headers });
      slow.write('{"query":');
      await sleep(1_200);
      slow.end('"{ userCount }"}');
      const [response] = await once(slow, 'response');
      await response.resume().toArray();
    };
    expect(await firingIn(await record(app.metricsUrl, sendSlowly), 'UserdirSlow')).toEqual(['UserdirSlow']);
  });

  test('UserdirBusy fires if the event loop is held up', async () => {
    // More than once, because the highest one in a hundred is left out.
    const block = async () => {
      for (let time = 0; time < 3; time += 1) {
        const until = performance.now() + 700;
        while (performance.now() < until);
        await sleep(20);
      }
    };
    expect(await firingIn(await record(app.metricsUrl, block), 'UserdirBusy')).toEqual(['UserdirBusy']);
  });

  test('UserdirWaitsForConnections fires if all connections are taken, which keeps no scrape waiting', async () => {
    const { pool } = app.context.db;
    const held = await Promise.all(Array.from({ length: 4 }, () => pool.connect()));
    let isOver = false;
    const wait = async (): Promise<void> => {
      while (!isOver) await pool.query('SELECT 1').catch(() => undefined);
    };
    const waiting = [wait(), wait()];
    const series = await record(app.metricsUrl, () => sleep(50));
    isOver = true;
    for (const client of held) client.release();
    await Promise.all(waiting);
    expect(await firingIn(series, 'UserdirWaitsForConnections')).toEqual(['UserdirWaitsForConnections']);
  });

  test('UserdirWebhookLate and UserdirWebhookStopped fire for a webhook that is not sent to, and one that is paused', async () => {
    const { projects, webhooks } = app.context.services;
    const scope = await projects.getScope(project.appId);
    const add = () => webhooks.addWebhook(scope, { url: 'http://127.0.0.1:1/', description: '', types: null });
    await add();
    const { id } = await add();
    await webhooks.pauseWebhook(scope, id);
    await project.addUsers({ auth_method: 'passkey', auth_value: 'late' });
    await vi.waitUntil(
      async () => ((await scrape(app.metricsUrl)).get('userdir_webhook_lag_seconds') ?? 0) > 0,
      PATIENCE,
    );
    const both = ['UserdirWebhookLate', 'UserdirWebhookStopped'];
    const series = await record(app.metricsUrl, () => sleep(1_000));
    expect(await firingIn(series, ...both)).toEqual(both);
  });

  test('UserdirChangesLate and UserdirOldTransaction fire for a transaction that stays open', async () => {
    const client = await app.context.db.pool.connect();
    await client.query('BEGIN');
    await client.query(
      `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT id, 'x', 'open', 'open' FROM projects WHERE app_id = $1`,
      [project.appId],
    );
    await project.addUsers({ auth_method: 'passkey', auth_value: 'after' });
    await vi.waitUntil(
      async () => ((await scrape(app.metricsUrl)).get('userdir_changes_lag_seconds') ?? 0) > 0,
      PATIENCE,
    );
    const series = await record(app.metricsUrl, () => sleep(1_000));
    await client.query('ROLLBACK');
    client.release();
    const both = ['UserdirChangesLate', 'UserdirOldTransaction'];
    expect(await firingIn(series, ...both)).toEqual(both);
  });

  test('UserdirReplicaLeft fires while the standby is away', async () => {
    const alone = await startTestApp({
      ownDatabase: true,
      env: { METRICS_PORT: '0', DATABASE_REPLICA_URL: 'postgres://127.0.0.1:1/nothing' },
    });
    const series = await record(alone.metricsUrl, () => fetch(`${alone.url}/livez`));
    await alone.close();
    expect(await firingIn(series, 'UserdirReplicaLeft')).toEqual(['UserdirReplicaLeft']);
    expect(
      await firing(new Map([...series, ['userdir_replica_used', `1x${MINUTES}`]]), ['UserdirReplicaLeft']),
    ).toEqual([]);
  });

  test('UserdirRedisAway fires while requests are counted without Redis, and not while Redis answers', async () => {
    const seriesWith = async (redisUrl: string, isUp: number) => {
      const limited = await startTestApp({ env: { METRICS_PORT: '0', RATE_LIMIT: '1000', REDIS_URL: redisUrl } });
      const { credentials } = await limited.createProject();
      const up = async () => (await scrape(limited.metricsUrl)).get('userdir_redis_up');
      await vi.waitUntil(async () => (await up()) === isUp, PATIENCE);
      const ask = () => fetch(`${limited.url}/server/users/count`, { headers: credentials });
      const series = await record(limited.metricsUrl, ask);
      await limited.close();
      return series;
    };
    const away = await seriesWith('redis://127.0.0.1:1', 0);
    expect(await firingIn(away, 'UserdirRedisAway')).toEqual(['UserdirRedisAway']);
    const redisUrl = process.env['TEST_REDIS_URL'];
    if (redisUrl) expect(await firing(await seriesWith(redisUrl, 1), ['UserdirRedisAway'])).toEqual([]);
  });

  test('each has fired', () => {
    expect(tested.toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
  });
});

describe.runIf(hasProgram(PROMETHEUS))('Prometheus, as printed,', () => {
  // Redis and the standby need not be there: what their panels show is there all the same.
  const replica: Record<string, string> =
    inject('engine') === 'postgres' ? { DATABASE_REPLICA_URL: 'postgres://127.0.0.1:1/nothing' } : {};
  const app = useTestApp({
    ownDatabase: true,
    env: { METRICS_PORT: '0', WEBHOOKS_ALLOW_PRIVATE: 'on', REDIS_URL: 'redis://127.0.0.1:1', ...replica },
  });
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'userdir-prometheus-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  /** Requests of each kind, good and bad, and a webhook whose receiver is away. */
  async function load(project: TestProject): Promise<void> {
    await project.addUsers({ auth_method: 'passkey', auth_value: `${Math.random()}` });
    await project.graphql('query Mine { users { edges { node { id accounts { publicKey } } } } }');
    for (const path of ['/server/users', '/server/users/count', '/server/users/0']) await project.rest(path);
    await project.rest('/server/users', { headers: { 'service-app-secret': 'wrong' } });
    await fetch(`${app.url}/readyz`);
  }

  test('reads the metrics of a service under the name that the alerts know, evaluates them, and fills each panel of Grafana', async () => {
    const { host } = new URL(app.metricsUrl);
    const project = await app.createProject();
    const { changes, projects, webhooks } = app.context.services;
    changes.start();
    webhooks.start();
    const scope = await projects.getScope(project.appId);
    await webhooks.addWebhook(scope, { url: 'http://127.0.0.1:1/', description: '', types: null });
    const printed = await readFile(join(FOLDER, 'prometheus.yaml'), 'utf8');
    const targets = parse(printed).scrape_configs[0].static_configs[0].targets;
    const compose = parse(await readFile(join(FOLDER, 'compose.yaml'), 'utf8'), { merge: true });
    expect(targets).toEqual(
      ['userdir-a', 'userdir-b'].map((name) => `${name}:${compose.services[name].environment.METRICS_PORT}`),
    );
    await copyFile(join(FOLDER, 'alerts.yaml'), join(folder, 'alerts.yaml'));
    // Sooner than once a minute.
    const sooner = 'global: { scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms }\n';
    await writeFile(join(folder, 'prometheus.yaml'), sooner + printed.replaceAll(/userdir-[ab]:9464/g, host));
    const port = await freePort();
    const child = spawn(
      PROMETHEUS,
      [
        `--config.file=${folder}/prometheus.yaml`,
        `--storage.tsdb.path=${folder}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      { stdio: 'ignore' },
    );
    const ended = once(child, 'exit');
    const ask = async (path: string): Promise<Json> =>
      fetch(`http://127.0.0.1:${port}/api/v1/${path}`)
        .then((answer) => answer.json())
        .catch(() => null);
    const fills = async (expr: string) => {
      const query = expr.replaceAll('$job', 'userdir').replaceAll('$__rate_interval', '1m');
      const answer = await ask(`query?query=${encodeURIComponent(query)}`);
      return (answer?.data?.result ?? []).some(({ value }: Json) => value[1] !== 'NaN');
    };
    try {
      await vi.waitUntil(
        () => fills('up{job="userdir"} == 1 and on (instance) userdir_build_info{job="userdir"}'),
        PATIENCE,
      );
      const evaluated = async () =>
        (await ask('rules'))?.data?.groups?.[0]?.rules?.filter(({ health }: Json) => health === 'ok');
      await vi.waitUntil(async () => (await evaluated())?.length === rules.length, PATIENCE);
      const { panels } = JSON.parse(await readFile(join(ROOT, 'docs/grafana.json'), 'utf8'));
      const other = inject('engine') === 'embedded' ? /userdir_replica_/ : /userdir_embedded_/;
      const expressions: string[] = panels.flatMap(({ targets }: Json) => targets.map(({ expr }: Json) => expr));
      const empty = new Set(expressions.filter((expr) => !other.test(expr)));
      expect(empty.size).toBeGreaterThan(30);
      // Each load adds to what was scraped.
      const fill = async () => {
        await load(project);
        for (const expr of empty) if (await fills(expr)) empty.delete(expr);
        return empty.size === 0;
      };
      await vi.waitUntil(fill, PATIENCE).catch(() => expect([...empty]).toEqual([]));
    } finally {
      child.kill('SIGTERM');
      await ended;
    }
  });
});
