import { expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { parseAddress } from '#dist/domain/addresses.js';
import { ethereumAddress } from '../support/addresses.js';
import { useTestApp } from '../support/app.js';

/** A connection may plan a statement once, while tables are empty. The plan must also be good for a million users. */

const app = useTestApp({ ownDatabase: true, env: { DATABASE_POOL_SIZE: '1' } });

/** Runs every look-up by one key until its plan is generic, then checks the plans. */
async function expectLookUps() {
  const { services, db } = app.context;
  const scope = await services.projects.getScope((await services.projects.createProject('Empty')).appId);
  const address = parseAddress(ethereumAddress(1)) as Exclude<ReturnType<typeof parseAddress>, { reason: string }>;
  // The embedded database chooses the generic plan after five executions.
  for (let time = 0; time < 7; time += 1) {
    await services.users.findUser(scope, 1n);
    await services.users.findIdentity(scope, { authMethod: 'google', authValue: 'x', authValueKey: 'x' });
    await services.users.findByExternalId(scope, 'x');
    await services.users.searchByEmail(scope, 'nobody@example.com');
    await services.users.searchByAddress(scope, address);
    await services.wallets.findOwner(scope, { address, userId: null });
    await services.accounts.listAccounts(scope, 1);
    await expect(services.users.removeUser(scope, 1n, null)).rejects.toThrow('no user');
  }
  const prepared = await db.query<{ name: string; parameters: number; statement: string }>(Prisma.sql`
    SELECT name, cardinality(parameter_types) AS parameters, statement FROM pg_prepared_statements
    WHERE statement ~ '(FROM|UPDATE) (users|accounts) ' AND statement !~ 'pg_prepared_statements|INSERT INTO users'`);
  expect(prepared).toHaveLength(8);
  for (const { name, parameters, statement } of prepared) {
    const nothing = new Array(parameters).fill('NULL').join();
    const { rows } = await db.pool.query(`EXPLAIN (COSTS off) EXECUTE ${name}(${nothing})`);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan, statement).not.toMatch(/Seq Scan/);
    const conditions = [...plan.matchAll(/Index Cond: (.*)/g)].map(
      ([, condition = '']) => condition.split(' AND ').length,
    );
    expect(conditions.length, plan).toBeGreaterThan(0);
    expect(Math.min(...conditions), plan).toBeGreaterThan(1);
  }
}

test('every look-up has the whole key in its index conditions, even with empty tables', () => expectLookUps());

test('the same plans are chosen when most users have the same email and address', async () => {
  const { db } = app.context;
  const project = await app.createProject('Skewed');
  const account = { network: 'ethereum', public_key: ethereumAddress(2) };
  const users = Array.from({ length: 2_500 }, (_, n) => ({
    auth_method: 'google',
    auth_value: `skewed ${n}`,
    email: 'one@example.com',
    accounts: [account],
  }));
  await project.addUsers(...users);
  await db.pool.query('ANALYZE users, accounts');
  await db.pool.query('DISCARD PLANS');
  await expectLookUps();
});
