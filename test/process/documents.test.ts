import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type Credentials, call, startServer, TIMESTAMP, userdir, userdirJson, useServer } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';

/** The commands for registered documents, while a server runs on the same database, and a directory of documents at the start. */

const { url, run, runJson, createProject } = useServer();
const idOf = (text: string) => createHash('sha256').update(text).digest('hex');
const COUNT = 'query Count {\n  userCount\n}\n';
const NONE = 'query None { user(id: 1) { id } }';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'userdir-documents-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function file(name: string, text: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, text);
  return path;
}

async function ask(project: Credentials, body: object, at = url()) {
  const answer = await call(at, project, '/graphql', { method: 'POST', body: JSON.stringify(body) });
  return { data: answer.body.data, code: answer.body.errors?.[0].extensions.code };
}

test('document add registers files, list shows them, and the running server executes them until remove', async () => {
  const project = await createProject();
  const at = ['--project', project.app_id];
  const [count, none] = [await file('count.graphql', COUNT), await file('none.graphql', NONE)];
  const id = idOf(COUNT);
  expect(await ask(project, { documentId: id })).toEqual({ data: undefined, code: 'DOCUMENT_NOT_FOUND' });
  expect(await runJson('document', 'add', count, none, ...at)).toEqual([
    { id, name: 'count' },
    { id: idOf(NONE), name: 'none' },
  ]);
  // Other processes hear of it as of a revoked secret.
  await expect.poll(() => ask(project, { documentId: id }), { timeout: 60_000 }).toEqual({ data: { userCount: 0 } });
  expect(await runJson('document', 'list', ...at)).toEqual([
    { id, name: 'count', created_at: expect.stringMatching(TIMESTAMP), bytes: COUNT.length },
    { id: idOf(NONE), name: 'none', created_at: expect.stringMatching(TIMESTAMP), bytes: NONE.length },
  ]);
  expect(await runJson('document', 'add', count, '--name', 'All users', ...at)).toEqual([{ id, name: 'All users' }]);
  expect((await run('document', 'list', ...at)).stdout).toContain('All users');
  expect(await runJson('document', 'remove', id, ...at)).toEqual({ id, name: 'All users' });
  await expect
    .poll(() => ask(project, { documentId: id }), { timeout: 60_000 })
    .toEqual({ data: undefined, code: 'DOCUMENT_NOT_FOUND' });
  expect(await run('document', 'remove', id, ...at)).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('The project has no document with this ID.'),
  });
  const trail = await runJson('audit', ...at);
  expect(trail.filter(({ action }: { action: string }) => action.endsWith('document'))).toMatchObject([
    { action: 'add_document', actor: 'operator:tester', details: { document: id, name: 'count' } },
    { action: 'add_document', details: { name: 'none' } },
    { action: 'add_document', details: { document: id, name: 'All users' } },
    { action: 'remove_document', details: { document: id, name: 'All users' } },
  ]);
});

test('manifests of Apollo and Relay are registered with their names, and one with other hashes is refused', async () => {
  const { app_id } = await createProject();
  const apollo = {
    format: 'apollo-persisted-query-manifest',
    version: 1,
    operations: [{ id: idOf(COUNT), name: 'Count', type: 'query', body: COUNT }],
  };
  const relay = { [idOf(NONE)]: NONE };
  const files = [await file('apollo.json', JSON.stringify(apollo)), await file('relay.json', JSON.stringify(relay))];
  expect(await runJson('document', 'add', ...files, '--project', app_id)).toEqual([
    { id: idOf(COUNT), name: 'Count' },
    { id: idOf(NONE), name: 'None' },
  ]);
  const md5 = await file('md5.json', JSON.stringify({ [createHash('md5').update(NONE).digest('hex')]: NONE }));
  const refused = await run('document', 'add', md5, '--project', app_id);
  expect(refused).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('the ID of None is not the SHA-256'),
  });
  for (const text of ['[]x', '{"a": 1}', 'null']) {
    const bad = await run('document', 'add', await file('bad.json', text), '--project', app_id);
    expect(bad).toMatchObject({ code: 1, stderr: expect.stringContaining('is not a manifest') });
  }
});

test('an invalid document names its file and line, and nothing of the call is registered', async () => {
  const { app_id } = await createProject();
  const [good, bad] = [await file('good.graphql', COUNT), await file('bad.graphql', '{\n  userCount\n  nothing\n}')];
  const refused = await run('document', 'add', good, bad, '--project', app_id);
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toContain(`${bad}: line 3: Cannot query field "nothing" on type "Query".`);
  expect(await runJson('document', 'list', '--project', app_id)).toEqual([]);
  expect(await run('document', 'add', join(folder, 'missing.graphql'), '--project', app_id)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('does not exist'),
  });
  expect((await run('document', 'add', good, bad, '--name', 'Two', '--project', app_id)).code).toBe(1);
});

test('a secret with --documents-only executes only registered documents', async () => {
  const project = await createProject();
  const added = await runJson('project', 'add-secret', project.app_id, '--label', 'web', '--documents-only');
  expect(added.documents_only).toBe(true);
  await runJson('document', 'add', await file('count.graphql', COUNT), '--project', project.app_id);
  const strict = { ...project, app_secret: added.app_secret };
  expect(await ask(strict, { query: COUNT })).toMatchObject({ code: 'DOCUMENT_REQUIRED' });
  expect(await ask(strict, { documentId: idOf(COUNT) })).toEqual({ data: { userCount: 0 } });
  const args = ['project', 'rotate', project.app_id, '--label', 'web', '--yes'];
  expect((await runJson(...args)).documents_only).toBe(true);
  expect((await runJson(...args, '--no-documents-only')).documents_only).toBe(false);
  expect((await runJson(...args, '--documents-only')).documents_only).toBe(true);
  expect((await run('project', 'secrets', project.app_id)).stdout).toContain('documents only');
});

// The engine has no part in it.
describe.runIf(inject('engine') === 'embedded')('DOCUMENTS_DIR', () => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await copyTemplate();
  });
  afterAll(() => database.drop());

  test('has documents that every project may execute', async () => {
    const directory = join(folder, 'shared');
    await mkdir(directory);
    await writeFile(join(directory, 'count.graphql'), COUNT);
    await writeFile(join(directory, 'README.md'), 'Not a document.');
    const env = { ...database.env, DOCUMENTS_DIR: directory };
    const server = await startServer(env);
    try {
      const other = await userdirJson(env, ['project', 'create', '--name', 'Other']);
      const body = { documentId: idOf(COUNT) };
      expect(await ask(server.demo as Credentials, body, server.url)).toEqual({ data: { userCount: 200 } });
      expect(await ask(other, body, server.url)).toEqual({ data: { userCount: 0 } });
    } finally {
      await server.stop();
    }
  });

  test('with an invalid document keeps the service from starting, and the error names its file and line', async () => {
    const directory = join(folder, 'invalid');
    await mkdir(directory);
    await writeFile(join(directory, 'bad.graphql'), '{\n  nothing\n}');
    const env = { ...database.env, PORT: '0', DOCUMENTS_DIR: directory };
    const refused = await userdir(env, ['serve']);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toContain('bad.graphql: line 2: Cannot query field "nothing" on type "Query".');
    const missing = await userdir({ ...env, DOCUMENTS_DIR: join(folder, 'none') }, ['serve']);
    expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('DOCUMENTS_DIR')]);
  });
});
