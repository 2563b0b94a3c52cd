import { expect, test } from 'vitest';
import { deleteEndedBans } from '#dist/users/bans.sql.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';

/** The ban of a user and the ban of an identity are two facts (docs/decisions/person.md). Nothing runs in the background here. */
const app = useTestApp();
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
const github = (authValue: string) => ({ authMethod: 'github', authValue });
const google = (authValue: string) => ({ authMethod: 'google', authValue });
type Identity = ReturnType<typeof github>;

const SHOWN = 'ban { authMethod authValue createdAt reason expiresAt isOfUser }';
const LOGIN = 'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { user { id } } }';
const TERMS =
  '$reason: String = null, $expiresAt: String = null, $untilLifted: Boolean = null, $idempotencyKey: String = null';
const GIVEN = 'reason: $reason, expiresAt: $expiresAt, untilLifted: $untilLifted, idempotencyKey: $idempotencyKey';
const BAN_USER = `mutation ($id: ID!, ${TERMS}) { banUser(id: $id, ${GIVEN}) { user { id ${SHOWN} } } }`;
const UNBAN_USER = `mutation ($id: ID!) { unbanUser(id: $id) { user { id ${SHOWN} } } }`;
const BAN = `mutation ($identity: IdentityInput!, ${TERMS}) { banIdentity(identity: $identity, ${GIVEN}) { ${SHOWN} } }`;
const UNBAN = `mutation ($identity: IdentityInput!) { unbanIdentity(identity: $identity) { user { id } ${SHOWN} } }`;
const LINK = `mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }`;
const UNLINK = `mutation ($id: ID!, $identity: IdentityInput!) { unlinkIdentity(userId: $id, identity: $identity) { user { id } } }`;
const MERGE = 'mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { id } } }';

/** What a person may do, and what is known of them, in a project of their own. */
async function open() {
  const project = await app.createProject();
  const run = async (document: string, variables: Json = {}): Promise<Json> => {
    const { data, errors } = await project.graphql(document, variables);
    return errors === undefined ? Object.values(data as Json)[0] : errors[0]?.extensions.code;
  };
  const sql = (text: string) =>
    app.context.db.pool.query(
      text.replaceAll('PROJECT', `(SELECT id FROM projects WHERE app_id = '${project.appId}')`),
    );
  return {
    project,
    run,
    sql,
    logIn: async (identity: Identity) => {
      const answer = await run(LOGIN, { input: identity });
      return typeof answer === 'string' ? answer : (answer.user.id as string);
    },
    link: (id: string, input: Json) => run(LINK, { id, input }),
    banOf: async (id: string) => (await run(`query ($id: ID!) { user(id: $id) { ${SHOWN} } }`, { id })).ban,
    changes: async (id: string | null): Promise<string[]> => {
      const { nodes } = await run('{ changes(first: 1000) { nodes { type userId fields } } }');
      return nodes
        .filter(({ userId }: Json) => userId === id)
        .map(({ type, fields }: Json) => [type, ...fields].join(' '));
    },
    sweep: async () => {
      const scope = await app.context.services.projects.getScope(project.appId);
      return deleteEndedBans(app.context.db, scope.projectIdFor('inspect'), 100);
    },
  };
}

/** Turns the clock to the end of a ban, for this ban. */
const endOfIdentity = ({ authValue }: Identity) =>
  `UPDATE bans SET expires_at = now() - interval '1 ms' WHERE project_id = PROJECT AND user_id IS NULL AND auth_value_key = '${authValue}'`;
const endOfUser = (id: string) =>
  `UPDATE user_bans SET expires_at = now() - interval '1 ms' WHERE project_id = PROJECT AND user_id = ${id}`;

test('the ban of a user and that of an identity do not change each other', async () => {
  const { run, sql, logIn, banOf, sweep } = await open();
  const id = await logIn(github('eve'));
  const soon = inDays(1);
  await run(BAN, { identity: github('eve'), reason: 'alone', expiresAt: soon });
  expect(await banOf(id)).toMatchObject({ reason: 'alone', expiresAt: soon, isOfUser: false });
  const { user } = await run(BAN_USER, { id });
  expect(user.ban).toMatchObject({ ...github('eve'), reason: null, expiresAt: null, isOfUser: true });
  await sql(endOfIdentity(github('eve')));
  expect(await logIn(github('eve'))).toBe('BANNED');
  expect(await sweep()).toBe(1);
  expect(await logIn(github('eve'))).toBe('BANNED');
  // In the other direction: the ban of the user ends, and that of the identity stays.
  await run(BAN, { identity: github('eve'), reason: 'again' });
  await run(BAN_USER, { id, expiresAt: soon });
  expect(await banOf(id)).toMatchObject({ reason: null, expiresAt: soon, isOfUser: true });
  await sql(endOfUser(id));
  expect(await banOf(id)).toMatchObject({ reason: 'again', expiresAt: null, isOfUser: false });
  expect(await logIn(github('eve'))).toBe('BANNED');
  await run(UNBAN, { identity: github('eve') });
  expect(await logIn(github('eve'))).toBe(id);
  // What begins anew takes nothing from the ban that has ended.
  expect((await run(BAN_USER, { id })).user.ban).toMatchObject({ expiresAt: null, isOfUser: true });
  expect(await logIn(github('eve'))).toBe('BANNED');
});

