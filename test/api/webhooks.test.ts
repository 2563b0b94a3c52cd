import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { CHANGE_TYPES, type ChangeType } from '#dist/domain/change-types.js';
import { encodeChangeCursor } from '#dist/domain/changes.js';
import type { Webhook } from '#dist/domain/webhooks.js';
import { createWebhookDelivery, type DeliveryLimits } from '#dist/feed/webhook-delivery.js';
import { createWebhookSender } from '#dist/feed/webhook-sender.js';
import { findWebhookFigures } from '#dist/feed/webhooks.sql.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { type Answer, type Receiver, startReceiver, verify } from '../support/receiver.js';
import { PATIENCE } from '../support/waiting.js';

const app = useTestApp({ ownDatabase: true, env: { WEBHOOKS_ALLOW_PRIVATE: 'on' } });
let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
  app.context.services.changes.start();
});
afterAll(() => receiver.close());

const QUICK: Partial<DeliveryLimits> = { pollMs: 50, renewMs: 100, closeMs: 100, retryDelayMs: () => 20 };
const deliveries: { close(): Promise<void> }[] = [];

/** An answer that comes when it is released. */
function held(status = 204) {
  let release = () => {};
  const answer: Answer = (response) => {
    release = () => response.writeHead(status).end();
  };
  return { answer, release: () => release() };
}

/** Delivers as a server does, until the test ends. */
function deliver(limits: Partial<DeliveryLimits> = {}, exchangeMs = 10_000) {
  const sender = createWebhookSender({ allowPrivate: true, exchangeMs });
  const { db, services } = app.context;
  const onFailure = (error: unknown) => {
    throw error;
  };
  const delivery = createWebhookDelivery(db, services.changes, async () => sender, onFailure, { ...QUICK, ...limits });
  delivery.start();
  const close = async () => {
    await delivery.close();
    await sender.close();
  };
  deliveries.push({ close });
  return { ...delivery, close };
}

afterEach(async () => {
  await Promise.all(deliveries.splice(0).map((each) => each.close()));
  expect(receiver.faults).toEqual([]);
  // What a test leaves would be delivered in the next one.
  await run('DELETE FROM webhooks');
});

const run = (sql: string, values: unknown[] = []) => app.context.db.pool.query(sql, values);
const scopeOf = (project: TestProject) => app.context.services.projects.getScope(project.appId);
const webhooks = () => app.context.services.webhooks;

let serial = 0;
async function login(project: TestProject): Promise<number> {
  serial += 1;
  const { data } = await project.graphql(
    'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }',
    { input: { authMethod: 'email', authValue: `user${serial}@example.com` } },
  );
  return Number(data.recordLogin.user.id);
}
const loginMany = async (project: TestProject, count: number) => {
  const ids: number[] = [];
  for (let index = 0; index < count; index += 1) ids.push(await login(project));
  return ids;
};

/** An endpoint of a project at a path of its own. */
async function add(
  project: TestProject,
  { types = null, answer }: { types?: ChangeType[] | null; answer?: Answer } = {},
) {
  serial += 1;
  const path = `/hook-${serial}`;
  if (answer) receiver.answer(path, answer);
  const scope = await scopeOf(project);
  const { id, secret } = await webhooks().addWebhook(scope, { url: receiver.url(path), description: '', types });
  receiver.expectSecret(path, secret);
  const state = () => webhooks().getWebhook(scope, id);
  const until = (condition: (webhook: Webhook) => boolean) =>
    vi.waitUntil(async () => {
      const webhook = await state();
      return condition(webhook) && webhook;
    }, PATIENCE) as Promise<Webhook>;
  return { id, path, secret, scope, state, until, isIdle: () => until((one) => one.pendingSince === null) };
}

test('every change is delivered once, in order, thin and signed as two verifiers accept', async () => {
  const project = await app.createProject();
  await login(project);
  const hook = await add(project);
  const ids = await loginMany(project, 8);
  const { countOutcomes } = deliver();
  await project.rest(`/server/users/${ids[0]}`, { method: 'DELETE' });
  await receiver.until(() => receiver.at(hook.path).length === 9);
  await hook.isIdle();
  const received = receiver.at(hook.path);
  expect(received.map(({ type, userId }) => [type, userId])).toEqual([
    ...ids.map((id) => ['user.created', id]),
    ['user.removed', ids[0]],
  ]);
  expect(Object.fromEntries(countOutcomes())).toEqual({ delivered: 9 });
  const [first] = received;
  expect(first?.body).toEqual({
    type: 'user.created',
    timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    data: { user_id: ids[0] },
  });
  expect(first?.headers).toMatchObject({ 'content-type': 'application/json', 'user-agent': 'userdir' });
  expect(receiver.mostOpen.get(hook.path)).toBe(1);
  // The id is a cursor of the feed.
  const { data } = await project.graphql('query ($after: String) { changes(after: $after) { nodes { id } } }', {
    after: first?.id,
  });
  expect(data.changes.nodes.map(({ id }: { id: string }) => id)).toEqual(received.slice(1).map(({ id }) => id));
  const state = await hook.state();
  expect(state).toMatchObject({ status: 'enabled', failures: 0, cursor: received.at(-1)?.id, nextAttemptAt: null });
  expect(state.attempts).toHaveLength(9);
  expect(state.attempts[0]).toMatchObject({ id: received.at(-1)?.id, type: 'user.removed', ok: true, status: 204 });
});

