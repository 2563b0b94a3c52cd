import type { Pool } from 'pg';
import { expect, test } from 'vitest';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, startTestApp } from '../support/app.js';

/** The cost of a line does not grow with the lines before it, in a database that was never analyzed. */
const LINES = 2_500;
/** Rows that statements, triggers and foreign keys may read of a table, for a line with two accounts. */
const MAX_ROWS_A_LINE = 15;

const TABLES = ['users', 'accounts', 'bans'];

/** How many rows were read so far, by indexes and without. */
async function rowsRead(pool: Pool): Promise<Record<string, number>> {
  await pool.query('SELECT pg_stat_force_next_flush()');
  await pool.query('SELECT 1');
  const { rows } = await pool.query(`
    SELECT t.relname AS name, (t.seq_tup_read + coalesce(sum(i.idx_tup_read), 0))::float8 AS rows
    FROM pg_stat_user_tables t LEFT JOIN pg_stat_user_indexes i USING (relid) GROUP BY t.relname, t.seq_tup_read`);
  return Object.fromEntries(rows.map(({ name, rows: read }: Json) => [name, read]));
}

const account = (n: number) => ({ network: 'ethereum', public_key: ethereumAddress(n) });
const line = (n: number) => ({
  auth_method: 'google',
  auth_value: `g-${n}`,
  email: `u${n}@example.com`,
  external_id: `x-${n}`,
  login_count: 1,
  accounts: [account(2 * n), account(2 * n + 1)],
});

const lines = Array.from({ length: LINES }, (_, n) => line(n));
const withOther = lines.map((each, n) => ({ ...each, accounts: [account(-1 - n)] }));
const fewerLogins = lines.map((each) => ({ ...each, login_count: 0 }));
const bans = lines.map(({ auth_method, auth_value }) => ({ ban: { auth_method, auth_value } }));

test.each([
  ['of new users', [], 'fail'],
  ['that skips users who exist', lines, 'skip'],
  ['that finds users unchanged', lines, 'update'],
  ['that updates users and adds accounts', withOther, 'update'],
  ['that replaces what users have', fewerLogins, 'replace'],
  ['of bans of users', bans, 'fail'],
] as const)(
  'an import %s reads few rows for each line, however many came before',
  async (_, next, onConflict) => {
    const app = await startTestApp({ ownDatabase: true });
    const { pool } = app.context.db;
    // As in the first minute of a new database.
    for (const table of TABLES) await pool.query(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`);
    const project = await app.createProject();
    const before = await rowsRead(pool);
    expect(await project.importLines(lines, { onConflict })).toMatchObject({ failed: 0, created: LINES });
    expect(await project.importLines(next, { onConflict })).toMatchObject({ failed: 0, created: 0 });
    const after = await rowsRead(pool);
    for (const table of TABLES) {
      const rows = (after[table] ?? 0) - (before[table] ?? 0);
      expect.soft(rows / (lines.length + next.length), table).toBeLessThan(MAX_ROWS_A_LINE);
    }
    // For the reads that come next.
    const analyzed = await pool.query(`SELECT reltuples FROM pg_class WHERE oid = 'users'::regclass`);
    expect(analyzed.rows[0].reltuples).toBe(LINES);
    await app.close();
  },
  600_000,
);
