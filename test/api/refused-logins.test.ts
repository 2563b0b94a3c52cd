import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

/** A login that is refused changes nothing, for whatever reason, and whatever else it gives. */

const app = useTestApp();

const LOGIN = `mutation ($input: RecordLoginInput!, $key: String = null) {
  recordLogin(input: $input, idempotencyKey: $key) { created user { id email loginCount } }
}`;
const login = (project: TestProject, input: Json, key: string | null = null) => project.graphql(LOGIN, { input, key });

/** All that is stored of a project. */
async function stored({ appId }: TestProject): Promise<Json> {
  const tables = ['users', 'identities', 'accounts', 'bans', 'changes', 'audit_log', 'idempotency_keys'];
  const rows = tables.map(async (table) => {
    const sql = `SELECT to_jsonb(t) AS row FROM ${table} t JOIN projects p ON p.id = t.project_id WHERE p.app_id = $1 ORDER BY t::text`;
    return [table, (await app.context.db.pool.query(sql, [appId])).rows];
  });
  return Object.fromEntries(await Promise.all(rows));
}

const accounts = (count: number, from = 0) =>
  Array.from({ length: count }, (_, n) => ({ network: 'STELLAR', publicKey: stellarAddress(from + n) }));
const google = (authValue: string, more: Json = {}): Json => ({ authMethod: 'google', authValue, ...more });
const idOf = async (project: TestProject, input: Json): Promise<string> => {
  const { data, errors } = await login(project, input);
  expect(errors).toBeUndefined();
  return data.recordLogin.user.id;
};
const act = async (project: TestProject, document: string, variables: Json): Promise<void> => {
  expect((await project.graphql(document, variables)).errors).toBeUndefined();
};
const link = (project: TestProject, id: string, input: Json) =>
  act(
    project,
    'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }',
    { id, input },
  );
const banUser = (project: TestProject, id: string) =>
  act(project, 'mutation ($id: ID!) { banUser(id: $id) { user { id } } }', { id });
const banIdentity = (project: TestProject, identity: Json) =>
  act(project, 'mutation ($identity: IdentityInput!) { banIdentity(identity: $identity) { ban { reason } } }', {
    identity,
  });

/** For each reason: what is there before, the login that is refused for it, and how. */
const REASONS: Readonly<Record<string, readonly [(project: TestProject) => Promise<unknown>, Json, string]>> = {
  'a banned identity': [(project) => banIdentity(project, google('g')), google('g'), 'BANNED'],
  'a banned user': [
    async (project) => banUser(project, await idOf(project, google('g', { externalId: 'X-1' }))),
    google('g'),
    'BANNED',
  ],
  'a banned user, by a linked identity': [
    async (project) => {
      const id = await idOf(project, { authMethod: 'email', authValue: 'ada@example.com' });
      await link(project, id, google('g'));
      await banUser(project, id);
    },
    google('g'),
    'BANNED',
  ],
  'a banned user who has the external ID': [
    async (project) => banUser(project, await idOf(project, google('owner', { externalId: 'X-1' }))),
    google('g', { externalId: 'X-1', linkByExternalId: true }),
    'BANNED',
  ],
  'a banned identity, and another user who has the external ID': [
    async (project) => {
      await idOf(project, google('owner', { externalId: 'X-1' }));
      await banIdentity(project, google('g'));
    },
    google('g', { externalId: 'X-1', linkByExternalId: true }),
    'BANNED',
  ],
  'another external ID': [
    (project) => idOf(project, google('g', { externalId: 'X-1' })),
    google('g', { externalId: 'X-2' }),
    'CONFLICT',
  ],
  'another external ID, by a linked identity': [
    async (project) =>
      link(
        project,
        await idOf(project, { authMethod: 'email', authValue: 'ada@example.com', externalId: 'X-1' }),
        google('g'),
      ),
    google('g', { externalId: 'X-2', linkByExternalId: true }),
    'CONFLICT',
  ],
  'the external ID of another': [
    (project) => idOf(project, google('owner', { externalId: 'X-1' })),
    google('g', { externalId: 'X-1', linkByExternalId: false }),
    'CONFLICT',
  ],
  'the external ID of another, while the identity has a user': [
    async (project) => {
      await idOf(project, google('owner', { externalId: 'X-1' }));
      await idOf(project, google('g'));
    },
    google('g', { externalId: 'X-1', linkByExternalId: true }),
    'CONFLICT',
  ],
  'too many accounts': [
    (project) => idOf(project, google('g', { accounts: accounts(99) })),
    google('g', { accounts: accounts(2, 99) }),
    'BAD_USER_INPUT',
  ],
  'too many accounts of the user who has the external ID': [
    (project) => idOf(project, google('owner', { externalId: 'X-1', accounts: accounts(99) })),
    google('g', { externalId: 'X-1', linkByExternalId: true, accounts: accounts(2, 99) }),
    'BAD_USER_INPUT',
  ],
  'too many identities of the user who has the external ID': [
    async (project) => {
      const id = await idOf(project, google('owner', { externalId: 'X-1' }));
      for (let n = 0; n < 19; n += 1) await link(project, id, google(`linked-${n}`));
    },
    google('g', { externalId: 'X-1', linkByExternalId: true }),
    'BAD_USER_INPUT',
  ],
  'a key of another login': [
    (project) => login(project, google('other'), 'key'),
    google('g'),
    'IDEMPOTENCY_KEY_REUSED',
  ],
};

/** What a login may give beside that. */
const extras = fc.record(
  {
    email: fc.constantFrom('ada@example.com', 'grace@example.com'),
    metadata: fc.constant({ plan: 'pro' }),
    wallet: fc.constant(ethereumAddress(1)),
    externalId: fc.constantFrom('X-1', 'X-3'),
    linkByExternalId: fc.boolean(),
    accounts: fc.constant(accounts(1, 200)),
  },
  { requiredKeys: [] },
);

test.each(Object.entries(REASONS))('a login refused for %s changes nothing', async (_, [prepare, input, code]) => {
  const project = await app.createProject();
  await prepare(project);
  const before = await stored(project);
  const key = code === 'IDEMPOTENCY_KEY_REUSED' ? fc.constant('key') : fc.option(fc.constant('key'));
  await fc.assert(
    fc.asyncProperty(extras, fc.boolean(), key, fc.boolean(), async (more, isVerified, withKey, isAlone) => {
      const given = { ...more, ...input, ...(more.email && { emailVerified: isVerified }) };
      // Beside others, logins share a statement.
      const other = await app.createProject();
      const beside = isAlone ? [] : Array.from({ length: 3 }, (_, n) => login(other, google(`beside-${n}`)));
      const [refused, ...others] = await Promise.all([login(project, given, withKey), ...beside]);
      expect(codesOf(refused)).toEqual([code]);
      expect(others.flatMap(codesOf)).toEqual([]);
      expect(await stored(project)).toEqual(before);
    }),
    { numRuns: 12 },
  );
});

test('a key of a refused login is free: the login is recorded once nothing refuses it', async () => {
  const project = await app.createProject();
  const id = await idOf(project, google('owner', { externalId: 'X-1' }));
  await banUser(project, id);
  const input = google('g', { externalId: 'X-1', linkByExternalId: true, email: 'g@example.com' });
  expect(codesOf(await login(project, input, 'key'))).toEqual(['BANNED']);
  await act(project, 'mutation ($id: ID!) { unbanUser(id: $id) { user { id } } }', { id });
  for (let time = 0; time < 2; time += 1) {
    const { data } = await login(project, input, 'key');
    expect(data.recordLogin).toMatchObject({ created: false, user: { id, loginCount: 2 } });
  }
});
