import { EventEmitter, once } from 'node:events';
import { Readable } from 'node:stream';
import { expect, inject, test, vi } from 'vitest';
import { parseBanTerms } from '#dist/domain/bans.js';
import { parseIdentity } from '#dist/domain/identities.js';
import { snakeCase } from '#dist/domain/spelling.js';
import { checksumAddress } from '#dist/domain/wallets.js';
import { ethereumAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp, withoutIds } from '../support/app.js';
import { PATIENCE } from '../support/waiting.js';

/** Imports beside other work. */
const app = useTestApp();
const line = (name: string, more: Json = {}) =>
  Buffer.from(`${JSON.stringify({ auth_method: 'google', auth_value: name, ...more })}\n`);
const scopeOf = ({ appId }: TestProject) => app.context.services.projects.getScope(appId);
const begun = () => app.statements.filter((sql) => sql.startsWith('BEGIN')).length;

interface Options {
  readonly waitMs?: number;
  readonly onWait?: (sentence: string) => void;
  readonly signal?: AbortSignal;
  readonly onConflict?: 'skip' | 'update' | 'replace' | 'fail';
  readonly skipInvalid?: boolean;
}
async function importFrom(project: TestProject, input: AsyncIterable<Buffer>, options: Options = {}) {
  const signal = new AbortController().signal;
  const defaults = { onConflict: 'fail', skipInvalid: false, progress: () => undefined, signal } as const;
  return app.context.services.transfers.importUsers(await scopeOf(project), input, { ...defaults, ...options });
}
async function* linesOf(...names: string[]) {
  for (const name of names) yield line(name);
}
const names = async (project: TestProject): Promise<string[]> => {
  const { data } = await project.graphql('{ userPage(limit: 100) { users { authValue } } }');
  return data.userPage.users.map(({ authValue }: Json) => authValue).sort();
};

test('an import begins no transaction until its input has ended and every line is valid', async () => {
  const project = await app.createProject();
  const before = begun();
  const interrupted = new AbortController();
  const asked = new EventEmitter();
  async function* endless() {
    yield line('a');
    asked.emit('again');
    await once(asked, 'never', { signal: interrupted.signal });
  }
  const waiting = once(asked, 'again');
  const imported = importFrom(project, endless(), { signal: interrupted.signal });
  await waiting;
  const login = 'mutation { recordLogin(input: { authMethod: "google", authValue: "a" }) { created } }';
  expect((await project.graphql(login)).data.recordLogin.created).toBe(true);
  interrupted.abort(new Error('Stopped.'));
  await expect(imported).rejects.toThrow();
  const report = await importFrom(project, linesOf('b', '', 'c'));
  expect(report).toMatchObject({ imported: 0, failed: 1, errors: [{ line: 2 }] });
  expect(begun()).toBe(before);
  expect(await names(project)).toEqual(['a']);
});

/** An import whose transaction is open until `finish` is called. */
async function holdImport(project: TestProject) {
  const events = new EventEmitter();
  let passes = 0;
  const input = {
    bytes: line('a').length,
    async *[Symbol.asyncIterator]() {
      passes += 1;
      yield line('a');
      if (passes === 1) return;
      const finished = once(events, 'finish');
      events.emit('begun');
      await finished;
    },
  };
  const inTransaction = once(events, 'begun');
  const done = importFrom(project, input);
  await inTransaction;
  const finish = () => {
    events.emit('finish');
    return done;
  };
  return { finish };
}

const isPostgres = inject('engine') === 'postgres';
const WAITS = 'An import of this project is running. Waiting for its end.';

