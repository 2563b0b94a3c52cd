import { existsSync, readFileSync } from 'node:fs';
import { access, constants, stat, statfs } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { wrapAnsi } from 'fast-wrap-ansi';
import { runThenClose } from '../closers.js';
import { BUILD_ADVICE, findBuildFault, PACKAGE, VERSION } from '../config/build.js';
import { type Config, ConfigError, type Environment, findMisspelt, LOOPBACK, parseConfig } from '../config/config.js';
import { SETTINGS } from '../config/settings.js';
import { graphql } from '../dashboard/documents.js';
import { adviseConnection, explainFailure } from '../db/connection-failures.js';
import { DataDirLockedError, LOCK_WAIT_MS } from '../db/lock.js';
import { type Finding, failed, type Outcome, passed, skipped, warning } from '../domain/findings.js';
import { counted } from '../errors.js';
import { addCommand, option } from './arguments.js';
import { isHeldByServer, NotListeningError, reachServer } from './door.js';
import { type CommandContext, operatorOf, ReportedFailure } from './rows.js';
import { paint, terminalWidth, writeNotice } from './terminal.js';

const HELP = `
✓ passed, ! warning, ✗ failed, - not checked. Exits with 1 if a check failed.`;

export function addDoctorCommand(program: Command, { env }: CommandContext): void {
  addCommand(program, {
    name: 'doctor',
    description: 'check the settings, the database and this machine; changes nothing',
    help: HELP,
    examples: ['doctor', 'doctor --json', 'doctor --no-totals'],
    takes: [option('--no-totals', 'do not count users, which takes long in a project of millions')],
  }).action(async ({ totals, json }) => {
    // Libraries print some at their first use. What they say is no finding, or one of ours.
    process.removeAllListeners('warning');
    const findings = await diagnose(env, totals);
    const ok = findings.every(({ status }) => status !== 'failed');
    process.stdout.write(`${json ? JSON.stringify({ ok, findings }) : report(findings)}\n`);
    if (!ok) throw new ReportedFailure();
  });
}

const MARKS = {
  passed: ['green', '✓'],
  warning: ['yellow', '!'],
  failed: ['red', '✗'],
  skipped: ['dim', '-'],
} as const;

const MIN_TEXT_WIDTH = 20;
const MAX_TEXT_WIDTH = 120;

/** Findings with marks, names and texts in columns, and how many are problems. */
function report(findings: readonly Finding[]): string {
  const nameWidth = Math.max(...findings.map(({ id }) => id.length));
  const textWidth = Math.max(Math.min(terminalWidth(), MAX_TEXT_WIDTH) - nameWidth - 6, MIN_TEXT_WIDTH);
  const lines = findings.flatMap(({ id, status, found, advice }) => {
    const [style, sign] = MARKS[status];
    const start = `${paint(style, sign)}  ${paint('bold', id.padEnd(nameWidth))}  `;
    const text = wrapAnsi(advice === null ? found : `${found}\n→ ${advice}`, textWidth, { hard: true, trim: false });
    return text.split('\n').map((line, index) => `${index === 0 ? start : ' '.repeat(nameWidth + 5)}${line}`.trimEnd());
  });
  const count = (wanted: Finding['status']) => findings.filter(({ status }) => status === wanted).length;
  const [problems, warnings] = [count('failed'), count('warning')];
  const verdict = problems === 0 ? paint('green', 'No problems') : paint('red', counted(problems, 'problem'));
  return `${lines.join('\n')}\n\n${verdict}, ${counted(warnings, 'warning')}.`;
}

const UNCHECKED = skipped('not checked before the settings are correct');

/** Applies no migration and creates no database. If one check fails, the others still run. */
async function diagnose(env: Environment, totals: boolean): Promise<Finding[]> {
  const { config, findings } = checkSettings(env);
  return [
    ...findings,
    { id: 'node', ...checkNode() },
    { id: 'packages', ...checkPackages() },
    { id: 'build', ...checkBuild() },
    { id: 'data-directory', ...(config === null ? UNCHECKED : await checkDataDir(config)) },
    ...(config === null ? [{ id: 'database', ...UNCHECKED }] : await checkDatabase(config, totals)),
    { id: 'redis', ...(config === null ? UNCHECKED : await checkRedis(config)) },
  ];
}

