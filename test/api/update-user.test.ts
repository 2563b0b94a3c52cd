import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { logIn } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** Changes of a user's login email and external id. */
const app = useTestApp();
let project: TestProject;
let ids: Record<string, string>;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers(
    { auth_method: 'google', auth_value: 'g-1', email: 'ada@example.com', external_id: 'A-1' },
    { auth_method: 'google', auth_value: 'g-2' },
    { auth_method: 'email', auth_value: 'Eve@example.com', external_id: 'E-1' },
    { auth_method: 'passkey', auth_value: 'gone' },
  );
  const { data } = await project.graphql('{ users { nodes { id authValue } } }');
  ids = Object.fromEntries(data.users.nodes.map(({ id, authValue }: Json) => [authValue, id]));
  await project.rest(`/server/users/${ids['gone']}`, { method: 'DELETE' });
});

const UPDATE = `mutation ($id: ID!, $input: UpdateUserInput!, $key: String = null) {
  updateUser(id: $id, input: $input, idempotencyKey: $key) { user { id authValue email externalId loginCount } }
}`;
const update = (name: string, input: Json, key?: string) =>
  project.graphql(UPDATE, { id: ids[name] ?? name, input, key });
const updated = async (name: string, input: Json, key?: string): Promise<Json> => {
  const { data, errors } = await update(name, input, key);
  expect(errors).toBeUndefined();
  return data.updateUser.user;
};
const logInAs = (input: Json) =>
  project.graphql(
    'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id email externalId } } }',
    { input: { authMethod: 'google', ...input } },
  );
const changesOf = async (name: string): Promise<Json[]> => {
  const { data } = await project.graphql('{ changes(first: 1000) { nodes { type userId fields } } }');
  return data.changes.nodes.filter(({ userId }: Json) => userId === ids[name]).map(({ fields }: Json) => fields);
};
const trailOf = async (name: string): Promise<Json[]> =>
  (
    await app.context.db.pool.query(
      `SELECT actor, request_id IS NOT NULL AS asked, details FROM audit_log WHERE action = 'update' AND user_id = $1 ORDER BY id`,
      [ids[name]],
    )
  ).rows;

describe('updateUser', () => {
  test('changes what is given, finds the user by it, and is recorded as far as something changed', async () => {
    expect(await updated('g-2', { email: ' Grace@Example.com ' })).toMatchObject({
      id: ids['g-2'],
      authValue: 'g-2',
      email: 'grace@example.com',
      externalId: null,
    });
    const { data } = await project.graphql('{ searchUsers(by: { email: "grace@example.com" }) { id } }');
    expect(data.searchUsers).toEqual([{ id: ids['g-2'] }]);
    expect(await updated('g-2', { email: 'grace@example.com', externalId: 'G-2' })).toMatchObject({
      externalId: 'G-2',
    });
    expect(await updated('g-2', { externalId: 'G-2' })).toMatchObject({
      email: 'grace@example.com',
      externalId: 'G-2',
    });
    expect(await updated('g-2', { email: null, externalId: null })).toMatchObject({ email: null, externalId: null });
    expect(await changesOf('g-2')).toEqual([[], ['email'], ['externalId'], ['email', 'externalId']]);
    expect(await trailOf('g-2')).toEqual(
      [['email'], ['external_id'], ['email', 'external_id']].map((fields) => ({
        actor: 'main',
        asked: true,
        details: { fields },
      })),
    );
    // Taken away, it is free.
    expect(await updated('g-2', { externalId: 'A-9' })).toMatchObject({ externalId: 'A-9' });
    expect(await updated('g-2', { externalId: 'A-8' })).toMatchObject({ externalId: 'A-8' });
    expect((await project.graphql('{ userByExternalId(externalId: "A-9") { id } }')).data.userByExternalId).toBeNull();
  });

  test('does not take the email from a user who logs in by it, and the same is no change', async () => {
    const refused = await update('Eve@example.com', { email: null, externalId: 'E-2' });
    expect(codesOf(refused)).toEqual(['BAD_USER_INPUT']);
    expect(refused.errors?.[0]?.message).toMatch(/^email: .*identity/);
    expect(await updated('Eve@example.com', { email: 'EVE@example.com' })).toMatchObject({
      email: 'eve@example.com',
      externalId: 'E-1',
    });
    expect(await trailOf('Eve@example.com')).toEqual([]);
  });

  test('explains a conflict, also of two at once, and what is wrong', async () => {
    const taken = await update('g-2', { externalId: 'A-1' });
    expect(codesOf(taken)).toEqual(['CONFLICT']);
    expect(taken.errors?.[0]?.message).toBe(`User ${ids['g-1']} of this project has this external ID.`);
    const both = await Promise.all([update('g-2', { externalId: 'one' }), update('g-1', { externalId: 'one' })]);
    expect(both.flatMap(codesOf)).toEqual(['CONFLICT']);
    await updated('g-1', { externalId: 'A-1' });
    for (const [input, words] of [
      [{}, 'Nothing to change'],
      [{ email: 'no email' }, 'email: got'],
      [{ externalId: ' x' }, 'externalId: got'],
      [{ externalId: 'x'.repeat(256) }, 'externalId: got'],
    ] as const) {
      const { errors } = await update('g-2', input);
      expect(errors).toMatchObject([
        { message: expect.stringContaining(words), extensions: { code: 'BAD_USER_INPUT' } },
      ]);
    }
    for (const id of ['gone', '99999999999999999999'])
      expect(codesOf(await update(id, { externalId: 'x' }))).toEqual(['NOT_FOUND']);
    const other = await app.createProject();
    expect(codesOf(await other.graphql(UPDATE, { id: ids['g-1'], input: { externalId: 'x' } }))).toEqual(['NOT_FOUND']);
  });

  test('with a key is done once, whatever happens in between', async () => {
    const first = await updated('g-2', { externalId: 'K-1' }, 'key-1');
    expect(await updated('g-2', { externalId: 'K-1' }, 'key-1')).toEqual(first);
    await updated('g-2', { externalId: 'K-2' });
    expect(await updated('g-2', { externalId: 'K-1' }, 'key-1')).toMatchObject({ externalId: 'K-2' });
    expect(codesOf(await update('g-2', { externalId: 'K-3' }, 'key-1'))).toEqual(['IDEMPOTENCY_KEY_REUSED']);
    const many = await Promise.all(Array.from({ length: 5 }, () => updated('g-2', { externalId: 'K-4' }, 'key-2')));
    expect(new Set(many.map(({ externalId }) => externalId))).toEqual(new Set(['K-4']));
    // What failed is not kept.
    expect(codesOf(await update('g-2', { externalId: 'A-1' }, 'key-3'))).toEqual(['CONFLICT']);
    expect(codesOf(await update('g-2', { externalId: 'A-1' }, 'key-3'))).toEqual(['CONFLICT']);
  });

  test('is followed by logins: an email that one brings replaces it, an external ID does not', async () => {
    await updated('g-1', { email: 'edited@example.com', externalId: 'A-2' });
    expect((await logInAs({ authValue: 'g-1' })).data.recordLogin.user).toMatchObject({ email: 'edited@example.com' });
    expect(codesOf(await logInAs({ authValue: 'g-1', externalId: 'A-1' }))).toEqual(['CONFLICT']);
    const { data } = await logInAs({ authValue: 'g-1', externalId: 'A-2', email: 'provider@example.com' });
    expect(data.recordLogin.user).toMatchObject({ email: 'provider@example.com', externalId: 'A-2' });
  });
});

