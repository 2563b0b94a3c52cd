import type { KeyObject } from 'node:crypto';
import { resolve } from 'node:path';
import { type Fault, readSecretFiles } from './secret-files.js';
import { DECLARATIONS, SECRET_SETTINGS, SETTINGS, type SettingValues, settingsOf } from './settings.js';

/** Everything the environment decides, checked once at the start. */
export interface Config {
  readonly host: string;
  readonly port: number;
  /** How many processes answer requests. */
  readonly workers: number;
  readonly db: DatabaseConfig;
  /** Where the embedded database, its lock and the demo credentials are kept (absolute). */
  readonly dataDir: string;
  readonly logLevel: string;
  /** Whether a browser gets GraphiQL at /graphql. */
  readonly graphiql: boolean;
  /** The directory of GraphQL documents that all projects may name by id (absolute); null for none. */
  readonly documentsDir: string | null;
  /** Whether the first start on a database without projects creates the demo project. */
  readonly demo: boolean;
  /** Whether the dashboard is served. */
  readonly dashboard: boolean;
  /** Where browsers reach the service, without a slash at the end; null for the address on which it listens. */
  readonly publicUrl: string | null;
  /** The keys for signed receipts of verdicts on wallets: the first one signs. Empty for no receipts. */
  readonly receiptKeys: readonly KeyObject[];
  /** The name of the person who runs a command; null for the name of the system user. */
  readonly operator: string | null;
  /** The single sign-on of the dashboard; null for none. */
  readonly oidc: OidcConfig | null;
  /** Which proxies are trusted for X-Forwarded-For: none, all, a number of hops, or addresses and networks. */
  readonly trustProxy: boolean | number | string[];
  /** How long a request may take. After that it is answered with 500. */
  readonly requestTimeoutMs: number;
  /** Whose answers are compressed if they ask for it: clients on other machines, all clients, or none. */
  readonly compression: 'remote' | 'on' | 'off';
  /** Whether heavy requests get a thread of their own when other projects are active. */
  readonly secondThread: 'auto' | 'off';
  /** How many requests a project may make in a minute, unless it has its own limit. */
  readonly rateLimit: RateLimitConfig;
  /** How long it accepts requests after a signal, while it is not ready, so that load balancers can leave it. */
  readonly shutdownDelayMs: number;
  /** How long changes are kept for those who follow them. */
  readonly changesRetentionMs: number;
  /** Whether webhooks may lead to private addresses, and over http. */
  readonly webhooksAllowPrivate: boolean;
  /** The port on which metrics are served; null for no metrics. */
  readonly metricsPort: number | null;
  /** The URL to which traces are sent, by OTLP over HTTP; null for no traces. */
  readonly tracesUrl: string | null;
  /** Headers to send with traces, as OpenTelemetry writes them: `name=value,name=value`. */
  readonly tracesHeaders?: string;
}

export type DatabaseConfig =
  | { readonly engine: 'embedded'; readonly dataDir: string }
  | {
      readonly engine: 'postgres';
      readonly url: string;
      /** The same database without a connection pooler between, if it has one. */
      readonly directUrl?: string;
      /** A standby of the database, on which lists may be read. */
      readonly replicaUrl?: string;
      /** How far it may be behind. */
      readonly replicaMaxLagMs: number;
      readonly poolSize: number;
      /** How long a request waits for a connection, new or shared. */
      readonly poolTimeoutMs: number;
      /** How long a statement of a request may take. */
      readonly statementTimeoutMs: number;
    };

export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** The scopes that are asked for, separated by spaces. */
  readonly scope: string;
  readonly roleClaim: string;
  /** The claim that names an operator. */
  readonly nameClaim: string;
  /** The values of the claim that give each role. */
  readonly roles: Readonly<Record<'admin' | 'support' | 'viewer', readonly string[]>>;
}

