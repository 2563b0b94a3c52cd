import { beforeAll, describe, expect, test } from 'vitest';
import { ofKeptLines } from '#dist/domain/kept-texts.js';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { expectError } from '../support/rest.js';

/** Users by their IDs at /users, so that REST alone can keep a copy. */

const app = useTestApp();
let project: TestProject;
let ids: number[];
beforeAll(async () => {
  project = await app.createProject();
  const identities = [
    { auth_method: 'google', auth_value: 'g-1' },
    { auth_method: 'github', auth_value: 'h-1', email: 'ada@github.example', email_verified: true },
  ];
  await project.importLines([
    {
      auth_method: 'google',
      auth_value: 'g-1',
      email: 'ada@example.com',
      external_id: 'A-1',
      login_count: 3,
      created_at: '2026-01-31T12:00:00Z',
      last_login: '2026-02-14T08:30:00Z',
      metadata: { plan: 'pro' },
      identities,
      accounts: [{ network: 'ethereum', public_key: ethereumAddress(1) }],
    },
    { auth_method: 'passkey', auth_value: 'p-1', created_at: '2026-01-30T12:00:00Z' },
  ]);
  const { body } = await project.rest('/server/users');
  ids = body.result.users.map(({ id }: Json) => id);
});

describe('GET /users', () => {
  test('answers users whole, in the order of the IDs, and as /server has them', async () => {
    const { status, body } = await project.rest(`/users?ids=${ids[1]},${ids[0]}`);
    expect(status).toBe(200);
    expect(body.message).toBe('Users found.');
    const [plain, ada] = body.result.users;
    for (const { email, metadata, identities, ...user } of [plain, ada]) {
      for (const line of Object.keys(ofKeptLines(() => null))) delete user[line];
      expect(user).toEqual((await project.rest(`/server/users/${user.id}`)).body.result);
    }
    expect(plain).toMatchObject({ email: null, external_id: null, metadata: null });
    expect(plain.identities).toEqual([
      {
        auth_method: 'passkey',
        auth_value: 'p-1',
        email: null,
        email_verified: null,
        created_at: '2026-01-30T12:00:00.000Z',
        last_login: null,
        primary: true,
      },
    ]);
    expect(ada).toMatchObject({ email: 'ada@example.com', external_id: 'A-1', metadata: { plan: 'pro' } });
    expect(ada.identities).toMatchObject([
      { auth_method: 'google', auth_value: 'g-1', email: 'ada@example.com', primary: true },
      { auth_method: 'github', email: 'ada@github.example', email_verified: true, primary: false },
    ]);
  });

  test('leaves out whom the project does not have, and takes a hundred IDs by two statements', async () => {
    const other = await app.createProject();
    expect((await other.rest(`/users?ids=${ids.join()}`)).body.result).toEqual({ users: [] });
    const many = [...ids, ...Array.from({ length: 98 }, (_, n) => 900_000 + n)];
    app.statements.length = 0;
    const { body } = await project.rest(`/users?ids=${many.slice(0, 50)}&ids=${many.slice(50)}`);
    expect(body.result.users.map(({ id }: Json) => id)).toEqual(ids);
    expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toHaveLength(2);
    const gone = (
      await project.graphql(
        'mutation { recordLogin(input: { authMethod: "passkey", authValue: "gone" }) { user { id } } }',
      )
    ).data.recordLogin.user.id;
    expect((await project.rest(`/users?ids=${gone}`)).body.result.users).toHaveLength(1);
    await project.rest(`/server/users/${gone}`, { method: 'DELETE' });
    expect((await project.rest(`/users?ids=${gone}`)).body.result.users).toEqual([]);
  });

  test.each([
    ['/users', 'ids: got nothing, expected at most 100 user IDs, separated by commas.'],
    ['/users?ids=', 'ids[0]: got "", expected decimal digits, 1 and up.'],
    ['/users?ids=1,x', 'ids[1]: got "x", expected decimal digits, 1 and up.'],
    ['/users?ids=1,0', 'ids[1]: got "0", expected decimal digits, 1 and up.'],
    [`/users?ids=${Array(101).fill(1)}`, 'ids: got 101, expected at most 100.'],
    [
      `/users?ids=${'1'.repeat(2_101)}`,
      'ids: got a text of 2101 characters, expected at most 100 user IDs, separated by commas.',
    ],
    [
      '/users?ids[]=1',
      'ids: got brackets after the name, expected the name ids alone. Where a parameter takes several values, separate them by commas.',
    ],
  ])('refuses %.30s', async (path, error) => {
    expect(expectError(await project.rest(path), 400)).toBe(error);
  });

  test('needs credentials, and the scope read', async () => {
    const { secrets, projects } = app.context.services;
    const scope = await projects.getScope(project.appId);
    const terms = { label: 'changes', scopes: ['changes' as const], expiresInMs: null };
    const { appSecret } = await secrets.addSecret(scope, terms);
    const headers = { 'service-app-secret': appSecret };
    expect(expectError(await project.rest('/users?ids=1', { headers }), 403)).toMatch('lacks the scope read');
    expect((await fetch(`${app.url}/users?ids=1`)).status).toBe(401);
  });

  test('names parameters that it ignores', async () => {
    const { headers } = await project.rest('/users?ids=1&limit=3');
    expect(headers.get('userdir-ignored-parameters')).toBe('limit');
  });
});
