import { beforeAll, describe, expect, test } from 'vitest';
import { parseIdentity } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf, explained } from '../support/graphql.js';

/** The bans of a project, for its backends. */

const app = useTestApp();
const identity = (authMethod: string, authValue: string) => parseIdentity({ authMethod, authValue }, camelCase);
const BANS = `query ($first: Int! = 10, $after: String) { bans(first: $first, after: $after) {
  nodes { authMethod authValue createdAt user { id authValue accounts { id } } }
  edges { cursor node { authValue } }
  pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
} }`;

let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  const other = await app.createProject();
  const { projects, bans } = app.context.services;
  const [scope, foreign] = [await projects.getScope(project.appId), await projects.getScope(other.appId)];
  for (const each of [project, other])
    await each.addUsers(
      { auth_method: 'google', auth_value: 'value-3' },
      { auth_method: 'email', auth_value: 'Eve@example.com' },
    );
  for (let n = 0; n < 25; n += 1) await bans.ban(scope, identity('google', `value-${n}`));
  await bans.ban(scope, identity('email', 'EVE@example.com'));
  await bans.ban(foreign, identity('passkey', 'foreign'));
});
const ask = async (variables: Json): Promise<Json> => {
  const { data, errors } = await project.graphql(BANS, variables);
  expect(errors).toBeUndefined();
  return data.bans;
};

describe('bans', () => {
  test.each([1, 7, 13, 26, 100])('by %d show each ban of the project once, newest first', async (first) => {
    const walked: string[] = [];
    let after: string | null = null;
    for (let goesOn = true; goesOn; ) {
      const { nodes, edges, pageInfo }: Json = await ask({ first, after });
      expect(edges.map(({ node }: Json) => node)).toEqual(nodes.map(({ authValue }: Json) => ({ authValue })));
      expect(pageInfo).toMatchObject({
        hasPreviousPage: after !== null,
        startCursor: edges[0].cursor,
        endCursor: edges.at(-1).cursor,
      });
      walked.push(...nodes.map(({ authValue }: Json) => authValue));
      after = pageInfo.endCursor;
      goesOn = pageInfo.hasNextPage;
    }
    expect(walked).toEqual(['EVE@example.com', ...Array.from({ length: 25 }, (_, n) => `value-${24 - n}`)]);
  });

  test('name the current user of each identity, and take two statements with users, one without', async () => {
    app.statements.length = 0;
    const { nodes } = await ask({ first: 100 });
    const issued = () => app.statements.filter((sql) => !/app_secrets/.test(sql)).length;
    expect(issued()).toBe(2);
    const named = nodes.filter(({ user }: Json) => user !== null).map(({ user }: Json) => user.authValue);
    expect(named).toEqual(['Eve@example.com', 'value-3']);
    app.statements.length = 0;
    await project.graphql('{ a: bans(first: 3) { nodes { authValue } } b: bans { nodes { createdAt } } }');
    expect(issued()).toBe(1);
  });

  test.each<[string, Json]>([
    ['first', { first: 0 }],
    ['first', { first: 101 }],
    ['after', { after: 'x' }],
    ['after', { after: 'x'.repeat(65) }],
  ])('refuse a bad %s: %j', async (argument, variables) => {
    const answer = await project.graphql(BANS, variables);
    expect(answer.errors?.[0]?.extensions).toEqual({ ...explained('BAD_USER_INPUT'), argument });
  });

  test('refuse a cursor of users, also of one with an ID that a ban has; and users refuse one of bans', async () => {
    const { data } = await project.graphql('{ users { edges { cursor } } changes(first: 1) { nodes { id } } }');
    const { edges } = await ask({ first: 2 });
    const ofChange = data.changes.nodes[0].id;
    // Digits only would be a place in a list of users, too.
    expect(Buffer.from(ofChange, 'base64url').toString()).toMatch(/^f[0-9a-f]{7}\./);
    for (const after of [...data.users.edges.map(({ cursor }: Json) => cursor), ofChange]) {
      const { errors } = await project.graphql(BANS, { after });
      expect(errors?.[0]?.message).toBe(`after: got "${after}", expected a cursor of bans from an earlier answer.`);
    }
    for (const argument of ['first: 1, after', 'last: 1, before']) {
      for (const cursor of [edges[0].cursor, ofChange]) {
        const answer = await project.graphql(`{ users(${argument}: "${cursor}") { nodes { id } } }`);
        expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
      }
    }
    const name = Buffer.from('bans.').toString('base64url');
    expect(codesOf(await project.graphql(BANS, { after: `${name}${edges[0].cursor}` }))).toEqual(['BAD_USER_INPUT']);
  });

  test('go on after the cursor of a ban that is lifted since', async () => {
    const { bans, projects } = app.context.services;
    const scope = await projects.getScope(project.appId);
    await bans.ban(scope, identity('google', 'lifted'));
    const { nodes, edges } = await ask({ first: 3 });
    await bans.unbanIdentity(scope, identity('google', 'lifted'));
    for (const at of [0, 1]) expect((await ask({ first: 1, after: edges[at].cursor })).nodes).toEqual([nodes[at + 1]]);
  });
});

