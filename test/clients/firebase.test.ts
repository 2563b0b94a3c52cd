import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { useTestApp } from '../support/app.js';
import { hasClients } from '../support/clients.js';

/*
 * What leaves for Firebase, before the eyes of `firebase auth:import`. Of firebase-tools only the package itself is fetched: with what it depends on
 * it is 607 packages and 220 MB, and the function that checks a user needs none of them.
 */

const TOOLS = 'firebase-tools@15.34.2';
const INTEGRITY = 'sha512-Xo010+PZAj5sL6hn33p19egXDmVlowPZknbs2Rf4nxd6Ulx6gLCd76qHd9XT2lV3B0u7yi0iO0BU5qrLeY8Y+g==';

const run = promisify(execFile);

async function loadValidator(): Promise<(user: object) => { error?: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'userdir-firebase-'));
  try {
    const pack = ['pack', TOOLS, '--ignore-scripts', '--json', '--pack-destination', folder];
    const { stdout } = await run('npm', pack, { maxBuffer: 2 ** 24 });
    const [{ filename, integrity }] = JSON.parse(stdout);
    expect(integrity).toBe(INTEGRITY);
    const file = 'package/lib/accountImporter.js';
    await run('tar', ['-xzf', join(folder, filename), '-C', folder, file]);
    const exports: Record<string, never> = {};
    const nothing = () => ({ Client: class {}, googleOrigin: () => '' });
    new Function('exports', 'require', await readFile(join(folder, file), 'utf8'))(exports, nothing);
    return exports['validateUserJson'] as never;
  } finally {
    await rm(folder, { recursive: true });
  }
}

describe.runIf(hasClients)('firebase auth:import', () => {
  const app = useTestApp();

  test('takes each exported user', async () => {
    const validate = await loadValidator();
    expect(validate({ localId: '1', providerUserInfo: [{ providerId: 'password' }] }).error).toContain('providerId');
    const project = await app.createProject();
    const methods = ['google', 'facebook', 'twitter', 'github', 'apple', 'microsoft', 'linkedin', 'yahoo', 'discord'];
    await project.addUsers(
      ...methods.map((auth_method) => ({ auth_method, auth_value: '1', email: 'a@example.com', login_count: 2 })),
      {
        auth_method: 'email',
        auth_value: 'b@example.com',
        last_login: '2025-01-01',
        metadata: { plan: 'gold' },
        identities: methods.map((auth_method) => ({ auth_method, auth_value: '2' })),
      } as never,
      { auth_method: 'phone', auth_value: '+15005550101' },
    );
    const { transfers, projects } = app.context.services;
    let text = '';
    const write = async (chunk: string) => {
      text += chunk;
    };
    const options = { progress: () => undefined, signal: new AbortController().signal };
    const scope = await projects.getScope(project.appId);
    await transfers.exportUsers(scope, { ...options, format: 'firebase', write });
    const { users } = JSON.parse(text);
    expect(users).toHaveLength(methods.length + 2);
    expect(users.map(validate)).toEqual(users.map(() => ({})));
    expect(users[methods.length].providerUserInfo).toHaveLength(methods.length - 1);
  });
});
