import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { engine } from '#dist/graphql/engine.js';
import { createPersistedQueries, findFaults, warmDocuments } from '#dist/graphql/request.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { addNamedUsers, codesOf, requestGraphQL } from '../support/graphql.js';

/** Requests that name a document of DOCUMENTS_DIR, and automatic persisted queries. */

const idOf = (text: string) => createHash('sha256').update(text).digest('hex');

const BY_FIRST = 'query ByFirst($first: Int) { users(first: $first) { nodes { authValue } } }';
const COUNT = '{ userCount }';
const DEAR = `{ ${Array.from({ length: 49 }, (_, index) => `a${index}: userCount`).join(' ')} }`;
const MANY = 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { accounts { id network } } }';
const CHANGES = 'subscription { changes { cursor } }';

const folder = mkdtempSync(join(tmpdir(), 'userdir-documents-'));
for (const [index, text] of [BY_FIRST, DEAR, MANY, CHANGES].entries())
  writeFileSync(join(folder, `${index}.graphql`), text);
afterAll(() => rmSync(folder, { recursive: true }));
const app = useTestApp({
  env: { DOCUMENTS_DIR: folder },
  admission: { maxInFlight: 256, maxInFlightPerProject: 256, maxQueued: 256 },
});

const names = (...expected: string[]) => ({
  users: { nodes: expected.map((name) => ({ authValue: `${name}@example.com` })) },
});

let project: TestProject;
let other: TestProject;

beforeAll(async () => {
  project = await addNamedUsers(app, 'ada', 'bob');
  other = await addNamedUsers(app, 'eve');
});
beforeEach(() => {
  app.statements.length = 0;
});

interface Requester {
  readonly credentials: Record<string, string>;
}

async function post(body: object, by: Requester = project, headers: Record<string, string> = {}) {
  const { status, text } = await requestGraphQL(app, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...by.credentials, ...headers },
    body: JSON.stringify(body),
  });
  const { data, errors } = JSON.parse(text) as Json;
  return { status, data, errors, codes: codesOf({ errors }), text };
}

async function get(parameters: Record<string, string>, by: Requester = project) {
  const search = `?${new URLSearchParams(parameters)}`;
  const { status, text } = await requestGraphQL(
    app,
    { headers: { ...by.credentials, accept: 'application/json' } },
    search,
  );
  const { data, errors } = JSON.parse(text) as Json;
  return { status, data, errors, codes: codesOf({ errors }), text };
}

const persistedQuery = (query: string) => ({ extensions: { persistedQuery: { version: 1, sha256Hash: idOf(query) } } });

