import { pino } from 'pino';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { createServer } from '#dist/app/app.js';
import { parseConfig } from '#dist/config/config.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf, expectGraphQLRefusal, explained, requestGraphQL } from '../support/graphql.js';

/** What the client and the log receive when the database fails during an operation. */

const MASKED = 'The service could not complete the request.';

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
});

/** Breaks every statement that reads the table, until `restore`: a real failure of the database, on both engines. */
const broken: string[] = [];
async function breakTable(table: string) {
  await app.context.db.pool.query(`ALTER TABLE ${table} RENAME TO ${table}_gone`);
  broken.push(table);
}
afterEach(async () => {
  for (const table of broken.splice(0)) {
    await app.context.db.pool.query(`ALTER TABLE ${table}_gone RENAME TO ${table}`);
  }
});

test('a failed statement is INTERNAL_SERVER_ERROR at the path of its field, with a masked message', async () => {
  await breakTable('accounts');
  const answer = await project.graphql('{ userPage { users { authValue linked: accounts { id } } } }');
  expect(answer.status).toBe(200);
  expect(answer.data).toBeNull();
  expect(answer.errors).toEqual([
    {
      message: MASKED,
      path: ['userPage'],
      locations: expect.any(Array),
      extensions: explained('INTERNAL_SERVER_ERROR'),
    },
  ]);
});

test('the rest of the answer is kept when a nullable field fails', async () => {
  const { data } = await project.graphql('{ userPage { users { id } } }');
  const [{ id }] = data.userPage.users;
  await breakTable('accounts');
  const answer = await project.graphql(`{ userCount user(id: ${id}) { accounts { id } } }`);
  expect(answer.data).toEqual({ userCount: 1, user: null });
  expect(codesOf(answer)).toEqual(['INTERNAL_SERVER_ERROR']);
});

test('a mutation whose statement fails is INTERNAL_SERVER_ERROR and changes nothing', async () => {
  await breakTable('bans');
  const answer = await project.graphql(
    'mutation { recordLogin(input: { authMethod: "google", authValue: "1" }) { created } }',
  );
  expect(codesOf(answer)).toEqual(['INTERNAL_SERVER_ERROR']);
  expect((await project.graphql('{ userCount }')).data).toEqual({ userCount: 1 });
});

test('when authentication itself fails, the answer is a GraphQL error with status 500', async () => {
  // A new project has no cached credentials, so its request must read the broken table.
  const { credentials } = await app.createProject();
  await breakTable('app_secrets');
  const answer = await requestGraphQL(app, {
    method: 'POST',
    headers: { ...credentials, 'content-type': 'application/json' },
    body: JSON.stringify({ query: '{ userCount }' }),
  });
  expect(answer.status).toBe(500);
  expect(expectGraphQLRefusal(answer.text)).toEqual({ message: MASKED, code: 'INTERNAL_SERVER_ERROR' });
});

test('the answer to a failure reveals no internal details', async () => {
  const { credentials } = await app.createProject();
  for (const table of ['app_secrets', 'accounts']) {
    await breakTable(table);
    const { text, headers } = await requestGraphQL(app, {
      method: 'POST',
      headers: { ...credentials, 'content-type': 'application/json' },
      body: JSON.stringify({ query: `{ searchUsers(by: { address: "${stellarAddress(1)}" }) { id } }` }),
    });
    const shown = text + JSON.stringify([...headers]);
    expect(shown).toContain('INTERNAL_SERVER_ERROR');
    expect(shown).not.toMatch(/prisma|select|relation|accounts|secrets|42P01|stack|\.js|\.ts|postgres/i);
  }
});

/** The log lines that a separate server writes for one operation. */
async function logOf(query: string, variables: Record<string, unknown>): Promise<Json[]> {
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => lines.push(line) });
  const server = await createServer({ config: parseConfig({ PORT: '0' }), log, context: app.context });
  await server.inject({
    method: 'POST',
    url: '/graphql',
    headers: { ...project.credentials, 'content-type': 'application/json' },
    payload: { query, variables },
  });
  await server.close();
  return lines.map((line) => JSON.parse(line));
}

test('the log contains the cause of a failure once, at level error', async () => {
  await breakTable('accounts');
  const lines = await logOf('{ userPage { users { accounts { id } } } }', {});
  const errors = lines.filter((line) => line.level >= 50);
  expect(errors).toHaveLength(1);
  expect(errors[0].err.message).toContain('accounts');
});

test('a refused operation is one line in the log, without its values', async () => {
  const lines = await logOf('query ($by: UserSearch!) { searchUsers(by: $by) { id } }', {
    by: { email: 'Private Person at example.com' },
  });
  expect(lines.map((line) => line.level)).toEqual([30]);
  expect(JSON.stringify(lines)).not.toContain('Private');
});
