import { beforeAll, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

const app = useTestApp();
let project: TestProject;
let owner: string;
let other: string;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers(
    {
      auth_method: 'google',
      auth_value: 'owner',
      created_at: '2026-01-02T00:00:00.000Z',
      accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
    },
    { auth_method: 'wallet', auth_value: ethereumAddress(2), created_at: '2026-01-01T00:00:00.000Z' },
  );
  const { data } = await project.graphql('{ userPage { users { id } } }');
  [owner, other] = data.userPage.users.map((user: { id: string }) => user.id);
});

const verify = (parameters: string) =>
  project.graphql(`{ verifyWallet(${parameters}) { exists userId network walletType authMethod } }`);
const NO = { exists: false, userId: null, network: null, walletType: null, authMethod: null };

test('verifyWallet names the owner of a custodial account', async () => {
  const { data } = await verify(`address: "${stellarAddress(1)}"`);
  expect(data.verifyWallet).toEqual({
    exists: true,
    userId: owner,
    network: 'STELLAR',
    walletType: 'CUSTODIAL',
    authMethod: 'google',
  });
});

test('verifyWallet names the owner of an external wallet, in any case of its hex digits', async () => {
  const { data } = await verify(`address: "0x${ethereumAddress(2).slice(2).toUpperCase()}"`);
  expect(data.verifyWallet).toEqual({
    exists: true,
    userId: other,
    network: 'ETHEREUM',
    walletType: 'EXTERNAL',
    authMethod: 'wallet',
  });
});

test('verifyWallet with a userId finds the address only for that user', async () => {
  const address = stellarAddress(1);
  for (const id of [owner, `"${owner}"`]) {
    const { data } = await verify(`address: "${address}", userId: ${id}`);
    expect(data.verifyWallet).toMatchObject({ exists: true, userId: owner });
  }
  for (const id of [other, Number.MAX_SAFE_INTEGER, '99999999999999999999999']) {
    const { data } = await verify(`address: "${address}", userId: ${id}`);
    expect(data.verifyWallet).toEqual(NO);
  }
});

test('verifyWallet returns exists: false, without an error, for an address that no user has', async () => {
  const { data, errors } = await verify(`address: "${stellarAddress(404)}"`);
  expect({ data, errors }).toEqual({ data: { verifyWallet: NO }, errors: undefined });
});

test.each(['null', '0', '-1', '1.5', '"x"', '""'])(
  'verifyWallet with userId: %s is BAD_USER_INPUT and never ignores the userId',
  async (id) => {
    const answer = await verify(`address: "${stellarAddress(1)}", userId: ${id}`);
    expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
  },
);

test('verifyWallet refuses a userId that has lost its value, and searches all users only where the document has none', async () => {
  const query = 'query ($address: String!, $id: ID) { verifyWallet(address: $address, userId: $id) { exists } }';
  const address = stellarAddress(1);
  expect(codesOf(await project.graphql(query, { address }))).toEqual(['BAD_USER_INPUT']);
  expect(codesOf(await project.graphql(query, { address, id: null }))).toEqual(['BAD_USER_INPUT']);
  expect((await verify(`address: "${address}"`)).data.verifyWallet.exists).toBe(true);
});

test.each(['', 'hello', stellarAddress(1).toLowerCase(), '0x12', `${stellarAddress(1).slice(0, -1)}A`])(
  'verifyWallet of the malformed address %j is BAD_USER_INPUT, not exists: false',
  async (address) => {
    expect(codesOf(await verify(`address: ${JSON.stringify(address)}`))).toEqual(['BAD_USER_INPUT']);
  },
);

test('verifyWallet returns exists: false after the user is removed', async () => {
  const removed = await app.createProject();
  await removed.addUsers({ auth_method: 'wallet', auth_value: stellarAddress(3) });
  const { data } = await removed.graphql('{ userPage { users { id } } }');
  await removed.graphql('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: data.userPage.users[0].id });
  const answer = await removed.graphql(`{ verifyWallet(address: "${stellarAddress(3)}") { exists } }`);
  expect(answer.data).toEqual({ verifyWallet: { exists: false } });
});

const parse = async (address: string) => {
  const { data } = await project.graphql(
    'query ($address: String!) { parseAddress(address: $address) { network canonical checksumValid reason } }',
    { address },
  );
  return data.parseAddress;
};

// The example addresses of EIP-55. The Stellar address is the ed25519 example of SEP-23.
test.each([
  ['0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', true],
  ['0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359', true],
  ['0x52908400098527886E0F7030069857D2E4169EE7', true],
  ['0xde709f2102306220921060314715629080e2fb77', true],
  ['0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED', true],
  ['0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed', true],
  ['0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', false],
])('parseAddress accepts the Ethereum address %s with checksumValid %s', async (address, checksumValid) => {
  expect(await parse(address)).toEqual({
    network: 'ETHEREUM',
    canonical: address.toLowerCase(),
    checksumValid,
    reason: null,
  });
});

test('parseAddress accepts a Stellar address and returns it unchanged', async () => {
  const address = 'GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ';
  expect(await parse(address)).toEqual({ network: 'STELLAR', canonical: address, checksumValid: true, reason: null });
});

test.each([
  ['', /empty/],
  ['hello', /neither/],
  ['GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGA', /checksum/],
  ['ga7qynf7sowq3glr2bgmzehxavirza4kvwltjjfc7mgxua74p7ujvsgz', /upper case/],
  ['GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSG', /56 characters.*here are 55/],
  ['MA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUAAAAAAAAAAAACJUQ', /muxed/],
  [`S${'A'.repeat(55)}`, /secret seed/],
  ['0x5aaeb6053f3e94c9b9a09f33669435e7ef1beae', /40 hex digits.*here are 39/],
  ['0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed', /lower case/],
  [' 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed', /no blanks around/],
  ['0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed\n', /no blanks around/],
  ['\u0000\ud800', /neither/],
])('parseAddress gives the reason why %j is not an address', async (address, reason) => {
  expect(await parse(address)).toEqual({
    network: null,
    canonical: null,
    checksumValid: null,
    reason: expect.stringMatching(reason),
  });
});

test('the reason never contains a secret seed', async () => {
  const seed = `S${'B'.repeat(55)}`;
  expect(JSON.stringify(await parse(seed))).not.toContain(seed);
});
