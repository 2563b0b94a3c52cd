import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { findMisspelt, parseConfig } from '#dist/config/config.js';
import { DECLARATIONS, SETTINGS } from '#dist/config/settings.js';
import { MAX_REQUESTS_PER_MINUTE } from '#dist/domain/bounds.js';
import { OPERATOR_NAME_FORM } from '#dist/domain/input-limits.js';
import { OPERATOR_ROLES } from '#dist/domain/operator-roles.js';
import { faultsOf } from '../support/settings.js';

const folder = mkdtempSync(join(tmpdir(), 'userdir-settings-'));
afterAll(() => rmSync(folder, { recursive: true }));

function fileOf(text: string | Buffer): string {
  const path = join(folder, `secret-${Math.random()}`);
  writeFileSync(path, text);
  return path;
}

const URL_TEXT = 'postgres://me:hush@db.example/users';

// The modules of config/ know no others.
test('settings accept what the rest of the service accepts', () => {
  expect(DECLARATIONS.OPERATOR.accepts).toBe(OPERATOR_NAME_FORM);
  expect(DECLARATIONS.OIDC_ROLES.default.split(',').sort()).toEqual(
    OPERATOR_ROLES.map((role) => `${role}=${role}`).sort(),
  );
  const roles = DECLARATIONS.OIDC_ROLES.schema.parse(DECLARATIONS.OIDC_ROLES.default);
  expect(Object.keys(roles).sort()).toEqual([...OPERATOR_ROLES].sort());
  expect(DECLARATIONS.RATE_LIMIT.accepts).toBe(`a whole number from 1 to ${MAX_REQUESTS_PER_MINUTE}`);
});

describe('the embedded database', () => {
  test('is refused with the URL of a standby, whose lag must fit into a request', () => {
    const replica = { DATABASE_REPLICA_URL: URL_TEXT };
    expect(faultsOf(replica)).toEqual(['DATABASE_URL must be set, because DATABASE_REPLICA_URL is.']);
    const both = { ...replica, DATABASE_URL: URL_TEXT };
    expect(parseConfig(both).db).toMatchObject({ replicaUrl: URL_TEXT, replicaMaxLagMs: 1_000 });
    expect(faultsOf({ ...both, DATABASE_REPLICA_MAX_LAG_MS: '5001' })).toEqual([
      'DATABASE_REPLICA_MAX_LAG_MS, which is 5001, must be at most half of REQUEST_TIMEOUT_MS, which is 10000.',
    ]);
    expect(faultsOf({ ...both, REQUEST_TIMEOUT_MS: '1000' })).toHaveLength(1);
    expect(faultsOf({ DATABASE_URL: URL_TEXT, REQUEST_TIMEOUT_MS: '1000' })).toEqual([]);
  });

  test('is always refused with EMBEDDED=off, and never used with a DATABASE_URL', () => {
    expect(faultsOf({ EMBEDDED: 'off' })).toEqual(['DATABASE_URL must be set, because EMBEDDED is off.']);
    expect(faultsOf({ EMBEDDED: 'perhaps' })).toEqual(['EMBEDDED must be "on" or "off".']);
    expect(parseConfig({ EMBEDDED: 'on', DATABASE_URL: URL_TEXT }).db.engine).toBe('postgres');
  });
});

describe('a secret in a file', () => {
  test.each(['\n', '\r\n', ''])('is read without its last newline (%j)', (end) => {
    const DATABASE_URL_FILE = fileOf(URL_TEXT + end);
    const REDIS_URL_FILE = fileOf(`redis://:hush@cache.example${end}`);
    expect(parseConfig({ NODE_ENV: 'production', RATE_LIMIT: '1', DATABASE_URL_FILE, REDIS_URL_FILE })).toMatchObject({
      db: { engine: 'postgres', url: URL_TEXT },
      rateLimit: { redisUrl: 'redis://:hush@cache.example' },
    });
  });

  test('can also hold the headers of the trace exporter', () => {
    const OTEL_EXPORTER_OTLP_HEADERS_FILE = fileOf('authorization=Bearer%20hush\n');
    const config = parseConfig({ OTEL_EXPORTER_OTLP_HEADERS_FILE, OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'a=b' });
    expect(config.tracesHeaders).toBe('authorization=Bearer%20hush,a=b');
  });

  test('has an error without the path or the content if it is invalid', () => {
    const name = 'DATABASE_URL_FILE';
    for (const [file, fault] of [
      [URL_TEXT, `${name} must name a file that can be read (ENOENT).`],
      [folder, `${name} must name a file that can be read (EISDIR).`],
      ['/dev/zero', `${name} must name a file of at most 16384 bytes.`],
      [fileOf(`postgres://hush@x/${'x'.repeat(16_384)}`), `${name} must name a file of at most 16384 bytes.`],
      [fileOf('\n'), `${name} must name a file that is not empty.`],
      [fileOf(Buffer.from([0x68, 0xff])), `${name} must name a file of UTF-8 text.`],
      [fileOf('mysql://me:hush@x'), `${name} must hold a URL that starts with postgres:// or postgresql://.`],
    ] as const) {
      expect(faultsOf({ [name]: file, NODE_ENV: 'production' })).toEqual([fault]);
    }
  });

  test('is refused together with the setting itself', () => {
    const both = { DATABASE_URL: URL_TEXT, DATABASE_URL_FILE: fileOf(URL_TEXT) };
    expect(faultsOf(both)).toEqual(['DATABASE_URL_FILE and DATABASE_URL exclude each other; unset one of them.']);
  });
});

describe('a variable that looks like a setting', () => {
  test.each([
    ['DATABASE_URI', 'DATABASE_URL'],
    ['DATABSE_URL', 'DATABASE_URL'],
    ['DATABASEURL', 'DATABASE_URL'],
    ['database_url', 'DATABASE_URL'],
    ['DATABASE_URL_FIEL', 'DATABASE_URL_FILE'],
    ['RATE_LIMITS', 'RATE_LIMIT'],
    ['REDIS_URI', 'REDIS_URL'],
    ['EMBEDED', 'EMBEDDED'],
    ['PROT', 'PORT'],
    ['LOGLEVEL', 'LOG_LEVEL'],
    ['TRUSTED_PROXY', 'TRUST_PROXY'],
  ])('%s is reported with the suggestion %s', (name, likely) => {
    expect(findMisspelt({ [name]: 'hush' })).toEqual([
      `${name} is not a setting and is ignored. Did you mean ${likely}?`,
    ]);
  });

  test('is not reported if it is a setting, is empty, or is a common variable of other programs', () => {
    expect(findMisspelt(Object.fromEntries(SETTINGS.map((name) => [name, 'x'])))).toEqual([]);
    expect(findMisspelt({ DATABSE_URL: '' })).toEqual([]);
    const others = 'PATH HOME HOSTNAME HOSTTYPE LANG PWD SHELL TERM USER TZ CI EDITOR'.split(' ');
    others.push('XDG_DATA_DIRS', 'NODE_OPTIONS', 'NODE_PATH', 'REDIS_PORT', 'REDIS_SERVICE_HOST', 'PGHOST', 'PGPORT');
    others.push(
      'DATABASE_NAME',
      'DATABASE_HOST',
      'OTEL_TRACES_SAMPLER',
      'OTEL_EXPORTER_OTLP_PROTOCOL',
      'x'.repeat(100_000),
    );
    expect(findMisspelt(Object.fromEntries(others.map((name) => [name, 'x'])))).toEqual([]);
  });
});
