import { once } from 'node:events';
import { connect } from 'node:net';
import { EventSource } from 'eventsource';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { TIMEOUTS } from '#dist/app/app.js';
import { type Json, startTestApp, type TestProject, useTestApp } from '../support/app.js';
import { type EventStream, openEvents, subscribe } from '../support/events.js';
import { startProxy } from '../support/proxy.js';
import { PATIENCE } from '../support/waiting.js';

/** A heartbeat comes soon, so that a test need not wait for it. */
const app = useTestApp({ timeouts: { ...TIMEOUTS, heartbeatMs: 50 } });
const SUBSCRIPTION = `subscription ($after: String, $types: [ChangeType!]) {
  changes(after: $after, types: $types) {
    cursor
    change { id type userId user { authValue accounts { publicKey } } }
  }
}`;

let opened: EventStream[] = [];
afterEach(() => {
  for (const stream of opened) stream.close();
  opened = [];
});
const keep = async (stream: Promise<EventStream>) => {
  opened.push(await stream);
  return stream;
};
const subscribeTo = (project: TestProject, variables: Json = {}, url = app.url) =>
  keep(subscribe(url, project.credentials, SUBSCRIPTION, variables));
const follow = (project: TestProject, path = '/changes', headers: Record<string, string> = {}) =>
  keep(openEvents(app.url + path, { headers: { ...project.credentials, ...headers } }));
const changeOf = ({ data }: { data: string }) => JSON.parse(data).data.changes.change;
const login = async (project: TestProject, name: string) =>
  (
    await project.graphql('mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }', {
      input: { authMethod: 'email', authValue: `${name}@example.com` },
    })
  ).data.recordLogin.user.id as string;
const operator = (project: TestProject) => app.context.services.projects.getScope(project.appId);

test('a subscription sends what is after its cursor, then each change that comes, and resumes by the id of the last', async () => {
  const project = await app.createProject();
  const first = await login(project, 'a');
  const { data } = await project.graphql('{ changes { nodes { id } } }');
  const second = await login(project, 'b');
  const stream = await subscribeTo(project, { after: data.changes.nodes[0].id });
  expect(stream.status).toBe(200);
  expect(stream.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
  expect((await stream.waitFor(1)).map(changeOf)).toMatchObject([
    { type: 'USER_CREATED', userId: second, user: { authValue: 'b@example.com', accounts: [] } },
  ]);
  const third = await login(project, 'c');
  expect((await stream.waitFor(2)).map(changeOf)[1]).toMatchObject({ userId: third });
  expect(stream.events.every(({ event }) => event === 'next')).toBe(true);
  stream.close();
  const fourth = await login(project, 'd');
  const resumed = await subscribeTo(project, { after: changeOf(stream.events[1] as never).id });
  await project.rest(`/server/users/${first}`, { method: 'DELETE' });
  expect((await resumed.waitFor(2)).map(changeOf)).toMatchObject([
    { type: 'USER_CREATED', userId: fourth },
    { type: 'USER_REMOVED', userId: first, user: null },
  ]);
});

test('without a cursor a stream begins now, and types select', async () => {
  const project = await app.createProject();
  const id = await login(project, 'a');
  const [all, removals] = [await subscribeTo(project), await subscribeTo(project, { types: ['USER_REMOVED'] })];
  const next = await login(project, 'b');
  await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  expect((await all.waitFor(2)).map(changeOf).map(({ userId }: Json) => userId)).toEqual([next, id]);
  expect((await removals.waitFor(1)).map(changeOf)).toMatchObject([{ type: 'USER_REMOVED', userId: id }]);
});

/** Waits until so many changes of the project are published: a stream that begins before would send them, or tell its cursor for them. */
async function published(project: TestProject, count: number): Promise<void> {
  const isThere = async () =>
    (await project.graphql('{ changes(first: 10) { nodes { id } } }')).data.changes.nodes.length === count;
  await vi.waitUntil(isThere, PATIENCE);
}

/** The npm package, through a proxy that can be cut. It sends the credentials of a project. */
async function openEventSource({ credentials }: TestProject, path: string) {
  const proxy = await startProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
  const source = new EventSource(`http://127.0.0.1:${proxy.port}${path}`, {
    fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...credentials } }),
  });
  const cursors: string[] = [];
  source.addEventListener('cursor', ({ lastEventId }) => cursors.push(lastEventId));
  await vi.waitUntil(() => cursors.length > 0, PATIENCE);
  return {
    proxy,
    cursors,
    nextChange: async () => JSON.parse(((await once(source as never, 'message')) as [MessageEvent])[0].data),
    async [Symbol.asyncDispose]() {
      source.close();
      await proxy.close();
    },
  };
}

