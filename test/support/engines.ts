import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { inject } from 'vitest';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import type { Json } from './app.js';

/**
 * The two engines that every test runs on. Each run creates one migrated template (setup.ts), and each test app gets a
 * copy: a data directory on the embedded engine, a database on PostgreSQL.
 */
export type Engine = 'embedded' | 'postgres';

/** Shared by all tests of a run; says where they create things, so that the end of the run can remove them. */
export interface TestRun {
  readonly folder: string;
  /** The prefix of the name of every database. */
  readonly prefix: string;
}

declare module 'vitest' {
  interface ProvidedContext {
    engine: Engine;
    run: TestRun;
    /** By engine: a data directory, or the URL of a database. Has only the engines that the run needs. */
    templates: Partial<Record<Engine, string>>;
  }
}

/** A machine that is busy with other tests may take this long. A test that waits for one of these limits sets it. */
export const PATIENT: Record<string, string> = {
  DATABASE_POOL_TIMEOUT_MS: '60000',
  DATABASE_STATEMENT_TIMEOUT_MS: '60000',
  REQUEST_TIMEOUT_MS: '60000',
};

/** A separate database, as settings of the service, until `drop`, or the end of the test that is `using` it. */
export interface TestDatabase extends AsyncDisposable {
  readonly env: Record<string, string>;
  drop(): Promise<void>;
}

export async function createTestRun(): Promise<TestRun> {
  const folder = await mkdtemp(join(tmpdir(), 'userdir-test-'));
  return { folder, prefix: `userdir_test_${randomUUID().slice(0, 8)}` };
}

/** Removes the rest of a run: the databases that its workers share, and those that failed tests did not drop. */
export async function removeTestRun({ folder, prefix }: TestRun, engines: Iterable<Engine>): Promise<void> {
  if (new Set(engines).has('postgres')) {
    const left = await onServer(`SELECT datname FROM pg_database WHERE datname LIKE '${prefix}%'`);
    for (const { datname } of left) await onServer(`DROP DATABASE IF EXISTS "${datname}" WITH (FORCE)`);
  }
  await rm(folder, { recursive: true, force: true });
}

/** A migrated database without a project; returns its data directory or its URL. */
export async function createTemplate(engine: Engine, run: TestRun): Promise<string> {
  const { env } = await createEmptyDatabase(engine, run);
  const directory = createContext(parseConfig(env), { command: 'test' });
  await directory.open();
  await directory.close();
  return env['DATABASE_URL'] ?? (env['DATA_DIR'] as string);
}

/** A migrated database without a project. */
export async function copyTemplate(): Promise<TestDatabase> {
  const engine = inject('engine');
  const template = inject('templates')[engine] as string;
  const run = inject('run');
  if (engine === 'postgres') return emptyDatabase(run, new URL(template).pathname.slice(1));
  const made = await emptyDataDir(run);
  // Node takes ten times as long to copy the thousand files of a data directory.
  await promisify(execFile)('cp', ['-R', `${template}/.`, made.env['DATA_DIR'] as string]);
  return made;
}

/** An empty database, not even migrated. */
export function createEmptyDatabase(engine: Engine = inject('engine'), run = inject('run')): Promise<TestDatabase> {
  return engine === 'postgres' ? emptyDatabase(run) : emptyDataDir(run);
}

async function emptyDataDir({ folder }: TestRun): Promise<TestDatabase> {
  const dataDir = await mkdtemp(join(folder, 'data-'));
  return untilDropped({ ...PATIENT, DATA_DIR: dataDir }, () => rm(dataDir, { recursive: true, force: true }));
}

async function emptyDatabase(run: TestRun, template?: string): Promise<TestDatabase> {
  const name = `${run.prefix}_${randomUUID().replaceAll('-', '')}`;
  await onServer(`CREATE DATABASE "${name}"${template === undefined ? '' : ` TEMPLATE "${template}"`}`);
  // Of a server that a test kills, it has a cluster of its own. A commit that waits for the disk takes ten times as long.
  await onServer(`ALTER DATABASE "${name}" SET synchronous_commit = off`);
  const url = new URL(serverUrl());
  url.pathname = `/${name}`;
  // A server still keeps its demo credentials in the data directory.
  const { env, drop } = await emptyDataDir(run);
  return untilDropped({ ...env, DATABASE_URL: url.href }, async () => {
    await onServer(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
    await drop();
  });
}

const untilDropped = (env: TestDatabase['env'], drop: TestDatabase['drop']): TestDatabase => ({
  env,
  drop,
  [Symbol.asyncDispose]: drop,
});

function serverUrl(): string {
  const url = process.env['TEST_DATABASE_URL'];
  if (url === undefined) throw new Error('TEST_DATABASE_URL is not set.');
  return url;
}

const onServer = (sql: string) => queryPostgres<{ datname: string }>(serverUrl(), sql);

/** The rows of a statement on a connection of its own. */
export async function queryPostgres<Row extends pg.QueryResultRow = Json>(
  url: string | undefined,
  sql: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  // Without values several statements may stand in one text.
  const { rows } = await client.query<Row>(sql, values.length > 0 ? values : undefined).finally(() => client.end());
  return rows;
}
