import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, type RunningServer, recordLogin, startServer, userdirJson } from '../support/command.js';
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

test('what a command changes of a webhook, the running server does', async () => {
  const project = await createProject();
  const run = (name: string, ...args: string[]): Promise<Json> =>
    userdirJson(settings, ['webhook', name, '--project', project.app_id, ...args]);
  const made = await run('add', '--url', receiver.url('/process'), '--types', 'user.created');
  const id = String(made.id);
  receiver.expectSecret('/process', made.secret);
  await run('test', id);
  const first = await login(project);
  await receiver.until(() => receiver.at('/process').length === 2);
  expect(receiver.at('/process').map(({ type, userId }) => [type, userId])).toEqual([
    ['webhook.test', null],
    ['user.created', first],
  ]);
  const [listed] = await vi.waitUntil(async () => {
    const list = await run('list');
    return list[0].last_delivered_at !== null && list;
  }, PATIENCE);

  const rotated = await run('rotate', id, '--overlap', '24h');
  const second = await login(project);
  await receiver.until(() => receiver.at('/process').length === 3);
  receiver.expectSecret('/process', rotated.secret);
  expect(await run('replay', id, '--after', listed.cursor)).toEqual({ id: made.id, after: listed.cursor });
  await receiver.until(() => receiver.at('/process').length === 4);
  expect(receiver.usersAt('/process')).toEqual([null, first, second]);
  expect(receiver.faults).toEqual([]);

  await run('pause', id);
  const third = await login(project);
  const message = receiver.at('/process')[1]?.id as string;
  await run('resend', id, message);
  expect(receiver.at('/process').at(-1)).toMatchObject({ id: message, userId: first });
  const [attempt] = await run('attempts', id);
  expect(attempt).toMatchObject({ id: message, resent: true, body: JSON.stringify(receiver.at('/process')[1]?.body) });
  await run('resume', id);
  await receiver.until(() => receiver.usersAt('/process').includes(third));
  const before = receiver.at('/process').length;
  await run('replay', id, '--from', message);
  await receiver.until(() => receiver.at('/process').length === before + 3);
  expect(receiver.at('/process')[before]).toMatchObject({ id: message, userId: first });

  const metrics = await (await fetch(server.metricsUrl)).text();
  expect(metrics).toMatch(/^userdir_webhook_attempts_total\{outcome="delivered"[^}]*\} [3-9]$/m);
  expect(metrics).toMatch(/^userdir_webhooks\{state="enabled"[^}]*\} 1$/m);
  await run('remove', id);
  const audit = await userdirJson(settings, ['audit', '--project', project.app_id]);
  expect(JSON.stringify(audit)).not.toContain('whsec');
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
  const url = receiver.url('/gone');
  const { id } = await userdirJson(settings, ['webhook', 'add', '--project', project.app_id, '--url', url]);
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
