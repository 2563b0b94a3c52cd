import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { OPERATOR_ROLES } from '#dist/domain/operator-roles.js';
import { THE_OPERATOR } from '#dist/domain/operators.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { logIn, type TestOperator } from '../support/dashboard.js';
import { openEvents } from '../support/events.js';
import { codesOf } from '../support/graphql.js';

/** Operators who are limited to some projects: any other project is for them as one that does not exist. */
const app = useTestApp();
/** No project has it. */
const UNKNOWN = `app_${'0'.repeat(24)}`;
let admin: TestOperator;
let own: TestProject;
let foreign: TestProject;
let limited: TestOperator[];
beforeAll(async () => {
  admin = await logIn(app, 'admin');
  [own, foreign] = [await app.createProject('Shop of ours'), await app.createProject('Shop of others')];
  await foreign.addUsers({ auth_method: 'email', auth_value: 'ada@example.com' });
  limited = await Promise.all(OPERATOR_ROLES.map(async (role) => limit(await logIn(app, role), own)));
});

const operators = () => app.context.services.operators;
const sql = async (text: string, ...values: unknown[]): Promise<Json[]> =>
  (await app.context.db.pool.query(text, values)).rows;

async function limit(who: TestOperator, ...projects: Pick<TestProject, 'appId'>[]): Promise<TestOperator> {
  await operators().updateOperator(THE_OPERATOR, who.name, { appIds: projects.map(({ appId }) => appId) });
  return who;
}

/** What is decided of each root field of the operators' schema, for an operator who is limited. */
const DECISIONS: Record<string, 'of a project' | 'of all projects' | 'of the operator'> = {
  ...of('of the operator', [
    'me',
    'projects',
    'sessions',
    'logOut',
    'revokeSession',
    'webhookSamples',
    'passkeys',
    'addPasskey',
    'beginPasskey',
    'removePasskey',
  ]),
  ...of('of all projects', ['status', 'operators', 'operatorLog', 'newestOfOperatorLog', 'createProject']),
  ...of('of all projects', ['addOperator', 'updateOperator', 'removeOperator', 'createLoginLink', 'noteRestore']),
  ...of('of a project', ['project', 'renameProject', 'disableProject', 'enableProject', 'limitProject']),
  ...of('of a project', ['deleteProject', 'deletePartOfProject', 'addSecret', 'rotateSecret', 'revokeSecret']),
  ...of('of a project', [
    'restoreUsers',
    'unbanUsers',
    'purgeRemovedUsers',
    'repairTallies',
    'seedUsers',
    'undoImport',
  ]),
  ...of('of a project', ['testWebhook', 'updateWebhook', 'replayWebhook', 'resendWebhookMessage']),
};

function of<Decision>(decision: Decision, fields: string[]): Record<string, Decision> {
  return Object.fromEntries(fields.map((field) => [field, decision]));
}

interface RootField {
  readonly name: string;
  readonly args: string[];
  /** The operation with it, where the App ID is the variable. */
  readonly operation: string;
}

/** All root fields, with operations made from their types. */
async function readRootFields(): Promise<RootField[]> {
  const { __schema } = await admin.ask(`{ __schema {
    queryType { name } mutationType { name } subscriptionType { name }
    types { name kind enumValues { name } fields { name args { name type { ...T } } type { ...T } } } } }
    fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name } } } }`);
  const typeOf = (name: string) => __schema.types.find((each: Json) => each.name === name);
  const named = (type: Json): Json => (type.ofType ? named(type.ofType) : type);
  const written = (field: string, name: string, type: Json): string => {
    if (type.kind === 'NON_NULL') return written(field, name, type.ofType);
    if (type.kind === 'LIST') return `[${written(field, name, type.ofType)}]`;
    if (type.kind === 'ENUM') return typeOf(type.name).enumValues[0].name;
    if (type.kind === 'INPUT_OBJECT') return '{}';
    if (name === 'appId') return '$appId';
    // A name that is given differs from field to field, so that no project is deleted.
    return { Int: '1', Float: '1', Boolean: 'false', String: `"${field}"` }[type.name as string] ?? '"1"';
  };
  return [__schema.queryType, __schema.mutationType, __schema.subscriptionType].flatMap((root: Json) =>
    (root === null ? [] : typeOf(root.name).fields).map(({ name, args, type }: Json) => {
      const given = args.filter((each: Json) => each.type.kind === 'NON_NULL' && !each.defaultValue);
      const list = given.map((each: Json) => `${each.name}: ${written(name, each.name, each.type)}`).join(', ');
      const variables = list.includes('$appId') ? '($appId: ID!)' : '';
      const isLeaf = ['SCALAR', 'ENUM'].includes(named(type).kind);
      return {
        name,
        args: args.map((each: Json) => each.name),
        operation: `${root.name.toLowerCase()} ${variables} { ${name}${list && `(${list})`} ${isLeaf ? '' : '{ __typename }'} }`,
      };
    }),
  );
}

