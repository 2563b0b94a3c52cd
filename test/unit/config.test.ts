import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { checkSettings } from '#dist/app/machine-checks.js';
import { parseConfig } from '#dist/config/config.js';
import { SETTINGS } from '#dist/config/settings.js';
import { secondsUntil } from '#dist/http/rate-limit.js';
import { ROOT } from '../support/checkout.js';
import { faultsOf } from '../support/settings.js';

const LEVELS = 'fatal, error, warn, info, debug, trace, silent';
const TRUST_PROXY_FORM = '"off", "on", a number of hops, or addresses and networks separated by commas';

test('the default is the embedded database in ./data on loopback, with GraphiQL and the demo', () => {
  expect(parseConfig({})).toEqual({
    host: '127.0.0.1',
    port: 4000,
    reusePort: false,
    db: { engine: 'embedded', dataDir: resolve('data') },
    dataDir: resolve('data'),
    logLevel: 'info',
    graphiql: true,
    documentsDir: null,
    demo: true,
    dashboard: true,
    publicUrl: null,
    operator: null,
    project: null,
    oidc: null,
    trustProxy: false,
    requestTimeoutMs: 10_000,
    keepAliveMs: 72_000,
    rateLimit: { requestsPerMinute: null },
    compression: 'remote',
    shutdownDelayMs: 0,
    changesRetentionMs: 2_592_000_000,
    webhooksAllowPrivate: false,
    metricsPort: null,
    metricsHost: '127.0.0.1',
    logSample: 1,
    tracesProtocol: 'http/json',
    tracesUrl: null,
  });
});

test('every setting is read', () => {
  expect(
    parseConfig({
      HOST: '0.0.0.0',
      PORT: '65535',
      DATABASE_URL: 'postgresql://user:secret@db.example/users',
      DATABASE_DIRECT_URL: 'postgres://user:secret@direct.example/users',
      DATABASE_REPLICA_URL: 'postgres://user:secret@standby.example/users',
      DATABASE_REPLICA_MAX_LAG_MS: '2000',
      DATABASE_POOL_SIZE: '25',
      DATABASE_POOL_TIMEOUT_MS: '100',
      DATABASE_STATEMENT_TIMEOUT_MS: '600000',
      REQUEST_TIMEOUT_MS: '4321',
      COMPRESSION: 'on',
      SHUTDOWN_DELAY_MS: '5000',
      CHANGES_RETENTION: '36h',
      WEBHOOKS_ALLOW_PRIVATE: 'on',
      RATE_LIMIT: '600',
      REDIS_URL: 'rediss://:secret@cache.example/1',
      DATA_DIR: '/srv/userdir',
      LOG_LEVEL: 'warn',
      GRAPHIQL: 'off',
      DOCUMENTS_DIR: '/srv/documents',
      DEMO: 'on',
      DASHBOARD: 'on',
      PUBLIC_URL: 'https://users.example.com/',
      OPERATOR: 'ada',
      USERDIR_PROJECT: 'app_1',
      OIDC_ISSUER: 'https://login.example.com',
      OIDC_CLIENT_ID: 'userdir',
      OIDC_CLIENT_SECRET: 'secret',
      OIDC_SCOPE: 'openid groups',
      OIDC_ROLE_CLAIM: 'groups',
      OIDC_NAME_CLAIM: 'email',
      OIDC_ROLES: 'admin=platform, viewer=staff,viewer=guests',
      TRUST_PROXY: '2',
      KEEP_ALIVE_SECONDS: '620',
      METRICS_PORT: '9464',
      METRICS_HOST: '10.0.0.7',
      LOG_SAMPLE: '100',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://collector.example.com/otlp/',
    }),
  ).toEqual({
    host: '0.0.0.0',
    port: 65535,
    reusePort: false,
    db: {
      engine: 'postgres',
      url: 'postgresql://user:secret@db.example/users',
      directUrl: 'postgres://user:secret@direct.example/users',
      replicaUrl: 'postgres://user:secret@standby.example/users',
      replicaMaxLagMs: 2_000,
      poolSize: 25,
      poolTimeoutMs: 100,
      statementTimeoutMs: 600_000,
    },
    dataDir: '/srv/userdir',
    logLevel: 'warn',
    graphiql: false,
    documentsDir: '/srv/documents',
    demo: true,
    dashboard: true,
    publicUrl: 'https://users.example.com',
    operator: 'ada',
    project: 'app_1',
    oidc: {
      issuer: 'https://login.example.com',
      clientId: 'userdir',
      clientSecret: 'secret',
      scope: 'openid groups',
      roleClaim: 'groups',
      nameClaim: 'email',
      roles: { admin: ['platform'], support: [], viewer: ['staff', 'guests'] },
    },
    trustProxy: 2,
    requestTimeoutMs: 4_321,
    keepAliveMs: 620_000,
    rateLimit: { requestsPerMinute: 600, redisUrl: 'rediss://:secret@cache.example/1' },
    compression: 'on',
    shutdownDelayMs: 5_000,
    changesRetentionMs: 129_600_000,
    webhooksAllowPrivate: true,
    metricsPort: 9464,
    metricsHost: '10.0.0.7',
    logSample: 100,
    tracesProtocol: 'http/json',
    tracesUrl: 'https://collector.example.com/otlp/v1/traces',
  });
});

