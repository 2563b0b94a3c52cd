import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { expectError, idOf, SIX_ROUTES, verify } from '../support/rest.js';

/**
 * The REST contract, sentence by sentence: everything in docs/spec.md except its endpoints, which are in
 * server-api-*.test.ts. The title of a test is the sentence that it checks.
 */

const app = useTestApp();

const RFC_3339_UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

const EMAIL_USER = {
  auth_method: 'email',
  auth_value: 'Ada@example.com',
  created_at: '2026-01-02T03:04:05.678Z',
  last_login: '2026-02-03T04:05:06.789Z',
  login_count: 7,
  accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
};
const WALLET_USER = { auth_method: 'wallet', auth_value: ethereumAddress(2), created_at: '2026-01-01T00:00:00Z' };

async function projectWithUsers(): Promise<TestProject> {
  const project = await app.createProject();
  await project.addUsers(EMAIL_USER, WALLET_USER);
  return project;
}

function recordLogin(project: TestProject, authValue: string): Promise<Json> {
  return project.graphql(
    `mutation ($value: String!) {
      recordLogin(input: { authMethod: "email", authValue: $value }) { created user { id } }
    }`,
    { value: authValue },
  );
}

describe('What the service does', () => {
  test('a user may sign in by one of several login methods', async () => {
    const project = await app.createProject();
    const methods = ['email', 'passkey', 'wallet', 'google'];
    const value = { email: 'a@example.com', passkey: 'credential', wallet: stellarAddress(3), google: '1234567890' };
    await project.addUsers(
      ...methods.map((method) => ({ auth_method: method, auth_value: value[method as keyof typeof value] })),
    );
    const { body } = await project.rest('/server/users');
    expect(body.result.users.map((user: Json) => user.auth_method).sort()).toEqual([...methods].sort());
  });

  test('a user may have public accounts linked: custodial ones, or an external wallet address used to log in', async () => {
    const project = await projectWithUsers();
    const custodial = await verify(project, { address: stellarAddress(1) });
    const external = await verify(project, { address: ethereumAddress(2) });
    expect([custodial.body.result.wallet_type, external.body.result.wallet_type]).toEqual(['custodial', 'external']);
  });
});

describe('Rules that hold for every route', () => {
  describe('1. every route operates only on users of the project identified by the credentials of the request', () => {
    let own: TestProject;
    let other: TestProject;
    let theirs: number;
    beforeAll(async () => {
      [own, other] = await Promise.all([app.createProject(), projectWithUsers()]);
      theirs = await idOf(other, EMAIL_USER.auth_value);
    });

    test('list', async () => {
      expect((await own.rest('/server/users')).body.result).toMatchObject({ total_user: 0, users: [] });
    });
    test('count', async () => {
      expect((await own.rest('/server/users/count')).body.result).toEqual({ total_user: 0 });
    });
    test('search by email', async () => {
      const { body } = await own.rest(`/server/users/search?email=${EMAIL_USER.auth_value}`);
      expect(body.result).toEqual({ total_user: 0, users: [] });
    });
    test('search by address', async () => {
      const { body } = await own.rest(`/server/users/search?address=${stellarAddress(1)}`);
      expect(body.result).toEqual({ total_user: 0, users: [] });
    });
    test('get', async () => {
      expectError(await own.rest(`/server/users/${theirs}`), 404);
    });
    test('delete', async () => {
      expectError(await own.rest(`/server/users/${theirs}`, { method: 'DELETE' }), 404);
      expect((await other.rest(`/server/users/${theirs}`)).status).toBe(200);
    });
    test('verify', async () => {
      expect((await verify(own, { address: stellarAddress(1) })).body.result).toEqual({ exists: false });
      const pinned = await verify(own, { address: stellarAddress(1), user_id: theirs });
      expect(pinned.body.result).toEqual({ exists: false });
    });
  });

  test('2. user responses contain public account addresses only: no other field of an account or a wallet', async () => {
    const project = await projectWithUsers();
    const id = await idOf(project, EMAIL_USER.auth_value);
    const answers = await Promise.all([
      project.rest(`/server/users/${id}`),
      project.rest(`/server/users?login_method=email`),
      project.rest(`/server/users/search?email=${EMAIL_USER.auth_value}`),
    ]);
    const users = answers.flatMap(({ body }) => body.result.users ?? [body.result]);
    expect(users).toHaveLength(3);
    for (const user of users) {
      expect(Object.keys(user).sort()).toEqual(
        ['accounts', 'auth_method', 'auth_value', 'created_at', 'id', 'last_login', 'login_count', 'wallet'].sort(),
      );
      expect(user.accounts.map((account: Json) => Object.keys(account).sort())).toEqual([
        ['id', 'network', 'public_key'],
      ]);
    }
  });
});

