import { join, resolve } from 'node:path';
import { distanceBetween, isAlike } from './alike.js';
import { isOlder } from './build.js';
import { type Fault, readSecretFiles } from './secret-files.js';
import { SECRET_SETTINGS, SETTINGS, type SettingValues, settingsOf } from './settings.js';

/** Everything the environment decides, checked once at the start. settings.ts says what each setting does. */
export type Config = Readonly<ReturnType<typeof configOf>>;

export type DatabaseConfig =
  | { readonly engine: 'embedded'; readonly dataDir: string }
  | {
      readonly engine: 'postgres';
      readonly url: string;
      /** The URL of this database without a connection pooler between, if it has one. */
      readonly directUrl?: string;
      /** A standby of the database, on which lists may be read. */
      readonly replicaUrl?: string;
      /** The most that it may be behind. */
      readonly replicaMaxLagMs: number;
      readonly poolSize: number;
      /** The wait of a request for a connection, new or shared. */
      readonly poolTimeoutMs: number;
      /** The limit of a request's statement. */
      readonly statementTimeoutMs: number;
    };

export type OidcConfig = NonNullable<Config['oidc']>;

/** A malformed setting: one line per fault, each naming its variable and what it accepts. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(
    readonly faults: string[],
    /** The variables that are malformed. */
    readonly settings: string[],
  ) {
    super(faults.join('\n'));
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** Reads Config from the environment. Throws ConfigError with all faults. An empty variable counts as absent. */
export function parseConfig(env: Environment): Config {
  const files = readSecretFiles(env, SECRET_SETTINGS);
  const variables: Environment = { ...env, ...files.values };
  const read = readSettings(variables, files.values);
  const faults = [
    ...files.faults,
    ...read.faults,
    ...missingDatabase(variables, read.values),
    ...unsharedPort(read.values),
    ...excessiveLag(variables, read.values),
    ...incompleteOidc(variables),
  ];
  if (faults.length === 0) return Object.freeze(configOf(read.values as SettingValues));
  throw new ConfigError(
    [...new Set(faults.map(({ sentence }) => sentence))],
    faults.map(({ setting }) => setting),
  );
}

function configOf(values: SettingValues) {
  const production = values.NODE_ENV === 'production';
  const isPrivate = !production && LOOPBACK.test(values.HOST);
  const dataDir = resolve(values.DATA_DIR);
  // If both name a header, the later one counts.
  const tracesHeaders = [values.OTEL_EXPORTER_OTLP_HEADERS, values.OTEL_EXPORTER_OTLP_TRACES_HEADERS].filter(
    (headers) => headers !== undefined,
  );
  const db: DatabaseConfig =
    values.DATABASE_URL === undefined
      ? { engine: 'embedded', dataDir }
      : {
          engine: 'postgres',
          url: values.DATABASE_URL,
          ...(values.DATABASE_DIRECT_URL && { directUrl: values.DATABASE_DIRECT_URL }),
          ...(values.DATABASE_REPLICA_URL && { replicaUrl: values.DATABASE_REPLICA_URL }),
          replicaMaxLagMs: values.DATABASE_REPLICA_MAX_LAG_MS,
          poolSize: values.DATABASE_POOL_SIZE,
          poolTimeoutMs: values.DATABASE_POOL_TIMEOUT_MS,
          statementTimeoutMs: values.DATABASE_STATEMENT_TIMEOUT_MS,
        };
  return {
    host: values.HOST,
    port: values.PORT,
    reusePort: values.REUSE_PORT,
    db,
    /** The absolute path of the embedded database, its lock and the demo credentials. */
    dataDir,
    logLevel: values.LOG_LEVEL,
    graphiql: values.GRAPHIQL ?? !production,
    /** Absolute; null for none. */
    documentsDir: values.DOCUMENTS_DIR === undefined ? null : resolve(values.DOCUMENTS_DIR),
    demo: values.DEMO ?? isPrivate,
    dashboard: values.DASHBOARD ?? isPrivate,
    /** Without a slash at the end; null for the address on which it listens. */
    publicUrl: values.PUBLIC_URL === undefined ? null : new URL(values.PUBLIC_URL).origin,
    /** The name of the person who runs a command; null for the name of the system user. */
    operator: values.OPERATOR ?? null,
    project: values.USERDIR_PROJECT ?? null,
    /** Null for no single sign-on. */
    oidc: oidcOf(values),
    /** None, all, a number of hops, or addresses and networks. */
    trustProxy: values.TRUST_PROXY,
    requestTimeoutMs: values.REQUEST_TIMEOUT_MS,
    keepAliveMs: values.KEEP_ALIVE_SECONDS * 1_000,
    compression: values.COMPRESSION,
    shutdownDelayMs: values.SHUTDOWN_DELAY_MS,
    changesRetentionMs: values.CHANGES_RETENTION,
    webhooksAllowPrivate: values.WEBHOOKS_ALLOW_PRIVATE,
    rateLimit: {
      /** Of a project without a limit of its own. Null for no limit. */
      requestsPerMinute: values.RATE_LIMIT ?? null,
      ...(values.REDIS_URL && { redisUrl: values.REDIS_URL }),
    },
    /** Null for no metrics. */
    metricsPort: values.METRICS_PORT ?? null,
    metricsHost: values.METRICS_HOST ?? values.HOST,
    /** One of so many successful requests is logged. */
    logSample: values.LOG_SAMPLE,
    /** Null for no traces. */
    tracesUrl: values.OTEL_SDK_DISABLED ? null : tracesUrlOf(values),
    /** As it was asked for. */
    tracesProtocol: values.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? values.OTEL_EXPORTER_OTLP_PROTOCOL,
    /** As OpenTelemetry writes them: `name=value,name=value`. */
    ...(tracesHeaders.length > 0 && { tracesHeaders: tracesHeaders.join(',') }),
  };
}

/** Reads every setting by its declaration. `values` lacks those that are malformed. */
function readSettings(env: Environment, fromFiles: Environment): { values: Partial<SettingValues>; faults: Fault[] } {
  const values: Record<string, unknown> = {};
  const faults: Fault[] = [];
  for (const [name, { schema, accepts, explain, default: otherwise }] of settingsOf) {
    const text = env[name] || otherwise;
    if (text === null) continue;
    const { success, data } = schema.safeParse(text);
    // The value itself is never repeated: DATABASE_URL carries a password.
    if (success) {
      values[name] = data;
      continue;
    }
    const explained = explain?.(text);
    if (name in fromFiles) {
      const why = explained ? `must hold ${accepts}: its value ${explained}` : `must hold ${accepts}.`;
      faults.push({ setting: `${name}_FILE`, sentence: `${name}_FILE ${why}` });
    } else faults.push({ setting: name, sentence: `${name} ${explained ?? `must be ${accepts}.`}` });
  }
  return { values, faults };
}

/** True for a setting that is there, as itself or as a file, even if it cannot be read. */
const isGiven = (variables: Environment, name: string) => Boolean(variables[name] || variables[`${name}_FILE`]);

/** They lead to the database of DATABASE_URL on another way, or to its standby. */
const OTHER_DATABASE_URLS = ['DATABASE_DIRECT_URL', 'DATABASE_REPLICA_URL'] as const;

/** The embedded database does not fsync, so a forgotten or misspelt DATABASE_URL must not select it in production. */
function missingDatabase(variables: Environment, { EMBEDDED }: Partial<SettingValues>): Fault[] {
  if (isGiven(variables, 'DATABASE_URL')) return [];
  const setting = 'DATABASE_URL';
  const other = OTHER_DATABASE_URLS.find((name) => isGiven(variables, name));
  if (other !== undefined) return [{ setting, sentence: `DATABASE_URL must be set, because ${other} is.` }];
  if (EMBEDDED === false) return [{ setting, sentence: 'DATABASE_URL must be set, because EMBEDDED is off.' }];
  if (variables['NODE_ENV'] !== 'production' || EMBEDDED === true) return [];
  const sentence =
    'DATABASE_URL must be set, because NODE_ENV is production: the embedded database does not fsync, and a power cut may lose ' +
    'what was committed. Set EMBEDDED=on to use it anyway.';
  return [{ setting, sentence }];
}

/** Node.js shares a port from this version on. */
const SHARES_PORTS = '23.1.0';

function unsharedPort({ REUSE_PORT }: Partial<SettingValues>): Fault[] {
  const { node } = process.versions;
  if (!REUSE_PORT || !isOlder(node, SHARES_PORTS)) return [];
  return [{ setting: 'REUSE_PORT', sentence: `REUSE_PORT needs Node.js 23.1 or newer; this is ${node}.` }];
}

/** Requests for the present end of the feed of changes wait for so long. */
function excessiveLag(variables: Environment, values: Partial<SettingValues>): Fault[] {
  const { DATABASE_REPLICA_MAX_LAG_MS: lagMs, REQUEST_TIMEOUT_MS: timeoutMs } = values;
  if (!isGiven(variables, 'DATABASE_REPLICA_URL') || lagMs === undefined || timeoutMs === undefined) return [];
  if (lagMs * 2 <= timeoutMs) return [];
  const sentence = `DATABASE_REPLICA_MAX_LAG_MS, which is ${lagMs}, must be at most half of REQUEST_TIMEOUT_MS, which is ${timeoutMs}.`;
  return [{ setting: 'DATABASE_REPLICA_MAX_LAG_MS', sentence }];
}

const OIDC_SETTINGS = ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'] as const;

/** Single sign-on needs all its settings. */
function incompleteOidc(variables: Environment): Fault[] {
  const missing = OIDC_SETTINGS.filter((name) => !isGiven(variables, name));
  const isHalf = missing.length > 0 && missing.length < OIDC_SETTINGS.length;
  const sentence = `${missing.join(' and ')} must be set, because the single sign-on needs ${OIDC_SETTINGS.join(', ')}.`;
  // All of them: without the others, one that is set means nothing.
  const faults: Fault[] = isHalf ? OIDC_SETTINGS.map((setting) => ({ setting, sentence })) : [];
  const issuer = variables['OIDC_ISSUER'];
  if (
    issuer &&
    URL.canParse(issuer) &&
    new URL(issuer).protocol === 'http:' &&
    !LOOPBACK.test(new URL(issuer).hostname)
  )
    faults.push({
      setting: 'OIDC_ISSUER',
      sentence: 'OIDC_ISSUER must begin with https://, unless it is on this machine.',
    });
  return faults;
}

function oidcOf(values: SettingValues) {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = values;
  if (issuer === undefined || clientId === undefined || clientSecret === undefined) return null;
  const { OIDC_SCOPE: scope, OIDC_ROLE_CLAIM: roleClaim, OIDC_NAME_CLAIM: nameClaim, OIDC_ROLES: roles } = values;
  return { issuer, clientId, clientSecret, scope, roleClaim, nameClaim, roles };
}

/** Where traces are sent, or null. OpenTelemetry fixes the path below the address of a collector. */
function tracesUrlOf(values: SettingValues): string | null {
  if (values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT !== undefined) return values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT;
  if (values.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return null;
  const url = new URL(values.OTEL_EXPORTER_OTLP_ENDPOINT);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url.href;
}

/** A host of this machine. */
export const LOOPBACK = /^(localhost|::1|127(\.\d{1,3}){3})$/;

/** Finds variables that look like a misspelt setting: for each, a sentence with the setting that is probably meant. */
export function findMisspelt(env: Environment): string[] {
  const names = Object.keys(env).filter((name) => env[name] && !SETTINGS.includes(name));
  return names.flatMap((name) => {
    const likely = nearest(name.toUpperCase());
    return likely === null ? [] : [`${name} is not a setting and is ignored. Did you mean ${likely}?`];
  });
}

function nearest(name: string): string | null {
  const near = SETTINGS.filter((setting) => isAlike(name, setting));
  return near.sort((a, b) => distanceBetween(name, a) - distanceBetween(name, b))[0] ?? null;
}

/** Where a server is for who is on the same machine: one that listens on every address is also reached over loopback. */
export function reachableHere(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}

/** Where browsers reach the dashboard of a service: as the settings say, or at its origin. Null if it has none. */
export function dashboardUrlOf({ dashboard, publicUrl, host, port }: Config, origin?: string): string | null {
  const here = () => reachableHere(`http://${host.includes(':') ? `[${host}]` : host}:${port}`);
  return dashboard ? `${publicUrl ?? origin ?? here()}/dashboard` : null;
}

/** Where a server that holds a data directory says how commands reach it. */
export const commandFileIn = (dataDir: string): string => join(dataDir, 'command.json');
