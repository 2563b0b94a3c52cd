import { once } from 'node:events';
import { describe, expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { outcomeOf, spawnUserdir, useServer } from '../support/command.js';
import { isNightly } from '../support/nightly.js';

/** Commands that print many rows read and print them page by page, here or through a running server. */

/** A server on a database that was filled by SQL, as no command could in seconds, and the commands on it. */
function useFilled(fill: string[]) {
  let appId = '';
  const server = useServer({
    async fill({ services, db }) {
      ({ appId } = await services.projects.createProject('First'));
      for (const statement of fill) await db.pool.query(statement);
    },
  });
  return { ...server, appId: () => appId };
}

/** Triggers would take minutes for so many rows. */
const withoutTriggers = (statement: string) =>
  `SET session_replication_role = replica; ${statement}; SET session_replication_role = origin`;
const series = (count: number) => `generate_series(1, ${count}) AS n`;

describe('150,000 bans', () => {
  const BANS = 150_000;
  /** A value on a later page is longer than its column. */
  const LONG = 'x'.repeat(100);
  const valueAt = (n: number) => `user-${n}${n === 12_000 ? LONG : ''}`;
  const { appId, settings, run, runJson } = useFilled([
    withoutTriggers(`
      INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, created_at)
      SELECT 1, 'google', value, value, TIMESTAMPTZ '2026-01-01Z' + n / 7 * interval '1 second'
      FROM ${series(BANS)}, LATERAL (SELECT 'user-' || n || CASE n WHEN 12000 THEN '${LONG}' ELSE '' END) AS named(value)`),
  ]);
  const bansOf = () => ['user', 'bans', '--project', appId()];

  test('are printed as lines, oldest first', async () => {
    const { code, stdout, stderr } = await run(...bansOf(), '--limit', '15000');
    expect([code, stderr]).toEqual([0, expect.stringContaining('There are more bans.')]);
    const [head, ...lines] = stdout.trimEnd().split('\n');
    expect(head).toBe('Method  Value      Since');
    expect(lines.slice(0, 2)).toEqual([
      'google  user-1     2026-01-01T00:00:00.000Z',
      'google  user-2     2026-01-01T00:00:00.000Z',
    ]);
    expect(lines.map((line) => line.split(/ +/)[1])).toEqual(lines.map((_, index) => valueAt(index + 1)));
    expect(lines).toHaveLength(15_000);
  });

  test.runIf(isNightly)('are one JSON array, in memory that does not grow with it', async () => {
    const child = spawnUserdir({ ...settings(), NODE_OPTIONS: '--max-old-space-size=64' }, [...bansOf(), '--json']);
    const { code, stdout } = await outcomeOf(child);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^[^\n]+\n$/);
    expect(JSON.parse(stdout).map(({ auth_value }: Json) => auth_value)).toEqual(
      Array.from({ length: BANS }, (_, index) => valueAt(index + 1)),
    );
  });

  test('come in pages of --limit, with --after and the notice', async () => {
    const first = await run(...bansOf(), '--limit', '2500', '--json');
    const [, cursor] = /^userdir: There are more bans\. The next page: --after (\S+)\n$/.exec(first.stderr) ?? [];
    const second = await run(...bansOf(), '--after', `${cursor}`, '--limit', '2500', '--json');
    const values = [first, second].flatMap(({ stdout }) =>
      JSON.parse(stdout).map(({ auth_value }: Json) => auth_value),
    );
    expect(values).toEqual(Array.from({ length: 5_000 }, (_, index) => valueAt(index + 1)));
    expect(await runJson(...bansOf(), '--search', 'user-14999')).toHaveLength(11);
  });

  test('end with the reader, without a failure', async () => {
    const child = spawnUserdir(settings(), bansOf());
    await once(child.stdout, 'data');
    child.stdout.destroy();
    const { code, stderr } = await outcomeOf(child);
    expect([code, stderr]).toEqual([0, '']);
    expect(await runJson(...bansOf(), '--limit', '1')).toHaveLength(1);
  });

  test('are cut short by Ctrl+C, with exit code 1', async () => {
    const child = spawnUserdir(settings(), bansOf());
    await once(child.stdout, 'data');
    child.kill('SIGINT');
    expect(await outcomeOf(child)).toMatchObject({
      code: 1,
      stderr: 'userdir: Interrupted. The list is incomplete.\n',
    });
  });
});

