import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/**
 * Concurrent logins, links, unlinks, merges, removals, restorations, imports and bans of few users with few identities. However they end, the
 * database holds that an identity is of one current user. IDENTITY_RUNS is the number of histories; IDENTITY_SEED repeats those of a run.
 */

const RUNS = Number(process.env['IDENTITY_RUNS'] ?? 200);
const SEED = Number(process.env['IDENTITY_SEED'] ?? Date.now() % 2 ** 31);

const app = useTestApp();

const IDENTITIES = [
  { authMethod: 'email', authValue: 'ada@example.com' },
  { authMethod: 'email', authValue: 'grace@example.com' },
  { authMethod: 'google', authValue: 'one' },
  { authMethod: 'google', authValue: 'two' },
  { authMethod: 'wallet', authValue: ethereumAddress(5) },
] as const;
const EXTERNAL_IDS = ['x-1', 'x-2'];

const identity = fc.constantFrom(...IDENTITIES);
/** The place of a user among those that the history has seen. */
const user = fc.nat(3);
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('login' as const),
      identity,
      externalId: fc.constantFrom(undefined, ...EXTERNAL_IDS),
      links: fc.boolean(),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('link' as const), user, identity, primary: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('unlink' as const), user, identity }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('merge' as const), user, other: user }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom('remove' as const, 'restore' as const, 'ban' as const, 'unban' as const),
      user,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('import' as const),
      identity,
      linked: fc.uniqueArray(identity, { maxLength: 2 }),
      onConflict: fc.constantFrom('skip' as const, 'update' as const, 'replace' as const),
      skipInvalid: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('email' as const),
      user,
      email: fc.constantFrom('ada@example.com', 'grace@example.com'),
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;
/** Steps of one wave run at once. */
const history = fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 3, maxLength: 6 });

const DOCUMENTS = {
  login: 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }',
  link: 'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }',
  unlink:
    'mutation ($id: ID!, $identity: IdentityInput!) { unlinkIdentity(userId: $id, identity: $identity) { user { id } } }',
  merge: 'mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { id } } }',
  remove: 'mutation ($id: ID!) { deleteUser(id: $id) { id } }',
  restore: 'mutation ($id: ID!) { restoreUser(id: $id) { user { id } } }',
  ban: 'mutation ($id: ID!) { banUser(id: $id) { user { id } } }',
  unban: 'mutation ($id: ID!) { unbanUser(id: $id) { user { id } } }',
  email: 'mutation ($id: ID!, $input: UpdateUserInput!) { updateUser(id: $id, input: $input) { user { id } } }',
};

/** What a step may fail with; anything else is a fault of the service. */
const REFUSALS = new Set(['CONFLICT', 'NOT_FOUND', 'BANNED', 'BAD_USER_INPUT']);

async function run(project: TestProject, seen: string[], one: Step): Promise<void> {
  const ask = async (document: string, variables: Json): Promise<void> => {
    const { data, errors } = await project.graphql(document, variables);
    for (const { message, extensions } of errors ?? []) if (!REFUSALS.has(extensions.code)) throw new Error(message);
    const id = (Object.values(data ?? {})[0] as Json)?.user?.id;
    if (id !== undefined && !seen.includes(id)) seen.push(id);
  };
  const idOf = (place: number) => seen[place % Math.max(seen.length, 1)] ?? '1';
  if (one.kind === 'login') {
    const { externalId, links } = one;
    return ask(DOCUMENTS.login, {
      input: { ...one.identity, ...(externalId && { externalId, linkByExternalId: links }) },
    });
  }
  if (one.kind === 'import') {
    const { onConflict, skipInvalid } = one;
    const [own, ...identities] = [one.identity, ...one.linked].map(({ authMethod, authValue }) => ({
      auth_method: authMethod,
      auth_value: authValue,
    }));
    await project.importLines([{ ...own, identities }], { onConflict, skipInvalid }).catch((error) => {
      if (!REFUSALS.has(error.code)) throw error;
    });
    return;
  }
  const id = idOf(one.user);
  if (one.kind === 'link') return ask(DOCUMENTS.link, { id, input: { ...one.identity, primary: one.primary } });
  if (one.kind === 'unlink') return ask(DOCUMENTS.unlink, { id, identity: one.identity });
  if (one.kind === 'merge') return ask(DOCUMENTS.merge, { from: id, into: idOf(one.other) });
  if (one.kind === 'email') return ask(DOCUMENTS.email, { id, input: { email: one.email } });
  return ask(DOCUMENTS[one.kind], { id });
}