test('an identity that a banned user gets is covered, also if an older ban of it has ended or will', async () => {
  const { project, run, sql, logIn, link } = await open();
  const id = await logIn(github('eve'));
  await run(BAN_USER, { id, reason: 'fraud' });
  await run(BAN, { identity: google('ended'), expiresAt: inDays(1) });
  await sql(endOfIdentity(google('ended')));
  for (const name of ['free', 'ended']) {
    expect(await link(id, google(name))).toEqual({ user: { id } });
    expect(await logIn(google(name))).toBe('BANNED');
  }
  // One that is banned cannot be linked, but an import brings it.
  await run(BAN, { identity: google('will'), expiresAt: inDays(1) });
  expect(await link(id, google('will'))).toBe('BANNED');
  await project.importLines([{ auth_method: 'saml', auth_value: 'other', created_at: '2026-01-01T00:00:00Z' }], {});
  const line = {
    auth_method: 'github',
    auth_value: 'eve',
    created_at: '2026-01-01T00:00:00Z',
    identities: [
      { auth_method: 'github', auth_value: 'eve', primary: true },
      { auth_method: 'google', auth_value: 'will' },
    ],
  };
  await project.importLines([line], { onConflict: 'update' });
  await sql(endOfIdentity(google('will')));
  expect(await logIn(google('will'))).toBe('BANNED');
  await run(UNBAN_USER, { id });
  for (const identity of [github('eve'), google('free'), google('ended'), google('will')])
    expect(await logIn(identity)).toBe(id);
});

test.each([
  ['from is banned', 'for ever', null],
  ['into is banned', null, 'for ever'],
  ['from longer', 'for ever', 'soon'],
  ['into longer', 'soon', 'for ever'],
  ['from has ended', 'ended', null],
  ['neither', null, null],
])('a merge takes the ban that ends last: %s', async (_name, ofFrom, ofInto) => {
  const { run, sql, logIn, link, banOf } = await open();
  const [from, into] = [await logIn(github('from')), await logIn(github('into'))];
  await link(from, google('from'));
  await link(into, google('into'));
  for (const [id, how] of [[from, ofFrom] as const, [into, ofInto] as const]) {
    if (how === null) continue;
    await run(BAN_USER, { id, reason: how, expiresAt: how === 'for ever' ? null : inDays(1) });
    if (how === 'ended') await sql(endOfUser(id));
  }
  await run(BAN, { identity: google('from'), expiresAt: inDays(2), reason: 'own' });
  await run(MERGE, { from, into });
  const isBanned = [ofFrom, ofInto].includes('for ever');
  expect(await banOf(into)).toMatchObject(
    isBanned
      ? { reason: 'for ever', expiresAt: null, isOfUser: true, ...github('into') }
      : { reason: 'own', isOfUser: false, ...google('from') },
  );
  // The ban of an identity stays with it, and ends by itself.
  const { ban } = await run(UNBAN, { identity: google('from') });
  expect(ban).toEqual(isBanned ? expect.objectContaining({ reason: 'for ever', isOfUser: true }) : null);
  for (const identity of [github('from'), google('from'), github('into'), google('into')])
    expect(await logIn(identity)).toBe(isBanned ? 'BANNED' : into);
  await run(UNBAN_USER, { id: into });
  for (const identity of [github('from'), google('from'), github('into'), google('into')])
    expect(await logIn(identity)).toBe(into);
});

