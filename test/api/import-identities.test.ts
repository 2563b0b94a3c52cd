import fc from 'fast-check';
import { describe, expect, inject, test } from 'vitest';
import type { ImportOptions } from '#dist/users/import-users.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp, withoutIds } from '../support/app.js';
import { untilLocked } from '../support/waiting.js';

/** Users with several identities in imports and exports. */

const app = useTestApp();

const USER = `id lastLogin identities { authMethod authValue email emailVerified createdAt lastLogin isPrimary } accounts { publicKey walletType }`;
const ada = (...identities: Json[]): Json => ({ auth_method: 'email', auth_value: 'ada@example.com', identities });
const google = (auth_value: string, more: Json = {}): Json => ({ auth_method: 'google', auth_value, ...more });

async function usersOf(project: TestProject): Promise<Json[]> {
  const { data } = await project.graphql(`{ users(first: 50) { nodes { ${USER} } } }`);
  return data.users.nodes.toSorted((one: Json, other: Json) => one.id - other.id);
}
const namesOf = async (project: TestProject) =>
  (await usersOf(project)).map(({ identities }) =>
    identities.map(({ authMethod, authValue }: Json) => `${authMethod} ${authValue}`).join(', '),
  );

async function exportOf({ appId }: TestProject, format: 'ndjson' | 'csv' = 'ndjson'): Promise<string> {
  const { transfers, projects } = app.context.services;
  let text = '';
  await transfers.exportUsers(await projects.getScope(appId), {
    format,
    signal: new AbortController().signal,
    write: async (chunk) => {
      text += chunk;
    },
  });
  return text;
}

const importText = (project: TestProject, ndjson: string, options?: Partial<ImportOptions>) =>
  project.importLines(
    ndjson
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    options,
  );

