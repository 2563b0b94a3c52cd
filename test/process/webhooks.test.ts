import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import {
  type Credentials,
  type RunningServer,
  recordLogin,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { type Receiver, startReceiver } from '../support/receiver.js';

const PATIENCE = { timeout: 60_000, interval: 100 };
let database: TestDatabase;
let settings: Record<string, string>;
let server: RunningServer;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  database = await copyTemplate();
  settings = { ...database.env, DEMO: 'off', WEBHOOKS_ALLOW_PRIVATE: 'on' };
  server = await startServer({ ...settings, METRICS_PORT: '0' });
});
afterAll(async () => {
  await server?.stop();
  await receiver?.close();
  await database?.drop();
});

let serial = 0;
async function login(project: Credentials): Promise<number> {
  serial += 1;
  const { body } = await recordLogin(server.url, project, { authMethod: 'email', authValue: `u${serial}@example.com` });
  return Number(body.data.recordLogin.user.id);
}
const createProject = (): Promise<Credentials> => userdirJson(settings, ['project', 'create', '--name', 'Test']);

test('the command adds, lists, tests, changes, pauses, resumes, resends, rotates, replays and removes webhooks, and all is in the audit trail', async () => {
  const project = await createProject();
  const run = (name: string, ...args: string[]): Promise<Json> =>
    userdirJson(settings, ['webhook', name, '--project', project.app_id, ...args]);
  expect(await run('list')).toEqual([]);
  const url = receiver.url('/process');
  const made = await run('add', '--url', url, '--types', 'user.created', '--description', 'the CRM');
  expect(made).toEqual({ id: expect.any(Number), url, secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/) });
  const id = String(made.id);
  receiver.expectSecret('/process', made.secret);

  expect(await run('test', id)).toEqual({ ok: true, status: 204, ms: expect.any(Number), error: null });
  const first = await login(project);
  await receiver.until(() => receiver.at('/process').length === 2);
  expect(receiver.at('/process').map(({ type, userId }) => [type, userId])).toEqual([
    ['webhook.test', null],
    ['user.created', first],
  ]);
  expect(receiver.faults).toEqual([]);
  const [listed] = await vi.waitUntil(async () => {
    const list = await run('list');
    return list[0].last_delivered_at !== null && list;
  }, PATIENCE);
  expect(listed).toEqual({
    id: made.id,
    url,
    description: 'the CRM',
    types: ['user.created'],
    status: 'enabled',
    reason: null,
    created_at: expect.any(String),
    cursor: expect.any(String),
    pending_since: null,
    failures: 0,
    next_attempt_at: null,
    last_delivered_at: expect.any(String),
    attempts: [
      {
        at: expect.any(String),
        id: receiver.at('/process')[1]?.id,
        type: 'user.created',
        ok: true,
        status: 204,
        ms: expect.any(Number),
        error: null,
        resent: false,
      },
    ],
    secrets: [{ id: expect.any(Number), created_at: expect.any(String), expires_at: null }],
  });

  const rotated = await run('rotate', id, '--overlap', '24h');
  expect(rotated).toEqual({
    id: made.id,
    url,
    secret: expect.stringMatching(/^whsec_/),
    previous_expires_at: expect.any(String),
  });
  const second = await login(project);
  await receiver.until(() => receiver.at('/process').length === 3);
  receiver.expectSecret('/process', rotated.secret);
  expect(await run('replay', id, '--after', listed.cursor)).toEqual({ id: made.id, after: listed.cursor });
  await receiver.until(() => receiver.at('/process').length === 4);
  expect(receiver.usersAt('/process')).toEqual([null, first, second]);
  expect(receiver.faults).toEqual([]);
  expect(await run('resume', id)).toEqual({ id: made.id });

  expect(await run('update', id, '--description', 'the new CRM', '--types', 'all')).toEqual({ id: made.id });
  expect(await run('pause', id)).toEqual({ id: made.id, changed: true });
  const third = await login(project);
  const message = receiver.at('/process')[1]?.id as string;
  expect(await run('resend', id, message)).toEqual({ ok: true, status: 204, ms: expect.any(Number), error: null });
  expect(receiver.at('/process').at(-1)).toMatchObject({ id: message, userId: first });
  const [paused] = await run('list');
  expect(paused).toMatchObject({ description: 'the new CRM', types: [], reason: 'An operator has paused it.' });
  const attempts = await run('attempts', id);
  expect(attempts[0]).toMatchObject({
    id: message,
    ok: true,
    resent: true,
    body: JSON.stringify(receiver.at('/process')[1]?.body),
  });
  expect(await run('resume', id)).toEqual({ id: made.id });
  await receiver.until(() => receiver.usersAt('/process').includes(third));
  const before = receiver.at('/process').length;
  expect(await run('replay', id, '--from', message)).toEqual({ id: made.id, from: message });
  await receiver.until(() => receiver.at('/process').length === before + 3);
  expect(receiver.at('/process')[before]).toMatchObject({ id: message, userId: first });
  const samples: Json[] = await userdirJson(settings, ['webhook', 'samples']);
  expect(await run('samples')).toEqual(samples);
  expect(await userdirJson(settings, ['webhook', 'samples', project.app_id])).toEqual(samples);
  expect(samples[0]).toMatchObject({ type: 'user.created', body: expect.stringContaining('"user_id":42') });

  const metrics = await (await fetch(server.metricsUrl)).text();
  expect(metrics).toMatch(/^userdir_webhook_attempts_total\{outcome="delivered"[^}]*\} [3-9]$/m);
  expect(metrics).toMatch(/^userdir_webhooks\{state="enabled"[^}]*\} 1$/m);

  expect(await run('remove', id)).toEqual({ id: made.id });
  expect(await run('list')).toEqual([]);
  const audit: Json[] = await userdirJson(settings, ['audit', '--project', project.app_id]);
  expect(audit.map(({ action, actor }) => `${action} ${actor}`).filter((line) => line.includes('webhook'))).toEqual(
    [
      ...['add', 'test', 'rotate', 'replay', 'resume', 'update', 'pause'],
      ...['resend', 'resume', 'replay', 'remove'],
    ].map((each) => `${each}_webhook operator:tester`),
  );
  expect(JSON.stringify(audit)).not.toContain('whsec');
});

