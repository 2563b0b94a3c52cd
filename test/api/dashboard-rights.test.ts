import { request as httpRequest } from 'node:http';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type Json, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** What an operator may do is read again whenever something is done, and not only when a request begins. */
const app = useTestApp();
let chief: TestOperator;
beforeAll(async () => {
  chief = await logIn(app, 'admin');
});

const operators = () => app.context.services.operators;
const sql = async (text: string, ...values: unknown[]): Promise<Json[]> =>
  (await app.context.db.pool.query(text, values)).rows;

/** What takes the right away from an operator, and what is answered then. */
const ENDS: [what: string, end: (who: TestOperator) => Promise<unknown>, code: string][] = [
  ['removed', ({ name }) => operators().removeOperator(THE_OPERATOR, name), 'UNAUTHENTICATED'],
  ['demoted', ({ name }) => operators().setRole(THE_OPERATOR, name, 'viewer'), 'FORBIDDEN'],
  [
    'logged out',
    ({ name }) =>
      sql('DELETE FROM operator_sessions WHERE operator_id = (SELECT id FROM operators WHERE name = $1)', name),
    'UNAUTHENTICATED',
  ],
  [
    'idle for too long',
    ({ name }) =>
      sql(
        `UPDATE operator_sessions SET last_seen_at = now() - interval '30 minutes'
         WHERE operator_id = (SELECT id FROM operators WHERE name = $1)`,
        name,
      ),
    'UNAUTHENTICATED',
  ],
];

/** Sends a body in two parts. The second one is sent when `pause` is over, which begins once the session was looked for. */
async function postSlowly(
  who: TestOperator,
  path: string,
  [head, rest]: [string, string],
  pause: () => Promise<unknown>,
) {
  const before = app.statements.length;
  const sent = httpRequest(app.url + path, {
    method: 'POST',
    headers: {
      cookie: who.cookie,
      'sec-fetch-site': 'same-origin',
      'content-type': path.endsWith('/graphql') ? 'application/json' : 'application/x-ndjson',
      'content-length': Buffer.byteLength(head + rest),
    },
  });
  const answered = new Promise<Json>((resolve, reject) => {
    sent.on('error', reject).on('response', async (response) => {
      let text = '';
      for await (const chunk of response.setEncoding('utf8')) text += chunk;
      resolve({ status: response.statusCode, text });
    });
  });
  sent.write(head);
  await vi.waitFor(() =>
    expect(app.statements.slice(before).some((text) => text.includes('operator_sessions'))).toBe(true),
  );
  await pause();
  sent.end(rest);
  return answered;
}

describe.each(ENDS)('an operator who is %s', (what, end, code) => {
  test('while the body of a change arrives does not act', async () => {
    const who = await logIn(app, 'admin');
    const name = `added-${what.replaceAll(' ', '-')}`;
    const body = JSON.stringify({ query: `mutation { addOperator(name: "${name}", role: ADMIN) { name } }` });
    const answer = await postSlowly(who, '/dashboard/graphql', [body.slice(0, -1), body.slice(-1)], () => end(who));
    expect(codesOf(JSON.parse(answer.text))).toEqual([code]);
    expect(await sql('SELECT 1 FROM operators WHERE name = $1', name)).toEqual([]);
  });

  test('between two changes of one document makes only the first', async () => {
    const who = await logIn(app, 'admin');
    const project = await app.createProject('before');
    const { services } = app.context;
    const createProject = vi.spyOn(services.projects, 'createProject').mockImplementationOnce(async (...args) => {
      createProject.mockRestore();
      const created = await services.projects.createProject(...args);
      await end(who);
      return created;
    });
    const answer = await who.graphql(
      `mutation ($appId: ID!) { createProject(name: "first") { appSecret } renameProject(appId: $appId, name: "after") { name } }`,
      { appId: project.appId },
    );
    expect(codesOf(answer)).toEqual([code]);
    expect(answer.errors?.[0]?.path).toEqual(['renameProject']);
    expect(await sql('SELECT name FROM projects WHERE app_id = $1', project.appId)).toEqual([{ name: 'before' }]);
  });
});

test('an operator who is demoted in the middle of many users goes no further', async () => {
  const who = await logIn(app, 'support');
  const project = await app.createProject();
  await project.addUsers(...['a', 'b', 'c'].map((auth_value) => ({ auth_method: 'custom', auth_value })));
  const ids = (
    await sql(
      'SELECT u.id FROM users u JOIN projects p ON p.id = project_id WHERE app_id = $1 ORDER BY id',
      project.appId,
    )
  ).map(({ id }) => String(id));
  const { users } = app.context.services;
  const removeUser = vi.spyOn(users, 'removeUser').mockImplementationOnce(async (...args) => {
    removeUser.mockRestore();
    await users.removeUser(...args);
    await operators().setRole(THE_OPERATOR, who.name, 'viewer');
  });
  const { removeUsers } = await who.ask(
    'mutation ($appId: ID!, $ids: [ID!]!) { removeUsers(appId: $appId, ids: $ids) { ok code } }',
    { appId: project.appId, ids },
  );
  expect(removeUsers).toEqual([
    { ok: true, code: null },
    { ok: false, code: 'FORBIDDEN' },
    { ok: false, code: 'FORBIDDEN' },
  ]);
  const { project: seen } = await chief.ask('query ($appId: ID!) { project(appId: $appId) { userCount } }', {
    appId: project.appId,
  });
  expect(seen.userCount).toBe(2);
});
