import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { userFilter } from '#dist/domain/filters.js';
import { EARLIEST, LATEST } from '#dist/domain/parse.js';
import { LoginMethod } from '#dist/domain/users.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';

/**
 * Whatever lists or counts the users of a project agrees with the table: REST, numbered pages, connections in both directions, counts and exports. The
 * bounds of the questions are instants of users, and a millisecond beside them.
 */

const app = useTestApp();

/** The edges of months and days, each with many users. */
const CROWDED = [
  '2025-01-01T00:00:00.000Z',
  '2025-01-31T23:59:59.999Z',
  '2025-02-01T00:00:00.000Z',
  '2025-02-10T12:00:00.000Z',
  '2025-02-10T23:59:59.999Z',
  '2025-02-28T23:59:59.999Z',
  '2025-03-01T00:00:00.000Z',
];
/** So many that a page can be beyond those that are found by counting from an end. */
const SPREAD_USERS = 2_600;
const USERS_OF_AN_INSTANT = 60;

const INSERT = `
  INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at)
  SELECT p.id, (ARRAY['email', 'passkey', 'wallet', 'google'])[1 + n % 4], v, v, at
  FROM projects p, LATERAL (
    SELECT n, timestamptz '2025-01-02T00:00:00Z' + n * interval '31 minutes' AS at, 'spread ' || n AS v FROM generate_series(1, ${SPREAD_USERS}) AS n
    UNION ALL
    SELECT n, at, at || ' ' || n FROM unnest($2::timestamptz[]) AS at, generate_series(1, ${USERS_OF_AN_INSTANT}) AS n
  ) AS each
  WHERE p.app_id = $1`;

interface Row {
  readonly id: string;
  readonly at: number;
  readonly method: string;
}

let project: TestProject;
/** The current users, newest first. */
let truth: Row[];

beforeAll(async () => {
  project = await app.createProject();
  const { pool } = app.context.db;
  // Within an instant, IDs get one digit more.
  const before = 100_000 - SPREAD_USERS - (CROWDED.length * USERS_OF_AN_INSTANT) / 2;
  await pool.query(`SELECT setval('users_id_seq', greatest(nextval('users_id_seq'), ${before}))`);
  await pool.query(INSERT, [project.appId, CROWDED]);
  const mine = 'project_id = (SELECT id FROM projects WHERE app_id = $1)';
  await pool.query(`UPDATE users SET deleted_at = now() WHERE ${mine} AND id % 7 = 0`, [project.appId]);
  const { totals, projects } = app.context.services;
  await totals.fold(await projects.getScope(project.appId));
  // These are not yet in the tallies.
  await pool.query(`UPDATE users SET deleted_at = now() WHERE ${mine} AND deleted_at IS NULL AND id % 50 = 1`, [
    project.appId,
  ]);
  const { rows } = await pool.query(
    `SELECT id::text, login_method::text AS method, created_at AS at FROM users
     WHERE ${mine} AND deleted_at IS NULL ORDER BY created_at DESC, users.id DESC`,
    [project.appId],
  );
  truth = rows.map(({ at, ...row }: Json) => ({ ...row, at: new Date(at).getTime() }));
});

/** An instant by the place of a user, from 0 to 1, and so many milliseconds beside it. */
interface Bound {
  readonly place: number;
  readonly beside: number;
}
const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
const bound: fc.Arbitrary<Bound> = fc.record({ place: share, beside: fc.constantFrom(-1, 0, 0, 1) });
const question = fc.record({
  from: fc.option(bound, { freq: 1 }),
  to: fc.option(bound, { freq: 1 }),
  methods: fc.oneof(fc.constant(Object.values(LoginMethod)), fc.subarray(Object.values(LoginMethod), { minLength: 1 })),
  size: fc.integer({ min: 1, max: 100 }),
  depth: fc.oneof({ weight: 4, arbitrary: share }, fc.constant(0), fc.constant(1)),
});
const instantOf = (given: Bound | null) =>
  given === null ? null : (truth[Math.floor(given.place * truth.length)] as Row).at + given.beside;

const LISTS = `query ($filter: UserFilter, $size: Int!, $page: Int!, $after: String, $before: String) {
  userPage(filter: $filter, limit: $size, page: $page) { totalUser users { id } }
  userCount(filter: $filter)
  forwards: users(filter: $filter, first: $size, after: $after) { ...Page }
  backwards: users(filter: $filter, last: $size, before: $before) { ...Page }
}
fragment Page on UserConnection {
  totalCount nodes { id } pageInfo { startCursor endCursor hasNextPage hasPreviousPage }
}`;

