import { expect, test } from 'vitest';
import { Prisma } from '#dist/db/statements.js';
import { parseAddress } from '#dist/domain/wallets.js';
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
    await services.wallets.findOwner(scope, { address, userId: 1n });
    await Promise.all([1n, 2n].map((userId) => services.wallets.findOwner(scope, { address, userId })));
    await services.accounts.listAccounts(scope, 1);
    await expect(services.users.removeUser(scope, 1n, null)).rejects.toThrow('no user');
  }
  const prepared = await db.query<{ name: string; parameters: number; statement: string }>(Prisma.sql`
    SELECT name, cardinality(parameter_types) AS parameters, statement FROM pg_prepared_statements
    WHERE statement ~ '(FROM|UPDATE) (users|accounts) ' AND statement !~ 'pg_prepared_statements|INSERT INTO users'`);
  expect(prepared).toHaveLength(10);
  // Where a value is rare and others are not, the embedded database goes on to plan for each value. The plan for any value has to be good, too.
  await db.pool.query('SET plan_cache_mode = force_generic_plan');
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
  await db.pool.query('RESET plan_cache_mode');
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

interface PlanNode {
  'Node Type': string;
  'Index Cond'?: string;
  'Parent Relationship'?: string;
  Plans?: PlanNode[];
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)];
}

/** What is done again with each execution of a node: not what it reads once (InitPlan). */
function repeatedNodesOf(node: PlanNode): PlanNode[] {
  const repeated = (node.Plans ?? []).filter((child) => child['Parent Relationship'] !== 'InitPlan');
  return [node, ...repeated.flatMap(repeatedNodesOf)];
}

test('an import compares no row of a batch with each other row: it joins them by hashes, or looks them up in an index', async () => {
  const { services, db } = app.context;
  const scope = await services.projects.getScope((await services.projects.createProject('Imported')).appId);
  const line = (n: number, address: number) =>
    JSON.stringify({
      auth_method: 'google',
      auth_value: `imported ${n}`,
      external_id: `external ${n}`,
      login_count: 1,
      accounts: [{ network: 'ethereum', public_key: ethereumAddress(address) }],
    });
  // The second time no user is new, the third time each gets an account.
  for (const [onConflict, addresses] of [
    ['skip', 10],
    ['skip', 10],
    ['update', 20],
  ] as const) {
    const input = Buffer.from(`${[1, 2, 3].map((n) => line(n, addresses + n)).join('\n')}\n`);
    const options = { onConflict, skipInvalid: false, progress: () => undefined, signal: AbortSignal.timeout(60_000) };
    await services.transfers.importUsers(scope, toAsync([input]), options);
  }
  const prepared = await db.query<{ name: string; parameters: number }>(Prisma.sql`
    SELECT name, cardinality(parameter_types) AS parameters FROM pg_prepared_statements
    WHERE statement ~ 'WITH ORDINALITY AS r|AS (r|given).record_index' AND statement !~ 'pg_prepared_statements'`);
  expect(prepared).toHaveLength(6);
  await db.pool.query('SET plan_cache_mode = force_generic_plan');
  for (const { name, parameters } of prepared) {
    const nothing = new Array(parameters).fill('NULL').join();
    const { rows } = await db.pool.query(`EXPLAIN (FORMAT json) EXECUTE ${name}(${nothing})`);
    const nodes = nodesOf(rows[0]['QUERY PLAN'][0].Plan);
    const inner = nodes
      .filter((node) => node['Node Type'] === 'Nested Loop')
      .flatMap(({ Plans = [] }) => Plans.slice(1));
    const conditions = nodes.flatMap((node) => node['Index Cond']?.split(' AND ').length ?? []);
    expect(Math.min(...conditions)).toBeGreaterThan(1);
    expect(inner.flatMap(repeatedNodesOf).map((node) => node['Node Type'])).not.toContain('CTE Scan');
  }
});

async function* toAsync<Item>(items: Item[]): AsyncGenerator<Item> {
  yield* items;
}
