import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { encodeChangeCursor } from '#dist/domain/changes.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { codesOf } from '../support/graphql.js';

/** What operators read and change, and what their roles forbid. */
const app = useTestApp();
let admin: TestOperator;
let support: TestOperator;
let viewer: TestOperator;
beforeAll(async () => {
  [admin, support, viewer] = [await logIn(app, 'admin'), await logIn(app, 'support'), await logIn(app, 'viewer')];
});

const DAY = '2026-02-';
const METHODS = ['email', 'passkey', 'wallet', 'google'];
const user = (index: number, day: number): { auth_method: string; auth_value: string; created_at: string } => {
  const auth_method = METHODS[index % 4] as string;
  const hex = index.toString(16).padStart(40, '0');
  const auth_value = { email: `u${index}@example.com`, wallet: `0x${hex}` }[auth_method] ?? `value-${index}`;
  return { auth_method, auth_value, created_at: `${DAY}${String(day).padStart(2, '0')}T12:00:00Z` };
};

async function projectWithUsers(count = 24): Promise<TestProject> {
  const project = await app.createProject('Shop');
  await project.addUsers(...Array.from({ length: count }, (_, index) => user(index, (index % 6) + 1)));
  return project;
}

const of = (fields: string) => `query ($appId: ID!) { project(appId: $appId) { ${fields} } }`;
const ask = async (who: TestOperator, { appId }: Pick<TestProject, 'appId'>, fields: string): Promise<Json> =>
  (await who.ask(of(fields), { appId })).project;
/** The current users of a project, newest first. */
const usersOf = async (who: TestOperator, { appId }: TestProject, fields = 'id'): Promise<Json[]> =>
  (await who.inProject(appId).ask(`{ users(first: 100) { nodes { ${fields} } } }`)).users.nodes;
const sql = async (text: string, ...values: unknown[]): Promise<Json[]> =>
  (await app.context.db.pool.query(text, values)).rows;