export interface RateLimitConfig {
  /** The minute begins with the first request. Null for no limit. */
  readonly requestsPerMinute: number | null;
  /** The Redis in which several processes count together. Without it, each counts by itself. */
  readonly redisUrl?: string;
}

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
  const given: Environment = { ...env, ...files.values };
  const read = readSettings(given, files.values);
  const faults = [
    ...files.faults,
    ...read.faults,
    ...missingDatabase(given),
    ...needlessWorkers(given),
    ...excessiveLag(given),
    ...incompleteOidc(given),
  ];
  if (read.values === null || faults.length > 0) {
    throw new ConfigError(
      faults.map(({ sentence }) => sentence),
      faults.map(({ setting }) => setting),
    );
  }
  const { values } = read;
  const production = values.NODE_ENV === 'production';
  const dataDir = resolve(values.DATA_DIR);
  // If both name a header, the later one counts.
  const tracesHeaders = [values.OTEL_EXPORTER_OTLP_HEADERS, values.OTEL_EXPORTER_OTLP_TRACES_HEADERS].filter(
    (headers) => headers !== undefined,
  );
  const config: Config = {
    host: values.HOST,
    port: values.PORT,
    workers: values.WORKERS,
    dataDir,
    db:
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
          },
    logLevel: values.LOG_LEVEL,
    graphiql: values.GRAPHIQL ?? !production,
    documentsDir: values.DOCUMENTS_DIR === undefined ? null : resolve(values.DOCUMENTS_DIR),
    demo: values.DEMO ?? (!production && LOOPBACK.test(values.HOST)),
    dashboard: values.DASHBOARD ?? (!production && LOOPBACK.test(values.HOST)),
    publicUrl: values.PUBLIC_URL === undefined ? null : new URL(values.PUBLIC_URL).origin,
    receiptKeys: values.RECEIPT_KEY ?? [],
    operator: values.OPERATOR ?? null,
    oidc: oidcOf(values),
    trustProxy: values.TRUST_PROXY,
    requestTimeoutMs: values.REQUEST_TIMEOUT_MS,
    compression: values.COMPRESSION,
    secondThread: values.SECOND_THREAD,
    shutdownDelayMs: values.SHUTDOWN_DELAY_MS,
    changesRetentionMs: values.CHANGES_RETENTION,
    webhooksAllowPrivate: values.WEBHOOKS_ALLOW_PRIVATE,
    rateLimit: {
      requestsPerMinute: values.RATE_LIMIT ?? null,
      ...(values.REDIS_URL && { redisUrl: values.REDIS_URL }),
    },
    metricsPort: values.METRICS_PORT ?? null,
    tracesUrl:
      values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ??
      (values.OTEL_EXPORTER_OTLP_ENDPOINT === undefined ? null : tracesUrlOf(values.OTEL_EXPORTER_OTLP_ENDPOINT)),
    ...(tracesHeaders.length > 0 && { tracesHeaders: tracesHeaders.join(',') }),
  };
  return Object.freeze(config);
}

/** Reads every setting by its declaration; `values` is null if one is malformed. */
function readSettings(given: Environment, fromFiles: Environment): { values: SettingValues | null; faults: Fault[] } {
  const values: Record<string, unknown> = {};
  const faults: Fault[] = [];
  for (const [name, { schema, accepts, default: otherwise }] of settingsOf) {
    const text = given[name] || otherwise;
    if (text === null) continue;
    const { success, data } = schema.safeParse(text);
    if (success) values[name] = data;
    // The value itself is never repeated: DATABASE_URL carries a password.
    else if (name in fromFiles)
      faults.push({ setting: `${name}_FILE`, sentence: `${name}_FILE must hold ${accepts}.` });
    else faults.push({ setting: name, sentence: `${name} must be ${accepts}.` });
  }
  return { values: faults.length === 0 ? (values as SettingValues) : null, faults };
}

/** They lead to the database of DATABASE_URL on another way, or to its standby. */
const OTHER_DATABASE_URLS = ['DATABASE_DIRECT_URL', 'DATABASE_REPLICA_URL'] as const;

/** The embedded database does not fsync, so a forgotten or misspelt DATABASE_URL must not select it in production. */
function missingDatabase(given: Environment): Fault[] {
  const { DATABASE_URL, DATABASE_URL_FILE, EMBEDDED, NODE_ENV } = given;
  if (DATABASE_URL || DATABASE_URL_FILE) return [];
  const embedded = EMBEDDED ? DECLARATIONS.EMBEDDED.schema.safeParse(EMBEDDED).data : undefined;
  const setting = 'DATABASE_URL';
  const other = OTHER_DATABASE_URLS.find((name) => given[name] || given[`${name}_FILE`]);
  if (other !== undefined) return [{ setting, sentence: `DATABASE_URL must be set, because ${other} is.` }];
  if (embedded === false) return [{ setting, sentence: 'DATABASE_URL must be set, because EMBEDDED is off.' }];
  if (NODE_ENV !== 'production' || embedded === true) return [];
  const sentence =
    'DATABASE_URL must be set, because NODE_ENV is production: the embedded database does not fsync, and a power cut may lose ' +
    'what was committed. Set EMBEDDED=on to use it anyway.';
  return [{ setting, sentence }];
}

/** The embedded database has one process. */
function needlessWorkers({ DATABASE_URL, DATABASE_URL_FILE, WORKERS }: Environment): Fault[] {
  if (DATABASE_URL || DATABASE_URL_FILE || !WORKERS || WORKERS === '1') return [];
  if (!DECLARATIONS.WORKERS.schema.safeParse(WORKERS).success) return [];
  const sentence =
    'WORKERS must be 1 with the embedded database, which one process can open. Set DATABASE_URL to use more.';
  return [{ setting: 'WORKERS', sentence }];
}