test('an endpoint gets only the types that it wants, and only the changes of its project', async () => {
  const [project, stranger] = [await app.createProject(), await app.createProject()];
  const hook = await add(project, { types: ['user.removed'] });
  deliver({ changesPerRead: 3 });
  const ids = await loginMany(project, 8);
  await login(stranger);
  await project.rest(`/server/users/${ids[3]}`, { method: 'DELETE' });
  await receiver.until(() => receiver.at(hook.path).length === 1);
  await hook.isIdle();
  expect(receiver.at(hook.path).map(({ type, userId }) => [type, userId])).toEqual([['user.removed', ids[3]]]);
  const all = await add(project, { types: [...CHANGE_TYPES] });
  expect((await all.state()).types).toEqual([]);
});

test('a message that failed is sent again with its id, and the next one waits for it', async () => {
  const project = await app.createProject();
  let refusals = 3;
  const hook = await add(project, {
    answer: (response) => {
      refusals -= 1;
      response.writeHead(refusals >= 0 ? 500 : 200).end('{}');
    },
  });
  const { countOutcomes } = deliver();
  const ids = await loginMany(project, 3);
  await receiver.until(() => receiver.usersAt(hook.path).length === 3);
  const received = receiver.at(hook.path);
  expect(received.map(({ userId }) => userId)).toEqual([ids[0], ids[0], ids[0], ...ids]);
  expect(new Set(received.slice(0, 4).map(({ id }) => id)).size).toBe(1);
  const { failures, attempts } = await hook.isIdle();
  expect(failures).toBe(0);
  expect(attempts.map(({ status, ok, error }) => [status, ok, error]).toReversed()).toEqual([
    ...Array.from({ length: 3 }, () => [500, false, 'answered 500']),
    ...Array.from({ length: 3 }, () => [200, true, null]),
  ]);
  expect(Object.fromEntries(countOutcomes())).toEqual({ refused: 3, delivered: 3 });
});

const raw =
  (text: string, more?: (write: (text: string) => boolean) => void): Answer =>
  ({ socket }) => {
    socket?.write(text);
    if (more) more((chunk) => socket?.writable === true && socket.write(chunk));
    else socket?.end();
  };

describe('hostile endpoints', () => {
  const HOSTILE: [string, Answer, string | null][] = [
    [
      'redirects',
      (response) => response.writeHead(302, { location: '/elsewhere' }).end(),
      'answered 302, and redirects are not followed',
    ],
    [
      'closes without an answer',
      ({ socket }) => socket?.destroy(),
      'the connection was closed before the answer was complete',
    ],
    [
      'ends its answer too early',
      raw('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort'),
      'the connection was closed before the answer was complete',
    ],
    ['is no HTTP server', raw('hello, this is not HTTP\r\n\r\n'), 'its answer is not HTTP as it should be'],
    [
      'sends endless headers',
      raw('HTTP/1.1 200 OK\r\n', (write) => {
        for (let n = 0; n < 3_000; n += 1) write(`x-${n}: ${'y'.repeat(90)}\r\n`);
      }),
      'its answer is not HTTP as it should be',
    ],
    ['never answers', () => undefined, 'no complete answer within 0.5 s'],
    [
      'never ends its answer',
      raw('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx', () => undefined),
      'no complete answer within 0.5 s',
    ],
    [
      'only says that it goes on',
      raw('HTTP/1.1 102 Processing\r\n\r\n', () => undefined),
      'no complete answer within 0.5 s',
    ],
    // The status is known by then.
    [
      'sends a body without end',
      raw('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n', (write) => {
        while (write(`4000\r\n${'x'.repeat(0x4000)}\r\n`));
      }),
      null,
    ],
    ['sends more than it says', raw('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok and more'), null],
  ];

  // Those that hang are given up soon. On a busy machine the good endpoint may be late as well, and is tried again.
  test.each([
    ['hang', 500, true],
    ['answer', 60_000, false],
  ])('are recorded with what they did, and hold up no other project: those that %s', async (_, exchangeMs, hangs) => {
    const hooks = await Promise.all(
      HOSTILE.filter(([, , error]) => (error?.startsWith('no complete') ?? false) === hangs).map(
        async ([name, answer, error]) => {
          const project = await app.createProject();
          return { name, project, error, hook: await add(project, { answer }) };
        },
      ),
    );
    const other = await app.createProject();
    const good = await add(other);
    deliver({ retryDelayMs: () => 3_000 }, exchangeMs);
    for (const { project } of hooks) await login(project);
    const ids = await loginMany(other, 3);
    await receiver.until(() => receiver.usersAt(good.path).length === 3);
    expect(receiver.usersAt(good.path)).toEqual(ids);
    for (const { name, error, hook } of hooks) {
      const { failures } = await hook.until(({ attempts }) => attempts.some((attempt) => attempt.error === error));
      if (error === null) expect([name, failures]).toEqual([name, 0]);
    }
    expect(receiver.at('/elsewhere')).toEqual([]);
  });

  test('projects whose endpoints hang take no more than their part', async () => {
    const hanging = await app.createProject();
    for (let index = 0; index < 4; index += 1) await add(hanging, { answer: () => undefined });
    await login(hanging);
    deliver({ maxInFlight: 3, maxPerProject: 2 }, 600_000);
    await receiver.until(() => receiver.received.filter(({ userId }) => userId !== null).length >= 2);
    const other = await app.createProject();
    const good = await add(other);
    const ids = await loginMany(other, 3);
    await receiver.until(() => receiver.at(good.path).length === 3);
    expect(receiver.usersAt(good.path)).toEqual(ids);
  });
});

