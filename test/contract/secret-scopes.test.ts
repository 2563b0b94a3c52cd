import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';
import { expectError, jsonPost } from '../support/rest.js';

/** A secret can be limited to scopes. An operation outside them is 401 over REST and FORBIDDEN in GraphQL. */

type Scope = 'read' | 'verify' | 'write' | 'changes' | 'webhooks';
const SCOPES: readonly Scope[] = ['read', 'verify', 'write', 'changes', 'webhooks'];

const app = useTestApp();
let project: TestProject;
const secrets = {} as Record<Scope, string>;
let userId: string;

beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers({ auth_method: 'wallet', auth_value: ethereumAddress(1) });
  const { data } = await project.graphql('{ users { nodes { id } } }');
  userId = data.users.nodes[0].id;
  const services = app.context.services;
  const scope = await services.projects.getScope(project.appId);
  for (const each of SCOPES) {
    const { appSecret } = await services.secrets.addSecret(scope, { label: each, scopes: [each], expiresInMs: null });
    secrets[each] = appSecret;
  }
});

const withSecret = (appSecret: string) => ({ 'service-app-secret': appSecret });

interface Route {
  readonly route: string;
  readonly path: string;
  readonly init: { method?: string; headers?: Record<string, string>; body?: string };
  readonly needs: Scope;
  /** The status with a secret that has the scope. */
  readonly status: number;
}

const verifyBody = jsonPost({ address: ethereumAddress(1) });
const ROUTES: readonly Route[] = [
  { route: 'list', path: '/server/users', init: {}, needs: 'read', status: 200 },
  { route: 'count', path: '/server/users/count', init: {}, needs: 'read', status: 200 },
  { route: 'search', path: '/server/users/search?email=a@example.com', init: {}, needs: 'read', status: 200 },
  { route: 'get', path: '/server/users/999999', init: {}, needs: 'read', status: 404 },
  { route: 'remove', path: '/server/users/999999', init: { method: 'DELETE' }, needs: 'write', status: 404 },
  { route: 'verify', path: '/server/wallets/verify', init: verifyBody, needs: 'verify', status: 200 },
  // Correct credentials without the scope are 401 before the parameters are validated.
  { route: 'a malformed list', path: '/server/users?page=0', init: {}, needs: 'read', status: 400 },
  { route: 'a malformed remove', path: '/server/users/x', init: { method: 'DELETE' }, needs: 'write', status: 400 },
  { route: 'a malformed verify', path: '/server/wallets/verify', init: jsonPost([]), needs: 'verify', status: 400 },
];

// Outside the contract of REST, a missing scope is 403.
test.each(SCOPES)('REST: verification of many wallets needs verify: a secret for %s', async (scope) => {
  const init = jsonPost({ wallets: [{ address: ethereumAddress(1) }] });
  const headers = { ...init.headers, ...withSecret(secrets[scope]) };
  const answer = await project.rest('/wallets/verify', { ...init, headers });
  if (scope === 'verify') expect(answer.status).toBe(200);
  else expect(expectError(answer, 403)).toBe(`The App Secret lacks the scope verify; it has ${scope}.`);
});

describe.each(ROUTES)('REST: $route needs $needs', ({ path, init, needs, status }) => {
  test.each(SCOPES)('a secret for %s', async (scope) => {
    const answer = await project.rest(path, { ...init, headers: { ...init.headers, ...withSecret(secrets[scope]) } });
    if (scope === needs) {
      expect(answer.status).toBe(status);
      return;
    }
    expectError(answer, 401);
    expect(answer.headers.get('www-authenticate')).toBe('Basic realm="userdir"');
    expect(answer.body.error).toBe(`The App Secret lacks the scope ${needs}; it has ${scope}.`);
  });
});

async function graphql(scope: Scope, query: string): Promise<Json> {
  const response = await fetch(`${app.url}/graphql`, {
    ...jsonPost({ query }),
    headers: { ...project.credentials, ...withSecret(secrets[scope]), 'content-type': 'application/json' },
  });
  return response.json();
}

const LINK = () =>
  `linkIdentity(userId: ${userId}, input: { authMethod: "google", authValue: "linked" }) { user { id } }`;
