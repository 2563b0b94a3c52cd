import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { type Receiver, startReceiver } from '../support/receiver.js';

/** Webhooks that a backend manages over GraphQL. */

const app = useTestApp({ ownDatabase: true, env: { WEBHOOKS_ALLOW_PRIVATE: 'on' } });
let project: TestProject;
let secret: string;
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  project = await app.createProject();
  secret = await addSecret(project, 'hooks', ['webhooks']);
});
afterAll(() => receiver.close());

async function addSecret({ appId }: TestProject, label: string, scopes: ('webhooks' | 'write')[]): Promise<string> {
  const { projects, secrets } = app.context.services;
  const added = await secrets.addSecret(await projects.getScope(appId), { label, scopes, expiresInMs: null });
  return added.appSecret;
}

async function ask(query: string, variables: Json = {}, appSecret = secret, appId = project.appId): Promise<Json> {
  const response = await fetch(`${app.url}/graphql`, {
    method: 'POST',
    headers: { 'service-app-id': appId, 'service-app-secret': appSecret, 'content-type': 'application/json' },
    body: JSON.stringify({ query, variables }),
  });
  const { data, errors } = (await response.json()) as Json;
  if (errors === undefined) return Object.values(data)[0];
  const [{ extensions }] = errors;
  return extensions.retryAfter === undefined ? extensions.code : `${extensions.code} ${extensions.retryAfter}`;
}

const ADD = `mutation ($url: String!, $types: [ChangeType!] = null, $key: String = null) {
  addWebhook(url: $url, types: $types, description: "orders", idempotencyKey: $key) {
    secret previousExpiresAt webhook { id url description types status reason failures pendingSince attempts { ok } }
  }
}`;
const ROTATE = `mutation ($id: ID!, $overlap: Int! = 0, $key: String = null) {
  rotateWebhookSecret(id: $id, overlapSeconds: $overlap, idempotencyKey: $key) { secret previousExpiresAt webhook { id } }
}`;
const act = (name: string) =>
  `mutation ($id: ID!, $key: String = null) { ${name}(id: $id, idempotencyKey: $key) { webhook { id status reason } } }`;
const REMOVE =
  'mutation ($id: ID!, $key: String = null) { removeWebhook(id: $id, idempotencyKey: $key) { removedWebhookId } }';
const LIST =
  '{ webhooks { id url status cursor createdAt nextAttemptAt lastDeliveredAt attempts { at messageId type ok status error } } }';
const RESEND = `mutation ($id: ID!, $message: String!) {
  resendWebhookMessage(id: $id, messageId: $message) { ok status error }
}`;

