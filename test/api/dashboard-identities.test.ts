import { beforeAll, expect, test, vi } from 'vitest';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** Operators link, unlink, merge and ban users as persons. */

const app = useTestApp();
let support: TestOperator;
let project: TestProject;
beforeAll(async () => {
  [support, project] = [await logIn(app, 'support'), await app.createProject()];
});

const SHOWN = `id authMethod authValue email externalId loginCount metadata
  identities { authMethod authValue email emailVerified isPrimary } accounts { publicKey walletType }`;
const USER = `${SHOWN} ban { isOfUser } mergedInto`;
/** What callers have is asked in the project. */
const change = (types: string, field: string) => `mutation (${types}) { result: ${field} { user { ${SHOWN} } } }`;
const LINK = change('$userId: ID!, $input: LinkIdentityInput!', 'linkIdentity(userId: $userId, input: $input)');
const UNLINK = change(
  '$userId: ID!, $identity: IdentityInput!',
  'unlinkIdentity(userId: $userId, identity: $identity)',
);
const UNLINK_ACCOUNT = change('$userId: ID!, $address: String!', 'unlinkAccount(userId: $userId, address: $address)');
const MERGE = change('$from: ID!, $into: ID!', 'mergeUsers(from: $from, into: $into)');
const UPDATE = change('$id: ID!, $input: UpdateUserInput!', 'updateUser(id: $id, input: $input)');
const BAN = 'mutation ($ids: [ID!]!) { result: banUsers(ids: $ids) { outcomes { ok } } }';
const REMOVE = BAN.replace('banUsers', 'removeUsers');
const UNBAN = 'mutation ($appId: ID!, $ids: [ID!]!) { result: unbanUsers(appId: $appId, ids: $ids) { ok } }';

const send = (document: string, variables: Json) =>
  document === UNBAN
    ? support.graphql(document, { appId: project.appId, ...variables })
    : support.inProject(project.appId).graphql(document, variables);
async function ask(document: string, variables: Json): Promise<Json> {
  const { data, errors } = await send(document, variables);
  expect(errors).toBeUndefined();
  const { result } = data as Json;
  return result.user ?? result.outcomes ?? result;
}
const shown = async (fields: string): Promise<Json> =>
  (await support.ask(`query ($appId: ID!) { project(appId: $appId) { ${fields} } }`, { appId: project.appId })).project;
const userOf = async (id: string) => (await shown(`user(id: "${id}") { ${USER} }`)).user;
const idOf = async (authMethod: string, authValue: string): Promise<string> =>
  (
    await support
      .inProject(project.appId)
      .ask(`{ userByIdentity(authMethod: "${authMethod}", authValue: "${authValue}") { id } }`)
  ).userByIdentity?.id;
async function add(name: string, more: Json = {}): Promise<string> {
  await project.addUsers({ auth_method: 'email', auth_value: `${name}@example.com`, ...more });
  return idOf('email', `${name}@example.com`);
}
const loginCodes = async (authMethod: string, authValue: string) =>
  codesOf(
    await project.graphql('mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created } }', {
      input: { authMethod, authValue },
    }),
  );
const names = (user: Json) => user.identities.map(({ authMethod, authValue }: Json) => `${authMethod} ${authValue}`);
const actionsOf = async (id: string): Promise<string[]> =>
  (await shown(`audit(userId: "${id}") { nodes { action actor } }`)).audit.nodes.map(
    ({ action, actor }: Json) => `${actor} ${action}`,
  );