const CURRENT = `
  SELECT u.id, u.auth_method, u.auth_value_key FROM users u WHERE u.project_id = $1 AND u.deleted_at IS NULL
  UNION ALL
  SELECT i.user_id, i.auth_method, i.auth_value_key FROM identities i WHERE i.project_id = $1 AND NOT i.removed`;

/** Where the rules of identities do not hold, the rows. */
const FAULTS: Readonly<Record<string, string>> = {
  'an identity of two current users': `
    SELECT auth_method, auth_value_key, array_agg(id) AS ids FROM (${CURRENT}) AS c GROUP BY 1, 2 HAVING count(*) > 1`,
  'a row that was to be gone': 'SELECT id FROM users WHERE project_id = $1 AND id <= 0',
  'an identity that is not removed as its user is': `
    SELECT i.id FROM identities i JOIN users u ON u.project_id = i.project_id AND u.id = i.user_id
    WHERE i.project_id = $1 AND i.removed <> (u.deleted_at IS NOT NULL)`,
  'an identity of a banned user that is not banned': `
    SELECT c.* FROM (${CURRENT}) AS c
    WHERE EXISTS (SELECT FROM user_bans b WHERE b.project_id = $1 AND b.user_id = c.id) AND NOT EXISTS (
      SELECT FROM bans b
      WHERE b.project_id = $1 AND b.auth_method = c.auth_method AND b.auth_value_key = c.auth_value_key AND b.user_id = c.id)`,
  'an identity that is covered by the ban of a user who has it no more': `
    SELECT b.* FROM bans b
    WHERE b.project_id = $1 AND b.user_id IS NOT NULL
      AND NOT EXISTS (
        SELECT FROM users u WHERE u.project_id = $1 AND u.id = b.user_id AND u.auth_method = b.auth_method AND u.auth_value_key = b.auth_value_key)
      AND NOT EXISTS (
        SELECT FROM identities i
        WHERE i.project_id = $1 AND i.user_id = b.user_id AND i.auth_method = b.auth_method AND i.auth_value_key = b.auth_value_key)`,
  'a ban of a user who was merged': `
    SELECT b.* FROM user_bans b JOIN users u ON u.project_id = b.project_id AND u.id = b.user_id
    WHERE b.project_id = $1 AND u.merged_into IS NOT NULL`,
};

async function requireRules(waves: readonly Step[][]): Promise<void> {
  const project = await app.createProject();
  const {
    rows: [{ id }],
  } = await app.context.db.pool.query('SELECT id FROM projects WHERE app_id = $1', [project.appId]);
  const seen: string[] = [];
  for (const wave of waves) await Promise.all(wave.map((one) => run(project, seen, one)));
  for (const [fault, sql] of Object.entries(FAULTS))
    expect((await app.context.db.pool.query(sql, [id])).rows, fault).toEqual([]);

  const { data } = await project.graphql('{ users(first: 100) { totalCount nodes { id } } }');
  const listed = data.users.nodes.map((node: Json) => node.id).toSorted();
  expect(data.users.totalCount).toBe(listed.length);
  // The open transactions of other histories hold up the feed for a moment.
  await expect.poll(() => copyOf(project)).toEqual(listed);
}

/** The users that the feed of a project has come to. */
async function copyOf(project: TestProject): Promise<string[]> {
  const { data } = await project.graphql('{ changes(first: 1000) { nodes { type userId } } }');
  const copy = new Set<string>();
  for (const { type, userId } of data.changes.nodes) {
    if (type === 'USER_CREATED' || type === 'USER_RESTORED') copy.add(userId);
    if (type === 'USER_REMOVED' || type === 'USER_MERGED') copy.delete(userId);
  }
  return [...copy].toSorted();
}

/** Histories of projects of their own run at once: each mostly waits. */
const AT_ONCE = 4;

test(`no identity is of two current users, and totals and the feed are right, after ${RUNS} concurrent histories (seed ${SEED})`, async () => {
  const histories = fc.array(history, { minLength: AT_ONCE, maxLength: AT_ONCE });
  await fc.assert(
    fc.asyncProperty(histories, async (each) => {
      await Promise.all(each.map(requireRules));
    }),
    { numRuns: Math.ceil(RUNS / AT_ONCE), seed: SEED, endOnFailure: true },
  );
}, 600_000);
