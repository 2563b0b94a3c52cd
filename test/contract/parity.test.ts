import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/**
 * Each request is sent over REST and over GraphQL: both give the same answer, errors included. The answers
 * are compared with the names of REST, which the GraphQL queries produce with aliases.
 */

const app = useTestApp();
let project: TestProject;
/** User ids by auth value; `stranger` belongs to another project, `removed` is a removed user. */
const ids: Record<string, string> = {};

const CUSTODIAL = stellarAddress(1);
const SHARED = stellarAddress(2);
const OF_REMOVED = stellarAddress(3);
const OF_STRANGER = stellarAddress(4);
const NOBODYS = stellarAddress(5);
/** With an EIP-55 checksum: shown as registered, matched in any case. */
const WALLET = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
const UPPER_CASE_WALLET = `0x${WALLET.slice(2).toUpperCase()}`;

beforeAll(async () => {
  project = await app.createProject();
  const other = await app.createProject();
  const linked = (address: string) => [{ network: 'stellar', public_key: address }];
  const users = [
    {
      auth_method: 'email',
      auth_value: 'Ada@Example.com',
      created_at: '2026-01-01T00:00:00.000Z',
      last_login: '2026-01-09T00:00:00.000Z',
      login_count: 3,
      accounts: linked(CUSTODIAL),
    },
    {
      auth_method: 'google',
      auth_value: 'ada',
      email: 'ada@example.com',
      created_at: '2026-01-02T00:00:00.000Z',
      accounts: linked(SHARED),
    },
    { auth_method: 'passkey', auth_value: 'key', created_at: '2026-01-02T23:59:59.999Z', accounts: linked(SHARED) },
    { auth_method: 'wallet', auth_value: WALLET, created_at: '2026-01-03T00:00:00.000Z' },
    { auth_method: 'github', auth_value: 'removed', email: 'removed@example.com', accounts: linked(OF_REMOVED) },
    ...Array.from({ length: 12 }, (_, index) => ({
      auth_method: 'apple',
      auth_value: `apple${index}`,
      created_at: '2026-01-05T00:00:00.000Z',
    })),
  ];
  await project.addUsers(...users);
  await other.addUsers({
    auth_method: 'google',
    auth_value: 'stranger',
    email: 'stranger@example.com',
    accounts: linked(OF_STRANGER),
  });
  for (const { body } of [await project.rest('/server/users?limit=100'), await other.rest('/server/users')]) {
    for (const user of body.result.users) ids[user.auth_value] = String(user.id);
  }
  await project.rest(`/server/users/${ids['removed']}`, { method: 'DELETE' });
});

type Outcome = { result: Json } | { refused: string };

const CODE_OF_STATUS: Record<number, string> = { 400: 'BAD_USER_INPUT', 401: 'UNAUTHENTICATED', 404: 'NOT_FOUND' };

async function askRest(path: string, init: RequestInit = {}): Promise<Outcome> {
  const { status, body } = await project.rest(`/server${path}`, init);
  if (status === 200) return { result: body.result };
  expect(Object.keys(body)).toEqual(['error']);
  return { refused: CODE_OF_STATUS[status] ?? `status ${status}` };
}

const USER = `{
  id auth_method: authMethod auth_value: authValue wallet created_at: createdAt last_login: lastLogin
  login_count: loginCount accounts { id network public_key: publicKey }
}`;

interface Question {
  readonly text: string;
  /** Converts the GraphQL answer to the form of REST; `refused` where REST has an error status. */
  readonly read: (answer: Json) => Outcome;
}