test('imports of one project run one after the other, and say what they wait for', async () => {
  const project = await app.createProject();
  const first = await holdImport(project);
  const onWait = vi.fn();
  const second = importFrom(project, linesOf('b'), { onWait });
  if (isPostgres) {
    await vi.waitUntil(() => onWait.mock.calls.length > 0, PATIENCE);
    expect(onWait.mock.calls).toEqual([[WAITS]]);
    await expect(importFrom(project, linesOf('c'), { waitMs: 0 })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: 'An import of this project is running. Try again when it has ended.',
    });
    const gone = new AbortController();
    const left = importFrom(project, linesOf('d'), { signal: gone.signal, onWait: () => gone.abort() });
    await expect(left).rejects.toThrow('aborted');
    // Imports of another project do not wait.
    expect(await importFrom(await app.createProject(), linesOf('a'))).toMatchObject({ imported: 1 });
  }
  expect(await first.finish()).toMatchObject({ imported: 1 });
  expect(await second).toMatchObject({ imported: 1 });
  expect(await names(project)).toEqual(['a', 'b']);
});

test.runIf(isPostgres)('a deletion disables a project at once, and deletes it when its import has ended', async () => {
  const project = await app.createProject();
  const first = await holdImport(project);
  const { lifecycle } = app.context.services;
  const options = { progress: () => undefined, signal: new AbortController().signal };
  await expect(lifecycle.deleteProject(await scopeOf(project), { ...options, waitMs: 0 })).rejects.toMatchObject({
    message: 'An import of this project is running. Try again when it has ended.',
  });
  expect((await project.rest('/server/users')).status).toBe(401);
  const onWait = vi.fn();
  const deletion = lifecycle.deleteProject(await scopeOf(project), { ...options, onWait });
  await vi.waitUntil(() => onWait.mock.calls.length > 0, PATIENCE);
  expect(onWait.mock.calls).toEqual([[WAITS]]);
  expect(await first.finish()).toMatchObject({ imported: 1 });
  expect(await deletion).toBe(1);
});

test('an import of a project that was deleted meanwhile says so', async () => {
  const project = await app.createProject();
  const scope = await scopeOf(project);
  const options = { progress: () => undefined, signal: new AbortController().signal };
  await app.context.services.lifecycle.deleteProject(scope, options);
  const late = app.context.services.transfers.importUsers(scope, Readable.from([line('a')]), {
    onConflict: 'fail',
    skipInvalid: false,
    ...options,
  });
  await expect(late).rejects.toMatchObject({ code: 'NOT_FOUND', message: 'The project has been deleted.' });
});

test('export, import and export of a user whose account is their own login wallet are the same', async () => {
  const { transfers } = app.context.services;
  const options = { progress: () => undefined, signal: new AbortController().signal };
  const exported = async (project: TestProject) => {
    const chunks: string[] = [];
    const write = async (chunk: string) => void chunks.push(chunk);
    await transfers.exportUsers(await scopeOf(project), { ...options, write });
    return chunks.join('');
  };
  const [one, other] = [await app.createProject(), await app.createProject()];
  const wallet = ethereumAddress(1);
  const custodial = (address: string) => [{ network: 'ethereum', public_key: address, wallet_type: 'custodial' }];
  const users = [
    line(wallet, { auth_method: 'wallet', accounts: custodial(wallet) }),
    // The same address in another spelling.
    line('g', { wallet, accounts: custodial(checksumAddress(wallet)) }),
  ];
  await importFrom(one, Readable.from(users));
  const first = await exported(one);
  expect(first).not.toContain('custodial');
  await importFrom(other, Readable.from([Buffer.from(first)]));
  expect(withoutIds(await exported(other))).toBe(withoutIds(first));
  const { data } = await other.graphql('{ userPage { users { accounts { walletType } } } }');
  const external = { accounts: [{ walletType: 'EXTERNAL' }] };
  expect(data.userPage.users).toEqual([external, external]);
});

