import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { AdmissionOptions } from '#dist/http/admission.js';
import { type Json, startTestApp, type TestApp, type TestProject } from '../support/app.js';
import { untilLocked } from '../support/waiting.js';

/** Requests whose time ends before they have an answer: each says what became of what it was to write. One connection, which a test takes. */

const NOTHING = 'The request has waited for too long. Nothing was changed. Send the request again.';
const UNKNOWN = / What was to be written may or may not have been written: send the request again if it only reads, or/;

let app: TestApp;
let project: TestProject;
let id: number;

async function start(admission?: AdmissionOptions) {
  app = await startTestApp({
    ownDatabase: true,
    env: { REQUEST_TIMEOUT_MS: '4000', DATABASE_POOL_SIZE: '1' },
    ...(admission && { admission }),
  });
  project = await app.createProject();
  await project.addUsers({ auth_method: 'google', auth_value: 'ada' });
  id = (await project.rest('/server/users')).body.result.users[0].id;
}

/** Takes the only connection while `work` is done. */
async function withoutConnection<Result>(work: () => Promise<Result>): Promise<Result> {
  // So that no request asks for its credentials.
  await project.rest('/server/users/count');
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const holding = app.context.db.transaction('READ COMMITTED', () => released);
  try {
    return await work();
  } finally {
    release();
    await holding;
  }
}

const login = (authValue: string, more = '') =>
  project.graphql(
    `mutation { recordLogin(input: { authMethod: "google", authValue: "${authValue}" }${more}) { user { id loginCount } } }`,
  );
const messageOf = ({ errors, body }: { errors?: Json; body?: Json }) => body?.error ?? errors[0].message;

describe('beside a connection that is taken,', () => {
  beforeAll(() => start());
  afterAll(() => app.close());

  test('writes are 503 with Retry-After when their time ends, and are never done', async () => {
    const answers = await withoutConnection(() =>
      Promise.all([
        login('ada'),
        login('new', ', idempotencyKey: "one"'),
        project.graphql(`mutation { deleteUser(id: ${id}) { id } }`),
        project.rest(`/server/users/${id}`, { method: 'DELETE', headers: { 'idempotency-key': 'two' } }),
        project.graphql(`mutation { updateUser(id: ${id}, input: { externalId: "x" }) { user { id } } }`),
      ]),
    );
    expect(answers.map((answer) => [answer.status, answer.headers.get('retry-after'), messageOf(answer)])).toEqual(
      answers.map(() => [503, '1', NOTHING]),
    );
    expect((await login('ada')).data.recordLogin.user).toEqual({ id: String(id), loginCount: 1 });
    expect((await login('new', ', idempotencyKey: "one"')).data.recordLogin.user.loginCount).toBe(1);
    expect((await project.graphql('{ userByExternalId(externalId: "x") { id } }')).data.userByExternalId).toBe(null);
  });

  test('the first of two writes of a document is told of, and the second one is not done', async () => {
    const answer = await withoutConnection(() =>
      project.graphql(`mutation {
        first: recordLogin(input: { authMethod: "google", authValue: "first" }) { created }
        second: recordLogin(input: { authMethod: "google", authValue: "second" }) { created }
      }`),
    );
    expect(answer.errors?.[0]).toMatchObject({ message: NOTHING, extensions: { code: 'UNAVAILABLE', retryAfter: 1 } });
    const { data } = await project.graphql('{ userPage(limit: 100) { users { authValue } } }');
    expect(data.userPage.users.map(({ authValue }: Json) => authValue)).not.toContain('second');
  });

  test.runIf(inject('engine') === 'postgres')(
    'a login that the database has is 503 with an unknown outcome, and one behind it is never done',
    async () => {
      const other = new pg.Client(app.context.db.pool.options.connectionString);
      await other.connect();
      await project.rest('/server/users/count');
      await other.query('BEGIN; LOCK TABLE users IN ACCESS EXCLUSIVE MODE');
      const sent = login('sent');
      await untilLocked(other);
      const answers = await Promise.all([sent, login('behind'), login('sent')]);
      await other.query('COMMIT');
      await other.end();
      expect(answers.map(({ status, headers }) => [status, headers.get('retry-after')])).toEqual(
        answers.map(() => [503, '1']),
      );
      expect(answers.map(messageOf)).toEqual([expect.stringMatching(UNKNOWN), NOTHING, NOTHING]);
      expect((await login('sent')).data.recordLogin.user.loginCount).toBe(2);
      expect((await login('behind')).data.recordLogin.user.loginCount).toBe(1);
    },
  );
});

describe('in a queue that does not move,', () => {
  beforeAll(() => start({ maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 8 }));
  afterAll(() => app.close());

  test('a removal is 503 when its time ends, and is never done', async () => {
    const [reading, removal] = await withoutConnection(() =>
      Promise.all([project.rest('/server/users'), project.rest(`/server/users/${id}`, { method: 'DELETE' })]),
    );
    expect([reading.status, removal.status, removal.headers.get('retry-after')]).toEqual([503, 503, '1']);
    // Either may have begun: as the two have arrived, or when the time of the other has ended.
    for (const { body } of [reading, removal])
      expect([NOTHING, expect.stringMatching(UNKNOWN)]).toContainEqual(body.error);
    expect((await project.rest(`/server/users/${id}`)).status).toBe(200);
  });
});
