import { connect } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { changeCursor } from '#dist/domain/changes.js';
import { parse } from '#dist/domain/parse.js';
import { type Json, startTestApp, type TestApp, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';
import { PATIENCE } from '../support/waiting.js';

/** Changes of few types among many others: what is looked at is bounded and charged, and the work ends with its client. */

const app = useTestApp();
afterEach(() => vi.restoreAllMocks());

const MANY = 3_500;
const PAGE = `query ($after: String, $first: Int! = 1, $types: [ChangeType!] = [USER_REMOVED]) {
  changes(after: $after, first: $first, types: $types) { nodes { type userId } pageInfo { hasNextPage endCursor } }
}`;

async function addMany(project: TestProject, count: number, from: TestApp = app): Promise<void> {
  await from.context.db.pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key)
     SELECT p.id, 'x', v.text, v.text
     FROM projects p, (SELECT gen_random_uuid()::text AS text FROM generate_series(1, $2::int)) AS v WHERE p.app_id = $1`,
    [project.appId, count],
  );
  await vi.waitUntil(async () => {
    const { body } = await fetch(`${from.url}/changes?after=now`, { headers: project.credentials });
    await body?.cancel();
    return from.context.services.changes.lagSeconds() === 0;
  }, PATIENCE);
}

/** Reads of changes from now on, in the order in which they are sent. `before` runs before each of them. */
function watchReads(of: TestApp, before: (read: number) => Promise<void> = async () => undefined) {
  const reads: { readonly sql: { text: string; values: unknown[] }; rows: number }[] = [];
  const { db } = of.context;
  const query = db.query.bind(db);
  vi.spyOn(db, 'query').mockImplementation(async (sql: Json) => {
    if (!/FROM unnest[\s\S]*changes_pruned/.test(sql.text)) return query(sql);
    const read = { sql, rows: 0 };
    reads.push(read);
    await before(reads.length);
    const rows = await query(sql);
    read.rows = rows.length;
    return rows as never;
  });
  return reads;
}

/** The rows of `changes` that the statement looks at by their keys. */
async function rowsScanned({ sql }: { sql: { text: string; values: unknown[] } }): Promise<number> {
  const { rows } = await app.context.db.pool.query({
    text: `EXPLAIN (ANALYZE, FORMAT JSON) ${sql.text}`,
    values: sql.values,
  });
  const scanned = (node: Json): number =>
    (node['Alias'] === 'changes' ? node['Actual Rows'] * node['Actual Loops'] : 0) +
    (node['Plans'] ?? []).reduce((total: number, plan: Json) => total + scanned(plan), 0);
  return scanned(rows[0]['QUERY PLAN'][0].Plan);
}

const read = (project: TestProject, path: string, url = app.url) => fetch(url + path, { headers: project.credentials });

test('a page looks at few changes in each statement, gets those of its types alone, and is charged for the rest', async () => {
  const project = await app.createProject();
  await addMany(project, MANY);
  const reads = watchReads(app);
  const page = await read(project, '/changes?types=user.removed&limit=1');
  expect(((await page.json()) as Json).result).toMatchObject({ changes: [], has_more: false });
  expect(reads.length).toBe(5);
  for (const each of reads) {
    expect(each.rows).toBe(1);
    expect(await rowsScanned(each)).toBeLessThanOrEqual(1_001);
  }
  expect(await rowsScanned(reads[0] as never)).toBeLessThanOrEqual(201);
  const charged: number[] = [];
  const scope = await app.context.services.projects.getScope(project.appId);
  const query = { after: null, types: ['user.removed'], first: 1 } as const;
  const whole = await app.context.services.changes.listChanges(scope, query, (units) => charged.push(units) > 0);
  expect([whole.changes, whole.hasMore, charged]).toEqual([[], false, [5, 5, 5, 5]]);
  const part = await app.context.services.changes.listChanges(scope, query, () => false);
  expect([part.changes, part.hasMore]).toEqual([[], true]);
});

test('pages of few types, however full, follow each other without gap or double', async () => {
  const project = await app.createProject();
  let removed = 0;
  for (let round = 0; round < 4; round += 1) {
    await addMany(project, 150 + round * 400);
    const { rowCount } = await app.context.db.pool.query(
      `UPDATE users u SET deleted_at = now() FROM projects p WHERE p.id = u.project_id AND p.app_id = $1 AND u.deleted_at IS NULL AND u.id % 37 = 0`,
      [project.appId],
    );
    removed += Number(rowCount);
  }
  await addMany(project, 1);
  const scope = await app.context.services.projects.getScope(project.appId);
  const expected: (string | number | null)[] = [];
  for (let place: string | null = null; ; ) {
    const after = place === null ? null : parse(changeCursor('after'), place);
    const all = await app.context.services.changes.listChanges(scope, { after, types: null, first: 1_000 });
    expected.push(...all.changes.filter(({ type }) => type === 'user.removed').map(({ userId }) => String(userId)));
    place = all.end;
    if (!all.hasMore) break;
  }
  expect(expected).toHaveLength(removed);
  for (const first of [1, 2, 7, 200, 1_000]) {
    const seen: string[] = [];
    let after: string | null = null;
    for (let more = true; more; ) {
      const { data } = await project.graphql(PAGE, { after, first });
      expect(data.changes.nodes.length).toBeLessThanOrEqual(first);
      seen.push(...data.changes.nodes.map(({ userId }: Json) => userId));
      after = data.changes.pageInfo.endCursor;
      more = data.changes.pageInfo.hasNextPage;
    }
    expect(seen, `first: ${first}`).toEqual(expected);
  }
});

test('the cost of an operation counts what is looked at, so that many aliases are refused', async () => {
  const project = await app.createProject();
  await addMany(project, 12_000);
  const one = await project.graphql(PAGE);
  expect([one.data.changes.nodes, one.data.changes.pageInfo.hasNextPage]).toEqual([[], true]);
  const types = ['USER_REMOVED', 'USER_RESTORED', 'USER_UPDATED', 'IDENTITY_BANNED', 'IDENTITY_UNBANNED'];
  const aliases = Array.from(
    { length: 80 },
    (_, n) =>
      `c${n}: changes(first: ${n + 1}, types: [${types[n % 5]}, ${types[(n + 1) % 5]}]) { pageInfo { endCursor } }`,
  );
  const reads = watchReads(app);
  const many = await project.graphql(`{ ${aliases.join('\n')} }`);
  expect([many.status, codesOf(many)]).toEqual([200, ['BAD_USER_INPUT']]);
  expect(many.errors?.[0]?.message).toMatch(/^cost: /);
  expect(reads.length).toBeGreaterThan(0);
  const scanned = reads.flatMap(({ sql }) => sql.values[3] as number[]).reduce((sum, scan) => sum + scan, 0);
  // The first read of each, and what the operation may cost.
  expect(scanned).toBeLessThan(80 * 200 + 40 * 1_000);
});

test('a webhook looks at many changes at a time, and gets those of its types alone', async () => {
  const project = await app.createProject();
  await addMany(project, MANY);
  await app.context.db.pool.query(
    `DELETE FROM users u USING projects p WHERE p.id = u.project_id AND p.app_id = $1 AND u.id % 1000 = 0`,
    [project.appId],
  );
  const { changes, projects } = app.context.services;
  const projectId = (await projects.getScope(project.appId)).projectIdFor('changes');
  await vi.waitUntil(async () => {
    await changes.findStart(await projects.getScope(project.appId), 'now');
    return changes.lagSeconds() === 0;
  }, PATIENCE);
  const reads = watchReads(app);
  const seen: string[] = [];
  let place = { timeline: '00000000', id: 0 };
  for (let isFull = true; isFull; ) {
    const part = await changes.readAfter(projectId, place, { types: ['user.removed'], limit: 2 });
    seen.push(...part.changes.map(({ change }) => change.type));
    place = { timeline: part.timeline, id: part.end };
    isFull = part.isFull;
  }
  expect(seen.length).toBeGreaterThanOrEqual(3);
  expect(new Set(seen)).toEqual(new Set(['user.removed']));
  // At most a thousand at a time, and at most two that it wants.
  expect(reads.length).toBeLessThanOrEqual(7);
  for (const { rows } of reads) expect(rows).toBeLessThanOrEqual(2);
});

test('a follower is sent what is of its types, past many others', async () => {
  const project = await app.createProject();
  const first = await read(project, '/changes?after=now');
  await addMany(project, 700);
  await app.context.db.pool.query(
    `DELETE FROM users WHERE id = (SELECT max(u.id) FROM users u JOIN projects p ON p.id = u.project_id WHERE p.app_id = $1)`,
    [project.appId],
  );
  const reads = watchReads(app);
  const controller = new AbortController();
  const after = first.headers.get('userdir-next-cursor');
  const stream = await fetch(`${app.url}/changes?after=${after}&types=user.removed`, {
    headers: { ...project.credentials, accept: 'text/event-stream' },
    signal: controller.signal,
  });
  let text = '';
  for await (const chunk of stream.body as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString();
    if (text.includes('user.removed')) break;
  }
  controller.abort();
  expect(text.match(/^data: \{"id":/gm)).toHaveLength(1);
  // Each is admitted by itself, as one unit.
  for (const { sql } of reads.slice(1)) expect(sql.values[3]).toEqual([200]);
  expect(Math.max(...reads.map(({ rows }) => rows))).toBe(1);
});

const INTERFACES = [
  ['REST', '/changes?types=user.removed&limit=1', ''],
  ['GraphQL', '/graphql', JSON.stringify({ query: PAGE })],
] as const;

test.each(INTERFACES)('no more is read once the client has gone or was answered: %s', async (_, path, body) => {
  const own = await startTestApp({ env: { REQUEST_TIMEOUT_MS: '2000' } });
  const project = await own.createProject();
  await addMany(project, MANY, own);
  const headers = { ...project.credentials, 'content-length': body.length, 'content-type': 'application/json' };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  for (const leaves of [true, false]) {
    const socket = connect(Number(new URL(own.url).port), '127.0.0.1');
    let answer = '';
    socket.on('data', (chunk) => {
      answer += chunk;
    });
    const reads = watchReads(own, async (count) => {
      if (count !== 2) return;
      if (leaves) socket.destroy();
      else await vi.waitUntil(() => answer !== '', PATIENCE);
      // Whatever the server can know by now, it knows after another request.
      await read(project, '/readyz', own.url);
    });
    socket.write(`${body ? 'POST' : 'GET'} ${path} HTTP/1.1\r\nhost: x\r\n${lines.join('')}\r\n${body}`);
    await vi.waitUntil(() => reads.length === 2, PATIENCE);
    await vi.waitUntil(() => reads[1]?.rows === 1, PATIENCE);
    // It makes as many reads as the other one would have made, beside it.
    expect((await read(project, '/changes?types=user.restored&limit=1', own.url)).status).toBe(200);
    const ofFirst = reads.filter(({ sql }) => sql.values.flat().includes('user.removed'));
    expect([ofFirst.length, answer.split('\r\n')[0]]).toEqual([2, leaves ? '' : 'HTTP/1.1 503 Service Unavailable']);
    socket.destroy();
    vi.restoreAllMocks();
  }
  await own.close();
});
