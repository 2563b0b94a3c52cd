import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ImportedUser, type Json, type TestProject, useTestApp } from '../support/app.js';
import { codesOf } from '../support/graphql.js';

const app = useTestApp();

interface Filter {
  startDate?: string;
  endDate?: string;
  loginMethods?: string[];
}

interface Window {
  filter?: Filter | undefined;
  first?: number;
  after?: string | null;
  last?: number;
  before?: string | null;
}

interface Stretch {
  ids: string[];
  cursors: string[];
  totalCount: number;
  pageInfo: { hasNextPage: boolean; hasPreviousPage: boolean; startCursor: string | null; endCursor: string | null };
}

const QUERY = `query ($filter: UserFilter, $first: Int, $after: String, $last: Int, $before: String) {
  users(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
    totalCount edges { cursor node { id } } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}`;

async function askStretch(project: TestProject, window: Window): Promise<Stretch> {
  const { data, errors } = await project.graphql(QUERY, { ...window });
  expect(errors).toBeUndefined();
  const { totalCount, edges, pageInfo } = data.users;
  return {
    totalCount,
    pageInfo,
    ids: edges.map((edge: Json) => edge.node.id),
    cursors: edges.map((edge: Json) => edge.cursor),
  };
}

/** The ids that REST lists for the same filter. Cursors must follow this order. */
async function restOrder(project: TestProject, filter: Filter = {}): Promise<string[]> {
  const parameters = new URLSearchParams({ limit: '100' });
  if (filter.startDate !== undefined) parameters.set('start_date', filter.startDate);
  if (filter.endDate !== undefined) parameters.set('end_date', filter.endDate);
  if (filter.loginMethods !== undefined) parameters.set('login_method', filter.loginMethods.join(',').toLowerCase());
  const { status, body } = await project.rest(`/server/users?${parameters}`);
  expect(status).toBe(200);
  return body.result.users.map((user: Json) => String(user.id));
}

let registered = 0;
function newUser(method: string, createdAt: string): ImportedUser {
  registered += 1;
  const name = `user${registered}`;
  return { auth_method: method, auth_value: method === 'email' ? `${name}@example.com` : name, created_at: createdAt };
}

const remove = (project: TestProject, id: string) => project.rest(`/server/users/${id}`, { method: 'DELETE' });

/** Only a few, so that many users share an instant. Some are next to each other around midnight. */
const INSTANTS = [
  '2026-01-01T00:00:00.000Z',
  '2026-01-01T23:59:59.999Z',
  '2026-01-02T00:00:00.000Z',
  '2026-01-02T00:00:00.001Z',
];
const instant = fc.constantFrom(...INSTANTS);
const method = fc.constantFrom('email', 'passkey', 'google');
const anyUser = fc.tuple(method, instant);
const date = fc.constantFrom(
  ...INSTANTS,
  '2026-01-01',
  '2026-01-02',
  '2026-01-01T23:59:59.9995Z',
  '2026-01-02T01:00:00+01:00',
);
const anyFilter: fc.Arbitrary<Filter> = fc.record(
  {
    startDate: date,
    endDate: date,
    loginMethods: fc.subarray(['EMAIL', 'PASSKEY', 'SOCIALS', 'WALLET'], { minLength: 1 }),
  },
  { requiredKeys: [] },
);