describe('Resources: the response envelope', () => {
  let project: TestProject;
  let id: number;
  beforeAll(async () => {
    project = await projectWithUsers();
    id = await idOf(project, EMAIL_USER.auth_value);
  });
  const request = ({ path, init }: (typeof SIX_ROUTES)[number]) =>
    project.rest(path.replace('/users/1', `/users/${id}`), init);
  const withData = SIX_ROUTES.filter(({ route }) => !route.startsWith('DELETE'));

  test.each(withData)('success with data: object with message (string) and result (object): $route', async (route) => {
    const { status, body } = await request(route);
    expect(status).toBe(200);
    expect(body).toEqual({ message: expect.any(String), result: expect.any(Object) });
    expect(body.message).not.toBe('');
  });

  test.each(SIX_ROUTES)('error: object with error (string): $route', async ({ path, init }) => {
    const answer = await fetch(app.url + path, init);
    expectError({ status: answer.status, body: await answer.json() }, 401);
  });

  test.each(withData)('responses are JSON: $route', async (route) => {
    expect((await request(route)).headers.get('content-type')).toBe('application/json; charset=utf-8');
  });

  test('success without data: object with message (string) only', async () => {
    const { body } = await project.rest(`/server/users/${id}`, { method: 'DELETE' });
    expect(body).toEqual({ message: expect.any(String) });
  });
});

describe('Resources: the user object', () => {
  let project: TestProject;
  let user: Json;
  beforeAll(async () => {
    project = await projectWithUsers();
    user = (await project.rest('/server/users?login_method=email')).body.result.users[0];
  });

  test('id: integer, used in the single-user routes and as user_id in verification', async () => {
    expect(user.id).toSatisfy(Number.isInteger);
    expect((await project.rest(`/server/users/${user.id}`)).body.result).toEqual(user);
    const { body } = await verify(project, { address: stellarAddress(1), user_id: user.id });
    expect(body.result).toMatchObject({ exists: true, user_id: user.id });
  });
  test('auth_method: how the user authenticated', () => {
    expect(user.auth_method).toBe('email');
  });
  test('auth_value: for an email login, the login email', () => {
    expect(user.auth_value).toBe('Ada@example.com');
  });
  test('wallet: the value recorded for the user, when applicable', async () => {
    expect(user.wallet).toBeNull();
    const { body } = await project.rest('/server/users?login_method=wallet');
    expect(body.result.users[0].wallet).toBe(WALLET_USER.auth_value);
  });
  test('created_at: when the user was created, RFC 3339 in UTC', () => {
    expect(user.created_at).toBe('2026-01-02T03:04:05.678Z');
  });
  test("last_login: the user's most recent login time", async () => {
    expect(user.last_login).toBe('2026-02-03T04:05:06.789Z');
    await recordLogin(project, 'ada@example.com');
    const { last_login } = (await project.rest(`/server/users/${user.id}`)).body.result;
    expect(last_login).toMatch(RFC_3339_UTC);
    expect(Date.parse(last_login)).toBeGreaterThan(Date.parse(user.last_login));
  });
  test('login_count: integer, number of recorded logins', async () => {
    const fresh = await app.createProject();
    for (const _ of [1, 2, 3]) await recordLogin(fresh, 'grace@example.com');
    expect((await fresh.rest('/server/users')).body.result.users[0].login_count).toBe(3);
  });
  test('accounts: the public accounts linked to the user', () => {
    expect(user.accounts).toHaveLength(1);
  });
});

test('Account object: id (integer), network, and public_key (Stellar form starts with G)', async () => {
  const project = await projectWithUsers();
  const [account] = (await project.rest('/server/users?login_method=email')).body.result.users[0].accounts;
  expect(account).toEqual({ id: expect.any(Number), network: 'stellar', public_key: stellarAddress(1) });
  expect(account.id).toSatisfy(Number.isInteger);
  expect(account.public_key).toMatch(/^G/);
});