/** Also returns the settings; malformed ones are left out, so that the other checks can run. */
function checkSettings(env: Environment): { config: Config | null; findings: Finding[] } {
  const given = SETTINGS.filter((name) => env[name] !== undefined && env[name] !== '');
  try {
    const config = parseConfig(env);
    const found = given.length === 0 ? 'none set' : `set: ${given.join(', ')}`;
    return {
      config,
      findings: [
        { id: 'settings', ...passed(found) },
        ...checkSettingNames(env),
        ...checkRisks(config, env),
        ...checkDatabaseUrls(config),
      ],
    };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const { faults, settings } = error;
    const [malformed, missing] = [settings.filter((name) => env[name]), settings.filter((name) => !env[name])];
    const advice = [
      ...(malformed.length > 0 ? [`Correct or unset ${malformed.join(', ')}.`] : []),
      ...(missing.length > 0 ? [`Set ${missing.join(', ')}.`] : []),
    ];
    const settingsFinding = { id: 'settings', ...failed(faults.join('\n'), advice.join(' ')) };
    const findings = [settingsFinding, ...checkSettingNames(env)];
    // Without it, the checks would examine the embedded database, which is not the one in use.
    if (settings.some((name) => name.startsWith('DATABASE_URL'))) return { config: null, findings };
    const rest = Object.entries(env).filter(([name]) => !settings.includes(name.replace(/_FILE$/, '')));
    return { config: parseConfig(Object.fromEntries(rest)), findings };
  }
}

function checkSettingNames(env: Environment): Finding[] {
  const misspelt = findMisspelt(env);
  return misspelt.length === 0
    ? []
    : [{ id: 'setting-names', ...warning(misspelt.join('\n'), 'Rename or unset them.') }];
}

/** Settings that are valid but probably not intended. */
function* checkRisks(config: Config, env: Environment): Generator<Finding> {
  if (env['NODE_ENV'] === 'production' && config.db.engine === 'embedded') {
    const found = 'the embedded database does not fsync: a power cut may lose committed data';
    yield { id: 'production', ...warning(found, 'Set DATABASE_URL to a PostgreSQL database.') };
  }
  if (config.graphiql && !LOOPBACK.test(config.host)) {
    const found = `GraphiQL is shown to every client that can connect to ${config.host}`;
    yield { id: 'graphiql', ...warning(found, 'Set NODE_ENV=production, or GRAPHIQL=off.') };
  }
}

/** Finds in the URLs of the database: what node-postgres ignores in silence, and what is not verified. */
function checkDatabaseUrls(config: Config): Finding[] {
  return [...checkUrls(config)].map((outcome) => ({ id: 'database-url', ...outcome }));
}

function* checkUrls({ db }: Config): Generator<Outcome> {
  if (db.engine === 'embedded') return;
  yield* checkUrl('DATABASE_URL', new URL(db.url));
  if (db.directUrl !== undefined) yield* checkUrl('DATABASE_DIRECT_URL', new URL(db.directUrl));
  if (db.replicaUrl !== undefined) yield* checkUrl('DATABASE_REPLICA_URL', new URL(db.replicaUrl), 'a standby');
}

function* checkUrl(
  setting: string,
  { hostname, searchParams }: URL,
  leadsTo: 'the primary' | 'a standby' = 'the primary',
): Generator<Outcome> {
  const advice = `Name one address that leads to ${leadsTo}, such as that of HAProxy (docs/operating.md).`;
  const hosts = searchParams.get('host') ?? decodeURIComponent(hostname);
  if (hosts.includes(',')) {
    yield failed(`${setting} has several hosts, and node-postgres connects to one`, advice);
    return;
  }
  if (searchParams.has('target_session_attrs')) {
    const found = `${setting} has target_session_attrs, which node-postgres ignores: it connects to any server`;
    yield failed(found, advice);
    return;
  }
  for (const name of FILES) {
    const file = searchParams.get(name);
    if (file !== null && !existsSync(file))
      yield failed(`${setting}: ${file}, the file of ${name}, does not exist`, `Correct ${name} in ${setting}.`);
  }
  const isLocal = hosts === '' || hosts.startsWith('/') || LOOPBACK.test(hosts.replace(/^\[(.*)\]$/, '$1'));
  const fault = isLocal ? null : findUnverified(searchParams);
  if (fault !== null) yield warning(`${setting}: ${fault}`, `Set sslmode=verify-full in ${setting}.`);
}

