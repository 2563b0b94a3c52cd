import { createHash } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ProjectScope } from '#dist/domain/projects.js';
import { createPersistedQueries, findFaults, warmDocuments } from '#dist/graphql/request.js';
import { engine } from '#dist/graphql/schema.js';
import { createDocuments } from '#dist/projects/documents.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { addNamedUsers, codesOf, requestGraphQL } from '../support/graphql.js';

/** Requests that name a registered document, and automatic persisted queries. */

const app = useTestApp({ admission: { maxInFlight: 256, maxInFlightPerProject: 256, maxQueued: 256 } });
const idOf = (text: string) => createHash('sha256').update(text).digest('hex');

const BY_FIRST = 'query ByFirst($first: Int) { users(first: $first) { nodes { authValue } } }';
const COUNT = '{ userCount }';
const names = (...expected: string[]) => ({
  users: { nodes: expected.map((name) => ({ authValue: `${name}@example.com` })) },
});

let project: TestProject;
let other: TestProject;
let scope: ProjectScope;

beforeAll(async () => {
  project = await addNamedUsers(app, 'ada', 'bob');
  other = await addNamedUsers(app, 'eve');
  scope = await app.context.services.projects.getScope(project.appId);
  await app.context.services.documents.addDocuments(scope, [{ name: 'ByFirst', text: BY_FIRST }]);
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

/** A secret of the project for registered documents only. */
async function addStrictSecret(label: string): Promise<Requester> {
  const { appSecret } = await app.context.services.secrets.addSecret(scope, {
    label,
    scopes: ['read', 'verify'],
    expiresInMs: null,
    documentsOnly: true,
  });
  return { credentials: { ...project.credentials, 'service-app-secret': appSecret } };
}

describe('a registered document', () => {
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

  test('is not known to another project', async () => {
    const { status, codes } = await post({ documentId: idOf(BY_FIRST) }, other);
    expect([status, codes]).toEqual([404, ['DOCUMENT_NOT_FOUND']]);
    expect((await post(persistedQuery(BY_FIRST), other)).codes).toEqual(['PERSISTED_QUERY_NOT_FOUND']);
  });

  test('is known from its registration until its removal', async () => {
    const { documents } = app.context.services;
    const documentId = idOf(COUNT);
    expect((await post({ documentId })).codes).toEqual(['DOCUMENT_NOT_FOUND']);
    expect(await documents.addDocuments(scope, [{ name: 'Count', text: COUNT }])).toEqual([
      { id: documentId, name: 'Count' },
    ]);
    expect((await post({ documentId })).data).toEqual({ userCount: 2 });
    expect(await documents.removeDocument(scope, documentId)).toBe('Count');
    expect((await post({ documentId })).codes).toEqual(['DOCUMENT_NOT_FOUND']);
    await expect(documents.removeDocument(scope, documentId)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('keeps its id and gets the new name when it is registered again; the audit trail has each act', async () => {
    const { documents, audit } = app.context.services;
    const text = '{ again: userCount }';
    for (const name of ['One', 'One', 'Two']) await documents.addDocuments(scope, [{ name, text }]);
    const document = idOf(text);
    expect((await documents.listDocuments(scope)).find(({ id }) => id === document)).toEqual({
      id: document,
      name: 'Two',
      createdAt: expect.any(String),
      bytes: text.length,
    });
    await documents.removeDocument(scope, document);
    const entries = await audit.listEntries(scope, null, 100);
    expect(entries.filter(({ details }) => details['document'] === document)).toMatchObject([
      { action: 'add_document', actor: 'operator', details: { name: 'One' } },
      { action: 'add_document', details: { name: 'Two' } },
      { action: 'remove_document', details: { name: 'Two' } },
    ]);
  });

  test('costs what it costs as a query', async () => {
    const text = `{ ${Array.from({ length: 99 }, (_, index) => `a${index}: userCount`).join(' ')} }`;
    await app.context.services.documents.addDocuments(scope, [{ name: 'Dear', text }]);
    const costOf = async (body: object) =>
      JSON.parse((await post(body, project, { 'userdir-cost': '1' })).text).extensions.cost;
    expect((await costOf({ documentId: idOf(text) })).requested).toBe((await costOf({ query: text })).requested);
    const many = 'query ($ids: [ID!]!) { usersByIds(ids: $ids) { accounts { id network } } }';
    await app.context.services.documents.addDocuments(scope, [{ name: 'Many', text: many }]);
    const variables = { ids: new Array(2_000).fill('1') };
    expect((await post({ documentId: idOf(many), variables })).text).toBe(
      (await post({ query: many, variables })).text,
    );
  });

  test('is refused where the schema no longer allows it', async () => {
    // As after an upgrade: the command would not register it.
    const text = '{ gone }';
    await app.context.services.documents.addDocuments(scope, [{ name: 'Gone', text }]);
    expect((await post({ documentId: idOf(text) })).codes).toEqual(['BAD_USER_INPUT']);
  });

  test('subscribes', async () => {
    const text = 'subscription { changes { id } }';
    await app.context.services.documents.addDocuments(scope, [{ name: 'Changes', text }]);
    const aborted = new AbortController();
    const response = await fetch(`${app.url}/graphql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...project.credentials },
      body: JSON.stringify({ documentId: idOf(text) }),
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
    await warmDocuments(cache, 'app', new Map(texts.map((text) => [idOf(text), text])));
    expect(cache.find(BY_FIRST)?.operation('ByFirst')?.run).not.toBeNull();
    expect(cache.find(COUNT)?.operation(undefined)?.run).not.toBeNull();
    expect(cache.find(texts[2] as string)?.operation(undefined)?.run).not.toBeNull();
    expect(cache.find('{ invalid }')).toBeNull();
  });

  test('as far as there is memory for the project', async () => {
    const cache = engine.createDocumentCache();
    const text = (index: number) => `query Q${index} { usersByIds(ids: [${'1 '.repeat(3_900)}]) { id } }`;
    const texts = Array.from({ length: 20 }, (_, index) => text(index));
    await warmDocuments(cache, 'app', new Map(texts.map((each) => [idOf(each), each])));
    expect(cache.find(text(0))).not.toBeNull();
    expect(cache.find(text(19))).toBeNull();
  });

  test('when the service starts', async () => {
    const { projects } = app.context.services;
    const { appId, appSecret } = project;
    const fresh = createDocuments(
      app.context.db,
      () => undefined,
      () => undefined,
    );
    const read: string[] = [];
    fresh.onRead(async (of, documents) => void (of === appId && read.push(...documents.keys())));
    const requester = await projects.authenticate({ appId, appSecret });
    expect(fresh.known(requester)).toBeNull();
    fresh.start();
    await expect.poll(() => fresh.known(requester)?.get(idOf(BY_FIRST)), { timeout: 60_000 }).toBe(BY_FIRST);
    expect(read).toContain(idOf(BY_FIRST));
    await fresh.close();
  });
});

test('a project has at most 1,000 documents and 1 MiB of them', async () => {
  const { documents, projects } = app.context.services;
  const full = await projects.getScope((await app.createProject()).appId);
  const many = Array.from({ length: 1_000 }, (_, index) => ({ name: `d${index}`, text: `{ a${index}: userCount }` }));
  await documents.addDocuments(full, many);
  const more = documents.addDocuments(full, [{ name: 'one more', text: COUNT }]);
  await expect(more).rejects.toMatchObject({
    code: 'BAD_USER_INPUT',
    message: 'The project would have 1001 documents, expected at most 1000. Remove some.',
  });
  // Documents that are there already do not count twice.
  await documents.addDocuments(full, many.slice(0, 2));
  expect(await documents.listDocuments(full)).toHaveLength(1_000);
  const large = await projects.getScope((await app.createProject()).appId);
  const texts = Array.from({ length: 22 }, (_, index) => ({
    name: `d${index}`,
    text: `# ${index}${'x'.repeat(48_000)}\n${COUNT}`,
  }));
  await expect(documents.addDocuments(large, texts)).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
  expect(await documents.listDocuments(large)).toEqual([]);
});

test('a name is one line of 1 to 200 characters', async () => {
  const { documents } = app.context.services;
  for (const name of ['', ' a', 'a\nb', 'x'.repeat(201), '\ud800']) {
    await expect(documents.addDocuments(scope, [{ name, text: COUNT }])).rejects.toMatchObject({
      code: 'BAD_USER_INPUT',
    });
  }
});

describe('a secret for registered documents only', () => {
  let strict: Requester;
  beforeAll(async () => {
    strict = await addStrictSecret('strict');
  });

  test('executes registered documents, by their id or their hash', async () => {
    expect((await post({ documentId: idOf(BY_FIRST) }, strict)).data).toEqual(names('bob', 'ada'));
    expect((await post(persistedQuery(BY_FIRST), strict)).data).toEqual(names('bob', 'ada'));
    expect((await get({ documentId: idOf(BY_FIRST) }, strict)).data).toEqual(names('bob', 'ada'));
  });

  test.each<[string, object]>([
    ['a query', { query: COUNT }],
    ['the text of a registered document', { query: BY_FIRST }],
    ['introspection', { query: '{ __schema { queryType { name } } }' }],
    ['a query with its hash', { query: COUNT, ...persistedQuery(COUNT) }],
    ['an invalid query', { query: '{' }],
    ['an empty query', { query: '' }],
  ])('refuses %s', async (_what, body) => {
    const { status, codes, data } = await post(body, strict);
    expect([status, codes, data]).toEqual([403, ['DOCUMENT_REQUIRED'], undefined]);
  });

  test('refuses an automatic persisted query that another secret has stored', async () => {
    const query = '{ stored: userCount }';
    expect((await post({ query, ...persistedQuery(query) })).data).toEqual({ stored: 2 });
    expect((await post(persistedQuery(query))).data).toEqual({ stored: 2 });
    expect((await post(persistedQuery(query), strict)).codes).toEqual(['DOCUMENT_NOT_FOUND']);
    expect((await post({ documentId: idOf(query) })).codes).toEqual(['DOCUMENT_NOT_FOUND']);
  });

  test('stays so when it is replaced, unless the rotation says otherwise', async () => {
    const { secrets } = app.context.services;
    await addStrictSecret('replaced');
    for (const [given, expected] of [
      [null, true],
      [false, false],
      [null, false],
      [true, true],
    ] as const) {
      const made = await secrets.rotateSecret(scope, { label: 'replaced', overlapMs: 0, documentsOnly: given });
      expect(made.documentsOnly).toBe(expected);
      const requester = { credentials: { ...project.credentials, 'service-app-secret': made.appSecret } };
      expect((await post({ query: COUNT }, requester)).codes).toEqual(expected ? ['DOCUMENT_REQUIRED'] : []);
    }
  });

  test('calls REST as its scopes allow', async () => {
    const response = await fetch(`${app.url}/server/users`, { headers: strict.credentials });
    expect(response.status).toBe(200);
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
  expect(findFaults(dear)).toEqual(['Dear: cost: got 20100, expected at most 20000.']);
  expect(findFaults('x'.repeat(60_000))).toEqual(['characters: got 60000, expected at most 50000.']);
  expect(findFaults('fragment F on User { id }')).toHaveLength(1);
});