describe('a line with identities', () => {
  test('gives a new user all of them; that of the line may be among them, and says when it was linked and used', async () => {
    const project = await app.createProject();
    const address = ethereumAddress(7);
    const report = await project.importLines([
      {
        ...ada(
          google('g-1', { email: 'Ada@Gmail.example', email_verified: true, created_at: '2025-03-01T00:00:00Z' }),
          { ...ada(), identities: undefined, primary: true, created_at: '2025-02-01T00:00:00Z', last_login: null },
          { auth_method: 'wallet', auth_value: address, last_login: '2025-05-01T00:00:00Z' },
        ),
        created_at: '2025-01-01T00:00:00Z',
        last_login: '2025-05-01T00:00:00Z',
      },
    ]);
    expect(report).toMatchObject({ imported: 1, created: 1, failed: 0 });
    const [user] = await usersOf(project);
    expect(user.identities).toMatchObject([
      { authMethod: 'email', isPrimary: true, createdAt: '2025-02-01T00:00:00.000Z', lastLogin: null },
      { authMethod: 'google', email: 'ada@gmail.example', emailVerified: true, createdAt: '2025-03-01T00:00:00.000Z' },
      { authMethod: 'wallet', authValue: address, isPrimary: false, lastLogin: '2025-05-01T00:00:00.000Z' },
    ]);
    expect(user.accounts).toEqual([{ publicKey: address, walletType: 'EXTERNAL' }]);
    const login = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created user { id } } }';
    const { data } = await project.graphql(login, { input: { authMethod: 'google', authValue: 'g-1' } });
    expect(data.recordLogin).toEqual({ created: false, user: { id: user.id } });
  });

  test.each<[string, Json, string]>([
    [
      'two primary ones',
      ada(google('a', { primary: true }), google('b', { primary: true })),
      'more than one is primary',
    ],
    ['another primary one', ada(google('a', { primary: true })), 'the primary one is not the auth_method'],
    ['one twice', ada(google('a'), google('a')), 'one is there twice'],
    [
      'another email of an email login',
      ada({ ...ada(), identities: undefined, email: 'b@example.com' }),
      'identities[].email: got "[email]", expected the email in identities[].auth_value, or none',
    ],
    ['what is said of no email', google('a', { email_verified: true }), 'email_verified: got true, expected none'],
    ['what is said of none', ada(google('a', { email_verified: true })), 'identities[].email_verified: got true'],
    ['an unknown field', ada(google('a', { wallet: 'x' })), 'Unknown field "wallet"; known are auth_method'],
    ['no value', ada({ auth_method: 'google' }), 'identities[].auth_value'],
    ['a wrong value', ada({ auth_method: 'wallet', auth_value: 'x' }), 'identities[].auth_value: got "x"'],
    ['21 identities', ada(...Array.from({ length: 20 }, (_, n) => google(`${n}`))), 'would have 21 identities'],
    ['22 identities', ada(...Array.from({ length: 21 }, (_, n) => google(`${n}`))), 'would have 21 identities'],
  ])('with %s fails with the reason', async (_, line, reason) => {
    const project = await app.createProject();
    const { errors } = await project.importLines([line]);
    expect(errors).toEqual([{ line: 1, error: expect.stringContaining(reason) }]);
  });

  test('fails where an earlier line has one of them, as any of its own', async () => {
    const project = await app.createProject();
    const lines = [ada(google('a')), google('b', { identities: [google('a')] }), google('a'), google('b')];
    const report = await project.importLines(lines, { skipInvalid: true });
    expect(report).toMatchObject({ created: 2, failed: 2 });
    expect(report.errors).toEqual([
      { line: 2, error: 'Line 1 has one of these identities.' },
      { line: 3, error: 'Line 1 has the same auth_method and auth_value.' },
    ]);
    expect(await namesOf(project)).toEqual(['email ada@example.com, google a', 'google b']);
  });

  test('updates a user who exists by the missing ones, and takes none away', async () => {
    const project = await app.createProject();
    await project.importLines([ada(google('a'))]);
    const lines = [ada(google('b'), { auth_method: 'apple', auth_value: 'c' })];
    for (const onConflict of ['update', 'replace'] as const) {
      expect(await project.importLines(lines, { onConflict: 'skip' })).toMatchObject({ skipped: 1 });
      const report = await project.importLines(lines, { onConflict });
      expect(report).toMatchObject({ imported: 1, updated: 1, unchanged: 0, failed: 0 });
      expect(await project.importLines(lines, { onConflict })).toMatchObject({ updated: 0, unchanged: 1 });
      lines[0] = ada(google('d'));
    }
    expect(await namesOf(project)).toEqual(['email ada@example.com, google a, google b, apple c, google d']);
    const many = Array.from({ length: 19 }, (_, n) => google(`n-${n}`));
    const { errors } = await project.importLines([ada(...many)], { onConflict: 'update' });
    expect(errors).toMatchObject([{ error: expect.stringContaining('expected at most 20') }]);
  });

  test('only raises logins and lowers creations of the primary one by an update; a replacement sets them', async () => {
    const project = await app.createProject();
    const line = (year: number) =>
      ada({ ...ada(), identities: undefined, created_at: `${year}-01-01`, last_login: `${year}-02-01` }, google('a'));
    const times = async () => {
      const [{ identities }] = await usersOf(project);
      return [identities[0].createdAt, identities[0].lastLogin].map((instant: string) => instant.slice(0, 4));
    };
    await project.importLines([line(2020)]);
    await project.importLines([line(2022)], { onConflict: 'update' });
    expect(await times()).toEqual(['2020', '2022']);
    await project.importLines([line(2021)], { onConflict: 'replace' });
    expect(await times()).toEqual(['2021', '2021']);
  });

  test.each(['fail', 'skip', 'update', 'replace'] as const)(
    'fails with %s where another user has one, primary or linked, and nothing is imported',
    async (onConflict) => {
      const project = await app.createProject();
      await project.importLines([ada(google('a'))]);
      const before = await namesOf(project);
      const taken = ada();
      const lines = [
        google('new'),
        { auth_method: 'apple', auth_value: 'x', identities: [google('a')] },
        { auth_method: 'apple', auth_value: 'y', identities: [{ ...taken, identities: undefined }] },
      ];
      const { errors, imported } = await project.importLines(lines, { onConflict });
      expect(errors).toEqual([
        { line: 2, error: 'identities: another user of this project has the one by "google".' },
        { line: 3, error: 'identities: another user of this project has the one by "email".' },
      ]);
      expect([imported, await namesOf(project)]).toEqual([0, before]);
      await project.importLines(lines, { onConflict, skipInvalid: true });
      expect(await namesOf(project)).toEqual([...before, 'google new']);
    },
  );

  test('of who logs in by a wallet may have another wallet, which is an external account', async () => {
    const project = await app.createProject();
    const [own, other] = [stellarAddress(1), ethereumAddress(2)];
    const accounts = [
      { network: 'stellar', public_key: own, wallet_type: 'external' },
      { network: 'ethereum', public_key: other },
    ];
    for (const onConflict of ['fail', 'update', 'replace'] as const) {
      const line = { auth_method: 'wallet', auth_value: own, wallet: other, accounts };
      expect((await project.importLines([line], { onConflict })).errors).toEqual([]);
    }
    await project.importLines([{ auth_method: 'wallet', auth_value: ethereumAddress(3), wallet: other }]);
    const { data } = await project.graphql('{ users { nodes { wallet accounts { publicKey walletType } } } }');
    const external = (publicKey: string) => ({ publicKey, walletType: 'EXTERNAL' });
    expect(data.users.nodes).toEqual([
      { wallet: ethereumAddress(3), accounts: [external(other), external(ethereumAddress(3))] },
      { wallet: own, accounts: [external(own), external(other)] },
    ]);
  });

  test('brings a banned identity, whose ban stays in force', async () => {
    const project = await app.createProject();
    await project.importLines([{ ban: google('banned') }]);
    await project.importLines([ada(google('banned'))]);
    expect(await namesOf(project)).toEqual(['email ada@example.com, google banned']);
    const login = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }';
    const { errors } = await project.graphql(login, { input: { authMethod: 'google', authValue: 'banned' } });
    expect(errors?.[0]?.extensions.code).toBe('BANNED');
  });

  test.runIf(inject('engine') === 'postgres').each([
    ['registers with one', 'INSERT INTO users (project_id, auth_method, auth_value, auth_value_key)'],
    ['links one', 'INSERT INTO identities (user_id, project_id, auth_method, auth_value, auth_value_key)'],
  ])('is CONFLICT where somebody %s of them once it was looked at, and nothing is imported', async (_, insert) => {
    const project = await app.createProject();
    await project.addUsers(google('other'));
    const before = await namesOf(project);
    const { pool } = app.context.db;
    const client = await pool.connect();
    const ids = insert.includes('user_id') ? '(SELECT id FROM users u WHERE u.project_id = p.id), p.id' : 'p.id';
    await client.query('BEGIN');
    await client.query(`${insert} SELECT ${ids}, 'google', 'raced', 'raced' FROM projects p WHERE app_id = $1`, [
      project.appId,
    ]);
    const imported = project.importLines([google('first'), ada(google('raced'))]).catch((error) => error);
    await untilLocked(pool);
    await client.query('COMMIT');
    client.release();
    expect(await imported).toMatchObject({ code: 'CONFLICT', message: expect.stringContaining('Import it again.') });
    expect(await namesOf(project)).not.toContain('google first');
    expect(await namesOf(project)).toHaveLength(before.length + (insert.includes('user_id') ? 0 : 1));
  });
});

