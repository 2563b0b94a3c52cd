import { beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf, explained } from '../support/graphql.js';

/** The ids of users in the caller's own system. */

const app = useTestApp();
const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);

const recordLogin = (project: TestProject, input: Json, key?: string) =>
  project.graphql(
    `mutation ($input: RecordLoginInput!, $key: String = null) { recordLogin(input: $input, idempotencyKey: $key) {
      created user { id externalId loginCount wallet }
    } }`,
    { input, key },
  );
const find = async (project: TestProject, externalId: string): Promise<Json> => {
  const { data, errors } = await project.graphql(
    'query ($id: String!) { userByExternalId(externalId: $id) { id authValue externalId accounts { id } } }',
    { id: externalId },
  );
  expect(errors).toBeUndefined();
  return data.userByExternalId;
};
const countOf = async (project: TestProject) => (await project.graphql('{ userCount }')).data.userCount;
const ada = { authMethod: 'email', authValue: 'ada@example.com' };
const grace = { authMethod: 'google', authValue: 'grace' };
const remove = (project: TestProject, id: string) => project.rest(`/server/users/${id}`, { method: 'DELETE' });

test('logins by linked identities may say the external ID of their user, also many at once', async () => {
  const project = await app.createProject();
  const numbers = Array.from({ length: 10 }, (_, number) => number);
  const linked = (number: number) => ({
    authMethod: 'google',
    authValue: `linked-${number}`,
    externalId: `X-${number}`,
  });
  const identities = numbers
    .map(linked)
    .map(({ authMethod, authValue }) => ({ auth_method: authMethod, auth_value: authValue }));
  await project.addUsers(
    ...identities.map((identity, number) => ({
      auth_method: 'passkey',
      auth_value: `primary-${number}`,
      external_id: `X-${number}`,
      identities: [identity],
    })),
  );
  const answers = await Promise.all(numbers.map((number) => recordLogin(project, linked(number))));
  expect(answers.map(({ errors }) => errors)).toEqual(numbers.map(() => undefined));
  expect(await countOf(project)).toBe(numbers.length);
});

test('logins that are refused keep the connection, with all that it has prepared', async () => {
  const project = await app.createProject();
  await recordLogin(project, { ...ada, externalId: 'A-1' });
  const { pool } = app.context.db;
  let connections = 0;
  const count = () => {
    connections += 1;
  };
  pool.on('connect', count);
  for (let time = 0; time < 10; time += 1) {
    const refused = await Promise.all([
      recordLogin(project, { ...grace, externalId: 'A-1' }),
      recordLogin(project, { ...ada, externalId: 'A-2' }, `key-${time}`),
    ]);
    expect(refused.flatMap(codesOf)).toEqual(['CONFLICT', 'CONFLICT']);
  }
  pool.off('connect', count);
  // PostgreSQL may open a second one for two requests at once.
  expect(connections).toBeLessThanOrEqual(1);
});