describe('queries', () => {
  let project: TestProject;
  beforeAll(async () => {
    project = await projectWithUsers();
  });

  test('projects are listed, searched and paged, newest first', async () => {
    const [a, b] = [await app.createProject('Needle %_ a'), await app.createProject('needle %_ B')];
    const PROJECTS = `query ($search: String, $first: Int!, $after: String) {
      projects(search: $search, first: $first, after: $after) {
        nodes { appId name userCount disabledAt } totalCount pageInfo { endCursor hasNextPage hasPreviousPage } } }`;
    const page = (variables: object) => viewer.ask(PROJECTS, { first: 1, search: 'NEEDLE %_', ...variables });
    const first = (await page({})).projects;
    expect(first).toMatchObject({
      nodes: [{ appId: b.appId, name: 'needle %_ B', userCount: 0, disabledAt: null }],
      totalCount: 2,
      pageInfo: { hasNextPage: true, hasPreviousPage: false },
    });
    const second = (await page({ after: first.pageInfo.endCursor })).projects;
    expect(second).toMatchObject({
      nodes: [{ appId: a.appId }],
      totalCount: 2,
      pageInfo: { hasNextPage: false, hasPreviousPage: true },
    });
    expect((await page({ search: a.appId })).projects.nodes).toMatchObject([{ appId: a.appId }]);
    expect((await page({ search: 'no such' })).projects).toMatchObject({ nodes: [], totalCount: 0 });
    expect((await viewer.ask('{ project(appId: "app_none") { name } }')).project).toBeNull();
  });

  test('totals by method and sign-ups agree with a count of the rows, also with pending deltas', async () => {
    const other = await projectWithUsers(7);
    const FIELDS = `userCount totalsByMethod { loginMethod total }
      days: signUps(from: "2026-02-01", to: "2026-02-07", by: DAY) { from total email passkey wallet socials }
      months: signUps(from: "2026-01-15", to: "2026-03-02", by: MONTH) { from total }`;
    for (const folded of [false, true]) {
      for (const each of [project, other]) {
        const scope = await app.context.services.projects.getScope(each.appId);
        if (folded) await app.context.services.totals.fold(scope);
        else
          await sql(
            `UPDATE users SET deleted_at = now() WHERE auth_value IN ('u4@example.com') AND project_id =
          (SELECT id FROM projects WHERE app_id = $1)`,
            each.appId,
          );
        const found = await ask(viewer, each, FIELDS);
        const counted = await sql(
          `SELECT to_char(created_at, 'YYYY-MM-DD') AS day, login_method AS method, count(*)::int AS users FROM users
           WHERE deleted_at IS NULL AND project_id = (SELECT id FROM projects WHERE app_id = $1) GROUP BY 1, 2`,
          each.appId,
        );
        const sum = (rows: Json[]) => rows.reduce((total, { users }) => total + users, 0);
        const on = (day: string, method?: string) =>
          sum(counted.filter((row) => row.day === day && (method ?? row.method) === row.method));
        expect(found.userCount).toBe(sum(counted));
        expect(found.totalsByMethod).toEqual(
          ['email', 'passkey', 'wallet', 'socials'].map((method) => ({
            loginMethod: method.toUpperCase(),
            total: sum(counted.filter((row) => row.method === method)),
          })),
        );
        expect(found.days).toEqual(
          [1, 2, 3, 4, 5, 6, 7].map((number) => {
            const from = `${DAY}0${number}`;
            const [email, passkey, wallet, socials] = ['email', 'passkey', 'wallet', 'socials'].map((m) => on(from, m));
            return { from, total: on(from), email, passkey, wallet, socials };
          }),
        );
        expect(found.months).toEqual([
          { from: '2026-01-01', total: 0 },
          { from: '2026-02-01', total: sum(counted) },
          { from: '2026-03-01', total: 0 },
        ]);
      }
    }
  });

  test.each([
    ['from: "2026-02-30", to: "2026-04-01", by: DAY', 'from: got "2026-02-30", expected a day'],
    ['from: "2026-02-01", to: "2026-13-01", by: MONTH', 'to: got "2026-13-01", expected a day'],
    ['from: "1969-12-31", to: "1970-01-01", by: DAY', 'from: got "1969-12-31", expected a day'],
    ['from: "2026-02-02", to: "2026-02-01", by: DAY', 'from, to: got 2026-02-02 after 2026-02-01'],
    ['from: "2025-01-01", to: "2026-02-05", by: DAY', 'from, to: got more, expected at most 400 days'],
    ['from: "1970-01-01", to: "2003-05-01", by: MONTH', 'from, to: got more, expected at most 400 months'],
    ['from: "2026-02-01T00:00:00Z", to: "2026-02-03", by: DAY', 'from: got "2026-02-01T00:00:00Z", expected a day'],
  ])('signUps(%s) is refused', async (args, words) => {
    const { errors } = await viewer.graphql(of(`signUps(${args}) { total }`), { appId: project.appId });
    expect(errors).toMatchObject([{ message: expect.stringContaining(words), extensions: { code: 'BAD_USER_INPUT' } }]);
  });

  test.each([
    ['from: "2025-01-01", to: "2026-02-04", by: DAY', 400],
    ['from: "1970-01-01", to: "2003-04-01", by: MONTH', 400],
    ['from: "2026-02-01", to: "2026-02-01", by: DAY', 1],
  ])('signUps(%s) has %i parts', async (args, count) => {
    const { project: found } = await viewer.ask(of(`signUps(${args}) { total }`), { appId: project.appId });
    expect(found.signUps).toHaveLength(count);
  });

  test('removed users are listed by their removal, in both directions, page by page', async () => {
    const gone = await projectWithUsers(5);
    const other = await projectWithUsers(2);
    const users = await usersOf(viewer, gone);
    const order = [2, 0, 3].map((at) => users[at].id);
    for (const id of order) await gone.rest(`/server/users/${id}`, { method: 'DELETE' });
    expect((await ask(viewer, other, 'removedUsers { nodes { id } }')).removedUsers).toEqual({ nodes: [] });
    for (const oldestFirst of [true, false]) {
      const walked: Json[] = [];
      for (let after = null, hasNext = true; hasNext; ) {
        const { removedUsers }: Json = (
          await viewer.ask(
            `query ($appId: ID!, $after: String, $oldestFirst: Boolean!) { project(appId: $appId) {
              removedUsers(first: 2, after: $after, oldestFirst: $oldestFirst) {
                nodes { id removedAt } pageInfo { endCursor hasNextPage hasPreviousPage } } } }`,
            { appId: gone.appId, after, oldestFirst },
          )
        ).project;
        expect(removedUsers.pageInfo.hasPreviousPage).toBe(after !== null);
        walked.push(...removedUsers.nodes);
        ({ endCursor: after, hasNextPage: hasNext } = removedUsers.pageInfo);
      }
      expect(walked.map(({ id }) => id)).toEqual(oldestFirst ? order : order.toReversed());
      expect(walked.every(({ removedAt }) => Date.parse(removedAt) > 0)).toBe(true);
    }
  });

  describe('each list is the same in pages of any size, and the last page says that it is', () => {
    const NAME = 'pages of any size';
    let listed: TestProject;
    beforeAll(async () => {
      for (let n = 0; n < 3; n += 1) await app.createProject(NAME);
      listed = await app.createProject(NAME);
      await listed.addUsers(...[0, 4, 8, 12].map((index) => user(index, 1)));
      // Each removal and each ban is an entry of the audit trail, too.
      for (const { id } of await usersOf(viewer, listed))
        await listed.rest(`/server/users/${id}`, { method: 'DELETE' });
      const ban = `mutation ($value: String!) {
        banIdentity(identity: { authMethod: "google", authValue: $value }) { ban { createdAt } } }`;
      for (const value of ['a', 'b', 'c', 'd']) expect((await listed.graphql(ban, { value })).errors).toBeUndefined();
    });

    test.each([
      ['removedUsers', 'oldestFirst: false', 'id'],
      ['removedUsers', 'oldestFirst: true', 'id'],
      ['bans', 'oldestFirst: false', 'authValue'],
      ['bans', 'oldestFirst: true', 'authValue'],
      ['bans', 'search: ""', 'authValue'],
      ['audit', '', 'id'],
      ['projects', `search: "${NAME}", oldestFirst: false`, 'appId'],
      ['projects', `search: "${NAME}", oldestFirst: true`, 'appId'],
    ])('%s(%s)', async (list, more, key) => {
      const page = async (first: number, after: string | null = null): Promise<Json> => {
        const fields = `${list}(first: $first, after: $after${more && `, ${more}`}) {
          nodes { ${key} } pageInfo { startCursor endCursor hasNextPage hasPreviousPage } }`;
        const isOfProject = list !== 'projects';
        const query = `query ($first: Int!, $after: String${isOfProject ? ', $appId: ID!' : ''}) {
          ${isOfProject ? `project(appId: $appId) { ${fields} }` : fields} }`;
        const data = await viewer.ask(query, { first, after, ...(isOfProject && { appId: listed.appId }) });
        return isOfProject ? data.project[list] : data[list];
      };
      const all = (await page(100)).nodes;
      expect(new Set(all.map((node: Json) => node[key])).size).toBe(all.length);
      expect(all.length).toBeGreaterThanOrEqual(4);
      for (let size = 1; size <= all.length + 1; size += 1) {
        let after: string | null = null;
        for (let begin = 0; begin < all.length; begin += size) {
          const { nodes, pageInfo }: Json = await page(size, after);
          expect(nodes).toEqual(all.slice(begin, begin + size));
          expect(pageInfo).toEqual({
            startCursor: expect.any(String),
            endCursor: expect.any(String),
            hasNextPage: begin + size < all.length,
            hasPreviousPage: begin > 0,
          });
          after = pageInfo.endCursor;
        }
        const beyond = { startCursor: null, endCursor: null, hasNextPage: false, hasPreviousPage: true };
        expect(await page(size, after)).toEqual({ nodes: [], pageInfo: beyond });
      }
    });
  });

  test('an operator’s request never mixes projects', async () => {
    const projects = await Promise.all([1, 2, 3].map((count) => projectWithUsers(count * 2)));
    const fields = `appId userCount findUsers(any: "u0@example.com") { id authValue }
      secrets { id } bans { nodes { userId } } audit { nodes { id action } }
      totalsByMethod { total } signUps(from: "2026-02-01", to: "2026-02-28", by: MONTH) { total }`;
    const alone = [];
    for (const each of projects) alone.push(await ask(viewer, each, fields));
    const query = projects.map(({ appId }, index) => `p${index}: project(appId: "${appId}") { ${fields} }`).join('\n');
    const together = Object.values(await viewer.ask(`{ ${query} }`));
    expect(together).toEqual(alone);
    expect(new Set(alone.map(({ userCount }) => userCount))).toEqual(new Set([2, 4, 6]));
  });

  test('the main screens take few statements, however many rows they have', async () => {
    // The least of several times, because work in the background has statements of its own.
    const count = async (query: string, variables = {}, { ask }: Pick<TestOperator, 'ask'> = admin) => {
      const counts: number[] = [];
      for (let time = 0; time < 4; time += 1) {
        const before = app.statements.length;
        await ask(query, variables);
        counts.push(app.statements.length - before);
      }
      return Math.min(...counts);
    };
    // Two are for the session: before the body is read, and when it is there. What is asked of many projects may take two.
    const LIST = `{ projects(first: 50) { totalCount nodes { appId name createdAt userCount
      signUps(from: "2026-02-01", to: "2026-02-28", by: DAY) { total } } } }`;
    expect(await count(LIST)).toBeLessThanOrEqual(7);
    const OVERVIEW = of(`userCount totalsByMethod { total }
      signUps(from: "2026-01-01", to: "2026-12-31", by: MONTH) { total email passkey wallet socials }`);
    expect(await count(OVERVIEW, { appId: project.appId })).toBeLessThanOrEqual(6);
    const USERS =
      '{ users(first: 100) { totalCount nodes { id authValue ban { createdAt } } pageInfo { hasNextPage } } }';
    expect(await count(USERS, {}, admin.inProject(project.appId))).toBeLessThanOrEqual(5);
  });

  test('documents beyond the limits are refused before they do anything', async () => {
    const before = app.statements.length;
    const aliases = (count: number, field: string) =>
      Array.from({ length: count }, (_, index) => `a${index}: ${field}`).join(' ');
    const nested = `${'project(appId: "x") { removedUsers(first: 100) { nodes { audit(first: 100) { nodes { id } } } } }'}`;
    const refused = [
      `{ ${nested} }`,
      `{ projects(first: 100) { nodes { removedUsers(first: 100) { nodes { accounts { id } } } } } }`,
      // A list without its length is as long as a page, and each page of the audit trail is a read.
      `{ project(appId: "x") { removedUsers { nodes { ${aliases(50, 'audit { __typename }')} } } } }`,
      `{ project(appId: "x") { findUsers(any: "x", removed: true) { ${aliases(50, 'audit { __typename }')} } } }`,
      `{ projects(first: 100) { nodes { ${aliases(90, 'audit(first: 1) { __typename }')} } } }`,
      `{ projects(first: 100) { nodes { ${aliases(90, 'user(id: 1) { __typename }')} } } }`,
      `{ projects(first: 100) { nodes { ${aliases(90, 'secrets { id }')} } } }`,
      `{ ${Array.from({ length: 300 }, (_, index) => `a${index}: me { name }`).join(' ')} }`,
      `{ me { name } } # ${'x'.repeat(20_000)}`,
      '{ me { nothing } }',
      'query A { me { name } } query B { me { name } }',
      'subscription { x }',
      'subscription { __typename }',
    ];
    for (const query of refused) {
      const { errors, data } = await viewer.graphql(query);
      expect([query.slice(0, 80), codesOf({ errors }), data]).toEqual([
        query.slice(0, 80),
        ['BAD_USER_INPUT'],
        undefined,
      ]);
    }
    // Other statements are for the session, or of work in the background.
    const read = app.statements
      .slice(before)
      .filter((text) => /\b(users|accounts|projects|audit_log)\b/.test(text) && !text.includes('operator_sessions'));
    expect(read).toEqual([]);
    // What reads all rows of a project is asked once in a request.
    for (const field of ['tallyDifferences { span }', 'removedUserCount(olderThanSeconds: 1)']) {
      const once = `{ project(appId: "${project.appId}") { one: ${field} } }`;
      expect((await admin.graphql(once)).errors).toBeUndefined();
      const { errors } = await admin.graphql(once.replace('one:', `two: ${field} one:`));
      expect(errors).toMatchObject([{ message: expect.stringMatching(/^cost:/) }]);
    }
    const long = await viewer.graphql('query ($s: String) { projects(search: $s) { totalCount } }', {
      s: 'x'.repeat(5_000),
    });
    expect(codesOf(long)).toEqual(['BAD_USER_INPUT']);
  });
});

