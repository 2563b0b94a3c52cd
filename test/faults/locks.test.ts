import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import {
  type Credentials,
  call,
  type RunningServer,
  recordLogin,
  startServer,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { untilLocked } from '../support/waiting.js';

/** The embedded database has one session, so that no request meets a lock of another. */
describe.runIf(inject('engine') === 'postgres')(
  'while another transaction holds a user, as a long import does,',
  () => {
    let database: TestDatabase;
    let project: Credentials;
    let server: RunningServer;
    let other: pg.Client;
    beforeAll(async () => {
      database = await copyTemplate();
      project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
      server = await startServer({
        ...database.env,
        DATABASE_STATEMENT_TIMEOUT_MS: '3000',
        DEMO: 'off',
        LOG_LEVEL: 'error',
      });
      other = new pg.Client(database.env['DATABASE_URL']);
      await other.connect();
    });
    afterAll(async () => {
      await other.end();
      await server.stop();
      await database.drop();
    });

    const graphql = (query: string) =>
      call(server.url, project, '/graphql', { method: 'POST', body: JSON.stringify({ query }) });
    const login = (authValue: string, more = '') =>
      graphql(
        `mutation { recordLogin(input: { authMethod: "google", authValue: "${authValue}" }${more}) { user { id } } }`,
      );

    test('every write of that user is 503 with Retry-After, and the writes of others succeed', async () => {
      const id = (await login('held')).body.data.recordLogin.user.id;
      await other.query('BEGIN');
      await other.query('UPDATE users SET login_count = 5 WHERE id = $1', [id]);
      const answers = await Promise.all([
        // Those behind the first wait for it, and not for the transaction.
        ...Array.from({ length: 3 }, () => login('held')),
        login('held', ', idempotencyKey: "k"'),
        graphql(`mutation { deleteUser(id: ${id}) { id } }`),
        call(server.url, project, `/server/users/${id}`, { method: 'DELETE' }),
      ]);
      for (const { status, headers, body } of answers) {
        expect([status, headers.get('retry-after')]).toEqual([503, '1']);
        const { error, errors }: Json = body;
        expect(error ?? errors[0].message).toBe(
          'What this request needs is locked, by an import or another long change. Nothing was changed. Send the request again.',
        );
        if (errors) expect(errors[0].extensions.code).toBe('UNAVAILABLE');
      }
      expect((await login('free')).status).toBe(200);
      await other.query('ROLLBACK');
      expect((await login('held')).body.data.recordLogin.user.id).toBe(id);
    });

    test('a change that is made whose answer cannot be read says so, and not that nothing was done', async () => {
      const id = (await login('read late')).body.data.recordLogin.user.id;
      await other.query('BEGIN; LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE');
      const { body } = await graphql(
        `mutation { updateUser(id: ${id}, input: { metadata: { plan: "pro" } }) { user { id accounts { id } } } }`,
      );
      await other.query('ROLLBACK');
      expect(body.errors).toMatchObject([
        {
          message:
            'The change was made, but its answer could not be read. Read what you need, and send the change again only with an idempotency key.',
          extensions: { code: 'UNAVAILABLE' },
        },
      ]);
      expect((await graphql(`{ user(id: ${id}) { metadata } }`)).body.data.user.metadata).toEqual({ plan: 'pro' });
    });

    test.runIf(isNightly)(
      'as many logins as would wait for longer than a request may take are all 503, and none of them is counted',
      async () => {
        const values = Array.from({ length: 16 }, (_, n) => `waiting ${n}`);
        await Promise.all(values.map((value) => login(value)));
        await other.query('BEGIN');
        await other.query(`UPDATE users SET login_count = 5 WHERE auth_value LIKE 'waiting %'`);
        const answers = await Promise.all(values.map((value) => login(value)));
        await other.query('ROLLBACK');
        for (const { status, headers, body } of answers) {
          expect([status, headers.get('retry-after')]).toEqual([503, '1']);
          expect(body.errors[0].message).toContain('Nothing was changed.');
        }
        // What was withdrawn is not written later.
        for (const { status } of await Promise.all(values.map((value) => login(value)))) expect(status).toBe(200);
        const { rows } = await other.query(`SELECT DISTINCT login_count FROM users WHERE auth_value LIKE 'waiting %'`);
        expect(rows).toEqual([{ login_count: 2 }]);
      },
    );

    test('logins that come with one of that user are answered, also those of its project', async () => {
      const neighbor: Credentials = await userdirJson(database.env, ['project', 'create', '--name', 'Neighbor']);
      const id = (await login('held')).body.data.recordLogin.user.id;
      await other.query('BEGIN');
      await other.query('UPDATE users SET login_count = 5 WHERE id = $1', [id]);
      const free = Array.from({ length: 12 }, (_, n) =>
        recordLogin(server.url, n % 2 === 0 ? project : neighbor, { authMethod: 'google', authValue: `beside ${n}` }),
      );
      const [held, ...answers] = await Promise.all([login('held'), ...free]);
      expect(held?.status).toBe(503);
      expect(answers.map(({ body }) => body.data?.recordLogin.user.loginCount)).toEqual(free.map(() => 1));
      await other.query('ROLLBACK');
    });

    test('logins that come after one of that user do not wait for it', async () => {
      const id = (await login('held')).body.data.recordLogin.user.id;
      await other.query('BEGIN');
      await other.query('UPDATE users SET login_count = 5 WHERE id = $1', [id]);
      const ended: string[] = [];
      const note = (name: string) => () => void ended.push(name);
      const held = login('held').then(note('held'));
      await untilLocked(other);
      await login('after').then(note('after'));
      await held;
      expect(ended).toEqual(['after', 'held']);
      await other.query('ROLLBACK');
    });

    test('logins that cross with another transaction at an external ID are answered', async () => {
      const register = (value: string) =>
        recordLogin(server.url, project, { authMethod: 'google', authValue: value, externalId: `x-${value}` });
      await other.query('BEGIN');
      const insert = (value: string, externalId: string) =>
        other.query(
          `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, external_id)
           SELECT id, 'google', $1, $1, $2 FROM projects WHERE app_id = $3`,
          [value, externalId, project.app_id],
        );
      // The other one has what the second login wants, and then wants what the first has.
      await insert('z', 'x-c');
      const logins = Promise.all(['b', 'c'].map(register));
      await insert('b', 'x-z').catch(() => undefined);
      await other.query('ROLLBACK');
      for (const [place, first] of (await logins).entries()) {
        // A busy machine may take longer to end the other transaction than a login waits for it.
        const { body } = first.status === 503 ? await register(['b', 'c'][place] as string) : first;
        expect(body.data.recordLogin).toMatchObject({ created: true, user: { loginCount: 1 } });
      }
    });

    test('a login of a user who is being removed registers the identity again, under a new ID', async () => {
      const id = (await login('leaving')).body.data.recordLogin.user.id;
      await other.query('BEGIN');
      await other.query('UPDATE users SET deleted_at = now() WHERE id = $1', [id]);
      const again = login('leaving');
      await untilLocked(other);
      await other.query('COMMIT');
      const { status, body } = await again;
      // A busy machine may take longer to end the other transaction than a login waits for it.
      const { user } = (status === 503 ? (await login('leaving')).body : body).data.recordLogin;
      expect(Number(user.id)).toBeGreaterThan(Number(id));
    });

    test('a registration of a user who is being imported is, too', async () => {
      await other.query('BEGIN');
      await other.query(
        `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT id, 'google', 'new', 'new' FROM projects`,
      );
      expect((await login('new')).status).toBe(503);
      await other.query('ROLLBACK');
      expect((await login('new')).status).toBe(200);
    });
  },
);
