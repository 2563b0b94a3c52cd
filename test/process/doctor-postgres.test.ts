import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { examineDatabase } from '#dist/app/examination.js';
import { parseConfig } from '#dist/config/config.js';
import { createContext } from '#dist/context.js';
import type { Json } from '../support/app.js';
import { type Cluster, createCluster, hasPostgres, unprivilegedUser } from '../support/cluster.js';
import { userdir, userdirJson } from '../support/command.js';
import { queryPostgres } from '../support/engines.js';

/** What doctor says of a PostgreSQL with settings of its own: passwords, certificates, autovacuum. */

const PASSWORD = 'correct-horse';
/** Lines for roles without TLS, with it, and with none. */
const HBA = `
host    all postgres 127.0.0.1/32 trust
host    all ada      127.0.0.1/32 scram-sha-256
host    all clear    127.0.0.1/32 password
host    all nobody   127.0.0.1/32 trust
hostssl all tls      127.0.0.1/32 scram-sha-256
hostssl all cert     127.0.0.1/32 cert
`;

// The engine of the other tests does not matter.
describe.runIf(inject('engine') === 'embedded' && hasPostgres)('of a PostgreSQL of its own, doctor says', () => {
  let folder: string;
  let cluster: Cluster;
  const path = (name: string) => join(folder, name);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'userdir-tls-'));
    makeCertificates();
    writeFileSync(path('pg_hba.conf'), HBA);
    const { uid, gid } = unprivilegedUser();
    for (const name of ['', ...readdirSync(folder)]) if (uid && gid) chownSync(path(name), uid, gid);
    cluster = await createCluster([`hba_file=${path('pg_hba.conf')}`, `ssl_ca_file=${path('ca.pem')}`]);
    const create = ['ada', 'clear', 'tls', 'cert'].map((role) => `CREATE ROLE ${role} LOGIN PASSWORD '${PASSWORD}'`);
    await administer(
      ...create,
      'CREATE ROLE nobody',
      'CREATE DATABASE closed',
      'REVOKE CONNECT ON DATABASE closed FROM public',
    );
  });
  afterAll(async () => {
    await cluster?.drop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Certificates for 127.0.0.1, of which all but the first cannot be trusted. */
  function makeCertificates(): void {
    const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
    const here = 'subjectAltName=IP:127.0.0.1';
    for (const name of ['ca', 'self-signed']) {
      const extension = name === 'ca' ? [] : ['-addext', here];
      const files = ['-keyout', `${name}.key`, '-out', `${name}.pem`, '-subj', `/CN=${name}`];
      openssl('req', '-x509', ...key, ...files, ...extension);
    }
    for (const [name, san, days] of [
      ['good', here, '30'],
      ['other', 'subjectAltName=DNS:db.example.com', '30'],
      ['expired', here, '-1'],
    ] as const) {
      writeFileSync(path('extension'), san);
      openssl('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
      const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-extfile', 'extension'];
      openssl('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, '-days', days, ...by);
    }
  }

  async function administer(...statements: string[]): Promise<void> {
    for (const statement of statements) await queryPostgres(cluster.url, statement);
  }

  /** Starts the server anew, with a certificate or without TLS. */
  async function present(certificate: string | null): Promise<void> {
    await administer(
      `ALTER SYSTEM SET ssl = ${certificate === null ? 'off' : 'on'}`,
      `ALTER SYSTEM SET ssl_cert_file = '${path(`${certificate}.pem`)}'`,
      `ALTER SYSTEM SET ssl_key_file = '${path(`${certificate}.key`)}'`,
    );
    await cluster.kill();
    await cluster.start();
  }

  function urlOf(role: string, password: string, query = '', database = 'postgres'): string {
    const url = new URL(`${cluster.url}${query}`);
    return Object.assign(url, { username: role, password, pathname: database }).href;
  }

  /** The failed finding, in which there is neither a password nor a stack. */
  async function examine(settings: Record<string, string>, wanted = 'database'): Promise<Json> {
    const { code, stdout, stderr } = await userdir(settings, ['doctor', '--json', '--no-totals']);
    expect(code).toBe(1);
    for (const secret of [PASSWORD, 'wrong-horse', '    at ']) expect(stdout + stderr).not.toContain(secret);
    const { status, found, advice } = JSON.parse(stdout).findings.find(({ id }: Json) => id === wanted);
    expect(status).toBe('failed');
    return { found, advice };
  }

  describe('without TLS,', () => {
    beforeAll(() => present(null));

    test.each([
      ['a wrong password', 'ada:wrong-horse', 'password authentication failed for user "ada"', 'or the password'],
      ['a missing password', 'ada', 'the server asks for a password, and none is set', 'Put the password'],
      ['a missing password that is sent as it is', 'clear', 'the server asks for a password', 'Put the password'],
      ['a role without a line in pg_hba.conf', 'eve', 'no pg_hba.conf entry for host', 'Add a line'],
      ['a role that may not log in', 'nobody', 'is not permitted to log in', 'ALTER ROLE … LOGIN'],
      ['a role that may connect with TLS only', 'tls', 'no encryption', 'sslmode=verify-full in DATABASE_URL'],
      [
        'a server without TLS',
        'ada',
        'sslmode asks for TLS, and the server has none',
        'Turn ssl on',
        '?sslmode=verify-full',
      ],
    ])('that it is %s', async (_name, who, found, advice, query = '') => {
      const [role = '', password = ''] = who.split(':');
      expect(await examine({ DATABASE_URL: urlOf(role, password, query) })).toEqual({
        found: expect.stringContaining(found),
        advice: expect.stringContaining(advice),
      });
    });

    test('that the role may not connect to the database', async () => {
      const finding = await examine({ DATABASE_URL: urlOf('ada', PASSWORD, '', 'closed') });
      expect(finding).toMatchObject({ advice: expect.stringContaining('GRANT CONNECT') });
    });

    test('which setting is wrong, where there are several', async () => {
      const good = { DATABASE_URL: urlOf('postgres', '') };
      const wrong = urlOf('ada', 'wrong-horse');
      for (const [name, finding] of [
        ['DATABASE_DIRECT_URL', 'direct-connection'],
        ['DATABASE_REPLICA_URL', 'replica'],
      ] as const)
        expect(await examine({ ...good, [name]: wrong }, finding)).toEqual({
          found: 'password authentication failed for user "ada"',
          advice: `Correct the user or the password in ${name}.`,
        });
    });

    test('that a file of the URL does not exist', async () => {
      const url = urlOf('ada', PASSWORD, `?sslmode=verify-full&sslrootcert=${path('nothing.pem')}`);
      expect(await examine({ DATABASE_URL: url }, 'database-url')).toEqual({
        found: `DATABASE_URL: ${path('nothing.pem')}, the file of sslrootcert, does not exist`,
        advice: 'Correct sslrootcert in DATABASE_URL.',
      });
    });
  });

  const TRUSTED = 'sslmode=verify-full&sslrootcert=ca.pem';
  const urlWithTls = (role: string, query: string) =>
    urlOf(role, PASSWORD, `?${query.replace('ca.pem', path('ca.pem'))}`);

  test.each([
    [
      'self-signed',
      'sslmode=verify-full',
      'is self-signed, and it is not trusted',
      'the certificate by sslrootcert in',
    ],
    ['good', 'sslmode=verify-full', 'is of an authority that is not trusted', 'of that authority by sslrootcert in'],
    ['other', TRUSTED, 'is for another host name', 'Use a host name of the certificate in DATABASE_URL'],
    ['expired', TRUSTED, 'has expired', 'Renew it on the server.'],
  ])('of the certificate "%s" with %s that it %s', async (certificate, query, fault, advice) => {
    await present(certificate);
    const settings = { DATABASE_URL: urlWithTls('tls', query) };
    const found = `the certificate of the server ${fault}`;
    const finding = await examine(settings);
    expect(finding).toEqual({ found, advice: expect.stringContaining(advice) });
    // Every other command says it too, and the service does not listen before.
    const { code, stdout, stderr } = await userdir({ ...settings, PORT: '0' }, ['serve']);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toContain(`userdir: ${found}. ${finding.advice}\n`);
    expect(stderr).not.toMatch(/listening/i);
  });

  test('that it asks for a certificate of the client, and nothing where all is right', async () => {
    await present('good');
    expect(await examine({ DATABASE_URL: urlWithTls('cert', TRUSTED) })).toEqual({
      found: 'the server asks for a certificate of the client',
      advice: 'Name it by sslcert and sslkey in DATABASE_URL.',
    });
    const own = (certificate: string, key: string) =>
      urlWithTls('cert', `${TRUSTED}&sslcert=${path(certificate)}&sslkey=${path(key)}`);
    expect(await examine({ DATABASE_URL: own('good.pem', 'other.key') })).toEqual({
      found: 'sslkey is not the key of the certificate in sslcert',
      advice: 'Name a certificate and its own key in DATABASE_URL.',
    });
    expect(await examine({ DATABASE_URL: own('good.pem', 'pg_hba.conf') })).toEqual({
      found: 'a file of sslrootcert, sslcert or sslkey is no certificate or key in PEM',
      advice: 'Name files in PEM in DATABASE_URL.',
    });
    const url = urlWithTls('tls', TRUSTED.replace('verify-full', 'require'));
    const { stdout, stderr } = await userdir({ DATABASE_URL: url }, ['doctor', '--json']);
    // Not even the warning that node-postgres has about this mode.
    expect(stderr).toBe('');
    expect(JSON.parse(stdout).findings.find(({ id }: Json) => id === 'database')).toMatchObject({ status: 'passed' });
  });

  async function findingOf(wanted: string): Promise<Json> {
    const { findings } = await userdirJson({ DATABASE_URL: cluster.url }, ['doctor', '--no-totals']);
    return findings.find(({ id }: Json) => id === wanted);
  }

  test('that the role is a superuser, or the owner of the tables', async () => {
    await userdirJson({ DATABASE_URL: cluster.url }, ['migrate']);
    expect(await findingOf('role')).toMatchObject({
      status: 'warning',
      found: 'the role postgres is a superuser: it may read and change everything there',
      advice: expect.stringContaining('"PostgreSQL: roles and TLS"'),
    });
    const roleOf = async () => {
      const { stdout } = await userdir({ DATABASE_URL: urlWithTls('tls', TRUSTED) }, ['doctor', '--json']);
      return JSON.parse(stdout).findings.find(({ id }: Json) => id === 'role');
    };
    expect(await roleOf()).toMatchObject({ status: 'passed' });
    await administer('ALTER TABLE users OWNER TO tls');
    expect(await roleOf()).toMatchObject({
      status: 'warning',
      found: 'the role tls owns the tables: it may change and drop them',
    });
    await administer('ALTER TABLE users OWNER TO postgres');
  });

  test('that autovacuum is off, for the server and for tables', async () => {
    await userdirJson({ DATABASE_URL: cluster.url }, ['migrate']);
    const finding = () => findingOf('autovacuum');
    expect(await finding()).toMatchObject({ status: 'passed' });
    await administer(
      'ALTER SYSTEM SET autovacuum = off',
      'SELECT pg_reload_conf()',
      'ALTER TABLE users SET (autovacuum_enabled = off)',
      'ALTER TABLE accounts SET (autovacuum_enabled = false, fillfactor = 90)',
      'ALTER TABLE app_secrets SET (autovacuum_enabled = true)',
    );
    await expect.poll(finding).toMatchObject({
      status: 'warning',
      found: 'autovacuum off; autovacuum off for accounts, users: dead rows stay, and statistics grow old',
    });
    const { advice } = await finding();
    expect(advice).toMatch(/^Turn autovacuum on in postgresql\.conf\.\nRun as the owner of the tables:\n/);
    await administer(
      advice.replace(/^[\s\S]*tables:\n/, ''),
      'ALTER SYSTEM RESET autovacuum',
      'SELECT pg_reload_conf()',
    );
    await expect.poll(finding).toMatchObject({ status: 'passed', found: 'on' });
  });

  test('which tables were filled and never analyzed, as after a restore', async () => {
    await userdirJson({ DATABASE_URL: cluster.url }, ['migrate']);
    expect(await findingOf('statistics')).toMatchObject({ status: 'passed' });
    await administer(
      'ALTER TABLE operator_log SET (autovacuum_enabled = off)',
      "INSERT INTO operator_log (actor, action, details) SELECT 'ada', 'login', '{}' FROM generate_series(1, 200)",
    );
    // PostgreSQL counts the rows of a transaction a moment after its end.
    await expect
      .poll(() => findingOf('statistics'))
      .toMatchObject({
        status: 'warning',
        found: 'never analyzed: operator_log, so PostgreSQL guesses how to read them',
        advice: 'Run as the owner of the tables: ANALYZE operator_log;',
      });
    await administer('ANALYZE operator_log', 'ALTER TABLE operator_log RESET (autovacuum_enabled)');
    await expect.poll(() => findingOf('statistics')).toMatchObject({ status: 'passed' });
  });

  test('how to end a prepared transaction, which has no process', async () => {
    const config = parseConfig({ DATABASE_URL: cluster.url });
    const context = createContext(config, { command: 'test' });
    await context.open();
    const changes = {
      ...context.services.changes,
      findOldestWriter: async () => ({ pid: null, name: "o'clock", role: 'ada', state: 'prepared', seconds: 180 }),
    };
    const examined = { db: context.db, services: { ...context.services, changes } };
    const findings = await examineDatabase(examined, { config: config.db, totals: false }).finally(() =>
      context.close(),
    );
    expect(findings.find(({ id }) => id === 'changes')).toEqual({
      id: 'changes',
      status: 'warning',
      found: "the prepared transaction 'o''clock' of role ada, open for 3 min, holds up the feed of changes",
      advice: "It has no process. Run in this database: ROLLBACK PREPARED 'o''clock'; or COMMIT PREPARED 'o''clock';",
    });
  });
});
