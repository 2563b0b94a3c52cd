import fc from 'fast-check';
import type { PoolClient } from 'pg';
import { expect, inject, test } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createDatabase } from '#dist/db/database.js';
import { FEED_FIELDS, USER_COLUMNS, type UserColumn } from '#dist/domain/user-columns.js';
import { useTestApp } from '../support/app.js';
import { copyTemplate } from '../support/engines.js';

/**
 * Random transactions of several writers at once, some slow, some undone, some in part, while a reader polls. CHANGES_RUNS sets the
 * number of runs. On the embedded engine, which has one session, the transactions run one after the other.
 */
const app = useTestApp({ ownDatabase: true });
const RUNS = Number(process.env['CHANGES_RUNS'] ?? 4);
const WRITERS = 6;

type Step = {
  readonly what: 'create' | 'update' | 'account' | 'remove' | 'restore' | 'ban' | 'unban';
  readonly user: number;
};
interface Transaction {
  readonly steps: readonly Step[];
  /** Undoes the last step alone. */
  readonly undoLast: boolean;
  readonly commit: boolean;
  readonly slowMs: number;
}

const step = fc.record<Step>({
  what: fc.constantFrom('create', 'update', 'update', 'account', 'account', 'remove', 'restore', 'ban', 'unban'),
  user: fc.nat(3),
});
const transaction = fc.record<Transaction>({
  steps: fc.array(step, { minLength: 1, maxLength: 3 }),
  undoLast: fc.boolean(),
  commit: fc.integer({ min: 0, max: 4 }).map((n) => n > 0),
  slowMs: fc.constantFrom(0, 0, 0, 5, 30),
});
const histories = fc.array(fc.array(transaction, { minLength: 2, maxLength: 8 }), {
  minLength: WRITERS,
  maxLength: WRITERS,
});

/** What a committed step saw of its user: the number of updates so far, and the id of the last change. */
interface Seen {
  readonly user: number;
  readonly version: number;
  readonly changeId: number;
}

test('a reader who polls gets every committed change once, in order; those of a user in the order of the commits', async () => {
  const { pool } = app.context.db;
  let round = 0;
  await fc.assert(
    fc.asyncProperty(histories, async (writers) => {
      round += 1;
      const { appId } = await app.createProject();
      const scope = await app.context.services.projects.getScope(appId);
      const { rows } = await pool.query('SELECT id FROM projects WHERE app_id = $1', [appId]);
      const projectId: number = rows[0].id;
      const users = await addUsers(projectId, round);
      const seen: Seen[] = [];
      let isDone = false;

      const read: string[] = [];
      const poll = async () => {
        for (let after: string | null = null; ; ) {
          const last = isDone;
          const page = await readPage(scope, after);
          read.push(...page.changes.map(({ id }) => id));
          after = page.end;
          if (last && !page.hasMore && read.length >= (await committedIds(projectId)).length) return;
        }
      };
      const polled = poll();
      await Promise.all(writers.map((history) => play(projectId, users, history, seen)));
      isDone = true;
      await polled;
      const ids = read.map(idOf);
      expect(ids).toEqual(await committedIds(projectId));
      const committed = new Set(ids);
      for (const user of users) {
        const versions = seen
          .filter((each) => each.user === user && committed.has(each.changeId))
          // The steps on a removed user leave no change, so between two of them the feed has no order.
          .toSorted((a, b) => a.changeId - b.changeId || a.version - b.version)
          .map(({ version }) => version);
        expect(versions).toEqual(versions.toSorted((a, b) => a - b));
      }
    }),
    { numRuns: RUNS, endOnFailure: true },
  );
}, 240_000);

type Scope = Parameters<typeof app.context.services.changes.listChanges>[0];

const readPage = (scope: Scope, after: string | null) =>
  app.context.services.changes.listChanges(scope, {
    after: after === null ? null : decode(after),
    types: null,
    first: 7,
  });

const decode = (cursor: string) => {
  const [timeline = '', id] = Buffer.from(cursor, 'base64url').toString().split('.');
  return { timeline, id: Number(id) };
};
const idOf = (cursor: string) => decode(cursor).id;

async function committedIds(projectId: number): Promise<number[]> {
  const { rows } = await app.context.db.pool.query('SELECT id FROM changes WHERE project_id = $1 ORDER BY id', [
    projectId,
  ]);
  return rows.map(({ id }) => Number(id));
}

async function addUsers(projectId: number, round: number): Promise<number[]> {
  const { rows } = await app.context.db.pool.query(
    `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key)
     SELECT $1, 'x', $2 || '-' || n, $2 || '-' || n FROM generate_series(0, 3) AS n RETURNING id`,
    [projectId, String(round)],
  );
  return rows.map(({ id }) => Number(id));
}

let serial = 0;

async function play(projectId: number, users: number[], history: readonly Transaction[], seen: Seen[]): Promise<void> {
  for (const { steps, undoLast, commit, slowMs } of history) {
    const client = await app.context.db.pool.connect();
    try {
      await client.query('BEGIN');
      const own: Seen[] = [];
      for (const [index, each] of steps.entries()) {
        await client.query('SAVEPOINT s');
        const user = users[each.user] as number;
        await run(client, projectId, user, each);
        if (slowMs > 0) await client.query('SELECT pg_sleep($1)', [slowMs / 1_000]);
        if (undoLast && index === steps.length - 1) await client.query('ROLLBACK TO SAVEPOINT s');
        else if (each.what === 'update' || each.what === 'account') own.push(await look(client, projectId, user));
      }
      await client.query(commit ? 'COMMIT' : 'ROLLBACK');
      if (commit) seen.push(...own);
    } catch (error) {
      await client.query('ROLLBACK');
      // Two transactions that lock two users in opposite order.
      if ((error as { code?: string }).code !== '40P01') throw error;
    } finally {
      client.release();
    }
  }
}