test('paging in either direction follows the order of REST, and every page reports its neighbours correctly', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyUser, { maxLength: 30 }),
      anyFilter,
      fc.integer({ min: 1, max: 12 }),
      async (users, filter, size) => {
        const project = await app.createProject();
        await project.addUsers(...users.map(([method, createdAt]) => newUser(method, createdAt)));
        const order = await restOrder(project, filter);

        for (let done = 0, after: string | null = null; ; ) {
          const stretch: Stretch = await askStretch(project, { filter, first: size, after });
          expect(stretch.ids).toEqual(order.slice(done, done + size));
          expect(stretch.totalCount).toBe(order.length);
          expect(stretch.pageInfo).toEqual({
            hasPreviousPage: done > 0,
            hasNextPage: done + size < order.length,
            startCursor: stretch.cursors[0] ?? null,
            endCursor: stretch.cursors.at(-1) ?? null,
          });
          done += stretch.ids.length;
          after = stretch.pageInfo.endCursor;
          if (!stretch.pageInfo.hasNextPage) break;
        }

        for (let left = order.length, before: string | null = null; ; ) {
          const stretch: Stretch = await askStretch(project, { filter, last: size, before });
          expect(stretch.ids).toEqual(order.slice(Math.max(0, left - size), left));
          expect(stretch.totalCount).toBe(order.length);
          expect(stretch.pageInfo).toMatchObject({
            hasNextPage: left < order.length,
            hasPreviousPage: left - size > 0,
          });
          left -= stretch.ids.length;
          before = stretch.pageInfo.startCursor;
          if (!stretch.pageInfo.hasPreviousPage) break;
        }
      },
    ),
    { numRuns: 25 },
  );
});

test('after and before together select exactly the users between two cursors, in either direction', async () => {
  const project = await app.createProject();
  const methods = ['email', 'passkey', 'google'] as const;
  await project.addUsers(
    ...Array.from({ length: 24 }, (_, index) =>
      newUser(methods[index % 3] as string, INSTANTS[Math.floor(index / 6)] as string),
    ),
  );
  const all = await askStretch(project, { first: 100 });
  const place = fc.option(fc.integer({ min: 0, max: 23 }));
  await fc.assert(
    fc.asyncProperty(place, place, fc.integer({ min: 1, max: 30 }), fc.boolean(), async (from, to, size, forward) => {
      const after = from === null ? null : (all.cursors[from] as string);
      const before = to === null ? null : (all.cursors[to] as string);
      const start = from === null ? 0 : from + 1;
      const end = Math.max(start, to ?? 24);
      const stretch = await askStretch(project, { after, before, ...(forward ? { first: size } : { last: size }) });
      const expected = forward
        ? all.ids.slice(start, Math.min(end, start + size))
        : all.ids.slice(Math.max(start, end - size), end);
      expect(stretch.ids).toEqual(expected);
      expect(stretch.totalCount).toBe(24);
      if (expected.length > 0) {
        expect(stretch.pageInfo).toMatchObject({
          hasPreviousPage: stretch.ids[0] !== all.ids[0],
          hasNextPage: stretch.ids.at(-1) !== all.ids.at(-1),
        });
      }
    }),
    { numRuns: 60 },
  );
});

test('a cursor stays valid after its user is removed, also among users of the same instant', async () => {
  const project = await app.createProject();
  const createdAt = '2026-01-01T00:00:00.000Z';
  await project.addUsers(...Array.from({ length: 9 }, () => newUser('passkey', createdAt)));
  const { ids, cursors } = await askStretch(project, { first: 100 });
  const [gone, cursor] = [ids[4] as string, cursors[4] as string];
  await remove(project, gone);

  const older = await askStretch(project, { first: 100, after: cursor });
  expect(older).toMatchObject({ ids: ids.slice(5), totalCount: 8, pageInfo: { hasPreviousPage: true } });
  const newer = await askStretch(project, { last: 100, before: cursor });
  expect(newer).toMatchObject({ ids: ids.slice(0, 4), totalCount: 8, pageInfo: { hasNextPage: true } });
});

test('a cursor stays valid after all users are removed', async () => {
  const project = await app.createProject();
  await project.addUsers(...INSTANTS.map((createdAt) => newUser('passkey', createdAt)));
  const { ids, cursors } = await askStretch(project, { first: 100 });
  for (const id of ids) await remove(project, id);
  for (const cursor of cursors) {
    expect(await askStretch(project, { first: 1, after: cursor })).toEqual({
      ids: [],
      cursors: [],
      totalCount: 0,
      pageInfo: { hasNextPage: false, hasPreviousPage: false, startCursor: null, endCursor: null },
    });
  }
});