const LIST: Question = {
  text: `query ($filter: UserFilter, $page: Int! = 1, $limit: Int! = 10) {
    answer: userPage(filter: $filter, page: $page, limit: $limit) { page limit total_user: totalUser users ${USER} }
  }`,
  read: (page) => ({ result: page }),
};
const COUNT: Question = {
  text: 'query ($filter: UserFilter) { answer: userCount(filter: $filter) }',
  read: (total_user) => ({ result: { total_user } }),
};
const SEARCH: Question = {
  text: `query ($by: UserSearch!) { answer: searchUsers(by: $by) ${USER} }`,
  read: (users) => ({ result: { total_user: users.length, users } }),
};
const GET: Question = {
  text: `query ($id: ID!) { answer: user(id: $id) ${USER} }`,
  read: (user) => (user === null ? { refused: 'NOT_FOUND' } : { result: user }),
};
const DELETE: Question = {
  text: 'mutation ($id: ID!) { answer: deleteUser(id: $id) { id } }',
  read: () => ({ result: undefined }),
};
const VERIFY: Question = {
  text: `query ($address: String!, $user_id: ID) {
    answer: verifyWallet(address: $address, userId: $user_id) {
      exists user_id: userId network wallet_type: walletType auth_method: authMethod
    }
  }`,
  read: ({ exists, ...owner }) => {
    // REST omits the fields that are null in GraphQL.
    if (!exists) expect(Object.values(owner)).toEqual([null, null, null, null]);
    return { result: exists ? { exists, ...owner } : { exists } };
  },
};

/** A wallet beside another, whose verdict must not depend on the first. */
const NEIGHBOUR = { address: CUSTODIAL };

/** The verdict on the first of two wallets, in the form of an answer about it alone. */
function alone([{ verdict, reason: _, ...owner }, neighbour]: Json): Outcome {
  expect(neighbour.verdict).toBe('VERIFIED');
  if (verdict === 'MALFORMED') return { refused: 'BAD_USER_INPUT' };
  return { result: verdict === 'VERIFIED' ? { exists: true, ...owner } : { exists: false } };
}

async function askForMany(wallet: Record<string, unknown>): Promise<Outcome> {
  const { status, body } = await project.rest('/wallets/verify', json({ wallets: [wallet, NEIGHBOUR] }));
  return status === 200 ? alone(body.result.verdicts) : { refused: CODE_OF_STATUS[status] ?? `status ${status}` };
}

function inGraphQLWords({ user_id, ...wallet }: Record<string, unknown>): Record<string, unknown> {
  return user_id === undefined ? wallet : { ...wallet, userId: user_id };
}

const VERIFY_ANY: Question = {
  ...VERIFY,
  text: VERIFY.text.replace(', $user_id: ID', '').replace(', userId: $user_id', ''),
};
const verifyOf = (body: object) => ('user_id' in body ? VERIFY : VERIFY_ANY);
const VERIFY_MANY: Question = {
  text: `query ($inputs: [WalletInput!]!) {
    answer: verifyWallets(inputs: $inputs) {
      verdict reason user_id: userId network wallet_type: walletType auth_method: authMethod
    }
  }`,
  read: alone,
};

async function askGraphQL(
  { text, read }: Question,
  variables: Record<string, unknown>,
  requester = project,
): Promise<Outcome> {
  const answer = await requester.graphql(text, variables);
  if (answer.errors === undefined) return read(inRestWords(answer.data.answer));
  // GraphQL may report several errors; REST reports them in one message.
  return { refused: [...new Set(codesOf(answer))].join() };
}

/** Converts ids to integers and enum values to lower case. */
function inRestWords(value: Json, key = ''): Json {
  if (Array.isArray(value)) return value.map((item) => inRestWords(item));
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, inRestWords(part, name)]));
  }
  if (value !== null && (key === 'id' || key === 'user_id')) return Number(value);
  if (value !== null && (key === 'network' || key === 'wallet_type')) return value.toLowerCase();
  return value;
}

const search = (parameters: Record<string, string>) => `?${new URLSearchParams(parameters)}`;
const json = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

