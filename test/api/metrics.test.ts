import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parser } from '@prometheus-io/lezer-promql';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { parse } from 'yaml';
import { ethereumAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { requireCleanLog } from '../support/hygiene.js';
import { jsonPost } from '../support/rest.js';

// With its own database, the first user has the id 1.
const app = useTestApp({
  ownDatabase: true,
  env: { METRICS_PORT: '0', REDIS_URL: 'redis://127.0.0.1:1' },
  admission: { maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 1 },
});
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers({
    auth_method: 'email',
    auth_value: 'ada@example.com',
    accounts: [{ network: 'ethereum', public_key: ethereumAddress(1) }],
  });
});

const PROMTOOL = '/usr/bin/promtool';

interface Family {
  readonly help: string;
  readonly type: string;
  /** Values by name and labels, as written in the text. */
  readonly samples: Map<string, number>;
}

/** The families of Prometheus's text format; promtool checks its grammar. */
function parseExposition(text: string): Map<string, Family> {
  const families = new Map<string, Family>();
  for (const [, name = '', help = '', type = '', lines = ''] of text.matchAll(
    /^# HELP (\S+) (.+)\n# TYPE \1 (\w+)\n((?:[^#\n].*\n)*)/gm,
  )) {
    const samples = [...lines.matchAll(/^(.+) (\S+)$/gm)].map(([, id = '', value = '']): [string, number] => [
      id,
      Number(value.replace('Inf', 'Infinity')),
    ]);
    expect(families.has(name), name).toBe(false);
    families.set(name, { help, type, samples: new Map(samples) });
  }
  return families;
}

async function scrape() {
  const response = await fetch(app.metricsUrl);
  expect(response.status).toBe(200);
  expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  const families = parseExposition(text);
  const samples = new Map([...families.values()].flatMap((family) => [...family.samples]));
  return { text, families, value: (id: string) => samples.get(id) ?? 0 };
}

/** How much each sample grows during `work`. */
async function growth(ids: readonly string[], work: () => Promise<unknown>): Promise<number[]> {
  const before = await scrape();
  await work();
  const after = await scrape();
  return ids.map((id) => after.value(id) - before.value(id));
}

test.runIf(existsSync(PROMTOOL))('Prometheus can read the metrics', async () => {
  const { text } = await scrape();
  // 3 says that the names of Node.js and of the process could be better.
  const { status, stderr } = spawnSync(PROMTOOL, ['check', 'metrics'], { input: text, encoding: 'utf8' });
  expect([0, 3], stderr).toContain(status);
  expect(stderr).not.toContain('userdir_');
});

test('metric names follow the conventions of Prometheus', async () => {
  const { families } = await scrape();
  for (const [name, { type, help }] of families) {
    expect(help, name).toMatch(/\S/);
    expect(name).toMatch(/^(userdir|process|nodejs)_[a-z0-9_]+$/);
    if (!name.startsWith('userdir_')) continue;
    expect(name.endsWith('_total'), name).toBe(type === 'counter');
    expect(name, 'a base unit').not.toMatch(/_(ms|milliseconds|minutes|kib|mib|percent)(_|$)/);
  }
  for (const name of [
    'process_cpu_seconds_total',
    'process_resident_memory_bytes',
    'nodejs_eventloop_lag_p99_seconds',
  ]) {
    expect([...families.keys()]).toContain(name);
  }
});

test('all requests are counted by route and status and timed by route, also without credentials', async () => {
  const counts = await growth(
    [
      'userdir_http_requests_total{method="GET",route="/server/users/:user_id",status="200"}',
      'userdir_http_requests_total{method="GET",route="/server/users/:user_id",status="404"}',
      'userdir_http_requests_total{method="GET",route="/server/users/:user_id",status="401"}',
      'userdir_http_requests_total{method="GET",route="none",status="404"}',
      'userdir_http_request_duration_seconds_count{method="GET",route="/server/users/:user_id"}',
      'userdir_http_request_duration_seconds_bucket{le="10",method="GET",route="/server/users/:user_id"}',
    ],
    async () => {
      await project.rest('/server/users/1');
      await project.rest('/server/users/99');
      await fetch(`${app.url}/server/users/1`);
      await fetch(`${app.url}/ada@example.com`);
    },
  );
  expect(counts).toEqual([1, 1, 1, 1, 3, 3]);
});

test('requests with valid credentials are counted by project and outcome', async () => {
  const [own, other] = [await app.createProject(), await app.createProject()];
  const outcomes = ['ok', 'client_error', 'server_error'];
  const ids = [own, other].flatMap(({ appId }) =>
    outcomes.map((outcome) => `userdir_project_requests_total{project="${appId}",outcome="${outcome}"}`),
  );
  const counts = await growth(ids, async () => {
    for (let time = 0; time < 3; time += 1) await own.rest('/server/users');
    await own.rest('/server/users/999999');
    await own.graphql('{ user(id: "x") { id } }');
    await own.rest('/server/users', { headers: { 'service-app-secret': 'wrong' } });
    await fetch(`${app.url}/server/users`);
    await other.graphql('{ userCount }');
  });
  expect(counts).toEqual([3, 2, 0, 1, 0, 0]);
});