describe('a login', () => {
  test('sets it on a new user, on one without, and leaves the same', async () => {
    const project = await app.createProject();
    const first = (await recordLogin(project, { ...ada, externalId: 'A-1' })).data.recordLogin;
    expect(first).toMatchObject({ created: true, user: { externalId: 'A-1', loginCount: 1 } });
    const again = (await recordLogin(project, { ...ada, externalId: 'A-1' })).data.recordLogin;
    expect(again).toMatchObject({ created: false, user: { externalId: 'A-1', loginCount: 2 } });
    const without = (await recordLogin(project, ada)).data.recordLogin;
    expect(without.user).toMatchObject({ externalId: 'A-1', loginCount: 3 });
    expect((await recordLogin(project, { ...grace, externalId: null })).data.recordLogin.user.externalId).toBe(null);
    const later = (await recordLogin(project, { ...grace, externalId: 'a-1' })).data.recordLogin;
    expect(later).toMatchObject({ created: false, user: { externalId: 'a-1', loginCount: 2 } });
  });

  test('with another one, or that of another user, is a CONFLICT and changes nothing, with a key too', async () => {
    const project = await app.createProject();
    const { user } = (await recordLogin(project, { ...ada, externalId: 'A-1' })).data.recordLogin;
    await recordLogin(project, grace);
    const cases: [Json, string][] = [
      [{ ...ada, externalId: 'A-2' }, 'This user has another external ID.'],
      [
        { ...grace, externalId: 'A-1' },
        `User ${user.id} of this project has this external ID. A login with linkByExternalId links an identity that is new to that user; mergeUsers makes two users one.`,
      ],
      [
        { authMethod: 'passkey', authValue: 'new', externalId: 'A-1' },
        `User ${user.id} of this project has this external ID. A login with linkByExternalId links an identity that is new to that user; mergeUsers makes two users one.`,
      ],
    ];
    for (const [input, message] of cases) {
      for (const key of [undefined, `key-${input['authValue']}`]) {
        const answer = await recordLogin(project, { ...input, wallet: `0x${'1'.repeat(40)}` }, key);
        expect(codesOf(answer)).toEqual(['CONFLICT']);
        expect(answer.errors?.[0]?.message).toBe(message);
        expect(answer.data).toBe(null);
      }
    }
    const { data } = await project.graphql('{ userPage { totalUser users { externalId loginCount wallet } } }');
    expect(data.userPage).toEqual({
      totalUser: 2,
      users: [
        { externalId: null, loginCount: 1, wallet: null },
        { externalId: 'A-1', loginCount: 1, wallet: null },
      ],
    });
    // A key whose request failed is free for a request that succeeds.
    expect(
      (await recordLogin(project, { ...ada, externalId: 'A-1' }, 'key-ada@example.com')).data.recordLogin.user.id,
    ).toBe(user.id);
  });

  test('of a banned identity is BANNED, whatever its external id', async () => {
    const project = await app.createProject();
    await recordLogin(project, { ...ada, externalId: 'A-1' });
    const { bans } = app.context.services;
    await bans.ban(await scopeOf(project), { ...ada, authValueKey: ada.authValue });
    expect(codesOf(await recordLogin(project, { ...ada, externalId: 'A-2' }))).toEqual(['BANNED']);
    expect(codesOf(await recordLogin(project, { ...grace, externalId: 'A-1' }))).toEqual(['CONFLICT']);
  });

  test('a retry with a key is answered with the external id', async () => {
    const project = await app.createProject();
    const first = await recordLogin(project, { ...ada, externalId: 'A-1' }, 'k');
    expect((await recordLogin(project, { ...ada, externalId: 'A-1' }, 'k')).data).toEqual(first.data);
    expect(codesOf(await recordLogin(project, { ...ada, externalId: 'A-2' }, 'k'))).toEqual(['IDEMPOTENCY_KEY_REUSED']);
    expect(codesOf(await recordLogin(project, ada, 'k'))).toEqual(['IDEMPOTENCY_KEY_REUSED']);
  });

  test.each([true, false])(
    'a retry with a key is answered where another user has the external id by then (linking: %s)',
    async (links) => {
      const project = await app.createProject();
      const login = (input: Json, key?: string) =>
        project.graphql(
          `mutation ($input: RecordLoginInput!, $key: String = null) {
          recordLogin(input: $input, idempotencyKey: $key) { created user { id loginCount } }
        }`,
          { input: { ...input, linkByExternalId: links }, key },
        );
      const first = await login({ ...ada, externalId: 'A-1' }, 'k');
      const { id } = first.data.recordLogin.user;
      await project.graphql(`mutation { updateUser(id: "${id}", input: { externalId: "A-2" }) { user { id } } }`);
      await recordLogin(project, { ...grace, externalId: 'A-1' });
      for (let time = 0; time < 2; time += 1)
        expect((await login({ ...ada, externalId: 'A-1' }, 'k')).data).toEqual(first.data);
      expect(codesOf(await login({ ...ada, externalId: 'A-1' }))).toEqual(['CONFLICT']);
    },
  );

  test('first logins of one user at once, with and without a key, make one user', async () => {
    for (let round = 0; round < 5; round += 1) {
      const project = await app.createProject();
      const answers = await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          recordLogin(project, { ...ada, externalId: 'A-1' }, n % 2 ? `key-${n}` : undefined),
        ),
      );
      expect(answers.flatMap(codesOf)).toEqual([]);
      expect(new Set(answers.map(({ data }) => data.recordLogin.user.id)).size).toBe(1);
    }
  });

  test('of several users who want one external id at once, one gets it', async () => {
    const project = await app.createProject();
    const inputs = Array.from({ length: 8 }, (_, n) => ({ authMethod: 'google', authValue: `${n}` }));
    await Promise.all(inputs.slice(0, 4).map((input) => recordLogin(project, input)));
    const answers = await Promise.all(inputs.map((input) => recordLogin(project, { ...input, externalId: 'one' })));
    expect(answers.flatMap(codesOf)).toEqual(new Array(7).fill('CONFLICT'));
    expect((await find(project, 'one'))?.externalId).toBe('one');
  });

  test.each<[string, string]>([
    ['an empty text', ''],
    ['white space at an end', ' a'],
    ['a control character', 'a\u0000'],
    ['a line break', 'a\nb'],
    ['an invisible character', 'a\u200bb'],
    ['half of a surrogate pair', '\ud800'],
    ['more than 255 bytes', `${'ä'.repeat(127)}aa`],
  ])('refuses %s', async (_what, externalId) => {
    const project = await app.createProject();
    const answer = await recordLogin(project, { ...ada, externalId });
    expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
    expect(answer.errors?.[0]?.extensions).toEqual({ ...explained('BAD_USER_INPUT'), argument: 'input.externalId' });
    expect(answer.errors?.[0]?.message).toMatch(/^externalId: got .*expected text of 1 to 255 bytes/);
    expect(await countOf(project)).toBe(0);
    const read = await project.graphql('query ($id: String!) { userByExternalId(externalId: $id) { id } }', {
      id: externalId,
    });
    expect(codesOf(read)).toEqual(['BAD_USER_INPUT']);
  });
});