/** Parameters that name a file, which node-postgres reads before it connects. */
const FILES = ['sslrootcert', 'sslcert', 'sslkey'];

/** node-postgres verifies with every other mode, unless it is told to do as libpq does. */
function findUnverified(params: URLSearchParams): string | null {
  const isEncrypted = params.has('sslrootcert') || ['true', '1'].includes(params.get('ssl') ?? '');
  const mode = params.get('sslmode') ?? (isEncrypted ? 'verify-full' : 'disable');
  if (mode === 'disable') return 'the connection to another machine is not encrypted';
  const isUnverified = params.get('uselibpqcompat') === 'true' ? !/^verify-/.test(mode) : mode === 'no-verify';
  return isUnverified ? `sslmode=${mode} does not verify the certificate of the server` : null;
}

/** By major version, as its makers have announced it. */
const END_OF_LIFE: Readonly<Record<number, string>> = {
  20: '2026-04-30',
  21: '2024-06-01',
  22: '2027-04-30',
  23: '2025-06-01',
  24: '2028-04-30',
  25: '2026-06-01',
};

function checkNode(): Outcome {
  const found = `${process.version}, for userdir ${VERSION}`;
  const end = END_OF_LIFE[Number.parseInt(process.versions.node, 10)];
  if (end === undefined || Date.now() < Date.parse(end)) return passed(found);
  return warning(`${found}; it has had no security fixes since ${end}`, 'Upgrade to Node.js 24.');
}

/** Dependencies are pinned to exact versions; other versions were never tested. */
function checkPackages(): Outcome {
  const resolve = createRequire(import.meta.url).resolve;
  const wrong = Object.entries(PACKAGE.dependencies).flatMap(([name, wanted]) => {
    const file = (resolve.paths(name) ?? []).map((dir) => join(dir, name, 'package.json')).find(existsSync);
    const version = file === undefined ? 'absent' : JSON.parse(readFileSync(file, 'utf8')).version;
    return version === wanted ? [] : [`${name} is ${version} instead of ${wanted}`];
  });
  if (wrong.length > 0) return failed(wrong.join(', '), 'Run npm ci, which installs the versions of the lock file.');
  return passed(`${Object.keys(PACKAGE.dependencies).length} installed, all of the expected versions`);
}

function checkBuild(): Outcome {
  const fault = findBuildFault();
  return fault === null ? passed('complete') : failed(fault, BUILD_ADVICE);
}

const MIN_FREE_BYTES = 200 * 2 ** 20;