describe('States and transitions', () => {
  test('no state field is exposed on a user, even on a user that was removed and registered again', async () => {
    const project = await projectWithUsers();
    await project.rest(`/server/users/${await idOf(project, 'Ada@example.com')}`, { method: 'DELETE' });
    await project.addUsers(EMAIL_USER);
    const id = await idOf(project, 'Ada@example.com');
    const { body } = await project.rest(`/server/users/${id}`);
    expect(Object.keys(body.result).filter((key) => /delete|remove|state|status|ban/.test(key))).toEqual([]);
  });

  test('DELETE removes the user from the project', async () => {
    const project = await projectWithUsers();
    const id = await idOf(project, 'Ada@example.com');
    expect((await project.rest(`/server/users/${id}`, { method: 'DELETE' })).status).toBe(200);
    expectError(await project.rest(`/server/users/${id}`), 404);
    expect((await project.rest('/server/users/count')).body.result.total_user).toBe(1);
    expect((await project.rest('/server/users')).body.result.users.map((user: Json) => user.id)).not.toContain(id);
    const { body } = await project.rest('/server/users/search?email=ada@example.com');
    expect(body.result.total_user).toBe(0);
  });

  test('the user can register again later: deletion is not a ban', async () => {
    const project = await projectWithUsers();
    const id = await idOf(project, 'Ada@example.com');
    await project.rest(`/server/users/${id}`, { method: 'DELETE' });
    const { data } = await recordLogin(project, 'ada@example.com');
    expect(data.recordLogin.created).toBe(true);
    expect((await project.rest(`/server/users/${data.recordLogin.user.id}`)).status).toBe(200);
  });

  test('a ban is a separate action that blocks future logins from the identity', async () => {
    const project = await projectWithUsers();
    const scope = await app.context.services.projects.getScope(project.appId);
    const identity = { authMethod: 'email', authValue: 'Ada@example.com', authValueKey: 'ada@example.com' };
    await app.context.services.bans.ban(scope, identity);
    expect((await recordLogin(project, 'ada@example.com')).errors[0].extensions.code).toBe('BANNED');
    // A ban is not a removal: the user still exists.
    expect((await project.rest('/server/users/count')).body.result.total_user).toBe(2);
  });

  test('a removed user no longer matches wallet verification', async () => {
    const project = await projectWithUsers();
    const id = await idOf(project, 'Ada@example.com');
    expect((await verify(project, { address: stellarAddress(1) })).body.result.exists).toBe(true);
    await project.rest(`/server/users/${id}`, { method: 'DELETE' });
    expect((await verify(project, { address: stellarAddress(1) })).body.result).toEqual({ exists: false });
    const pinned = await verify(project, { address: stellarAddress(1), user_id: id });
    expect(pinned.body.result).toEqual({ exists: false });
  });
});

describe('Errors', () => {
  test('404 is returned by the single-user routes only: an empty result of another route is 200', async () => {
    const project = await app.createProject();
    const answers = await Promise.all([
      project.rest('/server/users?page=999'),
      project.rest('/server/users/count?end_date=1980-01-01'),
      project.rest('/server/users/search?email=nobody@example.com'),
      project.rest(`/server/users/search?address=${ethereumAddress(9)}`),
      verify(project, { address: ethereumAddress(9), user_id: 999_999_999 }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  });

  test('500: the service could not complete the request', async () => {
    const project = await app.createProject();
    const { pool } = app.context.db;
    // A count reads the tallies, not the users.
    const tables = ['users', 'tallies'];
    for (const table of tables) await pool.query(`ALTER TABLE ${table} RENAME TO ${table}_elsewhere`);
    try {
      const answers = await Promise.all(SIX_ROUTES.map(({ path, init }) => project.rest(path, init)));
      for (const answer of answers)
        expect(expectError(answer, 500)).toBe('The service could not complete the request.');
    } finally {
      for (const table of tables) await pool.query(`ALTER TABLE ${table}_elsewhere RENAME TO ${table}`);
    }
  });
});

describe('Versioning', () => {
  test.each(SIX_ROUTES)('routes carry no version segment; all begin with /server: $route', async ({ path, init }) => {
    const project = await app.createProject();
    expectError(await project.rest(`/v1${path}`, init), 404);
    expectError(await project.rest(path.replace('/server', '/server/v1'), init), 404);
    // Outside the contract there are routes of these names for many wallets and users, which refuse the request.
    const isTaken = ['/server/wallets/verify', '/server/users'].includes(path);
    expectError(await project.rest(path.replace('/server', ''), init), isTaken ? 400 : 404);
  });
});