test('each endpoint is signed for by its own secret, and a project has its part also where endpoints are due one after the other', async () => {
  const project = await app.createProject();
  deliver({ maxInFlight: 5, maxPerProject: 2 }, 600_000);
  const hooks: Awaited<ReturnType<typeof add>>[] = [];
  for (const place of [0, 1, 2]) {
    hooks.push(await add(project, { answer: () => undefined }));
    await login(project);
    const reached = () => hooks.filter(({ path }) => receiver.at(path).length > 0).length;
    if (place < 2) await receiver.until(() => reached() === place + 1);
  }
  // Another project has the third turn, while the third endpoint waits.
  const other = await app.createProject();
  const good = await add(other);
  await login(other);
  await receiver.until(() => receiver.at(good.path).length === 1);
  expect(hooks.map(({ path }) => receiver.at(path).length)).toEqual([1, 1, 0]);
  for (const { path } of hooks.slice(0, 2))
    expect(String(receiver.at(path)[0]?.headers['webhook-signature']).split(' ')).toHaveLength(1);
});

test('410 disables an endpoint; enabled again, it goes on where it was', async () => {
  const project = await app.createProject();
  const hook = await add(project, { answer: (response) => response.writeHead(410).end() });
  deliver();
  const ids = await loginMany(project, 2);
  const { reason } = await hook.until(({ status }) => status === 'disabled');
  expect(reason).toBe('The endpoint answered 410 (gone).');
  expect(receiver.at(hook.path)).toHaveLength(1);
  receiver.answer(hook.path, null);
  await webhooks().resumeWebhook(hook.scope, hook.id);
  await receiver.until(() => receiver.usersAt(hook.path).length === 2);
  expect(receiver.usersAt(hook.path)).toEqual(ids);
  expect(await hook.isIdle()).toMatchObject({ status: 'enabled', reason: null });
});

test('an endpoint that stays dead is paused and says why', async () => {
  const project = await app.createProject();
  const hook = await add(project, { answer: (response) => response.writeHead(503).end() });
  deliver({ giveUpMs: 200 });
  await login(project);
  const { reason, failures } = await hook.until(({ status }) => status === 'paused');
  expect(reason).toMatch(/^Every attempt of \S+ days failed; the last one: answered 503\.$/);
  expect(failures).toBeGreaterThan(1);
  const troubled = await webhooks().findTroubled();
  expect(troubled).toMatchObject([{ appId: project.appId, id: hook.id, status: 'paused', reason }]);
});

test('an endpoint is paused once its attempts have failed for as long as it is given, and not before', async () => {
  const project = await app.createProject();
  const hook = await add(project, { answer: (response) => response.writeHead(503).end() });
  const failFor = (days: number) =>
    run(`UPDATE webhooks SET failing_since = now() - $1 * interval '1 day', next_attempt_at = now() WHERE id = $2`, [
      days,
      hook.id,
    ]);
  deliver({ giveUpMs: 2.25 * 86_400_000, retryDelayMs: () => 600_000 });
  await login(project);
  await hook.until(({ failures }) => failures === 1);
  await failFor(2.2);
  expect(await hook.until(({ failures }) => failures === 2)).toMatchObject({ status: 'enabled', reason: null });
  await failFor(2.3);
  const { reason } = await hook.until(({ status }) => status === 'paused');
  expect(reason).toBe('Every attempt of 2.3 days failed; the last one: answered 503.');
});

test('endpoints are counted by their state, and how long the oldest change waits for one of them', async () => {
  const project = await app.createProject();
  const hooks: Awaited<ReturnType<typeof add>>[] = [];
  for (let count = 0; count < 5; count += 1) hooks.push(await add(project));
  const set = (index: number, values: string) => run(`UPDATE webhooks SET ${values} WHERE id = $1`, [hooks[index]?.id]);
  await set(1, 'failures = 2');
  await set(2, `status = 'paused', reason = 'asked'`);
  await set(3, `status = 'paused', reason = 'asked', failures = 1`);
  await set(4, `status = 'disabled', reason = 'gone'`);
  const counted = { enabled: 2, failing: 1, paused: 2, disabled: 1 };
  expect(await findWebhookFigures(app.context.db)).toEqual({ ...counted, lagSeconds: 0 });

  const userId = await login(project);
  await run(`UPDATE changes SET at = now() - interval '100 seconds' WHERE user_id = $1`, [userId]);
  // Without an endpoint that is delivered to, only a reader makes it publish.
  await project.graphql('{ changes { nodes { id } } }');
  const lag = async () => (await findWebhookFigures(app.context.db)).lagSeconds;
  expect(await lag()).toBeGreaterThanOrEqual(100);
  // What waits for one that is paused or disabled waits for nothing.
  await set(0, `status = 'paused', reason = 'asked'`);
  expect(await lag()).toBeGreaterThanOrEqual(100);
  await set(1, `status = 'disabled', reason = 'gone'`);
  expect(await lag()).toBe(0);
});

test('Retry-After is handed to the rule of the delays', async () => {
  const project = await app.createProject();
  const hook = await add(project, { answer: (response) => response.writeHead(429, { 'retry-after': '7' }).end() });
  const asked: unknown[] = [];
  deliver({
    retryDelayMs: (failures, retryAfterMs) => {
      asked.push([failures, retryAfterMs]);
      return 3_600_000;
    },
  });
  await login(project);
  const { nextAttemptAt, status } = await hook.until(({ failures }) => failures === 1);
  expect(asked).toEqual([[1, 7_000]]);
  expect(status).toBe('enabled');
  expect(Date.parse(String(nextAttemptAt)) - Date.now()).toBeGreaterThan(1_800_000);
});

