import { existsSync, readFileSync } from 'node:fs';
import { access, constants, stat, statfs } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { BUILD_ADVICE, findBuildFault, PACKAGE, VERSION } from '../config/build.js';
import {
  type Config,
  ConfigError,
  type DatabaseConfig,
  type Environment,
  findMisspelt,
  LOOPBACK,
  parseConfig,
} from '../config/config.js';
import { isWritableForOthers, othersMayWrite } from '../config/private-files.js';
import { SETTINGS } from '../config/settings.js';
import { type Finding, failed, type Outcome, passed, skipped, warning } from '../domain/findings.js';

/* What doctor says of the settings and of this machine. */

/** Also returns the settings; malformed ones are left out, so that the other checks can run. */
export function checkSettings(env: Environment): { config: Config | null; findings: Finding[] } {
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
        ...checkUrls(config.db).map((outcome) => ({ id: 'database-url', ...outcome })),
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
  const misspelt = findMisspelt(env).join('\n');
  return misspelt === '' ? [] : [{ id: 'setting-names', ...warning(misspelt, 'Rename or unset them.') }];
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

/** Finds in the URLs of a database: what node-postgres ignores in silence, and what is not verified. */
function checkUrls(config: DatabaseConfig): Outcome[] {
  if (config.engine === 'embedded') return [];
  const { url, directUrl, replicaUrl } = config;
  return [
    ...checkUrl('DATABASE_URL', url),
    ...checkUrl('DATABASE_DIRECT_URL', directUrl),
    ...checkUrl('DATABASE_REPLICA_URL', replicaUrl, 'a standby'),
  ];
}

function checkUrl(setting: string, url: string | undefined, leadsTo = 'the primary'): Outcome[] {
  if (url === undefined) return [];
  const { hostname, searchParams } = new URL(url);
  const advice = `Name one address that leads to ${leadsTo}, such as that of HAProxy (docs/operating.md).`;
  const host = searchParams.get('host') ?? decodeURIComponent(hostname);
  if (searchParams.has('target_session_attrs')) {
    const found = `${setting} has target_session_attrs, which node-postgres ignores: it connects to any server`;
    return [failed(found, advice)];
  }
  const absent = FILES.flatMap((name) => {
    const file = searchParams.get(name);
    if (file === null || existsSync(file)) return [];
    return failed(`${setting}: ${file}, the file of ${name}, does not exist`, `Correct ${name} in ${setting}.`);
  });
  const isLocal = host === '' || host.startsWith('/') || LOOPBACK.test(host.replace(/^\[(.*)\]$/, '$1'));
  const fault = isLocal ? null : findUnverified(searchParams);
  return fault === null
    ? absent
    : [...absent, warning(`${setting}: ${fault}`, `Set sslmode=verify-full in ${setting}.`)];
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

/** Node.js, the packages and the build of this release. */
export function checkInstallation(): Finding[] {
  const fault = findBuildFault();
  return [
    { id: 'node', ...checkNode() },
    { id: 'packages', ...checkPackages() },
    { id: 'build', ...(fault === null ? passed('complete') : failed(fault, BUILD_ADVICE)) },
  ];
}

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

const MIN_FREE_BYTES = 200 * 2 ** 20;

export async function checkDataDir(config: Config): Promise<Outcome> {
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
  if (isWritableForOthers(found)) return warning(othersMayWrite(dataDir), `chmod 700 ${dataDir}`);
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

const REDIS_TIMEOUT_MS = 2_000;

export async function checkRedis(config: Config): Promise<Outcome> {
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
