import { beforeEach, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Mistakes that callers make most, and what they are told. */

const app = useTestApp();
let project: TestProject;

beforeEach(async () => {
  project = await app.createProject();
});

async function send(path: string, { body, ...init }: { method?: string; headers?: object; body?: unknown } = {}) {
  const { appId, appSecret } = project;
  const response = await fetch(`${app.url}${path}`, {
    ...init,
    headers: {
      'service-app-id': appId,
      'service-app-secret': appSecret,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...init.headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    code: response.headers.get('userdir-error-code'),
    ...((await response.json()) as Json),
  };
}

const askGraphql = async (body: unknown): Promise<Json> => (await send('/graphql', { method: 'POST', body })).errors[0];

describe('over REST', () => {
  test.each(['/server/users/', '/server/users/1/', '/server/users/count/', '/server/wallets/verify/'])(
    '%s has one slash too many, which the answer says',
    async (path) => {
      expect(await send(path)).toEqual({
        status: 404,
        code: 'PATH_NOT_FOUND',
        error: 'There is nothing at this path: send it without the slash at the end.',
      });
    },
  );

  test.each(['/server/', '/server/nothing/'])('%s is no path, also without the slash', async (path) => {
    expect((await send(path)).error).toMatch(/^There is nothing at this path: use POST \/graphql/);
  });

  test.each([
    [
      'POST',
      '/server/users',
      'POST is not allowed here; use GET, HEAD. To register a user, send recordLogin or createUser over GraphQL.',
    ],
    [
      'PATCH',
      '/server/users',
      'PATCH is not allowed here; use GET, HEAD. To change a user, send updateUser over GraphQL.',
    ],
    [
      'PATCH',
      '/server/users/1',
      'PATCH is not allowed here; use GET, HEAD, DELETE. To change a user, send updateUser over GraphQL.',
    ],
    [
      'POST',
      '/server/users/1',
      'POST is not allowed here; use GET, HEAD, DELETE. To change a user, send updateUser over GraphQL.',
    ],
    ['POST', '/server/users/count', 'POST is not allowed here; use GET, HEAD, DELETE.'],
  ])('%s %s names what does it', async (method, path, error) => {
    const answer = await send(path, { method, body: {} });
    expect(answer).toMatchObject({ status: 405, code: 'METHOD_NOT_ALLOWED' });
    const sorted = (text: string) => text.replace(/use ([A-Z, ]+)/, (_, list) => `use ${list.split(', ').sort()}`);
    expect(sorted(answer.error)).toBe(sorted(error));
  });

  test('a wrong user ID and a wrong key are named together', async () => {
    const answer = await send('/server/users/x', { method: 'DELETE', headers: { 'idempotency-key': 'two words' } });
    expect(answer).toMatchObject({ status: 400, code: 'BAD_USER_INPUT' });
    expect(answer.error).toMatch(/^user_id: got "x", expected .*\. Idempotency-Key: got "two words", expected /);
  });
});

describe('over GraphQL', () => {
  test('a list of operations is told that there are no batches', async () => {
    const error = await askGraphql([{ query: '{ userCount }' }, { query: '{ userCount }' }]);
    expect(error.message).toMatch(/^The body is a list\. Batches of operations are not supported/);
  });

  test.each(['', ' \n\t'])('an empty document is called so: %j', async (query) => {
    const error = await askGraphql({ query });
    expect(error.message).toBe('query: got an empty document, expected an operation.');
  });

  const UPDATE = 'mutation ($m: JSON) { updateUser(id: 1, input: { metadata: $m }) { user { id } } }';
  test.each<[string, Json]>([
    ['input.metadata', { query: UPDATE, variables: { m: { plan: '中'.repeat(1_400) } } }],
    [
      'input.metadata',
      {
        query: 'mutation ($input: UpdateUserInput!) { updateUser(id: 1, input: $input) { user { id } } }',
        variables: { input: { metadata: { plan: { name: '中'.repeat(1_400) } } } },
      },
    ],
    [
      'inputs[1].address',
      {
        query: 'query ($wallets: [WalletInput!]!) { verifyWallets(inputs: $wallets) { verdict } }',
        variables: { wallets: [{ address: 'a' }, { address: '中'.repeat(1_400) }] },
      },
    ],
  ])('a text of too many bytes is told in bytes, with its argument %s', async (argument, body) => {
    const { message, extensions } = await askGraphql(body);
    expect(message).toBe(`${argument}: got a text of 1400 characters (4200 bytes), expected at most 4096 bytes.`);
    expect(extensions).toMatchObject({ code: 'BAD_USER_INPUT', argument });
  });

  test('an external ID of too many bytes is told in bytes', async () => {
    const { message } = await askGraphql({
      query: `mutation { updateUser(id: 1, input: { externalId: "${'ä'.repeat(200)}" }) { user { id } } }`,
    });
    expect(message).toMatch(/got a text of 200 characters \(400 bytes\), expected text of 1 to 255 bytes/);
  });

  test.each([
    ['{ searchUsers(by: { extId: "a" }) { id } }', 'Field "extId" is not defined by type "UserSearch".', null],
    ['{ searchUsers(by: { emial: "a" }) { id } }', 'Field "emial" is not defined by type "UserSearch".', 'email'],
    ['{ userCuont }', 'Cannot query field "userCuont" on type "Query".', 'userCount'],
    ['{ user(id: 1) { idd } }', 'Cannot query field "idd" on type "User".', 'id'],
    ['{ user(di: 1) { id } }', 'Unknown argument "di" on field "Query.user".', 'id'],
  ])('only a name that is alike is suggested: %s', async (query, said, likely) => {
    const { message } = await askGraphql({ query });
    expect(message).toContain(said);
    if (likely === null) expect(message).not.toMatch(/Did you mean/);
    else expect(message).toMatch(new RegExp(`Did you mean ("\\w+" or )*"${likely}"( or "\\w+")*\\?`));
  });
});