describe('mutations', () => {
  test('a project is deleted by its name only, and the log of operators keeps who did it', async () => {
    const { createProject } = await admin.ask('mutation { createProject(name: "New") { project { appId } } }');
    const { appId } = createProject.project;
    const DELETE = 'mutation ($appId: ID!, $name: String!) { deleteProject(appId: $appId, name: $name) }';
    expect(codesOf(await admin.graphql(DELETE, { appId, name: 'new' }))).toEqual(['BAD_USER_INPUT']);
    const { audit } = await ask(viewer, { appId }, 'audit { nodes { action actor requestId } }');
    expect(audit.nodes).toEqual([{ action: 'create', actor: `operator:${admin.name}`, requestId: expect.any(String) }]);
    expect(await admin.ask(DELETE, { appId, name: 'New' })).toEqual({ deleteProject: true });
    expect(await ask(viewer, { appId }, 'name')).toBeNull();
    const { operatorLog } = await admin.ask('{ operatorLog(first: 1) { actor action details } }');
    expect(operatorLog).toMatchObject([{ actor: `operator:${admin.name}`, action: 'delete_project' }]);
    expect(JSON.parse(operatorLog[0].details)).toEqual({ app_id: appId, name: 'New' });
  });

  test('support removes, restores, bans and unbans many at once, with a result for each', async () => {
    const project = await projectWithUsers(4);
    const ids = (await usersOf(support, project)).map(({ id }) => id);
    const run = async (name: string, given = ids) =>
      (
        await support.ask(
          `mutation ($appId: ID!, $ids: [ID!]!) { ${name}(appId: $appId, ids: $ids) { id ok code message } }`,
          { appId: project.appId, ids: given },
        )
      )[name];
    const ofCallers = async (name: string, given = ids) =>
      (
        await support
          .inProject(project.appId)
          .ask(`mutation ($ids: [ID!]!) { ${name}(ids: $ids) { outcomes { id ok code message } } }`, { ids: given })
      )[name].outcomes;
    const allOk = ids.map((id: string) => ({ id, ok: true, code: null, message: null }));
    expect(await ofCallers('banUsers')).toEqual(allOk);
    const { auth_method, auth_value } = user(0, 1);
    const login = () =>
      project.graphql('mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created } }', {
        input: { authMethod: auth_method, authValue: auth_value },
      });
    expect(codesOf(await login())).toEqual(['BANNED']);
    const { bans } = await ask(support, project, 'bans { nodes { authValue userId } }');
    expect(bans.nodes.map(({ userId }: Json) => userId).sort()).toEqual([...ids].sort());
    expect(await usersOf(support, project, 'ban { isOfUser }')).toEqual(ids.map(() => ({ ban: { isOfUser: true } })));
    expect(await run('unbanUsers')).toEqual(allOk);
    expect(codesOf(await login())).toEqual([]);
    const [gone] = ids;
    // Who is there twice is removed once.
    expect(await ofCallers('removeUsers', [gone, '999999', gone])).toMatchObject([
      { id: gone, ok: true },
      { id: '999999', ok: false, code: 'NOT_FOUND' },
      { id: gone, ok: true },
    ]);
    expect(
      (await ask(viewer, project, `user(id: "${gone}") { removedAt audit { nodes { action actor } } }`)).user,
    ).toMatchObject({
      removedAt: expect.stringMatching(/Z$/),
      audit: {
        nodes: [{ action: 'remove' }, { action: 'unban' }, { action: 'ban', actor: `operator:${support.name}` }],
      },
    });
    expect(await run('restoreUsers', [gone])).toMatchObject([{ ok: true }]);
    const many = await support.graphql(
      'mutation ($appId: ID!, $ids: [ID!]!) { unbanUsers(appId: $appId, ids: $ids) { ok } }',
      {
        appId: project.appId,
        ids: Array(101).fill('1'),
      },
    );
    expect(codesOf(many)).toEqual(['BAD_USER_INPUT']);
  });

  test('the audit trail is filtered by user, actor, action and time, and paged', async () => {
    const project = await projectWithUsers(3);
    const ids = (await usersOf(viewer, project)).map(({ id }) => id);
    const { appId } = project;
    await support.inProject(appId).ask('mutation ($ids: [ID!]!) { banUsers(ids: $ids) { outcomes { ok } } }', { ids });
    await admin.inProject(appId).ask('mutation ($ids: [ID!]!) { removeUsers(ids: $ids) { outcomes { ok } } }', {
      ids: ids.slice(1),
    });
    const trail = async (args: string) =>
      (
        await ask(
          viewer,
          project,
          `audit${args === '' ? '' : `(${args})`} { nodes { action } pageInfo { endCursor hasNextPage } }`,
        )
      ).audit;
    const actions = async (args: string) => (await trail(args)).nodes.map(({ action }: Json) => action);
    expect(await actions('')).toEqual(['remove', 'remove', 'ban', 'ban', 'ban', 'import', 'create']);
    expect(await actions('action: "ban"')).toEqual(['ban', 'ban', 'ban']);
    expect(await actions(`userId: "${ids[1]}"`)).toEqual(['remove', 'ban']);
    expect(await actions(`actor: "operator:${admin.name}"`)).toEqual(['remove', 'remove']);
    expect(await actions('until: "2020-01-01"')).toEqual([]);
    expect(await actions('since: "2020-01-01", action: "import"')).toEqual(['import']);
    const first = await trail('first: 5');
    expect(first.pageInfo.hasNextPage).toBe(true);
    expect(await actions(`first: 5, after: "${first.pageInfo.endCursor}"`)).toEqual(['import', 'create']);
    const { auditActions } = await ask(viewer, project, 'auditActions { name words }');
    expect(auditActions).toContainEqual({ name: 'import', words: 'imported users' });
    const words = auditActions.map((action: Json) => action.words);
    expect(words).toEqual([...words].sort((one: string, other: string) => one.localeCompare(other)));
    const wrong = await viewer.graphql(of('audit(action: "nothing") { nodes { id } }'), { appId: project.appId });
    expect(codesOf(wrong)).toEqual(['BAD_USER_INPUT']);
  });
});

