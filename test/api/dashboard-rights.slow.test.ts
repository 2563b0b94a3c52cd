import { request as httpRequest } from 'node:http';
import { createConnection } from 'node:net';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';
import { PATIENCE } from '../support/waiting.js';

/** What an operator may do is read again whenever something is done, and not only when a request begins. */
const app = useTestApp();
let chief: TestOperator;
beforeAll(async () => {
  chief = await logIn(app, 'admin');
});

const operators = () => app.context.services.operators;
const sql = async (text: string, ...values: unknown[]): Promise<Json[]> =>
  (await app.context.db.pool.query(text, values)).rows;
const path = ({ appId }: TestProject, rest: string) => `/dashboard/projects/${appId}/${rest}`;
const lines = (from: number, count: number) =>
  Array.from(
    { length: count },
    (_, index) => `${JSON.stringify({ auth_method: 'custom', auth_value: `${from + index}` })}\n`,
  ).join('');
const lastFrame = (text: string): Json => JSON.parse(text.trim().split('\n').at(-1) as string);
const userCount = async ({ appId }: TestProject) =>
  (await chief.ask('query ($appId: ID!) { project(appId: $appId) { userCount } }', { appId })).project.userCount;
const refusals = async ({ appId }: TestProject, { name }: TestOperator): Promise<Json[]> =>
  (
    await sql(
      `SELECT details->>'refused' AS what FROM audit_log a JOIN projects p ON p.id = project_id
       WHERE app_id = $1 AND actor = $2 AND action = 'refuse'`,
      appId,
      `operator:${name}`,
    )
  ).map(({ what }) => what);

const OF_OPERATOR = (name: string) => `operator_id = (SELECT id FROM operators WHERE name = '${name}')`;
/** What takes the right away from an operator, as SQL, and what is answered then. */
const ENDS: [what: string, sql: (name: string) => string, code: string][] = [
  ['removed', (name) => `DELETE FROM operators WHERE name = '${name}'`, 'UNAUTHENTICATED'],
  ['demoted', (name) => `UPDATE operators SET role = 'viewer' WHERE name = '${name}'`, 'FORBIDDEN'],
  ['limited to no project', (name) => `UPDATE operators SET is_limited = true WHERE name = '${name}'`, 'NOT_FOUND'],
  ['logged out', (name) => `DELETE FROM operator_sessions WHERE ${OF_OPERATOR(name)}`, 'UNAUTHENTICATED'],
  [
    'idle for too long',
    (name) => `UPDATE operator_sessions SET last_seen_at = now() - interval '30 minutes' WHERE ${OF_OPERATOR(name)}`,
    'UNAUTHENTICATED',
  ],
  [
    'there for twelve hours',
    (name) => `UPDATE operator_sessions SET expires_at = now() - interval '1 ms' WHERE ${OF_OPERATOR(name)}`,
    'UNAUTHENTICATED',
  ],
];

let large: Promise<TestProject> | undefined;
/** A project whose downloads are larger than the buffers on the way to a client. */
function largeProject(): Promise<TestProject> {
  large ??= makeLargeProject();
  return large;
}

async function makeLargeProject(): Promise<TestProject> {
  const project = await app.createProject();
  const text = 'x'.repeat(1_000);
  await project.addUsers(
    ...Array.from({ length: 12_000 }, (_, index) => ({ auth_method: 'custom', auth_value: `${index}-${text}` })),
  );
  await sql(
    `INSERT INTO audit_log (project_id, actor, action, details)
     SELECT id, 'operator:x', 'export', jsonb_build_object('x', $2::text) FROM projects, generate_series(1, 12000) WHERE app_id = $1`,
    project.appId,
    text,
  );
  return project;
}

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
  await vi.waitFor(
    () => expect(app.statements.slice(before).some((text) => text.includes('UPDATE operator_sessions'))).toBe(true),
    PATIENCE,
  );
  await pause();
  sent.end(rest);
  return answered;
}

describe.each(ENDS)('an operator who is %s', (what, endOf, code) => {
  const end = ({ name }: TestOperator) => sql(endOf(name));

  test('while the body of a change arrives does not act', async () => {
    const who = await logIn(app, 'admin');
    const name = `added-${what.replaceAll(' ', '-')}`;
    const body = JSON.stringify({ query: `mutation { addOperator(name: "${name}", role: ADMIN) { name } }` });
    const answer = await postSlowly(who, '/dashboard/graphql', [body.slice(0, -1), body.slice(-1)], () => end(who));
    // What concerns no project is refused by other words to one who is limited.
    expect(codesOf(JSON.parse(answer.text))).toEqual([code === 'NOT_FOUND' ? 'FORBIDDEN' : code]);
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
      `mutation ($appId: ID!) { createProject(name: "first") { appSecret } renameProject(appId: $appId, name: "after") { changed } }`,
      { appId: project.appId },
    );
    expect(codesOf(answer)).toEqual([code]);
    expect(answer.errors?.[0]?.path).toEqual(['renameProject']);
    expect(await sql('SELECT name FROM projects WHERE app_id = $1', project.appId)).toEqual([{ name: 'before' }]);
  });
});

