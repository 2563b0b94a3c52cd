import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { type Credentials, type RunningServer, recordLogin, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { type Receiver, startReceiver } from '../support/receiver.js';

/** A server is killed while it delivers. Nothing is lost: what was in flight comes again. CRASHES sets the number of crashes. */
const CRASHES = Number(process.env['CRASHES'] ?? 1);
vi.setConfig({ testTimeout: 120_000 + CRASHES * 60_000 });

let database: TestDatabase;
let settings: Record<string, string>;
let receiver: Receiver;
let project: Credentials;
beforeAll(async () => {
  receiver = await startReceiver();
  database = await copyTemplate();
  settings = { ...database.env, DEMO: 'off', LOG_LEVEL: 'silent', WEBHOOKS_ALLOW_PRIVATE: 'on' };
  project = await userdirJson(settings, ['project', 'create', '--name', 'Test']);
});
afterAll(async () => {
  await receiver?.close();
  await database?.drop();
});

let serial = 0;
async function loginMany(server: RunningServer, count: number): Promise<number[]> {
  const ids: number[] = [];
  for (let index = 0; index < count; index += 1) {
    serial += 1;
    const { body } = await recordLogin(server.url, project, {
      authMethod: 'email',
      authValue: `u${serial}@example.com`,
    });
    ids.push(Number(body.data.recordLogin.user.id));
  }
  return ids;
}

async function addWebhook(path: string): Promise<void> {
  const url = receiver.url(path);
  const { secret } = await userdirJson(settings, ['webhook', 'add', '--project', project.app_id, '--url', url]);
  receiver.expectSecret(path, secret);
}

/** The order in which messages came first, and whether one came again only where it was the last that had come. */
function expectInOrder(path: string, ids: number[]): void {
  expect(receiver.usersAt(path)).toEqual(ids);
  expect(receiver.faults).toEqual([]);
}

test.runIf(isNightly && inject('engine') === 'embedded')(
  'the server is killed in the middle of a delivery, and started again',
  async () => {
    const ids: number[] = [];
    let server = await startServer(settings);
    await addWebhook('/killed');
    for (let crash = 0; crash < CRASHES; crash += 1) {
      // The third message is not answered, so the server dies with it in flight.
      const before = receiver.at('/killed').length;
      receiver.answer('/killed', (response) => {
        if (receiver.at('/killed').length < before + 3) response.writeHead(204).end();
      });
      ids.push(...(await loginMany(server, 5)));
      await receiver.until(() => receiver.at('/killed').length === before + 3);
      await server.stop('SIGKILL');
      receiver.answer('/killed', null);
      server = await startServer(settings);
      await receiver.until(() => receiver.usersAt('/killed').length === ids.length);
    }
    expectInOrder('/killed', ids);
    await server.stop();
  },
);

test.runIf(inject('engine') === 'postgres')(
  'one of two servers is killed in the middle of a delivery, and the other takes over',
  async () => {
    const doomed = await startServer(settings);
    await addWebhook('/taken-over');
    receiver.answer('/taken-over', () => undefined);
    const ids = await loginMany(doomed, 5);
    // It alone is there, so it has the delivery in flight.
    await receiver.until(() => receiver.at('/taken-over').length === 1);
    const heir = await startServer(settings);
    await doomed.stop('SIGKILL');
    receiver.answer('/taken-over', null);
    ids.push(...(await loginMany(heir, 5)));
    await receiver.until(() => receiver.usersAt('/taken-over').length === ids.length);
    expectInOrder('/taken-over', ids);
    expect(receiver.mostOpen.get('/taken-over')).toBe(1);
    await heir.stop();
  },
);
