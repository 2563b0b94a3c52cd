import { beforeAll, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/** What the parity with REST (contract/parity) and the rules of addresses (unit/addresses) leave open. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers({ auth_method: 'wallet', auth_value: stellarAddress(1) });
});

test('verifyWallet refuses a userId that has lost its value, and searches all users only where the document has none', async () => {
  const query = 'query ($address: String!, $id: ID) { verifyWallet(address: $address, userId: $id) { exists } }';
  const address = stellarAddress(1);
  expect(codesOf(await project.graphql(query, { address }))).toEqual(['BAD_USER_INPUT']);
  expect(codesOf(await project.graphql(query, { address, id: null }))).toEqual(['BAD_USER_INPUT']);
  const { data } = await project.graphql(`{ verifyWallet(address: "${address}") { exists } }`);
  expect(data.verifyWallet.exists).toBe(true);
});

test.each([
  ['0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 'ETHEREUM', false],
  ['0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed', 'ETHEREUM', true],
  ['GA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVSGZ', 'STELLAR', true],
  ['hello', null, null],
  [`S${'B'.repeat(55)}`, null, null],
])(
  'parseAddress tells the network, the form and the checksum of %s, or why it is none',
  async (address, network, checksumValid) => {
    const { data } = await project.graphql(
      'query ($address: String!) { parseAddress(address: $address) { network canonical checksumValid reason } }',
      { address },
    );
    expect(data.parseAddress).toEqual({
      network,
      canonical: network && (network === 'STELLAR' ? address : address.toLowerCase()),
      checksumValid,
      reason: network ? null : expect.not.stringContaining(address),
    });
  },
);
