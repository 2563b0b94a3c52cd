import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { CLIENTS, hasClients } from '../support/clients.js';
import { idOf } from '../support/rest.js';

/** Clients from /openapi.json: openapi-typescript generates the types, and openapi-fetch uses them. */

const ROOT = join(CLIENTS, '../..');
const TSC = join(dirname(createRequire(join(ROOT, 'package.json')).resolve('typescript/package.json')), 'bin/tsc');

describe.runIf(hasClients)('a REST client (installed by: npm ci --prefix test/clients)', () => {
  const app = useTestApp();
  let project: TestProject;
  let directory: string;
  beforeAll(async () => {
    project = await app.createProject();
    await project.addUsers(
      { auth_method: 'google', auth_value: 'google|1', created_at: '2026-03-01' },
      {
        auth_method: 'email',
        auth_value: 'ada@example.com',
        created_at: '2026-02-01T00:00:00Z',
        accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
      },
      { auth_method: 'email', auth_value: 'grace@example.com', created_at: '2026-02-02' },
    );
    // In this folder the imports of the client resolve.
    directory = await mkdtemp(join(CLIENTS, '.made-'));
  });
  afterAll(() => rm(directory, { recursive: true }));

  test('generated from the document compiles, rejects wrong use, and gets the documented answers', async () => {
    const { default: openapiTS, astToString } = await import('openapi-typescript');
    const types = astToString(await openapiTS(new URL(`${app.url}/openapi.json`)));
    await writeFile(join(directory, 'rest-api.ts'), types);
    await cp(join(CLIENTS, 'rest-client.ts'), join(directory, 'rest-client.ts'));
    await cp(join(CLIENTS, 'rest-mistakes.ts'), join(directory, 'rest-mistakes.ts'));
    const options =
      '--strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --module nodenext --target es2023';
    const compile = promisify(execFile)(process.execPath, [
      TSC,
      ...`${options} --types node --skipLibCheck --ignoreConfig`.split(' '),
      ...['rest-client.ts', 'rest-mistakes.ts'].map((name) => join(directory, name)),
    ]);
    // The compiler prints its errors on stdout.
    await compile.catch(({ stdout }) => expect.unreachable(stdout));

    const env = { USERDIR_URL: app.url, APP_ID: project.appId, APP_SECRET: project.appSecret };
    const visit = (more = {}) =>
      promisify(execFile)(process.execPath, [join(directory, 'rest-client.js')], { env: { ...env, ...more } });
    const id = await idOf(project, 'ada@example.com');
    const { stdout } = await visit();
    const [listed, owner, stranger, removed, gone, changes] = stdout.split('\n');
    expect([listed, owner, stranger, removed, gone]).toEqual([
      '2 users, newest: grace@example.com ada@example.com',
      `owned by ${id}`,
      'not owned',
      'User removed.',
      `There is no user ${id} in this project.`,
    ]);
    expect(changes?.split(' ').sort()).toEqual(
      ['user.created', 'user.created', 'user.created', 'account.added', 'user.removed'].sort(),
    );
    await expect(visit({ APP_SECRET: 'wrong' })).rejects.toMatchObject({
      stderr: expect.stringContaining(
        'UNAUTHENTICATED: The App ID and the App Secret do not belong together: check that both are of one project of this service, and that the secret has not ended.',
      ),
    });
  });
});
