import { existsSync, readFileSync } from 'node:fs';
import { access, constants, stat, statfs } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { runThenClose } from '../closers.js';
import { type Config, ConfigError, type Environment, isLoopback, parseConfig } from '../config/config.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import { createContext } from '../context.js';
import { findMisspelt } from '../config/setting-names.js';
import { SETTINGS } from '../config/settings.js';
import { PACKAGE, VERSION } from '../config/version.js';
import { NotListeningError, runRemotely } from './control.js';
import {
  type DatabaseQuestion,
  examineDatabase,
  type Finding,
  failed,
  passed,
  skipped,
  warning,
} from './database-findings.js';
import { reason, writeNotice } from './output.js';

/**
 * What may be wrong with an installation, looked at without changing anything: no migration is applied and no database
 * made. Whatever is broken, the rest is still looked at.
 */
export async function diagnose(env: Environment, totals: boolean): Promise<Finding[]> {
  const { config, findings } = readSettings(env);
  return [
    ...findings,
    findNode(),
    findPackages(),
    await findDataDir(config),
    ...(await findDatabase(config, totals)),
    await findRedis(config, env),
  ];
}

/** The settings; where some are malformed, as if those were not set. */
function readSettings(env: Environment): { config: Config | null; findings: Finding[] } {
  const given = SETTINGS.filter((name) => env[name] !== undefined && env[name] !== '');
  try {
    const config = parseConfig(env);
    const found = given.length === 0 ? 'none is set' : `set: ${given.join(', ')}`;
    return { config, findings: [passed('settings', found), ...namesOf(env), ...risksOf(config, env)] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { faults, settings } = error;
    const [given, missing] = [settings.filter((name) => env[name]), settings.filter((name) => !env[name])];
    const advice = [
      ...(given.length > 0 ? [`Correct or unset ${given.join(', ')}.`] : []),
      ...(missing.length > 0 ? [`Set ${missing.join(', ')}.`] : []),
    ];
    const findings = [failed('settings', faults.join('\n'), advice.join(' ')), ...namesOf(env)];
    // With another database than the one that is meant there would be nothing to learn.
    if (settings.some((name) => name.startsWith('DATABASE_URL'))) return { config: null, findings };
    const rest = Object.fromEntries(Object.entries(env).filter(([name]) => !settings.includes(name)));
    return { config: parseConfig(rest), findings };
  }
}

function namesOf(env: Environment): Finding[] {
  const misspelt = findMisspelt(env);
  return misspelt.length === 0 ? [] : [warning('setting-names', misspelt.join('\n'), 'Rename or unset them.')];
}

/** What is well-formed and still hardly meant. */
function* risksOf(config: Config, env: Environment): Generator<Finding> {
  if ((env['REDIS_URL'] || env['REDIS_URL_FILE']) && config.rateLimit === null)
    yield warning('rate-limit', 'REDIS_URL does nothing without RATE_LIMIT', 'Set RATE_LIMIT, or unset REDIS_URL.');
  if (env['NODE_ENV'] === 'production' && config.db.engine === 'embedded')
    yield warning(
      'production',
      'the embedded database does not fsync: a power cut may lose what was committed',
      'Set DATABASE_URL to a PostgreSQL.',
    );
  if (config.graphiql && !isLoopback(config.host))
    yield warning(
      'graphiql',
      `GraphiQL is shown to whoever reaches ${config.host}`,
      'Set NODE_ENV=production, or GRAPHIQL=off.',
    );
}

function findNode(): Finding {
  const oldest = PACKAGE.engines.node.replace('>=', '');
  const found = `${process.version}, for userdir ${VERSION}`;
  const [have, need] = [process.versions.node, oldest].map((version) => version.split('.').map(Number));
  const difference = [0, 1, 2].map((place) => (have?.[place] ?? 0) - (need?.[place] ?? 0)).find((each) => each !== 0);
  return (difference ?? 0) >= 0 ? passed('node', found) : failed('node', found, `Move to Node.js ${oldest} or newer.`);
}

/** Every dependency is pinned, so that whatever else is installed was never tested. */
function findPackages(): Finding {
  const resolve = createRequire(import.meta.url).resolve;
  const wrong = Object.entries(PACKAGE.dependencies).flatMap(([name, wanted]) => {
    const file = (resolve.paths(name) ?? []).map((dir) => join(dir, name, 'package.json')).find(existsSync);
    const version = file === undefined ? 'absent' : JSON.parse(readFileSync(file, 'utf8')).version;
    return version === wanted ? [] : [`${name} is ${version} instead of ${wanted}`];
  });
  if (wrong.length > 0) return failed('packages', wrong.join(', '), 'npm ci installs those of the lock file.');
  return passed('packages', `${Object.keys(PACKAGE.dependencies).length}, each of its version`);
}

const LITTLE_SPACE_BYTES = 200 * 2 ** 20;

async function findDataDir(config: Config | null): Promise<Finding> {
  const id = 'data-directory';
  if (config === null) return skipped(id, 'the settings come first');
  const { dataDir } = config;
  if (config.db.engine === 'postgres') return skipped(id, 'the data is in PostgreSQL');
  if (!existsSync(dataDir)) {
    const parent = nearestExisting(dirname(dataDir));
    if (!(await isAllowed(parent, constants.W_OK)))
      return failed(
        id,
        `${dataDir} cannot be made: ${parent} may not be written`,
        'Set DATA_DIR to another directory.',
      );
    return passed(id, `${dataDir} is not there yet; the first start makes it`);
  }
  const found = await stat(dataDir);
  if (!found.isDirectory()) return failed(id, `${dataDir} is no directory`, 'Set DATA_DIR to another one.');
  if (!(await isAllowed(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)))
    return failed(
      id,
      `${dataDir} may not be read and written by this system user`,
      `chown it, or set DATA_DIR to another.`,
    );
  const { bavail, bsize } = await statfs(dataDir);
  const free = bavail * bsize;
  const space = `${(free / 2 ** 30).toFixed(1)} GiB free`;
  if (free < LITTLE_SPACE_BYTES) return failed(id, `${dataDir}: ${space}`, 'Make room on that disk.');
  if ((found.mode & 0o077) !== 0)
    return warning(id, `${dataDir} is open to other users of this machine`, `chmod 700 ${dataDir}`);
  return passed(id, `${dataDir}, ${space}`);
}

function nearestExisting(path: string): string {
  return existsSync(path) ? path : nearestExisting(dirname(path));
}

function isAllowed(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

async function findDatabase(config: Config | null, totals: boolean): Promise<Finding[]> {
  if (config === null) return [skipped('database', 'the settings come first')];
  const { db } = config;
  if (db.engine === 'embedded' && !existsSync(join(db.dataDir, 'pgdata')))
    return [skipped('database', 'there is none yet; the first start or command makes it')];
  const question: DatabaseQuestion = {
    engine: db.engine,
    // Beside the pool, one that hears of ended secrets.
    connections: db.engine === 'postgres' ? db.poolSize + 1 : 1,
    totals,
  };
  try {
    return await examine(config, question);
  } catch (error) {
    // A command that works in the data directory, or a server on its way up or down: nothing is wrong with that.
    if (error instanceof DataDirLockedError || error instanceof NotListeningError)
      return [skipped('database', error.message)];
    return [failed('database', reason(error), adviceFor(error, db.engine))];
  }
}

async function examine(config: Config, question: DatabaseQuestion): Promise<Finding[]> {
  const directory = createContext(config, {
    command: 'userdir doctor',
    lockWaitMs: LOCK_WAIT_MS,
    onDoubt: writeNotice,
  });
  const work = async () => {
    try {
      // Not opened, which would migrate it.
      await directory.hold();
      await directory.db.start();
      return (await examineDatabase(directory, question)).findings;
    } catch (error) {
      const socket = error instanceof DataDirLockedError ? error.holder.controlSocket : undefined;
      if (socket === undefined) throw error;
      return [findServer((error as DataDirLockedError).holder), ...(await examineRemotely(socket, question))];
    }
  };
  return runThenClose(work, [() => directory.close()]);
}

function findServer({ pid, since }: DataDirLockedError['holder']): Finding {
  return passed('server', `pid ${pid} has the data directory since ${since}, and was asked`);
}

async function examineRemotely(socket: string, question: DatabaseQuestion): Promise<Finding[]> {
  const { version, findings } = await runRemotely(socket, 'doctor', question, {
    input: (async function* () {})(),
    write: async () => undefined,
    progress: () => undefined,
    signal: new AbortController().signal,
  });
  if (version === VERSION) return findings;
  return [warning('server-version', `${version}, and this is ${VERSION}`, 'Restart the server.'), ...findings];
}

const ADVICE: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'Start PostgreSQL, or correct the host and port in DATABASE_URL.',
  ENOTFOUND: 'Correct the host in DATABASE_URL.',
  '28P01': 'Correct the user or the password in DATABASE_URL.',
  '28000': 'Correct the user in DATABASE_URL, or pg_hba.conf of the server.',
  '3D000': 'Create the database, or correct its name in DATABASE_URL.',
  '53300': 'Raise max_connections, or end connections that nobody needs.',
};

function adviceFor(error: unknown, engine: DatabaseQuestion['engine']): string {
  const { code = '' } = error as { code?: string };
  const general =
    engine === 'postgres'
      ? 'See DATABASE_URL, and the log of PostgreSQL.'
      : 'Try again; if it stays so, restore DATA_DIR from a copy.';
  return ADVICE[code] ?? general;
}

const REDIS_TIMEOUT_MS = 2_000;

async function findRedis(config: Config | null, env: Environment): Promise<Finding> {
  const url = config?.rateLimit?.redisUrl;
  if (url === undefined)
    return skipped('redis', env['REDIS_URL'] || env['REDIS_URL_FILE'] ? 'it is not used' : 'REDIS_URL is not set');
  const { Redis } = await import('ioredis');
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: REDIS_TIMEOUT_MS,
    commandTimeout: REDIS_TIMEOUT_MS,
    retryStrategy: () => null,
  });
  let broken: Error | undefined;
  client.on('error', (error) => {
    broken = error;
  });
  try {
    const started = performance.now();
    await client.connect();
    await client.ping();
    return passed('redis', `answers in ${Math.ceil(performance.now() - started)} ms`);
  } catch (error) {
    const { message, code } = (broken ?? error) as NodeJS.ErrnoException;
    const found = `does not answer: ${message || code}`;
    return failed('redis', found, 'Start it, or correct REDIS_URL; until then each process counts by itself.');
  } finally {
    client.disconnect();
  }
}
