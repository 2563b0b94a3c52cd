import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { z } from 'zod';
import { type Fault, readSecretFiles } from './secret-files.js';

/** Everything the environment decides, checked once at the start. */
export interface Config {
  readonly host: string;
  readonly port: number;
  readonly db: DatabaseConfig;
  /** Where the embedded database, its lock and the demo credentials are kept (absolute). */
  readonly dataDir: string;
  readonly logLevel: string;
  /** Whether a browser gets GraphiQL at /graphql. */
  readonly graphiql: boolean;
  /** Whether a first start makes a demo project where the database has no project at all. */
  readonly demo: boolean;
  /** Whose X-Forwarded-For is believed: nobody's, everybody's, a number of hops, or a list of addresses and networks. */
  readonly trustProxy: boolean | number | string[];
  /** After this long a request is answered with 500, whatever it waits for. */
  readonly requestTimeoutMs: number;
  /** What a project may ask of the service in a minute; null where there is no limit. */
  readonly rateLimit: RateLimitConfig | null;
  /** How long the service goes on after a signal, no longer ready, so that whoever sends it requests can turn to another. */
  readonly shutdownDelayMs: number;
  /** Where metrics are served; null for nowhere. */
  readonly metricsPort: number | null;
  /** Where traces are sent, by OTLP over HTTP; null for nowhere. */
  readonly tracesUrl: string | null;
  /** What is sent along with them, as OpenTelemetry writes it: `name=value,name=value`. */
  readonly tracesHeaders?: string;
}

export type DatabaseConfig =
  | { readonly engine: 'embedded'; readonly dataDir: string }
  | {
      readonly engine: 'postgres';
      readonly url: string;
      readonly poolSize: number;
      /** How long a request waits for a connection, new or shared. */
      readonly poolTimeoutMs: number;
      /** How long a statement of a request may take. */
      readonly statementTimeoutMs: number;
    };

