import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test, vi } from 'vitest';
import type { Json } from '../support/app.js';
import { type Cluster, createCluster, hasPostgres } from '../support/cluster.js';
import {
  type Credentials,
  call,
  outcomeOf,
  type RunningServer,
  recordLogin,
  type Settings,
  spawnUserdir,
  startServer,
  userdir,
  userdirJson,
  useServer,
} from '../support/command.js';

/** `project move` between two databases of one server. test/drills/cells.test.ts moves a project under load, and kills the command. */

const TO = 'postgres://127.0.0.1:1/none';

describe.runIf(inject('engine') === 'embedded')('on the embedded database', () => {
  const { run, createProject } = useServer();

  test('no project moves, and the command says what it needs', async () => {
    const { app_id } = await createProject();
    expect(await run('project', 'move', app_id, '--to', TO)).toMatchObject({
      code: 1,
      stderr: 'userdir: The embedded database is no cell. Set DATABASE_URL to the database of the project.\n',
    });
    // The text may have a password.
    expect(await run('project', 'move', app_id, '--to', 'mysql://user:password@127.0.0.1/x')).toMatchObject({
      code: 1,
      stderr: 'userdir: --to: expected a URL such as postgres://cell2.example.com/userdir.\n',
    });
  });

  test('project ids shows and sets the range of new projects', async () => {
    expect((await run('project', 'ids')).stdout).toMatch(/^New projects get ids from 1 to 2147483647, next \d+\.\n$/);
    expect((await run('project', 'ids', '--range', '5001-6000')).stdout).toBe(
      'New projects get ids from 5001 to 6000, next 5001.\n',
    );
    expect((await run('project', 'ids', '--range', '7-3')).stderr).toContain('such as 1-1000000');
    expect((await run('project', 'ids', '--range', 'all')).code).toBe(2);
  });
});