describe('every root field of the schema', () => {
  let fields: RootField[];
  beforeAll(async () => {
    fields = await readRootFields();
  });
  const decided = (as: string) => fields.filter(({ name }) => DECISIONS[name] === as);

  test('is decided', () => {
    expect(fields.map(({ name }) => name).toSorted()).toEqual(Object.keys(DECISIONS).toSorted());
    const ofProjects = fields.filter(({ args }) => args.includes('appId')).map(({ name }) => name);
    expect(ofProjects.toSorted()).toEqual(
      decided('of a project')
        .map(({ name }) => name)
        .toSorted(),
    );
  });

  test('of a project answers for another project as for one that does not exist, by the same statements', async () => {
    for (const who of limited) {
      const theirs = await app.createProject();
      await limit(who, own, theirs);
      const asking = async (sent: () => ReturnType<TestOperator['graphql']>, appId: string) => {
        const before = app.statements.length;
        const { status, data, errors } = await sent();
        // What runs in the background is not of the request.
        const statements = app.statements
          .slice(before)
          .filter((text) => /\b(projects|operators|audit_log|operator_log)\b/.test(text));
        return { answer: JSON.stringify({ status, data, errors }).replaceAll(appId, 'APP_ID'), statements };
      };
      const ask = (operation: string, appId: string) => asking(() => who.graphql(operation, { appId }), appId);
      const askAsCaller = (operation: string, appId: string) =>
        asking(() => who.inProject(appId).graphql(operation), appId);
      for (const { name, operation } of decided('of a project')) {
        const unknown = await ask(operation, UNKNOWN);
        expect([name, await ask(operation, foreign.appId)]).toEqual([name, unknown]);
        if (name === 'project') expect(JSON.parse(unknown.answer).data).toEqual({ project: null });
        else expect(unknown.answer).toMatch(/"There is no project with the App ID .*NOT_FOUND/);
        expect((await ask(operation, theirs.appId)).answer).not.toMatch(/no project|"project":null/);
      }
      for (const operation of ['{ userCount }', 'mutation { removeUsers(ids: [1]) { outcomes { ok } } }']) {
        const unknown = await askAsCaller(operation, UNKNOWN);
        expect(await askAsCaller(operation, foreign.appId)).toEqual(unknown);
        expect(unknown.answer).toMatch(/"There is no project with the App ID .*NOT_FOUND/);
        expect((await askAsCaller(operation, theirs.appId)).answer).not.toMatch(/no project/);
      }
    }
    const trail = await sql(
      `SELECT actor FROM audit_log WHERE project_id = (SELECT id FROM projects WHERE app_id = $1) AND actor LIKE 'operator:%'`,
      foreign.appId,
    );
    expect(trail).toEqual([]);
  });

  test('of all projects is refused to every role, and recorded', async () => {
    for (const role of OPERATOR_ROLES) {
      let who = await limit(await logIn(app, role), own);
      for (const [place, { name, operation }] of decided('of all projects').entries()) {
        // Only so many refusals of an operator are recorded in a minute.
        if (place % 15 === 14) who = await limit(await logIn(app, role), own);
        const { errors } = await who.graphql(operation);
        expect([name, errors?.map(({ extensions, message }) => [extensions.code, message])]).toEqual([
          name,
          [
            [
              'FORBIDDEN',
              expect.stringMatching(/^This needs (an operator of all projects; .* is limited|the role admin)/),
            ],
          ],
        ]);
        const recorded = await sql(
          `SELECT 1 FROM operator_log WHERE actor = $1 AND action = 'refuse' AND details->>'refused' = $2`,
          `operator:${who.name}`,
          name,
        );
        expect([name, recorded.length]).toEqual([name, 1]);
      }
      const { me } = await who.ask('{ me { can } }');
      expect(me.can).not.toEqual(expect.arrayContaining(['oversee']));
      expect(me.can).not.toEqual(expect.arrayContaining(['govern']));
    }
  });
});

test('a limited operator lists, counts and finds only the projects of theirs', async () => {
  const second = await app.createProject('Shop the second');
  for (const role of OPERATOR_ROLES) {
    const who = await limit(await logIn(app, role), own, second);
    const list = async (variables: Record<string, unknown>) =>
      (
        await who.ask(
          `query ($search: String, $first: Int, $after: String) { projects(search: $search, first: $first, after: $after) {
             nodes { appId userCount } totalCount pageInfo { hasNextPage endCursor } } }`,
          variables,
        )
      ).projects;
    const first = await list({ first: 1 });
    expect(first).toMatchObject({ nodes: [{ appId: second.appId }], totalCount: 2, pageInfo: { hasNextPage: true } });
    expect(await list({ first: 1, after: first.pageInfo.endCursor })).toMatchObject({
      nodes: [{ appId: own.appId }],
      totalCount: 2,
      pageInfo: { hasNextPage: false },
    });
    expect((await list({ search: 'SHOP' })).totalCount).toBe(2);
    for (const search of ['of others', foreign.appId])
      expect(await list({ search })).toMatchObject({ nodes: [], totalCount: 0 });
  }
  const none = await limit(await logIn(app, 'viewer'));
  expect((await none.ask('{ projects { totalCount nodes { appId } } }')).projects).toEqual({
    totalCount: 0,
    nodes: [],
  });
});

test('a limited admin sees and ends no session of others', async () => {
  const who = await limit(await logIn(app, 'admin'), own);
  const { sessions } = await who.ask('{ sessions { id operator current } }');
  expect(sessions).toEqual([{ id: expect.anything(), operator: who.name, current: true }]);
  const [{ id }] = await sql(
    'SELECT s.id FROM operator_sessions s JOIN operators o ON o.id = operator_id WHERE name = $1',
    admin.name,
  );
  const revoke = async (session: unknown) =>
    (await who.graphql('mutation ($id: ID!) { revokeSession(id: $id) }', { id: String(session) })).errors;
  expect(await revoke(id)).toMatchObject([
    { message: `There is no session ${id}.`, extensions: { code: 'NOT_FOUND' } },
  ]);
  await admin.ask('{ me { name } }');
});

describe('routes', () => {
  /** What is decided of each: those of a project are asked below; the others concern no project. */
  const ROUTES: Record<string, 'of a project' | 'of no project' | 'GraphQL'> = {
    '/dashboard/projects/:appId/export': 'of a project',
    '/dashboard/projects/:appId/audit': 'of a project',
    '/dashboard/projects/:appId/news': 'of a project',
    '/dashboard/projects/:appId/import': 'of a project',
    '/dashboard/graphql': 'GraphQL',
    '/dashboard/config.json': 'of no project',
    '/dashboard/session': 'of no project',
    '/dashboard/oidc/login': 'of no project',
    '/dashboard/oidc/callback': 'of no project',
    '/dashboard/passkey/challenge': 'of no project',
    '/dashboard/passkey/session': 'of no project',
  };

  test('are all decided', () => {
    const folder = join(ROOT, 'src/dashboard');
    const found = readdirSync(folder)
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) => [
        ...readFileSync(join(folder, name), 'utf8').matchAll(
          /\.(?:get|post|put|patch|delete|all|route)\(\s*'([^']+)'/g,
        ),
      ])
      .flatMap(([, path = '']) => (path.startsWith('/') && !ROUTES[path] ? path : []))
      // The pages are the same for everyone.
      .filter((path) => !/^\/dashboard(\/\*|\/assets\/\S*)?$/.test(path));
    expect(found).toEqual([]);
  });

  test('of a project answer for another project as for one that does not exist', async () => {
    const paths = Object.entries(ROUTES).flatMap(([path, decision]) => (decision === 'of a project' ? path : []));
    // What a project of others refuses by itself tells of it, too.
    const { services } = app.context;
    const disabled = await app.createProject();
    await services.lifecycle.disableProject(await services.projects.getScope(disabled.appId));
    for (const who of limited) {
      for (const path of paths) {
        const ask = async (appId: string) => {
          const response = await who.fetch(path.replace(':appId', appId), {
            ...(path.endsWith('import') && {
              method: 'POST',
              headers: { 'content-type': 'application/x-ndjson' },
              body: '{}\n',
            }),
          });
          return { status: response.status, text: (await response.text()).replaceAll(appId, 'APP_ID') };
        };
        const unknown = await ask(UNKNOWN);
        expect([path, unknown.status]).toEqual([path, 404]);
        expect([path, await ask(disabled.appId)]).toEqual([path, unknown]);
        expect([path, await ask(foreign.appId)]).toEqual([path, unknown]);
      }
      const audit = await who.fetch(`/dashboard/projects/${own.appId}/audit`);
      expect([audit.status, (await audit.text()).includes('"create"')]).toEqual([200, true]);
    }
  });
});