test('an operator links an identity, makes it primary and unlinks it, and the trail says who', async () => {
  const userId = await add('ada');
  const google = { authMethod: 'google', authValue: 'g-1' };
  const link = (more: Json) => ({ userId, input: { ...google, ...more } });
  const linked = await ask(LINK, link({ email: 'Ada@Gmail.example', emailVerified: true }));
  expect(names(linked)).toEqual(['email ada@example.com', 'google g-1']);
  expect(linked.identities[1]).toMatchObject({ email: 'ada@gmail.example', emailVerified: true, isPrimary: false });
  expect(await ask(LINK, link({ primary: true }))).toMatchObject({
    authMethod: 'google',
    email: 'ada@gmail.example',
  });
  expect(names(await ask(UNLINK, { userId, identity: google }))).toEqual(['email ada@example.com']);
  expect(codesOf(await send(UNLINK, { userId, identity: google }))).toEqual(['NOT_FOUND']);
  const last = { authMethod: 'email', authValue: 'ada@example.com' };
  expect(codesOf(await send(UNLINK, { userId, identity: last }))).toEqual(['CONFLICT']);
  expect(codesOf(await send(LINK, link({ authMethod: 'google.com' })))).toEqual(['BAD_USER_INPUT']);
  const by = `operator:${support.name}`;
  expect(await actionsOf(userId)).toEqual([`${by} unlink`, `${by} link`, `${by} link`]);
});

test('an operator unlinks an account, and a wallet with the identity that logs in by it', async () => {
  const userId = await add('grace', { accounts: [{ network: 'stellar', public_key: stellarAddress(1) }] });
  const wallet = ethereumAddress(1);
  const linked = await ask(LINK, { userId, input: { authMethod: 'wallet', authValue: wallet } });
  expect(linked.accounts).toMatchObject([{ walletType: 'CUSTODIAL' }, { walletType: 'EXTERNAL' }]);
  const left = await ask(UNLINK_ACCOUNT, { userId, address: wallet });
  expect([names(left), left.accounts.length]).toEqual([['email grace@example.com'], 1]);
  expect((await ask(UNLINK_ACCOUNT, { userId, address: stellarAddress(1) })).accounts).toEqual([]);
});

test('the address of a user who logs in by email changes, and metadata is kept and taken away', async () => {
  const id = await add('old');
  const input = { email: 'New@example.com', metadata: { plan: 'pro', seats: [1, 2] } };
  const changed = await ask(UPDATE, { id, input });
  expect(changed).toMatchObject({ authValue: 'new@example.com', email: 'new@example.com', metadata: input.metadata });
  expect((await ask(UPDATE, { id, input: { metadata: null } })).metadata).toBeNull();
  for (const metadata of ['text', [1], { long: 'x'.repeat(4_096) }])
    expect(codesOf(await send(UPDATE, { id, input: { metadata } }))).toEqual(['BAD_USER_INPUT']);
});

test('a preview says what a merge does, which then does it', async () => {
  const [earlier, later] = ['2024-01-02T03:04:05.000Z', '2025-01-02T03:04:05.000Z'];
  const wallet = ethereumAddress(3);
  const into = await add('into', { external_id: 'kept', login_count: 2, metadata: { a: 1 }, created_at: later });
  const address = stellarAddress(2);
  const account = { network: 'stellar', public_key: address };
  const from = await add('from', {
    external_id: 'lost',
    wallet,
    login_count: 3,
    created_at: earlier,
    last_login: later,
    metadata: { b: 1 },
    accounts: [account],
  });
  const preview = (one: string, other: string) => shown(`mergePreview(from: "${one}", into: "${other}") { name text }`);
  const { mergePreview } = await preview(from, into);
  expect(Object.fromEntries(mergePreview.map(({ name, text }: Json) => [name, text]))).toMatchObject({
    Identities: `email from@example.com → user ${into}`,
    Accounts: `${address}, ${wallet}`,
    Wallet: `${wallet} moves.`,
    Created: earlier,
    'Last login': later,
    Logins: '3 + 2 = 5',
    'External ID': 'kept stays, lost is given up.',
    Metadata: `that of user ${into} stays, that of user ${from} is given up.`,
  });
  const merged = await ask(MERGE, { from, into });
  expect(merged).toMatchObject({ id: into, externalId: 'kept', loginCount: 5, metadata: { a: 1 } });
  const dates = 'query ($id: ID!) { result: user(id: $id) { wallet createdAt lastLogin } }';
  expect(await ask(dates, { id: into })).toEqual({ wallet, createdAt: earlier, lastLogin: later });
  expect(names(merged)).toEqual(['email into@example.com', 'email from@example.com']);
  expect(await userOf(from)).toMatchObject({ mergedInto: into });
  await expect(preview(from, into)).rejects.toThrow(`no user ${from} `);
  await expect(preview(into, into)).rejects.toThrow('another user');
  expect(codesOf(await send(MERGE, { from, into }))).toEqual(['NOT_FOUND']);
});

