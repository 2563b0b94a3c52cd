import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp, withoutIds } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/** The email of a user: what was said last of the person, or else that of an identity. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

const USER = 'id email identities { authMethod authValue email emailVerified lastLogin createdAt isPrimary }';
async function act(document: string, variables: Json, of = project): Promise<Json> {
  const { data, errors } = await of.graphql(document, variables);
  expect(errors).toBeUndefined();
  return (Object.values(data)[0] as Json).user;
}
const login = (input: Json, of = project) =>
  act(`mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { ${USER} } } }`, { input }, of);
const link = (id: string, input: Json, of = project) =>
  act(
    `mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { ${USER} } } }`,
    { id, input },
    of,
  );
const unlink = (id: string, identity: Json, of = project) =>
  act(
    `mutation ($id: ID!, $identity: IdentityInput!) { unlinkIdentity(userId: $id, identity: $identity) { user { ${USER} } } }`,
    { id, identity },
    of,
  );
const UPDATE = `mutation ($id: ID!, $input: UpdateUserInput!) { updateUser(id: $id, input: $input) { user { ${USER} } } }`;
const update = (id: string, input: Json, of = project) => act(UPDATE, { id, input }, of);
const found = async (email: string, of = project): Promise<string[]> => {
  const { data } = await of.graphql(
    'query ($email: String!) { searchUsers(by: { email: $email }) { id } usersByPrefix(prefix: $email) { users { id } } }',
    { email },
  );
  const idsOf = (users: Json[]): string[] => users.map(({ id }) => id);
  expect(idsOf(data.usersByPrefix.users)).toEqual(expect.arrayContaining(idsOf(data.searchUsers)));
  return idsOf(data.searchUsers);
};
const toldOf = async (id: string): Promise<string[][]> => {
  const { data } = await project.graphql('{ changes(first: 1000) { nodes { type userId fields } } }');
  return data.changes.nodes.filter(({ userId }: Json) => userId === id).map(({ fields }: Json) => fields);
};
const of = (method: string, value: string, more: Json = {}): Json => ({
  authMethod: method,
  authValue: value,
  ...more,
});

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

describe('where nothing was said of the person', () => {
  test('it is that of the primary identity, else of the oldest linked one that has one', async () => {
    const { id } = await login(of('wallet', ethereumAddress(1)));
    expect((await link(id, of('github', 'no-email'))).email).toBeNull();
    expect((await link(id, of('email', 'Linked@one.example'))).email).toBe('linked@one.example');
    expect((await link(id, of('google', 'g-1', { email: 'google@one.example' }))).email).toBe('linked@one.example');
    expect(await found('google@one.example')).toEqual([id]);
    const promoted = await link(id, of('google', 'g-1', { primary: true }));
    expect(promoted.email).toBe('google@one.example');
    expect((await unlink(id, of('google', 'g-1'))).email).toBe('linked@one.example');
    expect(await found('google@one.example')).toEqual([]);
    expect((await unlink(id, of('email', 'linked@one.example'))).email).toBeNull();
    const told = await toldOf(id);
    expect(told.filter((fields) => fields.includes('email'))).toHaveLength(4);
    // Each link and unlink is told, also where the email stays.
    expect(told.filter((fields) => fields.includes('identities')).length).toBeGreaterThanOrEqual(6);
  });
});

describe('what was said', () => {
  test('last counts, whichever identity logs in, and stays over links and unlinks', async () => {
    const { id } = await login(of('google', 's-1', { email: 'first@said.example' }));
    await link(id, of('apple', 's-1', { email: 'apple@said.example' }));
    expect((await login(of('apple', 's-1'))).email).toBe('first@said.example');
    expect((await login(of('apple', 's-1', { email: 'second@said.example' }))).email).toBe('second@said.example');
    expect((await login(of('google', 's-1'))).email).toBe('second@said.example');
    // All are found.
    for (const email of ['first@said.example', 'second@said.example']) expect(await found(email)).toEqual([id]);
    expect((await unlink(id, of('apple', 's-1'))).email).toBe('second@said.example');
    expect((await login(of('google', 's-1', { email: 'first@said.example' }))).email).toBe('first@said.example');
    expect(await found('second@said.example')).toEqual([]);
  });

  test('is none where it was taken away, and stays none', async () => {
    const { id } = await login(of('saml', 'Ada@corp.example'));
    await link(id, of('email', 'ada@home.example'));
    expect((await update(id, { email: null })).email).toBeNull();
    expect((await login(of('saml', 'ada@corp.example'))).email).toBeNull();
    expect((await link(id, of('google', 'n-1', { email: 'ada@google.example' }))).email).toBeNull();
    expect((await link(id, of('google', 'n-1', { primary: true }))).email).toBeNull();
    expect((await unlink(id, of('google', 'n-1'))).email).toBeNull();
    expect((await login(of('email', 'ada@home.example'))).email).toBeNull();
    expect((await login(of('email', 'ada@home.example', { email: 'ada@home.example' }))).email).toBe(
      'ada@home.example',
    );
  });

  test('again is no change and no fault, even if the email is banned', async () => {
    const { id } = await login(of('email', 'same@said.example', { emailVerified: true }));
    await project.graphql(
      'mutation { banIdentity(identity: { authMethod: "email", authValue: "same@said.example" }) { ban { reason } } }',
    );
    const before = await toldOf(id);
    const { email, identities } = await update(id, { email: 'Same@said.example' });
    expect([email, identities[0].emailVerified]).toEqual(['same@said.example', true]);
    const { id: linked } = await login(of('google', 'again', { email: 'again@said.example', emailVerified: true }));
    await link(linked, of('github', 'again', { email: 'hub@said.example' }));
    const told = await toldOf(linked);
    await login(of('github', 'again'));
    await login(of('google', 'again', { email: 'again@said.example', emailVerified: true }));
    await login(of('github', 'again', { email: 'again@said.example' }));
    await link(linked, of('google', 'again', { email: 'again@said.example' }));
    await update(linked, { email: 'again@said.example', externalId: null, metadata: null });
    // The email of the linked identity is another than before, and nothing else.
    expect((await toldOf(linked)).slice(told.length)).toEqual([['identities']]);
    expect(await toldOf(id)).toEqual(before);
    expect(codesOf(await project.graphql(UPDATE, { id, input: { email: null } }))).toEqual(['BAD_USER_INPUT']);
  });
});

describe('whether an email is verified', () => {
  const verifiedOf = ({ identities }: Json) => identities[0].emailVerified;
  test.each(['saml', 'email'])('is known of a login by %s until something is said of that email', async (method) => {
    const value = `v-${method}@said.example`;
    const email = { email: value, emailVerified: true };
    expect(verifiedOf(await login(of(method, value, email)))).toBe(true);
    expect(verifiedOf(await login(of(method, value)))).toBe(true);
    expect(verifiedOf(await login(of(method, value, { email: value })))).toBe(true);
    const beside = Array.from({ length: 10 }, (_, n) => login(of('google', `${method}-${n}`)));
    const [again] = await Promise.all([login(of(method, value)), ...beside]);
    expect(verifiedOf(again)).toBe(true);
    expect(verifiedOf(await login(of(method, value, { metadata: { plan: 'pro' } })))).toBe(true);
    const lines = [{ auth_method: method, auth_value: value, login_count: 9 }];
    await project.importLines(lines, { onConflict: 'replace' });
    expect(verifiedOf(await login(of(method, value)))).toBe(true);
    expect(verifiedOf(await login(of(method, value, { email: value, emailVerified: false })))).toBe(false);
    const changed = await update((await login(of(method, value))).id, { email: `new-${value}` });
    expect(verifiedOf(changed)).toBeNull();
  });
});

describe('a line of an import', () => {
  const google = (auth_value: string, more: Json = {}): Json => ({ auth_method: 'saml', auth_value, ...more });
  test('an email that takes the place of none has nothing of what was said before', async () => {
    const line = (more: Json) => ({ auth_method: 'apple', auth_value: 'none@verified.example', ...more });
    // What is said without an email is said of the value, which is one.
    const said = { email_verified: true };
    for (const linked of [false, true]) {
      const own = await app.createProject();
      const none = line({ email: null });
      await own.importLines([linked ? { auth_method: 'passkey', auth_value: 'p', identities: [none] } : none]);
      if (!linked) expect(await own.importLines([line(said)], { onConflict: 'update' })).toMatchObject({ updated: 1 });
      const after = await login(of('apple', 'none@verified.example', { email: 'other@verified.example' }), own);
      const identity = after.identities.find(({ authMethod }: Json) => authMethod === 'apple');
      expect([identity.email, identity.emailVerified]).toEqual(['other@verified.example', null]);
      const again = of('apple', 'none@verified.example', { email: 'other@verified.example', emailVerified: true });
      expect((await login(again, own)).identities.map(({ emailVerified }: Json) => emailVerified)).toContain(true);
    }
  });

  test('says nothing without an email, none by null, and also by "none"', async () => {
    const one = await app.createProject();
    const emails = async () => {
      const { data } = await one.graphql('{ users(first: 50) { nodes { authValue email } } }');
      return Object.fromEntries(data.users.nodes.map(({ authValue, email }: Json) => [authValue, email]));
    };
    const lines = [
      ...[
        google('a@corp.example'),
        google('b@corp.example', { email: null }),
        google('c@corp.example', { email: 'none' }),
      ],
      ...[
        google('d@corp.example', { email: 'd@home.example' }),
        { auth_method: 'email', auth_value: 'e@corp.example', email: null },
      ],
      ...[{ auth_method: 'email', auth_value: 'f@corp.example', email: 'none' }],
      ...[{ auth_method: 'email', auth_value: 'g@corp.example', email: 'g@home.example' }],
    ];
    for (const onConflict of ['fail', 'update', 'replace'] as const) {
      expect((await one.importLines(lines, { onConflict })).errors).toEqual([]);
      expect(await emails()).toEqual({
        'a@corp.example': 'a@corp.example',
        'b@corp.example': null,
        'c@corp.example': null,
        'd@corp.example': 'd@home.example',
        'e@corp.example': 'e@corp.example',
        'f@corp.example': null,
        'g@corp.example': 'g@home.example',
      });
    }
    await one.importLines(
      [google('a@corp.example', { email: null }), google('b@corp.example', { email: 'b@home.example' })],
      { onConflict: 'update' },
    );
    await one.importLines([google('a@corp.example'), google('b@corp.example')], { onConflict: 'replace' });
    expect(await emails()).toMatchObject({ 'a@corp.example': null, 'b@corp.example': 'b@home.example' });
    expect(await found('a@corp.example', one)).toEqual([]);
  });
});

/** Acts on one person, in any order. */
const acts = fc.array(
  fc.oneof(
    fc.record({
      act: fc.constant('login'),
      n: fc.nat(3),
      email: fc.option(fc.nat(2)),
      verified: fc.option(fc.boolean()),
    }),
    fc.record({ act: fc.constant('link'), n: fc.nat(3), email: fc.option(fc.nat(2)), primary: fc.boolean() }),
    fc.record({ act: fc.constant('unlink'), n: fc.nat(3) }),
    fc.record({ act: fc.constant('update'), email: fc.option(fc.nat(2)) }),
  ),
  { minLength: 1, maxLength: 12 },
);

