import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type Credentials,
  call,
  makeFolder,
  startServer,
  useDatabase,
  userdir,
  userdirJson,
} from '../support/command.js';

/** The directory of documents that is read at the start. */

const idOf = (text: string) => createHash('sha256').update(text).digest('hex');
const COUNT = 'query Count {\n  userCount\n}\n';

const folder = makeFolder();

async function ask(project: Credentials, body: object, at: string) {
  const answer = await call(at, project, '/graphql', { method: 'POST', body: JSON.stringify(body) });
  return { data: answer.body.data, code: answer.body.errors?.[0].extensions.code };
}

describe('DOCUMENTS_DIR', () => {
  const database = useDatabase();

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