describe('roles', () => {
  // Only so many refusals of an operator are recorded in a minute.
  beforeEach(async () => {
    [support, viewer] = [await logIn(app, 'support'), await logIn(app, 'viewer')];
  });

  const MUTATIONS: Record<string, [role: 'support' | 'admin', args: string, fields?: string]> = {
    restoreUsers: ['support', 'appId: $appId, ids: ["1"]', 'ok'],
    unbanUsers: ['support', 'appId: $appId, ids: ["1"]', 'ok'],
    undoImport: ['admin', 'appId: $appId, importId: "1"', 'removed'],
    createProject: ['admin', 'name: "x"', 'appSecret'],
    renameProject: ['admin', 'appId: $appId, name: "x"', 'changed'],
    disableProject: ['admin', 'appId: $appId', 'changed'],
    enableProject: ['admin', 'appId: $appId', 'changed'],
    limitProject: ['admin', 'appId: $appId, rate: 60', 'changed'],
    deleteProject: ['admin', 'appId: $appId, name: "Test"'],
    repairTallies: ['admin', 'appId: $appId', 'span'],
    seedUsers: ['admin', 'appId: $appId, users: 1', 'done'],
    purgeRemovedUsers: ['admin', 'appId: $appId, olderThanSeconds: 0', 'done'],
    deletePartOfProject: ['admin', 'appId: $appId, name: "Test"', 'done'],
    addSecret: ['admin', 'appId: $appId, label: "x", scopes: [READ]', 'appSecret'],
    rotateSecret: ['admin', 'appId: $appId, label: "main"', 'appSecret'],
    revokeSecret: ['admin', 'appId: $appId, id: "1"', 'live'],
    testWebhook: ['admin', 'appId: $appId, id: "1"', 'ok'],
    replayWebhook: ['admin', 'appId: $appId, id: "1", after: "now"', 'id'],
    updateWebhook: ['admin', 'appId: $appId, id: "1", description: "x"', 'id'],
    resendWebhookMessage: ['admin', 'appId: $appId, id: "1", messageId: "x"', 'ok'],
    addOperator: ['admin', 'name: "x", role: ADMIN', 'name'],
    updateOperator: ['admin', 'name: "x", input: { role: ADMIN }', 'name'],
    removeOperator: ['admin', 'name: "x"'],
    createLoginLink: ['admin', 'operator: "x"', 'url'],
    noteRestore: ['admin', ''],
  };

  test('every mutation is in the list and says its role, or is for everyone', async () => {
    const { __schema } = await viewer.ask('{ __schema { mutationType { fields { name description } } } }');
    const { fields }: { fields: { name: string; description: string }[] } = __schema.mutationType;
    expect(fields.map(({ name }) => name).sort()).toEqual(
      [...Object.keys(MUTATIONS), 'logOut', 'revokeSession', 'beginPasskey', 'addPasskey', 'removePasskey'].sort(),
    );
    const said = fields.map(({ name, description }) => [name, /Needs (?:an )?(ADMIN|SUPPORT)/.exec(description)?.[1]]);
    const needed = Object.entries(MUTATIONS).map(([name, [role]]) => [name, role.toUpperCase()]);
    expect(said.filter(([name = '']) => name in MUTATIONS).sort()).toEqual(needed.sort());
  });

  test.each(Object.entries(MUTATIONS))(
    '%s, sent by hand, is refused and recorded',
    async (name, [role, args, fields]) => {
      const project = await app.createProject();
      const isOfProject = args.includes('$appId');
      const query = `mutation ${isOfProject ? '($appId: ID!) ' : ''}{ ${name}${args && `(${args})`} ${fields === undefined ? '' : `{ ${fields} }`} }`;
      const before = await ask(
        admin,
        project,
        'name disabledAt userCount secrets { live } bans { nodes { authValue } }',
      );
      for (const who of role === 'admin' ? [viewer, support] : [viewer]) {
        const answer = await who.graphql(query, { appId: project.appId });
        expect(codesOf(answer)).toEqual(['FORBIDDEN']);
        expect(answer.errors?.[0]?.message).toMatch(
          new RegExp(`^This needs the role (support or )?admin; ${who.name} has`),
        );
        const recorded = isOfProject
          ? await sql(
              `SELECT details FROM audit_log WHERE actor = $1 AND action = 'refuse' AND request_id IS NOT NULL
             AND project_id = (SELECT id FROM projects WHERE app_id = $2)`,
              `operator:${who.name}`,
              project.appId,
            )
          : await sql(
              `SELECT details FROM operator_log WHERE actor = $1 AND action = 'refuse' AND details->>'refused' = $2`,
              `operator:${who.name}`,
              name,
            );
        expect(recorded.map(({ details }) => details.refused)).toEqual([name]);
      }
      expect(
        await ask(admin, project, 'name disabledAt userCount secrets { live } bans { nodes { authValue } }'),
      ).toEqual(before);
    },
  );

  const IDENTITY = '{ authMethod: "google", authValue: "1" }';
  const USER = '{ user { id } }';
  /** Fields of the public schema, which an operator asks in a project: the least role that may, and what is asked. */
  const OF_CALLERS: Record<string, [role: 'viewer' | 'support' | 'admin', asked: string]> = {
    bans: ['viewer', '{ nodes { authValue } }'],
    changes: ['admin', '(first: 1) { nodes { type } }'],
    findUser: ['viewer', '(any: "1") { id }'],
    parseAddress: ['viewer', '(address: "x") { reason }'],
    searchUsers: ['viewer', '(by: { email: "a@example.com" }) { id }'],
    user: ['viewer', '(id: 1) { id }'],
    userByExternalId: ['viewer', '(externalId: "x") { id }'],
    userByIdentity: ['viewer', '(authMethod: "google", authValue: "1") { id }'],
    userCount: ['viewer', ''],
    userPage: ['viewer', '(page: 1, limit: 1) { totalCount }'],
    users: ['viewer', '{ totalCount }'],
    usersByEmails: ['viewer', '(emails: ["a@example.com"]) { id }'],
    usersByExternalIds: ['viewer', '(externalIds: ["x"]) { id }'],
    usersByIdentities: ['viewer', `(identities: [${IDENTITY}]) { id }`],
    usersByIds: ['viewer', '(ids: [1]) { id }'],
    usersByPrefix: ['viewer', '(prefix: "a") { hasMore }'],
    verifyWallet: ['viewer', `(address: "0x${'0'.repeat(40)}") { exists }`],
    verifyWallets: ['viewer', '(inputs: [{ address: "x" }]) { verdict }'],
    webhooks: ['viewer', '{ id }'],
    addWebhook: ['admin', '(url: "https://example.com") { secret }'],
    banIdentity: ['support', `(identity: ${IDENTITY}) { changed }`],
    banUser: ['support', `(id: 1) ${USER}`],
    banUsers: ['support', '(ids: [1]) { outcomes { ok } }'],
    createUser: ['admin', `(input: ${IDENTITY}) ${USER}`],
    deleteUser: ['support', '(id: 1) { id }'],
    linkIdentity: ['support', `(userId: 1, input: ${IDENTITY}) ${USER}`],
    mergeUsers: ['support', `(from: 1, into: 2) ${USER}`],
    pauseWebhook: ['admin', '(id: 1) { webhook { id } }'],
    recordLogin: ['admin', `(input: ${IDENTITY}) ${USER}`],
    removeUsers: ['support', '(ids: [1]) { outcomes { ok } }'],
    removeWebhook: ['admin', '(id: 1) { removedWebhookId }'],
    resendWebhookMessage: [
      'admin',
      `(id: 1, messageId: "${encodeChangeCursor({ timeline: 'ffffffff', id: 1 })}") { ok }`,
    ],
    restoreUser: ['support', `(id: 1) ${USER}`],
    resumeWebhook: ['admin', '(id: 1) { webhook { id } }'],
    rotateWebhookSecret: ['admin', '(id: 1) { secret }'],
    unbanIdentity: ['support', `(identity: ${IDENTITY}) { changed }`],
    unbanUser: ['support', `(id: 1) ${USER}`],
    unlinkAccount: ['support', `(userId: 1, address: "0x${'0'.repeat(40)}") ${USER}`],
    unlinkIdentity: ['support', `(userId: 1, identity: ${IDENTITY}) ${USER}`],
    updateUser: ['support', `(id: 1, input: { externalId: "x" }) ${USER}`],
  };

  test('every field of callers is in the list, but the question who asks', async () => {
    const { appId } = await app.createProject();
    const { __schema } = await viewer
      .inProject(appId)
      .ask('{ __schema { queryType { fields { name } } mutationType { fields { name } } } }');
    const names = [...__schema.queryType.fields, ...__schema.mutationType.fields].map(({ name }: Json) => name);
    expect(names.sort()).toEqual([...Object.keys(OF_CALLERS), 'caller'].sort());
  });

  test.each(Object.entries(OF_CALLERS))('%s of callers, in a project, by the role', async (name, [least, asked]) => {
    const isChange =
      /^(add|ban|create|delete|link|merge|pause|record|remove|resend|restore|resume|rotate|unban|unlink|update)/;
    const document = `${isChange.test(name) && name !== 'bans' ? 'mutation' : 'query'} { ${name}${asked} }`;
    const { appId } = await app.createProject();
    const roles = { viewer, support, admin };
    const allowed = Object.keys(roles).slice(Object.keys(roles).indexOf(least));
    for (const [role, who] of Object.entries(roles)) {
      const codes = codesOf(await who.inProject(appId).graphql(document));
      expect([role, codes.includes('FORBIDDEN')]).toEqual([role, !allowed.includes(role)]);
      expect(['UNAUTHENTICATED', 'INTERNAL_SERVER_ERROR']).not.toContain(codes[0]);
      const recorded = await sql(
        `SELECT details->>'refused' AS refused FROM audit_log WHERE actor = $1 AND action = 'refuse'
         AND project_id = (SELECT id FROM projects WHERE app_id = $2)`,
        `operator:${who.name}`,
        appId,
      );
      expect(recorded).toEqual(allowed.includes(role) ? [] : [{ refused: name }]);
    }
  });

  test.each(['{ operators { name } }', '{ operatorLog { id } }'])('%s needs an admin', async (query) => {
    for (const who of [viewer, support]) expect(codesOf(await who.graphql(query))).toEqual(['FORBIDDEN']);
    expect(codesOf(await admin.graphql(query))).toEqual([]);
  });

  test('a link made in the dashboard logs its operator in', async () => {
    await admin.ask('mutation { addOperator(name: "Linked", role: VIEWER) { name role source } }');
    const { createLoginLink } = await admin.ask('mutation { createLoginLink(operator: "linked") { url expiresAt } }');
    expect(createLoginLink.url).toMatch(new RegExp(`^${app.url}/dashboard#login=[\\w-]{43}$`));
  });

  test('the status says since when the process runs', async () => {
    const { status } = await viewer.ask('{ status { version database startedAt checks { name } } }');
    expect(new Date(status.startedAt).getTime()).toBeLessThanOrEqual(Date.now());
  });
});

