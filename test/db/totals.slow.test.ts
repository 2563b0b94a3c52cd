import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { userFilter } from '#dist/domain/filters.js';
import { parseProfile } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { bucketCoverOf, totalOf } from '#dist/users/totals.sql.js';
import { type TestProject, useTestApp } from '../support/app.js';

const app = useTestApp();

const METHODS = ['email', 'passkey', 'wallet', 'socials'] as const;

/** Inserts `count` users with the same creation time by plain SQL. */
async function insertUsers(project: TestProject, createdAt: string, count: number, method: string): Promise<void> {
  await app.context.db.query(Prisma.sql`
    INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at)
    SELECT p.id, ${method}, v, v, ${createdAt}::timestamptz
    FROM projects p, generate_series(1, ${count}::int) AS n, LATERAL (SELECT gen_random_uuid()::text || n AS v) AS each
    WHERE p.app_id = ${project.appId}`);
}

async function fold(project: TestProject): Promise<void> {
  const { totals, projects } = app.context.services;
  await totals.fold(await projects.getScope(project.appId));
}

/** The expected users, read from the users table, newest first. */
async function readTruth(project: TestProject) {
  const { rows } = await app.context.db.pool.query<{ id: string; createdAt: Date; method: string }>(
    `SELECT u.id, u.created_at AS "createdAt", u.login_method::text AS method
     FROM users u JOIN projects p ON p.id = u.project_id
     WHERE p.app_id = $1 AND u.deleted_at IS NULL ORDER BY u.created_at DESC, u.id DESC`,
    [project.appId],
  );
  return rows;
}

interface Question {
  from: Date | null;
  to: Date | null;
  methods: readonly string[];
  limit: number;
  /** The position of the page in the whole answer, from 0 to 1. */
  depth: number;
}

async function expectTruth(project: TestProject, questions: readonly Question[]): Promise<void> {
  const truth = await readTruth(project);
  for (const { from, to, methods, limit, depth } of questions) {
    const matching = truth.filter(
      (user) =>
        (from === null || user.createdAt >= from) &&
        (to === null || user.createdAt <= to) &&
        (methods.length === 0 || methods.includes(user.method)),
    );
    const page = Math.floor((depth * matching.length) / limit) + 1;
    const query = new URLSearchParams({ page: String(page), limit: String(limit) });
    if (from !== null) query.set('start_date', from.toISOString());
    if (to !== null) query.set('end_date', to.toISOString());
    if (methods.length > 0) query.set('login_method', methods.join());
    const { body } = await project.rest(`/server/users?${query}`);
    expect({
      query: String(query),
      total: body.result?.total_user,
      ids: body.result?.users.map((user: { id: number }) => user.id),
    }).toEqual({
      query: String(query),
      total: matching.length,
      ids: matching.slice((page - 1) * limit, page * limit).map(({ id }) => Number(id)),
    });
  }
}

const instant = fc.date({ min: new Date('2024-11-20'), max: new Date('2025-03-10'), noInvalidDate: true });
const question: fc.Arbitrary<Question> = fc.record({
  from: fc.option(instant),
  to: fc.option(instant),
  methods: fc.subarray([...METHODS]),
  limit: fc.integer({ min: 1, max: 100 }),
  depth: fc.oneof(fc.double({ min: 0, max: 1, noNaN: true }), fc.constant(1)),
});
const change = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('insert' as const),
      at: fc.oneof(instant, fc.constantFrom(new Date('2025-01-01'), new Date('2025-01-31T23:59:59.999Z'))),
      count: fc.integer({ min: 1, max: 900 }),
      method: fc.constantFrom('email', 'passkey', 'wallet', 'google'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), share: fc.integer({ min: 2, max: 9 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('move' as const), share: fc.integer({ min: 2, max: 9 }), at: instant }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('erase' as const), share: fc.integer({ min: 2, max: 9 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('fold' as const) }) },
);

type Change = typeof change extends fc.Arbitrary<infer Step> ? Step : never;

