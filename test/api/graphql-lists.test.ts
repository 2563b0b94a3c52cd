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