test('probes are counted apart from requests', async () => {
  const sumOf = async (name: string) => {
    const { families } = await scrape();
    const samples = [...families.values()].flatMap((family) => [...family.samples]);
    return samples.filter(([id]) => id.startsWith(name)).reduce((sum, [, value]) => sum + value, 0);
  };
  const names = ['userdir_http_probes_total', 'userdir_http_requests_total', 'userdir_http_request_duration_seconds'];
  const before = await Promise.all(names.map(sumOf));
  for (const path of ['/livez', '/readyz']) await fetch(app.url + path);
  await fetch(app.url, { method: 'OPTIONS' });
  const after = await Promise.all(names.map(sumOf));
  expect(after.map((sum, at) => sum - (before[at] ?? 0))).toEqual([3, 0, 0]);
  expect((await scrape()).value('userdir_http_probes_total{route="/readyz",status="200"}')).toBeGreaterThan(0);
});

test('operations are timed by name, with at most a hundred names', async () => {
  const named = await growth(
    [
      'userdir_graphql_operation_duration_seconds_count{operation="Mine"}',
      'userdir_graphql_operation_duration_seconds_count{operation="unnamed"}',
    ],
    async () => {
      for (let time = 0; time < 5; time += 1) await project.graphql('query Mine { userCount }');
      await project.graphql('{ userCount }');
      // A name that may be a secret or an address is reported as unnamed.
      await project.graphql(`query uds_${'a'.repeat(20)} { userCount }`);
      await project.graphql(`query G${'A'.repeat(55)} { userCount }`);
      await project.graphql(`query ${'a'.repeat(61)} { userCount }`);
      await project.graphql('{ nothing }');
    },
  );
  expect(named).toEqual([5, 4]);

  for (let index = 0; index < 120; index += 1) await project.graphql(`query Made${index} { __typename }`);
  const { families } = await scrape();
  const { samples } = families.get('userdir_graphql_operation_duration_seconds') as Family;
  const names = new Set([...samples.keys()].map((id) => /operation="(\w+)"/.exec(id)?.[1]));
  expect(names.size).toBe(101);
  expect(names).toContain('Made97');
  expect(names).not.toContain('Made98');
  expect(samples.get('userdir_graphql_operation_duration_seconds_count{operation="other"}')).toBe(22);
  expect(samples.get('userdir_graphql_operation_duration_seconds_count{operation="Mine"}')).toBe(5);
});

test('the metrics of batches, admission and the database have the correct values', async () => {
  const ids = ['userdir_batch_keys_count{read="users by id"}', 'userdir_batch_keys_sum{read="users by id"}'];
  const query = `{ ${[1, 2, 3].map((id) => `u${id}: user(id: ${id}) { id }`).join(' ')} }`;
  expect(await growth(ids, () => project.graphql(query))).toEqual([1, 3]);

  const [refused = 0] = await growth(['userdir_admission_refused_total'], async () => {
    // On a busy machine the requests may arrive so slowly that none has to wait.
    let statuses: number[] = [];
    for (let round = 1; round <= 50 && !statuses.includes(503); round += 1) {
      const answers = await Promise.all(Array.from({ length: 60 }, () => project.rest('/server/users/1')));
      statuses = answers.map(({ status }) => status);
    }
    expect(statuses).toContain(503);
  });
  expect(refused).toBeGreaterThan(0);

  const { families, value } = await scrape();
  expect([
    value('userdir_admission_units{state="under_way"}'),
    value('userdir_admission_units{state="waiting"}'),
  ]).toEqual([0, 0]);
  expect(value('userdir_database_connections{state="idle"}')).toBeGreaterThan(0);
  expect(value('userdir_database_connections_max')).toBe(inject('engine') === 'embedded' ? 1 : 10);
  // A PostgreSQL server has monitoring of its own.
  expect(families.has('userdir_embedded_database_starts_total')).toBe(inject('engine') === 'embedded');
  if (inject('engine') === 'postgres') return;
  expect(value('userdir_embedded_database_starts_total')).toBe(1);
  const [busy = 0] = await growth(['userdir_embedded_database_busy_seconds_total'], () =>
    project.rest('/server/users'),
  );
  expect(busy).toBeGreaterThan(0);
  expect(busy).toBeLessThan(30);
});