const instant = fc.date({ min: new Date('2020-01-01'), max: new Date('2026-01-01'), noInvalidDate: true });
const identity = (n: number): fc.Arbitrary<Json> =>
  fc.oneof(
    fc.record({ auth_method: fc.constant('email'), auth_value: fc.constant(`Someone-${n}@Example.com`) }),
    fc.record(
      {
        auth_method: fc.constantFrom('google', 'apple'),
        auth_value: fc.constant(`id-${n}`),
        email: fc.constant(`e-${n}@b.example`),
      },
      { requiredKeys: ['auth_method', 'auth_value'] },
    ),
    fc.record({
      auth_method: fc.constant('wallet'),
      auth_value: fc.constantFrom(ethereumAddress(n), stellarAddress(n)),
    }),
  );
const times = (method: string): fc.Arbitrary<Json> =>
  fc.record(
    {
      created_at: instant,
      last_login: fc.option(instant),
      ...(method === 'email' && { email_verified: fc.boolean() }),
    },
    { requiredKeys: [] },
  );
const entry = (n: number) => identity(n).chain((one) => times(one.auth_method).map((more) => ({ ...one, ...more })));

/** A user whose identities have numbers from `start` on, so that no two users have the same. */
const user = (start: number): fc.Arbitrary<Json> =>
  fc.tuple(entry(start), fc.boolean(), times(''), fc.nat(3)).chain(([own, hasOwn, more, count]) =>
    fc.tuple(...Array.from({ length: count }, (_, n) => entry(start + 1 + n))).map((linked: Json[]) => ({
      ...own,
      login_count: count,
      accounts: count > 1 ? [{ network: 'stellar', public_key: stellarAddress(start + 1) }] : [],
      identities: hasOwn ? [...linked, { auth_method: own.auth_method, auth_value: own.auth_value, ...more }] : linked,
    })),
  );

