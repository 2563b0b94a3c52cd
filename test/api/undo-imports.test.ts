import fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { deleteEndedBans } from '#dist/users/bans.sql.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { PATIENCE } from '../support/waiting.js';

/** An undo of an import removes those whom it created and nothing else has touched since. */

const app = useTestApp();
const google = (auth_value: string, more: Json = {}): Json => ({ auth_method: 'google', auth_value, ...more });
const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);

async function importOf(project: TestProject, lines: readonly Json[], options: Json = {}): Promise<string> {
  const report = (await project.importLines(lines, options)) as Json;
  expect(report['errors']).toEqual([]);
  return report['import_id'];
}

async function undo(project: TestProject, importId: string): Promise<Json> {
  const scope = await scopeOf(project);
  const all = { removed: 0, kept: 0 };
  for (;;) {
    const { removed, kept, isDone } = await app.context.services.transfers.undoImport(scope, importId as never);
    all.removed += removed;
    all.kept += kept;
    if (isDone) return all;
  }
}

const act = async (project: TestProject, document: string, variables: Json = {}): Promise<void> => {
  expect((await project.graphql(document, variables)).errors).toBeUndefined();
};
const link = (project: TestProject, id: string, authValue: string, primary = false) =>
  act(
    project,
    'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }',
    {
      id,
      input: { authMethod: 'github', authValue, primary },
    },
  );
const login = (project: TestProject, input: Json) =>
  act(project, 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }', { input });
const idsOf = async (project: TestProject): Promise<Record<string, string>> => {
  const { data } = await project.graphql('{ users(first: 100) { nodes { id authValue } } }');
  return Object.fromEntries(data.users.nodes.map(({ id, authValue }: Json) => [authValue, id]));
};
const merge = (project: TestProject, from: string | undefined, into: string | undefined) =>
  act(project, 'mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { id } } }', {
    from,
    into,
  });

