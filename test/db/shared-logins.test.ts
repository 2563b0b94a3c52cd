import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Profile, parseIdentity, parseProfile } from '#dist/domain/identities.js';
import type { ProjectScope } from '#dist/domain/projects.js';
import { camelCase } from '#dist/domain/spelling.js';
import { AppError } from '#dist/errors.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, useTestApp } from '../support/app.js';

/**
 * Logins that come at once share statements. They have to end as if each had been sent after the one before it: the same answers, rows,
 * accounts, changes and totals. SHARED_LOGINS_RUNS is the number of histories; SHARED_LOGINS_SEED repeats those of a run.
 */

const RUNS = Number(process.env['SHARED_LOGINS_RUNS'] ?? 20);
const SEED = Number(process.env['SHARED_LOGINS_SEED'] ?? Date.now() % 2 ** 31);

const app = useTestApp();

const NAMES = ['ada', 'grace', 'joan', 'mary', 'rosa'];
/** Two lists of 60 accounts, of which a user can have one and not both, and some of few. */
const ADDRESSES = Array.from({ length: 120 }, (_, number) => stellarAddress(number));
const ACCOUNTS: readonly Login['accounts'][] = [
  [0, 0],
  [0, 1],
  [1, 3],
  [119, 120],
  [0, 60],
  [60, 120],
];

const login: fc.Arbitrary<Login> = fc.record({
  project: fc.nat(1),
  name: fc.constantFrom(...NAMES),
  email: fc.constantFrom(undefined, 'one@example.com', 'two@example.com'),
  externalId: fc.constantFrom(undefined, undefined, undefined, 'e1', 'e2'),
  wallet: fc.constantFrom(undefined, undefined, ADDRESSES[0]),
  accounts: fc.constantFrom(...ACCOUNTS),
  key: fc.constantFrom(null, null, null, 'k1', 'k2'),
});
/** The statement of logins that only register or count is another one. */
const plain: fc.Arbitrary<Login> = login.map(({ project, name, email }) => {
  return { project, name, email, accounts: [0, 0], key: null };
});
const historyOf = (one: fc.Arbitrary<Login>) => fc.array(one, { minLength: 1, maxLength: 40 });
interface Login {
  readonly project: number;
  readonly name: string;
  readonly email?: string | undefined;
  readonly externalId?: string | undefined;
  readonly wallet?: string | undefined;
  /** A part of ADDRESSES. */
  readonly accounts: readonly [from: number, to: number];
  readonly key: string | null;
}

function profileOf({ name, email, externalId, wallet, accounts }: Login): Profile {
  const linked = ADDRESSES.slice(...accounts).map((publicKey) => ({ network: 'stellar' as const, publicKey }));
  return parseProfile(
    { authMethod: 'google', authValue: name, email, externalId, wallet, accounts: linked },
    camelCase,
  );
}

/** Two projects; the names are banned from the first one. */
async function makeProjects(banned: readonly string[]): Promise<ProjectScope[]> {
  const { projects, bans } = app.context.services;
  return Promise.all(
    [banned, []].map(async (names) => {
      const scope = await projects.getScope((await app.createProject()).appId);
      for (const authValue of names)
        await bans.ban(scope, parseIdentity({ authMethod: 'google', authValue }, camelCase));
      return scope;
    }),
  );
}

/** The answer to a login without ids and instants. That to a retry shows the user as of then, so only who it is. */
async function answerTo(scopes: readonly ProjectScope[], given: Login, isRetry: boolean): Promise<Json> {
  try {
    const scope = scopes[given.project] as ProjectScope;
    const { created, user } = await app.context.services.logins.recordLogin(scope, profileOf(given), {
      key: given.key,
    });
    const { authValue, loginEmail, wallet, externalId, loginCount } = user;
    return isRetry ? { created, authValue } : { created, authValue, loginEmail, wallet, externalId, loginCount };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return { code: error.code, message: error.publicMessage.replace(/User \d+/, 'User') };
  }
}