describe('users who match a filter', () => {
  // The REST parameters, the GraphQL filter, and the number of matching users.
  test.each<[Record<string, string>, Record<string, unknown>, number | 'BAD_USER_INPUT']>([
    [{}, {}, 16],
    [{ login_method: 'email' }, { loginMethods: ['EMAIL'] }, 1],
    [{ login_method: 'socials' }, { loginMethods: ['SOCIALS'] }, 13],
    [{ login_method: 'wallet,passkey,wallet' }, { loginMethods: ['WALLET', 'PASSKEY', 'WALLET'] }, 2],
    [{ login_method: 'email,passkey,wallet,socials' }, { loginMethods: ['EMAIL', 'PASSKEY', 'WALLET', 'SOCIALS'] }, 16],
    [{ login_method: '' }, { loginMethods: [] }, 'BAD_USER_INPUT'],
    [{ login_method: 'email,' }, { loginMethods: ['EMAIL', ''] }, 'BAD_USER_INPUT'],
    [{ login_method: 'Email' }, { loginMethods: ['Email'] }, 'BAD_USER_INPUT'],
    [{ login_method: 'telepathy' }, { loginMethods: ['TELEPATHY'] }, 'BAD_USER_INPUT'],
    [{ login_method: 'google' }, { loginMethods: ['GOOGLE'] }, 'BAD_USER_INPUT'],
    ...sameDate('start_date', 'startDate', '2026-01-02', 15),
    ...sameDate('start_date', 'startDate', '2026-01-02T00:00:00.001Z', 14),
    ...sameDate('start_date', 'startDate', '2026-01-02T01:00:00+01:00', 15),
    ...sameDate('start_date', 'startDate', '0001-01-01', 16),
    ...sameDate('start_date', 'startDate', '9999-12-31', 0),
    ...sameDate('end_date', 'endDate', '2026-01-02', 3),
    ...sameDate('end_date', 'endDate', '2026-01-02T00:00:00Z', 2),
    ...sameDate('end_date', 'endDate', '2026-01-02t23:59:59.998z', 2),
    ...sameDate('end_date', 'endDate', '2025-12-31T23:59:60Z', 0),
    [{ start_date: '2026-01-02', end_date: '2026-01-03' }, { startDate: '2026-01-02', endDate: '2026-01-03' }, 3],
    [{ start_date: '2026-01-03', end_date: '2026-01-02' }, { startDate: '2026-01-03', endDate: '2026-01-02' }, 0],
    [{ start_date: '2026-01-02', login_method: 'socials' }, { startDate: '2026-01-02', loginMethods: ['SOCIALS'] }, 13],
    ...[
      '',
      ' ',
      'yesterday',
      '2026',
      '2026-1-1',
      '2025-02-30',
      '2026-13-01',
      '2026-01-01T00:00:00',
      '2026-01-01T24:00:00Z',
      '2026-01-01 ',
      '1767225600',
      '２０２６-01-01',
      '2026-01-01\u0000',
    ].flatMap((text) => [
      ...sameDate('start_date', 'startDate', text, 'BAD_USER_INPUT'),
      ...sameDate('end_date', 'endDate', text, 'BAD_USER_INPUT'),
    ]),
  ])('%j', async (parameters, filter, expected) => {
    const counted = await askRest(`/users/count${search(parameters)}`);
    const listed = await askRest(`/users${search({ ...parameters, limit: '100' })}`);
    expect(await askGraphQL(COUNT, { filter })).toEqual(counted);
    expect(await askGraphQL(LIST, { filter, limit: 100 })).toEqual(listed);
    if (expected === 'BAD_USER_INPUT') {
      expect([counted, listed]).toEqual([{ refused: expected }, { refused: expected }]);
    } else {
      expect(counted).toEqual({ result: { total_user: expected } });
      expect(listed).toMatchObject({ result: { page: 1, limit: 100, total_user: expected } });
    }
  });

  function sameDate(
    parameter: string,
    field: string,
    text: string,
    expected: number | 'BAD_USER_INPUT',
  ): [Record<string, string>, Record<string, unknown>, number | 'BAD_USER_INPUT'][] {
    return [[{ [parameter]: text }, { [field]: text }, expected]];
  }
});