export interface RateLimitConfig {
  /** Counted from the first of them on. */
  readonly requestsPerMinute: number;
  /** Where several processes count together; without it each counts by itself. */
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

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

const wholeNumber = (min: number, max: number) => {
  const error = `a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,9}$/, error)
    .transform(Number)
    .pipe(z.number().min(min, error).max(max, error));
};
const switchValue = z.stringbool({ truthy: ['on', 'true', '1'], falsy: ['off', 'false', '0'], error: '"on" or "off"' });

const isNetwork = (text: string) => {
  const [address = '', bits, ...rest] = text.split('/');
  const family = isIP(address);
  const bitsFit = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32));
  return family !== 0 && rest.length === 0 && bitsFit;
};
const trustProxyError = '"off", "on", a number of hops, or addresses and networks separated by commas';
const trustProxy = z.union(
  [
    wholeNumber(1, 100),
    switchValue,
    z
      .string()
      .transform((text) => text.split(',').map((part) => part.trim()))
      .refine((parts) => parts.every(isNetwork), trustProxyError),
  ],
  { error: trustProxyError },
);

const urlOf = (...schemes: string[]) =>
  z
    .string()
    .refine(
      (text) => URL.canParse(text) && schemes.includes(new URL(text).protocol.slice(0, -1)),
      `a URL that starts with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`,
    );

const settings = z.object({
  HOST: z.string().default('127.0.0.1'),
  PORT: wholeNumber(0, 65535).default(4000),
  DATABASE_URL: urlOf('postgres', 'postgresql').optional(),
  EMBEDDED: switchValue.optional(),
  DATABASE_POOL_SIZE: wholeNumber(1, 1000).default(10),
  DATABASE_POOL_TIMEOUT_MS: wholeNumber(100, 600_000).default(2_000),
  DATABASE_STATEMENT_TIMEOUT_MS: wholeNumber(100, 600_000).default(5_000),
  REQUEST_TIMEOUT_MS: wholeNumber(100, 600_000).default(10_000),
  SHUTDOWN_DELAY_MS: wholeNumber(0, 600_000).default(0),
  RATE_LIMIT: wholeNumber(1, 100_000_000).optional(),
  REDIS_URL: urlOf('redis', 'rediss').optional(),
  DATA_DIR: z.string().default('./data'),
  LOG_LEVEL: z.enum(LOG_LEVELS, `one of ${LOG_LEVELS.join(', ')}`).default('info'),
  NODE_ENV: z.string().optional(),
  GRAPHIQL: switchValue.optional(),
  DEMO: switchValue.optional(),
  TRUST_PROXY: trustProxy.default(false),
  METRICS_PORT: wholeNumber(0, 65535).optional(),
  OTEL_EXPORTER_OTLP_ENDPOINT: urlOf('http', 'https').optional(),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: urlOf('http', 'https').optional(),
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional(),
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: z.string().optional(),
});

/** Those that hold a secret: each may be given as a file instead, by the same name with _FILE. */
const SECRET_SETTINGS = [
  'DATABASE_URL',
  'REDIS_URL',
  'OTEL_EXPORTER_OTLP_HEADERS',
  'OTEL_EXPORTER_OTLP_TRACES_HEADERS',
] as const satisfies readonly (keyof typeof settings.shape)[];

export const SETTINGS: readonly string[] = [
  ...Object.keys(settings.shape),
  ...SECRET_SETTINGS.map((name) => `${name}_FILE`),
];

/** Environment variables to Config; throws ConfigError with every fault at once. An empty variable counts as absent. */
export function parseConfig(env: Environment): Config {
  const files = readSecretFiles(env, SECRET_SETTINGS);
  const given = Object.entries({ ...env, ...files.values }).filter(([, value]) => value !== undefined && value !== '');
  const parsed = settings.safeParse(Object.fromEntries(given));
  const malformed = parsed.error?.issues.map(({ path, message }) => {
    const name = String(path[0]);
    // The value itself is never repeated: DATABASE_URL carries a password.
    if (name in files.values) return { setting: `${name}_FILE`, sentence: `${name}_FILE must hold ${message}.` };
    return { setting: name, sentence: `${name} must be ${message}.` };
  });
  const faults = [...files.faults, ...(malformed ?? []), ...missingDatabase(Object.fromEntries(given))];
  if (!parsed.success || faults.length > 0) {
    throw new ConfigError(
      faults.map(({ sentence }) => sentence),
      faults.map(({ setting }) => setting),
    );
  }
  const values = parsed.data;
  const production = values.NODE_ENV === 'production';
  const dataDir = resolve(values.DATA_DIR);
  // Of two of a name the later counts.
  const tracesHeaders = [values.OTEL_EXPORTER_OTLP_HEADERS, values.OTEL_EXPORTER_OTLP_TRACES_HEADERS].filter(
    (headers) => headers !== undefined,
  );
  const config: Config = {
    host: values.HOST,
    port: values.PORT,
    dataDir,
    db:
      values.DATABASE_URL === undefined
        ? { engine: 'embedded', dataDir }
        : {
            engine: 'postgres',
            url: values.DATABASE_URL,
            poolSize: values.DATABASE_POOL_SIZE,
            poolTimeoutMs: values.DATABASE_POOL_TIMEOUT_MS,
            statementTimeoutMs: values.DATABASE_STATEMENT_TIMEOUT_MS,
          },
    logLevel: values.LOG_LEVEL,
    graphiql: values.GRAPHIQL ?? !production,
    demo: values.DEMO ?? (!production && isLoopback(values.HOST)),
    trustProxy: values.TRUST_PROXY,
    requestTimeoutMs: values.REQUEST_TIMEOUT_MS,
    shutdownDelayMs: values.SHUTDOWN_DELAY_MS,
    rateLimit:
      values.RATE_LIMIT === undefined
        ? null
        : { requestsPerMinute: values.RATE_LIMIT, ...(values.REDIS_URL && { redisUrl: values.REDIS_URL }) },
    metricsPort: values.METRICS_PORT ?? null,
    tracesUrl:
      values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ??
      (values.OTEL_EXPORTER_OTLP_ENDPOINT === undefined ? null : tracesUrlOf(values.OTEL_EXPORTER_OTLP_ENDPOINT)),
    ...(tracesHeaders.length > 0 && { tracesHeaders: tracesHeaders.join(',') }),
  };
  return Object.freeze(config);
}

/** The embedded database does not fsync, so production does not get it by a forgotten or misspelt DATABASE_URL. */
function missingDatabase(given: Environment): Fault[] {
  const { DATABASE_URL, DATABASE_URL_FILE, EMBEDDED, NODE_ENV } = given;
  if (DATABASE_URL !== undefined || DATABASE_URL_FILE !== undefined) return [];
  const embedded = switchValue.optional().safeParse(EMBEDDED).data;
  const setting = 'DATABASE_URL';
  if (embedded === false) return [{ setting, sentence: 'DATABASE_URL must be set, because EMBEDDED is off.' }];
  if (NODE_ENV !== 'production' || embedded === true) return [];
  const sentence =
    'DATABASE_URL must be set, because NODE_ENV is production: the embedded database does not fsync, and a power cut may lose ' +
    'what was committed. EMBEDDED=on says that it is meant.';
  return [{ setting, sentence }];
}

/** The path that OpenTelemetry fixes below the address of a collector for all kinds of telemetry. */
function tracesUrlOf(endpoint: string): string {
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url.href;
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host);
}