test('a cursor of another project is only a position in time, and gives only users of the own project', async () => {
  const [project, other] = [await app.createProject(), await app.createProject()];
  await other.addUsers(...INSTANTS.map((createdAt) => newUser('passkey', createdAt)));
  await project.addUsers(...INSTANTS.map((createdAt) => newUser('passkey', createdAt)));
  const foreign = (await askStretch(other, { first: 2 })).cursors[1] as string;
  const own = await askStretch(project, { first: 100 });
  const { ids } = await askStretch(project, { first: 100, after: foreign });
  // The users of `project` were added later, so at a shared instant its user is newer than the foreign one.
  expect(ids).toEqual(own.ids.slice(2));
});

/** Changes between two pages: some users are removed (by their position in the list), others are added. */
const anyChange = fc.record({
  removed: fc.array(fc.nat({ max: 1_000 }), { maxLength: 4 }),
  added: fc.array(anyUser, { maxLength: 4 }),
});

test('paging during changes repeats no user and misses no user who was present all the time', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyUser, { minLength: 1, maxLength: 25 }),
      fc.array(anyChange, { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 1, max: 6 }),
      fc.boolean(),
      async (users, changes, size, forward) => {
        const project = await app.createProject();
        await project.addUsers(...users.map(([method, createdAt]) => newUser(method, createdAt)));
        const lasting = new Set(await restOrder(project));
        const seen: string[] = [];

        for (let step = 0, cursor: string | null = null; ; step += 1) {
          const stretch: Stretch = await askStretch(
            project,
            forward ? { first: size, after: cursor } : { last: size, before: cursor },
          );
          expect(stretch.totalCount).toBe((await restOrder(project)).length);
          seen.push(...(forward ? stretch.ids : stretch.ids.toReversed()));
          const { hasNextPage, hasPreviousPage, endCursor, startCursor } = stretch.pageInfo;
          if (!(forward ? hasNextPage : hasPreviousPage)) break;
          cursor = forward ? endCursor : startCursor;

          const { removed, added } = changes[step % changes.length] as (typeof changes)[number];
          const current = await restOrder(project);
          for (const place of removed) {
            const id = current[place % current.length];
            if (id === undefined) continue;
            // Users on earlier pages are removed too, sometimes the one at the cursor.
            await remove(project, id);
            lasting.delete(id);
          }
          // Paging might never end if every step added users, so only the first ten steps add some.
          if (step < 10) await project.addUsers(...added.map(([method, createdAt]) => newUser(method, createdAt)));
        }

        expect(seen).toHaveLength(new Set(seen).size);
        expect([...lasting].filter((id) => !seen.includes(id))).toEqual([]);
      },
    ),
    { numRuns: 20 },
  );
});

test('a cursor that is shortened, extended or changed anywhere is BAD_USER_INPUT', async () => {
  const project = await app.createProject();
  await project.addUsers(newUser('passkey', '2026-01-02T03:04:05.678Z'));
  const cursor = (await askStretch(project, { first: 1 })).cursors[0] as string;
  const damaged = new Set<string>();
  for (let place = 0; place < cursor.length; place += 1) {
    damaged.add(cursor.slice(0, place));
    damaged.add(cursor.slice(place + 1));
    for (const letter of ['A', 'Q', 'z', '0', '-'])
      damaged.add(cursor.slice(0, place) + letter + cursor.slice(place + 1));
  }
  for (const end of ['=', '==', 'A', ' ', '\n', cursor]) damaged.add(cursor + end);
  damaged.delete(cursor);
  const answers = await Promise.all(
    [...damaged].map((each) =>
      project.graphql('query ($after: String) { users(after: $after) { nodes { id } } }', { after: each }),
    ),
  );
  expect(answers.map((answer) => codesOf(answer))).toEqual(new Array(damaged.size).fill(['BAD_USER_INPUT']));
  expect(damaged.size).toBeGreaterThan(100);
});