async function apply(project: TestProject, step: Change): Promise<void> {
  const { db } = app.context;
  const mine = Prisma.sql`project_id = (SELECT id FROM projects WHERE app_id = ${project.appId})`;
  if (step.kind === 'insert') await insertUsers(project, step.at.toISOString(), step.count, step.method);
  else if (step.kind === 'fold') await fold(project);
  else if (step.kind === 'erase') {
    await db.query(Prisma.sql`DELETE FROM users WHERE ${mine} AND id % ${step.share} = 0`);
  } else if (step.kind === 'remove') {
    await db.query(Prisma.sql`UPDATE users SET deleted_at = now() WHERE ${mine} AND id % ${step.share} = 0`);
  } else {
    await db.query(
      Prisma.sql`UPDATE users SET created_at = ${step.at}, auth_method = 'github' WHERE ${mine} AND id % ${step.share} = 0`,
    );
  }
}

test('after any changes, every total and every page agrees with the users table', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(change, { minLength: 3, maxLength: 12 }),
      fc.array(question, { minLength: 8, maxLength: 8 }),
      async (changes, questions) => {
        const project = await app.createProject();
        for (const step of changes) await apply(project, step);
        await expectTruth(project, questions);
        await fold(project);
        await expectTruth(project, questions);
      },
    ),
    { numRuns: 8 },
  );
}, 120_000);

test('a day with many users of one instant is cut into slices, and its deep pages are exact', async () => {
  const project = await app.createProject();
  await insertUsers(project, '2025-01-15T12:00:00Z', 12_000, 'email');
  await insertUsers(project, '2025-01-15T18:00:00Z', 500, 'google');
  await fold(project);
  const slices = await app.context.db.query<{ users: number }>(Prisma.sql`
    SELECT sum(s.users)::int AS users FROM tally_slices s JOIN projects p ON p.id = s.project_id
    WHERE p.app_id = ${project.appId} GROUP BY s.starts_at, s.starts_id`);
  expect(slices.reduce((sum, { users }) => sum + users, 0)).toBe(12_500);
  expect(Math.max(...slices.map(({ users }) => users))).toBeLessThanOrEqual(1_000);
  await insertUsers(project, '2025-01-15T12:00:00Z', 300, 'passkey');
  const everywhere = [0, 0.1, 0.31, 0.5, 0.77, 0.999, 1];
  await expectTruth(
    project,
    everywhere.flatMap((depth) => [
      { from: null, to: null, methods: [], limit: 100, depth },
      { from: null, to: new Date('2025-01-15T17:00:00Z'), methods: [], limit: 7, depth },
      { from: null, to: null, methods: ['socials', 'passkey'], limit: 9, depth },
    ]),
  );
});

/** Instants of a crowded day and of the hours around it; many repeat. */
const DAY = Date.UTC(2025, 4, 10);
const HOUR_MS = 3_600_000;
const hourAround = fc.integer({ min: -6, max: 30 }).map((hour) => new Date(DAY + hour * HOUR_MS));
const instantAround = fc.oneof(
  fc.date({ min: new Date(DAY - 6 * HOUR_MS), max: new Date(DAY + 30 * HOUR_MS), noInvalidDate: true }),
  hourAround,
);
const crowdedChange = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('insert' as const),
      at: instantAround,
      count: fc.integer({ min: 1, max: 1_500 }),
      method: fc.constantFrom('email', 'passkey', 'google'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('remove' as const), share: fc.integer({ min: 2, max: 9 }) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('move' as const),
      share: fc.integer({ min: 5, max: 9 }),
      at: instantAround,
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('fold' as const) }) },
);