// An EventSource that was cut off waits for three seconds.
test.concurrent.each(['/changes', '/changes?after=now', '/changes?types=user.created'])(
  'an EventSource that has had no change yet misses none while it is cut off: %s',
  async (path) => {
    const project = await app.createProject();
    await login(project, 'before');
    await published(project, 1);
    await using source = await openEventSource(project, path);
    const change = source.nextChange();
    await source.proxy.cut();
    const id = await login(project, 'meanwhile');
    await source.proxy.restore();
    expect(await change).toMatchObject({ type: 'user.created', user_id: Number(id) });
  },
);

/** Deletes the changes that the project has so far, as after CHANGES_RETENTION. */
async function expireChanges({ appId }: TestProject): Promise<void> {
  const { db, services } = app.context;
  await db.pool.query(
    `UPDATE changes c SET at = now() - interval '31 days' FROM projects p WHERE p.id = c.project_id AND p.app_id = $1`,
    [appId],
  );
  await services.changes.prune();
}

// Not beside the others: changes of other projects move the cursor, too.
test('an EventSource for few types outlives the changes of other types, which move its cursor', async () => {
  const project = await app.createProject();
  const id = await login(project, 'a');
  await published(project, 1);
  await using source = await openEventSource(project, '/changes?types=user.removed');
  await login(project, 'b');
  await vi.waitUntil(() => new Set(source.cursors).size === 2, PATIENCE);
  await source.proxy.cut();
  await expireChanges(project);
  await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  const change = source.nextChange();
  await source.proxy.restore();
  expect(await change).toMatchObject({ type: 'user.removed', user_id: Number(id) });
});

test('a subscription tells its cursor at its start and as it moves, so that nothing is missed after a break', async () => {
  const project = await app.createProject();
  const id = await login(project, 'a');
  await published(project, 1);
  const stream = await subscribeTo(project);
  await vi.waitUntil(() => stream.cursors.length === 1, PATIENCE);
  stream.close();
  const next = await login(project, 'b');
  const resumed = await subscribeTo(project, { after: stream.cursors[0] });
  const [event] = await resumed.waitFor(1);
  expect(JSON.parse(String(event?.data)).data.changes).toMatchObject({
    cursor: changeOf(event as never).id,
    change: { type: 'USER_CREATED', userId: next },
  });
  expect(resumed.cursors[0]).toBe(stream.cursors[0]);
  const removals = await subscribeTo(project, { types: ['USER_REMOVED'] });
  await vi.waitUntil(() => removals.cursors.length === 1, PATIENCE);
  await login(project, 'c');
  await vi.waitUntil(() => removals.cursors.length === 2, PATIENCE);
  removals.close();
  await expireChanges(project);
  await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  const late = await subscribeTo(project, { types: ['USER_REMOVED'], after: removals.cursors[1] });
  expect((await late.waitFor(1)).map(changeOf)).toMatchObject([{ type: 'USER_REMOVED', userId: id }]);
});