/** What the database has of a project, by user, without ids and instants. */
async function contentOf(scope: ProjectScope): Promise<Json> {
  const { rows } = await app.context.db.pool.query(
    `SELECT u.auth_value, u.login_email, u.wallet, u.external_id, u.login_count, u.last_login >= u.created_at AS is_late,
       (SELECT json_agg(json_build_array(a.public_key, a.wallet_type) ORDER BY a.id) FROM accounts a WHERE a.project_id = u.project_id AND a.user_id = u.id) AS accounts,
       (SELECT json_agg(json_build_array(c.type, c.fields) ORDER BY c.id) FROM changes c WHERE c.project_id = u.project_id AND c.user_id = u.id) AS changes
     FROM users u WHERE u.project_id = $1 ORDER BY u.auth_value`,
    [scope.projectIdFor('operate')],
  );
  expect(await app.context.services.totals.check(scope)).toEqual([]);
  return rows;
}

test('logins at once end as one after the other', async () => {
  let statements = 0;
  let logins = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(historyOf(login), historyOf(plain)),
      fc.subarray(NAMES, { maxLength: 1 }),
      async (given, banned) => {
        const [alone, together] = await Promise.all([makeProjects(banned), makeProjects(banned)]);
        const isRetry = ({ project, key }: Login, place: number) =>
          key !== null && given.slice(0, place).some((before) => before.project === project && before.key === key);
        const expected: Json[] = [];
        for (const [place, one] of given.entries()) expected.push(await answerTo(alone, one, isRetry(one, place)));

        app.statements.length = 0;
        const answers = await Promise.all(given.map((one, place) => answerTo(together, one, isRetry(one, place))));
        statements += app.statements.filter((sql) => sql.includes('INSERT INTO users')).length;
        logins += given.length;
        expect(answers).toEqual(expected);
        for (const project of [0, 1])
          expect(await contentOf(together[project] as ProjectScope)).toEqual(
            await contentOf(alone[project] as ProjectScope),
          );
      },
    ),
    { numRuns: RUNS, seed: SEED },
  );
  expect(statements).toBeLessThan(logins);
});

test('logins of many users at once are one statement, after the first', async () => {
  const scopes = await makeProjects([]);
  app.statements.length = 0;
  const once = () =>
    Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        answerTo(
          scopes,
          { project: n % 2, name: `user ${n}`, accounts: [n, n + 2], key: n % 3 === 0 ? `k${n}` : null },
          false,
        ),
      ),
    );
  await once();
  app.statements.length = 0;
  const answers = await once();
  expect(answers.map(({ loginCount }) => loginCount)).toEqual(answers.map((_, n) => (n % 3 === 0 ? 1 : 2)));
  expect(app.statements.filter((sql) => sql.includes('INSERT INTO users'))).toHaveLength(1);
});

test.each([
  ['has another external ID', 'e2'],
  ['has none', null],
])(
  'a retry is answered as at first, alone and beside others, where its user %s and another user the one it names',
  async (_, now) => {
    const { logins, users } = app.context.services;
    for (const count of [0, 3]) {
      const [, scope] = await makeProjects([]);
      const given: Login = { project: 0, name: 'ada', externalId: 'e1', accounts: [0, 0], key: 'k1' };
      const record = (one: Login) => logins.recordLogin(scope as ProjectScope, profileOf(one), { key: one.key });
      const first = await record(given);
      await users.updateUser(scope as ProjectScope, BigInt(first.user.id), { externalId: now }, null);
      await record({ ...given, name: 'grace', key: null });
      const others = Array.from({ length: count }, (_, n) => ({
        ...given,
        name: `o${n}`,
        externalId: `o${n}`,
        key: null,
      }));
      const before = app.statements.length;
      const [retried] = await Promise.all([given, ...others].map(record));
      expect(retried).toMatchObject({ created: true, user: { id: first.user.id, loginCount: 1 } });
      // They share a statement.
      expect(app.statements.slice(before).filter((sql) => /INSERT INTO users/.test(sql))).toHaveLength(1);
    }
  },
);
