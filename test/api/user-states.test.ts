import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { SCANNED } from '#dist/domain/bounds.js';
import { parseIdentity } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { ofStateFilters, STATE_FILTER_NAMES, type StateFilterName, UNCOUNTED } from '#dist/domain/state-filters.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf, explained } from '../support/graphql.js';

/** Users by what totals do not know. There is no index for it: a page looks at a limited number of users. */

const app = useTestApp();
const DAY_MS = 86_400_000;
const JANUARY = Date.parse('2026-01-01T00:00:00.000Z');
const day = (n: number) => new Date(JANUARY + n * DAY_MS).toISOString();

interface Known {
  readonly authValue: string;
  readonly method: string;
  readonly createdAt: string;
  readonly lastLogin: string | null;
  readonly banned: boolean;
}

interface Model {
  readonly values: fc.Arbitrary<Json[string]>;
  readonly selects: (user: Known, wanted: Json[string]) => boolean;
}

const LIST = `query ($filter: UserFilter, $first: Int, $after: String, $last: Int, $before: String) {
  users(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
    nodes { authValue } edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}`;

async function list(project: TestProject, variables: Json): Promise<Json> {
  const { data, errors } = await project.graphql(LIST, variables);
  expect(errors).toBeUndefined();
  return data.users;
}

/** All users of a filter, page by page, and how many pages there were. */
async function walk(project: TestProject, filter: Json, size: number, direction: 'first' | 'last' = 'first') {
  const [by, end, more] =
    direction === 'first' ? ['after', 'endCursor', 'hasNextPage'] : ['before', 'startCursor', 'hasPreviousPage'];
  const found: string[] = [];
  let pages = 0;
  for (let cursor: string | null = null, goesOn = true; goesOn; pages += 1) {
    const page: Json = await list(project, { filter, [direction]: size, [by as string]: cursor });
    expect(page['nodes'].length).toBeLessThanOrEqual(size);
    const values = page['nodes'].map(({ authValue }: Json) => authValue);
    if (direction === 'first') found.push(...values);
    else found.unshift(...values);
    cursor = page['pageInfo'][end as string];
    goesOn = page['pageInfo'][more as string];
    if (goesOn) expect(cursor).toEqual(expect.any(String));
  }
  return { found, pages };
}

test.each([
  ['KUNDE-Ä1', 'ä1'],
  ['kunde-ä1', 'Ä1'],
  ['kunde-a\u03081', 'ä1'],
  ['kunde-ä1', 'a\u03081'],
  ['ΟΔΥΣΣΕΥΣ', 'δυσσευς'],
  ['Οδυσσευς', 'ΣΣΕΥΣ'],
  ['ИВАН', 'иван'],
])('%s contains %s, in any case and in any form of its letters', async (externalId, part) => {
  const project = await app.createProject();
  await project.addUsers(
    { auth_method: 'google', auth_value: '1', external_id: externalId },
    { auth_method: 'google', auth_value: '2', external_id: 'kunde-b2' },
  );
  const { data } = await project.graphql(
    'query ($part: String!) { users(filter: { contains: $part }) { nodes { externalId } } }',
    { part },
  );
  expect(data.users.nodes).toEqual([{ externalId }]);
});

