import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { z } from 'zod';

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
});

export const SETTINGS: readonly string[] = Object.keys(settings.shape);

/** Environment variables to Config; throws ConfigError with every fault at once. An empty variable counts as absent. */
export function parseConfig(env: Environment): Config {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''));
  const parsed = settings.safeParse(given);
  if (!parsed.success) {
    // The value itself is never repeated: DATABASE_URL carries a password.
    const { issues } = parsed.error;
    throw new ConfigError(
      issues.map((issue) => `${String(issue.path[0])} must be ${issue.message}.`),
      issues.map((issue) => String(issue.path[0])),
    );
  }
  const values = parsed.data;
  const production = values.NODE_ENV === 'production';
  const dataDir = resolve(values.DATA_DIR);
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
  };
  return Object.freeze(config);
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