test('an identity that leaves a banned user has a ban with the same terms, and one that stays has none', async () => {
  const { run, sql, logIn, link, banOf } = await open();
  const id = await logIn(github('eve'));
  for (const name of ['a', 'b', 'longer', 'shorter']) await link(id, google(name));
  const end = inDays(2);
  const { user } = await run(BAN_USER, { id, reason: 'fraud', expiresAt: end });
  await run(BAN, { identity: google('longer'), reason: 'longer', expiresAt: inDays(3) });
  await run(BAN, { identity: google('shorter'), reason: 'shorter', expiresAt: inDays(1) });
  // Another identity becomes primary: no identity has left.
  await link(id, { ...google('a'), primary: true });
  await link(id, { ...google('b'), primary: true });
  const own = async () =>
    (await sql(`SELECT auth_value, reason FROM bans WHERE project_id = PROJECT AND user_id IS NULL ORDER BY 1`)).rows;
  expect(await own()).toEqual([
    { auth_value: 'longer', reason: 'longer' },
    { auth_value: 'shorter', reason: 'shorter' },
  ]);
  // Also the primary one.
  for (const name of ['b', 'longer', 'shorter']) await run(UNLINK, { id, identity: google(name) });
  expect(await own()).toEqual([
    { auth_value: 'b', reason: 'fraud' },
    { auth_value: 'longer', reason: 'longer' },
    { auth_value: 'shorter', reason: 'fraud' },
  ]);
  expect(await banOf(id)).toMatchObject({ isOfUser: true, reason: 'fraud', expiresAt: end });
  await run(UNBAN_USER, { id });
  expect(await logIn(google('b'))).toBe('BANNED');
  expect(await logIn(github('eve'))).toBe(id);
  const { nodes } = await run(`{ bans { nodes { authValue createdAt expiresAt isOfUser } } }`);
  expect(nodes).toContainEqual({ authValue: 'b', createdAt: user.ban.createdAt, expiresAt: end, isOfUser: false });
});

test('the address that a banned user gives up stays banned', async () => {
  const { run, logIn, banOf } = await open();
  const eve = { authMethod: 'email', authValue: 'eve@example.com' };
  const id = await logIn(eve);
  await run(BAN_USER, { id, reason: 'fraud' });
  await run('mutation ($id: ID!) { updateUser(id: $id, input: { email: "new@example.com" }) { user { id } } }', { id });
  expect(await logIn(eve)).toBe('BANNED');
  expect(await logIn({ ...eve, authValue: 'new@example.com' })).toBe('BANNED');
  expect(await banOf(id)).toMatchObject({ authValue: 'new@example.com', isOfUser: true });
  await run(UNBAN_USER, { id });
  expect(await logIn({ ...eve, authValue: 'new@example.com' })).toBe(id);
  expect(await logIn(eve)).toBe('BANNED');
});