test.each([
  'https://example.com/users',
  'https://example.com/?a=1',
  'https://example.com/#a',
  'https://ada:password@example.com',
  'users.example.com',
])('PUBLIC_URL is refused with more than an origin: %s', (url) => {
  expect(() => parseConfig({ PUBLIC_URL: url })).toThrow(/^PUBLIC_URL must be a URL of .* without a path\.$/);
});

const OIDC = ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'];

test.each([
  [{ OIDC_ISSUER: 'https://login.example.com' }, OIDC],
  [{ OIDC_CLIENT_ID: 'x', OIDC_CLIENT_SECRET: 'y' }, OIDC],
  [{ OIDC_ISSUER: 'http://login.example.com', OIDC_CLIENT_ID: 'x', OIDC_CLIENT_SECRET: 'y' }, ['OIDC_ISSUER']],
  [{ OIDC_ROLES: 'king=x' }, ['OIDC_ROLES']],
  [{ OIDC_ROLES: 'admin' }, ['OIDC_ROLES']],
])('a single sign-on that is not whole is refused: %j', (env, settings) => {
  expect(() => parseConfig(env)).toThrow(expect.objectContaining({ settings }));
});

test.each([
  [{}, true],
  [{ HOST: '0.0.0.0' }, false],
  [{ HOST: '0.0.0.0', DASHBOARD: 'on' }, true],
  [{ NODE_ENV: 'production', EMBEDDED: 'on' }, false],
  [{ NODE_ENV: 'production', EMBEDDED: 'on', DASHBOARD: 'on' }, true],
  [{ DASHBOARD: 'off' }, false],
])('the dashboard with %j: %s', (env, dashboard) => {
  expect(parseConfig(env).dashboard).toBe(dashboard);
});

test('an empty variable counts as absent', () => {
  const empty = Object.fromEntries(SETTINGS.map((name) => [name, '']));
  expect(parseConfig(empty)).toEqual(parseConfig({}));
});

test('all faults are reported together, each with its variable and what is accepted', () => {
  expect(
    faultsOf({
      PORT: '65536',
      DATABASE_URL: 'mysql://user:secret@db.example/users',
      DATABASE_POOL_SIZE: '0',
      DATABASE_POOL_TIMEOUT_MS: '99',
      DATABASE_STATEMENT_TIMEOUT_MS: '600001',
      REQUEST_TIMEOUT_MS: '10s',
      SHUTDOWN_DELAY_MS: '-1',
      RATE_LIMIT: '0',
      REDIS_URL: 'http://:secret@cache.example',
      LOG_LEVEL: 'loud',
      GRAPHIQL: 'perhaps',
      DEMO: 'no!',
      TRUST_PROXY: 'everybody',
      METRICS_PORT: '65536',
      OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'grpc://collector:4317',
    }),
  ).toEqual([
    'DATABASE_URL must be a URL that starts with postgres:// or postgresql://.',
    'DATABASE_POOL_SIZE must be a whole number from 1 to 1000.',
    'DATABASE_POOL_TIMEOUT_MS must be a whole number from 100 to 600000.',
    'DATABASE_STATEMENT_TIMEOUT_MS must be a whole number from 100 to 600000.',
    'PORT must be a whole number from 0 to 65535.',
    `TRUST_PROXY must be ${TRUST_PROXY_FORM}.`,
    'REQUEST_TIMEOUT_MS must be a whole number from 100 to 600000.',
    'SHUTDOWN_DELAY_MS must be a whole number from 0 to 600000.',
    'RATE_LIMIT must be a whole number from 1 to 100000000.',
    'REDIS_URL must be a URL that starts with redis:// or rediss://.',
    'GRAPHIQL must be "on" or "off".',
    'DEMO must be "on" or "off".',
    `LOG_LEVEL must be one of ${LEVELS}.`,
    'METRICS_PORT must be a whole number from 0 to 65535.',
    'OTEL_EXPORTER_OTLP_ENDPOINT must be a URL that starts with http:// or https://.',
    'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be a URL that starts with http:// or https://.',
  ]);
});