describe('userByExternalId', () => {
  let project: TestProject;
  beforeAll(async () => {
    project = await app.createProject();
    const other = await app.createProject();
    for (const each of [other, project])
      await each.addUsers(
        { auth_method: 'email', auth_value: 'ada@example.com', external_id: 'A-1' },
        { auth_method: 'google', auth_value: 'b', external_id: `${'ä'.repeat(127)}a` },
        { auth_method: 'google', auth_value: 'c', external_id: '7' },
        { auth_method: 'google', auth_value: 'd' },
      );
  });

  test('finds the user of this project, exactly', async () => {
    expect(await find(project, 'A-1')).toMatchObject({ authValue: 'ada@example.com', externalId: 'A-1', accounts: [] });
    expect(await find(project, `${'ä'.repeat(127)}a`)).toMatchObject({ authValue: 'b' });
    // Another case, a part, a decomposed letter.
    for (const other of ['a-1', 'A-', `${'a\u0308'.repeat(80)}a`, 'd']) expect(await find(project, other)).toBe(null);
    expect(await find(await app.createProject(), 'A-1')).toBe(null);
  });
});

test('the external id of a removed user is free, and a user is not restored while another has theirs', async () => {
  const project = await app.createProject();
  const { users } = app.context.services;
  const scope = await scopeOf(project);
  const { user } = (await recordLogin(project, { ...ada, externalId: 'A-1' })).data.recordLogin;
  await remove(project, user.id);
  expect(await find(project, 'A-1')).toBe(null);
  const other = (await recordLogin(project, { ...grace, externalId: 'A-1' })).data.recordLogin.user;
  expect((await find(project, 'A-1')).id).toBe(other.id);
  await expect(app.context.services.identities.restore(scope, BigInt(user.id))).rejects.toMatchObject({
    code: 'CONFLICT',
    message: `User ${user.id} cannot be restored: user ${other.id} has the external ID now. Remove that user first.`,
  });
  expect(await users.searchAny(scope, 'A-1', true)).toMatchObject([{ id: Number(user.id), externalId: 'A-1' }]);
  await remove(project, other.id);
  await app.context.services.identities.restore(scope, BigInt(user.id));
  expect((await find(project, 'A-1')).id).toBe(user.id);
});

test('a search finds a user by external id, also one that looks like an id, an email or an address', async () => {
  const project = await app.createProject();
  const { users } = app.context.services;
  const scope = await scopeOf(project);
  const { user } = (await recordLogin(project, { ...grace, externalId: 'Ada@Example.com' })).data.recordLogin;
  await recordLogin(project, ada);
  const found = async (text: string) => (await users.searchAny(scope, text)).map(({ authValue }) => authValue);
  expect(await found(' Ada@Example.com ')).toEqual(['ada@example.com', 'grace']);
  expect(await found('ada@example.com')).toEqual(['ada@example.com']);
  await recordLogin(project, { authMethod: 'google', authValue: 'x', externalId: user.id });
  expect(await found(user.id)).toEqual(['x', 'grace']);
  await recordLogin(project, { authMethod: 'google', authValue: 'y', externalId: `0x${'a'.repeat(40)}` });
  expect(await found(`0x${'a'.repeat(40)}`)).toEqual(['y']);
});