test('the ban of a user outlives removal, restoration and erasure', async () => {
  const { project, run, sql, logIn, link, banOf } = await open();
  const { services } = app.context;
  const scope = await services.projects.getScope(project.appId);
  const id = await logIn(github('eve'));
  await link(id, google('eve'));
  await run(BAN_USER, { id, reason: 'fraud' });
  const isRefused = async () => {
    for (const identity of [github('eve'), google('eve')]) expect(await logIn(identity)).toBe('BANNED');
  };
  await run('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id });
  await isRefused();
  await run('mutation ($id: ID!) { restoreUser(id: $id) { user { id } } }', { id });
  await isRefused();
  expect(await banOf(id)).toMatchObject({ reason: 'fraud', isOfUser: true });
  await run('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id });
  await sql(`UPDATE users SET deleted_at = now() - interval '2 days' WHERE project_id = PROJECT AND id = ${id}`);
  expect(await services.users.purgeRemoved(scope, 86_400_000, null)).toMatchObject({ users: 1 });
  await isRefused();
  // Nobody has them any more, so each has a ban of its own, which can be lifted.
  const { nodes } = await run('{ bans { nodes { reason isOfUser } } }');
  expect(nodes).toEqual(Array(2).fill({ reason: 'fraud', isOfUser: false }));
  await run(UNBAN, { identity: google('eve') });
  expect(await logIn(google('eve'))).not.toBe('BANNED');
  expect(await logIn(github('eve'))).toBe('BANNED');
});

test.each([
  ['banUser', BAN_USER, (id: string) => ({ id }), (answer: Json) => answer.user.ban],
  ['banIdentity', BAN, () => ({ identity: github('eve') }), (answer: Json) => answer.ban],
] as const)(
  '%s changes only what is given: null is as absent, and as a key remembers it',
  async (_name, document, whomOf, banIn) => {
    const { project, run, logIn } = await open();
    const whom = whomOf(await logIn(github('eve')));
    const end = inDays(1);
    const ban = async (terms: Json) => banIn(await run(document, { ...whom, ...terms }));
    expect(await ban({ reason: 'spam', expiresAt: end })).toMatchObject({ reason: 'spam', expiresAt: end });
    for (const terms of [{}, { reason: null, expiresAt: null, untilLifted: null }, { untilLifted: false }])
      expect(await ban(terms)).toMatchObject({ reason: 'spam', expiresAt: end });
    expect(await ban({ reason: '' })).toMatchObject({ reason: null, expiresAt: end });
    expect(await ban({ untilLifted: true })).toMatchObject({ reason: null, expiresAt: null });
    const refused = await project.graphql(document, { ...whom, expiresAt: end, untilLifted: true });
    expect(refused.errors?.[0]).toMatchObject({
      message: 'expiresAt: a ban that stays until it is lifted has no end.',
      extensions: explained('BAD_USER_INPUT'),
    });
    const key = { idempotencyKey: 'once' };
    expect(await ban({ ...key, reason: 'kept' })).toMatchObject({ reason: 'kept' });
    for (const same of [{ expiresAt: null }, { untilLifted: null }, { untilLifted: false }])
      expect(await ban({ ...key, reason: 'kept', ...same })).toMatchObject({ reason: 'kept' });
    expect(await run(document, { ...whom, ...key, reason: 'kept', untilLifted: true })).toBe('IDEMPOTENCY_KEY_REUSED');
  },
);

test('of two bans of an identity that end at once, its own is shown and exported, and not that of a removed user', async () => {
  const { project, run, logIn, banOf } = await open();
  const removed = await logIn(github('shared'));
  await run(BAN_USER, { id: removed, reason: 'of the removed user' });
  await project.rest(`/server/users/${removed}`, { method: 'DELETE' });
  await project.importLines([
    { auth_method: 'google', auth_value: 'new', identities: [{ auth_method: 'github', auth_value: 'shared' }] },
  ]);
  const [{ id }] = await run('{ usersByIdentities(identities: [{ authMethod: "google", authValue: "new" }]) { id } }');
  expect(await banOf(id)).toMatchObject({ reason: 'of the removed user', isOfUser: false });
  await run(BAN, { identity: github('shared'), reason: 'of the identity' });
  expect(await banOf(id)).toMatchObject({ reason: 'of the identity', isOfUser: false });
  const bans = (await exportOf(project)).flatMap(({ ban }) => ban ?? []);
  expect(bans).toMatchObject([{ auth_value: 'shared', reason: 'of the identity' }]);
});

test('the feed tells of each beginning and end, of other terms, and of an identity that is unlinked', async () => {
  const { run, sql, logIn, link, changes, sweep } = await open();
  const id = await logIn(github('eve'));
  await link(id, google('eve'));
  const seen: string[] = await changes(id);
  const news = async () => {
    const all = await changes(id);
    return all.slice(seen.length, seen.push(...all.slice(seen.length)));
  };
  await run(BAN, { identity: google('eve') });
  expect(await news()).toEqual(['IDENTITY_BANNED']);
  await run(BAN, { identity: google('eve') });
  expect(await news()).toEqual([]);
  await run(BAN, { identity: google('eve'), reason: 'spam' });
  expect(await news()).toEqual(['USER_UPDATED ban']);
  // One identity is banned now. The other one was, but by another ban, which is not shown any more.
  await run(BAN_USER, { id, expiresAt: inDays(1) });
  expect((await news()).toSorted()).toEqual(['IDENTITY_BANNED', 'USER_UPDATED ban']);
  for (const terms of [{ reason: 'fraud' }, { expiresAt: inDays(2) }]) {
    await run(BAN_USER, { id, ...terms });
    expect(await news()).toEqual(['USER_UPDATED ban']);
  }
  await run(UNBAN, { identity: google('eve') });
  expect(await news()).toEqual(['USER_UPDATED ban']);
  await run(UNLINK, { id, identity: google('eve') });
  expect(await news()).toEqual(['USER_UPDATED identities']);
  // Its ban goes on: it never ended.
  expect((await changes(null)).filter((type) => type.startsWith('IDENTITY'))).toEqual([]);
  await sql(endOfUser(id));
  await news();
  expect(await sweep()).toBe(1);
  expect(await news()).toEqual(['IDENTITY_UNBANNED']);
  expect(await changes(null)).toEqual([]);
});

test('the database refuses a state of bans that is wrong', async () => {
  const { run, sql, logIn, link } = await open();
  const id = await logIn(github('eve'));
  await link(id, google('eve'));
  await run(BAN_USER, { id, expiresAt: inDays(1) });
  const columns = 'project_id, auth_method, auth_value, auth_value_key';
  for (const wrong of [
    // Other terms than the user's, a user who is not banned, one who is nobody, a second ban of one identity.
    `UPDATE bans SET expires_at = now() WHERE project_id = PROJECT AND user_id = ${id}`,
    `UPDATE bans SET reason = 'x' WHERE project_id = PROJECT AND user_id = ${id}`,
    `INSERT INTO bans (${columns}, user_id) VALUES (PROJECT, 'github', 'x', 'x', 999999999)`,
    `INSERT INTO user_bans (project_id, user_id) VALUES (PROJECT, 999999999)`,
    `INSERT INTO user_bans (project_id, user_id) VALUES (PROJECT, ${id})`,
    `INSERT INTO bans (${columns}) VALUES (PROJECT, 'github', 'x', 'x'), (PROJECT, 'github', 'x', 'x')`,
  ])
    await expect(sql(wrong)).rejects.toThrow();
});

/** The lines of an export, without the IDs of users. */
async function exportOf(project: TestProject): Promise<Json[]> {
  const { services } = app.context;
  const text: string[] = [];
  await services.transfers.exportUsers(await services.projects.getScope(project.appId), {
    write: async (chunk) => void text.push(chunk),
    signal: new AbortController().signal,
  });
  return text
    .join('')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { id: _, ...rest } = JSON.parse(line);
      return rest;
    });
}