describe('a page of the list', () => {
  test.each<[Record<string, string>, Record<string, unknown>, number | 'BAD_USER_INPUT']>([
    [{}, {}, 10],
    [{ page: '2' }, { page: 2 }, 6],
    [{ limit: '3' }, { limit: 3 }, 3],
    [{ page: '6', limit: '3' }, { page: 6, limit: 3 }, 1],
    [{ page: '7', limit: '3' }, { page: 7, limit: 3 }, 0],
    [{ limit: '100' }, { limit: 100 }, 16],
    [{ page: '2147483647', limit: '100' }, { page: 2147483647, limit: 100 }, 0],
    [{ page: '0' }, { page: 0 }, 'BAD_USER_INPUT'],
    [{ page: '-1' }, { page: -1 }, 'BAD_USER_INPUT'],
    [{ page: '1.5' }, { page: 1.5 }, 'BAD_USER_INPUT'],
    [{ page: '' }, { page: '' }, 'BAD_USER_INPUT'],
    [{ page: 'x' }, { page: 'x' }, 'BAD_USER_INPUT'],
    [{ page: 'null' }, { page: null }, 'BAD_USER_INPUT'],
    [{ limit: '0' }, { limit: 0 }, 'BAD_USER_INPUT'],
    [{ limit: '101' }, { limit: 101 }, 'BAD_USER_INPUT'],
    [{ limit: '-10' }, { limit: -10 }, 'BAD_USER_INPUT'],
    [{ limit: '10.5' }, { limit: 10.5 }, 'BAD_USER_INPUT'],
    [{ limit: '2147483648' }, { limit: 2147483648 }, 'BAD_USER_INPUT'],
    [{ limit: 'true' }, { limit: true }, 'BAD_USER_INPUT'],
    [{ page: '0', limit: '0' }, { page: 0, limit: 0 }, 'BAD_USER_INPUT'],
  ])('%j', async (parameters, variables, expected) => {
    const rest = await askRest(`/users${search(parameters)}`);
    expect(await askGraphQL(LIST, variables)).toEqual(rest);
    if (expected === 'BAD_USER_INPUT') expect(rest).toEqual({ refused: expected });
    else expect((rest as { result: Json }).result.users).toHaveLength(expected);
  });

  test('is an error with a repeated page or limit', async () => {
    expect(await askRest('/users?page=1&page=2')).toEqual({ refused: 'BAD_USER_INPUT' });
    expect(await askGraphQL(LIST, { page: [1, 2] })).toEqual({ refused: 'BAD_USER_INPUT' });
  });

  test('has the same first users as the connection', async () => {
    const { data } = await project.graphql(`{ users(first: 10) { total_user: totalCount users: nodes ${USER} } }`);
    const rest = await askRest('/users');
    expect(rest).toEqual({ result: { page: 1, limit: 10, ...inRestWords(data.users) } });
  });
});