test('filters by instants of a crowded day are exact on every page, before and after a fold', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(crowdedChange, { minLength: 1, maxLength: 6 }),
      fc.array(question, { minLength: 10, maxLength: 10 }),
      fc.array(fc.tuple(instantAround, instantAround), { minLength: 10, maxLength: 10 }),
      fc.nat(),
      async (changes, questions, ranges, seed) => {
        const project = await app.createProject();
        // The users are spread over half a day, so that slices start at instants that no filter uses.
        await app.context.db.query(Prisma.sql`
          INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at)
          SELECT p.id, CASE n % 3 WHEN 0 THEN 'email' ELSE 'google' END, 'base' || n, 'base' || n,
                 to_timestamp(${DAY / 1_000}::float8 + hashint8(n + ${seed}::bigint)::bigint % 43200 + 43200)
          FROM projects p, generate_series(1, 6000) AS n
          WHERE p.app_id = ${project.appId}`);
        await fold(project);
        for (const step of changes) await apply(project, step);
        const asked = questions.map((each, index) => {
          const [one, other] = ranges[index] as [Date, Date];
          const [from, to] = one < other ? [one, other] : [other, one];
          return { ...each, from: each.from === null ? null : from, to: each.to === null ? null : to };
        });
        await expectTruth(project, asked);
        await fold(project);
        await expectTruth(project, asked);
        // At the start of a slice, a wrong bound would include or exclude the whole slice.
        const starts = await app.context.db.query<{ at: string }>(Prisma.sql`
          SELECT DISTINCT s.starts_at AS at FROM tally_slices s JOIN projects p ON p.id = s.project_id
          WHERE p.app_id = ${project.appId} ORDER BY 1`);
        expect(starts.length).toBeGreaterThan(3);
        const [second, last] = [starts[1], starts.at(-1)].map((row) => new Date(row?.at ?? '')) as [Date, Date];
        const every = { methods: [], limit: 100, depth: 0.7 };
        await expectTruth(project, [
          { ...every, from: second, to: new Date(last.getTime() - 1) },
          { ...every, from: second, to: last },
          { ...every, from: new Date(second.getTime() + 1), to: null },
          { ...every, from: null, to: second, depth: 0.99 },
        ]);
      },
    ),
    { numRuns: 4 },
  );
}, 120_000);

test('a filter within a crowded day reads only the users of the slices at its ends', async () => {
  const project = await app.createProject();
  await app.context.db.query(Prisma.sql`
    INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, created_at)
    SELECT p.id, 'google', 'v' || n, 'v' || n, to_timestamp(${DAY / 1_000}::float8 + n * 2)
    FROM projects p, generate_series(1, 20000) AS n
    WHERE p.app_id = ${project.appId}`);
  await fold(project);
  await insertUsers(project, new Date(DAY + 9 * HOUR_MS).toISOString(), 30, 'email');
  const { query } = app.context.db;
  const scope = await app.context.services.projects.getScope(project.appId);
  const filter = userFilter({ createdFrom: new Date(DAY + HOUR_MS), createdTo: new Date(DAY + 10 * HOUR_MS) });
  const total = totalOf(Prisma.sql`${scope.projectIdFor('operate')}::int`, filter, bucketCoverOf(filter));
  expect(await query(total)).toEqual([{ total: 16_231, pending: 30 }]);
  const plan = await query<{ 'QUERY PLAN': string }>(Prisma.sql`EXPLAIN (ANALYZE, TIMING off) ${total}`);
  const read = plan
    .map((line) => / on users u .*\(actual rows=(\d+)(?:\.\d+)? loops=(\d+)\)/.exec(line['QUERY PLAN']))
    .reduce((rows, match) => rows + Number(match?.[1] ?? 0) * Number(match?.[2] ?? 0), 0);
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThanOrEqual(4_000);
});

test('a check finds wrong tallies, and a repair corrects them', async () => {
  const project = await app.createProject();
  await insertUsers(project, '2025-02-01T00:00:00Z', 2_500, 'email');
  await fold(project);
  await insertUsers(project, '2025-02-02T00:00:00Z', 5, 'google');
  const { totals, projects } = app.context.services;
  const scope = await projects.getScope(project.appId);
  expect(await totals.check(scope)).toEqual([]);

  await app.context.db.query(
    Prisma.sql`UPDATE tallies SET users = users + 7 WHERE project_id = ${scope.projectIdFor('operate')} AND span <> 'month'`,
  );
  await app.context.db.query(
    Prisma.sql`UPDATE tally_slices SET users = users - 1 WHERE project_id = ${scope.projectIdFor('operate')} AND starts_id > 0`,
  );
  const differences = await totals.check(scope);
  expect(differences).toContainEqual({
    span: 'all',
    starts_at: '1970-01-01T00:00:00.000Z',
    login_method: 'email',
    expected: 2_500,
    actual: 2_507,
  });
  expect(differences.map(({ span }) => span)).toEqual(['all', 'day', 'slice', 'slice']);

  expect(await totals.repair(scope)).toEqual(differences);
  expect(await totals.check(scope)).toEqual([]);
  await expectTruth(project, [{ from: null, to: null, methods: [], limit: 10, depth: 0.9 }]);
});