test('during a rotation both secrets sign; then only the new one', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  const made = await webhooks().rotateSecret(hook.scope, { id: hook.id, overlapMs: 3_600_000 });
  expect(made.secret).not.toBe(hook.secret);
  deliver();
  await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 1);
  const [both] = receiver.at(hook.path);
  for (const secret of [hook.secret, made.secret]) verify(JSON.stringify(both?.body), both?.headers ?? {}, secret);
  expect((await hook.state()).secrets.map(({ expiresAt }) => expiresAt)).toEqual([null, made.previousExpiresAt]);

  // A later and shorter rotation leaves the end that this one promised.
  const third = await webhooks().rotateSecret(hook.scope, { id: hook.id, overlapMs: 60_000 });
  const ends = (await hook.state()).secrets.map(({ expiresAt }) => expiresAt);
  expect(ends).toEqual([null, third.previousExpiresAt, made.previousExpiresAt]);

  const last = await webhooks().rotateSecret(hook.scope, { id: hook.id, overlapMs: 0 });
  receiver.expectSecret(hook.path, last.secret);
  await hook.isIdle();
  await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 2);
  const newest = receiver.at(hook.path)[1];
  for (const secret of [hook.secret, made.secret])
    expect(() => verify(JSON.stringify(newest?.body), newest?.headers ?? {}, secret)).toThrow();
  expect((await hook.state()).secrets).toHaveLength(1);
  for (let index = 0; index < 4; index += 1)
    await webhooks().rotateSecret(hook.scope, { id: hook.id, overlapMs: 3_600_000 });
  await expect(webhooks().rotateSecret(hook.scope, { id: hook.id, overlapMs: 1 })).rejects.toMatchObject({
    code: 'CONFLICT',
  });
});

test('a replay sends again what comes after a cursor, also while a message is in flight', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  deliver();
  const ids = await loginMany(project, 4);
  await receiver.until(() => receiver.at(hook.path).length === 4);
  await hook.isIdle();
  const timeline = String(receiver.at(hook.path)[0]?.id);
  const [after] = await parseCursor(timeline);
  await webhooks().replayWebhook(hook.scope, { id: hook.id, after });
  await receiver.until(() => receiver.at(hook.path).length === 7);
  expect(receiver.at(hook.path).map(({ userId }) => userId)).toEqual([...ids, ...ids.slice(1)]);

  const { answer, release } = held();
  receiver.answer(hook.path, answer);
  const late = await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 8);
  await webhooks().replayWebhook(hook.scope, { id: hook.id, after });
  receiver.answer(hook.path, null);
  release();
  await receiver.until(() => receiver.at(hook.path).length === 12);
  expect(
    receiver
      .at(hook.path)
      .slice(8)
      .map(({ userId }) => userId),
  ).toEqual([...ids.slice(1), late]);
  expect(receiver.mostOpen.get(hook.path)).toBe(1);
});

test('a replay from now skips what is waiting', async () => {
  const project = await app.createProject();
  const hook = await add(project, { answer: (response) => response.writeHead(410).end() });
  deliver();
  await loginMany(project, 2);
  await hook.until(({ status }) => status === 'disabled');
  // Both are published.
  await project.graphql('{ changes { nodes { id } } }');
  receiver.answer(hook.path, null);
  await webhooks().replayWebhook(hook.scope, { id: hook.id, after: 'now' });
  const next = await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 2);
  expect(receiver.at(hook.path)[1]?.userId).toBe(next);
});

test('an endpoint whose changes are no longer kept is paused; a replay takes it up again', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  await loginMany(project, 2);
  await run(
    `INSERT INTO changes_pruned (project_id, through) SELECT p.id, max(c.id) FROM projects p JOIN changes c ON c.project_id = p.id WHERE p.app_id = $1 GROUP BY p.id`,
    [project.appId],
  );
  await run('DELETE FROM changes WHERE project_id = (SELECT id FROM projects WHERE app_id = $1)', [project.appId]);
  deliver();
  const { reason } = await hook.until(({ status }) => status === 'paused');
  expect(reason).toMatch(/^What it has not been sent is no longer kept, or the feed began anew/);
  expect(receiver.at(hook.path)).toEqual([]);
  await project.graphql('{ changes { nodes { id } } }');
  await webhooks().replayWebhook(hook.scope, { id: hook.id, after: 'now' });
  const id = await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 1);
  expect(receiver.at(hook.path)[0]?.userId).toBe(id);
});

test.each([1, 2, 3])(
  'random history %d: whatever fails, stops and is replayed, messages come in order and none is lost',
  async (seed) => {
    let state = seed;
    const chance = (part: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state / 2_147_483_647 < part;
    };
    const project = await app.createProject();
    const hostile: Answer = (response) => {
      if (chance(0.6)) response.writeHead(204).end();
      else if (chance(0.5)) response.writeHead(chance(0.5) ? 500 : 302).end();
      else response.socket?.destroy();
    };
    const hooks = [await add(project, { answer: hostile }), await add(project, { answer: hostile })];
    // What is in flight is answered at once, so that it may end.
    const restart = () => deliver({ changesPerRead: 3, closeMs: 60_000, turnMs: chance(0.5) ? 1_000 : -1 });
    const running = [restart(), restart()];
    const ids: number[] = [];
    for (let step = 0; step < 30; step += 1) {
      ids.push(await login(project));
      if (chance(0.2)) {
        await running.shift()?.close();
        running.push(restart());
      }
      const { path, id, scope } = hooks[step % 2] as (typeof hooks)[number];
      const first = receiver.at(path)[0]?.id;
      if (chance(0.1) && first !== undefined)
        await webhooks().replayWebhook(scope, { id, after: (await parseCursor(first))[0] });
    }
    for (const { path } of hooks) {
      await receiver.until(() => receiver.usersAt(path).length === ids.length);
      expect(receiver.usersAt(path)).toEqual(ids);
      expect(receiver.mostOpen.get(path)).toBe(1);
    }
  },
);

