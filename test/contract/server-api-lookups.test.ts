import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { expectError, idOf, values, verify } from '../support/rest.js';

/** The REST contract, sentence by sentence: search, get one, delete one, and wallet verification. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers(
    {
      auth_method: 'email',
      auth_value: 'Ada@example.com',
      created_at: '2026-01-01T00:00:00Z',
      accounts: [
        { network: 'stellar', public_key: CUSTODIAL_STELLAR },
        { network: 'ethereum', public_key: CUSTODIAL_ETHEREUM },
      ],
    },
    { auth_method: 'google', auth_value: '1234', email: 'ada@EXAMPLE.com', created_at: '2026-01-02T00:00:00Z' },
    { auth_method: 'wallet', auth_value: EXTERNAL_STELLAR, created_at: '2026-01-03T00:00:00Z' },
    { auth_method: 'wallet', auth_value: EXTERNAL_ETHEREUM, created_at: '2026-01-04T00:00:00Z' },
    {
      auth_method: 'passkey',
      auth_value: 'credential',
      created_at: '2026-01-05T00:00:00Z',
      accounts: [{ network: 'stellar', public_key: OF_PASSKEY }],
    },
  );
});

const CUSTODIAL_STELLAR = stellarAddress(1);
const CUSTODIAL_ETHEREUM = ethereumAddress(1);
const EXTERNAL_STELLAR = stellarAddress(2);
const EXTERNAL_ETHEREUM = ethereumAddress(2);
const OF_PASSKEY = stellarAddress(3);
const NOBODYS = ethereumAddress(99);

const search = (query: string) => project.rest(`/server/users/search?${query}`);

describe('GET /server/users/search', () => {
  test.each(['ada@example.com', 'ADA@EXAMPLE.COM', 'Ada@Example.com'])(
    'email: exact, case-insensitive match on the login email: %s',
    async (email) => {
      expect(values(await search(`email=${email}`))).toContain('Ada@example.com');
    },
  );

  test.each(['da@example.com', 'ada@example.co', 'a%25@example.com', '_da@example.com', 'ada@example_com'])(
    'email: no match on a part or a pattern: %s',
    async (email) => {
      expect((await search(`email=${email}`)).body.result).toEqual({ total_user: 0, users: [] });
    },
  );

  test('every match is returned: one email can belong to more than one user', async () => {
    const answer = await search('email=ada@example.com');
    expect(answer.body.result.total_user).toBe(2);
    expect(values(answer).sort()).toEqual(['1234', 'Ada@example.com']);
  });

  test.each([
    ['custodial, Stellar', CUSTODIAL_STELLAR, 'Ada@example.com'],
    ['custodial, Ethereum', CUSTODIAL_ETHEREUM, 'Ada@example.com'],
    ['external, Stellar', EXTERNAL_STELLAR, EXTERNAL_STELLAR],
    ['external, Ethereum', EXTERNAL_ETHEREUM, EXTERNAL_ETHEREUM],
  ])('address: searches custodial accounts and external wallet login addresses: %s', async (_kind, address, value) => {
    const answer = await search(`address=${address}`);
    expect(answer.body.result.total_user).toBe(1);
    expect(values(answer)).toEqual([value]);
  });

  test('response 200: message, and result with total_user (integer) and users (array of user objects)', async () => {
    const { status, body } = await search(`address=${CUSTODIAL_STELLAR}`);
    expect(status).toBe(200);
    const id = body.result.users[0].id;
    const user = (await project.rest(`/server/users/${id}`)).body.result;
    expect(body).toEqual({ message: expect.any(String), result: { total_user: 1, users: [user] } });
  });

  test.each(['email=nobody@example.com', `address=${NOBODYS}`])(
    'no match gives 200 with total_user equal to 0 and an empty users array: %s',
    async (query) => {
      const { status, body } = await search(query);
      expect(status).toBe(200);
      expect(body).toEqual({ message: expect.any(String), result: { total_user: 0, users: [] } });
    },
  );

  test('supplying both parameters returns 400', async () => {
    const error = expectError(await search(`email=ada@example.com&address=${CUSTODIAL_STELLAR}`), 400);
    expect(error).toBe('email, address: got both, expected exactly one of the two.');
  });

  test('supplying neither parameter returns 400', async () => {
    expect(expectError(await search(''), 400)).toBe('email, address: got neither, expected exactly one of the two.');
  });
});

describe('GET /server/users/{user_id}', () => {
  test('response 200: message, and result holding one user object with its accounts', async () => {
    const id = await idOf(project, 'Ada@example.com');
    const { status, body } = await project.rest(`/server/users/${id}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      message: expect.any(String),
      result: {
        id,
        auth_method: 'email',
        auth_value: 'Ada@example.com',
        wallet: null,
        created_at: '2026-01-01T00:00:00.000Z',
        last_login: null,
        login_count: 0,
        accounts: [
          { id: expect.any(Number), network: 'stellar', public_key: CUSTODIAL_STELLAR },
          { id: expect.any(Number), network: 'ethereum', public_key: CUSTODIAL_ETHEREUM },
        ],
      },
    });
  });
});

describe.each([['GET'], ['DELETE']])('%s /server/users/{user_id}', (method) => {
  test.each(['abc', '0', '-1', '1.5'])('invalid ID gives 400: %s', async (id) => {
    expect(expectError(await project.rest(`/server/users/${id}`, { method }), 400)).toContain(`user_id: got "${id}"`);
  });

  test('unknown user gives 404', async () => {
    expectError(await project.rest('/server/users/999999999', { method }), 404);
  });
});

describe('POST /server/wallets/verify', () => {
  test.each<[string, string, string, Json]>([
    ['custodial, Stellar', CUSTODIAL_STELLAR, 'Ada@example.com', ['stellar', 'custodial', 'email']],
    ['custodial, Ethereum', CUSTODIAL_ETHEREUM, 'Ada@example.com', ['ethereum', 'custodial', 'email']],
    ['custodial, of a passkey', OF_PASSKEY, 'credential', ['stellar', 'custodial', 'passkey']],
    ['external, Stellar', EXTERNAL_STELLAR, EXTERNAL_STELLAR, ['stellar', 'external', 'wallet']],
    ['external, Ethereum', EXTERNAL_ETHEREUM, EXTERNAL_ETHEREUM, ['ethereum', 'external', 'wallet']],
  ])(
    'positive: exists is true with user_id, network, wallet_type, auth_method: %s',
    async (_kind, address, of, facts) => {
      const [network, wallet_type, auth_method] = facts;
      const { body } = await verify(project, { address });
      const user_id = await idOf(project, of);
      expect(body.result).toEqual({ exists: true, user_id, network, wallet_type, auth_method });
    },
  );

  test('auth_method of a social login is its provider', async () => {
    const social = await app.createProject();
    const accounts = [{ network: 'stellar', public_key: CUSTODIAL_STELLAR }];
    await social.addUsers({ auth_method: 'discord', auth_value: '7', accounts });
    expect((await verify(social, { address: CUSTODIAL_STELLAR })).body.result.auth_method).toBe('discord');
  });

  test('negative: a well-formed address that does not match is 200 and exists is false, the only field', async () => {
    const { status, body } = await verify(project, { address: NOBODYS });
    expect([status, body.result]).toEqual([200, { exists: false }]);
  });

  test('user_id: when present, the address must belong to this specific user', async () => {
    const owner = await idOf(project, 'Ada@example.com');
    const other = await idOf(project, 'credential');
    const right = await verify(project, { address: CUSTODIAL_STELLAR, user_id: owner });
    expect(right.body.result).toMatchObject({ exists: true, user_id: owner });
    const wrong = await verify(project, { address: CUSTODIAL_STELLAR, user_id: other });
    expect([wrong.status, wrong.body.result]).toEqual([200, { exists: false }]);
  });

  test('user_id selects one of several users with the same address', async () => {
    const shared = await app.createProject();
    const accounts = [{ network: 'stellar', public_key: CUSTODIAL_STELLAR }];
    await shared.addUsers({ auth_method: 'google', auth_value: 'a', accounts });
    await shared.addUsers({ auth_method: 'google', auth_value: 'b', accounts });
    for (const value of ['a', 'b']) {
      const user_id = await idOf(shared, value);
      const { body } = await verify(shared, { address: CUSTODIAL_STELLAR, user_id });
      expect(body.result).toMatchObject({ exists: true, user_id });
    }
  });

  test.each([
    ['missing', {}],
    ['empty', { address: '' }],
    ['of another type', { address: 7 }],
    ['null', { address: null }],
    ['malformed', { address: 'GABC' }],
    ['malformed', { address: '0x123' }],
  ])('a malformed or missing address returns 400: %s', async (_kind, body) => {
    expect(expectError(await verify(project, body), 400)).toMatch(/^address: got /);
  });
});