test.each(['-1', '4000.5', '4e3', ' 4000', '0x10', '99999999999', 'http'])('PORT %j is invalid', (PORT) => {
  expect(faultsOf({ PORT })).toEqual(['PORT must be a whole number from 0 to 65535.']);
});

test.each(['secret-password', 'https://u:secret-password@h', 'postgres//u:secret-password@h'])(
  'DATABASE_URL %j is never repeated',
  (DATABASE_URL) => {
    const faults = faultsOf({ DATABASE_URL, PORT: 'x' });
    expect(faults.join()).not.toContain('secret-password');
    expect(faults).toContain('PORT must be a whole number from 0 to 65535.');
  },
);

test('the traces endpoint is used unchanged, and the general endpoint gets the path /v1/traces', () => {
  const all = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };
  expect(parseConfig(all).tracesUrl).toBe('http://127.0.0.1:4318/v1/traces');
  const own = { ...all, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://127.0.0.1:4319/t' };
  expect(parseConfig(own).tracesUrl).toBe('http://127.0.0.1:4319/t');
});

describe('switches', () => {
  test.each([
    ['on', true],
    ['true', true],
    ['1', true],
    ['off', false],
    ['false', false],
    ['0', false],
  ])('%s is %s', (text, value) => {
    expect(parseConfig({ GRAPHIQL: text, DEMO: text })).toMatchObject({ graphiql: value, demo: value });
  });

  test('in production GraphiQL and the demo are off unless they are set to on', () => {
    const production = { NODE_ENV: 'production', EMBEDDED: 'on' };
    expect(parseConfig(production)).toMatchObject({ graphiql: false, demo: false });
    const asked = { ...production, GRAPHIQL: 'on', DEMO: 'on' };
    expect(parseConfig(asked)).toMatchObject({ graphiql: true, demo: true });
  });

  test.each([
    ['127.0.0.1', true],
    ['127.9.9.9', true],
    ['::1', true],
    ['localhost', true],
    ['0.0.0.0', false],
    ['127.0.0.1.example.com', false],
    ['192.168.1.2', false],
  ])('on HOST %s the demo is %s', (HOST, demo) => {
    expect(parseConfig({ HOST }).demo).toBe(demo);
  });
});

describe('TRUST_PROXY', () => {
  test.each([
    ['off', false],
    ['on', true],
    ['1', 1],
    ['100', 100],
    ['10.0.0.1', ['10.0.0.1']],
    ['10.0.0.0/8, ::1,fd00::/8', ['10.0.0.0/8', '::1', 'fd00::/8']],
  ])('%s is accepted', (text, value) => {
    expect(parseConfig({ TRUST_PROXY: text }).trustProxy).toEqual(value);
  });

  test.each(
    `101 -1 10.0.0.0/33 10.0.0.0/8/8 fd00::/129 10.0.0.1, proxy.local a,b ::ffff:10.0.0.1 fe80::1%eth0`.split(/\s+/),
  )('%s is invalid', (text) => {
    expect(faultsOf({ TRUST_PROXY: text })).toEqual([`TRUST_PROXY must be ${TRUST_PROXY_FORM}.`]);
  });
});

test('docs/configuration.md matches the declared settings (npm run docs:configuration)', async () => {
  const printed = await promisify(execFile)(process.execPath, [join(ROOT, 'test/support/configuration-page.mjs')]);
  expect(await readFile(join(ROOT, 'docs/configuration.md'), 'utf8')).toBe(printed.stdout);
});

test('REUSE_PORT is refused by a Node.js that cannot share a port', () => {
  const DATABASE_URL = 'postgres://db.example/users';
  const canShare = Number(process.versions.node.split('.')[0]) >= 24;
  expect(parseConfig({ DATABASE_URL }).reusePort).toBe(false);
  if (canShare) expect(parseConfig({ DATABASE_URL, REUSE_PORT: 'on' }).reusePort).toBe(true);
  else
    expect(faultsOf({ DATABASE_URL, REUSE_PORT: 'on' })).toEqual([
      `REUSE_PORT needs Node.js 23.1 or newer; this is ${process.versions.node}.`,
    ]);
});