const LOGIN = 'recordLogin(input: { authMethod: "passkey", authValue: "p1" }) { user { id accounts { id } } }';
let created = 0;
/** Of a new user each time. */
const creation = () => {
  created += 1;
  return `createUser(input: { authMethod: "passkey", authValue: "created ${created}" })`;
};
const FIELDS: readonly [needs: Scope, query: () => string][] = [
  ['read', () => `{ user(id: ${userId}) { id accounts { id } } }`],
  ['read', () => '{ users { totalCount nodes { id } } }'],
  ['read', () => '{ userPage { totalUser users { id } } }'],
  ['read', () => '{ userCount }'],
  ['read', () => '{ searchUsers(by: { email: "a@example.com" }) { id } }'],
  ['read', () => '{ userByIdentity(authMethod: "email", authValue: "a@example.com") { id } }'],
  ['read', () => '{ userByExternalId(externalId: "A-1") { id } }'],
  ['read', () => '{ bans { nodes { authValue user { id } } } }'],
  ['read', () => '{ findUser(any: "A-1") { id } }'],
  ['read', () => '{ usersByPrefix(prefix: "a") { users { id } } }'],
  ['read', () => '{ users(filter: { banned: true }) { nodes { id } } }'],
  ['read', () => `{ usersByIds(ids: [${userId}]) { id } }`],
  ['read', () => '{ usersByEmails(emails: ["a@example.com"]) { id } }'],
  ['read', () => '{ usersByExternalIds(externalIds: ["A-1"]) { id } }'],
  ['read', () => '{ usersByIdentities(identities: [{ authMethod: "email", authValue: "a@example.com" }]) { id } }'],
  ['read', () => `{ _entities(representations: [{ __typename: "User", id: ${userId} }]) { ... on User { id } } }`],
  ['verify', () => `{ verifyWallet(address: "${ethereumAddress(1)}") { exists } }`],
  ['verify', () => `{ verifyWallets(inputs: [{ address: "${ethereumAddress(1)}" }]) { asOf } }`],
  ['changes', () => '{ changes { nodes { id } } }'],
  ['write', () => `mutation { ${LOGIN} }`],
  ['write', () => `mutation { ${creation()} { user { id externalId loginCount } } }`],
  [
    'write',
    () => `mutation {
      ${LINK()} unlinkIdentity(userId: ${userId}, identity: { authMethod: "google", authValue: "linked" }) { user { id } }
    }`,
  ],
  [
    'write',
    () => 'mutation { removeUsers(ids: [999999]) { outcomes { ok } } banUsers(ids: [999999]) { outcomes { ok } } }',
  ],
  ['write', () => `mutation { banUser(id: ${userId}) { user { id } } unbanUser(id: ${userId}) { user { id } } }`],
  [
    'write',
    () => `mutation {
      banIdentity(identity: { authMethod: "google", authValue: "banned" }) { ban { reason } }
      unbanIdentity(identity: { authMethod: "google", authValue: "banned" }) { __typename }
    }`,
  ],
  ['webhooks', () => '{ webhooks { id } }'],
  ['write', () => `mutation { updateUser(id: ${userId}, input: { externalId: "A-1" }) { user { id } } }`],
];

describe.each(FIELDS)('GraphQL: %s is needed for %s', (needs, query) => {
  test.each(SCOPES)('a secret for %s', async (scope) => {
    // Five times: a query is compiled after three requests, and the compiled query must refuse too.
    for (let time = 0; time < 5; time += 1) {
      const { data, errors } = await graphql(scope, query());
      if (scope === needs) expect(errors).toBeUndefined();
      else {
        expect(errors).toEqual([
          expect.objectContaining({
            message: `The App Secret lacks the scope ${needs}; it has ${scope}.`,
            extensions: explained('FORBIDDEN'),
          }),
        ]);
        expect(Object.values(data ?? {}).filter((value) => value !== null)).toEqual([]);
      }
    }
  });
});

test('a query compiled for a secret with the scope is refused to a secret without it', async () => {
  const query = '{ compiled: userCount }';
  for (let time = 0; time < 5; time += 1) expect((await graphql('read', query)).data.compiled).toBeGreaterThan(0);
  expect((await graphql('write', query)).errors[0].extensions.code).toBe('FORBIDDEN');
  expect((await graphql('read', query)).data.compiled).toBeGreaterThan(0);
});