test('totals are exact after concurrent logins, removals, imports, rollbacks, purges and folds', async () => {
  const project = await app.createProject();
  const { services, db } = app.context;
  const scope = await services.projects.getScope(project.appId);
  const register = (name: string) =>
    services.logins.recordLogin(
      scope,
      parseProfile({ authMethod: 'email', authValue: `${name}@example.com` }, camelCase),
    );

  const steps: ((worker: number, round: number) => Promise<unknown>)[] = [
    (worker, round) => register(`user-${worker}-${round}`),
    (_worker, round) => register(`shared-${round}`),
    async (_worker, round) => {
      // All workers remove the same users, and one of them succeeds.
      const { user } = await register(`shared-${round - 1}`);
      await services.users.removeUser(scope, BigInt(user.id), null).catch(() => undefined);
    },
    (worker, round) =>
      project.addUsers(
        ...Array.from({ length: 40 }, (_, index) => ({
          auth_method: 'google',
          auth_value: `${worker}|${round}|${index}`,
          created_at: new Date(Date.UTC(2025, index % 12, 1 + index)).toISOString(),
        })),
      ),
    (worker, round) =>
      db
        .requestTransaction(async (tx) => {
          await tx.query(Prisma.sql`
            INSERT INTO users (project_id, auth_method, auth_value, auth_value_key)
            VALUES (${scope.projectIdFor('operate')}, 'passkey', ${`${worker}-${round}`}, ${`${worker}-${round}`})`);
          throw new Error('rolled back');
        })
        .catch(() => undefined),
    () => services.users.purgeRemoved(scope, 0),
    () => services.totals.fold(scope),
  ];
  await Promise.all(
    Array.from({ length: 6 }, async (_, worker) => {
      for (let round = 1; round <= 21; round += 1) await steps[(worker * 3 + round) % steps.length]?.(worker, round);
    }),
  );

  const everything = { from: null, to: null, methods: [], limit: 50, depth: 0.6 };
  await expectTruth(project, [
    everything,
    { ...everything, from: new Date('2025-03-02T10:00:00Z'), methods: ['socials'] },
  ]);
  expect(await services.totals.check(scope)).toEqual([]);
  await fold(project);
  expect(await services.totals.check(scope)).toEqual([]);
});

test('a fold that fails in the background is logged once, and the total stays exact', async () => {
  const project = await app.createProject();
  await insertUsers(project, '2025-02-01T00:00:00Z', 100, 'email');
  const { services, db } = app.context;
  const count = async () => {
    const { body } = await project.rest('/server/users/count');
    await services.totals.flush();
    return body.result.total_user;
  };
  const complaints = () => app.logged.filter((line) => line.includes('Folding totals')).map((line) => JSON.parse(line));
  await db.pool.query('ALTER FUNCTION fold_tallies(integer, integer) RENAME TO fold_tallies_away');
  for (let times = 0; times < 3; times += 1) expect(await count()).toBe(100);
  expect(complaints()).toMatchObject([{ err: { code: '42883' } }]);
  await db.pool.query('ALTER FUNCTION fold_tallies_away(integer, integer) RENAME TO fold_tallies');
  expect(await count()).toBe(100);
  expect(await services.totals.check(await services.projects.getScope(project.appId))).toEqual([]);
  expect(complaints()).toHaveLength(1);
});

test('after many registrations and removals that nobody has counted, a total still adds up few of them', async () => {
  const project = await app.createProject();
  const { logins, projects, totals, users } = app.context.services;
  const scope = await projects.getScope(project.appId);
  for (let n = 0; n < 1_100; n += 1) {
    const profile = parseProfile({ authMethod: 'google', authValue: `unread ${n}` }, camelCase);
    const { user } = await logins.recordLogin(scope, profile, { key: n % 100 === 0 ? `key ${n}` : null });
    if (n % 10 === 0) await users.removeUser(scope, BigInt(user.id), null);
  }
  await totals.flush();
  const { rows } = await app.context.db.pool.query(
    'SELECT count(*)::int AS pending FROM tally_deltas d JOIN projects p ON p.id = d.project_id WHERE p.app_id = $1',
    [project.appId],
  );
  expect(rows[0].pending).toBeLessThan(1_000);
  const { body } = await project.rest('/server/users/count');
  expect(body.result.total_user).toBe(990);
});