async function run(client: PoolClient, projectId: number, user: number, { what }: Step): Promise<void> {
  serial += 1;
  const of = [projectId, user];
  const identity = `SELECT project_id, auth_method, auth_value_key, auth_value FROM users WHERE project_id = $1 AND id = $2`;
  const statements: Record<Step['what'], [string, unknown[]]> = {
    create: [
      `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) VALUES ($1, 'y', $2, $2)`,
      [projectId, `new-${serial}`],
    ],
    update: [
      `UPDATE users SET login_count = login_count + 1, wallet = $3 WHERE project_id = $1 AND id = $2`,
      [...of, `w${serial}`],
    ],
    account: [
      `INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type) VALUES ($1, $2, 'stellar', $3, $3, 'custodial')`,
      [...of, `k${serial}`],
    ],
    remove: [`UPDATE users SET deleted_at = now() WHERE project_id = $1 AND id = $2`, of],
    restore: [`UPDATE users SET deleted_at = NULL WHERE project_id = $1 AND id = $2`, of],
    ban: [
      `INSERT INTO bans (project_id, auth_method, auth_value_key, auth_value) ${identity} ON CONFLICT DO NOTHING`,
      of,
    ],
    unban: [
      `DELETE FROM bans b USING (${identity}) AS u WHERE b.project_id = $1 AND b.auth_value_key = u.auth_value_key`,
      of,
    ],
  };
  await client.query(...statements[what]);
}

/** The version of the user, and the last change of theirs in this transaction. */
async function look(client: PoolClient, projectId: number, user: number): Promise<Seen> {
  const { rows } = await client.query(
    `SELECT login_count AS version, (SELECT max(id) FROM changes WHERE project_id = $1 AND user_id = $2) AS "changeId"
     FROM users WHERE project_id = $1 AND id = $2`,
    [projectId, user],
  );
  return { user, version: rows[0].version, changeId: Number(rows[0].changeId) };
}

test.runIf(inject('engine') === 'postgres')(
  'a transaction that stays open holds up what comes after it, and no more',
  async () => {
    const { appId } = await app.createProject();
    const scope = await app.context.services.projects.getScope(appId);
    const { pool } = app.context.db;
    const insert = (client: Pick<PoolClient, 'query'>, value: string) =>
      client.query(
        `INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT id, 'x', $2, $2 FROM projects WHERE app_id = $1`,
        [appId, value],
      );
    await insert(pool, 'before');
    expect((await readPage(scope, null)).changes).toHaveLength(1);
    const slow = await pool.connect();
    await slow.query('BEGIN');
    await insert(slow, 'slow');
    await insert(pool, 'after');
    expect((await readPage(scope, null)).changes).toHaveLength(1);
    expect(app.context.services.changes.lagSeconds()).toBeGreaterThan(0);
    const { rows } = await slow.query('SELECT pg_backend_pid() AS pid');
    expect(await app.context.services.changes.findOldestWriter()).toMatchObject({ pid: rows[0].pid });
    await slow.query('COMMIT');
    slow.release();
    await expect.poll(async () => (await readPage(scope, null)).changes.length).toBe(3);
  },
);

test('every column of a user is a field of user.updated, or is known not to be one', async () => {
  const { rows } = await app.context.db.pool.query(`SELECT prosrc FROM pg_proc WHERE proname = 'record_updated_users'`);
  // What follows from other columns.
  const none = ['id', 'project_id', 'login_method', 'import_id'];
  for (const { name, isOfLogins } of Object.values<UserColumn>(USER_COLUMNS)) {
    if (!isOfLogins && !none.includes(name)) expect(rows[0].prosrc, name).toContain(`n.${name}`);
  }
});

test('a new column is a field of user.updated once its migration has written the trigger anew', async () => {
  const made = await copyTemplate();
  const database = createDatabase(parseConfig({ ...made.env }).db);
  await database.start();
  const { rows } = await database.pool
    .query(
      `ALTER TABLE users ADD COLUMN nickname TEXT;
       SELECT write_record_updated_users();
       INSERT INTO projects (name, app_id) VALUES ('x', 'x');
       INSERT INTO users (project_id, auth_method, auth_value, auth_value_key) SELECT id, 'github', 'a', 'a' FROM projects;
       UPDATE users SET last_login = now(), login_count = 1;
       UPDATE users SET nickname = 'Ada', wallet = 'w';
       SELECT type, fields FROM changes ORDER BY id`,
    )
    .then((results) => (results as unknown as { rows: unknown[] }[]).at(-1) as { rows: unknown[] })
    .finally(async () => {
      await database.close();
      await made.drop();
    });
  expect(rows).toEqual([
    { type: 'user.created', fields: null },
    { type: 'user.updated', fields: 'wallet nickname' },
  ]);
});

test('the trigger names the fields that the table of columns has for the feed, and none that only a login changes', async () => {
  const [row] = (
    await app.context.db.pool.query<{ source: string }>(
      "SELECT prosrc AS source FROM pg_proc WHERE proname = 'record_updated_users'",
    )
  ).rows;
  const named = new Set(
    [...(row?.source ?? '').matchAll(/ IS DISTINCT FROM .* THEN '(\w+)' END/g)].map(([, name]) => name),
  );
  // Tables of their own have these two.
  const inOtherTables = ['accounts', 'ban'];
  expect([...named].sort()).toEqual(FEED_FIELDS.filter((field) => !inOtherTables.includes(field)).toSorted());
});