test('what a dead process has leased is taken over when the lease has ended; a live one keeps its lease', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  const id = await login(project);
  await run(
    `UPDATE webhooks SET leased_by = 'dead', leased_until = now() + interval '700 milliseconds' WHERE id = $1`,
    [hook.id],
  );
  deliver();
  await receiver.until(() => receiver.at(hook.path).length === 1);
  await hook.isIdle();
  expect(receiver.usersAt(hook.path)).toEqual([id]);

  // It is renewed while a message is in flight.
  const { answer, release } = held();
  const slow = await add(project, { answer });
  for (let count = 0; count < 2; count += 1) deliver({ leaseMs: 20_000, renewMs: 100 });
  await login(project);
  await receiver.until(() => receiver.at(slow.path).length === 1);
  const until = async () =>
    (await run('SELECT leased_until FROM webhooks WHERE id = $1', [slow.id])).rows[0].leased_until;
  const first = await until();
  await vi.waitUntil(async () => (await until()) - first > 300, PATIENCE);
  expect(receiver.at(slow.path)).toHaveLength(1);
  receiver.answer(slow.path, null);
  release();
  await slow.isIdle();
  expect(receiver.at(slow.path)).toHaveLength(1);
});

test('a process that ends gives up what is in flight, and another sends it again at once', async () => {
  const project = await app.createProject();
  const hook = await add(project, { answer: () => undefined });
  const first = deliver({ leaseMs: 600_000 }, 600_000);
  const id = await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 1);
  await first.close();
  expect(await hook.state()).toMatchObject({ failures: 0, attempts: [] });
  receiver.answer(hook.path, null);
  deliver();
  await hook.isIdle();
  expect(receiver.at(hook.path).map(({ userId }) => userId)).toEqual([id, id]);
});

test('while its project is disabled nothing is sent; a removed endpoint gets nothing more', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  const removed = await add(project);
  const { lifecycle } = app.context.services;
  const id = await login(project);
  await lifecycle.disableProject(hook.scope);
  await webhooks().removeWebhook(hook.scope, removed.id);
  deliver();
  const other = await app.createProject();
  const good = await add(other);
  await login(other);
  await receiver.until(() => receiver.at(good.path).length === 1);
  expect(receiver.at(hook.path)).toEqual([]);
  await lifecycle.enableProject(hook.scope);
  await receiver.until(() => receiver.at(hook.path).length === 1);
  expect(receiver.usersAt(hook.path)).toEqual([id]);
  expect(receiver.at(removed.path)).toEqual([]);
});

test('a test sends one signed message and changes nothing', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  const before = await hook.state();
  expect(await webhooks().testWebhook(hook.scope, { id: hook.id })).toEqual({
    ok: true,
    status: 204,
    ms: expect.any(Number),
    error: null,
  });
  expect(receiver.at(hook.path)).toMatchObject([{ type: 'webhook.test', body: { data: {} } }]);
  expect(await hook.state()).toEqual(before);
  receiver.answer(hook.path, () => undefined);
  expect(await webhooks().testWebhook(hook.scope, { id: hook.id, timeoutMs: 100 })).toMatchObject({
    ok: false,
    status: null,
    error: 'no complete answer within 0.1 s',
  });
});

test('a project has at most ten endpoints, and no one else sees them', async () => {
  const [project, stranger] = [await app.createProject(), await app.createProject()];
  const hooks: Awaited<ReturnType<typeof add>>[] = [];
  for (let index = 0; index < 10; index += 1) hooks.push(await add(project));
  await expect(add(project)).rejects.toMatchObject({ code: 'CONFLICT' });
  const [first] = hooks;
  const scope = await scopeOf(stranger);
  const id = first?.id as number;
  const missing = { code: 'NOT_FOUND', message: `The project has no webhook ${id}.` };
  await expect(webhooks().getWebhook(scope, id)).rejects.toMatchObject(missing);
  await expect(webhooks().removeWebhook(scope, id)).rejects.toMatchObject(missing);
  await expect(webhooks().resumeWebhook(scope, id)).rejects.toMatchObject(missing);
  await expect(webhooks().testWebhook(scope, { id })).rejects.toMatchObject(missing);
  await expect(webhooks().rotateSecret(scope, { id, overlapMs: 0 })).rejects.toMatchObject(missing);
  await expect(webhooks().pauseWebhook(scope, id)).rejects.toMatchObject(missing);
  await expect(webhooks().updateWebhook(scope, { id, types: [] })).rejects.toMatchObject(missing);
  await expect(webhooks().resendMessage(scope, { id, message: 'x' })).rejects.toMatchObject(missing);
  await expect(webhooks().listAttempts(scope, id)).rejects.toMatchObject(missing);
  await expect(webhooks().countBacklog(scope, id)).rejects.toMatchObject(missing);
  await expect(webhooks().replayWebhook(scope, { id, after: 'now' })).rejects.toMatchObject(missing);
  expect(await webhooks().listWebhooks(scope)).toEqual([]);
});

