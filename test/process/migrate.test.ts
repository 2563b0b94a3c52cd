import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createDatabase } from '#dist/db/database.js';
import type { Json } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { freePort } from '../support/cluster.js';
import { outcomeOf, type Settings, spawnUserdir, useDatabase, userdir, userdirJson } from '../support/command.js';
import { createEmptyDatabase } from '../support/engines.js';
import { makeRelease, type Release, shoeSizes } from '../support/release.js';
import { readDatabaseFacts } from '../support/schema-facts.js';

/** The migrations of a newer release, by its command and its server. */

/** The migrations of this release. */
const OWN = readdirSync(join(ROOT, 'prisma/migrations'))
  .filter((name) => /^\d/.test(name))
  .sort();
const NAME = '20990101000000_shoe_sizes';
const MIGRATION = `${shoeSizes(100)}
-- step: demands a size
-- locks: users (ACCESS EXCLUSIVE)
ALTER TABLE users ADD CONSTRAINT users_have_feet CHECK (shoe_size IS NOT NULL) NOT VALID;

-- step without a transaction: checks the sizes
-- locks: users (SHARE UPDATE EXCLUSIVE)
ALTER TABLE users VALIDATE CONSTRAINT users_have_feet;
`;

const newer: Release = makeRelease('99.0.0', { [NAME]: MIGRATION });
afterAll(() => newer.remove());

const database = useDatabase('for each');
let settings: Settings;
beforeEach(() => {
  settings = { ...database.env, DEMO: 'off', PORT: '0' };
});

const runNewer = (...args: string[]) => outcomeOf(spawnUserdir(settings, args, newer.command));

async function readFacts(): Promise<string> {
  const db = createDatabase(parseConfig(database.env).db);
  await db.start();
  const client = await db.pool.connect();
  try {
    return [...(await readDatabaseFacts(client))].join('\n');
  } finally {
    client.release();
    await db.close();
  }
}

/** What it prints differs by the name of the database alone. */
const testOnPostgres = test.runIf(inject('engine') === 'postgres');

