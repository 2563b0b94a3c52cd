import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { openEvents } from '../support/events.js';
import { expectError, idOf, jsonPost, values, verify } from '../support/rest.js';

/**
 * Decisions of this service where the contract (docs/spec.md) is silent: the rows of docs/decisions/rest.md on users
 * and parameters. The rows on HTTP are in decisions-http.test.ts.
 */

const app = useTestApp();
let empty: TestProject;
beforeAll(async () => {
  empty = await app.createProject();
});

describe('login_method of a user', () => {
  test('every auth method but email, passkey and wallet is a social provider: a phone, a user name, a guest', async () => {
    const project = await app.createProject();
    await project.addUsers(
      { auth_method: 'google', auth_value: 'g' },
      { auth_method: 'phone', auth_value: '+491701234567' },
      { auth_method: 'username', auth_value: 'u' },
      { auth_method: 'guest', auth_value: 'x' },
      { auth_method: 'passkey', auth_value: 'p' },
    );
    expect(values(await project.rest('/server/users?login_method=socials')).sort()).toEqual([
      '+491701234567',
      'g',
      'u',
      'x',
    ]);
    expect(values(await project.rest('/server/users?login_method=passkey'))).toEqual(['p']);
    for (const method of ['emails', 'wallet-connect', 'socials', 'google.com']) {
      const login = `mutation { recordLogin(input: { authMethod: "${method}", authValue: "1" }) { created } }`;
      const { errors } = await project.graphql(login);
      expect(errors?.[0]?.message).toMatch(/^authMethod: got .*; did you mean /);
    }
  });
});

describe('wallet of a user, and absent values', () => {
  test('wallet is the external address used to log in, for every auth method', async () => {
    const project = await app.createProject();
    await project.addUsers(
      { auth_method: 'wallet', auth_value: stellarAddress(1) },
      { auth_method: 'google', auth_value: 'g', wallet: ethereumAddress(1) },
    );
    const { users } = (await project.rest('/server/users')).body.result;
    expect(users.map((user: Json) => user.wallet).sort()).toEqual([stellarAddress(1), ethereumAddress(1)].sort());
    const { body } = await verify(project, { address: ethereumAddress(1) });
    expect(body.result).toMatchObject({ wallet_type: 'external', auth_method: 'google' });
  });
});

test('a repeated date is invalid', async () => {
  expectError(await empty.rest('/server/users?start_date=2026-01-01&start_date=2026-01-01'), 400);
});

