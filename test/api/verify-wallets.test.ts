import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';
import { expectError, idOf, jsonPost } from '../support/rest.js';

/** Verification of many wallets at once, over REST and GraphQL. */

const app = useTestApp();
let project: TestProject;
let projectId: number;
let owner: number;
let other: number;
const MINE = stellarAddress(1);
const WALLET = ethereumAddress(2);
const NOBODYS = stellarAddress(404);
const OF_STRANGER = stellarAddress(5);

beforeAll(async () => {
  project = await app.createProject();
  projectId = (await app.context.services.projects.getScope(project.appId)).projectIdFor('operate');
  await project.addUsers(
    { auth_method: 'google', auth_value: 'owner', accounts: [{ network: 'stellar', public_key: MINE }] },
    { auth_method: 'wallet', auth_value: WALLET },
  );
  [owner, other] = [await idOf(project, 'owner'), await idOf(project, WALLET)];
  const stranger = await app.createProject();
  await stranger.addUsers({ auth_method: 'wallet', auth_value: OF_STRANGER });
});

interface Wallet {
  readonly address: unknown;
  readonly user_id?: unknown;
}

const overRest = (body: unknown, by = project) => by.rest('/wallets/verify', jsonPost(body));
const QUERY = `query Verify($inputs: [WalletInput!]!) { verifyWallets(inputs: $inputs) {
  asOf verdict reason user_id: userId network wallet_type: walletType auth_method: authMethod
} }`;
const overGraphQL = (wallets: readonly Wallet[], by = project) =>
  by.graphql(QUERY, {
    inputs: wallets.map(({ address, user_id }) => (user_id === undefined ? { address } : { address, userId: user_id })),
  });

/** A verdict of GraphQL in the words of REST, which leaves out what is null. */
function inRestWords(verdict: Json): Json {
  const { user_id, network, wallet_type, asOf: _, ...others } = verdict;
  const words = {
    ...others,
    ...(user_id !== null && { user_id: Number(user_id) }),
    ...(network !== null && { network: network.toLowerCase(), wallet_type: wallet_type.toLowerCase() }),
    reason:
      verdict.reason
        ?.replace('userId', 'user_id')
        .replace('decimal digits', 'a whole number without quotes')
        .replace('"0"', '0') ?? null,
  };
  return Object.fromEntries(Object.entries(words).filter(([, value]) => value !== null));
}

/** The verdicts on some wallets, after a check that both interfaces agree. */
async function verdictsOn(wallets: readonly Wallet[], by = project): Promise<Json[]> {
  const { status, body } = await overRest({ wallets }, by);
  const { data, errors } = await overGraphQL(wallets, by);
  expect([status, errors]).toEqual([200, undefined]);
  expect(data.verifyWallets.map(inRestWords)).toEqual(body.result.verdicts);
  const instants = data.verifyWallets.map(({ asOf }: Json) => asOf);
  expect(new Set(instants).size).toBeLessThanOrEqual(1);
  for (const instant of [body.result.as_of, ...instants])
    expect(instant).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  return body.result.verdicts;
}

const verified = (id: number) =>
  id === owner
    ? { verdict: 'VERIFIED', user_id: owner, network: 'stellar', wallet_type: 'custodial', auth_method: 'google' }
    : { verdict: 'VERIFIED', user_id: other, network: 'ethereum', wallet_type: 'external', auth_method: 'wallet' };
const NOT_OWNED = { verdict: 'NOT_OWNED' };
const malformed = (reason: unknown) => ({ verdict: 'MALFORMED', reason });

test('verdicts come in the order of the wallets, and a malformed wallet does not fail the others', async () => {
  const wallets = [
    { address: NOBODYS },
    { address: WALLET.toUpperCase().replace('0X', '0x') },
    { address: '' },
    { address: MINE },
    { address: MINE, user_id: owner },
    { address: MINE, user_id: other },
    { address: OF_STRANGER },
    { address: MINE, user_id: null },
    { address: MINE, user_id: 0 },
    { address: `S${'A'.repeat(55)}` },
    { address: MINE, user_id: Number.MAX_SAFE_INTEGER },
    { address: '0x12', user_id: owner },
    { address: MINE },
  ];
  expect(await verdictsOn(wallets)).toEqual([
    NOT_OWNED,
    verified(other),
    malformed('it is empty'),
    verified(owner),
    verified(owner),
    NOT_OWNED,
    NOT_OWNED,
    malformed('user_id: got null, expected a whole number without quotes, 1 and up'),
    malformed('user_id: got 0, expected a whole number without quotes, 1 and up'),
    malformed('this looks like a secret seed (S…), which must never be sent anywhere'),
    NOT_OWNED,
    malformed('an Ethereum address has 40 hex digits after 0x, and this has 2'),
    verified(owner),
  ]);
});

test('no wallet, and wallets that are all malformed, are answered without a statement', async () => {
  app.statements.length = 0;
  expect(await verdictsOn([])).toEqual([]);
  expect(await verdictsOn([{ address: 'x' }])).toEqual([
    malformed('it begins neither with G (Stellar) nor with 0x (Ethereum)'),
  ]);
  expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toEqual([]);
});

test('500 wallets are answered by one statement, and 501 are refused', async () => {
  const wallets = Array.from({ length: 501 }, (_, index) => ({
    address: index % 2 === 0 ? MINE : stellarAddress(index),
  }));
  app.statements.length = 0;
  const { body } = await overRest({ wallets: wallets.slice(0, 500) });
  expect(body.result.verdicts.map(({ verdict }: Json) => verdict === 'VERIFIED')).toEqual(
    wallets.slice(0, 500).map(({ address }) => address === MINE),
  );
  expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toHaveLength(1);
  expect(expectError(await overRest({ wallets }), 400)).toBe('wallets: got 501, expected at most 500.');
  const { data, errors } = await overGraphQL(wallets);
  expect([data, errors]).toMatchObject([
    null,
    [
      {
        message: 'inputs: got 501, expected at most 500.',
        extensions: { ...explained('BAD_USER_INPUT'), argument: 'inputs' },
      },
    ],
  ]);
});

