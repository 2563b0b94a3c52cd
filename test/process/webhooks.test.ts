import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, logIn, startServer, useDatabase, userdirJson, useServer } from '../support/command.js';
import { type Receiver, startReceiver } from '../support/receiver.js';
import { PATIENCE } from '../support/waiting.js';

const SETTINGS = { WEBHOOKS_ALLOW_PRIVATE: 'on', METRICS_PORT: '0' };
const { url, metricsUrl, runJson, createProject } = useServer({ settings: SETTINGS });
const other = useDatabase();
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(() => receiver.close());

let serial = 0;
function login(project: Credentials, at = url()): Promise<number> {
  serial += 1;
  return logIn(at, project, { authMethod: 'email', authValue: `u${serial}@example.com` });
}

test('what a command changes of a webhook, the running server does', async () => {
  const project = await createProject();
  const run = (name: string, ...args: string[]): Promise<Json> =>
    runJson('webhook', name, '--project', project.app_id, ...args);
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

  const metrics = await (await fetch(metricsUrl())).text();
  expect(metrics).toMatch(/^userdir_webhook_attempts_total\{outcome="delivered"[^}]*\} [3-9]$/m);
  expect(metrics).toMatch(/^userdir_webhooks\{state="enabled"[^}]*\} 1$/m);
  await run('remove', id);
  const audit = await runJson('audit', '--project', project.app_id);
  expect(JSON.stringify(audit)).not.toContain('whsec');
});

test('a server that is told to stop ends in order, though a receiver hangs', async () => {
  const env = { ...other.env, ...SETTINGS, DEMO: 'off' };
  const server = await startServer(env);
  const project = await userdirJson(env, ['project', 'create', '--name', 'Test']);
  receiver.answer('/hangs', () => undefined);
  await userdirJson(env, ['webhook', 'add', project.app_id, '--url', receiver.url('/hangs')]);
  await login(project, server.url);
  await receiver.until(() => receiver.at('/hangs').length > 0);
  expect(await server.stop()).toMatchObject({ code: 0, signal: null });
  expect(await userdirJson(env, ['webhook', 'list', project.app_id])).toMatchObject([{ failures: 0 }]);
  receiver.answer('/hangs', null);
});

test('doctor names webhooks that fail, and those that nothing is sent to', async () => {
  const project = await createProject();
  const { id } = await runJson('webhook', 'add', project.app_id, '--url', receiver.url('/gone'));
  const findingWith = (text: string): Promise<Json> =>
    vi.waitUntil(async () => {
      const { findings } = await runJson('doctor', '--no-totals');
      const found = findings.find((each: Json) => each.id === 'webhooks');
      return found.found.includes(text) && found;
    }, PATIENCE);
  receiver.answer('/gone', (response) => response.writeHead(503).end());
  await login(project);
  const { status, found, advice } = await findingWith('failed');
  expect(status).toBe('warning');
  expect(found).toMatch(
    new RegExp(`^${id} of ${project.app_id} has failed since 20\\S+Z; 1 of 1 enabled waiting for a retry$`),
  );
  expect(advice).toContain('webhook list');
  receiver.answer('/gone', (response) => response.writeHead(410).end());
  await runJson('webhook', 'resume', project.app_id, String(id));
  expect(await findingWith('disabled')).toMatchObject({
    status: 'warning',
    found: `${id} of ${project.app_id} is disabled`,
  });
});
