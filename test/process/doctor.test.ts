import { chmod, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, inject, test } from 'vitest';
import { syntheticUsers } from '#dist/users/synthetic-users.js';
import type { Json } from '../support/app.js';
import { type Settings, useDatabase, userdir, useServer, withDirectory } from '../support/command.js';
import { queryPostgres } from '../support/engines.js';

const isEmbedded = inject('engine') === 'embedded';

/** The findings by id; checks that they agree with the exit code. */
async function examine(settings: Settings, ...args: string[]): Promise<Record<string, Json>> {
  const { code, stdout, stderr } = await userdir(settings, ['doctor', '--json', ...args]);
  expect(stderr).toBe('');
  const { ok, findings } = JSON.parse(stdout);
  expect(ok).toBe(findings.every(({ status }: Json) => status !== 'failed'));
  expect(code).toBe(ok ? 0 : 1);
  return Object.fromEntries(findings.map(({ id, ...finding }: Json) => [id, finding]));
}

const statusesOf = (findings: Record<string, Json>) =>
  Object.fromEntries(Object.entries(findings).map(([id, { status }]) => [id, status]));

const OF_ANY_DATABASE = ['database', 'clock', 'encoding', 'time-zone', 'migrations', 'rights', 'totals'];
const OF_DATABASE = isEmbedded ? OF_ANY_DATABASE : [...OF_ANY_DATABASE, 'writable', 'connections', 'durability'];

describe('beside a running server,', () => {
  const { run, runJson, createProject } = useServer();

  test('doctor finds no problems and changes nothing', async () => {
    const { app_id: appId } = await createProject();
    await runJson('seed', '--project', appId, '--users', '30');
    const { code, stdout, stderr } = await run('doctor');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(/\n✓ {2}totals +exact for 30 users of 1 project\n/);
    expect(stdout).toMatch(/\n\nNo problems, \d+ warnings?\.\n$/);
    if (isEmbedded) expect(stdout).toMatch(/\n✓ {2}server +pid \d+ holds the data directory/);
    expect(await runJson('project', 'list')).toMatchObject([{ app_id: appId, total_user: 30 }]);
  });

  test('--json contains every finding with its id, and --no-totals skips the count', async () => {
    const { ok, findings } = await runJson('doctor', '--no-totals');
    expect(ok).toBe(true);
    for (const finding of findings)
      expect(finding).toEqual({
        id: expect.stringMatching(/^[a-z-]+$/),
        status: expect.stringMatching(/^(passed|warning|skipped)$/),
        found: expect.any(String),
        advice: finding.status === 'warning' ? expect.any(String) : null,
      });
    const ids = findings.map(({ id }: Json) => id);
    expect(ids).toEqual(
      expect.arrayContaining(['settings', 'node', 'packages', 'redis', 'data-directory', ...OF_DATABASE]),
    );
    expect(findings.find(({ id }: Json) => id === 'totals')).toMatchObject({ status: 'skipped' });
  });
});