describe('a webhook', () => {
  test('is added, listed, paused, resumed, rotated and removed, each in the audit trail under the label', async () => {
    const url = receiver.url('/life');
    const added = await ask(ADD, { url, types: ['USER_CREATED'] });
    expect(added).toMatchObject({
      secret: expect.stringMatching(/^whsec_/),
      previousExpiresAt: null,
      webhook: { url, description: 'orders', types: ['USER_CREATED'], status: 'ENABLED', reason: null, attempts: [] },
    });
    const { id } = added.webhook;
    expect(await ask(LIST)).toMatchObject([{ id, url, status: 'ENABLED' }]);
    const reason = 'A backend of the project has paused it.';
    expect(await ask(act('pauseWebhook'), { id })).toEqual({ webhook: { id, status: 'PAUSED', reason } });
    expect(await ask(act('resumeWebhook'), { id })).toEqual({ webhook: { id, status: 'ENABLED', reason: null } });
    const rotated = await ask(ROTATE, { id, overlap: 60 });
    expect(rotated).toMatchObject({ webhook: { id }, previousExpiresAt: expect.any(String) });
    expect(rotated.secret).not.toBe(added.secret);
    expect(await ask(REMOVE, { id })).toEqual({ removedWebhookId: id });
    expect(await ask(LIST)).toEqual([]);
    const { audit, projects } = app.context.services;
    const trail = await audit.listEntries(await projects.getScope(project.appId), null, 100);
    expect(trail.flatMap(({ actor, action }) => (actor === 'hooks' ? [action] : []))).toEqual(
      ['add', 'pause', 'resume', 'rotate', 'remove'].map((verb) => `${verb}_webhook`),
    );
  });

  test('is changed once for a key, and a retry of what makes a secret tells it again', async () => {
    const variables = { url: receiver.url('/keys'), key: 'add-1' };
    const added = await Promise.all(Array.from({ length: 4 }, () => ask(ADD, variables)));
    expect(new Set(added.map(({ secret: made, webhook }) => `${webhook.id} ${made}`)).size).toBe(1);
    const { id } = added[0].webhook;
    expect(await ask(ADD, { ...variables, url: receiver.url('/other') })).toBe('IDEMPOTENCY_KEY_REUSED');
    const rotation = { id, overlap: 60, key: 'rotate-1' };
    const rotated = await ask(ROTATE, rotation);
    expect(await ask(ROTATE, rotation)).toEqual(rotated);
    await ask(act('pauseWebhook'), { id, key: 'pause-1' });
    await ask(act('resumeWebhook'), { id });
    expect(await ask(act('pauseWebhook'), { id, key: 'pause-1' })).toMatchObject({ webhook: { status: 'ENABLED' } });
    const removal = { id, key: 'remove-1' };
    expect(await ask(REMOVE, removal)).toEqual(await ask(REMOVE, removal));
    const { rows } = await app.context.db.pool.query('SELECT answer::text FROM idempotency_keys');
    expect(JSON.stringify(rows)).not.toMatch(/whsec|secret/);
  });

  test('gets one change again', async () => {
    const { secret: signing, webhook } = await ask(ADD, { url: receiver.url('/again') });
    receiver.expectSecret('/again', signing);
    await project.graphql('mutation { recordLogin(input: { authMethod: "passkey", authValue: "p" }) { created } }');
    const { data } = await project.graphql('{ changes(first: 1) { nodes { id } } }');
    const message = data.changes.nodes[0].id;
    expect(await ask(RESEND, { id: webhook.id, message })).toEqual({ ok: true, status: 204, error: null });
    expect(receiver.at('/again')).toMatchObject([{ id: message, type: 'user.created' }]);
    expect(receiver.faults).toEqual([]);
    expect(await ask(RESEND, { id: webhook.id, message })).toBe('RATE_LIMITED 1');
    const [shown] = await ask(LIST);
    expect(shown.attempts).toMatchObject([{ messageId: message, type: 'user.created', ok: true, status: 204 }]);
    await ask(REMOVE, { id: webhook.id });
  });

  test('is of its project alone', async () => {
    const { webhook } = await ask(ADD, { url: receiver.url('/mine') });
    const other = await app.createProject();
    const theirs = await addSecret(other, 'hooks', ['webhooks']);
    const { id } = webhook;
    expect(await ask(LIST, {}, theirs, other.appId)).toEqual([]);
    for (const document of [act('pauseWebhook'), act('resumeWebhook'), ROTATE, REMOVE])
      expect(await ask(document, { id }, theirs, other.appId)).toBe('NOT_FOUND');
    expect((await ask(LIST))[0].status).toBe('ENABLED');
    await ask(REMOVE, { id });
  });
});

test.each<[string, Json]>([
  ['a URL that is none', { url: 'ftp://example.com' }],
  ['an empty list of types', { url: 'http://127.0.0.1/', types: [] }],
])('a webhook is not added with %s', async (_what, variables) => {
  expect(await ask(ADD, variables)).toBe('BAD_USER_INPUT');
});

test.each([
  ['rotateWebhookSecret(id: 1, overlapSeconds: -1) { secret }'],
  ['pauseWebhook(id: "x") { webhook { id } }'],
  ['resendWebhookMessage(id: 1, messageId: "x") { ok }'],
])('%s is refused', async (field) => {
  expect(await ask(`mutation { ${field} }`)).toBe('BAD_USER_INPUT');
});

test('the first secret of a project, and one for writing, manage no webhooks', async () => {
  const writer = await addSecret(project, 'writer', ['write']);
  for (const appSecret of [project.appSecret, writer]) {
    expect(await ask(LIST, {}, appSecret)).toBe('FORBIDDEN');
    expect(await ask(ADD, { url: receiver.url('/no') }, appSecret)).toBe('FORBIDDEN');
  }
  expect(await ask('{ userCount }')).toBe('FORBIDDEN');
});