test('a ban of a user covers all identities, those linked later too, also of a removed user', async () => {
  const userId = await add('eve');
  await ask(LINK, { userId, input: { authMethod: 'google', authValue: 'eve-1' } });
  expect(await ask(BAN, { ids: [userId] })).toEqual([{ ok: true }]);
  expect(await loginCodes('google', 'eve-1')).toEqual(['BANNED']);
  await ask(LINK, { userId, input: { authMethod: 'github', authValue: 'eve-2' } });
  expect(await loginCodes('github', 'eve-2')).toEqual(['BANNED']);
  expect(await ask(UNBAN, { ids: [userId] })).toEqual([{ ok: true }]);
  expect(await loginCodes('google', 'eve-1')).toEqual([]);
  expect((await userOf(userId)).ban).toBeNull();

  expect(await ask(REMOVE, { ids: [userId] })).toEqual([{ ok: true }]);
  expect(await ask(BAN, { ids: [userId] })).toEqual([{ ok: true }]);
  for (const [method, value] of [
    ['email', 'eve@example.com'],
    ['github', 'eve-2'],
  ] as const)
    expect(await loginCodes(method, value)).toEqual(['BANNED']);
  expect(await ask(UNBAN, { ids: [userId] })).toEqual([{ ok: true }]);
  expect(await loginCodes('email', 'eve@example.com')).toEqual([]);
});

test('an operator in a project has the rights of the role: what it lacks is refused and recorded', async () => {
  const userId = await add('lin');
  const viewer = await logIn(app, 'viewer');
  const ofViewer = viewer.inProject(project.appId);
  const link = { userId, input: { authMethod: 'google', authValue: 'lin-1' } };
  expect(codesOf(await ofViewer.graphql(LINK, link))).toEqual(['FORBIDDEN']);
  expect((await shown('audit(first: 1) { nodes { actor action details } }')).audit.nodes).toEqual([
    { actor: `operator:${viewer.name}`, action: 'refuse', details: '{"refused":"linkIdentity"}' },
  ]);
  const READ = 'query ($id: ID!) { user(id: $id) { id email identities { authMethod } } userCount }';
  expect(await ofViewer.ask(READ, { id: userId })).toEqual({
    user: { id: userId, email: 'lin@example.com', identities: [{ authMethod: 'email' }] },
    userCount: expect.any(Number),
  });
});

test('a document of callers is refused without a project, in an unknown one, and as a subscription', async () => {
  const READ = '{ userCount }';
  expect(codesOf(await support.graphql(READ))).toEqual(['BAD_USER_INPUT']);
  expect(codesOf(await support.inProject('app_none').graphql(READ))).toEqual(['NOT_FOUND']);
  const ofProject = support.inProject(project.appId);
  expect(codesOf(await ofProject.graphql('subscription { changes { type } }'))).toEqual(['BAD_USER_INPUT']);
  expect(codesOf(await ofProject.graphql('{ projects { totalCount } }'))).toEqual(['BAD_USER_INPUT']);
  expect(codesOf(await ofProject.graphql('{ caller { appId } }'))).toEqual(['CONFLICT']);
});

test('a document with several changes is stopped where the right is lost between them', async () => {
  const ids = [await add('one'), await add('two')];
  const who = await logIn(app, 'support');
  const { identities, operators } = app.context.services;
  const ban = vi.spyOn(identities, 'ban').mockImplementationOnce(async (...args) => {
    ban.mockRestore();
    const user = await identities.ban(...args);
    await operators.updateOperator(THE_OPERATOR, who.name, { role: 'viewer' });
    return user;
  });
  const BOTH = 'mutation ($a: ID!, $b: ID!) { a: banUser(id: $a) { user { id } } b: banUser(id: $b) { user { id } } }';
  const answer = await who.inProject(project.appId).graphql(BOTH, { a: ids[0], b: ids[1] });
  expect(codesOf(answer)).toEqual(['FORBIDDEN']);
  expect(await Promise.all(ids.map(async (id) => (await userOf(id)).ban !== null))).toEqual([true, false]);
});
