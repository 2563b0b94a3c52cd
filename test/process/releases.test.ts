import { afterAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import {
  type Credentials,
  outcomeOf,
  recordLogin,
  type Settings,
  spawnUserdir,
  startServer,
  useDatabase,
  userdir,
  userdirJson,
} from '../support/command.js';
import { makeRelease, type Release } from '../support/release.js';
import { PATIENCE } from '../support/waiting.js';

/** Releases that use one database: the schema says which of them may (docs/operating.md#upgrade). */

const isPostgres = inject('engine') === 'postgres';
const OWN = (await import('#dist/config/build.js')).VERSION;
const raise = (version: string) =>
  `-- step: leaves older releases behind\nCREATE OR REPLACE FUNCTION oldest_release() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '${version}';\n`;
const TOO_OLD = `This is userdir ${OWN}, and its database may only be used by userdir 99.1.0 or newer: upgrade this one, or restore a dump from before the upgrade of the database.`;

/** The database of one may be served by this release, that of the other may not. */
const compatible: Release = makeRelease('99.0.0', {
  '20990101000000_more': '-- step: something\nCREATE TABLE more (id int PRIMARY KEY);\n',
});
const incompatible: Release = makeRelease('99.1.0', { '20990101000000_other': raise('99.1.0') });
afterAll(() => {
  compatible.remove();
  incompatible.remove();
});

const database = useDatabase('for each');
let settings: Settings;
beforeEach(() => {
  settings = { ...database.env, DEMO: 'off', PORT: '0' };
});

const run = ({ command }: Release, ...args: string[]) => outcomeOf(spawnUserdir(settings, args, command));
const readinessOf = async (url: string) => {
  const answer = await fetch(`${url}/readyz`).catch(() => null);
  return answer && { status: answer.status, body: await answer.json() };
};

test('a release that is too old for the database refuses every command and serve, and says what to do', async () => {
  expect((await run(incompatible, 'migrate')).code).toBe(0);
  for (const args of [['serve'], ['project', 'list'], ['migrate'], ['migrate', '--dry-run']])
    expect(await userdir(settings, args)).toMatchObject({
      code: 3,
      stdout: '',
      stderr: expect.stringContaining(`userdir: ${TOO_OLD}\n`),
    });
  const { stdout } = await userdir(settings, ['doctor', '--json']);
  expect(JSON.parse(stdout).findings.find(({ id }: { id: string }) => id === 'migrations')).toEqual({
    id: 'migrations',
    status: 'failed',
    found: `all applied up to 20990101000000_other; userdir 99.1.0 or newer may serve, and this is ${OWN}`,
    advice: 'Upgrade this userdir to 99.1.0 or newer.',
  });
  const server = await startServer(settings, incompatible.command);
  expect(await readinessOf(server.url)).toEqual({
    status: 200,
    body: { status: 'ready', version: '99.1.0', schema: '20990101000000_other' },
  });
  expect((await server.stop()).code).toBe(0);
});

test('a release that does not know the newest migrations serves where it may, and tells so', async () => {
  expect((await run(compatible, 'migrate')).code).toBe(0);
  const server = await startServer({ ...settings, METRICS_PORT: '0' });
  expect(await readinessOf(server.url)).toEqual({
    status: 200,
    body: { status: 'ready', version: OWN, schema: '20990101000000_more' },
  });
  expect(await (await fetch(server.metricsUrl)).text()).toContain(
    `userdir_build_info{version="${OWN}",schema="20990101000000_more"} 1\n`,
  );
  const { stderr } = await server.stop();
  expect(stderr).toContain(
    `A newer userdir has migrated the database, which this one, ${OWN}, may still serve. Unknown here: 20990101000000_more.`,
  );
  expect(stderr).toMatch(new RegExp(`"version":"${OWN}","schema":"20990101000000_more","msg":"Server listening at`));
});

test('a newer release applies its migrations at its start, and its log says which', async () => {
  const server = await startServer({ ...settings, LOG_LEVEL: 'info' }, compatible.command);
  const { stderr } = await server.stop();
  expect(stderr.match(/"msg":"Applied 20990101000000_more in \d+\.\d s\."/g)).toHaveLength(1);
});

describe.runIf(isPostgres)('a service that runs while the database becomes too new for it', () => {
  test('is no longer ready, finishes its requests, and ends with 3', async () => {
    const project: Credentials = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
    const server = await startServer({ ...settings, SHUTDOWN_DELAY_MS: '2000' });
    expect(await readinessOf(server.url)).toMatchObject({ status: 200 });
    expect((await run(incompatible, 'migrate')).code).toBe(0);
    const unready = await vi.waitUntil(async () => {
      const found = await readinessOf(server.url);
      return found?.status === 503 && found;
    }, PATIENCE);
    expect(unready.body).toEqual({ error: TOO_OLD });
    // It goes on until balancers have noticed.
    expect(await recordLogin(server.url, project, { authMethod: 'passkey', authValue: 'one' })).toMatchObject({
      status: 200,
    });
    const { code, stderr } = await server.outcome;
    expect(code).toBe(3);
    expect(stderr).toContain(TOO_OLD);
  });
});