/** What touches the user `a`, who has a linked identity and an account. `o` is no user of the import. */
const TOUCHES: Readonly<Record<string, (project: TestProject, ids: Record<string, string>) => Promise<unknown>>> = {
  'a login': (project) => login(project, { authMethod: 'google', authValue: 'a' }),
  'a login by a linked identity': (project) => login(project, { authMethod: 'apple', authValue: 'linked-a' }),
  'a login that adds an account': (project) =>
    login(project, {
      authMethod: 'google',
      authValue: 'a',
      accounts: [{ network: 'STELLAR', publicKey: stellarAddress(9) }],
    }),
  'a link': (project, { a = '' }) => link(project, a, 'new'),
  'a new primary identity': (project, { a = '' }) => link(project, a, 'new', true),
  'another primary identity': (project, { a = '' }) =>
    act(
      project,
      'mutation ($id: ID!) { linkIdentity(userId: $id, input: { authMethod: "apple", authValue: "linked-a", primary: true }) { user { id } } }',
      { id: a },
    ),
  'an unlink': (project, { a = '' }) =>
    act(
      project,
      'mutation ($id: ID!) { unlinkIdentity(userId: $id, identity: { authMethod: "apple", authValue: "linked-a" }) { user { id } } }',
      { id: a },
    ),
  'an unlink of an account': (project, { a = '' }) =>
    act(
      project,
      `mutation ($id: ID!) { unlinkAccount(userId: $id, address: "${stellarAddress(1)}") { user { id } } }`,
      { id: a },
    ),
  'a link and an unlink': async (project, { a = '' }) => {
    await link(project, a, 'new');
    await act(
      project,
      'mutation ($id: ID!) { unlinkIdentity(userId: $id, identity: { authMethod: "github", authValue: "new" }) { user { id } } }',
      { id: a },
    );
  },
  'a change': (project, { a = '' }) =>
    act(project, 'mutation ($id: ID!) { updateUser(id: $id, input: { metadata: { plan: "pro" } }) { user { id } } }', {
      id: a,
    }),
  'an email': (project, { a = '' }) =>
    act(project, 'mutation ($id: ID!) { updateUser(id: $id, input: { email: "a@example.com" }) { user { id } } }', {
      id: a,
    }),
  'a merge into the user': (project, { a, o }) => merge(project, o, a),
  'a merge of the user': (project, { a, o }) => merge(project, a, o),
  'a ban of the user': (project, { a = '' }) =>
    act(project, 'mutation ($id: ID!) { banUser(id: $id) { user { id } } }', { id: a }),
  'a ban of an identity': (project) =>
    act(project, 'mutation { banIdentity(identity: { authMethod: "google", authValue: "a" }) { ban { reason } } }'),
  'a ban of a linked identity': (project) =>
    act(
      project,
      'mutation { banIdentity(identity: { authMethod: "apple", authValue: "linked-a" }) { ban { reason } } }',
    ),
  'a ban that was lifted': async (project, { a = '' }) => {
    await act(project, 'mutation ($id: ID!) { banUser(id: $id) { user { id } } }', { id: a });
    await act(project, 'mutation ($id: ID!) { unbanUser(id: $id) { user { id } } }', { id: a });
  },
  'another import': (project) =>
    importOf(project, [google('a', { metadata: { plan: 'pro' } })], { onConflict: 'update' }),
  'another import of an account': (project) =>
    importOf(project, [google('a', { accounts: [{ network: 'stellar', public_key: stellarAddress(8) }] })], {
      onConflict: 'update',
    }),
  'another import of an identity': (project) =>
    importOf(project, [google('a', { identities: [google('a2')] })], { onConflict: 'update' }),
  'a removal and a restore': async (project, { a = '' }) => {
    await act(project, 'mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: a });
    await act(project, 'mutation ($id: ID!) { restoreUser(id: $id) { user { id } } }', { id: a });
  },
};

const LINES = ['a', 'b', 'c'].map((name, n) =>
  google(name, {
    email: `${name}@import.example`,
    last_login: '2026-01-01T00:00:00Z',
    accounts: [{ network: 'stellar', public_key: stellarAddress(n + 1) }],
    identities: [{ auth_method: 'apple', auth_value: `linked-${name}`, email: `${name}@apple.example` }],
  }),
);
const BAN = { ban: google('b', { reason: 'spam' }) };

describe.each(Object.entries(TOUCHES))('after %s', (_, touch) => {
  test.each([false, true])(
    'the user stays, and is counted as kept; the others go (with skipInvalid: %j)',
    async (skipInvalid) => {
      const project = await app.createProject();
      await project.importLines([google('o')]);
      const importId = await importOf(project, [...LINES, BAN], { skipInvalid });
      const before = await idsOf(project);
      await touch(project, before);
      const after = await idsOf(project);
      expect(await undo(project, importId)).toEqual({ removed: 2, kept: 1 });
      const left = Object.values(await idsOf(project));
      expect(left.sort()).toEqual(
        Object.entries(after)
          .flatMap(([name, id]) => (['b', 'c'].includes(name) ? [] : [id]))
          .sort(),
      );
      expect(await app.context.services.totals.check(await scopeOf(project))).toEqual([]);
    },
  );
});

test('without a touch, all go, also after what changes nothing, and with bans of the import', async () => {
  const project = await app.createProject();
  const importId = await importOf(project, [...LINES, BAN]);
  const ids = await idsOf(project);
  expect(await importOf(project, LINES, { onConflict: 'update' })).toBeNull();
  await act(
    project,
    'mutation ($id: ID!) { updateUser(id: $id, input: { email: "a@import.example", metadata: null }) { user { id } } }',
    { id: ids['a'] },
  );
  await project.graphql('mutation { recordLogin(input: { authMethod: "google", authValue: "b" }) { created } }');
  await project.graphql(
    `mutation { linkIdentity(userId: ${ids['a']}, input: { authMethod: "apple", authValue: "linked-b" }) { user { id } } }`,
  );
  expect(await undo(project, importId)).toEqual({ removed: 3, kept: 0 });
  expect(await undo(project, importId)).toEqual({ removed: 0, kept: 0 });
});

const SOON = { reason: 'spam', until: 'soon' };
const OF_USER = { of_user: true };

/** Bans of the import: of them, those until soon have ended since, and were deleted then. */
test.concurrent.each<[string, Json[]]>([
  ['the user', [{ ...SOON, ...OF_USER }]],
  ['an identity', [SOON]],
  ['the user, beside one of an identity that holds,', [{ ...SOON, ...OF_USER }, {}]],
  ['an identity, beside one of the user that holds,', [SOON, OF_USER]],
])('an ended ban of %s touches nobody when it is deleted', async (_, bans) => {
  const project = await app.createProject();
  const [a, b, c] = LINES;
  const soon = new Date(Date.now() + 1_500).toISOString();
  const terms = bans.map(({ until, ...ban }) => ({ ...ban, ...(until && { expires_at: soon }) }));
  const importId = await importOf(project, [a, b, c, ...terms.map((ban) => ({ ban: google('b', ban) }))] as Json[]);
  const projectId = (await scopeOf(project)).projectIdFor('inspect');
  const { data } = await project.graphql('{ users(filter: { banned: true }) { nodes { authValue } } }');
  expect(data.users.nodes).toEqual([{ authValue: 'b' }]);
  await vi.waitUntil(async () => (await deleteEndedBans(app.context.db, projectId, 100)) > 0, PATIENCE);
  expect(await undo(project, importId)).toEqual({ removed: 3, kept: 0 });
});

test('of many users, exactly those who were touched stay', async () => {
  await fc.assert(
    fc.asyncProperty(fc.uniqueArray(fc.nat(29), { maxLength: 10 }), async (touched) => {
      const project = await app.createProject();
      const importId = await importOf(
        project,
        Array.from({ length: 30 }, (_, n) => google(`u-${n}`)),
      );
      await Promise.all(touched.map((n) => login(project, { authMethod: 'google', authValue: `u-${n}` })));
      expect(await undo(project, importId)).toEqual({ removed: 30 - touched.length, kept: touched.length });
      expect(Object.keys(await idsOf(project)).sort()).toEqual(touched.map((n) => `u-${n}`).sort());
    }),
    { numRuns: 5 },
  );
});
