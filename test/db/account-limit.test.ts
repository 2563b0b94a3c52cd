import { describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

const app = useTestApp();

const ADA = { authMethod: 'email', authValue: 'ada@example.com' };
const range = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => from + index);
const stellar = (from: number, to: number) =>
  range(from, to).map((number) => ({ network: 'STELLAR', publicKey: stellarAddress(number) }));
const lineOf = (from: number, to: number, more: Json = {}) => ({
  auth_method: ADA.authMethod,
  auth_value: ADA.authValue,
  accounts: range(from, to).map((number) => ({ network: 'stellar', public_key: stellarAddress(number) })),
  ...more,
});

function login(project: TestProject, input: Json, key?: string) {
  const [variable, argument] = key === undefined ? ['', ''] : [', $key: String!', ', idempotencyKey: $key'];
  const query = `mutation ($input: RecordLoginInput!${variable}) { recordLogin(input: $input${argument}) {
    user { loginCount accounts { publicKey walletType } }
  } }`;
  return project.graphql(query, { input: { ...ADA, ...input }, key });
}

async function importLines(project: TestProject, lines: Json[], options: { skipInvalid?: boolean } = {}) {
  return project.importLines(lines, { onConflict: 'update', ...options });
}

async function readAda(project: TestProject): Promise<Json> {
  const { body } = await project.rest(`/server/users/search?email=${ADA.authValue}`);
  return body.result.users[0];
}

const refusal = (count: number) => `accounts: the user would have ${count}, expected at most 100.`;

describe('a user has at most 100 accounts in all', () => {
  test('by logins: a login that would exceed the limit changes nothing', async () => {
    const project = await app.createProject();
    await login(project, { accounts: stellar(0, 60) });
    const { data } = await login(project, { accounts: stellar(50, 100) });
    expect(data.recordLogin.user).toMatchObject({ loginCount: 2 });
    expect(data.recordLogin.user.accounts).toHaveLength(100);
    for (const key of [undefined, 'a-key']) {
      const refused = await login(project, { accounts: stellar(100, 103) }, key);
      expect(refused.errors).toMatchObject([{ message: refusal(103), extensions: { code: 'BAD_USER_INPUT' } }]);
    }
    expect(await readAda(project)).toMatchObject({ login_count: 2 });
    expect((await login(project, { accounts: stellar(0, 100) })).data.recordLogin.user.loginCount).toBe(3);
  });

  test('by a first login: the wallet counts as an account', async () => {
    const project = await app.createProject();
    const { errors } = await login(project, { wallet: stellarAddress(100), accounts: stellar(0, 100) });
    expect(errors).toMatchObject([{ message: refusal(101), extensions: { code: 'BAD_USER_INPUT' } }]);
    expect(await readAda(project)).toBeUndefined();
  });

  test('by concurrent logins: those within the limit succeed, and the others change nothing', async () => {
    const project = await app.createProject();
    const answers = await Promise.all(
      range(0, 16).map((number) => login(project, { accounts: stellar(10 * number, 10 * number + 10) })),
    );
    const messages = answers.flatMap(({ errors }) => errors?.map(({ message }) => message) ?? []);
    expect(messages).toEqual(Array.from({ length: 6 }, () => refusal(110)));
    const ada = await readAda(project);
    expect(ada.login_count).toBe(10);
    expect(ada.accounts).toHaveLength(100);
  });

  test('by an import: the line is reported, and nothing is imported unless skipInvalid is set', async () => {
    const project = await app.createProject();
    await login(project, { accounts: stellar(0, 60) });
    const good = { auth_method: 'email', auth_value: 'bob@example.com' };
    const lines = [good, lineOf(50, 101)];
    const errors = [{ line: 2, error: refusal(101) }];
    expect(await importLines(project, lines)).toMatchObject({ imported: 0, failed: 1, errors });
    expect(await readAda(project)).toMatchObject({ login_count: 1 });
    expect(await importLines(project, lines, { skipInvalid: true })).toMatchObject({ imported: 1, failed: 1, errors });
    expect(await importLines(project, [lineOf(0, 60, { login_count: 7 })])).toMatchObject({ imported: 1 });
    const ada = await readAda(project);
    expect(ada.login_count).toBe(7);
    expect(ada.accounts).toHaveLength(60);
  });

  test('by an import of a new user: the wallet counts as an account', async () => {
    const project = await app.createProject();
    const report = await importLines(project, [lineOf(0, 100, { wallet: stellarAddress(100) })]);
    expect(report).toMatchObject({ imported: 0, failed: 1, errors: [{ line: 1, error: refusal(101) }] });
  });

  test('except users that already have more: all their accounts are returned, and none can be added', async () => {
    const project = await app.createProject();
    await login(project, {});
    const { pool } = app.context.db;
    await pool.query(
      `INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
       SELECT u.project_id, u.id, 'stellar', key, key, 'custodial'
       FROM users u JOIN projects p ON p.id = u.project_id, unnest($2::text[]) AS key WHERE p.app_id = $1`,
      [project.appId, range(0, 150).map(stellarAddress)],
    );
    expect((await readAda(project)).accounts).toHaveLength(150);
    expect((await login(project, { accounts: stellar(0, 3) })).data.recordLogin.user.accounts).toHaveLength(150);
    expect((await login(project, { accounts: stellar(150, 151) })).errors?.[0]?.message).toBe(refusal(151));
    expect(await importLines(project, [lineOf(0, 100)])).toMatchObject({ imported: 1, failed: 0 });
  });
});

describe('a custodial address becomes external when it is the login wallet', () => {
  const address = ethereumAddress(1);
  const linked = { network: 'ETHEREUM', publicKey: address };
  const checksummed = `0x${address.slice(2).toUpperCase()}`;

  async function typesOf(project: TestProject): Promise<Json> {
    const { data } = await project.graphql(
      'query ($address: String!) { verifyWallet(address: $address) { walletType } }',
      {
        address,
      },
    );
    const headers = { 'content-type': 'application/json' };
    const { body } = await project.rest('/server/wallets/verify', {
      method: 'POST',
      headers,
      body: JSON.stringify({ address }),
    });
    return [data.verifyWallet.walletType, body.result.wallet_type];
  }

  for (const [how, act] of [
    ['by a login', (project: TestProject) => login(project, { wallet: checksummed })],
    [
      'by an import that updates',
      (project: TestProject) => importLines(project, [lineOf(0, 0, { wallet: checksummed })]),
    ],
  ] as const) {
    test(how, async () => {
      const project = await app.createProject();
      await login(project, { accounts: [linked, { network: 'STELLAR', publicKey: stellarAddress(1) }] });
      expect(await typesOf(project)).toEqual(['CUSTODIAL', 'custodial']);
      await act(project);
      expect(await typesOf(project)).toEqual(['EXTERNAL', 'external']);
      // It stays external, in one row, when a later login lists it as an account.
      await login(project, { accounts: [linked] });
      const { data } = await login(project, {});
      expect(data.recordLogin.user.accounts).toEqual([
        { publicKey: address, walletType: 'EXTERNAL' },
        { publicKey: stellarAddress(1), walletType: 'CUSTODIAL' },
      ]);
    });
  }
});
