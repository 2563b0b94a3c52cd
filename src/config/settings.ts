import { isIP } from 'node:net';
import { z } from 'zod';
import { findUrlFault } from './database-url.js';

/* Every setting with its kind, default and effect. `parseConfig`, errors and docs/configuration.md are made from this table. */

/** Makes the text of a variable a value. `accepts` completes the sentence "NAME must be …". */
interface Kind<Value> {
  readonly accepts: string;
  readonly schema: z.ZodType<Value, string>;
  /** What is wrong with a text that the schema refuses, as a sentence after the name of the variable; without it, "must be …". */
  readonly explain?: (text: string) => string | null;
}

interface Setting<Value> extends Kind<Value> {
  /** The text that is used if the variable is absent; null if absence has a meaning of its own. */
  readonly default: string | null;
  /** The default in the documentation if `default` is null. */
  readonly absent?: string;
  /** One or two sentences for operators. */
  readonly does: string;
  /** True if the value may hold a secret. Such a setting can be given as a file instead, by its name with _FILE. */
  readonly secret?: true;
}

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

function wholeNumber(min: number, max: number): Kind<number> {
  const accepts = `a whole number from ${min} to ${max}`;
  const schema = z
    .string()
    .regex(/^\d{1,9}$/, accepts)
    .transform(Number)
    .pipe(z.number().min(min, accepts).max(max, accepts));
  return { accepts, schema };
}

const UNIT_MS: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** In milliseconds. */
const duration: Kind<number> = {
  accepts: 'a whole number with a unit, such as 90m, 24h or 30d, up to 9999d',
  schema: z
    .string()
    .regex(/^[1-9]\d{0,3}[mhd]$/)
    .transform((text) => Number(text.slice(0, -1)) * (UNIT_MS[text.slice(-1)] as number)),
};

function text(accepts: string): Kind<string> {
  return { accepts, schema: z.string() };
}

const onOrOff = '"on" or "off"';
const switchValue: Kind<boolean> = {
  accepts: onOrOff,
  schema: z.stringbool({ truthy: ['on', 'true', '1'], falsy: ['off', 'false', '0'], error: onOrOff }),
};

function url(...schemes: string[]): Kind<string> {
  const accepts = `a URL that starts with ${schemes.map((scheme) => `${scheme}://`).join(' or ')}`;
  const hasScheme = (value: string) => URL.canParse(value) && schemes.includes(new URL(value).protocol.slice(0, -1));
  return { accepts, schema: z.string().refine(hasScheme, accepts) };
}

const postgresUrl = url('postgres', 'postgresql');
const databaseUrl: Kind<string> = {
  ...postgresUrl,
  schema: postgresUrl.schema.refine((value) => findUrlFault(value) === null),
  explain: (value) => (/^postgres(ql)?:/.test(value) ? findUrlFault(value) : null),
};

/** Without a path, below which the service cannot be. */
const origin: Kind<string> = {
  accepts: 'a URL of a scheme (http:// or https://), a host and, where it is not the usual one, a port, without a path',
  schema: url('http', 'https').schema.refine((value) => URL.canParse(value) && isOrigin(new URL(value))),
};

function isOrigin({ pathname, search, hash, username, password }: URL): boolean {
  return `${pathname}${search}${hash}${username}${password}` === '/';
}

function oneOf<Name extends string>(...names: readonly Name[]): Kind<Name> {
  const accepts = `one of ${names.join(', ')}`;
  return { accepts, schema: z.enum(names, accepts) as unknown as z.ZodType<Name, string> };
}

const proxies = '"off", "on", a number of hops, or addresses and networks separated by commas';
const trustProxy: Kind<boolean | number | string[]> = {
  accepts: proxies,
  schema: z.union(
    [
      wholeNumber(1, 100).schema,
      switchValue.schema,
      z
        .string()
        .transform((list) => list.split(',').map((part) => part.trim()))
        .refine((parts) => parts.every(isNetwork), proxies),
    ],
    { error: proxies },
  ),
};

function isNetwork(part: string): boolean {
  const [address = '', bits, ...rest] = part.split('/');
  const family = isIP(address);
  const bitsFit = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 6 ? 128 : 32));
  // A zone, and IPv4 that IPv6 wraps, are left out when addresses are compared.
  return family !== 0 && rest.length === 0 && bitsFit && !/^::ffff:|%/i.test(address);
}