test('every field of Query and Mutation is tested above, or needs no scope', async () => {
  const { data } = await project.graphql(
    '{ __schema { queryType { fields { name } } mutationType { fields { name } } } }',
  );
  const all = [...data.__schema.queryType.fields, ...data.__schema.mutationType.fields].map(({ name }) => name);
  const asked = FIELDS.map(([, query]) => query()).join(' ');
  const left = all.filter((name) => !new RegExp(`\\b${name}\\b`).test(asked));
  // These have tests of their own: most can succeed only once, and graphql-webhooks.test.ts has webhooks.
  const webhooks = [
    'addWebhook',
    'pauseWebhook',
    'removeWebhook',
    'resendWebhookMessage',
    'resumeWebhook',
    'rotateWebhookSecret',
  ];
  const others = ['caller', 'deleteUser', 'mergeUsers', 'parseAddress', 'restoreUser', 'unlinkAccount'];
  expect(left.toSorted()).toEqual([...webhooks, ...others].toSorted());
});

test('a refused operation changes nothing, and an allowed operation is performed', async () => {
  const { user } = (await graphql('write', `mutation { ${LOGIN.replace('p1', 'p2')} }`)).data.recordLogin;
  const remove = `mutation { deleteUser(id: ${user.id}) { id } }`;
  for (const scope of ['read', 'verify', 'changes'] as const) {
    expect((await graphql(scope, remove)).errors[0].extensions.code).toBe('FORBIDDEN');
    const headers = withSecret(secrets[scope]);
    expect((await project.rest(`/server/users/${user.id}`, { method: 'DELETE', headers })).status).toBe(401);
  }
  expect((await project.rest(`/server/users/${user.id}`)).status).toBe(200);
  expect((await graphql('write', remove)).data).toEqual({ deleteUser: { id: user.id } });
  expect((await project.rest(`/server/users/${user.id}`)).status).toBe(404);
  const restore = `mutation { restoreUser(id: ${user.id}) { user { id } } }`;
  for (const scope of ['read', 'verify', 'changes'] as const)
    expect((await graphql(scope, restore)).errors[0].extensions.code).toBe('FORBIDDEN');
  expect((await graphql('write', restore)).data).toEqual({ restoreUser: { user: { id: user.id } } });
});

test.each(SCOPES)('a secret for %s may ask who it is', async (scope) => {
  const { data } = await graphql(scope, '{ caller { projectName appId secretLabel scopes expiresAt } }');
  const caller = { projectName: 'Test', appId: project.appId, secretLabel: scope, scopes: [scope.toUpperCase()] };
  expect(data).toEqual({ caller: { ...caller, expiresAt: null } });
});

test.each(SCOPES)('a secret for %s may parse addresses and read the schema', async (scope) => {
  const answer = await graphql(scope, '{ parseAddress(address: "x") { reason } __schema { queryType { name } } }');
  expect(answer.errors).toBeUndefined();
  expect(answer.data.__schema.queryType.name).toBe('Query');
});

test('a refusal names only scopes that exist', async () => {
  const { projects, users, accounts, secrets: ofProject } = app.context.services;
  const scope = await projects.authenticate({ appId: project.appId, appSecret: secrets.verify });
  await expect(async () => users.removeUser(scope, 1n, 'a', null)).rejects.toThrow('lacks the scope write; it has');
  await expect(async () => accounts.listAccounts(scope, 1)).rejects.toThrow('lacks the scope read or write; it has');
  await expect(async () => ofProject.listSecrets(scope)).rejects.toThrow(/^Only operators may do this\.$/);
});

test('operator actions are refused to every secret, with any scopes', async () => {
  const { projects, secrets: ofProject, audit, transfers, users, bans, lifecycle } = app.context.services;
  const deletion = { progress: () => undefined, signal: new AbortController().signal };
  const scope = await projects.authenticate({ appId: project.appId, appSecret: project.appSecret });
  const isNotPermitted = { code: 'FORBIDDEN' };
  await expect(async () => ofProject.listSecrets(scope)).rejects.toMatchObject(isNotPermitted);
  await expect(async () => ofProject.rotateSecret(scope, { overlapMs: 0 })).rejects.toMatchObject(isNotPermitted);
  await expect(async () => audit.listEntries(scope, null, 1)).rejects.toMatchObject(isNotPermitted);
  await expect(async () => users.searchAny(scope, '1')).rejects.toMatchObject(isNotPermitted);
  await expect(async () => users.describeUser(scope, 1n)).rejects.toMatchObject(isNotPermitted);
  await expect(async () => bans.listBans(scope, { limit: 1 })).rejects.toMatchObject(isNotPermitted);
  await expect(async () => lifecycle.disableProject(scope)).rejects.toMatchObject(isNotPermitted);
  await expect(async () => lifecycle.deleteProject(scope, deletion)).rejects.toMatchObject(isNotPermitted);
  await expect(async () => transfers.addUsers(scope, [])).rejects.toMatchObject(isNotPermitted);
});