describe('a filter by what totals do not know', () => {
  let project: TestProject;
  /** Newest first. */
  const users: Known[] = [];
  beforeAll(async () => {
    project = await app.createProject();
    const other = await app.createProject();
    const { projects, bans } = app.context.services;
    const [scope, otherScope] = [await projects.getScope(project.appId), await projects.getScope(other.appId)];
    for (let n = 0; n < 60; n += 1) {
      users.unshift({
        authValue: `user-${n}`,
        method: ['google', 'passkey', 'github'][n % 3] as string,
        createdAt: day(n),
        lastLogin: n % 4 === 0 ? null : day(n + ((n * 7) % 40)),
        banned: n % 5 === 0,
      });
    }
    const lines = users.map(({ authValue, method, createdAt, lastLogin }) => ({
      auth_method: method,
      auth_value: authValue,
      created_at: createdAt,
      last_login: lastLogin,
    }));
    await project.addUsers(...lines);
    await other.addUsers(...lines);
    for (const { method, authValue, banned } of users) {
      const identity = parseIdentity({ authMethod: method, authValue }, camelCase);
      await bans.ban(banned ? scope : otherScope, identity);
    }
  });

  const instant = fc.integer({ min: -2, max: 100 }).map(day);

  /** Of each filter: values, and whom one selects. */
  const MODEL: { readonly [Name in StateFilterName | 'loginMethods' | 'startDate' | 'endDate']: Model } = {
    contains: {
      values: fc.constantFrom('R-1', '5', 'USER', 'nobody'),
      selects: (user, part) => user.authValue.includes(part.toLowerCase()),
    },
    lastLoginBefore: {
      values: instant,
      selects: (user, end) => (user.lastLogin ?? user.createdAt) < end,
    },
    lastLoginAfter: {
      values: instant,
      selects: (user, start) => user.lastLogin !== null && user.lastLogin >= start,
    },
    banned: {
      values: fc.boolean(),
      selects: (user, is) => user.banned === is,
    },
    authMethods: {
      values: fc.constantFrom(['google'], ['github', 'passkey'], ['passkey'], ['email', 'wallet'], ['apple']),
      selects: (user, methods) => methods.includes(user.method),
    },
    loginMethods: {
      values: fc.constantFrom(['PASSKEY'], ['SOCIALS'], ['SOCIALS', 'EMAIL']),
      selects: (user, kinds) => kinds.includes(user.method === 'passkey' ? 'PASSKEY' : 'SOCIALS'),
    },
    startDate: {
      values: instant,
      selects: (user, start) => user.createdAt >= start,
    },
    endDate: {
      values: instant,
      selects: (user, end) => user.createdAt <= end,
    },
  };

  const matches = (user: Known, filter: Json) =>
    Object.entries(MODEL).every(([name, { selects }]) => filter[name] == null || selects(user, filter[name]));

  test('selects what a filter of all users would, in every direction and page size', async () => {
    const filters = fc.record(
      Object.fromEntries(Object.entries(MODEL).map(([name, { values }]) => [name, fc.option(values, { freq: 3 })])),
    );
    await fc.assert(
      fc.asyncProperty(
        filters,
        fc.integer({ min: 1, max: 70 }),
        fc.constantFrom('first', 'last'),
        async (filter, size, direction) => {
          const right = users.filter((user) => matches(user, filter)).map(({ authValue }) => authValue);
          expect((await walk(project, filter, size, direction)).found).toEqual(right);
        },
      ),
      { numRuns: 25 },
    );
  });

  test('finds a part of an email, of an external ID or of the primary identity, in any case and literally', async () => {
    const texts = await app.createProject();
    await texts.addUsers(
      { auth_method: 'email', auth_value: 'Ada@Mail.Acme.example', created_at: '2025-01-01' },
      { auth_method: 'google', auth_value: 'g_%1', email: 'bo@other.example', created_at: '2025-01-02' },
      { auth_method: 'github', auth_value: 'h1', external_id: 'CRM-7', created_at: '2025-01-03' },
    );
    const find = async (contains: string, more: Json = {}) =>
      (await list(texts, { filter: { contains, ...more } }))['nodes'].map(({ authValue }: Json) =>
        authValue.toLowerCase(),
      );
    expect(await find('ACME')).toEqual(['ada@mail.acme.example']);
    expect(await find('@other.')).toEqual(['g_%1']);
    expect(await find('crm-')).toEqual(['h1']);
    expect([await find('_%'), await find('%')]).toEqual([['g_%1'], ['g_%1']]);
    expect(await find('example', { authMethods: ['email'] })).toEqual(['ada@mail.acme.example']);
    const refused = await texts.graphql(LIST, { filter: { contains: '' } });
    expect(refused.errors).toMatchObject([{ message: expect.stringMatching(/^contains: /) }]);
  });

  test('reads a date as its first instant', async () => {
    const before = await list(project, { filter: { lastLoginBefore: '2026-01-02' }, first: 100 });
    expect(before['nodes']).toEqual([{ authValue: 'user-0' }]);
    const { found } = await walk(
      project,
      { lastLoginAfter: '2026-01-09', lastLoginBefore: '2026-01-09T00:00:00.001Z' },
      5,
    );
    expect(found).toEqual(users.filter(({ lastLogin }) => lastLogin === day(8)).map(({ authValue }) => authValue));
    expect(found.length).toBeGreaterThan(0);
  });

  test('takes one statement for a page', async () => {
    app.statements.length = 0;
    await project.graphql(
      '{ users(filter: { banned: true }) { nodes { id accounts { id } } pageInfo { endCursor } } }',
    );
    expect(app.statements.filter((sql) => !/app_secrets/.test(sql))).toHaveLength(1);
  });

  test.each([
    ['userCount', 'query ($f: UserFilter) { userCount(filter: $f) }'],
    ['userPage', 'query ($f: UserFilter) { userPage(filter: $f) { users { id } } }'],
    ['totalCount', 'query ($f: UserFilter) { users(filter: $f) { totalCount } }'],
  ])('is refused by %s, which has an exact total', async (what, query) => {
    const each = ofStateFilters(STATE_FILTER_NAMES, {
      boolean: () => false,
      instant: () => '2026-01-01',
      methods: () => ['google'],
      text: () => 'ada',
    });
    const alone = Object.entries(each).map(([name, value]) => ({ [name]: value }));
    for (const f of [...alone, { authMethods: ['email', 'github'] }]) {
      const answer = await project.graphql(query, { f });
      expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
      expect(answer.errors?.[0]?.message).toBe(
        `filter: ${what} cannot select by ${UNCOUNTED.replaceAll('`', '')}, because such users are not counted; ask for users without totalCount.`,
      );
    }
    const none = { f: Object.fromEntries(STATE_FILTER_NAMES.map((name) => [name, null])) };
    expect((await project.graphql(query, none)).errors).toBeUndefined();
  });

  test('counts the methods that are a kind of their own, alone or with other conditions', async () => {
    const total = async (filter: Json) => {
      const { data } = await project.graphql(
        'query ($filter: UserFilter) { userCount(filter: $filter) users(filter: $filter, first: 100) { totalCount nodes { id } } }',
        { filter },
      );
      expect(data.userCount).toBe(data.users.totalCount);
      expect(data.userCount).toBe(data.users.nodes.length);
      return data.userCount;
    };
    expect(await total({ authMethods: ['passkey'] })).toBe(20);
    expect(await total({ authMethods: ['passkey', 'passkey', 'wallet'], loginMethods: ['PASSKEY', 'SOCIALS'] })).toBe(
      20,
    );
    expect(await total({ authMethods: ['passkey'], startDate: day(30) })).toBe(10);
    expect(await total({ authMethods: ['email'] })).toBe(0);
    expect(await total({ authMethods: ['passkey'], loginMethods: ['SOCIALS'] })).toBe(0);
  });

  test.each<[string, string[]]>([
    ['authMethods', []],
    ['authMethods', Array(21).fill('google')],
    ['authMethods[1]', ['google', 'google.com']],
    ['authMethods[0]', ['socials']],
    ['authMethods[0]', ['x'.repeat(65)]],
    ['authMethods[0]', ['']],
  ])('refuses %s: %j', async (argument, authMethods) => {
    const answer = await project.graphql(LIST, { filter: { authMethods } });
    expect(answer.errors?.[0]?.extensions).toEqual({
      ...explained('BAD_USER_INPUT'),
      argument: `filter.${argument}`,
    });
  });

  test.each(['lastLoginBefore', 'lastLoginAfter'])('refuses a %s that is no date', async (field) => {
    for (const text of ['', '2026-13-01', 'x'.repeat(65), 'now']) {
      const answer = await project.graphql(LIST, { filter: { [field]: text } });
      expect(answer.errors?.[0]?.extensions).toEqual({ ...explained('BAD_USER_INPUT'), argument: `filter.${field}` });
    }
  });
});

