import { beforeEach, expect, inject, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';
import { untilLocked } from '../support/waiting.js';

/** Users who are created without a login. */

const app = useTestApp();
let project: TestProject;
beforeEach(async () => {
  project = await app.createProject();
});

const CREATE = `mutation ($input: CreateUserInput!, $key: String = null) {
  createUser(input: $input, idempotencyKey: $key) {
    user {
      id authMethod authValue email externalId metadata wallet loginCount lastLogin
      accounts { network publicKey walletType }
      identities { authMethod authValue email emailVerified lastLogin isPrimary }
    }
  }
}`;
const LOGIN = `mutation ($input: RecordLoginInput!) {
  recordLogin(input: $input) { created user { id loginCount lastLogin metadata } }
}`;
const LINK =
  'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }';
const GRACE = { authMethod: 'google', authValue: 'g-1' };

const create = (input: Json, key?: string) => project.graphql(CREATE, { input, key });
async function created(input: Json, key?: string): Promise<Json> {
  const { data, errors } = await create(input, key);
  expect(errors).toBeUndefined();
  return data.createUser.user;
}
const ask = async (document: string, variables: Json = {}): Promise<Json> => {
  const { data, errors } = await project.graphql(document, variables);
  expect(errors).toBeUndefined();
  return Object.values(data as Json)[0];
};
const changes = async (): Promise<Json[]> =>
  (await ask('{ changes(first: 1000) { nodes { type userId } } }')).nodes.map(({ type, userId }: Json) => [
    type,
    userId,
  ]);

test('a user is created with all that a login says, and without a login', async () => {
  const accounts = [{ network: 'STELLAR', publicKey: stellarAddress(1) }];
  const user = await created({
    ...GRACE,
    email: 'Grace@Example.com',
    emailVerified: true,
    externalId: 'G-1',
    metadata: { plan: 'pro', deep: { a: [1, null] } },
    wallet: ethereumAddress(1),
    accounts,
  });
  expect(user).toMatchObject({
    ...GRACE,
    email: 'grace@example.com',
    externalId: 'G-1',
    metadata: { plan: 'pro', deep: { a: [1, null] } },
    wallet: ethereumAddress(1),
    loginCount: 0,
    lastLogin: null,
    accounts: [
      { ...accounts[0], walletType: 'CUSTODIAL' },
      { network: 'ETHEREUM', publicKey: ethereumAddress(1), walletType: 'EXTERNAL' },
    ],
    identities: [{ ...GRACE, email: 'grace@example.com', emailVerified: true, lastLogin: null, isPrimary: true }],
  });
  expect((await project.rest(`/server/users/${user.id}`)).body.result).toMatchObject({
    login_count: 0,
    last_login: null,
  });
  expect((await project.rest('/server/users/count')).body.result.total_user).toBe(1);
  const [first, ...others] = (await changes()).map(([type, userId]) => `${type} ${userId}`);
  expect(first).toBe(`USER_CREATED ${user.id}`);
  expect(new Set(others)).toEqual(new Set([`ACCOUNT_ADDED ${user.id}`]));
});

test('the first login of a user who was created is a login of that user', async () => {
  const { id } = await created({ ...GRACE, metadata: { plan: 'pro' } });
  const login = await ask(LOGIN, { input: GRACE });
  expect(login).toEqual({
    created: false,
    user: { id, loginCount: 1, lastLogin: expect.any(String), metadata: { plan: 'pro' } },
  });
  expect(await changes()).toEqual([['USER_CREATED', id]]);
});

test('an identity or an external ID of another user is CONFLICT, which names the user, and takes no ID', async () => {
  const { id } = await created({ ...GRACE, externalId: 'G-1' });
  await ask(LINK, { id, input: { authMethod: 'email', authValue: 'grace@example.com' } });
  for (const [input, argument] of [
    [GRACE, 'input.authValue'],
    [{ authMethod: 'email', authValue: 'GRACE@example.com' }, 'input.authValue'],
    [{ authMethod: 'github', authValue: '1', externalId: 'G-1' }, 'input.externalId'],
  ] as const) {
    const { errors } = await create(input);
    expect(errors).toMatchObject([{ extensions: { code: 'CONFLICT', userId: id, argument } }]);
  }
  expect((await created({ authMethod: 'github', authValue: '1' })).id).toBe(String(Number(id) + 1));
  // What a removed user had is free.
  await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  expect(await created({ ...GRACE, externalId: 'G-1' })).toMatchObject({ externalId: 'G-1', loginCount: 0 });
});

test('of users who are created at once with one identity, one is created, and a login beside them is of that user', async () => {
  const answers = await Promise.all([
    ...Array.from({ length: 8 }, () => create(GRACE)),
    ...Array.from({ length: 8 }, (_, n) => create({ authMethod: 'github', authValue: `${n}`, externalId: 'one' })),
    project.graphql(LOGIN, { input: GRACE }),
  ]);
  const { nodes } = await ask('{ users { nodes { id externalId } totalCount } }');
  expect(nodes).toHaveLength(2);
  const ids = new Set(nodes.map(({ id }: Json) => id));
  const refused = answers.flatMap(({ errors = [] }) => errors as Json[]);
  for (const { extensions } of refused) {
    expect(extensions).toMatchObject({ code: 'CONFLICT' });
    expect(ids).toContain(extensions.userId);
  }
  expect(answers.at(-1)?.errors).toBeUndefined();
  // The login may have registered the identity first.
  expect([14, 15]).toContain(refused.length);
});

test('a banned identity is refused, and so is one of a banned user', async () => {
  await ask('mutation ($identity: IdentityInput!) { banIdentity(identity: $identity) { __typename } }', {
    identity: GRACE,
  });
  expect(codesOf(await create(GRACE))).toEqual(['BANNED']);
  const { id } = await created({ authMethod: 'github', authValue: '1' });
  await ask('mutation ($id: ID!) { banUser(id: $id) { user { id } } }', { id });
  expect(codesOf(await create({ authMethod: 'github', authValue: '1' }))).toEqual(['BANNED']);
});

test('with a key it is done once, also at the same time, and the answer is the user of now', async () => {
  const answers = await Promise.all(Array.from({ length: 6 }, () => created(GRACE, 'key-1')));
  const [{ id }] = answers as [Json];
  expect(new Set(answers.map((user) => user.id))).toEqual(new Set([id]));
  await ask(LOGIN, { input: GRACE });
  expect(await created(GRACE, 'key-1')).toMatchObject({ id, loginCount: 1 });
  for (const input of [
    { ...GRACE, externalId: 'G-1' },
    { ...GRACE, authValue: 'g-2' },
  ])
    expect(codesOf(await create(input, 'key-1'))).toEqual(['IDEMPOTENCY_KEY_REUSED']);
  // A login with the key is another request. What was refused is not kept.
  expect(
    codesOf(
      await project.graphql(
        'mutation ($input: RecordLoginInput!) { recordLogin(input: $input, idempotencyKey: "key-1") { created } }',
        { input: GRACE },
      ),
    ),
  ).toEqual(['IDEMPOTENCY_KEY_REUSED']);
  expect(codesOf(await create(GRACE, 'key-2'))).toEqual(['CONFLICT']);
  await project.rest(`/server/users/${id}`, { method: 'DELETE' });
  expect((await created(GRACE, 'key-2')).id).not.toBe(id);
});

test('many users of several requests share statements, and each has an answer of its own', async () => {
  const taken = await created({ authMethod: 'github', authValue: 'taken', externalId: 'E-1' });
  const inputs = Array.from({ length: 20 }, (_, n) => ({
    authMethod: 'github',
    authValue: n % 5 === 0 ? 'taken' : `user ${n}`,
    ...(n % 5 === 1 && { externalId: 'E-1' }),
    ...(n % 5 === 2 && { accounts: [{ network: 'ETHEREUM', publicKey: ethereumAddress(n) }] }),
  }));
  const answers = await Promise.all(inputs.map((input) => create(input)));
  for (const [n, { data, errors }] of answers.entries()) {
    if (n % 5 < 2) expect(errors).toMatchObject([{ extensions: { code: 'CONFLICT', userId: taken.id } }]);
    else {
      expect(data.createUser.user).toMatchObject({ authValue: `user ${n}` });
      expect(data.createUser.user.accounts).toHaveLength(n % 5 === 2 ? 1 : 0);
    }
  }
});

test('accounts beyond 100 with the wallet are refused', async () => {
  const accounts = Array.from({ length: 100 }, (_, n) => ({ network: 'ETHEREUM', publicKey: ethereumAddress(n + 1) }));
  expect(codesOf(await create({ ...GRACE, wallet: stellarAddress(1), accounts }))).toEqual(['BAD_USER_INPUT']);
  expect((await created({ ...GRACE, accounts })).accounts).toHaveLength(100);
});

// The embedded database has one connection.
test.runIf(inject('engine') === 'postgres')(
  'where another process registers or links the identity, or takes the external ID, at this moment, the database decides',
  async () => {
    const { id } = await created({ authMethod: 'github', authValue: 'other' });
    const PROJECT = '(SELECT id FROM projects WHERE app_id = $1)';
    for (const [name, statement] of [
      [
        'authValue',
        `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) VALUES (${PROJECT}, 'google', 'g-1', 'g-1')`,
      ],
      [
        'authValue',
        `INSERT INTO identities (project_id, user_id, auth_method, auth_value, auth_value_key) VALUES (${PROJECT}, ${id}, 'google', 'g-2', 'g-2')`,
      ],
      [
        'externalId',
        `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, external_id) VALUES (${PROJECT}, 'apple', '3', '3', 'g-3')`,
      ],
    ] as const) {
      const value = /g-\d/.exec(statement)?.[0] as string;
      const client = await app.context.db.pool.connect();
      try {
        await client.query('BEGIN');
        await client.query(statement, [project.appId]);
        const asked = create({ authMethod: 'google', authValue: value, externalId: value });
        await untilLocked(app.context.db.pool);
        await client.query('COMMIT');
        expect((await asked).errors).toMatchObject([
          { extensions: { code: 'CONFLICT', argument: `input.${name}`, userId: expect.any(String) } },
        ]);
      } finally {
        client.release();
      }
    }
  },
);
