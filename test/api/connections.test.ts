import { beforeAll, describe, expect, test } from 'vitest';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/** Every page of short lists: each size around each bound, from each place, in both directions. */

const app = useTestApp();
const NUMBER = 4;

interface List {
  /** The field, with the arguments that say which list it is. */
  readonly field: string;
  readonly isBackward: boolean;
}

const LISTS: Record<string, List> = {
  'of users': { field: 'users', isBackward: true },
  'of users of some kinds of login': { field: 'users(filter: { loginMethods: [EMAIL, SOCIALS] })', isBackward: true },
  'of users by a state': { field: 'users(filter: { banned: false })', isBackward: true },
  'of bans': { field: 'bans', isBackward: false },
  'of changes': { field: 'changes', isBackward: false },
};

let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  const stranger = await app.createProject();
  for (const each of [project, stranger]) {
    for (let number = 0; number < NUMBER; number += 1) {
      const { errors } = await each.graphql(
        `mutation ($user: RecordLoginInput!, $stranger: IdentityInput!) {
          recordLogin(input: $user) { created }
          banIdentity(identity: $stranger) { ban { createdAt } }
        }`,
        {
          user: { authMethod: 'email', authValue: `user${number}@example.com` },
          stranger: { authMethod: 'google', authValue: `stranger ${number}` },
        },
      );
      expect(errors).toBeUndefined();
    }
  }
});

interface Window {
  readonly first?: number;
  readonly after?: string;
  readonly last?: number;
  readonly before?: string;
}

interface Page {
  readonly cursors: string[];
  readonly hasNextPage: boolean;
  readonly hasPreviousPage: boolean;
}

/** Asks for a page, and for each fact of it alone: a fact that is not asked for is not read. */
async function ask({ field, isBackward }: List, window: Window): Promise<Page> {
  const backward = isBackward ? { last: window.last, before: window.before } : {};
  const given = { first: window.first, after: window.after, ...backward };
  const variables = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const types = { first: 'Int!', after: 'String', last: 'Int', before: 'String' };
  const declared = Object.keys(variables).map((name) => `$${name}: ${types[name as keyof typeof types]}`);
  const passed = Object.keys(variables).map((name) => `${name}: $${name}`);
  const call = field.endsWith(')') ? `${field.slice(0, -1)}, ${passed})` : `${field}(${passed})`;
  const { data, errors } = await project.graphql(
    `query (${declared}) {
      list: ${call} { edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } }
      next: ${call} { pageInfo { hasNextPage } }
      previous: ${call} { pageInfo { hasPreviousPage } }
    }`,
    variables,
  );
  expect(errors).toBeUndefined();
  const { edges, pageInfo } = data.list;
  expect(data.next.pageInfo).toEqual({ hasNextPage: pageInfo.hasNextPage });
  expect(data.previous.pageInfo).toEqual({ hasPreviousPage: pageInfo.hasPreviousPage });
  const cursors = edges.map(({ cursor }: Json) => cursor);
  if (cursors.length > 0) expect(pageInfo.startCursor).toBe(cursors[0]);
  // A page of changes ends where the search for them ended.
  if (cursors.length > 0 && field !== 'changes') expect(pageInfo.endCursor).toBe(cursors.at(-1));
  return { cursors, hasNextPage: pageInfo.hasNextPage, hasPreviousPage: pageInfo.hasPreviousPage };
}

describe.each(Object.entries(LISTS))('a page %s', (_name, list) => {
  let all: string[];
  let places: (number | undefined)[];
  let sizes: number[];
  beforeAll(async () => {
    all = (await ask(list, { first: 100 })).cursors;
    const length = all.length;
    expect(length).toBeGreaterThanOrEqual(NUMBER);
    places = [undefined, 0, 1, length - 2, length - 1];
    sizes = [1, 2, length - 1, length, length + 1];
  });

  test('has as many as are asked for, and says whether more follow', async () => {
    for (const place of places) {
      for (const first of sizes) {
        const start = place === undefined ? 0 : place + 1;
        const window = place === undefined ? { first } : { first, after: all[place] as string };
        expect({ place, first, ...(await ask(list, window)) }).toEqual({
          place,
          first,
          cursors: all.slice(start, start + first),
          hasNextPage: start + first < all.length,
          hasPreviousPage: place !== undefined,
        });
      }
    }
  });

  test.runIf(list.isBackward)('has the last before a place, and says whether more come before', async () => {
    for (const place of places) {
      for (const last of sizes) {
        const end = place ?? all.length;
        const window = place === undefined ? { last } : { last, before: all[place] as string };
        expect({ place, last, ...(await ask(list, window)) }).toEqual({
          place,
          last,
          cursors: all.slice(Math.max(0, end - last), end),
          hasNextPage: place !== undefined,
          hasPreviousPage: last < end,
        });
      }
    }
  });

  test.runIf(list.isBackward)('lies between two places', async () => {
    const window = { after: all[0] as string, before: all.at(-1) as string };
    const between = all.slice(1, -1);
    for (const size of sizes) {
      expect({ size, ...(await ask(list, { ...window, first: size })) }).toEqual({
        size,
        cursors: between.slice(0, size),
        hasNextPage: true,
        hasPreviousPage: true,
      });
      expect({ size, ...(await ask(list, { ...window, last: size })) }).toEqual({
        size,
        cursors: between.slice(-size),
        hasNextPage: true,
        hasPreviousPage: true,
      });
    }
  });
});