test('an update writes no row of a user who has all that the line gives, and adds what is missing', async () => {
  const project = await app.createProject();
  const account = (n: number, type: string) => ({
    network: 'ethereum',
    public_key: ethereumAddress(n),
    wallet_type: type,
  });
  const both = [account(1, 'custodial'), account(2, 'external')];
  const first = ['same', 'less', 'more', 'external', 'counted'].map((name) => line(name, { accounts: both }));
  await importFrom(project, Readable.from(first));
  const { id } = (await app.context.db.pool.query('SELECT id FROM projects WHERE app_id = $1', [project.appId]))
    .rows[0];
  const versions = async () => {
    const { rows } = await app.context.db.pool.query(
      `SELECT u.auth_value AS name, u.xmin || ' ' || (
         SELECT string_agg(a.xmin || ' ' || a.wallet_type, ', ' ORDER BY a.id) FROM accounts a WHERE a.project_id = $1 AND a.user_id = u.id
       ) AS version
       FROM users u WHERE u.project_id = $1`,
      [id],
    );
    return Object.fromEntries(rows.map(({ name, version }: Json) => [name, version]));
  };
  const before = await versions();
  const again = [
    ...[line('same', { accounts: both }), line('less', { accounts: [account(2, 'custodial')] })],
    ...[
      line('more', { accounts: [account(3, 'custodial')] }),
      line('external', { accounts: [account(1, 'external')] }),
    ],
    line('counted', { login_count: 1, accounts: both }),
  ];
  const report = await importFrom(project, Readable.from(again), { onConflict: 'update' });
  expect(report).toMatchObject({ imported: 5, unchanged: 2, updated: 3, created: 0 });
  const after = await versions();
  const changed = Object.keys(before).filter((name) => after[name] !== before[name]);
  expect(changed.sort()).toEqual(['counted', 'external', 'more']);
  expect(after['external']).not.toContain('custodial');
  expect(after['more'].split(', ')).toHaveLength(3);
});

const DAY_MS = 86_400_000;
const inMs = (ms: number) => new Date(Date.now() + ms).toISOString();
const banLine = (name: string, more: Json = {}) =>
  Buffer.from(`${JSON.stringify({ ban: { auth_method: 'google', auth_value: name, ...more } })}\n`);

test('what has happened is refused by line where it is more than a day to come, or before 1970', async () => {
  const project = await app.createProject();
  const [soon, late] = [inMs(DAY_MS - 60_000), inMs(DAY_MS + 60_000)];
  const refused = [
    line('created', { created_at: late }),
    line('logged-in', { last_login: late }),
    line('for-ever', { last_login: '9999-12-31' }),
    line('before', { created_at: '1970-01-01T00:00:00+00:01' }),
    banLine('banned', { created_at: late }),
  ];
  const accepted = [line('soon', { created_at: soon, last_login: soon }), line('first', { created_at: '1970-01-01' })];
  const report = await importFrom(project, Readable.from([...refused, ...accepted]), { skipInvalid: true });
  expect(report).toMatchObject({ created: 2, failed: 5 });
  const form = 'expected a date or an RFC 3339 date-time, from 1970 to now.';
  expect(report.errors).toEqual(
    ['created_at', 'last_login', 'last_login', 'created_at', 'created_at'].map((name, index) => ({
      line: index + 1,
      error: expect.stringMatching(new RegExp(`^${name}: got "[^"]+", ${form}$`)),
    })),
  );
});

test('a date ends a ban with its last instant in an import as in the command; what is left out is counted', async () => {
  const project = await app.createProject();
  const { bans, audit } = app.context.services;
  const scope = await scopeOf(project);
  const end = inMs(7 * DAY_MS).slice(0, 10);
  const yesterday = inMs(-DAY_MS).slice(0, 10);
  const input = [
    ...[banLine('date', { expires_at: end }), banLine('date', { reason: 'again' })],
    ...[banLine('instant', { expires_at: `${end}T12:00:00.0005Z` }), banLine('ended', { expires_at: yesterday })],
  ];
  const counts = { bans: 2, bans_kept: 1, bans_ended: 1 };
  expect(await importFrom(project, Readable.from(input))).toMatchObject({ ...counts, failed: 0 });
  const [entry] = (await audit.listPage(scope, {}, { after: null, limit: 1 })).entries;
  expect(entry).toMatchObject({ action: 'import', details: { imported: 0, skipped: 0, ...counts } });
  const ends = async () =>
    (await bans.listBans(scope, { limit: 10 })).bans.map(({ authValue, expiresAt }) => [authValue, expiresAt]).sort();
  const imported = await ends();
  expect(imported).toEqual([
    ['date', `${end}T23:59:59.999Z`],
    ['instant', `${end}T12:00:00.000Z`],
  ]);
  const again = await importFrom(project, Readable.from(input));
  expect(again).toMatchObject({ bans: 0, bans_kept: 3, bans_ended: 1 });
  for (const [authValue = '', until] of [
    ['date', end],
    ['instant', `${end}T12:00:00.0005Z`],
  ]) {
    const terms = parseBanTerms({ end: until }, 'until');
    await bans.ban(scope, parseIdentity({ authMethod: 'google', authValue }, snakeCase), terms);
  }
  expect(await ends()).toEqual(imported);
});