describe('list parameters', () => {
  const notPlain = ['', '0', '-1', '%2B1', '1.0', '1.5', '1e1', '0x1', ' 1', '1%20', '１', '١', '1,000', 'null', 'NaN'];
  test.each(notPlain)('page and limit are plain decimal integers and are never clamped: "%s" is 400', async (text) => {
    for (const name of ['page', 'limit']) {
      expect(expectError(await empty.rest(`/server/users?${name}=${text}`), 400)).toMatch(RegExp(`^${name}: got "`));
    }
  });
  test.each(['page=1&page=1', 'limit=10&limit=10', 'limit=101', 'limit=1000000', 'page=99999999999999999999'])(
    'a repeated or out-of-range page or limit is 400: %s',
    async (query) => {
      expectError(await empty.rest(`/server/users?${query}`), 400);
    },
  );
  test.each(['sort=asc', 'Page=0', 'pages[]=0', 'user_id=7', '__proto__=1', 'x=1&x=2', '='])(
    'unknown parameters are ignored: %s',
    async (query) => {
      const { status, body } = await empty.rest(`/server/users?${query}`);
      expect([status, body.result.page, body.result.limit]).toEqual([200, 1, 10]);
    },
  );
  test.each([
    ['login_method', '/server/users?login_method[]=wallet&login_method[]=email'],
    ['login_method', '/server/users/count?login_method%5B%5D=wallet'],
    ['start_date', '/server/users/count?start_date[0]=2026-01-01&page=1'],
    ['page', '/server/users?page[x]=2'],
    ['email', '/server/users/search?email[]=ada@example.com&address=x'],
    ['types', '/changes?types[]=user.created'],
    ['after', '/changes?after[0][]=now'],
    ['limit', `/changes?limit[${'x'.repeat(10_000)}=1`],
  ])('%s with brackets is refused, because an ignored filter would select everything', async (name, path) => {
    const answer = await empty.rest(path);
    expect(expectError(answer, 400)).toBe(
      `${name}: got brackets after the name, expected the name ${name} alone. Where a parameter takes several values, separate them by commas.`,
    );
    expect((await empty.rest(path.replaceAll(name, `x${name}`))).status).toBe(path.includes('/search') ? 400 : 200);
  });
  test.each([
    ['/server/users?page=1&limit=1', null],
    ['/server/users?pgae=2&limit=1', 'pgae'],
    ['/server/users?x=1&page=1&x=2&y', 'x, y'],
    ['/server/users/count?page=0&limit=0', 'page, limit'],
    ['/server/users/search?emial=ada@example.com', 'emial'],
    ['/server/users/7?fields=id', 'fields'],
    ['/server/users?a,b=1&%F0%9F%98%80=1&x%0d%0ay=1', 'a%2Cb, %F0%9F%98%80, x%0D%0Ay'],
    ['/server/users?ada@example.com=1', '%5Bemail%5D'],
    ['/server/users?=1&', null],
  ])('ignored parameters are named in Userdir-Ignored-Parameters, also on errors: %s', async (path, ignored) => {
    expect((await empty.rest(path)).headers.get('userdir-ignored-parameters')).toBe(ignored);
  });
  test('the header names at most ten parameters, and at most 64 characters of each name', async () => {
    const many = Array.from({ length: 2_000 }, (_, index) => `p${index}=1`).join('&');
    const named = (await empty.rest(`/server/users?${many}`)).headers.get('userdir-ignored-parameters');
    expect(named).toBe('p0, p1, p2, p3, p4, p5, p6, p7, p8, p9');
    const long = await empty.rest(`/server/users?${'a'.repeat(63)}${encodeURIComponent('😀')}=1`);
    expect(long.headers.get('userdir-ignored-parameters')).toBe('a'.repeat(63));
    const wide = Array.from({ length: 20 }, (_, index) => `${index}${'例'.repeat(64)}=1`).join('&');
    const some = (await empty.rest(`/server/users?${encodeURI(wide)}`)).headers.get('userdir-ignored-parameters');
    expect(some?.split(', ')).toEqual([0, 1].map((index) => `${index}${encodeURIComponent('例'.repeat(63))}`));
  });
  test('the verify route ignores and names the other parameters of its query', async () => {
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' };
    const { status, headers } = await empty.rest('/server/wallets/verify?userId=54', init);
    expect([status, headers.get('userdir-ignored-parameters')]).toEqual([400, 'userId']);
  });
  test('the two routes outside of /server name them too: in pages, in streams and on errors', async () => {
    const path = '/changes?since=now&limit=1';
    const asJson = { headers: { accept: 'application/json' } };
    const page = await empty.rest(path, asJson);
    expect([page.status, page.headers.get('userdir-ignored-parameters')]).toEqual([200, 'since']);
    const stream = await openEvents(app.url + path, { headers: empty.credentials });
    stream.close();
    expect([stream.status, stream.headers.get('userdir-ignored-parameters')]).toEqual([200, 'since']);
    const refused = await empty.rest('/changes?after=then&limits=1');
    expect([refused.status, refused.headers.get('userdir-ignored-parameters')]).toEqual([400, 'limits']);
    expect(
      (await empty.rest('/changes?after=now&types=user.created', asJson)).headers.has('userdir-ignored-parameters'),
    ).toBe(false);
    for (const wallets of [[], [{ address: stellarAddress(0) }], Array(100).fill({ address: stellarAddress(0) })]) {
      const verified = await empty.rest('/wallets/verify?signed=true&', jsonPost({ wallets }));
      expect([verified.status, verified.headers.get('userdir-ignored-parameters')]).toEqual([200, 'signed']);
    }
    const malformed = await empty.rest('/wallets/verify?userId=54', jsonPost({}));
    expect([malformed.status, malformed.headers.get('userdir-ignored-parameters')]).toEqual([400, 'userId']);
  });
});

