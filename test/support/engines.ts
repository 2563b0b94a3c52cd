import { randomUUID } from 'node:crypto';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';

/**
 * The two engines that every test runs on. A migrated template is made once a run; each test app gets a copy of it: of
 * a data directory on the embedded engine, of a database on PostgreSQL.
 */
export type Engine = 'embedded' | 'postgres';

declare module 'vitest' {
  interface ProvidedContext {
    engine: Engine;
    /** The template: a data directory, or the URL of a database. */
    template: string;
  }
}

/** A database of one's own, as settings of the service, until `drop`. */
export interface TestDatabase {
  readonly env: Record<string, string>;
  drop(): Promise<void>;
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const engine = project.getProvidedContext().engine;
  const made = engine === 'embedded' ? await emptyDataDir() : await emptyDatabase();
  const directory = createContext(parseConfig(made.env), { command: 'test' });
  await directory.open();
  await directory.close();
  project.provide('template', made.env['DATABASE_URL'] ?? (made.env['DATA_DIR'] as string));
  return () => made.drop();
}

/** A migrated database without a project. */
export async function copyTemplate(engine: Engine, template: string): Promise<TestDatabase> {
  if (engine === 'postgres') return emptyDatabase(databaseName(template));
  const made = await emptyDataDir();
  await cp(template, made.env['DATA_DIR'] as string, { recursive: true });
  return made;
}

/** A database in which nothing was ever done, not even a migration. */
export function createEmptyDatabase(engine: Engine): Promise<TestDatabase> {
  return engine === 'postgres' ? emptyDatabase() : emptyDataDir();
}

async function emptyDataDir(): Promise<TestDatabase> {
  const dataDir = await mkdtemp(join(tmpdir(), 'userdir-test-'));
  return { env: { DATA_DIR: dataDir }, drop: () => rm(dataDir, { recursive: true, force: true }) };
}

async function emptyDatabase(template?: string): Promise<TestDatabase> {
  const name = `userdir_test_${randomUUID().replaceAll('-', '')}`;
  await onServer(`CREATE DATABASE "${name}"${template === undefined ? '' : ` TEMPLATE "${template}"`}`);
  const url = new URL(serverUrl());
  url.pathname = `/${name}`;
  // The data directory is still where a server keeps its demo credentials.
  const { env, drop } = await emptyDataDir();
  return {
    env: { ...env, DATABASE_URL: url.href },
    drop: async () => {
      await onServer(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`);
      await drop();
    },
  };
}

function databaseName(url: string): string {
  return new URL(url).pathname.slice(1);
}

function serverUrl(): string {
  const url = process.env['TEST_DATABASE_URL'];
  if (url === undefined) throw new Error('TEST_DATABASE_URL is not set.');
  return url;
}

async function onServer(sql: string): Promise<void> {
  const client = new pg.Client(serverUrl());
  await client.connect();
  await client.query(sql).finally(() => client.end());
}