test('an update only adds logins; a replacement takes them back, too', async () => {
  const project = await app.createProject();
  const history = (created_at: string, last_login: string | null, login_count: number) => ({
    created_at: `2026-01-${created_at}T00:00:00.000Z`,
    login_count,
    last_login: last_login && `2026-02-${last_login}T00:00:00.000Z`,
  });
  const names = ['older', 'newer', 'mixed', 'never', 'silent'];
  const before = history('10', '10', 43);
  await importFrom(
    project,
    Readable.from(names.map((name) => line(name, name === 'never' ? history('10', null, 0) : before))),
  );
  const delta = [
    line('older', history('20', '09', 42)),
    line('newer', history('09', '11', 44)),
    line('mixed', { ...history('09', '09', 44), email: 'new@example.com' }),
    line('never', history('10', '01', 1)),
    line('silent'),
  ];
  const read = async () => {
    const { data } = await project.graphql(
      '{ userPage(limit: 100) { users { authValue createdAt lastLogin loginCount } } }',
    );
    return Object.fromEntries(
      data.userPage.users.map((user: Json) => [
        user.authValue,
        { created_at: user.createdAt, last_login: user.lastLogin, login_count: user.loginCount },
      ]),
    );
  };
  const updated = await importFrom(project, Readable.from(delta), { onConflict: 'update' });
  expect(updated).toMatchObject({ imported: 5, updated: 3, unchanged: 2 });
  const after = {
    older: before,
    newer: history('09', '11', 44),
    mixed: history('09', '10', 44),
    never: history('10', '01', 1),
    silent: before,
  };
  expect(await read()).toEqual(after);
  const again = await importFrom(project, Readable.from(delta), { onConflict: 'update' });
  expect(again).toMatchObject({ unchanged: 5 });
  const replaced = await importFrom(project, Readable.from(delta), { onConflict: 'replace' });
  expect(replaced).toMatchObject({ updated: 2, unchanged: 3 });
  expect(await read()).toEqual({ ...after, older: history('20', '09', 42), mixed: history('09', '09', 44) });
});

test.each(['fail', 'skip', 'update', 'replace'] as const)(
  'two lines of one user fail in every batch, also of a user who exists, and name the first line: %s',
  async (onConflict) => {
    const project = await app.createProject();
    await importFrom(project, linesOf('a'));
    // The first lines end a batch, the next begin one.
    const others = Array.from({ length: 2_100 }, (_, n) => `u${n}`);
    const input = () => linesOf('a', 'b', ...others, 'b', 'a', 'u0', 'c');
    const before = begun();
    const refused = await importFrom(project, input(), { onConflict });
    const doubles = [2, 1, 3].map((first, n) => ({
      line: 2_103 + n,
      error: `Line ${first} has the same auth_method and auth_value.`,
    }));
    expect(refused).toMatchObject({ imported: 0, skipped: 0, failed: 3, errors: doubles });
    expect(begun()).toBe(before);
    const { errors: reported, ...counts } = await importFrom(project, input(), { onConflict, skipInvalid: true });
    expect(reported.slice(-3)).toEqual(doubles);
    expect(counts).toMatchObject({ created: 2_102, failed: onConflict === 'fail' ? 4 : 3 });
  },
);
