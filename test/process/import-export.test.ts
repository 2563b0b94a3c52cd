import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { beforeAll, describe, expect, inject, test, vi } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type Json, withoutIds } from '../support/app.js';
import {
  CLI,
  type Credentials,
  call,
  listUsers,
  makeFolder,
  outcomeOf,
  recordLogin,
  spawnUserdir,
  useDatabase,
  userdirJson,
  useServer,
} from '../support/command.js';

const email = (name: string | number, more: Json = {}) => ({
  auth_method: 'email',
  auth_value: `${name}@example.com`,
  ...more,
});
const lines = (users: Json[]) => users.map((user) => `${JSON.stringify(user)}\n`).join('');
const emails = (count: number) => lines(Array.from({ length: count }, (_, index) => email(`user-${index}`)));

/** All users of a project, without ids. */
const usersOf = async (url: string, project: Credentials): Promise<Json[]> =>
  (await listUsers(url, project)).map(({ id: _, accounts, ...user }) => ({
    ...user,
    accounts: accounts.map(({ id: _id, ...account }: Json) => account),
  }));

describe('beside a running server,', () => {
  const { url, settings, run, runJson, runWith, createProject } = useServer();
  const folder = makeFolder();

  /** Runs an import to its end; returns its exit code and its report. */
  async function importLines({ app_id: appId }: Credentials, input: string | Buffer, ...options: string[]) {
    const args = ['user', 'import', '--project', appId, '--json', ...options];
    const { code, stdout, stderr } = await runWith(input, ...args);
    expect(stderr).toBe('');
    return { code, report: JSON.parse(stdout) };
  }
  const namesIn = async (project: Credentials) => (await usersOf(url(), project)).map((user) => user.auth_value).sort();

  test('one invalid line in the middle rolls back the whole import', async () => {
    const project = await createProject();
    const input = emails(2_500).split('\n');
    input[1_250] = '{"auth_method":"email"}';
    expect(await importLines(project, input.join('\n'))).toMatchObject({
      code: 1,
      report: {
        imported: 0,
        skipped: 0,
        failed: 1,
        errors: [{ line: 1_251, error: 'auth_value: got nothing, expected text.' }],
      },
    });
    expect(await usersOf(url(), project)).toEqual([]);
  });

  test('--skip-invalid imports valid lines with any line ending, and reports each invalid line', async () => {
    const project = await createProject();
    const good = (name: string) => JSON.stringify(email(name));
    const bad = (more: Json) => JSON.stringify({ auth_method: 'google', auth_value: '1', ...more });
    const invalid: [line: string | Buffer, reason: string | RegExp][] = [
      [Buffer.from('{"auth_method":"email","auth_value":"\xff\xfe"}', 'latin1'), 'The line is not valid UTF-8.'],
      ['{"auth_method":', /^The line is not valid JSON: /],
      ['[]', 'line: got [], expected a JSON object.'],
      [good('x'.repeat(1_048_576)), 'The line has more than 1048576 bytes.'],
      [bad({ role: 'admin' }), /^Unknown field "role"; known are id, auth_method, auth_value, /],
      ['{"auth_value":1}', 'auth_method: got nothing, expected text. auth_value: got 1, expected text.'],
      [bad({ created_at: '2025-02-30' }), 'created_at: got "2025-02-30", expected a date that exists.'],
      [
        bad({ last_login: '1969-12-31T23:59:59Z' }),
        /^last_login: got "1969-12-31T23:59:59Z", expected a date or .* to now\.$/,
      ],
      [bad({ login_count: -1 }), /^login_count: got -1, expected a whole number/],
      [bad({ email: 'nobody' }), 'email: got "nobody", expected an email address.'],
      [bad({ wallet: 'GABC' }), /^wallet: got "GABC", expected a Stellar address/],
      [
        bad({ accounts: [{ network: 'bitcoin', public_key: 'x' }] }),
        'accounts[].network: got "bitcoin", expected stellar or ethereum.',
      ],
      [
        bad({ accounts: [{ network: 'stellar', public_key: ethereumAddress(1) }] }),
        /^accounts\[0\]\.public_key: got .*, expected a Stellar address \(G and 55 more characters\), as its network says\.$/,
      ],
      [bad({ auth_method: 'E-Mail' }), /^auth_method: got "E-Mail", expected email, passkey, wallet, or /],
      [JSON.stringify(email('a\u0000')), /^auth_value: got "\[email\]", expected text/],
    ];
    const lines = [`\uFEFF${good('bom')}\n\n   \t\n${good('crlf')}\r\n\r`, ...invalid.map(([line]) => line)];
    const input = Buffer.concat([
      ...lines.flatMap((line) => [Buffer.from(line as string), Buffer.from('\n')]),
      Buffer.from(good('no-final-newline')),
    ]);
    const { code, report } = await importLines(project, input, '--skip-invalid');
    expect([code, report]).toMatchObject([0, { imported: 3, created: 3, skipped: 0, failed: 15 }]);
    expect(report.errors).toEqual(
      invalid.map(([, error], index) => ({
        line: 6 + index,
        error: typeof error === 'string' ? error : expect.stringMatching(error),
      })),
    );
    expect(await namesIn(project)).toEqual(['bom@example.com', 'crlf@example.com', 'no-final-newline@example.com']);
  });

  test('the first thousand invalid lines are reported, and all are counted', async () => {
    const project = await createProject();
    const { code, report } = await importLines(
      project,
      `${JSON.stringify({ ['k'.repeat(2_000)]: 1 })}\n`.repeat(1_500),
    );
    expect({ code, failed: report.failed, reported: report.errors.length }).toEqual({
      code: 1,
      failed: 1_500,
      reported: 1_000,
    });
    expect(report.errors[999].line).toBe(1_000);
    expect(report.errors[0].error.length).toBeLessThan(600);
  });

  test('--on-conflict decides what happens to existing users', async () => {
    const project = await createProject();
    const [kept] = [email('ada', { created_at: '2025-01-01T00:00:00Z', login_count: 5 })];
    await importLines(project, lines([kept]));
    const input = lines([
      email('Ada', { login_count: 6, accounts: [{ network: 'stellar', public_key: stellarAddress(1) }] }),
      email('bob'),
    ]);

    expect(await importLines(project, input)).toMatchObject({
      code: 1,
      report: {
        imported: 0,
        created: 0,
        skipped: 0,
        failed: 1,
        errors: [{ line: 1, error: 'A user with auth_method "email" and this auth_value exists already.' }],
      },
    });
    expect(await namesIn(project)).toEqual(['ada@example.com']);

    expect(await importLines(project, input, '--on-conflict', 'skip')).toMatchObject({
      code: 0,
      report: { imported: 1, created: 1, skipped: 1, failed: 0, errors: [] },
    });
    expect(await namesIn(project)).toEqual(['ada@example.com', 'bob@example.com']);

    expect(await importLines(project, input, '--on-conflict', 'update')).toMatchObject({
      code: 0,
      report: { imported: 2, created: 0, updated: 1, unchanged: 1, skipped: 0 },
    });
    const users = await usersOf(url(), project);
    expect(users.find((user) => /ada/i.test(user.auth_value))).toMatchObject({
      // Another spelling is no change.
      auth_value: 'ada@example.com',
      created_at: '2025-01-01T00:00:00.000Z',
      login_count: 6,
      accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
    });
  });

  test('equal errors are reported once, and the last line says how many lines are not imported', async () => {
    const project = await createProject();
    const input = lines([
      email('ada'),
      ...Array.from({ length: 1_200 }, () => ({ auth_method: 'email', auth_value: 'nobody' })),
      { auth_method: 'email' },
      email('ADA'),
    ]);
    const args = ['user', 'import', '--project', project.app_id];
    const faults = [
      'lines 2, 3, 4, 5, 6 and 1,195 more: auth_value: got "nobody", expected an email address.',
      'line 1202: auth_value: got nothing, expected text.',
      'line 1203: Line 1 has the same auth_method and auth_value.',
    ];
    // Whether users exist is asked only when every line is valid.
    const refused = await runWith(input, ...args);
    expect(refused).toMatchObject({ code: 1, stderr: '' });
    expect(refused.stdout).toBe(
      `${faults.join('\n')}\nImported 0, skipped 0, failed 1202.\nNothing was imported, because 1202 lines failed.\n`,
    );
    const importSome = () => runWith(input, ...args, '--skip-invalid', '--on-conflict', 'skip');
    expect((await importSome()).stdout).toContain('\nImported 1, skipped 0, failed 1202.\n');
    const taken = await importSome();
    expect(taken).toMatchObject({ code: 0, stderr: '' });
    expect(taken.stdout).toBe(`${faults.join('\n')}\nImported 0, skipped 1, failed 1202.\n`);
  });

  test('many kinds of errors are reported as twenty kinds and the rest', async () => {
    const project = await createProject();
    const input = Array.from({ length: 50 }, (_, n) => `{"auth_method":"Bad ${n % 25}","auth_value":"x"}\n`);
    const { report } = await importLines(project, input.join(''));
    expect(report.error_kinds).toHaveLength(21);
    expect(report.error_kinds[0]).toMatchObject({ lines: 2, first: [1, 26] });
    expect(report.error_kinds[20]).toEqual({ error: 'Other errors.', lines: 10, first: [21, 22, 23, 24, 25] });
  });

  test('a removed user is no conflict', async () => {
    const project = await createProject();
    await importLines(project, lines([email('ada')]));
    const { body } = await call(url(), project, '/server/users');
    await call(url(), project, `/server/users/${body.result.users[0].id}`, { method: 'DELETE' });
    expect(await importLines(project, lines([email('ada')]))).toMatchObject({ code: 0, report: { imported: 1 } });
  });

  test('a file is read like standard input', async () => {
    const project = await createProject();
    const file = join(folder, 'users.ndjson');
    await writeFile(file, lines([email('from-a-file')]));
    expect(await importLines(project, '', file)).toMatchObject({ report: { imported: 1 } });
    expect(await importLines(project, lines([email('from-stdin')]), '-')).toMatchObject({ report: { imported: 1 } });
    expect(await namesIn(project)).toEqual(['from-a-file@example.com', 'from-stdin@example.com']);
    expect(await importLines(project, '')).toMatchObject({ code: 0, report: { imported: 0 } });
  });

  test('a missing file or a folder is refused in one line', async () => {
    const { app_id: appId } = await createProject();
    const args = ['user', 'import', '--project', appId];
    const missing = { code: 1, stdout: '', stderr: `userdir: The file ${folder}/none does not exist.\n` };
    expect(await run(...args, `${folder}/none`)).toMatchObject(missing);
    const isFolder = { code: 1, stdout: '', stderr: `userdir: ${folder} is a directory, not a file.\n` };
    expect(await run(...args, folder)).toMatchObject(isFolder);
  });

  test('an export imported into another project creates equal users in the same order', async () => {
    const [one, other] = [await createProject(), await createProject()];
    await runJson('seed', '--project', one.app_id, '--users', '1500');
    const sameInstant = Array.from({ length: 50 }, (_, index) => email(`tie-${index}`, { created_at: '2025-01-01' }));
    await importLines(one, lines(sameInstant));
    const exported = await run('user', 'export', '--project', one.app_id);
    expect(exported).toMatchObject({ code: 0, stderr: expect.stringMatching(/^Exported 1550 users\.\n/) });
    expect(await importLines(other, exported.stdout)).toMatchObject({ report: { imported: 1_550 } });
    expect(await usersOf(url(), other)).toEqual(await usersOf(url(), one));
    const again = await run('user', 'export', '--project', other.app_id);
    expect(exported.stdout).toMatch(/^\{"id":\d+,/);
    expect(withoutIds(again.stdout)).toBe(withoutIds(exported.stdout));
  });

  test('a wallet that is no longer the login wallet is still external after export and import', async () => {
    const [one, other] = [await createProject(), await createProject()];
    const ann = { authMethod: 'google', authValue: 'google|1' };
    await recordLogin(url(), one, { ...ann, wallet: stellarAddress(1) });
    await recordLogin(url(), one, { ...ann, wallet: stellarAddress(2) });
    const exported = await run('user', 'export', '--project', one.app_id);
    expect(JSON.parse(exported.stdout).accounts).toEqual([
      { network: 'stellar', public_key: stellarAddress(1), wallet_type: 'external' },
      { network: 'stellar', public_key: stellarAddress(2) },
    ]);
    await importLines(other, exported.stdout);
    const body = JSON.stringify({ address: stellarAddress(1) });
    const verified = await call(url(), other, '/server/wallets/verify', { method: 'POST', body });
    expect(verified.body.result.wallet_type).toBe('external');
  });

  test('export | head ends without an error', async () => {
    const project = await createProject();
    await runJson('seed', '--project', project.app_id, '--users', '3000');
    const script = '"$NODE" "$CLI" user export --project "$APP" | head -1; echo "$' + '{PIPESTATUS[0]}"';
    const { stdout, stderr } = await promisify(execFile)('bash', ['-c', script], {
      env: { ...process.env, DATABASE_URL: '', ...settings(), NODE: process.execPath, CLI, APP: project.app_id },
    });
    const [first = '', code] = stdout.trimEnd().split('\n');
    expect(JSON.parse(first)).toMatchObject({ auth_method: expect.any(String) });
    expect({ code, stderr }).toEqual({ code: '0', stderr: '' });
    expect((await call(url(), project, '/server/users/count')).body.result.total_user).toBe(3_000);
  });
});

describe('without a running server,', () => {
  const database = useDatabase();
  const folder = makeFolder();
  let project: Credentials;
  beforeAll(async () => {
    project = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
  });

  const totalUser = async () => {
    const [listed] = await userdirJson(database.env, ['project', 'list']);
    return listed.total_user;
  };

  /** An import that has read most of a megabyte and waits for the rest of its input. */
  async function importHalf() {
    const child = spawnUserdir(database.env, ['user', 'import', '--project', project.app_id]);
    const outcome = outcomeOf(child);
    await new Promise((resolve) => child.stdin.write(emails(15_000), resolve));
    return { child, outcome };
  }

  test('an import that is interrupted says so and writes nothing', async () => {
    const { child, outcome } = await importHalf();
    child.kill('SIGINT');
    expect(await outcome).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: 'userdir: Interrupted. An import that does not complete changes nothing.\n',
    });
    expect(await totalUser()).toBe(0);
  });

  test.runIf(inject('engine') === 'postgres')(
    'an import whose connection breaks says so and writes nothing',
    async () => {
      const { child, outcome } = await importHalf();
      const admin = new pg.Client({ connectionString: database.env['DATABASE_URL'] });
      await admin.connect();
      // The import has read all of its input, and waits for this lock.
      await admin.query('BEGIN; LOCK TABLE users IN SHARE MODE');
      child.stdin.end();
      await vi.waitUntil(async () => {
        const { rowCount } = await admin.query(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        );
        return rowCount === 1;
      }, 60_000);
      await admin.end();
      const { code, stderr } = await outcome;
      expect([code, stderr.split('\n').length, stderr.startsWith('userdir: ')]).toEqual([1, 2, true]);
      expect(stderr).not.toMatch(/INSERT|\bat /);
      expect(await totalUser()).toBe(0);
    },
  );

  /** Reads the peak resident memory of a process from /proc. */
  test.runIf(existsSync('/proc/self/status'))(
    'the memory of an import does not grow with the size of its file',
    async () => {
      async function peakMegabytes(name: string, count: number): Promise<number> {
        const path = join(folder, name);
        const file = await open(path, 'w');
        for (let index = 0; index < count; index += 1) {
          await file.write(`${JSON.stringify(email(`${name}-${index}`))}${' '.repeat(32_000)}\n`);
        }
        await file.close();
        const child = spawnUserdir(database.env, ['user', 'import', '--project', project.app_id, path]);
        let peak = 0;
        const watch = setInterval(() => {
          peak = Math.max(peak, residentPeakMegabytes(child.pid ?? 0));
        }, 20);
        const outcome = await outcomeOf(child);
        clearInterval(watch);
        expect(outcome).toMatchObject({ code: 0, stdout: `Imported ${count}, skipped 0, failed 0.\n` });
        return peak;
      }
      const small = await peakMegabytes('small', 500);
      const large = await peakMegabytes('large', 8_000);
      // The larger file is 240 MB larger.
      expect(large - small).toBeLessThan(120);
    },
  );
});

function residentPeakMegabytes(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
}