describe('many entries', () => {
  const ENTRIES = 20_000;
  const { appId, run, runJson } = useFilled([
    // Fourteen entries have one instant, in which pages end too. Entry 1 is that of the creation.
    `INSERT INTO audit_log (project_id, at, actor, action, user_id, details)
     SELECT 1, TIMESTAMPTZ '2027-01-01Z' + n / 14 * interval '1 second', 'main', 'remove', n, '{}' FROM ${series(ENTRIES)}`,
    `INSERT INTO operator_log (actor, action, details) SELECT 'operator:ada', 'log_in', '{}' FROM ${series(3_000)}`,
  ]);
  const trail = async (...args: string[]): Promise<number[]> =>
    (await runJson('audit', '--project', appId(), ...args)).map(({ user_id }: Json) => user_id);
  const upTo = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

  test('audit lists the newest ones, oldest first, each once', async () => {
    expect(await trail('--limit', '1000000')).toEqual([null, ...upTo(1, ENTRIES)]);
    expect(await trail('--limit', '12345')).toEqual(upTo(ENTRIES - 12_344, ENTRIES));
    expect(await trail()).toEqual(upTo(ENTRIES - 999, ENTRIES));
    const since = ['--since', '2027-01-01T00:10:00Z'];
    expect(await trail(...since, '--limit', '1000000')).toEqual(upTo(14 * 600, ENTRIES));
    expect(await trail(...since, '--limit', '3')).toEqual(upTo(ENTRIES - 2, ENTRIES));
    const { stdout, stderr } = await run('audit', '--project', appId(), '--limit', '3000');
    expect(stderr).toBe('');
    expect(stdout.split('\n').slice(0, 2)).toEqual([
      'At                        Actor  Action   User  Details',
      '2027-01-01T00:20:14.000Z  main   remove  17001  {}',
    ]);
  });

  test('operator log lists the newest ones, oldest first, each once', async () => {
    const ids = async (...args: string[]) => (await runJson('operator', 'log', ...args)).map(({ id }: Json) => id);
    expect(await ids('--limit', '1000000')).toEqual(upTo(1, 3_000));
    expect(await ids('--limit', '2001')).toEqual(upTo(1_000, 3_000));
    expect(await ids()).toEqual(upTo(2_001, 3_000));
    // What is left out is told.
    const notice = 'userdir: These are the newest 1000 entries. For older ones, give a higher --limit.\n';
    expect((await run('operator', 'log')).stderr).toBe(notice);
    expect((await run('audit', '--project', appId(), '--json')).stderr).toBe(notice);
  });
});

describe('1,200 projects', () => {
  const { run, runJson } = useFilled([
    `INSERT INTO projects (name, app_id, disabled_at, requests_per_minute)
     SELECT 'Project ' || n, 'app_' || lpad(to_hex(n), 24, '0'), CASE n WHEN 1180 THEN now() END, CASE n WHEN 1180 THEN 60 END
     FROM generate_series(2, 1200) AS n`,
    // The project n has n % 4 users, of which the last was removed if n is a multiple of 100 and one more.
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key)
     SELECT n, 'google', place, place FROM ${series(1_200)}, generate_series(1, n % 4) AS place`,
    // Some are in tallies, the others are pending.
    `SELECT fold_tallies(n, 1000) FROM generate_series(1, 1200, 2) AS n`,
    `UPDATE users SET deleted_at = now() - interval '40 days' WHERE auth_value = '1' AND project_id % 100 = 1`,
  ]);
  const isRemoved = (n: number) => n % 100 === 1;

  test('are listed with exact totals, and what is disabled with its state', async () => {
    const projects = await runJson('project', 'list');
    expect(projects.map(({ id, total_user }: Json) => [id, total_user])).toEqual(
      Array.from({ length: 1_200 }, (_, index) => [index + 1, ((index + 1) % 4) - (isRemoved(index + 1) ? 1 : 0)]),
    );
    const { stdout } = await run('project', 'list');
    const lines = stdout.split('\n');
    expect(lines[0]).toMatch(/^ {2}ID {2}Name +App ID +Created +Users$/);
    expect(lines[1_180]).toMatch(/^1180 {2}Project 1180 .* 0 {2}disabled, 60 requests a minute$/);
    expect(lines[1_200]).toMatch(/^1200 {2}Project 1200 .*Z +0$/);
  });

  test('are a sample to doctor, and all of them to totals check', async () => {
    const { findings } = await runJson('doctor');
    expect(findings.find(({ id }: Json) => id === 'totals')).toMatchObject({
      status: 'passed',
      found: expect.stringMatching(
        /^exact for \d+ users of 100 projects; 1100 others were not checked: npm run -s userdir -- totals check counts all$/,
      ),
    });
    expect(await runJson('totals', 'check')).toEqual({ projects: 1_200, differences: [], repaired: false });
  });

  test.runIf(isNightly)('have their removed users erased by one purge', async () => {
    const purge = (...args: string[]) => runJson('user', 'purge', '--older-than', '30d', ...args);
    expect(await purge('--dry-run')).toEqual({ purged: 0, would_purge: 12 });
    expect(await runJson('user', 'purge', '--older-than', '50d', '--dry-run')).toEqual({ purged: 0, would_purge: 0 });
    expect(await purge()).toEqual({ purged: 12 });
    expect(await purge('--dry-run')).toEqual({ purged: 0, would_purge: 0 });
  });
});
