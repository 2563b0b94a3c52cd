import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import { parseProfile } from '#dist/domain/identities.js';
import { snakeCase } from '#dist/domain/spelling.js';
import { BIN, type Cluster, createCluster, hasPostgres } from '../support/cluster.js';
import { userdir, userdirJson } from '../support/command.js';
import { queryPostgres } from '../support/engines.js';

/** Every documented dump and restore (docs/operating.md), if this machine has PostgreSQL's programs. */
describe.runIf(inject('engine') === 'postgres' && hasPostgres)('totals are exact, and no ID is given again,', () => {
  let cluster: Cluster;
  let source: string;
  let folder: string;
  let appId: string;

  const settingsOf = (url: string) => ({ DATABASE_URL: url });
  const run = (program: string, ...args: string[]) => execFileSync(join(BIN, program), args, { stdio: 'pipe' });
  const dump = (...options: string[]) => {
    const file = join(folder, 'userdir.dump');
    run('pg_dump', '--format=custom', `--file=${file}`, ...options, source);
    return file;
  };

  async function makeDatabase(name: string): Promise<string> {
    await queryPostgres(cluster.url, `CREATE DATABASE ${name}`);
    const url = new URL(cluster.url);
    url.pathname = `/${name}`;
    return url.href;
  }
  const makeMigrated = async (name: string) => {
    const url = await makeDatabase(name);
    await userdirJson(settingsOf(url), ['migrate']);
    return url;
  };

  beforeAll(async () => {
    cluster = await createCluster();
    folder = mkdtempSync(join(tmpdir(), 'userdir-dump-'));
    source = await makeMigrated('source');
    const directory = createContext(parseConfig(settingsOf(source)), { command: 'test' });
    await directory.open();
    const { projects, bans, transfers, totals, users } = directory.services;
    const project = await projects.createProject('Test');
    appId = project.appId;
    const scope = await projects.getScope(appId);
    const emails = (from: number, count: number) =>
      Array.from({ length: count }, (_, index) => {
        const value = `${from + index}@example.com`;
        const user = { authMethod: 'email', authValue: value, email: value, externalId: `id-${value}` };
        // Enough logins on one day to create slices.
        return {
          ...parseProfile(user, snakeCase),
          lastLogin: null,
          loginCount: null,
          createdAt: new Date(Date.UTC(2026, 0, 1, 0, 0, index)),
        };
      });
    await transfers.addUsers(scope, emails(0, 2_500));
    await totals.fold(scope);
    // And some deltas that are not folded yet.
    const [first] = await queryPostgres(source, 'SELECT min(id)::int AS id FROM users');
    await users.removeUser(scope, first.id, null);
    await transfers.addUsers(scope, emails(2_500, 3));
    await bans.ban(scope, { authMethod: 'email', authValue: 'eve@example.com', authValueKey: 'eve@example.com' });
    await directory.close();
    // The first command after that notes where the database runs.
    await userdirJson(settingsOf(source), ['project', 'list']);
    const [{ deltas, slices }] = await queryPostgres(
      source,
      'SELECT (SELECT count(*)::int FROM tally_deltas) AS deltas, (SELECT count(*)::int FROM tally_slices) AS slices',
    );
    expect([deltas > 0, slices > 0]).toEqual([true, true]);
  });
  afterAll(async () => {
    rmSync(folder, { recursive: true });
    await cluster.drop();
  });

  /** Expects exact totals in the project list and in a full count, and one more login to be counted. */
  async function requireExact(url: string): Promise<void> {
    const settings = settingsOf(url);
    expect(await userdirJson(settings, ['totals', 'check'])).toMatchObject({ projects: 1, differences: [] });
    expect(await userdirJson(settings, ['project', 'list'])).toMatchObject([{ app_id: appId, total_user: 2_502 }]);
    const one = '{"auth_method":"email","auth_value":"after@example.com"}';
    await userdirJson(settings, ['user', 'import', '--project', appId], one);
    expect(await userdirJson(settings, ['totals', 'check'])).toMatchObject({ differences: [] });
    expect(await userdirJson(settings, ['project', 'list'])).toMatchObject([{ total_user: 2_503 }]);
    expect((await queryPostgres(url, 'SELECT max(id) AS id FROM users'))[0].id).toBe('10000000001');
  }

  test('after a dump of everything', async () => {
    const target = await makeDatabase('everything');
    run('pg_restore', '--exit-on-error', '--no-owner', `--dbname=${target}`, dump());
    await requireExact(target);
  });

  test('after a data-only restore without the tallies, because the triggers count', async () => {
    const file = dump(
      '--data-only',
      '--exclude-table=_prisma_migrations',
      '--exclude-table=tall*',
      '--exclude-table=change*',
    );
    const target = await makeMigrated('data_alone');
    run('pg_restore', '--exit-on-error', '--data-only', '--single-transaction', `--dbname=${target}`, file);
    await requireExact(target);
  });

  test('after the same restore as plain SQL by a role without superuser rights', async () => {
    await queryPostgres(cluster.url, 'CREATE ROLE restorer LOGIN');
    const target = await makeDatabase('by_a_role');
    await queryPostgres(target, 'GRANT ALL ON SCHEMA public TO restorer');
    const asRole = new URL(target);
    asRole.username = 'restorer';
    await userdirJson(settingsOf(asRole.href), ['migrate']);
    const sql = run(
      'pg_dump',
      '--data-only',
      '--exclude-table=_prisma_migrations',
      '--exclude-table=tall*',
      '--exclude-table=change*',
      source,
    );
    const { status, stderr } = spawnSync(join(BIN, 'psql'), ['-v', 'ON_ERROR_STOP=1', '-1', '-q', asRole.href], {
      input: sql,
    });
    expect([status, String(stderr)]).toEqual([0, '']);
    await requireExact(asRole.href);
  });

  test('after a data-only restore with the tallies and with triggers disabled', async () => {
    const file = dump('--data-only', '--exclude-table=_prisma_migrations');
    const target = await makeMigrated('triggers_off');
    run(
      'pg_restore',
      '--exit-on-error',
      '--data-only',
      '--disable-triggers',
      '--single-transaction',
      `--dbname=${target}`,
      file,
    );
    await requireExact(target);
  });

  test('after a restore that counted twice, once they are repaired', async () => {
    const file = dump('--data-only');
    const target = await makeMigrated('twice');
    // Rows that exist are refused, and the restore continues.
    const { status } = spawnSync(join(BIN, 'pg_restore'), ['--data-only', `--dbname=${target}`, file]);
    expect(status).toBe(1);
    const { code, stdout } = await userdir(settingsOf(target), ['totals', 'check']);
    expect([code, stdout]).toEqual([1, expect.stringContaining('disagree')]);
    await userdirJson(settingsOf(target), ['totals', 'check', '--repair']);
    await requireExact(target);
  });
});