test('a cursor that is told at a heartbeat is never before a change that was sent', async () => {
  const project = await app.createProject();
  const url = `${app.url}/changes`;
  const response = await fetch(url, { headers: { ...project.credentials, accept: 'text/event-stream' } });
  const places: number[] = [];
  const reader = (response.body as ReadableStream<Uint8Array>)
    .pipeThrough(new TextDecoderStream() as never)
    .getReader();
  let text = '';
  for (let round = 0; round < 10 || text.split('event: cursor').length < 4; round += 1) {
    await login(project, `user${round}`);
    text += (await reader.read()).value;
  }
  await reader.cancel();
  for (const [, id] of text.matchAll(/^id: (.+)$/gm))
    places.push(Number(Buffer.from(String(id), 'base64url').toString().split('.')[1]));
  expect(places).toEqual(places.toSorted((a, b) => a - b));
});

test('GET /changes streams with ids, and Last-Event-ID counts before the URL', async () => {
  const project = await app.createProject();
  const a = await login(project, 'a');
  const page = await fetch(`${app.url}/changes`, { headers: project.credentials });
  const cursor = String(page.headers.get('userdir-next-cursor'));
  const stream = await follow(project, `/changes?after=${cursor}`);
  const b = await login(project, 'b');
  const [event] = await stream.waitFor(1);
  expect(JSON.parse(String(event?.data))).toMatchObject({ id: event?.id, type: 'user.created', user_id: Number(b) });
  const c = await login(project, 'c');
  const again = await follow(project, `/changes?after=${cursor}`, { 'last-event-id': String(event?.id) });
  expect((await again.waitFor(1)).map(({ data }) => JSON.parse(data).user_id)).toEqual([Number(c)]);
  expect(Number(a)).toBeGreaterThan(0);
});

test.each([
  'text/event-stream',
  'Text/Event-Stream; charset=utf-8',
  'text/event-stream, */*;q=0.1',
  'application/json;q=0.5, text/event-stream',
])('GET /changes streams for Accept: %s', async (accept) => {
  const stream = await follow(await app.createProject(), '/changes', { accept });
  expect([stream.status, stream.headers.get('content-type')]).toEqual([200, 'text/event-stream; charset=utf-8']);
});

test('what cannot be streamed is refused before the stream begins, or as its only event', async () => {
  const project = await app.createProject();
  const wrong = await project.graphql(SUBSCRIPTION);
  expect(wrong.errors?.[0]).toMatchObject({ extensions: { code: 'BAD_USER_INPUT' } });
  expect(wrong.errors?.[0]?.message).toContain('text/event-stream');
  const refused = await keep(
    subscribe(app.url, { ...project.credentials, accept: 'text/event-stream;q=0' }, SUBSCRIPTION),
  );
  expect(refused.status).toBe(400);
  const bad = await subscribeTo(project, { after: 'x' });
  const events = await bad.ended();
  expect(events.map(({ event }) => event)).toEqual(['next', 'complete']);
  expect(JSON.parse(String(events[0]?.data)).errors[0].extensions.code).toBe('BAD_USER_INPUT');
  expect((await follow(project, '/changes?after=x')).status).toBe(400);
  expect((await follow(project, '/changes', { 'last-event-id': 'x' })).status).toBe(400);
});

test('a subscription is refused at opening where an event could be too large, or where the stream would keep much', async () => {
  const project = await app.createProject();
  const fields = Array.from({ length: 28 }, (_, n) => `f${n}: publicKey`).join(' ');
  const users = Array.from({ length: 120 }, (_, n) => `u${n}: accounts { ...F }`).join(' ');
  const query = `subscription { changes { change { user { ${users} } } } } fragment F on Account { ${fields} }`;
  const large = await keep(subscribe(app.url, project.credentials, query));
  expect(large.status).toBe(200);
  expect(large.headers.get('content-type')).toContain('application/json');
  const long = await subscribeTo(project, { undeclared: 'x'.repeat(8_192) });
  expect(long.status).toBe(413);
});