describe('bans by a backend', () => {
  const LOGIN = `mutation ($authMethod: String!, $authValue: String!) {
    recordLogin(input: { authMethod: $authMethod, authValue: $authValue }) { user { id } }
  }`;
  const BAN = `mutation ($identity: IdentityInput!, $reason: String = null, $end: String = null, $key: String = null) {
    banIdentity(identity: $identity, reason: $reason, expiresAt: $end, idempotencyKey: $key) {
      ban { authMethod authValue reason expiresAt isOfUser user { id } }
    }
  }`;
  const UNBAN = `mutation ($identity: IdentityInput!, $key: String = null) {
    unbanIdentity(identity: $identity, idempotencyKey: $key) { user { id } }
  }`;
  const github = (authValue: string) => ({ authMethod: 'github', authValue });
  const run = async (document: string, variables: Json): Promise<Json> => {
    const { data, errors } = await project.graphql(document, variables);
    return errors?.[0]?.extensions.code ?? Object.values(data as Json)[0];
  };

  test('are of one identity, whether a user has it or not, and end when they are lifted', async () => {
    const { user } = await run(LOGIN, github('one'));
    const end = '2099-01-31T12:00:00.000Z';
    expect(await run(BAN, { identity: github('one'), reason: 'spam', end })).toEqual({
      ban: { ...github('one'), reason: 'spam', expiresAt: end, isOfUser: false, user },
    });
    expect(await run(LOGIN, github('one'))).toBe('BANNED');
    expect((await run(BAN, { identity: github('nobody') })).ban).toMatchObject({ reason: null, user: null });
    expect(await run(LOGIN, github('nobody'))).toBe('BANNED');
    expect(await run(UNBAN, { identity: github('nobody') })).toEqual({ user: null });
    expect(await run(UNBAN, { identity: github('one') })).toEqual({ user });
    expect(await run(UNBAN, { identity: github('one') })).toEqual({ user });
    expect(await run(LOGIN, github('one'))).toEqual({ user });
    const { audit, projects } = app.context.services;
    const trail = await audit.listEntries(await projects.getScope(project.appId), null, 100);
    const ofUser = trail.filter(({ userId }) => userId === Number(user.id));
    expect(ofUser).toMatchObject([
      { action: 'ban', actor: 'main' },
      { action: 'unban', actor: 'main' },
    ]);
  });

  test('happen once for a key, however often and at once they are sent', async () => {
    const identity = github('retried');
    const ban = { identity, reason: 'first', key: 'ban-1' };
    const answers = await Promise.all(Array.from({ length: 6 }, () => run(BAN, ban)));
    for (const answer of answers) expect(answer.ban.reason).toBe('first');
    expect(await run(BAN, { ...ban, reason: 'second' })).toBe('IDEMPOTENCY_KEY_REUSED');
    await run(UNBAN, { identity, key: 'ban-2' });
    expect(await run(BAN, ban)).toEqual({ ban: null });
    expect((await run(LOGIN, identity)).user.id).toBeDefined();
    await run(BAN, { identity });
    await run(UNBAN, { identity, key: 'ban-2' });
    expect(await run(LOGIN, identity)).toBe('BANNED');
  });

  test('of a user are shown before that of an identity alone, and a page of them takes one more statement', async () => {
    const ids: string[] = [];
    for (const name of ['whole', 'primary', 'linked', 'free']) {
      const { user } = await run(LOGIN, github(name));
      ids.push(user.id);
      const input = { authMethod: 'google', authValue: name };
      await run(
        'mutation ($id: ID!, $input: LinkIdentityInput!) { linkIdentity(userId: $id, input: $input) { user { id } } }',
        {
          id: user.id,
          input,
        },
      );
    }
    await run(BAN, { identity: { authMethod: 'google', authValue: 'whole' }, reason: 'alone' });
    await run('mutation ($id: ID!) { banUser(id: $id, reason: "all") { user { id } } }', { id: ids[0] });
    await run(BAN, { identity: github('primary') });
    await run(BAN, { identity: { authMethod: 'google', authValue: 'linked' } });
    const SHOWN = 'id ban { authMethod reason isOfUser user { id } }';
    app.statements.length = 0;
    const { data } = await project.graphql(`query ($ids: [ID!]!) { usersByIds(ids: $ids) { ${SHOWN} } }`, { ids });
    expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toHaveLength(2);
    const shown = (id: string | undefined, ban: Json) => ({ id, ban: ban && { reason: null, user: { id }, ...ban } });
    expect(data.usersByIds).toEqual([
      shown(ids[0], { authMethod: 'github', reason: 'all', isOfUser: true }),
      shown(ids[1], { authMethod: 'github', isOfUser: false }),
      shown(ids[2], { authMethod: 'google', isOfUser: false }),
      shown(ids[3], null),
    ]);
    const { nodes } = await run('{ users(first: 100, filter: { banned: true }) { nodes { id } } }', {});
    expect(nodes.map(({ id }: Json) => id)).toEqual(expect.arrayContaining(ids.slice(0, 3)));
    expect(nodes.map(({ id }: Json) => id)).not.toContain(ids[3]);
  });
});