describe.each(ENDS.slice(0, 3))('an operator who is %s', (_what, endOf, code) => {
  const end = ({ name }: TestOperator) => sql(endOf(name));

  test('while a file arrives imports nothing, and that is recorded', async () => {
    const [who, project] = [await logIn(app, 'admin'), await app.createProject()];
    const body = lines(0, 3);
    const parts: [string, string] = [body.slice(0, -1), body.slice(-1)];
    const { text } = await postSlowly(who, path(project, 'import'), parts, () => end(who));
    expect(lastFrame(text).error.code).toBe(code);
    expect(await userCount(project)).toBe(0);
    expect(await refusals(project, who)).toEqual(['import']);
  });

  test.each([
    ['all', '', 0],
    ['all but what was committed before', '?skip_invalid=true', 1_000],
  ])('while an import runs has it undone: %s', async (_what, query, remain) => {
    const [who, project] = [await logIn(app, 'admin'), await app.createProject()];
    const { transfers } = app.context.services;
    const importUsers = vi.spyOn(transfers, 'importUsers').mockImplementationOnce((scope, input, options) => {
      importUsers.mockRestore();
      let commits = 0;
      const permit: typeof options.permit = async (tx) => {
        commits += 1;
        if (query === '' || commits === 2) {
          // The embedded database has one connection, which the import holds.
          if (inject('engine') === 'embedded') await tx.query(Prisma.raw(endOf(who.name)));
          else await end(who);
        }
        return options.permit?.(tx);
      };
      return transfers.importUsers(scope, input, { ...options, permit });
    });
    const response = await who.fetch(path(project, `import${query}`), {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: lines(0, 1_500),
    });
    expect(lastFrame(await response.text()).error.code).toBe(code);
    expect(await userCount(project)).toBe(remain);
    expect(await refusals(project, who)).toEqual(['import']);
  });

  // Every role may export.
  test.runIf(code !== 'FORBIDDEN').each(['export', 'audit'])(
    'while a download of the %s runs does not get all of it',
    async (what) => {
      const [who, project] = [await logIn(app, 'viewer'), await largeProject()];
      const response = await who.fetch(path(project, what));
      expect(response.status).toBe(200);
      const reader = (response.body as ReadableStream<Uint8Array>).getReader();
      await reader.read();
      await end(who);
      const rest = async () => {
        while (!(await reader.read()).done);
      };
      // Not before the service has noticed it.
      await vi.waitFor(async () => expect(await refusals(project, who)).toEqual(['export']), PATIENCE);
      await expect(rest()).rejects.toThrow();
    },
  );
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
  const { identities } = app.context.services;
  const restore = vi.spyOn(identities, 'restore').mockImplementationOnce(async (...args) => {
    restore.mockRestore();
    const user = await identities.restore(...args);
    await operators().updateOperator(THE_OPERATOR, who.name, { role: 'viewer' });
    return user;
  });
  const inProject = who.inProject(project.appId);
  await inProject.ask('mutation ($ids: [ID!]!) { removeUsers(ids: $ids) { outcomes { ok } } }', { ids });
  const { restoreUsers } = await who.ask(
    'mutation ($appId: ID!, $ids: [ID!]!) { restoreUsers(appId: $appId, ids: $ids) { ok code } }',
    { appId: project.appId, ids },
  );
  expect(restoreUsers).toEqual([
    { ok: true, code: null },
    { ok: false, code: 'FORBIDDEN' },
    { ok: false, code: 'FORBIDDEN' },
  ]);
  expect(await userCount(project)).toBe(1);
});

test.each(ENDS.slice(0, 3))('the deletion of a project stops when its admin is %s', async (_what, endOf) => {
  const [who, project] = [await logIn(app, 'admin'), await app.createProject('doomed')];
  await sql(
    `INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key)
     SELECT id, 'custom', n::text, n::text FROM projects, generate_series(1, 5000) AS n WHERE app_id = $1`,
    project.appId,
  );
  const { lifecycle } = app.context.services;
  const deleteProject = vi.spyOn(lifecycle, 'deleteProject').mockImplementationOnce((scope, options, requestId) => {
    deleteProject.mockRestore();
    let transactions = 0;
    const permit: typeof options.permit = async (tx) => {
      transactions += 1;
      // The first one deletes users, of whom there are none.
      if (transactions === 3) {
        if (inject('engine') === 'embedded') await tx.query(Prisma.raw(endOf(who.name)));
        else await sql(endOf(who.name));
      }
      return options.permit?.(tx);
    };
    return lifecycle.deleteProject(scope, { ...options, permit }, requestId);
  });
  await who.graphql('mutation ($appId: ID!) { deleteProject(appId: $appId, name: "doomed") }', {
    appId: project.appId,
  });
  await vi.waitFor(async () => expect(await refusals(project, who)).toEqual(['deleteProject']), PATIENCE);
  const [left] = await sql(
    'SELECT count(*)::int AS bans, disabled_at IS NOT NULL AS disabled FROM bans b JOIN projects p ON p.id = b.project_id WHERE app_id = $1 GROUP BY 2',
    project.appId,
  );
  expect(left).toEqual({ bans: 3_000, disabled: true });
});