test('a page looks at a limited number of users, and goes on where it ended', async () => {
  const project = await app.createProject();
  const { pool } = app.context.db;
  const size = 2 * SCANNED + 500;
  await pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at, last_login)
     SELECT p.id, 'google', n::text, n::text, $2::timestamptz + n / 3 * interval '1 second', $2::timestamptz + n * interval '1 hour'
     FROM projects p, generate_series(0, $3::int - 1) AS n WHERE p.app_id = $1`,
    [project.appId, day(0), size],
  );
  // The ten users who logged in first are the oldest of all.
  const filter = { lastLoginBefore: new Date(JANUARY + 10 * 3_600_000).toISOString() };
  const first = await list(project, { filter, first: 5 });
  expect(first).toMatchObject({
    nodes: [],
    pageInfo: { hasNextPage: true, hasPreviousPage: false, startCursor: null },
  });
  const forward = await walk(project, filter, 5);
  expect(forward.found.toSorted((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: 10 }, (_, n) => `${n}`));
  expect(forward.pages).toBe(4);
  const late = { lastLoginAfter: new Date(JANUARY + (size - 10) * 3_600_000).toISOString() };
  const backward = await walk(project, late, 100, 'last');
  expect([backward.found.length, backward.pages]).toEqual([10, 3]);
  const byMethod = await walk(project, { ...filter, loginMethods: ['SOCIALS', 'WALLET'] }, 100);
  expect(byMethod.found).toEqual(forward.found);
});