describe('login_method values', () => {
  test.each(['Email', 'EMAIL', '', 'email,', ',email', 'email,,wallet', ' email', 'email wallet', 'social', 'google'])(
    'values are case-sensitive, and an empty value or item is invalid: "%s"',
    async (method) => {
      const answer = await empty.rest(`/server/users?login_method=${encodeURIComponent(method)}`);
      expect(expectError(answer, 400)).toMatch(/^login_method: got "/);
    },
  );
  test('a repeated value changes nothing', async () => {
    const project = await app.createProject();
    await project.addUsers({ auth_method: 'google', auth_value: 'one' }, { auth_method: 'passkey', auth_value: 'two' });
    const answer = await project.rest('/server/users?login_method=socials,socials&login_method=socials');
    expect([answer.body.result.total_user, values(answer)]).toEqual([1, ['one']]);
  });
});

describe('verify body', () => {
  test.each([
    ['/server/wallets/verify', { address: stellarAddress(1) }, ['user_id', 'address']],
    ['/wallets/verify', { wallets: [{ address: stellarAddress(1) }] }, ['user_id', 'address', 'wallets']],
  ])('a key of the body in the URL is 400, because an ignored pin would widen the question: %s', async (...route) => {
    const [path, body, keys] = route;
    expect((await empty.rest(path, jsonPost(body))).status).toBe(200);
    expect((await empty.rest(`${path}?other=5`, jsonPost(body))).status).toBe(200);
    for (const key of keys) {
      for (const name of [key, `${key}[]`, `${key}[0][x]`]) {
        const answer = await empty.rest(`${path}?other=5&${name}=5`, jsonPost(body));
        expect(expectError(answer, 400)).toBe(`${key}: got it in the URL, expected it in the body.`);
      }
    }
  });
  const address = stellarAddress(5);
  test.each([null, [], 'text', 7, true])('the body must be a JSON object: %j is 400', async (body) => {
    expect(expectError(await verify(empty, body), 400)).toContain('JSON object');
  });
  test('of a key that comes twice in a body the last one counts, also in GraphQL', async () => {
    const project = await app.createProject();
    await project.addUsers({ auth_method: 'wallet', auth_value: address });
    const owner = await idOf(project, address);
    const headers = { 'content-type': 'application/json' };
    const ask = async (path: string, body: string) =>
      (await project.rest(path, { method: 'POST', headers, body })).body;
    const ids = (first: number, last: number) => `"address":"${address}","user_id":${first},"user_id":${last}`;
    const { result } = await ask('/server/wallets/verify', `{${ids(owner + 1, owner)}}`);
    expect(result.exists).toBe(true);
    expect((await ask('/server/wallets/verify', `{${ids(owner, owner + 1)}}`)).result).toEqual({ exists: false });
    const query = 'query ($id: ID!) { user(id: $id) { id } }';
    const { data } = await ask('/graphql', `{"query":"${query}","variables":{"id":${owner + 1},"id":${owner}}}`);
    expect(data).toEqual({ user: { id: String(owner) } });
  });
  test('an unknown key is 400 and named, because a misspelt user_id would match more users', async () => {
    expect(expectError(await verify(empty, { address, userId: 54 }), 400)).toBe(
      'body: got the unknown key "userId", expected only address and user_id.',
    );
  });
});