test('the deletion of a project does not stop when its admin logs out', async () => {
  const [who, project] = [await logIn(app, 'admin'), await app.createProject('doomed')];
  const { lifecycle } = app.context.services;
  const deleteProject = vi.spyOn(lifecycle, 'deleteProject').mockImplementationOnce(async (...args) => {
    deleteProject.mockRestore();
    await sql(`DELETE FROM operator_sessions WHERE ${OF_OPERATOR(who.name)}`);
    return lifecycle.deleteProject(...args);
  });
  await who.graphql('mutation ($appId: ID!) { deleteProject(appId: $appId, name: "doomed") }', {
    appId: project.appId,
  });
  await vi.waitFor(
    async () => expect(await sql('SELECT 1 FROM projects WHERE app_id = $1', project.appId)).toEqual([]),
    PATIENCE,
  );
});

test('a session does not rest while a transfer runs', async () => {
  const [who, project] = [await logIn(app, 'admin'), await app.createProject()];
  const answer = await postSlowly(who, path(project, 'import'), ['{', '}'], async () => {
    await sql(
      `UPDATE operator_sessions SET last_seen_at = now() - interval '29 minutes' WHERE ${OF_OPERATOR(who.name)}`,
    );
    await vi.waitFor(
      async () =>
        expect(
          await sql(
            `SELECT 1 FROM operator_sessions WHERE last_seen_at > now() - interval '28 minutes' AND ${OF_OPERATOR(who.name)}`,
          ),
        ).toHaveLength(1),
      PATIENCE,
    );
  });
  expect(lastFrame(answer.text).report.failed).toBe(1);
});

describe('the places for transfers', () => {
  test.each(['GET export', 'GET audit', 'POST import'])(
    'are free again after requests that end as they begin: %s',
    async (what) => {
      const [method, rest] = what.split(' ') as [string, string];
      const [project, second] = [await app.createProject(), await logIn(app, 'admin')];
      for (const { cookie } of [chief, second]) {
        const { hostname, port, host } = new URL(app.url);
        const socket = createConnection({ host: hostname, port: Number(port) });
        const closed = new Promise((resolve) => socket.once('close', resolve));
        const { projects } = app.context.services;
        const begun = new Promise<void>((resolve) => {
          const getScope = vi.spyOn(projects, 'getScope').mockImplementationOnce(async (...args) => {
            getScope.mockRestore();
            socket.destroy();
            await closed;
            // The service learns of it before it answers these.
            for (let time = 0; time < 3; time += 1) await fetch(`${app.url}/livez`);
            resolve();
            return projects.getScope(...args);
          });
        });
        socket.write(
          `${method} ${path(project, rest)} HTTP/1.1\r\nHost: ${host}\r\nCookie: ${cookie}\r\nSec-Fetch-Site: same-origin\r\n` +
            (method === 'POST' ? 'Content-Type: application/x-ndjson\r\nContent-Length: 100\r\n\r\n{' : '\r\n'),
        );
        await begun;
      }
      await vi.waitFor(async () => {
        const both = await Promise.all([chief, second].map((who) => who.fetch(path(project, 'audit'))));
        for (const response of both) await response.text();
        expect(both.map(({ status }) => status)).toEqual([200, 200]);
      }, PATIENCE);
      expect(await userCount(project)).toBe(0);
    },
  );

  test('are one for an operator, however many others have one', async () => {
    const project = await app.createProject();
    const [first, second, third] = [await logIn(app, 'admin'), await logIn(app, 'admin'), await logIn(app, 'viewer')];
    const ask = async (who: TestOperator) => {
      const response = await who.fetch(path(project, 'audit'));
      return [response.status, response.headers.get('retry-after'), (await response.text()).includes('of yours')];
    };
    const hold = (who: TestOperator, until: () => Promise<unknown>) =>
      postSlowly(who, path(project, 'import'), ['{', '}'], until);
    // Each answer before is recorded, and in a minute an operator may add only so much to the trail.
    const isHeld = (who: TestOperator) =>
      vi.waitFor(async () => expect(await ask(who)).toEqual([503, '10', true]), { ...PATIENCE, interval: 1_000 });
    await hold(first, async () => {
      await isHeld(first);
      await hold(second, async () => {
        await isHeld(second);
        expect((await ask(third))[0]).toBe(200);
      });
    });
    expect((await ask(first))[0]).toBe(200);
  });
});