async function exportedIds(filter: Parameters<typeof userFilter>[0]): Promise<string[]> {
  const { transfers, projects } = app.context.services;
  let text = '';
  const write = async (chunk: string | Uint8Array) => {
    text += chunk;
  };
  const { signal } = new AbortController();
  await transfers.exportUsers(await projects.getScope(project.appId), { write, signal, filter: userFilter(filter) });
  return [...text.matchAll(/^\{"id":(\d+)/gm)].map(([, id]) => id as string);
}

test('every list and every total agrees with the table, at every bound', async () => {
  await fc.assert(
    fc.asyncProperty(question, async ({ from, to, methods, size, depth }) => {
      const [start, end] = [instantOf(from), instantOf(to)];
      const right = truth.filter(
        ({ at, method }) =>
          (start === null || at >= start) && (end === null || at <= end) && methods.includes(method as LoginMethod),
      );
      const ids = right.map(({ id }) => id);
      const page = Math.floor((depth * ids.length) / size) + 1;
      const onPage = ids.slice((page - 1) * size, page * size);
      const filter = {
        ...(start !== null && { startDate: new Date(start).toISOString() }),
        ...(end !== null && { endDate: new Date(end).toISOString() }),
        loginMethods: methods.map((method) => method.toUpperCase()),
      };

      const query = new URLSearchParams({ page: `${page}`, limit: `${size}`, login_method: methods.join() });
      if (filter.startDate) query.set('start_date', filter.startDate);
      if (filter.endDate) query.set('end_date', filter.endDate);
      const { body } = await project.rest(`/server/users?${query}`);
      expect(body.result.total_user).toBe(ids.length);
      expect(body.result.users.map((user: Json) => String(user.id))).toEqual(onPage);

      const ask = async (cursors: { after: string | null; before: string | null }) => {
        const { data, errors } = await project.graphql(LISTS, { filter, size, page, ...cursors });
        expect(errors).toBeUndefined();
        return data;
      };
      const first = await ask({ after: null, before: null });
      expect(first.userPage).toEqual({ totalUser: ids.length, users: onPage.map((id) => ({ id })) });
      expect(first.userCount).toBe(ids.length);
      const next = await ask({
        after: first.forwards.pageInfo.endCursor,
        before: first.backwards.pageInfo.startCursor,
      });
      for (const [turn, lists] of [first, next].entries()) {
        if (turn === 1 && ids.length === 0) break;
        const { forwards, backwards } = lists;
        expect(forwards.totalCount).toBe(ids.length);
        const begin = turn * size;
        expect(forwards.nodes.map(({ id }: Json) => id)).toEqual(ids.slice(begin, begin + size));
        expect(forwards.pageInfo).toMatchObject({
          hasNextPage: ids.length > begin + size,
          hasPreviousPage: turn === 1,
        });
        const stop = ids.length - turn * size;
        expect(backwards.nodes.map(({ id }: Json) => id)).toEqual(
          ids.slice(Math.max(0, stop - size), Math.max(0, stop)),
        );
        expect(backwards.pageInfo).toMatchObject({ hasPreviousPage: stop > size, hasNextPage: turn === 1 });
      }

      const exported = await exportedIds({
        createdFrom: start === null ? null : new Date(start),
        createdTo: end === null ? null : new Date(end),
        loginMethods: methods,
      });
      expect(exported).toEqual(ids.toSorted((one, other) => Number(one) - Number(other)));
    }),
    { numRuns: 25 },
  );
}, 120_000);

test('a numbered page far from both ends is exact, too', async () => {
  const wide = fc.record({
    from: fc.option(fc.constant({ place: 0.97, beside: 0 }), { freq: 1 }),
    to: fc.option(fc.constant({ place: 0.02, beside: 0 }), { freq: 1 }),
    without: fc.option(fc.constantFrom(...Object.values(LoginMethod)), { freq: 1 }),
    size: fc.integer({ min: 1, max: 9 }),
    depth: fc.double({ min: 0.3, max: 0.7, noNaN: true }),
  });
  await fc.assert(
    fc.asyncProperty(wide, async ({ from, to, without, size, depth }) => {
      const [start, end] = [instantOf(from), instantOf(to)];
      const right = truth.filter(
        ({ at, method }) => (start === null || at >= start) && (end === null || at <= end) && method !== without,
      );
      const page = Math.floor((depth * right.length) / size) + 1;
      const methods = Object.values(LoginMethod).filter((method) => method !== without);
      const query = new URLSearchParams({ page: `${page}`, limit: `${size}`, login_method: methods.join() });
      if (start !== null) query.set('start_date', new Date(start).toISOString());
      if (end !== null) query.set('end_date', new Date(end).toISOString());
      const { body } = await project.rest(`/server/users?${query}`);
      expect(body.result.users.map((user: Json) => String(user.id))).toEqual(
        right.slice((page - 1) * size, page * size).map(({ id }) => id),
      );
    }),
    { numRuns: 60 },
  );
}, 120_000);

test('users of the first and the last instant are in every list and total, at every bound around them', async () => {
  const own = await app.createProject();
  const DAY = 86_400_000;
  const instants = [0, 1, DAY - 1, DAY, DAY + 1].flatMap((ms) => [EARLIEST.getTime() + ms, LATEST.getTime() - ms]);
  const textOf = (at: number) => new Date(at).toISOString();
  // An import refuses dates that are to come.
  await app.context.db.pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at)
     SELECT p.id, 'google', at, at, at::timestamptz FROM projects p, unnest($2::text[]) AS at WHERE p.app_id = $1`,
    [own.appId, instants.map(textOf)],
  );
  const { totals, projects } = app.context.services;
  const query = `query ($filter: UserFilter) {
    userCount(filter: $filter)
    users(filter: $filter, first: 100) { totalCount nodes { authValue } }
  }`;
  const bounds = [null, ...instants, 12 * DAY];
  // Before and after the tallies have them.
  for (const fold of [null, () => projects.getScope(own.appId).then((scope) => totals.fold(scope))]) {
    await fold?.();
    for (const from of bounds)
      for (const to of bounds) {
        const filter = {
          ...(from !== null && { startDate: textOf(from) }),
          ...(to !== null && { endDate: textOf(to) }),
        };
        const right = instants.filter((at) => (from === null || at >= from) && (to === null || at <= to));
        const { data, errors } = await own.graphql(query, { filter });
        expect(errors).toBeUndefined();
        expect([filter, data]).toEqual([
          filter,
          {
            userCount: right.length,
            users: {
              totalCount: right.length,
              nodes: right.toSorted((a, b) => b - a).map((at) => ({ authValue: textOf(at) })),
            },
          },
        ]);
      }
  }
});