describe('the character U+0000, which PostgreSQL does not store', () => {
  test('is refused in every text of an operation, in variables and in the document', async () => {
    for (const [query, variables] of [
      ['query ($s: String) { projects(search: $s) { totalCount } }', { s: 'a\0' }],
      ['mutation ($ids: [ID!]!) { unbanUsers(appId: "x", ids: $ids) { ok } }', { ids: ['1', 'a\0'] }],
      ['{ projects(search: "a\\u0000b") { totalCount } }'],
      ['mutation { unbanUsers(appId: "x", ids: ["1", "a\\u0000b"]) { ok } }'],
      ['mutation { updateOperator(name: "x", input: { name: "a\\u0000b" }) { name } }'],
    ] as const)
      expect(codesOf(await admin.graphql(query, variables))).toEqual(['BAD_USER_INPUT']);
  });

  test('is refused in what a download asks for', async () => {
    const { appId } = await app.createProject();
    for (const query of ['audit?actor=%00', 'audit?user_id=1%00', 'export?start_date=2026-01-01%00']) {
      const response = await admin.fetch(`/dashboard/projects/${appId}/${query}`);
      expect([query, response.status, await response.json()]).toMatchObject([
        query,
        400,
        { error: { code: 'BAD_USER_INPUT' } },
      ]);
    }
  });
});