test('what follows a project ends when it is no longer one of the operator, and not before', async () => {
  const [first, second] = [await app.createProject(), await app.createProject()];
  const who = await limit(await logIn(app, 'viewer'), first, second);
  const follow = ({ appId }: TestProject) =>
    openEvents(`${app.url}/dashboard/projects/${appId}/news`, { headers: { cookie: who.cookie } });
  const [ending, staying] = [await follow(first), await follow(second)];
  // What has changed before it follows.
  await staying.waitFor(1);
  await limit(who, second);
  await ending.ended();
  await second.addUsers({ auth_method: 'passkey', auth_value: 'p' });
  expect((await staying.waitFor(2)).length).toBe(2);
  expect(staying.isEnded()).toBe(false);
  staying.close();
});

test('a project that is deleted leaves no right to a later one of the same App ID', async () => {
  const { services } = app.context;
  const credentials = services.projects.mintCredentials();
  await services.projects.createProject('The first', { credentials });
  const who = await limit(await logIn(app, 'admin'), credentials);
  const ask = async () =>
    (await who.ask('query ($appId: ID!) { project(appId: $appId) { name } }', { appId: credentials.appId })).project;
  expect(await ask()).toEqual({ name: 'The first' });
  const deleted = 'mutation ($appId: ID!) { deleteProject(appId: $appId, name: "The first") }';
  expect(await who.ask(deleted, { appId: credentials.appId })).toEqual({ deleteProject: true });
  await services.projects.createProject('The second', { credentials });
  expect(await ask()).toBeNull();
  // They are still limited, to nothing.
  expect((await who.ask('{ projects { totalCount } }')).projects.totalCount).toBe(0);
  const listed = (await operators().listOperators(THE_OPERATOR)).find(({ name }) => name === who.name);
  expect(listed?.projects).toEqual([]);
});

