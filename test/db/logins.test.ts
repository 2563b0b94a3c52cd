import { beforeEach, describe, expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { parseIdentity, parseProfile } from '#dist/domain/identities.js';
import type { ProjectScope } from '#dist/domain/projects.js';
import { camelCase } from '#dist/domain/spelling.js';
import { checksumAddress } from '#dist/domain/wallets.js';
import { importBans } from '#dist/users/bans.sql.js';
import { recordLogins } from '#dist/users/logins.sql.js';
import { removeUsers } from '#dist/users/write-users.sql.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';

const app = useTestApp();
let project: TestProject;
let scope: ProjectScope;
beforeEach(async () => {
  project = await app.createProject();
  scope = await app.context.services.projects.getScope(project.appId);
});

interface LoginInput {
  authMethod: string;
  authValue: string;
  email?: string;
  wallet?: string;
  accounts?: { network: 'STELLAR' | 'ETHEREUM'; publicKey: string }[];
}

const LOGIN = `mutation ($input: RecordLoginInput!) {
  recordLogin(input: $input) {
    created
    user {
      id authMethod authValue loginMethod wallet createdAt lastLogin loginCount
      accounts { id network publicKey walletType }
    }
  }
}`;

const ADA: LoginInput = { authMethod: 'email', authValue: 'ada@example.com' };
const stellar = (number: number) => ({ network: 'STELLAR' as const, publicKey: stellarAddress(number) });

/** The answer of recordLogin; throws if it is an error. */
async function login(input: LoginInput = ADA, by = project): Promise<Json> {
  const { data, errors } = await by.graphql(LOGIN, { input });
  expect(errors).toBeUndefined();
  return data.recordLogin;
}

/** The error code of a refused login, or null if it succeeds. */
async function refusalOf(input: LoginInput = ADA, by = project): Promise<string | null> {
  const { errors } = await by.graphql(LOGIN, { input });
  return errors?.[0]?.extensions.code ?? null;
}

const identity = ({ authMethod, authValue }: LoginInput) => parseIdentity({ authMethod, authValue }, camelCase);
const ban = (input: LoginInput) => app.context.services.bans.ban(scope, identity(input));
const unban = (input: LoginInput) => app.context.services.bans.unbanIdentity(scope, identity(input));

const remove = async (id: string) => (await project.rest(`/server/users/${id}`, { method: 'DELETE' })).status;
const listUsers = async () => (await project.rest('/server/users?limit=100')).body.result;
const range = (count: number) => Array.from({ length: count }, (_, index) => index);

test('a repeated login takes no ID, so that IDs do not tell how often the users of others log in', async () => {
  const idOf = async (input: LoginInput) => Number((await login(input)).user.id);
  const first = await idOf(ADA);
  await Promise.all(range(20).map(() => login(ADA)));
  await login({ ...ADA, accounts: [stellar(1)] });
  await project.graphql(
    'mutation { recordLogin(input: { authMethod: "email", authValue: "ada@example.com" }, idempotencyKey: "k") { created } }',
  );
  expect(await idOf({ authMethod: 'email', authValue: 'grace@example.com' })).toBe(first + 1);
});

/** All users of the project, including removed ones. Their counts add up to all logins. */
async function readRows(): Promise<{ id: string; logins: number; removed: boolean }[]> {
  const { rows } = await app.context.db.pool.query(
    `SELECT id::text, login_count AS logins, deleted_at IS NOT NULL AS removed FROM users WHERE project_id = $1 ORDER BY users.id`,
    [scope.projectIdFor('operate')],
  );
  return rows;
}

describe('recordLogin', () => {
  test('registers an identity at its first login, with its whole profile', async () => {
    const input = {
      authMethod: 'google',
      authValue: 'id-1',
      email: 'Ada@Example.com',
      wallet: stellarAddress(1),
      accounts: [stellar(2)],
    };
    const { created, user } = await login(input);
    expect(created).toBe(true);
    expect(user).toEqual({
      id: expect.stringMatching(/^\d+$/),
      authMethod: 'google',
      authValue: 'id-1',
      loginMethod: 'SOCIALS',
      wallet: stellarAddress(1),
      createdAt: expect.any(String),
      lastLogin: user.createdAt,
      loginCount: 1,
      accounts: [
        { id: expect.any(String), network: 'STELLAR', publicKey: stellarAddress(2), walletType: 'CUSTODIAL' },
        { id: expect.any(String), network: 'STELLAR', publicKey: stellarAddress(1), walletType: 'EXTERNAL' },
      ],
    });
  });

  test('counts every later login of the identity, in any spelling', async () => {
    const first = await login();
    const second = await login({ ...ADA, authValue: ' ADA@Example.com' });
    expect(second).toEqual({
      created: false,
      user: { ...first.user, loginCount: 2, lastLogin: expect.any(String) },
    });
    expect(Date.parse(second.user.lastLogin)).toBeGreaterThanOrEqual(Date.parse(first.user.lastLogin));
    expect(await listUsers()).toMatchObject({ total_user: 1, users: [{ login_count: 2, auth_value: ADA.authValue }] });
  });

  test('and removal write no instant that is still to come: PostgreSQL would round it up, at times into the next year', async () => {
    const projectId = scope.projectIdFor('operate');
    for (const n of range(12)) {
      const profile = parseProfile({ authMethod: 'google', authValue: `${n}` }, camelCase);
      const late = await app.context.db.transaction('READ COMMITTED', async (tx) => {
        await recordLogins(tx, [{ projectId, profile, retry: null }], true);
        const [row] = await recordLogins(tx, [{ projectId, profile, retry: null }], true);
        const actor = { projectId, actor: 'test', requestId: null };
        await removeUsers(tx, [{ projectId, actor, id: BigInt(row?.id ?? 0), retry: null }], true);
        await importBans(tx, projectId, [
          { ...profile, createdAt: null, reason: null, expiresAt: null, isOfUser: false },
        ]);
        return tx.query(Prisma.sql`
          SELECT * FROM (
            SELECT unnest(ARRAY[created_at, last_login, deleted_at]) AS instant FROM users WHERE project_id = ${projectId}
            UNION ALL SELECT created_at FROM bans WHERE project_id = ${projectId}
            UNION ALL SELECT at FROM changes WHERE project_id = ${projectId}
            UNION ALL SELECT at FROM audit_log WHERE project_id = ${projectId}
          ) AS written WHERE instant > now()`);
      });
      expect(late).toEqual([]);
    }
  });

  test('links new accounts and unlinks none', async () => {
    await login({ ...ADA, accounts: [stellar(1)] });
    await login({ ...ADA, accounts: [stellar(2), stellar(1)] });
    const { user } = await login();
    expect(user.accounts.map((account: Json) => account.publicKey)).toEqual([stellarAddress(1), stellarAddress(2)]);
  });

  test('links an address once in any case, and keeps its first spelling', async () => {
    const account = (publicKey: string) => ({ ...ADA, accounts: [{ network: 'ETHEREUM' as const, publicKey }] });
    const first = await login(account(checksumAddress(ethereumAddress(1))));
    const second = await login(account(ethereumAddress(1)));
    expect(second.user.accounts).toEqual(first.user.accounts);
  });

  test('replaces the email and the wallet only when a later login has new ones', async () => {
    const input = { authMethod: 'google', authValue: 'id-1' };
    const search = async (email: string) =>
      (await project.rest(`/server/users/search?email=${email}`)).body.result.total_user;
    await login({ ...input, email: 'old@example.com', wallet: stellarAddress(1) });
    expect((await login(input)).user.wallet).toBe(stellarAddress(1));
    expect(await search('old@example.com')).toBe(1);
    expect((await login({ ...input, email: 'new@example.com', wallet: stellarAddress(2) })).user.wallet).toBe(
      stellarAddress(2),
    );
    expect([await search('old@example.com'), await search('new@example.com')]).toEqual([0, 1]);
  });

  test('treats the same value with another method or in another project as another identity', async () => {
    const other = await app.createProject();
    const logins = [await login(), await login({ ...ADA, authMethod: 'google' }), await login(ADA, other)];
    expect(logins.map(({ created }) => created)).toEqual([true, true, true]);
    expect(new Set(logins.map(({ user }) => user.id)).size).toBe(3);
  });

  test('succeeds when the login count is at its maximum', async () => {
    await project.addUsers({ auth_method: 'email', auth_value: ADA.authValue, login_count: 2_147_483_647 });
    expect((await login()).user.loginCount).toBe(2_147_483_647);
  });
});

describe('concurrent logins', () => {
  const RACERS = 24;
  const byGraphQL = (input: LoginInput) => login(input);
  const byService = ({ authMethod, authValue }: LoginInput) =>
    app.context.services.logins.recordLogin(scope, parseProfile({ authMethod, authValue }, camelCase));

  test.each([
    ['over GraphQL', byGraphQL],
    ['at the service', byService],
  ])('that are all the first %s create one user and lose no count', async (_name, record) => {
    const spellings = ['ada@example.com', 'ADA@example.com', 'Ada@Example.Com '];
    const logins: Json[] = await Promise.all(
      range(RACERS).map((index) => record({ authMethod: 'email', authValue: spellings[index % 3] as string })),
    );
    expect(logins.filter(({ created }) => created)).toHaveLength(1);
    expect(new Set(logins.map(({ user }) => String(user.id))).size).toBe(1);
    const counts = logins.map(({ user }) => user.loginCount);
    expect(counts.toSorted((a, b) => a - b)).toEqual(range(RACERS).map((index) => index + 1));
    expect(await listUsers()).toMatchObject({ total_user: 1, users: [{ login_count: RACERS }] });
  });

  test('with removals leave at most one user, and count every login on one user, removed or not', async () => {
    // Each task logs in and removes that user. Many removals come late, and some logins meet a user in removal.
    const races = await Promise.all(
      range(RACERS).map(async () => {
        const { created, user } = await login();
        return { created, id: user.id, status: await remove(user.id) };
      }),
    );
    const last = await login();
    const rows = await readRows();
    expect(rows.reduce((sum, { logins }) => sum + logins, 0)).toBe(RACERS + 1);
    expect(rows.filter(({ removed }) => !removed)).toHaveLength(1);
    expect(rows.at(-1)).toMatchObject({ id: last.user.id, removed: false });
    expect([...races, last].filter(({ created }) => created)).toHaveLength(rows.length);
    for (const { id, removed } of rows) {
      const removals = races.filter((race) => race.id === id && race.status === 200);
      expect(removals).toHaveLength(removed ? 1 : 0);
    }
    expect(races.filter(({ status }) => status === 404)).toHaveLength(RACERS - (rows.length - 1));
  });
});

describe('a ban', () => {
  test('refuses to register the identity', async () => {
    await ban(ADA);
    const { data, errors } = await project.graphql(LOGIN, { input: ADA });
    expect(data).toBeNull();
    expect(errors).toEqual([
      expect.objectContaining({
        message: 'This identity is banned from the project: it cannot register, log in or be linked.',
        path: ['recordLogin'],
        extensions: explained('BANNED'),
      }),
    ]);
    expect(await readRows()).toEqual([]);
  });

  test('refuses every login of an existing user, and counts none of them', async () => {
    await login();
    await ban(ADA);
    expect(await refusalOf({ ...ADA, accounts: [stellar(1)] })).toBe('BANNED');
    expect((await listUsers()).users).toMatchObject([{ login_count: 1, accounts: [] }]);
  });

  test('does not prevent reading, verifying or removing the user', async () => {
    const { user } = await login({ ...ADA, accounts: [stellar(1)] });
    await ban(ADA);
    const verified = await project.graphql(`{ verifyWallet(address: "${stellarAddress(1)}") { exists userId } }`);
    expect(verified.data.verifyWallet).toEqual({ exists: true, userId: user.id });
    expect(await remove(user.id)).toBe(200);
  });

  test('remains when the user is removed', async () => {
    const { user } = await login();
    await ban(ADA);
    await remove(user.id);
    expect(await refusalOf()).toBe('BANNED');
    await unban(ADA);
    expect(await login()).toMatchObject({ created: true, user: { loginCount: 1 } });
  });

  test('can be set twice and lifted once; lifting a ban that does not exist changes nothing', async () => {
    await unban(ADA);
    await ban(ADA);
    await ban({ ...ADA, authValue: 'ADA@example.com' });
    await unban(ADA);
    expect(await refusalOf()).toBeNull();
  });

  test('can be set by concurrent requests', async () => {
    await Promise.all(range(10).map(() => ban(ADA)));
    expect(await refusalOf()).toBe('BANNED');
    await Promise.all(range(10).map(() => unban(ADA)));
    expect(await refusalOf()).toBeNull();
  });

  test.each<[string, LoginInput, LoginInput]>([
    ['an email in another case', ADA, { ...ADA, authValue: 'Ada@EXAMPLE.com' }],
    ['an email with space around it', ADA, { ...ADA, authValue: ' ada@example.com\n' }],
    [
      'an email decomposed',
      { ...ADA, authValue: 'élodie@example.com' },
      { ...ADA, authValue: 'e\u0301lodie@example.com' },
    ],
    [
      'an email composed',
      { ...ADA, authValue: 'E\u0301LODIE@example.com' },
      { ...ADA, authValue: 'élodie@example.com' },
    ],
    ['an address in lower case', wallet(checksumAddress(ethereumAddress(1))), wallet(ethereumAddress(1))],
    ['an address in upper case', wallet(ethereumAddress(1)), wallet(`0x${ethereumAddress(1).slice(2).toUpperCase()}`)],
    ["a provider's email in another case", google('ada@example.com'), google('ADA@example.com')],
    ["a provider's id decomposed", google('é'), google('e\u0301')],
  ])('applies to the identity in another spelling: %s', async (_name, banned, written) => {
    await ban(banned);
    expect(await refusalOf(written)).toBe('BANNED');
    await unban(written);
    expect(await refusalOf(banned)).toBeNull();
  });

  test.each<[string, LoginInput, LoginInput]>([
    ['the same email at a provider', ADA, google(ADA.authValue)],
    ["a provider's id in another case", google('AbC'), google('abc')],
    ['another address', wallet(stellarAddress(1)), wallet(stellarAddress(2))],
    ['another login with the banned email beside it', ADA, { ...google('id'), email: ADA.authValue }],
  ])('does not apply to another identity: %s', async (_name, banned, other) => {
    await ban(banned);
    expect(await refusalOf(banned)).toBe('BANNED');
    expect(await refusalOf(other)).toBeNull();
  });

  test('does not apply in another project', async () => {
    await ban(ADA);
    expect(await refusalOf(ADA, await app.createProject())).toBeNull();
  });
});

function wallet(address: string): LoginInput {
  return { authMethod: 'wallet', authValue: address };
}

function google(id: string): LoginInput {
  return { authMethod: 'google', authValue: id };
}

describe('removal', () => {
  test('lets the identity register again, with a new id and without the old data', async () => {
    const before = await login({ ...ADA, accounts: [stellar(1)] });
    await login();
    expect(await remove(before.user.id)).toBe(200);
    const after = await login();
    expect(after).toMatchObject({ created: true, user: { loginCount: 1, accounts: [] } });
    expect(BigInt(after.user.id)).toBeGreaterThan(BigInt(before.user.id));
    expect((await project.rest(`/server/users/${before.user.id}`)).status).toBe(404);
    expect(await listUsers()).toMatchObject({ total_user: 1, users: [{ id: Number(after.user.id) }] });
    const { data } = await project.graphql(`{ verifyWallet(address: "${stellarAddress(1)}") { exists } }`);
    expect(data.verifyWallet).toEqual({ exists: false });
  });

  test('by concurrent requests succeeds for exactly one of them, over both interfaces', async () => {
    const { user } = await login();
    const byGraphQL = async () => {
      const { errors } = await project.graphql(`mutation { deleteUser(id: "${user.id}") { id } }`);
      return errors?.[0]?.extensions.code ?? 'OK';
    };
    const outcomes = await Promise.all(range(10).flatMap(() => [remove(user.id), byGraphQL()]));
    expect(outcomes.filter((outcome) => outcome === 200 || outcome === 'OK')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 404 || outcome === 'NOT_FOUND')).toHaveLength(19);
  });
});
