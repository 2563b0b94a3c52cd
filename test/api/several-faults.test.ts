import { beforeAll, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { expectError, verify } from '../support/rest.js';

/** A caller who has several faults hears of all of them at once, over GraphQL as over REST. */
const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

const BAD_KEY = 'idempotencyKey: "a b"';
const BAD_LOGIN = `authMethod: "E-Mail", authValue: "", email: "ada", wallet: "0x12", externalId: " ", accounts: [{ network: STELLAR, publicKey: "G" }]`;
const LOGIN_FAULTS = ['authMethod', 'authValue', 'email', 'wallet', 'externalId', 'accounts[0].publicKey'];

test.each<[field: string, faults: readonly string[], argument: string]>([
  [
    `recordLogin(input: { ${BAD_LOGIN} }, ${BAD_KEY}) { created }`,
    [...LOGIN_FAULTS, 'idempotencyKey'],
    'input.authMethod',
  ],
  [
    `recordLogin(input: { authMethod: "wallet", authValue: "0x12", metadata: [1] }) { created }`,
    ['authValue', 'metadata'],
    'input.authValue',
  ],
  [
    'recordLogin(input: { authMethod: "google", authValue: "1", accounts: [{ network: STELLAR, publicKey: "G" }, { network: STELLAR, publicKey: "0x" }] }) { created }',
    ['accounts[0].publicKey', 'accounts[1].publicKey'],
    'input.accounts[0].publicKey',
  ],
  [
    `linkIdentity(userId: "x", input: { authMethod: "A", authValue: "" }) { user { id } }`,
    ['userId', 'authMethod', 'authValue'],
    'userId',
  ],
  [
    `unlinkIdentity(userId: "x", identity: { authMethod: "A", authValue: "1" }, ${BAD_KEY}) { user { id } }`,
    ['userId', 'authMethod', 'idempotencyKey'],
    'userId',
  ],
  [
    `unlinkAccount(userId: "x", address: "G", ${BAD_KEY}) { user { id } }`,
    ['userId', 'address', 'idempotencyKey'],
    'userId',
  ],
  [
    `createUser(input: { ${BAD_LOGIN} }, ${BAD_KEY}) { user { id } }`,
    [...LOGIN_FAULTS, 'idempotencyKey'],
    'input.authMethod',
  ],
  [
    `updateUser(id: "x", input: { email: "a", externalId: "", metadata: 1 }, ${BAD_KEY}) { user { id } }`,
    ['id', 'email', 'externalId', 'metadata', 'idempotencyKey'],
    'id',
  ],
  [`deleteUser(id: "x", ${BAD_KEY}) { id }`, ['id', 'idempotencyKey'], 'id'],
  [`restoreUser(id: "x", ${BAD_KEY}) { user { id } }`, ['id', 'idempotencyKey'], 'id'],
  [`mergeUsers(from: "x", into: "y") { user { id } }`, ['from', 'into'], 'from'],
  [
    `banUser(id: "x", reason: "\\n", expiresAt: "1999", ${BAD_KEY}) { user { id } }`,
    ['id', 'expiresAt', 'idempotencyKey'],
    'id',
  ],
  [`removeUsers(ids: [1, "x", "y"], ${BAD_KEY}) { outcomes { ok } }`, ['ids[1]', 'ids[2]', 'idempotencyKey'], 'ids[1]'],
  [
    `banUsers(ids: ["x"], expiresAt: "1999", ${BAD_KEY}) { outcomes { ok } }`,
    ['ids[0]', 'expiresAt', 'idempotencyKey'],
    'ids[0]',
  ],
  [`unbanUser(id: "x", ${BAD_KEY}) { user { id } }`, ['id', 'idempotencyKey'], 'id'],
  [
    `banIdentity(identity: { authMethod: "A", authValue: "" }, reason: "a\\nb", expiresAt: "1999") { ban { isOfUser } }`,
    ['authMethod', 'authValue', 'reason', 'expiresAt'],
    'identity.authMethod',
  ],
  [
    `unbanIdentity(identity: { authMethod: "A", authValue: "" }, ${BAD_KEY}) { user { id } }`,
    ['authMethod', 'authValue', 'idempotencyKey'],
    'identity.authMethod',
  ],
  [
    `addWebhook(url: "x", description: "a\\nb", types: [], ${BAD_KEY}) { secret }`,
    ['types', 'description', 'url', 'idempotencyKey'],
    'types',
  ],
  [`rotateWebhookSecret(id: "x", overlapSeconds: -1) { secret }`, ['id', 'overlapSeconds'], 'id'],
  [`resendWebhookMessage(id: "x", messageId: "y") { ok }`, ['id', 'messageId'], 'id'],
  [
    `query users(first: 0, after: "x", filter: { startDate: "a", endDate: "b", authMethods: ["A", "B"], lastLoginAfter: "c" }) { nodes { id } }`,
    ['startDate', 'endDate', 'lastLoginAfter', 'authMethods[0]', 'authMethods[1]', 'after', 'first'],
    'filter.startDate',
  ],
  [
    `query userPage(page: 0, limit: 0, filter: { startDate: "a" }) { page }`,
    ['startDate', 'page', 'limit'],
    'filter.startDate',
  ],
  [`query userCount(filter: { startDate: "a", endDate: "b" })`, ['startDate', 'endDate'], 'filter.startDate'],
  [`query usersByIds(ids: [1, "a", 2, "b"]) { id }`, ['ids[1]', 'ids[3]'], 'ids[1]'],
  [`query usersByPrefix(prefix: "", first: 0) { hasMore }`, ['first', 'prefix'], 'first'],
  [`query bans(first: 0, after: "x") { nodes { isOfUser } }`, ['first', 'after'], 'first'],
  [`query changes(first: 0, after: "x", types: []) { nodes { id } }`, ['after', 'types', 'first'], 'after'],
  [`query verifyWallet(address: "x", userId: "y") { exists }`, ['address', 'userId'], 'address'],
  [`query userByIdentity(authMethod: "A", authValue: "") { id }`, ['authMethod', 'authValue'], 'authMethod'],
])('%s', async (field, faults, argument) => {
  const document = field.startsWith('query ') ? `{ ${field.slice('query '.length)} }` : `mutation { ${field} }`;
  const { errors } = await project.graphql(document);
  expect(errors).toHaveLength(1);
  const [{ message, extensions }] = errors as [Json];
  expect(extensions).toMatchObject({ code: 'BAD_USER_INPUT', argument });
  const named = [...message.matchAll(/(?:^|\. )([\w[\].]+): /g)].map(([, name]) => name);
  expect(named).toEqual(faults);
});

test('a list names its first five faults', async () => {
  const { errors } = await project.graphql(`{ usersByIds(ids: [${'"x",'.repeat(100)}]) { id } }`);
  expect(errors?.[0]?.message.match(/ids\[\d+\]/g)).toEqual([0, 1, 2, 3, 4].map((at) => `ids[${at}]`));
});

test('arguments that have lost their values', async () => {
  const { errors } = await project.graphql(
    'mutation ($lost: String) { banUser(id: 1, reason: $lost, expiresAt: $lost) { user { id } } }',
  );
  expect(errors?.[0]?.message).toMatch(/^reason: got no value .* expiresAt: got no value /);
});

test('a wallet over REST', async () => {
  const sentence = expectError(await verify(project, { address: '0x12', user_id: '53' }), 400);
  expect(sentence).toMatch(/^address: got .* user_id: got "53", expected a whole number without quotes, 1 and up\.$/);
});