/** Requests for the present end of the feed of changes wait for so long. */
function excessiveLag(given: Environment): Fault[] {
  if (!given['DATABASE_REPLICA_URL'] && !given['DATABASE_REPLICA_URL_FILE']) return [];
  const read = (name: 'DATABASE_REPLICA_MAX_LAG_MS' | 'REQUEST_TIMEOUT_MS') =>
    DECLARATIONS[name].schema.safeParse(given[name] || DECLARATIONS[name].default).data;
  const [lagMs, timeoutMs] = [read('DATABASE_REPLICA_MAX_LAG_MS'), read('REQUEST_TIMEOUT_MS')];
  if (lagMs === undefined || timeoutMs === undefined || lagMs * 2 <= timeoutMs) return [];
  const sentence = `DATABASE_REPLICA_MAX_LAG_MS, which is ${lagMs}, must be at most half of REQUEST_TIMEOUT_MS, which is ${timeoutMs}.`;
  return [{ setting: 'DATABASE_REPLICA_MAX_LAG_MS', sentence }];
}

const OIDC_SETTINGS = ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'] as const;

/** Single sign-on needs all its settings, and roles that can be read. */
function incompleteOidc(given: Environment): Fault[] {
  const isSet = (name: string) => Boolean(given[name] || given[`${name}_FILE`]);
  const missing = OIDC_SETTINGS.filter((name) => !isSet(name));
  const faults: Fault[] =
    missing.length === OIDC_SETTINGS.length
      ? []
      : missing.map((setting) => ({
          setting,
          sentence: `${setting} must be set, because the single sign-on needs ${OIDC_SETTINGS.join(', ')}.`,
        }));
  const issuer = given['OIDC_ISSUER'];
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
  if (given['OIDC_ROLES'] && rolesOf(given['OIDC_ROLES']) === null)
    faults.push({ setting: 'OIDC_ROLES', sentence: `OIDC_ROLES must be ${DECLARATIONS.OIDC_ROLES.accepts}.` });
  return faults;
}

function oidcOf(values: SettingValues): OidcConfig | null {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = values;
  const roles = rolesOf(values.OIDC_ROLES);
  if (issuer === undefined || clientId === undefined || clientSecret === undefined || roles === null) return null;
  const { OIDC_SCOPE: scope, OIDC_ROLE_CLAIM: roleClaim, OIDC_NAME_CLAIM: nameClaim } = values;
  return { issuer, clientId, clientSecret, scope, roleClaim, nameClaim, roles };
}

/** `role=value` pairs; null if they cannot be read. */
function rolesOf(text: string): OidcConfig['roles'] | null {
  const roles = { admin: [] as string[], support: [] as string[], viewer: [] as string[] };
  for (const pair of text.split(',')) {
    const [, role = '', value = ''] = /^\s*(\w+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (!Object.hasOwn(roles, role) || value === '') return null;
    roles[role as keyof typeof roles].push(value);
  }
  return roles;
}

/** The URL for traces of a collector. OpenTelemetry fixes the path below the collector's address. */
function tracesUrlOf(endpoint: string): string {
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url.href;
}

/** A host of this machine. */
export const LOOPBACK = /^(localhost|::1|127(\.\d{1,3}){3})$/;

/** How many letters may differ. In a short name only one: variables of other programs are often that similar. */
const differencesAllowed = (name: string) => (name.length < 8 ? 1 : 2);

/** Finds variables that look like a misspelt setting: for each, a sentence with the setting that is probably meant. */
export function findMisspelt(env: Environment): string[] {
  const names = Object.keys(env).filter((name) => env[name] && !SETTINGS.includes(name));
  return names.flatMap((name) => {
    const likely = nearest(name.toUpperCase());
    return likely === null ? [] : [`${name} is not a setting and is ignored. Did you mean ${likely}?`];
  });
}

function nearest(name: string): string | null {
  const near = SETTINGS.map((setting) => ({ setting, distance: distanceBetween(name, setting) }))
    .filter(({ setting, distance }) => distance <= differencesAllowed(setting))
    .sort((a, b) => a.distance - b.distance);
  return near[0]?.setting ?? null;
}

/**
 * How many letters must be added, removed, replaced or swapped with their neighbour to turn one name into the other.
 * Infinite if the lengths alone show that it is too many.
 */
function distanceBetween(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 2) return Number.POSITIVE_INFINITY;
  const rows = Array.from({ length: a.length + 1 }, (_, i) => [i]);
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0;
  for (let j = 1; j <= b.length; j += 1) rows[0]?.push(j);
  for (let i = 1; i <= a.length; i += 1) {
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const best = Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + same);
      rows[i]?.push(swapped ? Math.min(best, at(i - 2, j - 2) + 1) : best);
    }
  }
  return at(a.length, b.length);
}