test('the dashboard changes a user for support and admin', async () => {
  const MUTATION = `mutation ($id: ID!, $input: UpdateUserInput!) {
    updateUser(id: $id, input: $input) { user { id email externalId ban { reason } } }
  }`;
  const variables = {
    id: ids['g-2'],
    input: { email: 'by-operator@example.com', externalId: null },
  };
  for (const role of ['support', 'admin'] as const) {
    const operator = await logIn(app, role);
    expect(await operator.inProject(project.appId).ask(MUTATION, variables)).toEqual({
      updateUser: { user: { id: ids['g-2'], email: 'by-operator@example.com', externalId: null, ban: null } },
    });
  }
  const viewer = await logIn(app, 'viewer');
  expect(codesOf(await viewer.inProject(project.appId).graphql(MUTATION, variables))).toEqual(['FORBIDDEN']);
  expect((await trailOf('g-2')).at(-1)).toMatchObject({ actor: expect.stringMatching(/^operator:support/) });
});

describe('the login email of a user whose identity is an email', () => {
  const saml = (name: string, more: Json = {}) => ({ authMethod: 'saml', authValue: `${name}@corp.example`, ...more });
  const emailAfter = async (input: Json): Promise<string | null> => (await logInAs(input)).data.recordLogin.user.email;
  const idOf = async (input: Json): Promise<string> => (await logInAs(input)).data.recordLogin.user.id;

  test('is that identity from the first login on, if nothing else is said', async () => {
    expect(await emailAfter(saml('First'))).toBe('first@corp.example');
    expect(await emailAfter(saml('first'))).toBe('first@corp.example');
  });

  test('stays as a login has said it, until another one says something else', async () => {
    const said = { email: 'Joan@home.example' };
    expect(await emailAfter(saml('joan', said))).toBe('joan@home.example');
    expect(await emailAfter(saml('joan'))).toBe('joan@home.example');
    expect(await emailAfter(saml('joan', { email: null }))).toBe('joan@home.example');
    // Also where it says the identity.
    expect(await emailAfter(saml('joan', { email: 'joan@corp.example' }))).toBe('joan@corp.example');
  });

  test.each([
    ['changed', 'new@home.example'],
    ['taken away', null],
  ])('stays as updateUser has %s it, whatever else the login gives, and beside other logins', async (_how, email) => {
    const name = `kept-${email?.length ?? 0}`;
    const id = await idOf(saml(name));
    await updated(id, { email });
    expect(await emailAfter(saml(name))).toBe(email);
    expect(await emailAfter(saml(name, { wallet: ethereumAddress(1), externalId: name }))).toBe(email);
    const others = Array.from({ length: 20 }, (_, n) => saml(`${name}-${n}`));
    const [first, ...rest] = await Promise.all([saml(name), ...others].map(emailAfter));
    expect([first, rest]).toEqual([email, others.map(({ authValue }) => authValue)]);
  });

  test('stays in an import that updates users and says nothing of it', async () => {
    const [kept, fresh, told] = ['imported', 'fresh', 'told'].map((name) => saml(name));
    for (const one of [kept, told]) await updated(await idOf(one as Json), { email: 'other@home.example' });
    const line = (user: Json | undefined, more: Json) => ({
      auth_method: 'saml',
      auth_value: user?.authValue,
      ...more,
    });
    const lines = [line(kept, {}), line(fresh, { login_count: 3 }), line(told, { email: told?.authValue })];
    const { updated: count, unchanged } = await project.importLines(lines, { onConflict: 'update' });
    expect([count, unchanged]).toEqual([1, 1]);
    const emails = await Promise.all([kept, fresh, told].map((one) => emailAfter(one as Json)));
    expect(emails).toEqual(['other@home.example', 'fresh@corp.example', 'told@corp.example']);
  });
});
