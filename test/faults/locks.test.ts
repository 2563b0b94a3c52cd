import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { Json } from '../support/app.js';
import { type Credentials, call, type RunningServer, startServer, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';

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
        ...{ DATABASE_STATEMENT_TIMEOUT_MS: '1000', DEMO: 'off', LOG_LEVEL: 'error' },
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