describe('a search', () => {
  test.each<[Record<string, string>, number | 'BAD_USER_INPUT']>([
    [{ email: 'ada@example.com' }, 2],
    [{ email: ' ADA@EXAMPLE.COM ' }, 2],
    [{ email: 'nobody@example.com' }, 0],
    [{ email: 'removed@example.com' }, 0],
    [{ email: 'stranger@example.com' }, 0],
    [{ email: 'da@example.com' }, 0],
    [{ email: '%@example.com' }, 0],
    [{ email: '' }, 'BAD_USER_INPUT'],
    [{ email: 'ada' }, 'BAD_USER_INPUT'],
    [{ email: 'ada@' }, 'BAD_USER_INPUT'],
    [{ email: 'ada\u0000@example.com' }, 'BAD_USER_INPUT'],
    [{ email: `${'a'.repeat(400)}@example.com` }, 'BAD_USER_INPUT'],
    [{ address: CUSTODIAL }, 1],
    [{ address: SHARED }, 2],
    [{ address: WALLET }, 1],
    [{ address: UPPER_CASE_WALLET }, 1],
    [{ address: WALLET.toLowerCase() }, 1],
    [{ address: WALLET.replace('aA', 'AA') }, 1],
    [{ address: NOBODYS }, 0],
    [{ address: OF_REMOVED }, 0],
    [{ address: OF_STRANGER }, 0],
    ...malformedAddresses().map((address): [Record<string, string>, 'BAD_USER_INPUT'] => [
      { address },
      'BAD_USER_INPUT',
    ]),
    [{ email: 'ada@example.com', address: CUSTODIAL }, 'BAD_USER_INPUT'],
    [{}, 'BAD_USER_INPUT'],
  ])('%j', async (by, expected) => {
    const rest = await askRest(`/users/search${search(by)}`);
    expect(await askGraphQL(SEARCH, { by })).toEqual(rest);
    if (expected === 'BAD_USER_INPUT') expect(rest).toEqual({ refused: expected });
    else expect(rest).toMatchObject({ result: { total_user: expected } });
  });
});

describe('one user', () => {
  test.each(['Ada@Example.com', 'ada', 'key', WALLET])('%s', async (name) => {
    const id = ids[name] as string;
    const rest = await askRest(`/users/${id}`);
    expect(rest).toMatchObject({ result: { id: Number(id), auth_value: name } });
    expect(await askGraphQL(GET, { id })).toEqual(rest);
    expect(await askGraphQL(GET, { id: Number(id) })).toEqual(rest);
    expect(await askGraphQL(GET, { id: `00${id}` })).toEqual(await askRest(`/users/00${id}`));
  });

  test.each([
    ['removed', () => ids['removed']],
    ['of another project', () => ids['stranger']],
    ['of the largest id', () => '9007199254740991'],
    ['of an id beyond any', () => '9007199254740992'],
    ['of an id beyond bigint', () => '99999999999999999999999999'],
  ])('a user %s can be neither read nor deleted', async (_, idOf) => {
    const id = idOf() as string;
    for (const outcome of [
      await askRest(`/users/${id}`),
      await askGraphQL(GET, { id }),
      await askRest(`/users/${id}`, { method: 'DELETE' }),
      await askGraphQL(DELETE, { id }),
    ]) {
      expect(outcome).toEqual({ refused: 'NOT_FOUND' });
    }
  });

  test.each(['0', '00', '-1', '+1', '1.0', '1e3', '0x10', 'abc', ' ', '1 ', '１', '1\u0000', 'null'])(
    'the id %j can be neither read nor deleted',
    async (id) => {
      const path = `/users/${encodeURIComponent(id)}`;
      for (const outcome of [
        await askRest(path),
        await askGraphQL(GET, { id }),
        await askRest(path, { method: 'DELETE' }),
        await askGraphQL(DELETE, { id }),
      ]) {
        expect(outcome).toEqual({ refused: 'BAD_USER_INPUT' });
      }
    },
  );

  test('can be deleted once', async () => {
    await project.addUsers({ auth_method: 'q', auth_value: 'first' }, { auth_method: 'q', auth_value: 'second' });
    const { body } = await project.rest('/server/users?limit=2');
    const [first, second] = body.result.users.map((user: Json) => user.id);
    const overRest = () => askRest(`/users/${first}`, { method: 'DELETE' });
    const overGraphQL = () => askGraphQL(DELETE, { id: second });
    expect([await overRest(), await overRest()]).toEqual([{ result: undefined }, { refused: 'NOT_FOUND' }]);
    expect([await overGraphQL(), await overGraphQL()]).toEqual([{ result: undefined }, { refused: 'NOT_FOUND' }]);
    // A user deleted over one interface is removed for both.
    for (const id of [first, second]) {
      expect(await askRest(`/users/${id}`)).toEqual({ refused: 'NOT_FOUND' });
      expect(await askGraphQL(GET, { id })).toEqual({ refused: 'NOT_FOUND' });
    }
  });
});