describe('migrate --dry-run', () => {
  testOnPostgres('says which steps would be done where with which locks, and does none', async () => {
    const { host, pathname, username } = new URL(database.env['DATABASE_URL'] as string);
    const target = `the database ${pathname.slice(1)} at ${host}, as ${username}`;
    const { code, stdout } = await runNewer('migrate', '--dry-run');
    expect(code).toBe(0);
    expect(stdout).toBe(`1 migration would be applied to ${target}.
${NAME}
  adds a column (in one transaction)
    locks users (ACCESS EXCLUSIVE)
    waits at most 300 ms for a lock, and holds it for at most 450 ms a statement
  makes an index (without a transaction)
    locks users (SHARE UPDATE EXCLUSIVE)
    takes as long as the table is large; reads and writes go on
  gives everybody a size (in batches)
    locks users (ROW EXCLUSIVE)
    waits at most 300 ms for a row, and holds it for at most 450 ms; again, after as long a pause, until no row is left
  demands a size (in one transaction)
    locks users (ACCESS EXCLUSIVE)
    waits at most 300 ms for a lock, and holds it for at most 450 ms a statement
  checks the sizes (without a transaction)
    locks users (SHARE UPDATE EXCLUSIVE)
    takes as long as the table is large; reads and writes go on
`);
    const { planned } = JSON.parse((await runNewer('migrate', '--dry-run', '--json')).stdout);
    expect(planned).toMatchObject([
      {
        name: NAME,
        steps: [{ mode: 'in one transaction', locks: [{ table: 'users', lock: 'ACCESS EXCLUSIVE' }] }, {}, {}, {}, {}],
      },
    ]);
    expect(await readFacts()).not.toContain('shoe_size');
    expect(planned[0].steps_done).toBe(0);
    expect((await userdir(settings, ['migrate', '--dry-run'])).stdout).toMatch(
      /^The database is up to date for userdir \d+\.\d+\.\d+\.\n$/,
    );
  });

  testOnPostgres('says which releases may serve afterwards, and how much of a migration is done', async () => {
    const outdating = makeRelease('99.1.0', {
      [NAME]: `
-- step: adds a column
-- locks: users (ACCESS EXCLUSIVE)
ALTER TABLE users ADD COLUMN shoe_size int;

-- step: keeps older releases out
CREATE OR REPLACE FUNCTION oldest_release() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '99.0.0';

-- step: cannot be done
SELECT shoe_size FROM nowhere;
`,
    });
    const run = (...args: string[]) => outcomeOf(spawnUserdir(settings, ['migrate', ...args], outdating.command));
    try {
      const [where, first, ...steps] = (await run('--dry-run')).stdout.split('\n');
      expect(where).toMatch(/^1 migration would be applied to .*\.$/);
      expect(first).toBe('Stop older processes first: afterwards only userdir 99.0.0 or newer may serve.');
      expect(steps.slice(0, 2)).toEqual([NAME, '  adds a column (in one transaction)']);
      expect((await run()).code).toBe(1);
      const { planned, oldest_release } = JSON.parse((await run('--dry-run', '--json')).stdout);
      expect(planned).toMatchObject([{ name: NAME, steps_done: 2, steps: [{ what: 'cannot be done' }] }]);
      expect(oldest_release).toBeNull();
      expect((await run('--dry-run')).stdout).toContain(
        `\n${NAME}, of which 2 of 3 steps are done\n  cannot be done (in one transaction)\n`,
      );
    } finally {
      outdating.remove();
    }
  });

  test('creates nothing in a new database', async () => {
    await using empty = await createEmptyDatabase();
    const plan = await userdirJson(empty.env, ['migrate', '--dry-run']);
    expect(plan.planned.map(({ name }: Json) => name)).toEqual(OWN);
    const steps: Json[] = plan.planned.flatMap((migration: Json) => migration.steps);
    for (const step of steps) expect(step.bound).toBe('the database is new, so nobody waits');
    const { stdout } = await userdir(empty.env, ['migrate', '--dry-run']);
    expect(stdout.match(/the database is new/g)).toHaveLength(steps.length);
    expect(stdout).not.toMatch(/Stop older processes/);
    const { findings } = JSON.parse((await userdir(empty.env, ['doctor', '--json'])).stdout);
    expect(findings.find(({ id }: { id: string }) => id === 'migrations').found).toContain(`missing: ${OWN[0]}`);
  });
});

testOnPostgres('migrate --wait ends with 4 when others leave no moment for a step, and names them', async () => {
  const holder = new pg.Client(database.env['DATABASE_URL']);
  await holder.connect();
  await holder.query('BEGIN; SELECT count(*) FROM users');
  const { code, stdout, stderr } = await runNewer('migrate', '--wait', '1s');
  expect({ code, stdout }).toEqual({ code: 4, stdout: '' });
  expect(stderr).toMatch(
    new RegExp(
      `${NAME}, adds a column: waits for other transactions; the oldest, of PostgreSQL's process \\d+ and role \\w+, open for \\d+ s, uses users`,
    ),
  );
  expect(stderr).toMatch(
    /left no moment for it in .*Run userdir migrate again when they have ended, or with a longer --wait\.\n$/,
  );
  await holder.query('COMMIT');
  await holder.end();
  expect(JSON.parse((await runNewer('migrate', '--json')).stdout)).toEqual({ applied: [NAME] });
});

testOnPostgres('a server that waits for a moment to migrate says so at /readyz, and ends at SIGTERM', async () => {
  const holder = new pg.Client(database.env['DATABASE_URL']);
  await holder.connect();
  await holder.query('BEGIN; SELECT count(*) FROM users');
  const port = await freePort();
  const server = spawnUserdir({ ...settings, PORT: String(port) }, ['serve', '--json'], newer.command);
  const outcome = outcomeOf(server);
  let log = '';
  for (const line of ['waits for other transactions', 'Listening at'])
    while (!log.includes(line)) log += (await once(server.stderr, 'data'))[0];
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
  expect({ status: answer.status, body: await answer.json() }).toEqual({
    status: 503,
    body: { error: 'The database is being migrated.' },
  });
  server.kill('SIGTERM');
  expect(await outcome).toMatchObject({ code: 0, stdout: '' });
  await holder.query('COMMIT');
  await holder.end();
  expect((await runNewer('migrate')).code).toBe(0);
});