describe('attempts', () => {
  test('the last 50 that were accepted and that failed are kept, with what was sent, and counted by the hour', async () => {
    const project = await app.createProject();
    const hook = await add(project);
    // Turns of one message and of many.
    const first = deliver({ turnMs: -1, changesPerRead: 2 });
    await loginMany(project, 30);
    await receiver.until(() => receiver.at(hook.path).length === 30);
    await hook.isIdle();
    await first.close();
    const more = await loginMany(project, 60);
    deliver();
    await receiver.until(() => receiver.at(hook.path).length === 90);
    await hook.isIdle();
    const attempts = await webhooks().listAttempts(hook.scope, hook.id);
    const received = receiver.at(hook.path).slice(-50).toReversed();
    expect(attempts.map(({ id, ok, resent, body }) => [id, ok, resent, body])).toEqual(
      received.map(({ id, body }) => [id, true, false, JSON.stringify(body)]),
    );
    expect(received[0]?.userId).toBe(more.at(-1));

    let refusals = 55;
    receiver.answer(hook.path, (response) => {
      refusals -= 1;
      response.writeHead(refusals >= 0 ? 500 : 204).end();
    });
    await login(project);
    await hook.until(({ accepted }) => accepted === 91);
    const all = await webhooks().listAttempts(hook.scope, hook.id);
    expect(all.map(({ ok }) => ok)).toEqual([true, ...Array(50).fill(false), ...Array(49).fill(true)]);
    expect(await hook.state()).toMatchObject({ accepted: 91, failed: 55, failures: 0 });
    const hours = await webhooks().listHours(hook.scope, hook.id);
    expect(hours).toHaveLength(24);
    // An hour may have begun meanwhile.
    const total = (name: 'accepted' | 'failed') => hours.slice(-2).reduce((sum, hour) => sum + hour[name], 0);
    expect([total('accepted'), total('failed')]).toEqual([91, 55]);
    expect(hours.slice(0, 22).every(({ accepted, failed }) => accepted + failed === 0)).toBe(true);
    const { rows } = await run('SELECT count(*) FROM webhook_attempts WHERE webhook_id = $1', [hook.id]);
    expect(Number(rows[0].count)).toBe(100);

    // Of one instant, those that failed come first, each kind in its order.
    await run('UPDATE webhook_attempts SET at = now() WHERE webhook_id = $1', [hook.id]);
    const ids = (attempts: Json[], wanted: boolean) => attempts.filter(({ ok }) => ok === wanted).map(({ id }) => id);
    const ofOneInstant = await webhooks().listAttempts(hook.scope, hook.id);
    expect(ofOneInstant.map(({ ok }) => ok)).toEqual([...Array(50).fill(false), ...Array(50).fill(true)]);
    expect([ids(ofOneInstant, false), ids(ofOneInstant, true)]).toEqual([ids(all, false), ids(all, true)]);
  });

  test('many that are accepted push out no failure, and a failure at the end of a turn none of the last 50', async () => {
    const project = await app.createProject();
    const hook = await add(project);
    const refuseFrom = (first: number) => {
      let count = 0;
      receiver.answer(hook.path, (response) => {
        count += 1;
        response.writeHead(count >= first ? 500 : 204).end();
      });
    };
    refuseFrom(1);
    const first = await login(project);
    deliver({ retryDelayMs: () => 600_000, turnMs: 600_000 });
    await hook.until(({ failed }) => failed === 1);
    const users = await loginMany(project, 60);
    // One turn, of which the last message is refused.
    refuseFrom(61);
    await webhooks().resumeWebhook(hook.scope, hook.id);
    await hook.until(({ failed }) => failed === 2);
    const attempts = await webhooks().listAttempts(hook.scope, hook.id);
    expect(attempts.map(({ ok }) => ok)).toEqual([false, ...Array(50).fill(true), false]);
    expect(attempts.map(({ body }) => JSON.parse(String(body)).data.user_id)).toEqual([
      users.at(-1),
      ...users.slice(-51, -1).toReversed(),
      first,
    ]);
  });

  test('old ones are forgotten, and a tally of yesterday begins anew', async () => {
    const project = await app.createProject();
    const hook = await add(project);
    deliver();
    await loginMany(project, 3);
    await receiver.until(() => receiver.at(hook.path).length === 3);
    await hook.isIdle();
    await run(`UPDATE webhook_attempts SET at = at - interval '31 days' WHERE webhook_id = $1`, [hook.id]);
    await run(`UPDATE webhook_hours SET hour = hour - interval '1 day' WHERE webhook_id = $1`, [hook.id]);
    await login(project);
    await hook.until(({ accepted }) => accepted === 4);
    expect(await webhooks().listAttempts(hook.scope, hook.id)).toHaveLength(1);
    const hours = await webhooks().listHours(hook.scope, hook.id);
    expect(hours.reduce((sum, { accepted }) => sum + accepted, 0)).toBe(1);
  });

  test('a process whose lease has ended records nothing; one whose place was moved records what it has sent', async () => {
    const project = await app.createProject();
    const { answer, release } = held();
    const hook = await add(project, { answer });
    await login(project);
    deliver({ renewMs: 600_000, turnMs: 600_000, leaseMs: 3_600_000 });
    await receiver.until(() => receiver.at(hook.path).length === 1);
    await run(`UPDATE webhooks SET leased_by = 'another', leased_until = now() + interval '1 hour' WHERE id = $1`, [
      hook.id,
    ]);
    release();
    const other = await add(project);
    await login(project);
    await receiver.until(() => receiver.at(other.path).length === 1);
    await other.isIdle();
    expect(await hook.state()).toMatchObject({ accepted: 0, attempts: [] });

    await run('UPDATE webhooks SET leased_until = now() WHERE id = $1', [hook.id]);
    await receiver.until(() => receiver.at(hook.path).length === 2);
    const start = receiver.at(hook.path)[0]?.id as string;
    receiver.answer(hook.path, null);
    await webhooks().replayWebhook(hook.scope, { id: hook.id, from: await placeOf(start) });
    release();
    // Both messages in the turn that was under way, and both once more.
    await hook.until(({ accepted }) => accepted === 4);
    expect(receiver.at(hook.path)).toHaveLength(5);
  });

  test('a change that the feed has no longer is shown without its body, and so is one of another timeline', async () => {
    const project = await app.createProject();
    const hook = await add(project);
    deliver();
    await loginMany(project, 2);
    await receiver.until(() => receiver.at(hook.path).length === 2);
    await hook.isIdle();
    const [first, second] = receiver.at(hook.path).map(({ id }) => id);
    await run('DELETE FROM changes WHERE id = $1', [(await placeOf(String(second))).id]);
    const bodies = (await webhooks().listAttempts(hook.scope, hook.id)).map(({ id, body }) => [id, body !== null]);
    expect(bodies).toEqual([
      [second, false],
      [first, true],
    ]);
    const gone = { code: 'NOT_FOUND', message: 'The project has no change with this ID, or keeps it no longer.' };
    const resend = (message: string) => webhooks().resendMessage(hook.scope, { id: hook.id, message });
    await expect(resend(String(second))).rejects.toMatchObject(gone);
    const { id } = await placeOf(String(first));
    await expect(resend(encodeChangeCursor({ timeline: 'ffffffff', id }))).rejects.toMatchObject(gone);
  });
});