describe('a verification', () => {
  const id = (name: string) => Number(ids[name]);
  test.each<[string, () => Record<string, unknown>, (() => Record<string, unknown>) | 'no' | 'BAD_USER_INPUT']>([
    [
      'of a custodial account',
      () => ({ address: CUSTODIAL }),
      () => ({ user_id: id('Ada@Example.com'), network: 'stellar', wallet_type: 'custodial', auth_method: 'email' }),
    ],
    [
      'of an external wallet',
      () => ({ address: UPPER_CASE_WALLET }),
      () => ({ user_id: id(WALLET), network: 'ethereum', wallet_type: 'external', auth_method: 'wallet' }),
    ],
    ['of an address of two users', () => ({ address: SHARED }), () => ({ user_id: id('ada') })],
    [
      'pinned to the second of them',
      () => ({ address: SHARED, user_id: id('key') }),
      () => ({ user_id: id('key'), auth_method: 'passkey' }),
    ],
    ['pinned to the owner', () => ({ address: WALLET, user_id: id(WALLET) }), () => ({ user_id: id(WALLET) })],
    ['pinned to another user', () => ({ address: CUSTODIAL, user_id: id('key') }), 'no'],
    ['pinned to a user of another project', () => ({ address: OF_STRANGER, user_id: id('stranger') }), 'no'],
    ['pinned to a removed user', () => ({ address: OF_REMOVED, user_id: id('removed') }), 'no'],
    ['pinned to nobody', () => ({ address: CUSTODIAL, user_id: Number.MAX_SAFE_INTEGER }), 'no'],
    ['pinned beyond any id', () => ({ address: CUSTODIAL, user_id: 2 ** 60 }), 'no'],
    ['of an address of nobody', () => ({ address: NOBODYS }), 'no'],
    ['of an address of a removed user', () => ({ address: OF_REMOVED }), 'no'],
    ['of an address of another project', () => ({ address: OF_STRANGER }), 'no'],
    ['of nothing', () => ({}), 'BAD_USER_INPUT'],
    ['of null', () => ({ address: null }), 'BAD_USER_INPUT'],
    ['of a number', () => ({ address: 42 }), 'BAD_USER_INPUT'],
    ['of a list', () => ({ address: [CUSTODIAL] }), 'BAD_USER_INPUT'],
    ['pinned to null', () => ({ address: CUSTODIAL, user_id: null }), 'BAD_USER_INPUT'],
    ['pinned to 0', () => ({ address: CUSTODIAL, user_id: 0 }), 'BAD_USER_INPUT'],
    ['pinned to a negative id', () => ({ address: CUSTODIAL, user_id: -1 }), 'BAD_USER_INPUT'],
    ['pinned to a fraction', () => ({ address: CUSTODIAL, user_id: 1.5 }), 'BAD_USER_INPUT'],
    ['pinned to text', () => ({ address: CUSTODIAL, user_id: 'x' }), 'BAD_USER_INPUT'],
    ['pinned to true', () => ({ address: CUSTODIAL, user_id: true }), 'BAD_USER_INPUT'],
    ['pinned to a list', () => ({ address: CUSTODIAL, user_id: [] }), 'BAD_USER_INPUT'],
    ...malformedAddresses().map((address): [string, () => Record<string, unknown>, 'BAD_USER_INPUT'] => [
      `of ${JSON.stringify(address)}`,
      () => ({ address }),
      'BAD_USER_INPUT',
    ]),
  ])('%s', async (_, bodyOf, expected) => {
    const rest = await askRest('/wallets/verify', json(bodyOf()));
    expect(await askGraphQL(verifyOf(bodyOf()), bodyOf())).toEqual(rest);
    expect(await askForMany(bodyOf())).toEqual(rest);
    expect(await askGraphQL(VERIFY_MANY, { inputs: [inGraphQLWords(bodyOf()), NEIGHBOUR] })).toEqual(rest);
    if (expected === 'BAD_USER_INPUT') expect(rest).toEqual({ refused: expected });
    else if (expected === 'no') expect(rest).toEqual({ result: { exists: false } });
    else expect(rest).toMatchObject({ result: { exists: true, ...expected() } });
  });
});