test('an export has the ban of a user as such, and an import of it gives the same again', async () => {
  const { project, run, logIn, link } = await open();
  const [eve, mallory] = [await logIn(github('eve')), await logIn(github('mallory'))];
  await link(eve, google('eve'));
  await link(mallory, google('mallory'));
  const end = inDays(1);
  await run(BAN_USER, { id: eve, reason: 'fraud', expiresAt: end });
  await run(BAN, { identity: google('eve'), reason: 'own' });
  await run(BAN, { identity: google('eve') });
  await run(BAN_USER, { id: mallory });
  await run('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: mallory });
  const lines = await exportOf(project);
  const bans = lines.filter(({ ban }) => ban !== undefined).map(({ ban: { created_at: _, ...ban } }) => ban);
  expect(bans).toEqual([
    { auth_method: 'github', auth_value: 'eve', reason: 'fraud', expires_at: end, of_user: true },
    // The export has no removed user, so each of the identities is banned.
    { auth_method: 'github', auth_value: 'mallory' },
    { auth_method: 'google', auth_value: 'eve', reason: 'own' },
    { auth_method: 'google', auth_value: 'mallory' },
  ]);
  const copy = await app.createProject();
  expect(await copy.importLines(lines, {})).toMatchObject({ imported: 1, bans: 4 });
  expect(await exportOf(copy)).toEqual(lines);
  expect(await copy.importLines(lines, { onConflict: 'skip' })).toMatchObject({ skipped: 1, bans: 0, bans_kept: 4 });
  const linked = { authMethod: 'saml', authValue: 'later' };
  const found = await copy.graphql('{ users { nodes { id ban { isOfUser reason } } } }');
  const [user] = found.data.users.nodes;
  expect(user.ban).toEqual({ isOfUser: true, reason: 'fraud' });
  await copy.graphql(LINK, { id: user.id, input: linked });
  const refused = await copy.graphql(LOGIN, { input: linked });
  expect(refused.errors?.[0]?.extensions.code).toBe('BANNED');
});

test('an import bans the user who has the identity of the line, linked or not, and the identity where nobody has it', async () => {
  const { project, run, logIn, link, banOf } = await open();
  const id = await logIn(github('eve'));
  await link(id, google('eve'));
  const line = (auth_value: string, more: Json = {}) => ({
    ban: { auth_method: 'google', auth_value, of_user: true, ...more },
  });
  const report = await project.importLines([line('eve', { reason: 'first' }), line('eve'), line('nobody')], {});
  expect(report).toMatchObject({ bans: 2, bans_kept: 1 });
  expect(await banOf(id)).toMatchObject({ ...github('eve'), reason: 'first', isOfUser: true });
  const { ban } = await run(UNBAN, { identity: google('nobody') });
  expect(ban).toBeNull();
  expect(await project.importLines([line('x', { of_user: 'yes' })], { skipInvalid: true })).toMatchObject({
    errors: [{ line: 1, error: 'of_user: got "yes", expected true or false.' }],
  });
});