/** The values of a claim that give each role. */
const roles: Kind<Readonly<Record<'admin' | 'support' | 'viewer', readonly string[]>>> = {
  accepts: '`role=value` pairs separated by commas',
  schema: z.string().transform((pairs, context) => {
    const values = { admin: [] as string[], support: [] as string[], viewer: [] as string[] };
    for (const pair of pairs.split(',')) {
      const end = pair.indexOf('=');
      const [role, value] = [pair.slice(0, Math.max(0, end)).trim(), pair.slice(end + 1).trim()];
      if (!Object.hasOwn(values, role) || value === '') context.addIssue(pair);
      else values[role as keyof typeof values].push(value);
    }
    return values;
  }),
};

const headerList = text('`name=value` pairs separated by commas');

/** In the order of the documentation. */
export const DECLARATIONS = {
  DATABASE_URL: {
    ...databaseUrl,
    default: null,
    absent: 'the embedded database',
    does: 'The PostgreSQL database that holds the data. With `NODE_ENV=production` it must be set, unless `EMBEDDED=on`.',
    secret: true,
  },
  DATABASE_DIRECT_URL: {
    ...databaseUrl,
    default: null,
    absent: '`DATABASE_URL`',
    does: 'The same database without the connection pooler that `DATABASE_URL` leads to. Commands and up to four connections of a process use it. Behind a pooler of transactions it must be set.',
    secret: true,
  },
  DATABASE_REPLICA_URL: {
    ...databaseUrl,
    default: null,
    absent: 'lists are read at `DATABASE_URL`',
    does: 'A standby of the same database. Lists, counts, exports, audit trails and pages of changes are read there while it keeps up.',
    secret: true,
  },
  DATABASE_REPLICA_MAX_LAG_MS: {
    ...wholeNumber(500, 300_000),
    default: '1000',
    does: 'How far the standby may be behind, in milliseconds. Beyond that it is not used. At most half of `REQUEST_TIMEOUT_MS`.',
  },
  EMBEDDED: {
    ...switchValue,
    default: null,
    absent: 'allowed, except with `NODE_ENV=production`',
    does: 'Whether the embedded database may be used where `DATABASE_URL` is absent. The embedded database does not call fsync.',
  },
  DATA_DIR: {
    ...text('a path'),
    default: './data',
    does: 'The directory of the embedded database, its lock file and the demo credentials.',
  },
  DATABASE_POOL_SIZE: {
    ...wholeNumber(1, 1000),
    default: '10',
    does: 'How many PostgreSQL connections a process has. It opens up to three more to `DATABASE_DIRECT_URL`. With `DATABASE_REPLICA_URL`, there is one more, and the same number plus one to the standby.',
  },
  DATABASE_POOL_TIMEOUT_MS: {
    ...wholeNumber(100, 600_000),
    default: '2000',
    does: 'How long a request waits for a PostgreSQL connection, in milliseconds. After that it fails with 503.',
  },
  DATABASE_STATEMENT_TIMEOUT_MS: {
    ...wholeNumber(100, 600_000),
    default: '5000',
    does: 'How long one SQL statement of a request may run, in milliseconds. Commands have no such limit.',
  },
  HOST: {
    ...text('an address or a host name of this machine'),
    default: '127.0.0.1',
    does: 'The address to listen on. `0.0.0.0` listens on all.',
  },
  PORT: { ...wholeNumber(0, 65535), default: '4000', does: 'The port to listen on. `0` takes a free one.' },
  REUSE_PORT: {
    ...switchValue,
    default: 'off',
    does: 'Whether several processes of this machine listen on the same port, and the system gives each new connection to one of them. It needs `DATABASE_URL` and Node.js 23.1 or newer.',
  },
  TRUST_PROXY: {
    ...trustProxy,
    default: 'off',
    does: 'Which proxies may name the client address in `X-Forwarded-For`. The limit of failed authentications counts by that address. With `on`, every client can name any address, unless the proxy replaces the header.',
  },
  REQUEST_TIMEOUT_MS: {
    ...wholeNumber(100, 600_000),
    default: '10000',
    does: 'How long a request may take, in milliseconds. After that it is answered with 503.',
  },
  KEEP_ALIVE_SECONDS: {
    ...wholeNumber(1, 3600),
    default: '72',
    does: 'How long a connection stays open between two requests, in seconds. It must be longer than a proxy or balancer keeps its connections to the service open: nginx 60, Google’s 600.',
  },
  COMPRESSION: {
    ...oneOf('remote', 'on', 'off'),
    default: 'remote',
    does: 'Which clients get compressed answers, if an answer has more than 1 KiB and the client asks for it by `Accept-Encoding`: clients on other machines (`remote`, by the address that a proxy names if `TRUST_PROXY` trusts it), all clients (`on`), or none (`off`).',
  },
  SHUTDOWN_DELAY_MS: {
    ...wholeNumber(0, 600_000),
    default: '0',
    does: 'How long the service still accepts connections after SIGTERM, in milliseconds. `/readyz` answers 503 meanwhile. Behind a load balancer, choose more than its health checks need to notice.',
  },
  CHANGES_RETENTION: {
    ...duration,
    default: '30d',
    does: 'How long changes are kept for those who follow them. A follower that was away for longer starts again from an export.',
  },
  WEBHOOKS_ALLOW_PRIVATE: {
    ...switchValue,
    default: 'off',
    does: 'Whether webhooks may lead to private, loopback and link-local addresses, and over http. Otherwise only public hosts over https may get them. `on` lets everyone who may add a webhook send requests into the network of the service.',
  },
  RATE_LIMIT: {
    ...wholeNumber(1, 100_000_000),
    default: null,
    absent: 'no limit',
    does: 'How many authenticated requests a project may make in a minute, unless `project limit` gave it a limit of its own. Requests beyond it are answered with 429.',
  },
  REDIS_URL: {
    ...url('redis', 'rediss'),
    default: null,
    absent: 'each process counts by itself',
    does: 'The Redis in which several processes count the requests of a project together. While Redis cannot be reached, each process counts by itself.',
    secret: true,
  },
  GRAPHIQL: {
    ...switchValue,
    default: null,
    absent: '`on`; `off` with `NODE_ENV=production`',
    does: 'Whether a browser gets GraphiQL at `/graphql`.',
  },
  DOCUMENTS_DIR: {
    ...text('a path'),
    default: null,
    absent: 'none',
    does: 'A directory of `.graphql` files, read at the start. Every project may execute them [by `documentId`](graphql.md#documents-by-id).',
  },
  DEMO: {
    ...switchValue,
    default: null,
    absent: '`on`; `off` with `NODE_ENV=production` or when `HOST` is not loopback',
    does: 'Whether the first start on a database without projects creates the demo project.',
  },
  DASHBOARD: {
    ...switchValue,
    default: null,
    absent: '`on`; `off` with `NODE_ENV=production` or when `HOST` is not loopback',
    does: 'Whether the dashboard is served at `/dashboard`.',
  },
  PUBLIC_URL: {
    ...origin,
    default: null,
    absent: '`HOST` and `PORT`, over http',
    does: 'Where browsers reach the service, such as `https://users.example.com`. Links to the dashboard begin with it, single sign-on returns to it, and errors name the address of their documentation with it.',
  },
  OPERATOR: {
    ...text('1 to 64 letters (a to z), digits and . _ @ + -, beginning with a letter or a digit'),
    default: null,
    absent: 'the name of the system user',
    does: 'The name in the audit trail of the person who runs a command.',
  },
  USERDIR_PROJECT: {
    ...text('an App ID'),
    default: null,
    absent: 'the only project, if there is one only',
    does: 'The project of a command that is not told by `--project`. `project delete` is always told.',
  },
  OIDC_ISSUER: {
    ...url('https', 'http'),
    default: null,
    absent: 'no single sign-on',
    does: 'The OpenID Connect provider whose accounts may log in to the dashboard. `http` is for a provider on this machine only.',
  },
  OIDC_CLIENT_ID: { ...text('any text'), default: null, does: 'The name of this service at the provider.' },
  OIDC_CLIENT_SECRET: {
    ...text('any text'),
    default: null,
    does: 'The secret of this service at the provider.',
    secret: true,
  },
  OIDC_SCOPE: {
    ...text('scopes separated by spaces'),
    default: 'openid profile email',
    does: 'What the provider is asked for. Some give the claim of the role only for a scope such as `groups`.',
  },
  OIDC_ROLE_CLAIM: {
    ...text('the name of a claim'),
    default: 'userdir_role',
    does: 'The claim of the ID token, a text or a list, that decides the role. A person without a known value may not log in.',
  },
  OIDC_ROLES: {
    ...roles,
    default: 'admin=admin,support=support,viewer=viewer',
    does: 'Which value of the claim gives which role: `admin`, `support` or `viewer`. If a person has several roles, the one that allows the most counts.',
  },
  OIDC_NAME_CLAIM: {
    ...text('the name of a claim'),
    default: 'sub',
    does: 'The claim of the ID token that names an operator in the audit trail, from the first login on. Its value must have the form of `OPERATOR`. Choose only a claim whose value people cannot set themselves at the provider, such as `email` if the provider verifies it.',
  },
  LOG_LEVEL: { ...oneOf(...LOG_LEVELS), default: 'info', does: 'The least severe log lines that are written.' },
  LOG_SAMPLE: {
    ...wholeNumber(1, 1_000_000),
    default: '1',
    does: 'Of so many requests that succeed, one is logged, and its line has this number as `sample`. Those that fail all are.',
  },
  METRICS_PORT: {
    ...wholeNumber(0, 65535),
    default: null,
    absent: 'no metrics',
    does: 'The port that serves `/metrics` to Prometheus. `0` takes a free one.',
  },
  METRICS_HOST: {
    ...text('a hostname or IP address'),
    default: null,
    absent: '`HOST`',
    does: 'The address that serves the metrics, such as one that only Prometheus can reach. Metrics name App IDs, and no user.',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    ...url('http', 'https'),
    default: null,
    absent: 'no traces',
    does: 'The OpenTelemetry collector that receives traces by OTLP over HTTP, at `/v1/traces` below this URL.',
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    ...url('http', 'https'),
    default: null,
    absent: 'see `OTEL_EXPORTER_OTLP_ENDPOINT`',
    does: 'The whole URL to which traces are sent. It takes precedence over `OTEL_EXPORTER_OTLP_ENDPOINT`.',
  },
  OTEL_EXPORTER_OTLP_HEADERS: { ...headerList, default: null, does: 'Headers to send to the collector.', secret: true },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: {
    ...headerList,
    default: null,
    does: 'More headers to send with traces. Where both name a header, this one counts.',
    secret: true,
  },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    ...text('any text'),
    default: 'http/json',
    does: 'How traces are sent. Only `http/json` is supported, which collectors take at the same address as `http/protobuf`; another value is warned about, and does nothing.',
  },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: {
    ...text('any text'),
    default: null,
    absent: 'see `OTEL_EXPORTER_OTLP_PROTOCOL`',
    does: 'The same for traces alone. It takes precedence.',
  },
  OTEL_SDK_DISABLED: {
    ...switchValue,
    default: 'off',
    does: '`on` or `true` sends no traces, whatever the other settings say.',
  },
  NODE_ENV: {
    ...text('any text'),
    default: null,
    does: '`production` turns GraphiQL, the dashboard and the demo project off, and requires `DATABASE_URL` or `EMBEDDED=on`.',
  },
} satisfies Record<string, Setting<unknown>>;

type Declarations = typeof DECLARATIONS;

export type SettingName = keyof Declarations;

/** The values of the settings: undefined where one is absent and has no default. */
export type SettingValues = {
  readonly [Name in SettingName]:
    | z.output<Declarations[Name]['schema']>
    | (Declarations[Name]['default'] extends string ? never : undefined);
};

export const settingsOf = Object.entries(DECLARATIONS) as [SettingName, Setting<unknown>][];

/** The settings that can be given as a file. */
export const SECRET_SETTINGS: readonly SettingName[] = settingsOf
  .filter(([, { secret }]) => secret)
  .map(([name]) => name);

/** All names of variables that are read. */
export const SETTINGS: readonly string[] = [
  ...settingsOf.map(([name]) => name),
  ...SECRET_SETTINGS.map((name) => `${name}_FILE`),
];
