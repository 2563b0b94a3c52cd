import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { expectError, values } from '../support/rest.js';

/** The REST contract, sentence by sentence: "GET /server/users" and "GET /server/users/count". */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  // The ids do not follow creation time, so that only the correct order passes.
  await project.addUsers(
    { auth_method: 'wallet', auth_value: stellarAddress(1), created_at: '2026-01-03T12:00:00Z' },
    { auth_method: 'email', auth_value: 'first@example.com', created_at: '2026-01-01T12:00:00Z' },
    { auth_method: 'github', auth_value: 'fifth', created_at: '2026-01-05T12:00:00Z' },
    { auth_method: 'passkey', auth_value: 'second', created_at: '2026-01-02T12:00:00Z' },
    { auth_method: 'google', auth_value: 'fourth', created_at: '2026-01-04T12:00:00Z' },
  );
});

const WALLET = stellarAddress(1);
const ALL = ['fifth', 'fourth', WALLET, 'second', 'first@example.com'];

/** Sends the same filter to the list and to the count, and expects the same total. */
async function ask(query: string): Promise<string[]> {
  const [list, count] = await Promise.all([
    project.rest(`/server/users?${query}`),
    project.rest(`/server/users/count?${query}`),
  ]);
  expect([list.status, count.status]).toEqual([200, 200]);
  expect(count.body.result.total_user).toBe(list.body.result.total_user);
  expect(list.body.result.total_user).toBe(list.body.result.users.length);
  return values(list);
}

describe('GET /server/users', () => {
  test('lists the users of the project, newest first', async () => {
    expect(values(await project.rest('/server/users'))).toEqual(ALL);
  });

  test('response: message, and result with page, limit, total_user (integers) and users (array of user objects)', async () => {
    const { body } = await project.rest('/server/users?page=1&limit=2');
    expect(body).toEqual({
      message: expect.any(String),
      result: { page: 1, limit: 2, total_user: 5, users: expect.any(Array) },
    });
    expect(body.result.users[0]).toMatchObject({ id: expect.any(Number), auth_value: 'fifth', accounts: [] });
  });

  test('total_user is the total count of matching users, not of the page', async () => {
    const { body } = await project.rest('/server/users?login_method=socials&limit=1');
    expect(body.result).toMatchObject({ total_user: 2, users: [{ auth_value: 'fifth' }] });
  });

  test('the accounts of a user come with the list', async () => {
    const { body } = await project.rest('/server/users?login_method=wallet');
    expect(body.result.users[0].accounts).toMatchObject([{ network: 'stellar', public_key: WALLET }]);
  });

  describe('page and limit', () => {
    test('page: page number; consecutive pages have no gap', async () => {
      const pages = [1, 2, 3].map((page) => project.rest(`/server/users?limit=2&page=${page}`));
      expect((await Promise.all(pages)).map(values)).toEqual([ALL.slice(0, 2), ALL.slice(2, 4), ALL.slice(4)]);
    });

    test('page: default 1', async () => {
      expect((await project.rest('/server/users')).body.result.page).toBe(1);
    });

    test('limit: users per page', async () => {
      expect(values(await project.rest('/server/users?limit=3'))).toEqual(ALL.slice(0, 3));
    });

    test('limit: default 10, maximum 100', async () => {
      const crowd = await app.createProject();
      const users = Array.from({ length: 101 }, (_, place) => ({ auth_method: 'google', auth_value: String(place) }));
      await crowd.addUsers(...users);
      const byDefault = await crowd.rest('/server/users');
      expect(byDefault.body.result).toMatchObject({ limit: 10, total_user: 101 });
      expect(byDefault.body.result.users).toHaveLength(10);
      const atMost = await crowd.rest('/server/users?limit=100');
      expect(atMost.body.result.users).toHaveLength(100);
      expectError(await crowd.rest('/server/users?limit=101'), 400);
    });

    test.each(['page=0', 'page=-1', 'page=x', 'limit=0', 'limit=101', 'limit=x'])(
      'an invalid page or limit returns 400: %s',
      async (query) => {
        expectError(await project.rest(`/server/users?${query}`), 400);
      },
    );
  });
});