const urlFinding = (env: Record<string, string>) => checkSettings(env).findings.find(({ id }) => id === 'database-url');

test.each([
  ['postgres://127.0.0.1:1/users?target_session_attrs=read-write', 'failed', 'DATABASE_URL has target_session_attrs, '],
  ['postgres://db.invalid/users', 'warning', 'DATABASE_URL: the connection to another machine is not encrypted'],
  ['postgres://db.invalid/users?sslmode=no-verify', 'warning', 'DATABASE_URL: sslmode=no-verify does not verify '],
  ['postgres://db.invalid/users?sslmode=require&uselibpqcompat=true', 'warning', 'sslmode=require does not verify '],
  ['postgres://db.invalid/users?sslmode=verify-full', undefined, ''],
  ['postgres://127.0.0.1:1/users', undefined, ''],
])('doctor examines the URL %s', (DATABASE_URL, status, found) => {
  const finding = urlFinding({ DATABASE_URL });
  expect(finding?.status).toBe(status);
  expect(finding?.found ?? '').toContain(found);
});

test('doctor examines the URL of a standby too', () => {
  const DATABASE_REPLICA_URL = 'postgres://one/users?target_session_attrs=standby';
  expect(urlFinding({ DATABASE_URL: 'postgres://127.0.0.1:1/users', DATABASE_REPLICA_URL })).toMatchObject({
    status: 'failed',
    found: expect.stringContaining('DATABASE_REPLICA_URL has target_session_attrs'),
    advice: expect.stringContaining('leads to a standby'),
  });
});

const ONE_HOST = 'has several hosts, and node-postgres connects to one.';
const NO_HASH = 'has a "#", which ends what is read of a URL. Write it as %23.';

test.each([
  ['postgres://me:hush#hush@db/users', NO_HASH],
  // It would be read as the host "me" with the port 12.
  ['postgres://me:12#hush@db/users', NO_HASH],
  ['postgres://me:hush@one:5432,two:5433/users', ONE_HOST],
  ['postgres://one,two/users', ONE_HOST],
  ['postgres:///users?host=one,two', ONE_HOST],
  ['postgresql://me:hush@/users?host=/var/run/postgresql', 'has a user and no host. Write localhost after the "@"'],
  ['postgres://me:hush@db/users?schema=app', 'has "schema", which PostgreSQL does not know. Write options='],
  ['postgres://me:hu/sh@db/users', 'cannot be read as a URL. In the user and the password, write / as %2F'],
])('the URL %s is refused in a sentence of its own, for each database, at the start and by doctor', (url, sentence) => {
  for (const name of ['DATABASE_URL', 'DATABASE_DIRECT_URL', 'DATABASE_REPLICA_URL']) {
    const env = { DATABASE_URL: 'postgres://127.0.0.1:1/users', [name]: url };
    const [fault = '', ...more] = faultsOf(env);
    expect([fault.startsWith(`${name} ${sentence}`), fault, more]).toEqual([true, fault, []]);
    expect(fault).not.toMatch(/hush|app/);
    const [found] = checkSettings(env).findings;
    expect(found).toMatchObject({ id: 'settings', status: 'failed', found: fault });
  }
});

test.each([
  'postgres:///users?host=/var/run/postgresql',
  'postgres://me@localhost/users?host=/run',
  'postgres://%2Frun/users',
])('the URL %s of a socket is accepted', (DATABASE_URL) => {
  expect(faultsOf({ DATABASE_URL })).toEqual([]);
});

test('OTEL_SDK_DISABLED sends no traces, and the protocol that was asked for is known', () => {
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };
  expect(parseConfig(env)).toMatchObject({ tracesUrl: 'http://127.0.0.1:4318/v1/traces', tracesProtocol: 'http/json' });
  expect(parseConfig({ ...env, OTEL_SDK_DISABLED: 'true' }).tracesUrl).toBe(null);
  const protocols = { OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'grpc' };
  expect(parseConfig({ ...env, ...protocols }).tracesProtocol).toBe('grpc');
});

test('Retry-After is at most the minute of a limit, also where the clock was put back', () => {
  expect([0, 1, 59_001, 7_256_000].map(secondsUntil)).toEqual(['0', '1', '60', '60']);
});