test('an operator sends one message again: signed anew, as an attempt of its own, beside the place', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  deliver();
  const ids = await loginMany(project, 3);
  await receiver.until(() => receiver.at(hook.path).length === 3);
  const before = await hook.isIdle();
  const { secret } = await webhooks().rotateSecret(hook.scope, { id: hook.id, overlapMs: 0 });
  receiver.expectSecret(hook.path, secret);
  const message = String(receiver.at(hook.path)[0]?.id);
  const resend = () => webhooks().resendMessage(hook.scope, { id: hook.id, message });
  expect(await resend()).toEqual({ ok: true, status: 204, ms: expect.any(Number), error: null });
  const [sent, again] = [receiver.at(hook.path)[0], receiver.at(hook.path)[3]];
  expect(again).toMatchObject({ id: message, userId: ids[0], body: sent?.body });
  expect(again?.headers['webhook-signature']).not.toBe(sent?.headers['webhook-signature']);
  const { cursor, accepted, lastDeliveredAt, attempts } = await hook.state();
  expect({ cursor, lastDeliveredAt }).toEqual({ cursor: before.cursor, lastDeliveredAt: before.lastDeliveredAt });
  expect(accepted).toBe(before.accepted + 1);
  expect(attempts[0]).toMatchObject({ id: message, ok: true, resent: true });

  // One a second, and one at a time; also while it is paused, and of a type that it does not get.
  await webhooks().pauseWebhook(hook.scope, hook.id);
  await webhooks().updateWebhook(hook.scope, { id: hook.id, types: ['user.removed'] });
  await run(`UPDATE webhooks SET resend_after = now() + interval '10 seconds' WHERE id = $1`, [hook.id]);
  await expect(resend()).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  await run('UPDATE webhooks SET resend_after = NULL WHERE id = $1', [hook.id]);
  const { answer, release } = held(500);
  receiver.answer(hook.path, answer);
  const slow = resend();
  await receiver.until(() => receiver.at(hook.path).length === 5);
  await expect(resend()).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  release();
  expect(await slow).toMatchObject({ ok: false, status: 500, error: 'answered 500' });
  expect(await hook.state()).toMatchObject({ failures: 0, failed: 1, status: 'paused' });
  await run('UPDATE webhooks SET resend_after = NULL WHERE id = $1', [hook.id]);
  await app.context.services.lifecycle.disableProject(hook.scope);
  await expect(resend()).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(receiver.at(hook.path)).toHaveLength(5);
});

test('paused by an operator nothing is sent, also by a turn that is under way; resumed, it goes on from its place', async () => {
  const project = await app.createProject();
  const { answer, release } = held();
  const hook = await add(project, { answer });
  // A turn is one message.
  deliver({ turnMs: -1, changesPerRead: 2 });
  const ids = await loginMany(project, 3);
  await receiver.until(() => receiver.at(hook.path).length === 1);
  await webhooks().pauseWebhook(hook.scope, hook.id);
  receiver.answer(hook.path, null);
  release();
  const paused = await hook.until(({ accepted }) => accepted > 0);
  expect(paused).toMatchObject({ status: 'paused', reason: 'An operator has paused it.' });
  const sent = receiver.usersAt(hook.path);
  await deliverElsewhere();
  expect(receiver.usersAt(hook.path)).toEqual(sent);
  expect(await webhooks().countBacklog(hook.scope, hook.id)).toEqual({ count: 3 - sent.length, isMore: false });
  await webhooks().resumeWebhook(hook.scope, hook.id);
  await receiver.until(() => receiver.usersAt(hook.path).length === 3);
  // What was accepted before is not sent again.
  expect(receiver.at(hook.path).map(({ userId }) => userId)).toEqual(ids);
});