// "Accepts start_date, end_date and login_method with the same rules as the list route": `ask` calls both.
describe('GET /server/users and GET /server/users/count', () => {
  describe('start_date and end_date', () => {
    test('start_date: include users created on or after this date', async () => {
      expect(await ask('start_date=2026-01-04')).toEqual(['fifth', 'fourth']);
    });

    test('end_date: include users created on or before this date', async () => {
      expect(await ask('end_date=2026-01-02')).toEqual(['second', 'first@example.com']);
    });

    test('both together include only users between the two dates', async () => {
      expect(await ask('start_date=2026-01-02&end_date=2026-01-04')).toEqual(['fourth', WALLET, 'second']);
    });

    test('formats: RFC 3339; the bound itself is included', async () => {
      expect(await ask('start_date=2026-01-04T12:00:00Z')).toEqual(['fifth', 'fourth']);
      expect(await ask('start_date=2026-01-04T12:00:00.001Z')).toEqual(['fifth']);
      expect(await ask('end_date=2026-01-02T12:00:00Z')).toEqual(['second', 'first@example.com']);
      expect(await ask('end_date=2026-01-02T11:59:59.999Z')).toEqual(['first@example.com']);
    });

    test.each(['start_date', 'end_date'])('an invalid date returns 400: %s', async (name) => {
      for (const route of ['/server/users', '/server/users/count']) {
        expect(expectError(await project.rest(`${route}?${name}=yesterday`), 400)).toContain(name);
      }
    });
  });

  describe('login_method', () => {
    test.each([
      ['wallet', [WALLET]],
      ['socials', ['fifth', 'fourth']],
      ['passkey', ['second']],
      ['email', ['first@example.com']],
    ])('one of wallet, socials, passkey, email: %s', async (method, expected) => {
      expect(await ask(`login_method=${method}`)).toEqual(expected);
    });

    test('multiple values may be sent comma-separated', async () => {
      expect(await ask('login_method=wallet,email')).toEqual([WALLET, 'first@example.com']);
    });

    test('multiple values may be sent by repeating the parameter', async () => {
      expect(await ask('login_method=wallet&login_method=email')).toEqual([WALLET, 'first@example.com']);
    });

    test('multiple values may be sent by both combined', async () => {
      const expected = ['fifth', 'fourth', WALLET, 'first@example.com'];
      expect(await ask('login_method=wallet,email&login_method=socials')).toEqual(expected);
    });

    test('all values together match all users', async () => {
      expect(await ask('login_method=wallet,socials,passkey,email')).toEqual(ALL);
    });

    test('an invalid login method returns 400, also beside a valid one', async () => {
      for (const route of ['/server/users', '/server/users/count']) {
        for (const method of ['google', 'wallet,google']) {
          const error = expectError(await project.rest(`${route}?login_method=${method}`), 400);
          expect(error).toContain('login_method: got "google"');
        }
      }
    });
  });

  test('filters combine', async () => {
    expect(await ask('login_method=socials&end_date=2026-01-04')).toEqual(['fourth']);
  });
});

describe('GET /server/users/count', () => {
  test('response 200: message, and result with total_user (integer)', async () => {
    const { status, body } = await project.rest('/server/users/count');
    expect(status).toBe(200);
    expect(body).toEqual({ message: expect.any(String), result: { total_user: 5 } });
  });

  test('does not fetch user records', async () => {
    app.statements.length = 0;
    await project.rest('/server/users/count?login_method=socials');
    const onUsers = app.statements.filter((sql) => /\busers\b/.test(sql));
    expect(onUsers).toHaveLength(1);
    expect(onUsers[0]).not.toMatch(/auth_value|last_login|wallet\b/);
  });
});