describe('an operator is changed', () => {
  const UPDATE = `mutation ($name: String!, $input: UpdateOperatorInput!) {
    updateOperator(name: $name, input: $input) { name role projects { appId name } } }`;
  const update = async (name: string, input: object) => (await admin.ask(UPDATE, { name, input })).updateOperator;
  const refused = async (name: string, input: object) => codesOf(await admin.graphql(UPDATE, { name, input }));

  test('by what is given; the rest stays, and the log has it', async () => {
    const who = await logIn(app, 'viewer');
    const name = `renamed-${process.pid}`;
    const projects = [{ appId: own.appId, name: 'Shop of ours' }];
    expect(await update(who.name, { appIds: [own.appId, own.appId] })).toEqual({
      name: who.name,
      role: 'VIEWER',
      projects,
    });
    expect(await update(who.name, { role: 'SUPPORT' })).toEqual({ name: who.name, role: 'SUPPORT', projects });
    expect(await update(who.name, { name: name.toUpperCase() })).toEqual({ name, role: 'SUPPORT', projects });
    // The session goes on, under the new name.
    expect((await who.ask('{ me { name role } }')).me).toEqual({ name, role: 'SUPPORT' });
    expect(await update(name, { appIds: null })).toEqual({ name, role: 'SUPPORT', projects: null });
    expect(
      (await who.ask('query ($appId: ID!) { project(appId: $appId) { appId } }', { appId: foreign.appId })).project,
    ).not.toBeNull();
    const log = await sql(
      `SELECT details FROM operator_log WHERE action = 'update_operator' AND actor = $1 AND details->>'operator' = ANY ($2) ORDER BY id`,
      `operator:${admin.name}`,
      [who.name, name],
    );
    expect(log.map(({ details }) => details)).toEqual([
      { operator: who.name, projects: [own.appId, own.appId] },
      { operator: who.name, role: 'support' },
      { operator: who.name, name },
      { operator: name, projects: 'all' },
    ]);
  });

  test('and refused what cannot be', async () => {
    const who = await logIn(app, 'viewer');
    expect(await refused(who.name, {})).toEqual(['BAD_USER_INPUT']);
    expect(await refused(who.name, { name: 'not a name' })).toEqual(['BAD_USER_INPUT']);
    expect(await refused(who.name, { name: admin.name })).toEqual(['CONFLICT']);
    expect(await refused(who.name, { role: 'ADMIN', appIds: [own.appId, UNKNOWN] })).toEqual(['NOT_FOUND']);
    const many = Array.from({ length: 1_001 }, (_, index) => `app_${index}`);
    expect(await refused(who.name, { appIds: many })).toEqual(['BAD_USER_INPUT']);
    expect(await refused('nobody-of-this-name', { role: 'ADMIN' })).toEqual(['NOT_FOUND']);
    expect(await refused(admin.name, { appIds: [own.appId] })).toEqual(['CONFLICT']);
    // Nothing of it was done.
    expect((await who.ask('{ me { name role can } }')).me).toMatchObject({
      name: who.name,
      role: 'VIEWER',
      can: expect.arrayContaining(['oversee']),
    });
  });
});
