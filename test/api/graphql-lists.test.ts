import { expect, test } from 'vitest';
import { type Json, useTestApp } from '../support/app.js';
import { addNamedUsers, codesOf, namesOf } from '../support/graphql.js';

const app = useTestApp();

test('users gives the newest 10 by default, with edges, nodes and the total', async () => {
  const project = await addNamedUsers(app, ...Array.from({ length: 12 }, (_, index) => `user${index}`));
  const { data } = await project.graphql(`{ users {
    totalCount nodes { authValue } edges { cursor node { authValue } }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  } }`);
  const newest = Array.from({ length: 10 }, (_, index) => `user${11 - index}`);
  expect(namesOf(data.users.nodes)).toEqual(newest);
  expect(namesOf(data.users.edges.map((edge: Json) => edge.node))).toEqual(newest);
  expect(data.users.totalCount).toBe(12);
  expect(data.users.pageInfo).toEqual({
    hasNextPage: true,
    hasPreviousPage: false,
    startCursor: data.users.edges[0].cursor,
    endCursor: data.users.edges[9].cursor,
  });
});

test('an empty list has no cursors, and no previous or next page', async () => {
  const project = await app.createProject();
  const { data } = await project.graphql(
    '{ users { totalCount nodes { id } edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } }',
  );
  expect(data.users).toEqual({
    totalCount: 0,
    nodes: [],
    edges: [],
    pageInfo: { hasNextPage: false, hasPreviousPage: false, startCursor: null, endCursor: null },
  });
});

test('last gives the oldest users, still newest first', async () => {
  const project = await addNamedUsers(app, 'ada', 'bob', 'eve');
  const { data } = await project.graphql(
    '{ users(last: 2) { nodes { authValue } pageInfo { hasNextPage hasPreviousPage } } }',
  );
  expect(namesOf(data.users.nodes)).toEqual(['bob', 'ada']);
  expect(data.users.pageInfo).toEqual({ hasNextPage: false, hasPreviousPage: true });
});

test.each(['first: 0', 'first: -1', 'first: 101', 'last: 0', 'last: 101', 'first: 2147483647', 'first: 1, last: 1'])(
  'users(%s) is BAD_USER_INPUT',
  async (page) => {
    const project = await app.createProject();
    expect(codesOf(await project.graphql(`{ users(${page}) { totalCount } }`))).toEqual(['BAD_USER_INPUT']);
  },
);

test.each(['first: 1.5', 'first: "10"', 'first: 2147483648', 'first: true'])(
  'users(%s) has an argument of a wrong type and is BAD_USER_INPUT',
  async (page) => {
    const project = await app.createProject();
    expect(codesOf(await project.graphql(`{ users(${page}) { totalCount } }`))).toEqual(['BAD_USER_INPUT']);
  },
);

test('a null argument of users is treated as absent', async () => {
  const project = await addNamedUsers(app, 'ada');
  const { data } = await project.graphql(
    `{ users(filter: null, first: null, after: null, last: null, before: null) { totalCount }
       userCount(filter: { startDate: null, endDate: null, loginMethods: null }) }`,
  );
  expect(data).toEqual({ users: { totalCount: 1 }, userCount: 1 });
});

test('userPage defaults to page 1 with 10 users, and a page past the end is empty with the correct total', async () => {
  const project = await addNamedUsers(app, 'ada', 'bob', 'eve');
  const { data } = await project.graphql(`{
    default: userPage { page limit totalUser users { authValue } }
    second: userPage(page: 2, limit: 2) { page limit totalUser users { authValue } }
    beyond: userPage(page: 2147483647, limit: 100) { page limit totalUser users { authValue } }
  }`);
  const shown = (page: Json) => ({ ...page, users: namesOf(page.users) });
  expect(shown(data.default)).toEqual({ page: 1, limit: 10, totalUser: 3, users: ['eve', 'bob', 'ada'] });
  expect(shown(data.second)).toEqual({ page: 2, limit: 2, totalUser: 3, users: ['ada'] });
  expect(shown(data.beyond)).toEqual({ page: 2147483647, limit: 100, totalUser: 3, users: [] });
});

test.each(['page: 0', 'page: -1', 'limit: 0', 'limit: 101', 'limit: -5', 'page: null', 'limit: null', 'page: 1.5'])(
  'userPage(%s) is BAD_USER_INPUT',
  async (page) => {
    const project = await app.createProject();
    expect(codesOf(await project.graphql(`{ userPage(${page}) { totalUser } }`))).toEqual(['BAD_USER_INPUT']);
  },
);

test('the same filter selects the same users in users, userPage and userCount', async () => {
  const project = await app.createProject();
  await project.addUsers(
    { auth_method: 'email', auth_value: 'old@example.com', created_at: '2026-01-01T23:59:59.999Z' },
    { auth_method: 'google', auth_value: 'in', created_at: '2026-01-02T00:00:00.000Z' },
    { auth_method: 'passkey', auth_value: 'other method', created_at: '2026-01-02T12:00:00.000Z' },
    { auth_method: 'email', auth_value: 'in@example.com', created_at: '2026-01-03T23:59:59.999Z' },
    { auth_method: 'email', auth_value: 'new@example.com', created_at: '2026-01-04T00:00:00.000Z' },
  );
  const { data } = await project.graphql(
    `query ($filter: UserFilter) {
      users(filter: $filter) { totalCount nodes { authValue } }
      userPage(filter: $filter) { totalUser users { authValue } }
      userCount(filter: $filter)
    }`,
    { filter: { startDate: '2026-01-02', endDate: '2026-01-03', loginMethods: ['EMAIL', 'SOCIALS', 'EMAIL'] } },
  );
  const expected = [{ authValue: 'in@example.com' }, { authValue: 'in' }];
  expect(data).toEqual({
    users: { totalCount: 2, nodes: expected },
    userPage: { totalUser: 2, users: expected },
    userCount: 2,
  });
});

test.each([
  { startDate: '2026-02-30' },
  { startDate: '' },
  { endDate: 'yesterday' },
  { endDate: '2026-01-01T00:00:00' },
  { loginMethods: [] },
  { loginMethods: ['email'] },
  { loginMethods: [null] },
  { startDate: 20260101 },
  { start_date: '2026-01-01' },
])('the filter %j is BAD_USER_INPUT', async (filter) => {
  const project = await app.createProject();
  for (const field of [
    'users(filter: $filter) { totalCount }',
    'userPage(filter: $filter) { page }',
    'userCount(filter: $filter)',
  ]) {
    const answer = await project.graphql(`query ($filter: UserFilter) { ${field} }`, { filter });
    expect(codesOf(answer)).toEqual(['BAD_USER_INPUT']);
  }
});