test.each<[body: unknown, error: string | RegExp]>([
  [{}, 'wallets: got nothing, expected a list of objects, each with an address.'],
  [[], 'body: got [], expected a JSON object with content-type application/json.'],
  [{ wallets: {} }, 'wallets: got {}, expected a list of objects, each with an address.'],
  [{ wallets: [MINE] }, /^wallets\[0\]: got .*, expected an object with an address\.$/],
  [{ wallets: [{ address: MINE }, { user_id: 1 }] }, /^wallets\[1\]\.address: got nothing, expected a Stellar address/],
  [{ wallets: [{ address: null }] }, /^wallets\[0\]\.address: got null, expected a Stellar address/],
  [
    { wallets: [{ address: MINE, userId: 1 }] },
    'wallets[0]: got the unknown key "userId", expected only address and user_id.',
  ],
  [{ wallets: [], more: 1 }, 'body: got the unknown key "more", expected only wallets.'],
])('%j is refused', async (body, error) => {
  expect(expectError(await overRest(body), 400)).toEqual(
    typeof error === 'string' ? error : expect.stringMatching(error),
  );
});

test('asOf is not before what the verdicts show, nor after the answer', async () => {
  const before = await app.context.db.query<{ now: string }>(Prisma.sql`SELECT clock_timestamp() AS now`);
  const { body } = await overRest({ wallets: [{ address: MINE }] });
  const after = await app.context.db.query<{ now: string }>(Prisma.sql`SELECT clock_timestamp() AS now`);
  expect(body.result.as_of.slice(0, 23) >= String(before[0]?.now).slice(0, 23)).toBe(true);
  expect(body.result.as_of.slice(0, 23) <= String(after[0]?.now).slice(0, 23)).toBe(true);
});

describe('an address that many removed users have had', () => {
  const CROWDED = stellarAddress(70);
  const DESERTED = stellarAddress(71);
  beforeAll(async () => {
    const addLinks = (name: string, address: string, count: number) =>
      app.context.db.query(Prisma.sql`
        WITH made AS (
          INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, deleted_at)
          SELECT ${projectId}::int, 'passkey', ${name} || n, ${name} || n, now() FROM generate_series(1, ${count}::int) AS n
          RETURNING id
        )
        INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
        SELECT ${projectId}::int, id, 'stellar', ${address}, ${address}, 'custodial' FROM made`);
    await addLinks('crowd', CROWDED, 2_500);
    await addLinks('desert', DESERTED, 20);
    await project.addUsers({
      auth_method: 'passkey',
      auth_value: 'last',
      accounts: [{ network: 'stellar', public_key: CROWDED }],
    });
  });

  test('is verified beside others, in one snapshot', async () => {
    const last = await idOf(project, 'last');
    const wallets = [
      { address: DESERTED },
      { address: MINE },
      { address: CROWDED },
      { address: 'x' },
      { address: NOBODYS },
    ];
    const found = await verdictsOn(wallets);
    expect(found).toMatchObject([
      NOT_OWNED,
      verified(owner),
      { verdict: 'VERIFIED', user_id: last },
      malformed('it begins neither with G (Stellar) nor with 0x (Ethereum)'),
      NOT_OWNED,
    ]);
    app.statements.length = 0;
    await overRest({ wallets });
    const statements = app.statements.filter((sql) => !/app_secrets/.test(sql));
    expect(statements.filter((sql) => sql.startsWith('BEGIN'))).toEqual(['BEGIN ISOLATION LEVEL REPEATABLE READ']);
    expect(statements.length).toBeLessThan(10);
  });
});

test('many wallets get the verdicts that verifyWallet gives one by one', async () => {
  const address = fc.oneof(
    fc.constantFrom(MINE, WALLET, WALLET.toUpperCase(), NOBODYS, OF_STRANGER, MINE.toLowerCase(), ''),
    fc.string({ unit: 'grapheme', maxLength: 70 }),
  );
  const userId = fc.constantFrom<(() => unknown)[]>(
    () => undefined,
    () => owner,
    () => other,
    () => null,
    () => 'x',
    () => -1,
    () => '1'.repeat(40),
  );
  const FIELDS = '{ exists userId network walletType authMethod }';
  const one = ({ userId: id }: { userId: unknown }) =>
    id === undefined
      ? `query ($address: String!) { verifyWallet(address: $address) ${FIELDS} }`
      : `query ($address: String!, $userId: ID) { verifyWallet(address: $address, userId: $userId) ${FIELDS} }`;
  const many = `query ($inputs: [WalletInput!]!) {
    verifyWallets(inputs: $inputs) { verdict userId network walletType authMethod }
  }`;
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(address, userId), { minLength: 1, maxLength: 12 }), async (drawn) => {
      const inputs = drawn.map(([text, id]) => ({ address: text, userId: id() }));
      const { data } = await project.graphql(many, { inputs });
      const singles = await Promise.all(inputs.map((input) => project.graphql(one(input), input)));
      const expected = singles.map(({ data: single, errors }) => {
        if (errors !== undefined) return { verdict: 'MALFORMED', userId: null };
        const { exists, ...rest } = single.verifyWallet;
        return { verdict: exists ? 'VERIFIED' : 'NOT_OWNED', ...rest };
      });
      expect(data.verifyWallets).toMatchObject(expected);
    }),
    { numRuns: 30 },
  );
});
