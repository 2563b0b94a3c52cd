import { beforeAll, describe, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Users with several identities: links, logins, unlinks and merges. */

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

const USER = `id authMethod authValue email wallet externalId loginCount createdAt lastLogin
  identities { authMethod authValue loginMethod email emailVerified createdAt lastLogin isPrimary }
  accounts { publicKey walletType } metadata`;
const LOGIN = `mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created user { ${USER} } } }`;
const LINK = `mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { ${USER} } } }`;
const UNLINK = `mutation ($id: ID!, $identity: IdentityInput!) { unlinkIdentity(userId: $id, identity: $identity) { user { ${USER} } } }`;
const MERGE = `mutation ($from: ID!, $into: ID!) { mergeUsers(from: $from, into: $into) { user { ${USER} } } }`;
const UPDATE = `mutation ($id: ID!, $input: UpdateUserInput!) { updateUser(id: $id, input: $input) { user { ${USER} } } }`;
const FIND = `query ($authMethod: String!, $authValue: String!) { userByIdentity(authMethod: $authMethod, authValue: $authValue) { id } }`;

async function ask(document: string, variables: Json): Promise<Json> {
  const { data, errors } = await project.graphql(document, variables);
  if (errors) return errors[0];
  return Object.values(data as Json)[0];
}
const login = (authMethod: string, authValue: string, more: Json = {}) =>
  ask(LOGIN, { input: { authMethod, authValue, ...more } });
const link = (id: string, authMethod: string, authValue: string, more: Json = {}) =>
  ask(LINK, { id, input: { authMethod, authValue, ...more } });
const find = async (authMethod: string, authValue: string) => (await ask(FIND, { authMethod, authValue }))?.id ?? null;
const codeOf = ({ extensions }: Json) => extensions?.code;
const names = (user: Json) => user.identities.map(({ authMethod, authValue }: Json) => `${authMethod} ${authValue}`);

describe('a linked identity', () => {
  test('logs in as its user, keeps its own last login, and the primary one keeps its', async () => {
    const { user } = await login('email', 'ada@example.com');
    const linked = await link(user.id, 'google', 'g-1', { email: 'ada@gmail.example', emailVerified: true });
    expect(names(linked.user)).toEqual(['email ada@example.com', 'google g-1']);
    expect(linked.user.identities[1]).toMatchObject({
      emailVerified: true,
      lastLogin: null,
      isPrimary: false,
      loginMethod: 'SOCIALS',
    });
    const again = await login('google', 'g-1');
    expect(again).toMatchObject({ created: false, user: { id: user.id, authMethod: 'email', loginCount: 2 } });
    const [primary, second] = again.user.identities;
    expect(primary.lastLogin).toBe(user.lastLogin);
    expect(second.lastLogin).toBe(again.user.lastLogin);
    const last = await login('email', 'Ada@example.com');
    expect(last.user.identities[0].lastLogin).toBe(last.user.lastLogin);
    expect(await find('google', 'g-1')).toBe(user.id);
  });

  test('is refused where another user has it, primary or linked, and names the user', async () => {
    const one = (await login('email', 'one@example.com')).user;
    const two = (await login('email', 'two@example.com')).user;
    await link(one.id, 'github', 'h-1');
    const taken = await link(two.id, 'github', 'h-1');
    expect(codeOf(taken)).toBe('CONFLICT');
    expect(taken.message).toContain(`User ${one.id} `);
    expect(codeOf(await link(two.id, 'email', 'one@example.com'))).toBe('CONFLICT');
  });
});

describe('the wallet of a user', () => {
  const [a, b] = [stellarAddress(72), stellarAddress(73)];

  test('who logs in by one is that one, whatever other wallet logs in', async () => {
    const { user } = await login('wallet', a);
    await link(user.id, 'wallet', b);
    for (const address of [b, a, b]) expect((await login('wallet', address)).user.wallet).toBe(a);
    await link(user.id, 'google', 'with-wallet');
    expect((await login('google', 'with-wallet', { wallet: b })).user.wallet).toBe(a);
    const swapped = await link(user.id, 'wallet', b, { primary: true });
    expect(swapped.user).toMatchObject({ authValue: b, wallet: b });
    expect((await login('wallet', a)).user.wallet).toBe(b);
    const { nodes } = await ask('{ changes(first: 1000) { nodes { userId fields } } }', {});
    const told = nodes.filter(({ userId, fields }: Json) => userId === user.id && fields.includes('wallet'));
    expect(told).toHaveLength(1);
  });
});

describe('a login with an external ID', () => {
  test('of another user links its identity only when it says so', async () => {
    const { user } = await login('email', 'old@example.com', { externalId: 'legacy-1' });
    const refused = await login('apple', 'a-1', { externalId: 'legacy-1' });
    expect(codeOf(refused)).toBe('CONFLICT');
    expect(refused.message).toContain(`User ${user.id} `);
    const linked = await login('apple', 'a-1', { externalId: 'legacy-1', linkByExternalId: true });
    expect(linked).toMatchObject({ created: false, user: { id: user.id, loginCount: 2 } });
    expect(names(linked.user)).toEqual(['email old@example.com', 'apple a-1']);
    const own = await login('apple', 'a-2');
    const conflict = await login('apple', 'a-2', { externalId: 'legacy-1', linkByExternalId: true });
    expect(codeOf(conflict)).toBe('CONFLICT');
    expect(conflict.message).toContain(`User ${own.user.id} `);
  });
});

describe('the email of a user who logs in by it', () => {
  test('changes in one step, and is refused where another user has it', async () => {
    const { user } = await login('email', 'before@example.com', { emailVerified: true });
    const other = (await login('google', 'has it', {})).user;
    await link(other.id, 'email', 'taken@example.com');
    const changed = await ask(UPDATE, { id: user.id, input: { email: 'After@example.com' } });
    expect(changed.user).toMatchObject({ id: user.id, authValue: 'after@example.com', email: 'after@example.com' });
    expect(changed.user.identities).toMatchObject([{ emailVerified: null, lastLogin: null }]);
    expect(await login('email', 'after@example.com')).toMatchObject({
      created: false,
      user: { id: user.id, loginCount: 2 },
    });
    expect(await find('email', 'before@example.com')).toBeNull();
    const taken = await ask(UPDATE, { id: user.id, input: { email: 'taken@example.com' } });
    expect([codeOf(taken), taken.message]).toEqual(['CONFLICT', expect.stringContaining(`User ${other.id} `)]);
  });
});

describe('a removed user', () => {
  test('takes the identities along, and is restored with them unless one is taken', async () => {
    const { user } = await login('email', 'restored@example.com');
    await link(user.id, 'google', 'restored');
    const { projects, identities } = app.context.services;
    const scope = await projects.getScope(project.appId);
    await ask('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: user.id });
    expect(await find('google', 'restored')).toBeNull();
    await identities.restore(scope, BigInt(user.id));
    expect(await find('google', 'restored')).toBe(user.id);
    await ask('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: user.id });
    const again = await login('google', 'restored');
    expect(again.created).toBe(true);
    await expect(identities.restore(scope, BigInt(user.id))).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringContaining(`an identity by google is that of user ${again.user.id} now`),
    });
  });
});

describe('searches', () => {
  test('find a user by the email, the value and the beginning of a linked identity, once', async () => {
    const { user } = await login('google', 'searched-primary', { email: 'primary@search.example' });
    await link(user.id, 'github', 'searched-linked', { email: 'linked@search.example' });
    await link(user.id, 'apple', 'searched-third', { email: 'primary@search.example' });
    const ids = async (document: string) => (await ask(document, {})).map(({ id }: Json) => id);
    for (const email of ['primary@search.example', 'linked@search.example']) {
      expect(await ids(`{ searchUsers(by: { email: "${email}" }) { id } }`)).toEqual([user.id]);
      expect(await ids(`{ findUser(any: "${email}") { id } }`)).toEqual([user.id]);
    }
    for (const prefix of ['linked@sea', 'searched-link', 'searched-'])
      expect((await ask(`{ usersByPrefix(prefix: "${prefix}") { users { id } } }`, {})).users).toEqual([
        { id: user.id },
      ]);
  });
});

describe('identities and metadata', () => {
  test('of a page of users are read by one statement', async () => {
    app.statements.length = 0;
    await ask('{ users(first: 20) { nodes { id identities { authValue } metadata } } }', {});
    expect(app.statements.filter((sql) => sql.includes('FROM identities'))).toHaveLength(1);
  });

  test('are kept as they were given, and refused where they could not be', async () => {
    const { user } = await login('email', 'meta@example.com', {
      metadata: { plan: 'pro', nested: { list: [1, 2.5, null] } },
    });
    expect(user.metadata).toEqual({ plan: 'pro', nested: { list: [1, 2.5, null] } });
    const set = (metadata: Json) => ask(UPDATE, { id: user.id, input: { metadata } });
    expect((await set(null)).user.metadata).toBeNull();
    for (const metadata of [
      [1],
      'text',
      { long: 'x'.repeat(4_096) },
      { number: 2 ** 60 },
      { ['\0']: 1 },
      { a: '\ud800' },
    ])
      expect(codeOf(await set(metadata))).toBe('BAD_USER_INPUT');
  });

  test('a retry with a key links once', async () => {
    const { user } = await login('email', 'retry@example.com');
    const document = LINK.replace('input: $input)', 'input: $input, idempotencyKey: "link-1")');
    const input = { authMethod: 'google', authValue: 'retry' };
    for (let time = 0; time < 2; time += 1)
      expect(names((await ask(document, { id: user.id, input })).user)).toHaveLength(2);
    const other = await ask(document, { id: user.id, input: { ...input, authValue: 'other' } });
    expect(codeOf(other)).toBe('IDEMPOTENCY_KEY_REUSED');
    const unlink = UNLINK.replace('identity: $identity)', 'identity: $identity, idempotencyKey: "unlink-1")');
    const identity = { authMethod: 'google', authValue: 'retry' };
    const all = await Promise.all(Array.from({ length: 5 }, () => ask(unlink, { id: user.id, identity })));
    for (const answer of all) expect(names(answer.user)).toHaveLength(1);
  });
});

describe('a merge', () => {
  test('moves identities, accounts and logins, keeps the earlier registration, and the total counts one', async () => {
    const count = () => ask('{ users(first: 1) { totalCount } }', {});
    const from = (
      await login('google', 'm-1', {
        externalId: 'ext',
        accounts: [{ network: 'STELLAR', publicKey: stellarAddress(81) }],
      })
    ).user;
    await link(from.id, 'github', 'm-1');
    const into = (await login('email', 'merged@example.com', { metadata: { plan: 'pro' } })).user;
    const before = (await count()).totalCount;
    const { user } = await ask(MERGE, { from: from.id, into: into.id });
    expect(user).toMatchObject({
      id: into.id,
      externalId: 'ext',
      loginCount: 2,
      createdAt: from.createdAt,
      metadata: { plan: 'pro' },
    });
    expect(names(user)).toEqual(['email merged@example.com', 'google m-1', 'github m-1']);
    expect(user.accounts).toHaveLength(1);
    expect((await count()).totalCount).toBe(before - 1);
    expect(await login('google', 'm-1')).toMatchObject({ created: false, user: { id: into.id } });
    expect(codeOf(await ask(MERGE, { from: from.id, into: into.id }))).toBe('NOT_FOUND');
    const { nodes } = await ask('{ changes(first: 1000) { nodes { type userId mergedInto fields } } }', {});
    expect(nodes.filter(({ type }: Json) => type === 'USER_MERGED')).toEqual([
      { type: 'USER_MERGED', userId: from.id, mergedInto: into.id, fields: [] },
    ]);
  });
});

describe('a merged user', () => {
  test('is never restored or banned, whatever became of the other', async () => {
    const { projects, identities, users } = app.context.services;
    const scope = await projects.getScope(project.appId);
    const ids = [];
    for (const name of ['a', 'b', 'c', 'd']) ids.push((await login('google', `never-${name}`)).user.id);
    const [first, second, third, fourth] = ids as [string, string, string, string];
    const refuses = (id: string, into: string) =>
      expect(identities.restore(scope, BigInt(id))).rejects.toMatchObject({
        code: 'CONFLICT',
        message: `User ${id} was merged into user ${into}, which cannot be undone.`,
      });
    await ask(MERGE, { from: first, into: second });
    await refuses(first, second);
    await ask(MERGE, { from: second, into: third });
    await refuses(first, second);
    await refuses(second, third);
    await ask('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: third });
    await refuses(second, third);
    await identities.restore(scope, BigInt(third));
    expect(await find('google', 'never-a')).toBe(third);
    await ask(MERGE, { from: third, into: fourth });
    await ask('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id: fourth });
    await refuses(third, fourth);
    // Nor banned: that is for the one who is left.
    await expect(identities.ban(scope, BigInt(third), {})).rejects.toMatchObject({
      code: 'CONFLICT',
      message: `User ${third} was merged into user ${fourth}. Ban that user.`,
    });
    await identities.unban(scope, BigInt(third));
    await app.context.db.pool.query('DELETE FROM users WHERE id = $1', [fourth]);
    await refuses(third, fourth);
    expect((await users.countRemoved(scope, 0)) >= 3).toBe(true);
  });
});

describe('a user with many identities', () => {
  /** A user with so many identities, the primary one among them. */
  async function withIdentities(name: string, count: number): Promise<string> {
    const { user } = await login('email', `${name.replace(' ', '-')}@example.com`);
    for (let number = 1; number < count; number += 1) {
      expect(codeOf(await link(user.id, 'google', `${name} ${number}`))).toBeUndefined();
    }
    return user.id;
  }
  const tooMany = {
    message: 'The user would have 21 identities, expected at most 20.',
    extensions: { code: 'BAD_USER_INPUT' },
  };

  test('has at most 20 identities, by links and by a merge', async () => {
    const full = await withIdentities('with 20', 20);
    expect(await link(full, 'google', 'one more')).toMatchObject(tooMany);
    expect(await find('google', 'one more')).toBeNull();
    const [many, two, one] = [
      await withIdentities('with 18', 18),
      await withIdentities('with 2', 2),
      await withIdentities('with 1', 1),
    ];
    expect((await ask(MERGE, { from: two, into: many })).user.identities).toHaveLength(20);
    expect(await ask(MERGE, { from: one, into: many })).toMatchObject(tooMany);
    expect(await find('email', 'with-1@example.com')).toBe(one);
  });
});