async function checkDataDir(config: Config): Promise<Outcome> {
  const { dataDir } = config;
  if (config.db.engine === 'postgres') return skipped('the data is in PostgreSQL');
  if (!existsSync(dataDir)) {
    const parent = nearestExisting(dirname(dataDir));
    if (!(await isAllowed(parent, constants.W_OK)))
      return failed(`${dataDir} cannot be created: ${parent} is not writable`, 'Set DATA_DIR to another directory.');
    return passed(`${dataDir} does not exist yet; the first start creates it`);
  }
  const found = await stat(dataDir);
  if (!found.isDirectory()) return failed(`${dataDir} is not a directory`, 'Set DATA_DIR to a directory.');
  if (!(await isAllowed(dataDir, constants.R_OK | constants.W_OK | constants.X_OK)))
    return failed(
      `${dataDir} is not readable and writable for this system user`,
      'chown it, or set DATA_DIR to another directory.',
    );
  const { bavail, bsize } = await statfs(dataDir);
  const free = bavail * bsize;
  const space = `${(free / 2 ** 30).toFixed(1)} GiB free`;
  if (free < MIN_FREE_BYTES) return failed(`${dataDir}: ${space}`, 'Free space on that disk.');
  if ((found.mode & 0o077) !== 0)
    return warning(`${dataDir} is accessible to other users of this machine`, `chmod 700 ${dataDir}`);
  return passed(`${dataDir}, ${space}`);
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

async function checkDatabase(config: Config, totals: boolean): Promise<Finding[]> {
  const { db } = config;
  if (db.engine === 'embedded' && !existsSync(join(db.dataDir, 'pgdata')))
    return [{ id: 'database', ...skipped('there is none yet; the first start or command creates it') }];
  try {
    return await examine(config, totals);
  } catch (error) {
    // Another command uses the data directory, or a server is starting or closing. Neither is a problem.
    if (error instanceof DataDirLockedError || error instanceof NotListeningError)
      return [{ id: 'database', ...skipped(error.message) }];
    const advice =
      db.engine === 'embedded'
        ? 'Try again. If it fails again, restore DATA_DIR from a backup.'
        : (adviseConnection(error, 'DATABASE_URL') ?? 'Check DATABASE_URL and the log of PostgreSQL.');
    return [{ id: 'database', ...failed(explainFailure(error), advice) }];
  }
}

async function examine(config: Config, totals: boolean): Promise<Finding[]> {
  // Loaded only where a database is examined, because all commands would take longer.
  const [{ createContext }, { examineDatabase }] = await Promise.all([
    import('../context.js'),
    import('../app/examination.js'),
  ]);
  const context = createContext(config, {
    command: 'userdir doctor',
    asRequests: true,
    lockWaitMs: LOCK_WAIT_MS,
    onDoubt: writeNotice,
  });
  const work = async () => {
    try {
      // Not context.open(), which would apply migrations.
      await context.lockDataDirectory();
      await context.db.start();
      return await examineDatabase(context, { config: config.db, totals });
    } catch (error) {
      if (!isHeldByServer(error)) throw error;
      return examineAtServer(error, config, totals);
    }
  };
  return runThenClose(work, [() => context.close()]);
}

const EXAMINE = graphql(`query Examine($totals: Boolean!) {
  status { version examination(totals: $totals) { id: name state found: message advice } }
}`);

async function examineAtServer(held: DataDirLockedError, config: Config, totals: boolean): Promise<Finding[]> {
  const { pid, since } = held.holder;
  const server = passed(`pid ${pid} holds the data directory since ${since}; the database was checked there`);
  const { ask } = await reachServer(held, operatorOf(config), new AbortController().signal);
  const { version, examination } = await ask(EXAMINE, { totals });
  const other = warning(`it runs ${version}; this command is ${VERSION}`, 'Restart the server.');
  return [
    { id: 'server', ...server },
    ...(version === VERSION ? [] : [{ id: 'server-version', ...other }]),
    ...examination.map(({ id, state, ...finding }) => ({
      id,
      status: state.toLowerCase() as Finding['status'],
      ...finding,
    })),
  ];
}

const REDIS_TIMEOUT_MS = 2_000;

async function checkRedis(config: Config): Promise<Outcome> {
  const url = config.rateLimit.redisUrl;
  if (url === undefined) return skipped('REDIS_URL is not set');
  const { Redis } = await import('ioredis');
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: REDIS_TIMEOUT_MS,
    commandTimeout: REDIS_TIMEOUT_MS,
    retryStrategy: () => null,
  });
  let connectionError: Error | undefined;
  client.on('error', (error) => {
    connectionError = error;
  });
  try {
    const started = performance.now();
    await client.connect();
    await client.ping();
    return passed(`answers in ${Math.ceil(performance.now() - started)} ms`);
  } catch (error) {
    const { message, code } = (connectionError ?? error) as NodeJS.ErrnoException;
    const found = `does not answer: ${message || code}`;
    return failed(found, 'Start Redis, or correct REDIS_URL. Until then each process counts requests for itself.');
  } finally {
    client.disconnect();
  }
}