test('what is wrong is refused with a reason', async () => {
  const project = await createProject();
  const run = ([name = '', ...rest]: string[]) =>
    userdir(settings, ['webhook', name, '--project', project.app_id, ...rest]);
  const refused = async (...args: string[]) => {
    const { code, stderr } = await run(args);
    // A webhook that does not exist is well-formed.
    expect(code).toBe(stderr.includes('has no webhook') ? 1 : 2);
    return stderr;
  };
  expect(await refused('add', '--url', 'ftp://example.com')).toContain('url: got "ftp://example.com", expected');
  expect(await refused('add', '--url', 'https://example.com', '--types', 'x')).toContain('--types: got "x", expected');
  expect(await refused('replay', '1', '--after', 'x')).toContain('--after: got "x", expected');
  expect(await refused('replay', '1', '--from', 'x')).toContain('--from: got "x", expected the id of a change');
  expect(await refused('replay', '1')).toContain('expected');
  expect(await refused('resend', '1', 'x')).toContain('MESSAGE_ID: got "x", expected the id of a change');
  expect(await run(['update', '1'])).toMatchObject({ code: 2, stderr: expect.stringContaining('nothing is to be') });
  expect(await refused('update', '1', '--types', 'x')).toContain('--types: got "x", expected');
  expect(await refused('test', '999')).toContain('The project has no webhook 999.');
  const { id } = await userdirJson(settings, [
    'webhook',
    'add',
    '--project',
    project.app_id,
    '--url',
    receiver.url('/no'),
  ]);
  receiver.answer('/no', (response) => response.writeHead(500).end());
  const { code, stdout } = await userdir(settings, ['webhook', 'test', '--project', project.app_id, String(id)]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^Failed after \d+ ms: answered 500\.\n$/);
});

test('the reports for people show the state, and the secret once', async () => {
  const project = await createProject();
  const run = async (...args: string[]) => {
    const [name = '', ...rest] = args;
    return (await userdir(settings, ['webhook', name, '--project', project.app_id, ...rest])).stdout;
  };
  expect(await run('list')).toContain('The project has no webhook. Add one: npm run -s userdir -- webhook add');
  const added = await run('add', '--url', receiver.url('/people'));
  expect(added).toMatch(/Secret +whsec_/);
  expect(added).toContain('The secret is shown only once.');
  const list = await run('list');
  expect(list).toContain('enabled');
  expect(list).not.toContain('whsec');
  const id = /ID +(\d+)/.exec(added)?.[1] ?? '';
  expect(await run('rotate', id, '--yes')).toContain('The old secret no longer signs.');
  expect(await run('attempts', id)).toContain('Nothing has been sent yet.');
  expect(await run('pause', id)).toContain(`The webhook ${id} is paused.`);
  expect(await run('list')).toContain('paused: An operator has paused it.');
  expect(await run('resume', id)).toContain(`The webhook ${id} goes on where it was.`);
  await login(project);
  await receiver.until(() => receiver.at('/people').length === 1);
  await vi.waitUntil(async () => /accepted 204.*user\.created/s.test(await run('attempts', id)), PATIENCE);
  expect(await run('test', id)).toMatch(/^Accepted with 204 after \d+ ms\.\n$/);
});

test('a server that is told to stop ends in order, though a receiver hangs', async () => {
  const project = await createProject();
  const own = inject('engine') === 'postgres' ? await startServer({ ...settings, LOG_LEVEL: 'info' }) : server;
  receiver.answer('/hangs', () => undefined);
  const url = receiver.url('/hangs');
  await userdirJson(settings, ['webhook', 'add', '--project', project.app_id, '--url', url]);
  await login(project);
  await receiver.until(() => receiver.at('/hangs').length > 0);
  const { code, signal } = await own.stop();
  expect({ code, signal }).toEqual({ code: 0, signal: null });
  if (own === server) server = await startServer(settings);
  const [{ failures }] = await userdirJson(settings, ['webhook', 'list', '--project', project.app_id]);
  expect(failures).toBe(0);
  receiver.answer('/hangs', null);
});

test('doctor names webhooks that nothing is sent to', async () => {
  const project = await createProject();
  const { id } = await userdirJson(settings, [
    'webhook',
    'add',
    '--project',
    project.app_id,
    '--url',
    receiver.url('/gone'),
  ]);
  receiver.answer('/gone', (response) => response.writeHead(410).end());
  await login(project);
  const finding = await vi.waitUntil(
    async () => {
      const { findings } = await userdirJson(settings, ['doctor', '--no-totals']);
      const found = findings.find((each: Json) => each.id === 'webhooks');
      return found.status === 'warning' && found;
    },
    { timeout: 60_000, interval: 500 },
  );
  expect(finding.found).toBe(`${id} of ${project.app_id} is disabled`);
});