test('the end of a secret ends its streams, and not those of another secret', async () => {
  const project = await app.createProject();
  const { secrets } = app.context.services;
  const scope = await operator(project);
  const { appSecret, id } = await secrets.addSecret(scope, { label: 'x', scopes: ['changes'], expiresInMs: null });
  const ending = { ...project, credentials: { 'service-app-id': project.appId, 'service-app-secret': appSecret } };
  const streams = [await subscribeTo(ending), await follow(ending)];
  const [other] = [await subscribeTo(project)];
  await secrets.revokeSecret(scope, id);
  const [events, lines] = await Promise.all(streams.map((stream) => stream.ended()));
  expect(JSON.parse(String(events?.[0]?.data)).errors[0].extensions.code).toBe('UNAUTHENTICATED');
  expect(lines?.[0]).toMatchObject({ event: 'error' });
  await login(project, 'a');
  await other?.waitFor(1);
  expect(other?.isEnded()).toBe(false);
});

// Repeated where it fails: on a slow machine fewer of them start in a turn of the event loop.
test('many streams of one project share their reads', { retry: 2 }, async () => {
  const project = await app.createProject();
  const streams = await Promise.all(Array.from({ length: 40 }, () => follow(project)));
  await login(project, 'warm');
  await Promise.all(streams.map((stream) => stream.waitFor(1)));
  app.statements.length = 0;
  const id = await login(project, 'a');
  await Promise.all(streams.map((stream) => stream.waitFor(2)));
  expect(streams.every(({ events }) => JSON.parse(String(events[1]?.data)).user_id === Number(id))).toBe(true);
  const reads = app.statements.filter((sql) => sql.includes('FROM unnest') && sql.includes('changes'));
  expect(reads.length).toBeLessThan(10);
});

describe('a service that closes', () => {
  test('ends its streams with a reason, and closes', async () => {
    const own = await startTestApp();
    const project = await own.createProject();
    const stream = await keep(subscribe(own.url, project.credentials, SUBSCRIPTION));
    const lines = await keep(openEvents(`${own.url}/changes`, { headers: project.credentials }));
    await own.close();
    const events = await stream.ended();
    expect(events.map(({ event }) => event)).toEqual(['next', 'complete']);
    expect(JSON.parse(String(events[0]?.data)).errors[0].extensions.code).toBe('UNAVAILABLE');
    expect(JSON.parse(String((await lines.ended())[0]?.data))).toMatchObject({ code: 'UNAVAILABLE' });
  });
});

test('a project may have so many streams, and more once some have ended', async () => {
  const own = await startTestApp({ streamLimits: { perProject: 2, inAll: 3 } });
  const [project, other] = [await own.createProject(), await own.createProject()];
  const stream = (of: TestProject) => keep(openEvents(`${own.url}/changes`, { headers: of.credentials }));
  const [first] = [await stream(project), await stream(project)];
  const refused = await stream(project);
  expect(refused.status).toBe(429);
  expect(refused.headers.get('retry-after')).toBe('10');
  expect((await stream(other)).status).toBe(200);
  expect((await stream(other)).status).toBe(429);
  first?.close();
  await vi.waitUntil(async () => (await stream(project)).status === 200, PATIENCE);
  await own.close();
});

test('a client that does not read costs a bounded number of reads, and gets everything once it reads', async () => {
  const project = await app.createProject();
  const count = 5_000;
  const { appId } = project;
  await app.context.db.pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key)
     SELECT p.id, 'passkey', n::text, n::text FROM projects p, generate_series(1, $2) AS n WHERE p.app_id = $1`,
    [appId, count],
  );
  const first = await fetch(`${app.url}/changes?limit=1`, { headers: project.credentials });
  const cursor = String(first.headers.get('userdir-next-cursor'));
  app.statements.length = 0;
  const socket = connect(Number(new URL(app.url).port), '127.0.0.1');
  // Little fits into the buffers of the operating system, so the server soon has to wait.
  socket.pause();
  const headers = Object.entries(project.credentials).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(
    `GET /changes?after=${cursor} HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n${headers.join('')}\r\n`,
  );
  const seen = new Set<string>();
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
    const lines = text.split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) if (line.startsWith('data: {"id":')) seen.add(line);
  });
  socket.pause();
  await vi.waitUntil(() => app.statements.some((sql) => sql.includes('changes_feed')), PATIENCE);
  socket.resume();
  await vi.waitUntil(() => seen.size === count - 1, PATIENCE);
  socket.destroy();
});