describe('the same fault has the same message', () => {
  test.each<[string, RequestInit, Question, Record<string, unknown>]>([
    ['/users?limit=101', {}, LIST, { limit: 101 }],
    ['/users?start_date=2025-02-30', {}, LIST, { filter: { startDate: '2025-02-30' } }],
    ['/users/search?email=x', {}, SEARCH, { by: { email: 'x' } }],
    ['/users/search?address=0x12', {}, SEARCH, { by: { address: '0x12' } }],
    ['/users/9007199254740991', { method: 'DELETE' }, DELETE, { id: '9007199254740991' }],
    ['/wallets/verify', json({ address: '0x12' }), VERIFY_ANY, { address: '0x12' }],
    ['/users/x', {}, GET, { id: 'x' }],
  ])('%s %j', async (path, init, { text }, variables) => {
    const { body } = await project.rest(`/server${path}`, init);
    const { errors } = await project.graphql(text, variables);
    // Except the spelling of the parameter, and numbers, which REST receives as text.
    const plain = (message: string) =>
      message.replace(/^(start_date|startDate|user_id|id): got "?([^"]*?)"?,/, 'it: got $2,').replace('"101"', '101');
    expect(plain(errors?.[0]?.message ?? 'no error')).toBe(plain(body.error));
  });
});

describe('known differences between REST and GraphQL', () => {
  test('a page above 2^31 - 1 is an empty page over REST, and an invalid Int in GraphQL', async () => {
    expect(await askRest('/users?page=2147483648')).toMatchObject({ result: { page: 2147483648, users: [] } });
    expect(await askGraphQL(LIST, { page: 2147483648 })).toEqual({ refused: 'BAD_USER_INPUT' });
  });

  test('a user_id as text is valid in GraphQL, where an ID is text, and invalid over REST', async () => {
    const body = { address: CUSTODIAL, user_id: ids['Ada@Example.com'] };
    expect(await askRest('/wallets/verify', json(body))).toEqual({ refused: 'BAD_USER_INPUT' });
    expect(await askGraphQL(VERIFY, body)).toMatchObject({ result: { exists: true } });
  });

  test('an unknown parameter is ignored over REST, and invalid in GraphQL', async () => {
    expect(await askRest('/users/count?colour=red')).toEqual({ result: { total_user: 16 } });
    expect(await askGraphQL(COUNT, { filter: { colour: 'red' } })).toEqual({ refused: 'BAD_USER_INPUT' });
  });
});

function malformedAddresses(): string[] {
  return [
    '',
    ' ',
    'hello',
    CUSTODIAL.toLowerCase(),
    CUSTODIAL.slice(0, -1),
    `${CUSTODIAL}A`,
    ` ${CUSTODIAL}`,
    // One character of the key is changed, so the checksum is wrong.
    `${CUSTODIAL.slice(0, 9)}${CUSTODIAL[9] === 'A' ? 'B' : 'A'}${CUSTODIAL.slice(10)}`,
    `M${CUSTODIAL.slice(1)}`,
    WALLET.slice(0, -1),
    `${WALLET}0`,
    WALLET.slice(2),
    `0X${WALLET.slice(2)}`,
    `${WALLET.slice(0, -1)}g`,
    `${WALLET}\u0000`,
    `${WALLET.slice(0, -1)}０`,
  ];
}
