import { createPublicKey, generateKeyPairSync, type KeyObject, verify as verifySignature } from 'node:crypto';
import { createVerifier } from 'fast-jwt';
import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, startTestApp, type TestApp, type TestProject, useTestApp } from '../support/app.js';
import { expectError, idOf, jsonPost } from '../support/rest.js';

/** Signed receipts of verdicts, checked as a third party would: with the published keys, and another library than ours. */

const pemOf = (key: KeyObject) => String(key.export({ type: 'pkcs8', format: 'pem' }));
const [FIRST, NEXT] = [generateKeyPairSync('ed25519'), generateKeyPairSync('ed25519')];
const BOTH = JSON.stringify({ keys: [FIRST, NEXT].map(({ privateKey }) => privateKey.export({ format: 'jwk' })) });
const PUBLIC_URL = 'https://users.example.com';

const MINE = stellarAddress(1);
const WALLET = ethereumAddress(2);
const NOBODYS = stellarAddress(404);
const ONE = `query ($address: String!, $userId: ID) { verifyWallet(address: $address, userId: $userId) { exists receipt } }`;
const ONE_OF_ANY = 'query ($address: String!) { verifyWallet(address: $address) { exists receipt } }';
const MANY = 'query ($inputs: [WalletInput!]!) { verifyWallets(inputs: $inputs) { verdict receipt } }';

async function projectWithWallets(app: TestApp): Promise<TestProject> {
  const project = await app.createProject();
  await project.addUsers(
    { auth_method: 'google', auth_value: 'owner', accounts: [{ network: 'stellar', public_key: MINE }] },
    { auth_method: 'wallet', auth_value: WALLET },
  );
  return project;
}

const publishedKeys = async (app: TestApp): Promise<Json[]> =>
  ((await (await fetch(`${app.url}/.well-known/jwks.json`)).json()) as Json).keys;

const partOf = (receipt: string, part: 0 | 1): Json =>
  JSON.parse(Buffer.from(receipt.split('.')[part] as string, 'base64url').toString());

/** The claims of a receipt. Throws unless another library finds it valid for the project. */
function claimsOf(receipt: string, keys: Json[], project: TestProject): Json {
  const { kid } = partOf(receipt, 0);
  const jwk = keys.find((key) => key.kid === kid);
  const key = createPublicKey({ key: jwk, format: 'jwk' }).export({ type: 'spki', format: 'pem' });
  const check = createVerifier({
    key: String(key),
    algorithms: ['EdDSA'],
    allowedAud: project.appId,
    allowedIss: PUBLIC_URL,
    checkTyp: 'wallet-verification+jwt',
    requiredClaims: ['iat', 'exp'],
    maxAge: 300_000,
  });
  return check(receipt);
}