test('a merge brings what was said of the other person, before the emails of their identities', async () => {
  const from = await login({ authMethod: 'google', authValue: 'said-g', email: 'first@example.com' });
  await link(from.id, { authMethod: 'github', authValue: 'said-h' });
  await login({ authMethod: 'github', authValue: 'said-h', email: 'last@example.com' });
  const into = await login({ authMethod: 'passkey', authValue: 'said-p' });
  const merge = `mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { ${USER} } } }`;
  const merged = await act(merge, { from: from.id, into: into.id });
  expect(merged).toMatchObject({ id: into.id, email: 'last@example.com' });
});

test('after any acts, an export gives the same after an import, and who is found by an email shows one', async () => {
  await fc.assert(
    fc.asyncProperty(acts, async (all) => {
      const [one, other, third] = [await app.createProject(), await app.createProject(), await app.createProject()];
      const identities = [
        of('email', 'p@own.example'),
        of('google', 'p'),
        of('saml', 'p@saml.example'),
        of('wallet', ethereumAddress(3)),
      ];
      const emailOf = (n: number | null) => (n === null ? null : `e-${n}@said.example`);
      const first = all.find(({ act }) => act === 'login') as { n: number } | undefined;
      const { id } = await login(identities[first?.n ?? 1] as Json, one);
      let isNone = false;
      for (const step of all as Json[]) {
        const identity = identities[step.n] as Json;
        const email = emailOf(step.email ?? null);
        const given = {
          ...identity,
          ...(email !== null && identity?.authMethod !== 'email' && { email, emailVerified: step.verified ?? null }),
        };
        // What is refused, such as the last identity, changes nothing.
        const document = {
          login: 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }',
          link: 'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }',
          unlink:
            'mutation ($id: ID!, $identity: IdentityInput!) { unlinkIdentity(userId: $id, identity: $identity) { user { id } } }',
          update: UPDATE,
        }[step.act as 'login'];
        const input =
          step.act === 'update' ? { email } : { ...given, ...(step.act === 'link' && { primary: step.primary }) };
        const { data, errors } = await one.graphql(document, { id, input, identity });
        if (errors === undefined && step.act === 'update') isNone = email === null;
        if (errors === undefined && step.act === 'login' && 'email' in given && data.recordLogin.user.id === id)
          isNone = false;
      }
      const { data } = await one.graphql(`{ users { nodes { ${USER} } } }`);
      for (const user of data.users.nodes) {
        const emails = user.identities.flatMap(({ email }: Json) => email ?? []);
        for (const email of new Set([...emails, ...(user.email === null ? [] : [user.email])]))
          expect(await found(email, one)).toContain(user.id);
        if (user.id === id && isNone) expect(user.email).toBeNull();
        else if (emails.length > 0) expect(user.email).not.toBeNull();
      }
      for (const [format, to] of [
        ['ndjson', other],
        ['csv', third],
      ] as const) {
        const text = await exportOf(one, format);
        const { transfers, projects } = app.context.services;
        const options = {
          progress: () => undefined,
          signal: new AbortController().signal,
          onConflict: 'fail',
          skipInvalid: false,
        } as const;
        async function* input() {
          yield Buffer.from(text);
        }
        const report = await transfers.importUsers(await projects.getScope(to.appId), input(), options);
        expect(report.errors).toEqual([]);
        expect(withoutIds(await exportOf(to, format)).replace(/^\d+,/gm, '')).toBe(
          withoutIds(text).replace(/^\d+,/gm, ''),
        );
      }
      const shown = async (of: TestProject) =>
        (
          await of.graphql(
            `{ users { nodes { email identities { authMethod authValue email emailVerified createdAt lastLogin isPrimary } } } }`,
          )
        ).data;
      expect(await shown(other)).toEqual(await shown(one));
    }),
    { numRuns: 25 },
  );
});