test('no metric contains personal data or credentials, for any request', async () => {
  const secret = { 'x-request-id': 'ada@example.com', 'user-agent': project.appSecret };
  await project.rest(`/server/users/search?email=ada@example.com&address=${ethereumAddress(1)}`, { headers: secret });
  await project.rest(`/server/users/search?address=${ethereumAddress(1)}`);
  await project.rest('/server/ada@example.com');
  await project.rest(`/server/users/${project.appSecret}`, { method: 'DELETE' });
  await project.rest('/graphql', jsonPost({ query: '{ a }', operationName: 'ada@example.com' }));
  const { text } = await scrape();
  requireCleanLog(text);
  // A word that no App ID can hold: it is hexadecimal.
  expect(text).not.toContain('ada@');
});

test('the metrics port serves only metrics, and the main port serves none', async () => {
  const statuses = await Promise.all(
    [new URL('/', app.metricsUrl), new URL('/server/users', app.metricsUrl), `${app.url}/metrics`].map(
      async (url) => (await fetch(url)).status,
    ),
  );
  expect(statuses).toEqual([404, 404, 404]);
});

/** The names of all samples that the service may have, and those of them that this one lacks: they are of the other database, or of a standby. */
async function sampleNames() {
  const { families } = await scrape();
  const samples = new Set(
    [...families].flatMap(([name, { type }]) =>
      type === 'histogram' ? ['_bucket', '_sum', '_count'].map((suffix) => name + suffix) : [name],
    ),
  );
  const isOfAnother = (name: string) =>
    name.includes('_replica_') || (inject('engine') === 'postgres' && name.includes('_embedded_'));
  return { families, samples, isOfAnother };
}

test('every metric in the Grafana dashboard exists, and the dashboard shows every userdir metric', async () => {
  const dashboard = readFileSync(new URL('../../docs/grafana.json', import.meta.url), 'utf8');
  const { families, samples, isOfAnother } = await sampleNames();
  const expressions = [...dashboard.matchAll(/"expr": "((?:[^"\\]|\\.)*)"/g)].map(([, expression = '']) => expression);
  const named = new Set(expressions.flatMap((expression) => expression.match(/\b(userdir|process|nodejs)_\w+/g) ?? []));
  expect(expressions.length).toBeGreaterThan(5);
  expect([...named].filter((name) => !samples.has(name))).toEqual([...named].filter(isOfAnother));
  // The dashboard leaves out no userdir metric.
  const ours = [...families.keys()].filter((name) => name.startsWith('userdir_'));
  expect(ours.filter((name) => ![...named].some((each) => each.startsWith(name)))).toEqual([]);
});

describe('the alert rules', () => {
  const file = fileURLToPath(new URL('../../docs/deploy/alerts.yaml', import.meta.url));
  interface Rule {
    readonly alert: string;
    readonly expr: string;
    readonly for?: string;
    readonly labels: { severity: string };
    readonly annotations: Record<string, string>;
  }
  const { groups }: { groups: { name: string; rules: Rule[] }[] } = parse(readFileSync(file, 'utf8'));
  const rules = groups.flatMap((group) => group.rules);

  /** The text of each node of a kind in an expression, and where it is no PromQL. */
  function nodesOf(expression: string, kind: string): { found: string[]; faults: number[] } {
    const found: string[] = [];
    const faults: number[] = [];
    parser.parse(expression).iterate({
      enter: ({ name, type, from, to }) => {
        if (type.isError) faults.push(from);
        if (name === kind) found.push(expression.slice(from, to));
      },
    });
    return { found, faults };
  }

  test('ask for metrics and labels that exist', async () => {
    await project.rest('/server/users/1');
    const { families, samples, isOfAnother } = await sampleNames();
    const named = rules.flatMap(({ expr }) => nodesOf(expr, 'Identifier').found).filter((name) => name !== 'up');
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((name) => !samples.has(name) && !isOfAnother(name))).toEqual([]);
    const ids = [...families.values()].flatMap((family) => [...family.samples.keys()]);
    // Prometheus adds the name of the scrape and the address.
    // A reason is there once a write was refused.
    const known = new Set(['job', 'instance', 'reason', ...ids.flatMap((id) => id.match(/\w+(?==")/g) ?? [])]);
    const labels = rules.flatMap(({ expr, annotations }) => [
      ...nodesOf(expr, 'LabelName').found,
      ...[...JSON.stringify(annotations).matchAll(/\$labels\.(\w+)/g)].map(([, name = '']) => name),
    ]);
    expect(new Set(labels)).toEqual(new Set(['job', 'instance', 'status', 'le', 'route', 'state', 'reason']));
    expect(labels.filter((label) => !known.has(label))).toEqual([]);
  });

  test.runIf(existsSync(PROMTOOL))('are accepted by Prometheus', () => {
    expect(execFileSync(PROMTOOL, ['check', 'rules', file], { encoding: 'utf8' })).toContain('SUCCESS');
  });
});