describe('a document of the service', () => {
  test('is executed by its id, with variables, over POST and GET', async () => {
    const documentId = idOf(BY_FIRST);
    for (let execution = 0; execution < 5; execution += 1) {
      expect((await post({ documentId, variables: { first: 1 } })).data).toEqual(names('bob'));
      expect((await post({ documentId: `sha256:${documentId}` })).data).toEqual(names('bob', 'ada'));
      expect((await get({ documentId, variables: '{"first": 1}' })).data).toEqual(names('bob'));
    }
  });

  test('answers with the same bytes as its text, and takes no statement more', async () => {
    const [documentId, variables] = [idOf(BY_FIRST), { first: 2 }];
    await post({ documentId });
    app.statements.length = 0;
    const byId = await post({ documentId, operationName: 'ByFirst', variables });
    expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toHaveLength(1);
    expect(byId.text).toBe((await post({ query: BY_FIRST, operationName: 'ByFirst', variables })).text);
    // The way through Yoga.
    expect((await post({ documentId, variables, extensions: {} })).text).toBe(byId.text);
    const wrong = { first: 0 };
    expect((await post({ documentId, variables: wrong })).text).toBe(
      (await post({ query: BY_FIRST, variables: wrong })).text,
    );
  });

  test('can be named by every project, also by its hash as a persisted query', async () => {
    expect((await post({ documentId: idOf(BY_FIRST) }, other)).data).toEqual(names('eve'));
    expect((await post(persistedQuery(BY_FIRST), other)).data).toEqual(names('eve'));
  });

  test('is none that a project has sent', async () => {
    const query = '{ stored: userCount }';
    expect((await post({ query, ...persistedQuery(query) })).data).toEqual({ stored: 2 });
    const { status, codes } = await post({ documentId: idOf(query) });
    expect([status, codes]).toEqual([404, ['DOCUMENT_NOT_FOUND']]);
  });

  test('costs what it costs as a query', async () => {
    const costOf = async (body: object) =>
      JSON.parse((await post(body, project, { 'userdir-cost': '1' })).text).extensions.cost;
    expect((await costOf({ documentId: idOf(DEAR) })).requested).toBe((await costOf({ query: DEAR })).requested);
    const variables = { ids: new Array(2_000).fill('1') };
    expect((await post({ documentId: idOf(MANY), variables })).text).toBe(
      (await post({ query: MANY, variables })).text,
    );
  });

  test('subscribes', async () => {
    const aborted = new AbortController();
    const response = await fetch(`${app.url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...project.credentials },
      body: JSON.stringify({ documentId: idOf(CHANGES) }),
      signal: aborted.signal,
    });
    expect(response.headers.get('content-type')).toContain('text/event-stream');
    aborted.abort();
  });
});

describe('documents are prepared before they are asked for', () => {
  test('each is parsed and compiled', async () => {
    const cache = engine.createDocumentCache();
    const texts = [BY_FIRST, COUNT, 'mutation { deleteUser(id: 1) { id } }', '{ invalid }'];
    await warmDocuments(cache, new Map(texts.map((text) => [idOf(text), text])));
    expect(cache.find(BY_FIRST)?.operation('ByFirst')?.run).not.toBeNull();
    expect(cache.find(COUNT)?.operation(undefined)?.run).not.toBeNull();
    expect(cache.find(texts[2] as string)?.operation(undefined)?.run).not.toBeNull();
    expect(cache.find('{ invalid }')).toBeNull();
  });

  test('as far as there is memory', async () => {
    const cache = engine.createDocumentCache();
    const text = (index: number) => `query Q${index} { usersByIds(ids: [${'1 '.repeat(1_900)}]) { id } }`;
    const texts = Array.from({ length: 40 }, (_, index) => text(index));
    await warmDocuments(cache, new Map(texts.map((each) => [idOf(each), each])));
    expect(cache.find(text(0))).not.toBeNull();
    expect(cache.find(text(39))).toBeNull();
  });
});

describe('an automatic persisted query', () => {
  test('is asked for, sent with its hash, and known from then on, also over GET', async () => {
    const query = '{ apq: userCount }';
    const first = await post(persistedQuery(query));
    expect([first.status, first.codes, first.errors[0].message]).toEqual([
      200,
      ['PERSISTED_QUERY_NOT_FOUND'],
      'PersistedQueryNotFound',
    ]);
    expect((await post({ query, ...persistedQuery(query) })).data).toEqual({ apq: 2 });
    for (let execution = 0; execution < 5; execution += 1) {
      expect((await post(persistedQuery(query))).data).toEqual({ apq: 2 });
      const extensions = JSON.stringify(persistedQuery(query).extensions);
      expect((await get({ extensions })).data).toEqual({ apq: 2 });
    }
    expect((await post(persistedQuery(query), other)).codes).toEqual(['PERSISTED_QUERY_NOT_FOUND']);
  });

  test('is not stored under a wrong hash, nor when it is not valid', async () => {
    const { codes, errors } = await post({ query: COUNT, ...persistedQuery('{ other: userCount }') });
    expect(codes).toEqual(['BAD_USER_INPUT']);
    expect(errors[0].message).toContain('expected the SHA-256 of the query, in hexadecimal.');
    expect((await post(persistedQuery('{ other: userCount }'))).codes).toEqual(['PERSISTED_QUERY_NOT_FOUND']);
    const invalid = '{ invalid }';
    expect((await post({ query: invalid, ...persistedQuery(invalid) })).codes).toEqual(['BAD_USER_INPUT']);
    expect((await post(persistedQuery(invalid))).codes).toEqual(['PERSISTED_QUERY_NOT_FOUND']);
  });

  test('pushes out only those of its own project', () => {
    const queries = createPersistedQueries();
    queries.add('one', idOf(COUNT), COUNT);
    const text = (index: number) => `# ${index} ${'x'.repeat(40_000)}`;
    for (let index = 0; index < 100; index += 1) queries.add('hostile', idOf(text(index)), text(index));
    expect(queries.find('one', idOf(COUNT))).toBe(COUNT);
    expect(queries.find('hostile', idOf(text(99)))).toBe(text(99));
    expect(queries.find('hostile', idOf(text(0)))).toBeUndefined();
    const kept = Array.from({ length: 100 }, (_, index) => queries.find('hostile', idOf(text(index)))).filter(Boolean);
    expect(kept.length).toBeLessThanOrEqual(4);
  });
});

test.each<[string, object]>([
  ['neither', {}],
  ['an id that is no text', { documentId: 1 }],
  ['a list of ids', { documentId: [idOf(COUNT)] }],
  ['an empty id', { documentId: '' }],
  ['a short id', { documentId: 'abc' }],
  ['an id in upper case', { documentId: idOf(COUNT).toUpperCase() }],
  ['another prefix', { documentId: `md5:${idOf(COUNT)}` }],
  ['a long id', { documentId: 'a'.repeat(100_000) }],
  ['a query and an id', { query: COUNT, documentId: idOf(BY_FIRST) }],
  ['an id and a hash', { documentId: idOf(BY_FIRST), ...persistedQuery(BY_FIRST) }],
  ['a hash of another version', { extensions: { persistedQuery: { version: 2, sha256Hash: idOf(COUNT) } } }],
  ['a hash that is no hash', { extensions: { persistedQuery: { version: 1, sha256Hash: 'x' } } }],
  ['a persisted query that is a text', { extensions: { persistedQuery: 'x' } }],
  ['a query that is a number', { query: 1, ...persistedQuery(COUNT) }],
])('%s is refused', async (_what, body) => {
  const { status, codes } = await post(body);
  expect([status, codes]).toEqual([400, ['BAD_USER_INPUT']]);
});

test('the faults of a document name their lines, and a cost that is too high', () => {
  expect(findFaults(BY_FIRST)).toEqual([]);
  expect(findFaults('query A {\n  userCount\n  nothing\n}')).toEqual([
    'line 3: Cannot query field "nothing" on type "Query".',
  ]);
  expect(findFaults('{\n  users {')).toEqual(['line 2: Syntax Error: Expected Name, found <EOF>.']);
  const dear = `query Dear { ${Array.from({ length: 100 }, (_, index) => `a${index}: userCount`).join(' ')} }`;
  expect(findFaults(dear)).toEqual(['Dear: cost: got 20100, expected at most 10000.']);
  expect(findFaults('x'.repeat(60_000))).toEqual(['characters: got 60000, expected at most 20000.']);
  expect(findFaults('fragment F on User { id }')).toHaveLength(1);
});