test('another URL, types and description keep the place and the secret', async () => {
  const project = await app.createProject();
  const hook = await add(project, { answer: (response) => response.writeHead(500).end() });
  deliver({ retryDelayMs: () => 3_600_000 });
  const ids = await loginMany(project, 2);
  await hook.until(({ failures }) => failures === 1);
  const path = `${hook.path}-moved`;
  receiver.expectSecret(path, hook.secret);
  const update = (given: Omit<Parameters<ReturnType<typeof webhooks>['updateWebhook']>[1], 'id'>) =>
    webhooks().updateWebhook(hook.scope, { id: hook.id, ...given });
  await update({ url: receiver.url(path) });
  await receiver.until(() => receiver.at(path).length === 2);
  expect(receiver.usersAt(path)).toEqual(ids);
  await hook.isIdle();
  await update({ types: ['user.removed'], description: ' the CRM ' });
  await login(project);
  await project.rest(`/server/users/${ids[0]}`, { method: 'DELETE' });
  await receiver.until(() => receiver.at(path).length === 3);
  expect(receiver.at(path)[2]).toMatchObject({ type: 'user.removed', userId: ids[0] });
  expect(await hook.isIdle()).toMatchObject({
    url: receiver.url(path),
    types: ['user.removed'],
    description: 'the CRM',
  });
  await update({ types: [] });
  expect((await hook.state()).types).toEqual([]);

  const refused = { code: 'BAD_USER_INPUT' };
  await expect(update({})).rejects.toMatchObject({ ...refused, message: 'Expected a new url, types or description.' });
  await expect(update({ url: 'ftp://example.com/' })).rejects.toMatchObject(refused);
  await expect(update({ description: 'a\nb' })).rejects.toMatchObject(refused);
  const entries = await app.context.services.audit.listEntries(hook.scope, null, 20);
  expect(entries.filter(({ action }) => action === 'update_webhook').map(({ details }) => details)).toEqual([
    { webhook: hook.id, fields: ['url'], origin: receiver.url('') },
    { webhook: hook.id, fields: ['types', 'description'] },
    { webhook: hook.id, fields: ['types'] },
  ]);
});

test('a turn that fails does not make an endpoint wait that an operator has resumed meanwhile', async () => {
  const project = await app.createProject();
  const { answer, release } = held(410);
  const hook = await add(project, { answer });
  deliver({ retryDelayMs: () => 3_600_000 });
  await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 1);
  await webhooks().resumeWebhook(hook.scope, hook.id);
  receiver.answer(hook.path, null);
  release();
  await receiver.until(() => receiver.at(hook.path).length === 2);
  expect(await hook.isIdle()).toMatchObject({ status: 'enabled', accepted: 1, failed: 1 });
});

/** Waits until something is delivered elsewhere: what was due before would have been, too. */
async function deliverElsewhere(): Promise<void> {
  const project = await app.createProject();
  const hook = await add(project);
  await login(project);
  await receiver.until(() => receiver.at(hook.path).length === 1);
}

const placeOf = async (cursor: string) => (await parseCursor(cursor))[0];

test('endpoints that are due together share the search and the read of the feed', async () => {
  const project = await app.createProject();
  const hooks: Awaited<ReturnType<typeof add>>[] = [];
  for (let index = 0; index < 4; index += 1) hooks.push(await add(project));
  await login(project);
  await project.graphql('{ changes { nodes { id } } }');
  const before = app.statements.length;
  deliver({ pollMs: 600_000 });
  await receiver.until(() => hooks.every(({ path }) => receiver.at(path).length === 1));
  for (const hook of hooks) await hook.isIdle();
  const sent = app.statements.slice(before);
  expect(sent.filter((sql) => sql.includes('SKIP LOCKED')).length).toBeLessThanOrEqual(6);
  expect(sent.filter((sql) => sql.includes('AS "keyIndex"'))).toHaveLength(1);
});

async function parseCursor(text: string) {
  const { changeCursor } = await import('#dist/domain/changes.js');
  return [changeCursor('after').parse(text) as { timeline: string; id: number }] as const;
}

test('after the clock of the database was put back, a healthy endpoint goes on at once, also one that a process leased, and a message is sent again by hand', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  const [id] = await loginMany(project, 1);
  await run(`UPDATE webhooks SET next_attempt_at = now() + interval '1 hour', resend_after = now() + interval '1 hour',
    leased_by = 'one of before', leased_until = now() + interval '1 hour'`);
  deliver();
  await receiver.until(() => receiver.usersAt(hook.path).length === 1);
  expect(receiver.usersAt(hook.path)).toEqual([id]);
  const [attempt] = (await hook.isIdle()).attempts;
  const again = { id: hook.id, message: String(attempt?.id) };
  expect(await webhooks().resendMessage(hook.scope, again)).toMatchObject({ ok: true });
});

test('an endpoint that has failed waits for its retry, but not for one that the service never puts off so far', async () => {
  const project = await app.createProject();
  const [waiting, stuck] = [await add(project), await add(project)];
  await login(project);
  const putOff = (id: number, hours: number) =>
    run(
      `UPDATE webhooks SET failures = 1, failing_since = now(), next_attempt_at = now() + $2 * interval '1 hour' WHERE id = $1`,
      [id, hours],
    );
  await putOff(waiting.id, 5);
  await putOff(stuck.id, 24);
  deliver();
  await receiver.until(() => receiver.usersAt(stuck.path).length === 1);
  expect(receiver.usersAt(waiting.path)).toEqual([]);
});

test('a lease of another process that works is respected', async () => {
  const project = await app.createProject();
  const hook = await add(project);
  await login(project);
  await run(`UPDATE webhooks SET leased_by = 'another', leased_until = now() + interval '2 seconds'`);
  const startedAt = performance.now();
  deliver();
  await receiver.until(() => receiver.usersAt(hook.path).length === 1);
  expect(performance.now() - startedAt).toBeGreaterThan(1_000);
});