describe.runIf(inject('engine') === 'postgres' && hasPostgres)('between two databases', () => {
  let cluster: Cluster;
  let admin: pg.Client;
  let folder: string;
  const cells: { settings: Settings; url: string; server: RunningServer }[] = [];

  async function startCell(name: string, range: string) {
    await admin.query(`CREATE DATABASE ${name}`);
    const url = Object.assign(new URL(cluster.url), { pathname: `/${name}` }).href;
    const settings = { DATABASE_URL: url, LOG_LEVEL: 'warn', DEMO: 'off' };
    await userdirJson(settings, ['project', 'ids', '--range', range]);
    cells.push({ settings, url, server: await startServer(settings) });
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'userdir-move-'));
    cluster = await createCluster(['wal_level=logical', 'wal_retrieve_retry_interval=100ms']);
    admin = new pg.Client({ connectionString: cluster.url });
    await admin.connect();
    await startCell('one', '1-1000');
    await startCell('two', '1001-2000');
  });
  afterAll(async () => {
    for (const { server } of cells) await server.stop();
    await admin?.end();
    await cluster?.drop();
    await rm(folder, { recursive: true });
  });

  const cell = (index: 0 | 1) => cells[index] as (typeof cells)[number];
  const sql = async (index: 0 | 1, text: string): Promise<Json[]> => {
    const client = new pg.Client({ connectionString: cell(index).url });
    await client.connect();
    return (await client.query(text).finally(() => client.end())).rows;
  };
  const move = (from: 0 | 1, { app_id }: Credentials, ...options: string[]) =>
    userdir(cell(from).settings, ['project', 'move', app_id, '--to', cell(from === 0 ? 1 : 0).url, ...options]);
  const users = async (index: 0 | 1, project: Credentials) => call(cell(index).server.url, project, '/server/users');
  const statusOf = async (index: 0 | 1, project: Credentials) => (await users(index, project)).status;
  const login = (index: 0 | 1, project: Credentials, authValue: string) =>
    recordLogin(cell(index).server.url, project, { authMethod: 'passkey', authValue });

  /** A project with rows in every table that moves. */
  async function createFullProject(index: 0 | 1): Promise<Credentials & { id: number }> {
    const { settings, server } = cell(index);
    const project = await userdirJson(settings, ['project', 'create', '--name', 'Full']);
    const { app_id } = project;
    await userdirJson(settings, ['seed', '--project', app_id, '--users', '2500']);
    await sql(index, `UPDATE projects SET requests_per_minute = 100000 WHERE id = ${project.id}`);
    for (const value of ['a', 'b']) await login(index, project, value);
    await sql(
      index,
      `INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key) VALUES (${project.id}, 'passkey', 'b', 'b')`,
    );
    const [{ id }] = await sql(index, `SELECT max(id) AS id FROM users WHERE project_id = ${project.id}`);
    const headers = { 'idempotency-key': 'once' };
    await fetch(`${server.url}/server/users/${id}`, {
      method: 'DELETE',
      headers: { ...headers, 'service-app-id': app_id, 'service-app-secret': project.app_secret },
    });
    await sql(
      index,
      `WITH made AS (
         INSERT INTO webhooks (project_id, url, description, types, place, timeline, status, reason)
         SELECT ${project.id}, 'https://example.com', '', '{}', published, timeline, 'disabled', 'A test.' FROM changes_feed
         RETURNING project_id, id
       ), attempts AS (
         INSERT INTO webhook_attempts (project_id, webhook_id, ok, slot, number, at, message, type, ms, resent)
         SELECT project_id, id, true, 1, 1, now(), '1', 'user.created', 5, false FROM made
       ), hours AS (
         INSERT INTO webhook_hours (project_id, webhook_id, slot, hour, accepted, failed)
         SELECT project_id, id, 7, date_trunc('hour', now()), 1, 0 FROM made
       ) INSERT INTO webhook_secrets (project_id, webhook_id, secret) SELECT project_id, id, '\\x${'ab'.repeat(32)}' FROM made`,
    );
    await sql(
      index,
      `INSERT INTO request_hours VALUES (${project.id}, date_trunc('hour', now()) - interval '9 days', 5, 1, 2)`,
    );
    // A crowded day has slices, and old changes are deleted.
    await sql(index, `UPDATE users SET created_at = '2025-01-01' WHERE project_id = ${project.id}`);
    await sql(index, `SELECT fold_tallies(${project.id}, 100000)`);
    await sql(index, `SELECT cut_crowded_days(${project.id}, NULL)`);
    await sql(index, `INSERT INTO changes_pruned VALUES (${project.id}, 1)`);
    await login(index, project, 'c');
    return project;
  }

  async function rowsOf(index: 0 | 1, projectId: number): Promise<Record<string, Json[]>> {
    const tables = await sql(
      index,
      `SELECT c.relname AS name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
       WHERE a.attname = 'project_id' AND c.relkind = 'r' AND c.relname NOT IN ('operator_projects', 'project_moves') ORDER BY 1`,
    );
    const rows: Record<string, Json[]> = {};
    for (const { name } of tables) {
      const found = await sql(
        index,
        // Without the tallies of now, which the services write when they like.
        `SELECT to_jsonb(t)::text AS row FROM "${name}" t WHERE project_id = ${projectId}
           ${name === 'request_hours' ? `AND hour < now() - interval '1 day'` : ''} ORDER BY 1`,
      );
      rows[name] = found.map(({ row }) => row);
    }
    rows['projects'] = await sql(index, `SELECT * FROM projects WHERE id = ${projectId}`);
    return rows;
  }

  const nothing = (rows: object) => Object.fromEntries(Object.keys(rows).map((name) => [name, []]));

  test('every row moves as it is, and nothing of another project', async () => {
    const [project, other] = [await createFullProject(0), await createFullProject(0)];
    const before = await rowsOf(0, project.id);
    expect(Object.entries(before).filter(([, rows]) => rows.length === 0)).toEqual([]);
    const otherBefore = await rowsOf(0, other.id);
    const { code, stdout, stderr } = await move(0, project, '--json');
    expect([code, stderr]).toEqual([0, expect.stringContaining('userdir: Switching.\n')]);
    const after = await rowsOf(1, project.id);
    const ofMove = (after['audit_log'] as string[]).filter((row) => row.includes('"action": "move"'));
    expect(ofMove).toEqual([expect.stringContaining('"actor": "operator:tester"')]);
    after['audit_log'] = (after['audit_log'] as string[]).filter((row) => !ofMove.includes(row));
    // Webhooks go on from where they were, in the feed of the new database.
    const [{ timeline }] = await sql(1, 'SELECT timeline FROM changes_feed');
    expect(JSON.parse(after['webhooks']?.[0])).toEqual({ ...JSON.parse(before['webhooks']?.[0]), timeline });
    expect({ ...after, webhooks: [] }).toEqual({ ...before, webhooks: [] });
    const rows = Object.values(before).reduce((sum, each) => sum + each.length, 0) - 1;
    expect(JSON.parse(stdout)).toEqual({
      app_id: project.app_id,
      id: project.id,
      to: `${new URL(cluster.url).host}/two`,
      outcome: 'moved',
      rows: expect.toBeOneOf([rows, rows + 1, rows + 2]),
      copy_ms: expect.any(Number),
      held_ms: expect.any(Number),
      delete_ms: expect.any(Number),
    });
    expect(await rowsOf(0, project.id)).toEqual(nothing(before));
    expect(await rowsOf(0, other.id)).toEqual(otherBefore);
    expect(await sql(0, 'SELECT action, details FROM operator_log')).toMatchObject([
      { action: 'move_project', details: { app_id: project.app_id, name: 'Full' } },
    ]);
    for (const index of [0, 1] as const)
      expect(await userdirJson(cell(index).settings, ['totals', 'check'])).toMatchObject({ differences: [] });

    // The other cell serves it, with ids after those that came.
    expect([await statusOf(0, project), await statusOf(1, project)]).toEqual([401, 200]);
    const ids = (after['users'] as string[]).map((row) => JSON.parse(row).id);
    const { body } = await login(1, project, 'new');
    expect(Number(body.data.recordLogin.user.id)).toBeGreaterThan(Math.max(...ids));
    expect((await login(1, project, 'b')).body.errors[0].extensions.code).toBe('BANNED');
    // A second time there is nothing to do.
    expect((await move(0, project)).stdout).toBe(`Moved ${project.app_id} to ${new URL(cluster.url).host}/two.\n`);
    expect((await move(1, project)).code).toBe(0);
    expect(await statusOf(0, project)).toBe(200);
    expect((await login(0, project, 'newer')).status).toBe(200);
  });

  test('a dry run changes nothing', async () => {
    const project = await createFullProject(0);
    const before = await rowsOf(0, project.id);
    const { code, stdout } = await move(0, project, '--dry-run');
    expect(code).toBe(0);
    expect(stdout).toMatch(
      new RegExp(
        `^${project.app_id} with \\d+ users can move to .*: rows of accounts, .* webhooks\\. It has not begun`,
      ),
    );
    expect(await rowsOf(0, project.id)).toEqual(before);
    expect(await sql(0, 'SELECT FROM project_moves')).toEqual([]);
  });

  test('a hold that fails leaves the project where it is, and an abort undoes the copy', async () => {
    const project = await createFullProject(0);
    const before = await rowsOf(0, project.id);
    const released = join(folder, 'released');
    const commands = ['--hold-command', 'exit 3', '--release-command', `echo "$USERDIR_APP_ID" >> ${released}`];
    const failed = await move(0, project, ...commands);
    expect(failed.code).toBe(1);
    expect(readFileSync(released, 'utf8')).toBe(`${project.app_id}\n`);
    expect(failed.stderr).toContain(
      'The command of --hold-command ended with 3. The project stays in the source. Run the command again to go on.',
    );
    await vi.waitUntil(async () => (await statusOf(0, project)) === 200, { timeout: 60_000 });
    // Those who come to the other cell by mistake are refused.
    expect(await statusOf(1, project)).toBe(503);
    const kept = await userdir(cell(0).settings, ['project', 'delete', project.app_id, '--yes']);
    expect([kept.code, kept.stderr.includes('is being moved')]).toEqual([1, true]);
    expect((await move(0, project, '--abort')).stdout).toContain('stays where it was');
    expect(await rowsOf(0, project.id)).toEqual(before);
    expect(await rowsOf(1, project.id)).toEqual(nothing(before));
    expect(await sql(1, 'SELECT 1 FROM project_moves UNION ALL SELECT 1 FROM pg_subscription')).toEqual([]);
    expect(await sql(0, 'SELECT 1 FROM project_moves UNION ALL SELECT 1 FROM pg_replication_slots')).toEqual([]);
    expect((await move(0, project, '--abort')).stderr).toContain('The project is not being moved.');
    expect((await move(0, project)).code).toBe(0);
    expect(await statusOf(1, project)).toBe(200);
  });

  test('a map that cannot be switched refuses all requests with 503 until the command has run again', async () => {
    const project = await createFullProject(0);
    const failed = await move(0, project, '--map-command', 'exit 4');
    expect(failed.stderr).toContain(
      'The command of --map-command ended with 4. The project refuses requests until the command has run again.',
    );
    await vi.waitUntil(async () => (await statusOf(0, project)) === 503, { timeout: 60_000 });
    expect(await statusOf(1, project)).toBe(503);
    expect((await login(0, project, 'x')).status).toBe(503);
    const secret = await userdir(cell(0).settings, ['project', 'add-secret', project.app_id, '--label', 'third']);
    expect(secret.code).toBe(1);
    expect((await move(0, project, '--abort')).stderr).toContain('The map was switched already.');
    await sql(0, `UPDATE project_moves SET started_at = now() - interval '50 hours'`);
    const { findings } = await userdirJson(cell(0).settings, ['doctor', '--no-totals']);
    expect(findings.find(({ id }: Json) => id === 'moves')).toMatchObject({
      status: 'warning',
      found: `${project.app_id} has been moving for 50 h (mapping)`,
    });
    expect((await move(0, project)).code).toBe(0);
    expect(await statusOf(1, project)).toBe(200);
  });

  test('a transaction that writes for long ends the hold, and the project stays until the command runs again', async () => {
    const project = await createFullProject(0);
    const [held, written] = [join(folder, 'held'), join(folder, 'written')];
    const hold = `touch ${held}; while [ ! -e ${written} ]; do sleep 0.05; done`;
    const failed = move(0, project, '--hold-command', hold);
    await vi.waitUntil(() => existsSync(held), { timeout: 60_000 });
    const client = new pg.Client({ connectionString: cell(0).url });
    await client.connect();
    await client.query(
      `BEGIN; INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key) VALUES (${project.id}, 'passkey', 'l', 'l')`,
    );
    expect((await move(0, project)).stderr).toContain('Another run of this command is moving the project.');
    writeFileSync(written, '');
    expect((await failed).stderr).toContain(
      'A transaction has been writing the project for more than a second. The project stays in the source. Run the command again to go on.',
    );
    await client.query('COMMIT');
    await client.end();
    await vi.waitUntil(async () => (await statusOf(0, project)) === 200, { timeout: 60_000 });
    expect((await move(0, project)).code).toBe(0);
    expect(await sql(1, `SELECT FROM bans WHERE project_id = ${project.id} AND auth_value = 'l'`)).toHaveLength(1);
  });

  test('Ctrl+C leaves the project in use, and says how to go on', async () => {
    const project = await createFullProject(0);
    const child = spawnUserdir(cell(0).settings, ['project', 'move', project.app_id, '--to', cell(1).url]);
    child.stderr.on('data', (text) => {
      if (String(text).includes('Copying')) child.kill('SIGINT');
    });
    const { code, stderr } = await outcomeOf(child);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('Run the same command again to go on, or with --abort to undo.'),
    ]);
    expect(await statusOf(0, project)).toBe(200);
    expect((await move(0, project)).code).toBe(0);
  });

  test('a copy whose slot is lost, as after a failover, is not continued but undone', async () => {
    const project = await createFullProject(0);
    await move(0, project, '--hold-command', 'exit 3');
    const name = `userdir_move_${project.id}`;
    await sql(1, `ALTER SUBSCRIPTION ${name} DISABLE`);
    const isDropped = () =>
      sql(0, `SELECT pg_drop_replication_slot('${name}')`).then(
        () => true,
        () => false,
      );
    await vi.waitUntil(isDropped, { timeout: 60_000 });
    expect((await move(0, project)).stderr).toContain('The replication of the project was lost. Run with --abort');
    expect(await move(0, project, '--abort')).toMatchObject({ code: 0, stderr: expect.stringContaining('Deleting') });
    expect((await move(0, project)).code).toBe(0);
    expect(await statusOf(1, project)).toBe(200);
  });

  test('what keeps a project from moving is said at once', async () => {
    const project = await createFullProject(0);
    await sql(1, `UPDATE _prisma_migrations SET checksum = 'x' WHERE migration_name LIKE '%_init'`);
    await sql(1, `INSERT INTO projects (id, name, app_id) VALUES (${project.id}, 'x', 'x')`);
    await sql(1, 'ALTER SEQUENCE projects_id_seq MINVALUE 500 START 500');
    const { code, stderr } = await move(0, project);
    expect([code, stderr]).toEqual([1, expect.stringContaining('different migrations')]);
    expect(stderr).toContain('from 1 to 1000, the target from 500 to 2000');
    expect(stderr).toContain(`has a project with the id ${project.id} or this App ID already`);
    expect((await move(0, project, '--to', cell(0).url)).stderr).toContain('The target is the database in which');
    expect((await move(0, project, '--to', TO)).stderr).toContain('The database of --to cannot be used');
    expect(await sql(0, 'SELECT FROM project_moves')).toEqual([]);
  });

  test('a dry run names the rights that are lacking, and a role that is no superuser moves with those alone', async () => {
    await admin.query('CREATE ROLE mover LOGIN; CREATE ROLE server LOGIN');
    const urlOf = (user: string, name: string) =>
      Object.assign(new URL(cluster.url), { username: user, pathname: `/${name}` }).href;
    for (const [name, range] of [
      ['three', '2001-3000'],
      ['four', '3001-4000'],
    ] as const) {
      await admin.query(`CREATE DATABASE ${name} OWNER mover`);
      await userdirJson({ DATABASE_URL: urlOf('mover', name) }, ['project', 'ids', '--range', range]);
    }
    const source = { DATABASE_URL: urlOf('mover', 'three') };
    const project: Credentials = await userdirJson(source, ['project', 'create', '--name', 'Moving']);
    await userdirJson(source, ['seed', '--project', project.app_id, '--users', '50']);
    const dryRun = async (from: string, to: string, ...options: string[]) => {
      const args = ['project', 'move', project.app_id, '--to', urlOf(to, 'four'), '--dry-run', ...options];
      return userdir({ DATABASE_URL: urlOf(from, 'three') }, args);
    };

    await admin.query('GRANT pg_read_all_data TO server; REVOKE CREATE ON DATABASE three FROM mover');
    expect((await dryRun('server', 'mover')).stderr).toContain('Run the command as mover, which does.');
    const { code, stderr } = await dryRun('mover', 'mover');
    expect(code).toBe(1);
    expect(stderr).toContain('In the source, run as a superuser: GRANT CREATE ON DATABASE three TO mover;');
    expect(stderr).toContain('In the source, run as a superuser: ALTER ROLE mover REPLICATION;');
    expect(stderr).toMatch(
      /The role mover may not subscribe: .*Name one in --to\.|GRANT pg_create_subscription TO mover;/,
    );
    await admin.query('ALTER ROLE mover REPLICATION; GRANT CREATE ON DATABASE three TO mover');

    // How the target sees the source is tried as well.
    const elsewhere = await dryRun('mover', 'postgres', '--from', urlOf('mover', 'one'));
    expect(elsewhere.stderr).toContain('leads to another database. Name the right one in --from.');
    const asServer = await dryRun('mover', 'postgres', '--from', urlOf('server', 'three'));
    expect(asServer.stderr).toContain('The target cannot subscribe to the source: could not connect to the publisher');
    expect((await dryRun('mover', 'postgres')).code).toBe(0);
    for (const name of ['three', 'four']) {
      const client = new pg.Client({ connectionString: urlOf('postgres', name) });
      await client.connect();
      const { rows } = await client.query(
        'SELECT pubname FROM pg_publication UNION ALL SELECT subname FROM pg_subscription',
      );
      expect(rows).toEqual([]);
      await client.end();
    }

    const moved = await userdirJson(source, ['project', 'move', project.app_id, '--to', urlOf('postgres', 'four')]);
    expect(moved).toMatchObject({ outcome: 'moved' });
    const target = { DATABASE_URL: urlOf('mover', 'four') };
    expect(await userdirJson(target, ['totals', 'check'])).toMatchObject({ differences: [] });
    expect(await userdirJson(target, ['project', 'list'])).toMatchObject([{ app_id: project.app_id, total_user: 50 }]);
  });
});