describe('with a key that signs and the next one,', () => {
  const app = useTestApp({ ownDatabase: true, env: { RECEIPT_KEY: BOTH, PUBLIC_URL } });
  let project: TestProject;
  let keys: Json[];
  let owner: string;
  beforeAll(async () => {
    project = await projectWithWallets(app);
    keys = await publishedKeys(app);
    owner = String(await idOf(project, 'owner'));
  });

  const receiptsOf = async (inputs: Json[]): Promise<(string | null)[]> => {
    const { data } = await project.graphql(MANY, { inputs });
    return data.verifyWallets.map(({ receipt }: Json) => receipt);
  };

  test('each verdict is signed, a no as well, and another library accepts it', async () => {
    const before = Math.floor(Date.now() / 1_000);
    const inputs = [
      { address: MINE },
      { address: MINE, userId: owner },
      { address: WALLET.toUpperCase().replace('0X', '0x') },
      { address: NOBODYS },
      { address: WALLET, userId: owner },
    ];
    const claims = (await receiptsOf(inputs)).map((receipt) => claimsOf(String(receipt), keys, project));
    const mine = { address: MINE, network: 'stellar' };
    const wallet = { address: WALLET.toLowerCase(), network: 'ethereum' };
    const common = { iss: PUBLIC_URL, aud: project.appId, iat: expect.any(Number), exp: expect.any(Number) };
    expect(claims).toEqual([
      { ...common, ...mine, verdict: 'VERIFIED', user_id: owner },
      { ...common, ...mine, verdict: 'VERIFIED', user_id: owner, for_user_id: owner },
      { ...common, ...wallet, verdict: 'VERIFIED', user_id: String(await idOf(project, WALLET)) },
      { ...common, address: NOBODYS, network: 'stellar', verdict: 'NOT_OWNED' },
      { ...common, ...wallet, verdict: 'NOT_OWNED', for_user_id: owner },
    ]);
    for (const { iat, exp } of claims) {
      expect(exp - iat).toBe(300);
      expect(iat).toBeGreaterThanOrEqual(before);
      expect(iat).toBeLessThanOrEqual(Date.now() / 1_000);
    }
  });

  test('the signature is Ed25519 over the first two parts, under the published key', async () => {
    const [receipt] = await receiptsOf([{ address: MINE }]);
    const [header, payload, signature = ''] = String(receipt).split('.');
    expect(partOf(String(receipt), 0)).toEqual({ alg: 'EdDSA', typ: 'wallet-verification+jwt', kid: keys[0].kid });
    const signed = Buffer.from(`${header}.${payload}`);
    expect(verifySignature(null, signed, FIRST.publicKey, Buffer.from(signature, 'base64url'))).toBe(true);
    expect(verifySignature(null, signed, NEXT.publicKey, Buffer.from(signature, 'base64url'))).toBe(false);
    const forged = Buffer.from(JSON.stringify({ ...partOf(String(receipt), 1), user_id: '1000' })).toString(
      'base64url',
    );
    expect(() => claimsOf(`${header}.${forged}.${signature}`, keys, project)).toThrow('signature');
    const other = await app.createProject();
    expect(() => claimsOf(String(receipt), keys, other)).toThrow('aud');
  });

  test('verifyWallet has a receipt too, compiled or not', async () => {
    for (let time = 0; time < 5; time += 1) {
      const yes = (await project.graphql(ONE_OF_ANY, { address: MINE })).data.verifyWallet;
      expect(claimsOf(yes.receipt, keys, project)).toMatchObject({
        address: MINE,
        verdict: 'VERIFIED',
        user_id: owner,
      });
      const no = (await project.graphql(ONE, { address: WALLET, userId: owner })).data.verifyWallet;
      expect(claimsOf(no.receipt, keys, project)).toMatchObject({ verdict: 'NOT_OWNED', for_user_id: owner });
    }
  });

  test('REST has receipts where they are asked for', async () => {
    const wallets = [{ address: MINE }, { address: NOBODYS }, { address: 'x' }];
    const { body } = await project.rest('/wallets/verify', jsonPost({ wallets, receipts: true }));
    const [yes, no, malformed] = body.result.verdicts;
    expect(claimsOf(yes.receipt, keys, project)).toMatchObject({ address: MINE, user_id: owner });
    expect(claimsOf(no.receipt, keys, project)).toMatchObject({ address: NOBODYS, verdict: 'NOT_OWNED' });
    expect(Object.keys(malformed)).toEqual(['verdict', 'reason']);
    const without = await project.rest('/wallets/verify', jsonPost({ wallets, receipts: false }));
    expect(JSON.stringify(without.body)).not.toContain('receipt');
    expectError(await project.rest('/wallets/verify', jsonPost({ wallets, receipts: 'yes' })), 400);
  });

  test('neither a malformed wallet nor a user who cannot exist has one', async () => {
    const inputs = [{ address: '' }, { address: MINE, userId: null }, { address: MINE, userId: '9'.repeat(25) }];
    expect(await receiptsOf(inputs)).toEqual([null, null, null]);
  });

  test('500 receipts come in the order of their wallets', async () => {
    const inputs = Array.from({ length: 500 }, (_, index) => ({ address: ethereumAddress(index) }));
    const receipts = await receiptsOf(inputs);
    expect(receipts.map((receipt) => partOf(String(receipt), 1).address)).toEqual(
      inputs.map(({ address }) => address.toLowerCase()),
    );
  });

  test('the keys are public, may be cached, and have nothing private', async () => {
    const answer = await fetch(`${app.url}/.well-known/jwks.json`);
    expect([answer.status, answer.headers.get('cache-control'), answer.headers.get('content-type')]).toEqual([
      200,
      'public, max-age=300',
      'application/json; charset=utf-8',
    ]);
    const published = [FIRST, NEXT].map(({ publicKey }) => ({
      ...{ kty: 'OKP', crv: 'Ed25519', x: publicKey.export({ format: 'jwk' }).x },
      ...{ kid: expect.stringMatching(/^[\w-]{43}$/), alg: 'EdDSA', use: 'sig' },
    }));
    expect(await answer.json()).toEqual({ keys: published });
    expect((await fetch(`${app.url}/.well-known/jwks.json`, { method: 'HEAD' })).status).toBe(200);
  });

  test('after a rotation, a verifier accepts receipts of the next key with the keys from before it', async () => {
    const RECEIPT_KEY = pemOf(NEXT.privateKey) + pemOf(FIRST.privateKey);
    const rotated = await startTestApp({ ownDatabase: true, env: { RECEIPT_KEY, PUBLIC_URL } });
    try {
      const projectThere = await projectWithWallets(rotated);
      const { receipt } = (await projectThere.graphql(ONE_OF_ANY, { address: MINE })).data.verifyWallet;
      expect(claimsOf(receipt, keys, projectThere)).toMatchObject({ address: MINE });
      expect(partOf(receipt, 0).kid).toBe(keys[1].kid);
      expect(await publishedKeys(rotated)).toEqual([keys[1], keys[0]]);
    } finally {
      await rotated.close();
    }
  });
});

describe('without a key,', () => {
  const app = useTestApp();
  let project: TestProject;
  beforeAll(async () => {
    project = await projectWithWallets(app);
  });
  const refusal =
    'receipts: this service signs none, because its operator has set neither RECEIPT_KEY nor RECEIPT_KEY_FILE; expected a request without them.';

  test('a receipt is refused, and everything else is answered', async () => {
    for (const [query, variables] of [
      [ONE_OF_ANY, { address: MINE }],
      [MANY, { inputs: [{ address: MINE }, { address: WALLET }] }],
    ] as const) {
      const { data, errors } = await project.graphql(query, variables);
      expect([data, errors?.map(({ message, extensions }) => [message, extensions.code])]).toEqual([
        null,
        [[refusal, 'BAD_USER_INPUT']],
      ]);
    }
    const wallets = [{ address: MINE }];
    expect(expectError(await project.rest('/wallets/verify', jsonPost({ wallets, receipts: true })), 400)).toBe(
      refusal,
    );
    expect((await project.rest('/wallets/verify', jsonPost({ wallets }))).status).toBe(200);
  });

  test('there are no keys: 404', async () => {
    expect((await fetch(`${app.url}/.well-known/jwks.json`)).status).toBe(404);
  });
});