describe('an export', () => {
  test('has the identities of users with several, the primary one first, then the oldest', async () => {
    const project = await app.createProject();
    const created_at = '2025-01-01T00:00:00.000Z';
    await project.importLines([
      { ...ada(google('late'), google('early', { created_at })), created_at },
      { ...google('alone'), identities: [google('alone')] },
    ]);
    const [first, second] = withoutIds(await exportOf(project))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(first.identities).toEqual([
      { auth_method: 'email', auth_value: 'ada@example.com', email: null, created_at, last_login: null, primary: true },
      { auth_method: 'google', auth_value: 'early', email: null, created_at, last_login: null },
      { auth_method: 'google', auth_value: 'late', email: null, created_at: expect.any(String), last_login: null },
    ]);
    expect(second).not.toHaveProperty('identities');
    const csv = await exportOf(project, 'csv');
    expect(csv).toContain('""auth_value"":""early""');
  });

  test('of any users is the same after an import into another project, which changes nothing in the first', async () => {
    const some = fc
      .array(fc.nat(), { minLength: 1, maxLength: 6 })
      .chain((all) => fc.tuple(...all.map((_, index) => user(10 * index))));
    await fc.assert(
      fc.asyncProperty(some, async (lines) => {
        const [one, other] = [await app.createProject(), await app.createProject()];
        expect((await one.importLines(lines)).errors).toEqual([]);
        const text = await exportOf(one);
        expect((await importText(other, text)).errors).toEqual([]);
        expect(withoutIds(await exportOf(other))).toBe(withoutIds(text));
        const again = await importText(one, text, { onConflict: 'update' });
        expect(again).toMatchObject({ unchanged: lines.length, failed: 0 });
      }),
      { numRuns: 30 },
    );
  });
});

test('who has the identity of a line linked exists, also where the external ID is of another: a skip leaves them as they are', async () => {
  const project = await app.createProject();
  await project.addUsers({ ...ada(google('g-1')), external_id: 'x-1' }, { ...google('g-2'), external_id: 'x-2' });
  const before = await exportOf(project);
  for (const external_id of ['x-1', 'x-2']) {
    const line = google('g-1', { external_id });
    expect(await project.importLines([line], { onConflict: 'skip' })).toMatchObject({
      imported: 0,
      skipped: 1,
      failed: 0,
    });
    const { errors } = await project.importLines([line], { onConflict: 'fail' });
    expect(errors).toEqual([
      { line: 1, error: 'A user with auth_method "google" and this auth_value exists already.' },
    ]);
  }
  expect(await exportOf(project)).toBe(before);
});

test('an update keeps the earlier date and the later login of the primary identity, which may be those of the user', async () => {
  const project = await app.createProject();
  const own = { auth_method: 'google', auth_value: 'g-1' };
  const [first, second, third] = ['2020-01-01', '2022-01-01', '2024-01-01'].map((day) => `${day}T00:00:00.000Z`);
  await project.importLines([{ ...own, created_at: first, last_login: third }]);
  const primary = { ...own, primary: true, created_at: second, last_login: second };
  const linked = { auth_method: 'github', auth_value: 'h-1' };
  const line = { ...own, created_at: first, last_login: third, identities: [primary, linked] };
  expect(await project.importLines([line], { onConflict: 'update' })).toMatchObject({ failed: 0, imported: 1 });
  const query = '{ userByIdentity(authMethod: "google", authValue: "g-1") { identities { createdAt lastLogin } } }';
  const { data } = await project.graphql(query);
  expect(data.userByIdentity.identities[0]).toEqual({ createdAt: first, lastLogin: third });
});