describe('while no server runs,', () => {
  const database = useDatabase();
  let appId: string;
  beforeAll(async () => {
    await withDirectory(database.env, async ({ db, services }) => {
      appId = (await services.projects.createProject('Test')).appId;
      const scope = await services.projects.getScope(appId);
      await services.transfers.addUsers(scope, syntheticUsers(5, 1));
      await db.pool.query('DELETE FROM tallies; DELETE FROM tally_deltas');
      await db.pool.query(
        "INSERT INTO _prisma_migrations (id, checksum, migration_name) VALUES ('1', '', '29990101000000_later')",
      );
    });
  });

  test('wrong tallies and a migration of a newer version are reported', async () => {
    const findings = await examine(database.env);
    for (const id of ['database', 'clock', 'encoding', 'time-zone', 'rights'])
      expect(findings[id]).toMatchObject({ status: 'passed', advice: null });
    expect(findings['totals']).toEqual({
      status: 'failed',
      found: `wrong in ${appId}`,
      advice: 'Run npm run -s userdir -- totals check --repair.',
    });
    expect(findings['migrations']).toMatchObject({
      status: 'warning',
      found: expect.stringContaining('29990101000000_later, which this version does not know'),
    });
  });

  test('a malformed setting is named, and the other checks still run and report a missing migration', async () => {
    await withDirectory(database.env, ({ db }) =>
      db.pool.query("UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name LIKE '%_first_schema'"),
    );
    const { settings, migrations, rights, totals } = await examine({ ...database.env, PORT: 'x', RATE_LIMIT: '-1' });
    expect(settings).toEqual({
      status: 'failed',
      found: 'PORT must be a whole number from 0 to 65535.\nRATE_LIMIT must be a whole number from 1 to 100000000.',
      advice: 'Correct or unset PORT, RATE_LIMIT.',
    });
    expect(migrations).toEqual({
      status: 'failed',
      found: expect.stringMatching(/^missing: \d+_first_schema$/),
      advice: expect.stringContaining('userdir -- migrate'),
    });
    expect([rights, totals]).toMatchObject([{ status: 'skipped' }, { status: 'skipped' }]);
  });

  test('problems are not repaired, and a data directory that other system users can open is reported', async () => {
    await chmod(database.env['DATA_DIR'] as string, 0o755);
    const findings = await examine(database.env);
    expect(findings['migrations']).toMatchObject({ status: 'failed' });
    if (isEmbedded)
      expect(findings['data-directory']).toMatchObject({
        status: 'warning',
        advice: expect.stringMatching(/^chmod 700 /),
      });
  });

  describe.skipIf(isEmbedded)('on PostgreSQL', () => {
    const url = () => new URL(database.env['DATABASE_URL'] as string);
    const name = () => url().pathname.slice(1);

    const administer = (sql: string) => queryPostgres(url().href, sql);

    test('a role with read-only rights is reported', async () => {
      const role = `${name()}_reader`;
      await administer('UPDATE _prisma_migrations SET finished_at = now()');
      await administer(`CREATE ROLE "${role}" LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "${role}"`);
      const asReader = url();
      asReader.username = role;
      const asked = { ...database.env, DATABASE_URL: asReader.href };
      const { rights } = await examine(asked, '--no-totals');
      // What it advises is what is missing.
      await administer(rights.advice.replace(/^.*\n/, ''));
      const { rights: granted } = await examine(asked, '--no-totals');
      await administer(`DROP OWNED BY "${role}"; DROP ROLE "${role}"`);
      expect(rights).toMatchObject({
        status: 'failed',
        found: expect.stringMatching(/ users \(INSERT, UPDATE, DELETE\), .*users_id_seq \(USAGE\)/),
      });
      expect(rights.found).not.toContain('SELECT');
      expect(granted).toMatchObject({ status: 'passed' });
    });

    test('a read-only database and a wrong clock are reported', async () => {
      await administer(`
        CREATE SCHEMA shifted;
        CREATE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql
          AS $$ SELECT pg_catalog.clock_timestamp() - interval '1 hour' $$;
        ALTER DATABASE "${name()}" SET search_path = shifted, pg_catalog, public;
        ALTER DATABASE "${name()}" SET default_transaction_read_only = on`);
      const { writable, clock } = await examine(database.env, '--no-totals');
      await administer(`
        SET transaction_read_only = off;
        ALTER DATABASE "${name()}" RESET ALL;
        DROP SCHEMA shifted CASCADE`);
      expect(writable).toMatchObject({ status: 'failed', found: 'transactions are read-only' });
      expect(clock).toMatchObject({ status: 'failed', advice: expect.stringContaining('NTP') });
      const [, behindMs] = /is (\d+) ms behind/.exec(clock.found) ?? [];
      expect(Number(behindMs)).toBeGreaterThan(3_590_000);
    });

    test('a database in another encoding is reported', async () => {
      const other = `${name()}_ascii`;
      await administer(
        `CREATE DATABASE "${other}" TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'`,
      );
      const inAscii = url();
      inAscii.pathname = `/${other}`;
      const { encoding } = await examine({ ...database.env, DATABASE_URL: inAscii.href });
      await administer(`DROP DATABASE "${other}"`);
      expect(encoding).toMatchObject({ status: 'failed', found: 'SQL_ASCII, and it must be UTF8' });
    });
  });
});

// These tests open no database, so one engine is enough.
describe.runIf(isEmbedded)('without a database,', () => {
  test('servers that do not answer are reported without their passwords', async () => {
    const settings = {
      DATABASE_URL: 'postgres://me:hush@127.0.0.1:9/x',
      RATE_LIMIT: '5',
      REDIS_URL: 'redis://:hush@127.0.0.1:9',
    };
    const { code, stdout } = await userdir(settings, ['doctor']);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /✗ {2}database +The database of DATABASE_URL cannot be reached: .*\n +→ Start PostgreSQL, or/,
    );
    expect(stdout).toMatch(/✗ {2}redis +does not answer: /);
    expect(stdout).toMatch(/\n\n2 problems, \d+ warnings?\.\n$/);
    expect(stdout).not.toContain('hush');
  });

  test('a data directory that does not exist passes, and is not created', async () => {
    const dataDir = join('/tmp', `userdir-never-${process.pid}`);
    const findings = await examine({ DATA_DIR: dataDir });
    expect(findings['data-directory']).toMatchObject({
      status: 'passed',
      found: expect.stringContaining('does not exist yet'),
    });
    expect(findings['database']).toMatchObject({ status: 'skipped' });
    await expect(stat(dataDir)).rejects.toThrow('ENOENT');
  });

  test('a malformed DATABASE_URL skips the database checks', async () => {
    const findings = await examine({ DATABASE_URL: 'mysql://me:hush@127.0.0.1/x' });
    expect(statusesOf(findings)).toMatchObject({ settings: 'failed', database: 'skipped' });
    // A warning on a release of Node.js that is no longer supported.
    expect(findings['node']).toMatchObject({ status: expect.stringMatching(/^(passed|warning)$/) });
    expect(JSON.stringify(findings)).not.toContain('hush');
  });

  test('unsafe settings are reported', async () => {
    const settings = { DATA_DIR: '/tmp/userdir-never', HOST: '0.0.0.0' };
    expect(statusesOf(await examine(settings))).toMatchObject({ graphiql: 'warning' });
    const production = { ...settings, NODE_ENV: 'production' };
    expect(statusesOf(await examine({ ...production, EMBEDDED: 'on' }))).toMatchObject({ production: 'warning' });
    expect(await examine({ ...production, DATABSE_URL: 'x' })).toMatchObject({
      settings: { status: 'failed', advice: 'Set DATABASE_URL.' },
      'setting-names': { status: 'warning', found: expect.stringContaining('Did you mean DATABASE_URL?') },
    });
  });
});