describe('an import', () => {
  const line = (value: string, externalId?: string, more: Json = {}): Json => ({
    auth_method: 'google',
    auth_value: value,
    ...more,
    ...(externalId !== undefined && { external_id: externalId }),
  });
  async function importLines(
    project: TestProject,
    lines: Json[],
    onConflict: 'skip' | 'update' | 'fail' = 'update',
    skipInvalid = true,
  ) {
    const report = await project.importLines(lines, { onConflict, skipInvalid });
    return { ...report, failed: report.errors.map((each) => each.line) };
  }
  const ids = async (project: TestProject): Promise<Json> => {
    const { data } = await project.graphql('{ userPage(limit: 100) { users { authValue externalId } } }');
    return Object.fromEntries(data.userPage.users.map(({ authValue, externalId }: Json) => [authValue, externalId]));
  };

  test('sets, keeps and replaces external ids as its rule for users who exist says', async () => {
    const project = await app.createProject();
    expect(await importLines(project, [line('a', '1'), line('b'), line('c', '3')], 'fail')).toMatchObject({
      created: 3,
    });
    expect(await importLines(project, [line('a', '9'), line('b', '1')], 'skip')).toMatchObject({
      skipped: 2,
      failed: [],
    });
    expect(await ids(project)).toEqual({ a: '1', b: null, c: '3' });
    const lines = [line('a', '9'), line('b', '2'), line('c')];
    expect(await importLines(project, lines)).toMatchObject({ updated: 2, unchanged: 1, failed: [] });
    expect(await importLines(project, [line('c', '3')])).toMatchObject({ unchanged: 1, failed: [] });
    expect(await ids(project)).toEqual({ a: '9', b: '2', c: '3' });
  });

  test('fails the lines whose external id another user has at that line, or an earlier line, and no other', async () => {
    const project = await app.createProject();
    await importLines(project, [line('a', '1'), line('b', '2'), line('g', '9')]);
    const report = await importLines(project, [
      line('c', '9'), // g has it
      line('a', '3'),
      line('d', '1'), // free by now
      line('e', '1'),
      line('e', '4'), // line 4 was not imported
      line('f', '3'),
      line('b', '2'),
    ]);
    expect(report).toMatchObject({ created: 2, updated: 1, unchanged: 1, failed: [1, 4, 6] });
    expect(report.errors.map(({ error }: Json) => error)).toEqual([
      'Another user of this project has this external ID.',
      'Line 3 has the same external_id.',
      'Line 2 has the same external_id.',
    ]);
    expect(await ids(project)).toEqual({ a: '3', b: '2', d: '1', e: '4', g: '9' });
  });

  test('with a taken external id changes nothing unless invalid lines are skipped', async () => {
    const project = await app.createProject();
    const lines = [line('a', '1'), line('b', '1'), line('c', 'x\n')];
    const report = await importLines(project, lines, 'fail', false);
    expect(report).toMatchObject({ imported: 0, failed: [2, 3] });
    expect(report.errors[1]?.error).toMatch(/^external_id: got .*expected text of 1 to 255 bytes/);
    expect(await importLines(project, lines.slice(0, 2), 'fail', false)).toMatchObject({ imported: 0, failed: [2] });
    expect(await ids(project)).toEqual({});
  });

  test.each(['update', 'skip', 'fail'] as const)(
    'of many contested lines, with %s, has the outcome of one line after another',
    async (onConflict) => {
      const project = await app.createProject();
      const model: Record<string, string> = {};
      for (const file of [0, 1, 2, 3]) {
        const lines = Array.from({ length: 150 }, (_, n) => line(`u${n}`, `x${((150 * file + n) * 7) % 90}`));
        const failed: number[] = [];
        for (const [index, { auth_value, external_id }] of lines.entries()) {
          const holder = Object.entries(model).find(([, id]) => id === external_id)?.[0] ?? auth_value;
          if (onConflict !== 'update' && auth_value in model) {
            if (onConflict === 'fail') failed.push(index + 1);
          } else if (holder === auth_value) model[auth_value] = external_id;
          else failed.push(index + 1);
        }
        expect((await importLines(project, lines, onConflict)).failed).toEqual(failed);
      }
      for (const [value, id] of Object.entries(model)) expect((await find(project, id)).authValue).toBe(value);
      expect(await countOf(project)).toBe(Object.keys(model).length);
    },
  );
});
