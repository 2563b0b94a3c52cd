import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { startTestApp, type TestApp, type TestProject } from '../support/app.js';
import { type CollectedSpan, type Collector, startCollector } from '../support/collector.js';
import { requireCleanLog } from '../support/hygiene.js';
import { jsonPost, sendPieces } from '../support/rest.js';

const SERVER = 2;
const CLIENT = 3;
const ERROR = 2;

let collector: Collector;
let app: TestApp;
let project: TestProject;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'userdir-tracing-'));
  const headersFile = join(folder, 'headers');
  await writeFile(headersFile, 'authorization=Bearer%20of-a-file,x-tenant=general\n');
  collector = await startCollector();
  // A standard OpenTelemetry variable: ended spans are sent after this many milliseconds.
  vi.stubEnv('OTEL_BSP_SCHEDULE_DELAY', '20');
  app = await startTestApp({
    // With its own database, the first user has the id 1.
    ownDatabase: true,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_HEADERS_FILE: headersFile,
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-tenant=traces',
    },
  });
  project = await app.createProject();
  await project.addUsers({
    auth_method: 'email',
    auth_value: 'grace@example.com',
    accounts: [{ network: 'ethereum', public_key: ethereumAddress(1) }],
  });
  // Now the credentials are cached.
  await project.rest('/server/users/count');
});
afterAll(async () => {
  await app.close();
  await collector.close();
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

/** The root span of a request, and all spans below it as a tree of names. */
async function treeOf(
  requestId: string | null,
): Promise<{ root: CollectedSpan; tree: unknown; below: CollectedSpan[] }> {
  const root = await collector.find((spans) =>
    spans.find((span) => span.attributes['userdir.request_id'] === requestId),
  );
  const below: CollectedSpan[] = [];
  const branch = ({ spanId, name }: CollectedSpan): unknown => {
    const children = collector.spans
      // Credentials are looked up once a second, in the trace of any request.
      .filter(({ parentSpanId, name }) => parentSpanId === spanId && name !== 'batch: secrets')
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    below.push(...children);
    return children.length === 0 ? name : { [name]: children.map(branch) };
  };
  // The root span ends last, so all other spans have arrived too.
  return { root, tree: branch(root), below };
}

const idOf = ({ headers }: { headers: Headers }) => headers.get('x-request-id');

test('the collector receives the configured headers, also those from a file', async () => {
  await treeOf(idOf(await project.rest('/server/users/1')));
  expect(collector.headers()).toMatchObject({ authorization: 'Bearer of-a-file', 'x-tenant': 'traces' });
});

test('the trace of a REST request includes its statement', async () => {
  const answer = await project.rest('/server/users/1');
  const { root, tree, below } = await treeOf(idOf(answer));
  expect(tree).toEqual({
    'GET /server/users/:user_id': [{ 'batch: users by id': [expect.stringMatching(/^[A-Z]+$/)] }],
  });
  expect(root).toMatchObject({ kind: SERVER, parentSpanId: undefined, status: {} });
  expect(root.attributes).toEqual({
    'http.request.method': 'GET',
    'http.route': '/server/users/:user_id',
    'http.response.status_code': 200,
    'userdir.request_id': idOf(answer),
    'userdir.app_id': project.appId,
  });
  const statement = below.find(({ kind }) => kind === CLIENT);
  expect(statement?.attributes).toEqual({
    'db.system.name': 'postgresql',
    'db.query.text': app.statements.find((sql) => sql === statement?.attributes['db.query.text']),
  });
  for (const span of below) {
    expect(span.traceId).toBe(root.traceId);
    expect(span.startedAt).toBeGreaterThanOrEqual(root.startedAt);
    // Start times have millisecond precision, so end times may be off by a millisecond.
    expect(span.endedAt).toBeLessThanOrEqual(root.endedAt + 1_000_000n);
  }
  expect(collector.resource()).toMatchObject({ 'service.name': 'userdir', 'service.version': expect.any(String) });
});

test('the trace of a GraphQL request has its operation and resolvers, the same compiled or not', async () => {
  const query = 'query Both { users(first: 1) { totalCount nodes { id } } parseAddress(address: "x") { reason } }';
  for (let time = 0; time < 5; time += 1) {
    const { root, tree } = await treeOf(idOf(await project.graphql(query)));
    expect(tree).toEqual({
      'POST /graphql': ['Query.parseAddress', { 'Query.users': [{ 'batch: windows of users': [expect.any(String)] }] }],
    });
    expect(root.attributes).toMatchObject({
      'graphql.operation.name': 'Both',
      'graphql.operation.type': 'query',
      'userdir.cost': 216,
    });
  }
});

test('a request continues the trace of its client if that trace is sampled', async () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const headers = { traceparent: `00-${traceId}-b7ad6b7169203331-01`, tracestate: 'grace=grace@example.com' };
  const { root } = await treeOf(idOf(await project.rest('/server/users', { headers })));
  expect(root).toMatchObject({ traceId, parentSpanId: 'b7ad6b7169203331' });

  const unsampled = `00-${traceId.toUpperCase().replace('A', 'B').toLowerCase()}-b7ad6b7169203331-00`;
  const silent = await project.rest('/server/users', { headers: { traceparent: unsampled } });
  for (const traceparent of [
    'nonsense',
    `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
    `ff-${traceId}-b7ad6b7169203331-01`,
  ]) {
    const answer = await project.rest('/server/users', { headers: { traceparent } });
    expect((await treeOf(idOf(answer))).root.parentSpanId).toBeUndefined();
  }
  expect(collector.spans.filter((span) => span.attributes['userdir.request_id'] === idOf(silent))).toEqual([]);
});

function getUser(id: number, connection: 'keep-alive' | 'close'): string {
  const headers = Object.entries({ host: 'test', connection, ...project.credentials });
  return `GET /server/users/${id} HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
}

test('a batch span is in the trace of one request and has links to the other requests it served', async () => {
  // In one packet, so that they are read in one turn of the event loop.
  const requests = Array.from({ length: 12 }, (_, index) => getUser(index + 1, index < 11 ? 'keep-alive' : 'close'));
  const answers = await sendPieces(app.url, [requests.join('')]);
  const ids = [...answers.matchAll(/^x-request-id: (.+)\r$/gm)].map(([, id]) => id as string);
  const roots = await Promise.all(ids.map(async (id) => (await treeOf(id)).root));
  const traces = new Map(roots.map((root) => [root.traceId, root]));
  const batches = collector.spans.filter(({ name, traceId }) => name === 'batch: users by id' && traces.has(traceId));
  expect(batches.length).toBeLessThan(12);
  const keys = batches.reduce((sum, { attributes }) => sum + Number(attributes['userdir.batch.keys']), 0);
  expect(keys).toBe(12);
  // Each request is served by one batch, and each of the two leads to the other.
  expect(batches.flatMap(({ links }) => links.map(({ traceId }) => traceId)).toSorted()).toEqual(
    [...traces.keys()].toSorted(),
  );
  for (const { spanId, traceId, links } of batches) {
    const beside = links.filter((link) => link.traceId !== traceId);
    for (const link of beside) {
      expect(traces.get(link.traceId)?.links).toContainEqual(expect.objectContaining({ spanId, traceId }));
    }
  }
  expect(batches.some(({ links }) => links.length > 1)).toBe(true);
});

test('the span of a failed field has the error code, not the message', async () => {
  const { root, below } = await treeOf(
    idOf(await project.graphql('query Failing { verifyWallet(address: "grace@example.com") { exists } }')),
  );
  expect(root.status).toEqual({ code: 0 });
  expect(below).toHaveLength(1);
  expect(below[0]).toMatchObject({
    name: 'Query.verifyWallet',
    status: { code: ERROR },
    attributes: { 'error.type': 'BAD_USER_INPUT' },
  });
});

test('every log line of a request has its id and trace, and the request line has the operation', async () => {
  await app.context.db.pool.query(`ALTER TABLE users ADD CONSTRAINT trap CHECK (auth_value <> 'trap@example.com')`);
  const login = 'recordLogin(input: { authMethod: "email", authValue: "trap@example.com" }) { created }';
  const answer = await project.graphql(`mutation Trap { ${login} }`);
  expect(answer.errors).toMatchObject([{ extensions: { code: 'INTERNAL_SERVER_ERROR' } }]);
  const { root, below } = await treeOf(idOf(answer));
  const lines = app.logged.filter((line) => line.includes(idOf(answer) as string)).map((line) => JSON.parse(line));
  const ids = { reqId: idOf(answer), trace: root.traceId };
  expect(lines).toMatchObject([
    { ...ids, msg: 'A resolver failed.', err: { constraint: 'trap' } },
    { ...ids, method: 'POST', route: '/graphql', operation: 'Trap', status: 200 },
  ]);
  // The SQLSTATE of a check violation.
  expect(below.find(({ kind }) => kind === CLIENT)?.attributes['error.type']).toBe('23514');

  const unnamed = await project.graphql(`query uds_${'a'.repeat(20)} { userCount }`);
  await treeOf(idOf(unnamed));
  const line = app.logged.find((text) => text.includes(idOf(unnamed) as string));
  expect(JSON.parse(line as string)).not.toHaveProperty('operation');
});

test('no trace contains personal data or credentials, for any request', async () => {
  const id = 'the-last-of-all';
  await project.rest(`/server/users/search?email=grace@example.com`);
  await project.rest(`/server/users/search?address=${ethereumAddress(1)}`);
  await project.rest('/server/users/grace@example.com', { method: 'DELETE' });
  await project.rest('/server/grace@example.com', { headers: { 'x-request-id': 'grace@example.com' } });
  await project.graphql(`query G${'A'.repeat(55)} { searchUsers(by: { email: "grace@example.com" }) { authValue } }`);
  await project.graphql(
    'mutation ($v: String!) { recordLogin(input: { authMethod: "email", authValue: $v }) { created } }',
    {
      v: 'grace@example.com',
    },
  );
  await fetch(`${app.url}/server/users`, { headers: { authorization: `Basic ${btoa(`${project.appId}:wrong`)}` } });
  await project.rest('/graphql', {
    ...jsonPost({ query: '{ userCount }' }),
    headers: { 'x-request-id': id, 'content-type': 'application/json' },
  });
  await treeOf(id);
  // Statements contain long names of tables and columns, which the check must not take for secrets.
  requireCleanLog(collector.text());
  expect(collector.text()).not.toContain('grace');
});
