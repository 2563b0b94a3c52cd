import { execFile } from 'node:child_process';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json, text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type ImportedUser, type Json, type TestProject, useTestApp } from '../support/app.js';
import { outcomeOf, spawnUserdir } from '../support/command.js';
import { CHECKS, checkConformance, chooseChecks, type Verdict } from './conformance/run.js';

/** `npm run conformance`: our server passes every check. For each check, a server with one fault fails it. */

const app = useTestApp();
let project: TestProject;
let other: TestProject;
let users: Json[];
beforeAll(async () => {
  [project, other] = await Promise.all([app.createProject(), app.createProject()]);
  await project.addUsers(...Array.from({ length: 130 }, (_, place) => madeUp(place)));
  await other.addUsers({ auth_method: 'email', auth_value: 'other@example.com' });
  const pages = [1, 2].map((page) => project.rest(`/server/users?limit=100&page=${page}`));
  users = (await Promise.all(pages)).flatMap(({ body }) => body.result.users);
});

function madeUp(place: number): ImportedUser {
  const accounts = [
    { network: 'stellar', public_key: stellarAddress(place) },
    { network: 'ethereum', public_key: ethereumAddress(place) },
  ];
  const made = {
    created_at: new Date(Date.UTC(2026, 0, 1, 12) + place * 5 * 3_600_000).toISOString(),
    last_login: '2026-03-01T00:00:00Z',
    login_count: place,
  };
  const kinds = [
    { auth_method: 'email', auth_value: `user-${place}@example.com`, accounts },
    // The same email as the previous user.
    { auth_method: 'google', auth_value: `user-${place - 1}@example.com`, accounts },
    { auth_method: 'passkey', auth_value: `key-${place}`, accounts },
    { auth_method: 'wallet', auth_value: stellarAddress(1_000 + place) },
    { auth_method: 'wallet', auth_value: ethereumAddress(1_000 + place) },
  ];
  return { ...made, ...(kinds[place % kinds.length] as (typeof kinds)[number]) };
}

async function run(url: string, ids: readonly string[], deleteUser: number | null = null): Promise<Verdict[]> {
  const { appId, appSecret } = project;
  const options = { url, appId, appSecret, other, write: true, deleteUser, signal: AbortSignal.timeout(60_000) };
  const { checks, unknown } = chooseChecks(ids);
  expect(unknown).toEqual([]);
  const { checks: verdicts } = await checkConformance(options, checks, () => undefined);
  // A check that breaks before its first request has found nothing.
  expect(verdicts.filter((verdict) => verdict.status === 'failed' && verdict.request === '')).toEqual([]);
  return [...verdicts];
}

/** A user that a test may delete. */
const spare = () => users.shift().id as number;

test('our server passes every check but authentication/https, because the test uses plain HTTP', async () => {
  const deleted = spare();
  const verdicts = await run(app.url, ['*'], deleted);
  expect(verdicts.filter(({ status }) => status !== 'passed')).toEqual([
    expect.objectContaining({ id: 'authentication/https', status: 'skipped' }),
  ]);
  expect(new Set(CHECKS.map(({ id }) => id)).size).toBe(CHECKS.length);
  const { body } = await project.rest('/server/users/count');
  expect(body.result.total_user, 'nobody else was deleted').toBe(129);
});

test('in a project without users, all checks about users are skipped', async () => {
  const { appId, appSecret } = await app.createProject();
  const options = { url: app.url, appId, appSecret, other: null, write: false, deleteUser: null };
  const { checks } = await checkConformance(
    { ...options, signal: AbortSignal.timeout(60_000) },
    CHECKS,
    () => undefined,
  );
  expect(checks.filter(({ status }) => status === 'failed')).toEqual([]);
  const unseen =
    /^(user|account|projects|delete|verify\/(positive|pinned|custodial|external)|search\/(email|every|address))/;
  const about = checks.filter(({ id }) => unseen.test(id) || id.startsWith('filters/login-method'));
  expect(about.filter(({ status }) => status !== 'skipped')).toEqual([]);
});

interface Asked {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Record<string, string>;
  body: Json;
}
interface Answered {
  status: number;
  body: Json;
  contentType: string;
}

/** A server with one fault: a proxy that changes requests to the correct server, or its answers. */
interface Wrong {
  readonly is: string;
  /** The checks, or groups of checks, that find the fault. */
  readonly foundBy: readonly string[];
  readonly asked?: (asked: Asked, count: number) => unknown;
  readonly answered?: (answered: Answered, asked: Asked) => unknown;
}

const usersIn = ({ body }: Answered): Json[] =>
  body?.result?.users ?? (body?.result?.auth_method && !('exists' in body.result) ? [body.result] : []);
const onUsers = (change: (user: Json) => unknown) => (answered: Answered) => usersIn(answered).forEach(change);
const onAccounts = (change: (account: Json) => unknown) => onUsers((user) => (user.accounts ?? []).forEach(change));
const isList = ({ path }: Asked) => path === '/server/users';
const isCount = ({ path }: Asked) => path === '/server/users/count';
const isSearch = ({ path }: Asked) => path === '/server/users/search';
const isOne = ({ path }: Asked) =>
  /^\/server\/users\/[\w.]+$/.test(path) && !path.endsWith('count') && !path.endsWith('search');
const isVerify = ({ path }: Asked) => path === '/server/wallets/verify';
const isDelete = ({ method }: Asked) => method === 'DELETE';
const onQuery = (name: string, change: (value: string) => string | null) => (asked: Asked) => {
  const values = asked.query.getAll(name);
  asked.query.delete(name);
  for (const value of values) {
    const changed = change(value);
    if (changed !== null) asked.query.append(name, changed);
  }
};
const shifted = (value: string, ms: number) =>
  value.includes('T') ? new Date(Date.parse(value) + ms).toISOString() : value;
const answers = (status: number, body: Json) => (answered: Answered) => void Object.assign(answered, { status, body });
const empty = answers(200, { message: 'Found.', result: { total_user: 0, users: [] } });
const refuses = (answered: Answered) => answered.status === 400;
const methods = ['wallet', 'socials', 'passkey', 'email'];

const WRONG: Wrong[] = [
  {
    is: 'takes whatever credentials it gets',
    foundBy: [
      'authentication/missing',
      'authentication/wrong-secret',
      'authentication/unknown-app-id',
      'authentication/no-app-id',
      'authentication/no-app-secret',
      'authentication/empty',
      'authentication/basic-wrong-secret',
      'authentication/basic-malformed',
      'projects',
      'delete/other-project',
    ],
    asked: (asked) => Object.assign(asked.headers, project.credentials),
  },
  {
    is: 'does not know HTTP Basic',
    foundBy: ['authentication/basic'],
    asked: ({ headers }) => delete headers['authorization'],
  },
  {
    is: 'refuses the right credentials after a while',
    foundBy: ['authentication/headers'],
    asked: ({ headers }, count) => void (count > 1 && delete headers['service-app-secret']),
  },
  {
    is: 'repeats the secret in errors',
    foundBy: ['authentication/secret-stays'],
    answered: (answered, { headers }) => {
      if (answered.status >= 400) answered.body = { error: `wrong: ${headers['service-app-secret']}` };
    },
  },
  {
    is: 'answers without a message',
    foundBy: ['envelope/success'],
    answered: ({ body }) => delete body.message,
  },
  {
    is: 'has errors of another form',
    foundBy: ['envelope/error'],
    answered: (answered) => {
      if (answered.status >= 400) answered.body = { message: answered.body.error };
    },
  },
  {
    is: 'calls its JSON text',
    foundBy: ['envelope/json'],
    answered: (answered) => Object.assign(answered, { contentType: 'text/plain' }),
  },
  {
    is: 'says 404 when it finds nobody',
    foundBy: ['errors/not-found', 'search/no-match', 'verify/negative', 'verify/pinned-to-another'],
    answered: (answered) => {
      const { total_user: total, exists } = answered.body.result ?? {};
      if (total === 0 || exists === false) answers(404, { error: 'Nobody.' })(answered);
    },
  },
  ...Object.entries({
    id: '7',
    auth_method: null,
    auth_value: 7,
    wallet: { address: 'G' },
    created_at: '2026-01-31 12:00:00',
    last_login: 1_769_860_800,
    login_count: '7',
    accounts: null,
  }).map(
    ([field, value]): Wrong => ({
      is: `has another type of ${field}`,
      foundBy: [`user/${field.replace('_', '-')}`],
      answered: onUsers((user) => Object.assign(user, { [field]: value })),
    }),
  ),
  ...Object.entries({ id: '7', network: 1, public_key: null }).map(
    ([field, value]): Wrong => ({
      is: `has another type of ${field} in accounts`,
      foundBy: [`account/${field.replace('_', '-')}`],
      answered: onAccounts((account) => Object.assign(account, { [field]: value })),
    }),
  ),
  {
    is: 'has Stellar addresses in lower case',
    foundBy: ['account/stellar-form'],
    answered: onAccounts((account) => Object.assign(account, { public_key: account.public_key.toLowerCase() })),
  },
  {
    is: 'has an id for the login email',
    foundBy: ['user/email-value'],
    answered: onUsers((user) => Object.assign(user, { auth_value: '1234' })),
  },
  {
    is: 'shows private keys',
    foundBy: ['user/no-secrets'],
    answered: onAccounts((account) => Object.assign(account, { private_key: 'x' })),
  },
  {
    is: 'shows who was deleted',
    foundBy: ['user/no-state'],
    answered: onUsers((user) => Object.assign(user, { deleted_at: null })),
  },
  {
    is: 'leaves a field out of one user',
    foundBy: ['user/same-everywhere'],
    answered: (answered, asked) => isOne(asked) && onUsers((user) => delete user.login_count)(answered),
  },
  {
    is: 'has totals of another type',
    foundBy: ['list/result', 'count/result'],
    answered: ({ body }, asked) => {
      if ((isList(asked) || isCount(asked)) && body.result) body.result.total_user = String(body.result.total_user);
    },
  },
  {
    is: 'lists the oldest first',
    foundBy: ['list/newest-first'],
    answered: ({ body }) => body.result?.users?.reverse(),
  },
  {
    is: 'begins with page 2',
    foundBy: ['list/page-default'],
    asked: (asked) => isList(asked) && !asked.query.has('page') && asked.query.set('page', '2'),
  },
  {
    is: 'has 20 users on a page',
    foundBy: ['list/limit-default'],
    asked: (asked) => isList(asked) && !asked.query.has('limit') && asked.query.set('limit', '20'),
  },
  { is: 'knows no limit', foundBy: ['list/limit', 'list/page'], asked: onQuery('limit', () => null) },
  {
    is: 'brings a limit within its bounds',
    foundBy: ['list/limit-maximum', 'list/invalid-limit'],
    asked: onQuery('limit', (value) => String(Math.min(Math.max(Math.trunc(Number(value)) || 1, 1), 100))),
  },
  { is: 'knows no pages', foundBy: ['list/page', 'list/total'], asked: onQuery('page', () => null) },
  {
    is: 'takes page 0 for page 1',
    foundBy: ['list/invalid-page'],
    asked: onQuery('page', (value) => (value === '0' ? '1' : value)),
  },
  {
    is: 'counts one too many',
    foundBy: ['list/total'],
    answered: ({ body }, asked) =>
      isList(asked) && body.result && Object.assign(body.result, { total_user: body.result.total_user + 1 }),
  },
  {
    is: 'counts with the users in the answer',
    foundBy: ['count/no-records'],
    answered: ({ body }, asked) => isCount(asked) && body.result && Object.assign(body.result, { users: [] }),
  },
  {
    is: 'counts without filters',
    foundBy: ['count/same-rules'],
    asked: (asked) => isCount(asked) && Object.assign(asked, { query: new URLSearchParams() }),
  },
  {
    is: 'has users after a date, not on it',
    foundBy: ['filters/start-date', 'filters/together'],
    asked: onQuery('start_date', (value) => shifted(value, 1)),
  },
  {
    is: 'has users before a date, not on it',
    foundBy: ['filters/end-date'],
    asked: onQuery('end_date', (value) => shifted(value, -1)),
  },
  {
    is: 'knows no days',
    foundBy: ['filters/start-day', 'filters/end-day'],
    asked: (asked) => {
      for (const name of ['start_date', 'end_date'])
        onQuery(name, (value) => (/^\d{4}-\d\d-\d\d$/.test(value) ? null : value))(asked);
    },
  },
  {
    is: 'ends a day at its midnight',
    foundBy: ['filters/end-day'],
    asked: onQuery('end_date', (value) => (/^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00:00Z` : value)),
  },
  {
    is: 'knows no offsets',
    foundBy: ['filters/date-offset'],
    asked: onQuery('start_date', (value) => value.replace('+05:00', 'Z')),
  },
  {
    is: 'overlooks dates that are none',
    foundBy: ['filters/invalid-date'],
    asked: (asked) => {
      for (const name of ['start_date', 'end_date'])
        onQuery(name, (value) => (Number.isNaN(Date.parse(value)) ? null : value))(asked);
    },
  },
  {
    is: 'knows no login methods',
    foundBy: ['filters/login-method*', 'filters/together', 'filters/invalid-login-method'],
    asked: onQuery('login_method', () => null),
  },
  {
    is: 'takes the first of several login methods between commas',
    foundBy: ['filters/login-method-comma', 'filters/login-method-combined'],
    asked: onQuery('login_method', (value) => value.split(',')[0] as string),
  },
  {
    is: 'takes the last of repeated login methods',
    foundBy: ['filters/login-method-repeated', 'filters/login-method-combined'],
    asked: ({ query }) =>
      query.has('login_method') && query.set('login_method', query.getAll('login_method').at(-1) as string),
  },
  {
    is: 'overlooks login methods that are none',
    foundBy: ['filters/invalid-login-method'],
    asked: onQuery(
      'login_method',
      (value) =>
        value
          .split(',')
          .filter((each) => methods.includes(each))
          .join() || null,
    ),
  },
  {
    is: 'has a total of a search that is not that of its users',
    foundBy: ['search/result'],
    answered: ({ body }, asked) =>
      isSearch(asked) && body.result && Object.assign(body.result, { total_user: body.result.total_user + 1 }),
  },
  {
    is: 'finds nobody',
    foundBy: ['search/email', 'search/email-case', 'search/every-match', 'search/address*'],
    answered: (answered, asked) => isSearch(asked) && !refuses(answered) && empty(answered),
  },
  {
    is: 'finds emails only as they are written',
    foundBy: ['search/email-case'],
    answered: (answered, { query }) =>
      void (/[A-Z]/.test(query.get('email') ?? '') && !refuses(answered) && empty(answered)),
  },
  {
    is: 'finds emails by their end',
    foundBy: ['search/email-exact'],
    asked: onQuery('email', (value) => value.replace(/^x/, '')),
  },
  {
    is: 'finds one user for an email',
    foundBy: ['search/every-match'],
    answered: ({ body }, asked) => void (isSearch(asked) && body.result?.users.splice(1)),
  },
  {
    is: 'overlooks an address beside an email, and the lack of both',
    foundBy: ['search/both', 'search/neither'],
    asked: (asked) => {
      if (!isSearch(asked)) return;
      if (asked.query.has('email')) asked.query.delete('address');
      else if (!asked.query.has('address')) asked.query.set('email', 'nobody@example.com');
    },
  },
  {
    is: 'has one user without accounts',
    foundBy: ['get/result'],
    answered: (answered, asked) => isOne(asked) && onUsers((user) => Object.assign(user, { accounts: [] }))(answered),
  },
  {
    is: 'takes a malformed id for an unknown one, and an unknown for a malformed',
    foundBy: ['get/invalid-id', 'get/unknown', 'delete/invalid-id'],
    answered: (answered, asked) => {
      if (isOne(asked) && [400, 404].includes(answered.status)) answered.status = 804 - answered.status;
    },
  },
  {
    is: 'verifies without saying the network',
    foundBy: ['verify/positive'],
    answered: ({ body }, asked) => void (isVerify(asked) && delete body.result?.network),
  },
  ...(['custodial', 'external'] as const).map(
    (type): Wrong => ({
      is: `calls every wallet ${type}`,
      foundBy: [type === 'custodial' ? 'verify/external' : 'verify/custodial'],
      answered: ({ body }, asked) =>
        isVerify(asked) && body.result?.exists && Object.assign(body.result, { wallet_type: type }),
    }),
  ),
  {
    is: 'verifies nothing that is pinned',
    foundBy: ['verify/pinned'],
    asked: (asked) => asked.body?.user_id && Object.assign(asked.body, { user_id: 999_999_999 }),
  },
  {
    is: 'does not look at the pin',
    foundBy: ['verify/pinned-to-another'],
    asked: (asked) => void (asked.body && delete asked.body.user_id),
  },
  {
    is: 'has more in a negative verification',
    foundBy: ['verify/negative'],
    answered: ({ body }, asked) =>
      isVerify(asked) && body.result?.exists === false && Object.assign(body.result, { user_id: null }),
  },
  {
    is: 'does not verify what is malformed',
    foundBy: ['verify/malformed', 'verify/missing'],
    answered: (answered, asked) =>
      void (
        isVerify(asked) &&
        refuses(answered) &&
        answers(200, { message: 'No.', result: { exists: false } })(answered)
      ),
  },
  {
    is: 'has a result of a deletion',
    foundBy: ['delete/result'],
    answered: ({ body }, asked) => isDelete(asked) && Object.assign(body, { result: {} }),
  },
  {
    is: 'deletes nobody',
    foundBy: [
      'delete/gone',
      'delete/not-listed',
      'delete/not-found',
      'delete/not-verified',
      'delete/again',
      'delete/unknown',
    ],
    asked: (asked) => isDelete(asked) && Object.assign(asked, { method: 'GET' }),
    answered: (answered, asked) =>
      void (
        asked.path.startsWith('/server/users/') &&
        asked.method === 'GET' &&
        asked.headers['was'] === 'DELETE' &&
        answers(200, { message: 'Deleted.' })(answered)
      ),
  },
];

/** The URL of a port without a listener. */
async function closedUrl(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}

/** Starts the faulty proxy in front of the correct server. */
async function startWrong(wrong: Wrong): Promise<{ url: string; server: Server }> {
  let count = 0;
  const server = createServer(async (incoming, response) => {
    count += 1;
    const asked = await readAsked(incoming);
    wrong.asked?.(asked, count);
    const { method, path, query, headers, body } = asked;
    const answer = await fetch(`${app.url}${path}${query.size === 0 ? '' : `?${query}`}`, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const answered = { status: answer.status, body: await answer.json(), contentType: 'application/json' };
    wrong.answered?.(answered, asked);
    response.writeHead(answered.status, { 'content-type': answered.contentType });
    response.end(JSON.stringify(answered.body));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

async function readAsked(incoming: IncomingMessage): Promise<Asked> {
  const { pathname, searchParams } = new URL(incoming.url as string, app.url);
  const { method = 'GET' } = incoming;
  const kept = ['service-app-id', 'service-app-secret', 'authorization', 'content-type'];
  const headers = Object.fromEntries(
    kept.flatMap((name) => (incoming.headers[name] === undefined ? [] : [[name, String(incoming.headers[name])]])),
  );
  const body = method === 'POST' ? await json(incoming) : void (await text(incoming));
  return { method, path: pathname, query: searchParams, headers: { ...headers, was: method }, body };
}

describe('a server that', () => {
  test.each(WRONG)('$is is found by $foundBy', async (wrong) => {
    const { url, server } = await startWrong(wrong);
    try {
      const verdicts = await run(
        url,
        wrong.foundBy,
        wrong.foundBy.some((id) => id.startsWith('delete/')) ? spare() : null,
      );
      const missed = verdicts.filter(({ status }) => status !== 'failed');
      expect(missed).toEqual([]);
    } finally {
      server.close();
    }
  });

  test('fails a check: every check but authentication/https has one', () => {
    const found = chooseChecks(WRONG.flatMap(({ foundBy }) => foundBy)).checks;
    const never = CHECKS.filter((check) => !found.includes(check)).map(({ id }) => id);
    expect(never).toEqual(['authentication/https']);
  });
});

describe('the command', () => {
  beforeAll(() => promisify(execFile)('npx', ['tsc', '-b', 'test/contract/conformance']));

  const PROGRAM = fileURLToPath(new URL('../../dist/.conformance/command.js', import.meta.url));
  async function run(settings: Record<string, string>, args: string[], input = '') {
    const child = spawnUserdir(settings, args, [process.execPath, PROGRAM]);
    child.stdin.end(input);
    return outcomeOf(child);
  }
  const conformance = (settings: Record<string, string>, args: string[], input = '') =>
    run(settings, [app.url, '--app-id', project.appId, ...args], input);

  test('reads the secret from the environment, and prints one JSON value with --json', async () => {
    const { code, stdout, stderr } = await conformance({ USERDIR_APP_SECRET: project.appSecret }, [
      '--json',
      '--only',
      'list,count',
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({ url: app.url, passed: 13, failed: 0, skipped: 0, complete: true });
    expect(report.checks[0]).toEqual({ id: 'list/result', sentence: expect.any(String), status: 'passed' });
  });

  test('reads the secret from a file, and a file that cannot be read is a usage error', async () => {
    const { code, stderr } = await conformance({ USERDIR_APP_SECRET_FILE: '/none' }, []);
    expect(code).toBe(2);
    expect(stderr).toContain('USERDIR_APP_SECRET_FILE must name a file that can be read (ENOENT).');
  });

  test('reads the secret from standard input, and prints one line for each check', async () => {
    const { code, stdout } = await conformance(
      {},
      ['--app-secret', '-', '--only', 'get,delete'],
      `${project.appSecret}\n`,
    );
    expect(code).toBe(0);
    expect(stdout).toContain('✓  get/unknown  Unknown user gives 404.');
    expect(stdout).toContain('-  delete/unknown  skipped: it sends DELETE, which needs --write');
    expect(stdout).toMatch(/\n3 passed, 0 failed, 9 skipped\n$/);
  });

  test('exits with 1 when a check fails, and prints the request and both answers, expected and actual', async () => {
    const { url, server } = await startWrong(WRONG.find(({ is }) => is === 'takes page 0 for page 1') as Wrong);
    const args = [url, '--app-id', project.appId, '--only', 'list/invalid-page'];
    const { code, stdout } = await run({ USERDIR_APP_SECRET: project.appSecret }, args);
    server.close();
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /✗ {2}list\/invalid-page .*\n +asked +GET \/server\/users\?page=0\n +expected +400 .*\n +arrived +200 /,
    );
    expect(stdout).toMatch(/\n0 passed, 1 failed, 0 skipped\n$/);
  });

  test('prints the answer of a server without its control characters', async () => {
    const server = createServer((_, response) => response.end('\u001b[2Jnothing\r\nof the kind'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const args = [url, '--app-id', 'a', '--app-secret', 'b', '--only', 'get/unknown'];
    const { code, stdout } = await run({}, args);
    server.close();
    expect(code).toBe(1);
    expect(stdout).toContain('arrived   200  [2Jnothing of the kind\n');
  });

  test('stops at its timeout, and exits with 1', async () => {
    const { code, stdout } = await conformance({ USERDIR_APP_SECRET: project.appSecret }, [
      '--json',
      '--timeout',
      '0s',
    ]);
    expect(code).toBe(1);
    // The timeout may come before or after the first answer.
    if (stdout !== '') expect(JSON.parse(stdout)).toMatchObject({ failed: 0, complete: false });
  });

  test.each([
    [[], 2, 'the App Secret is missing: set USERDIR_APP_SECRET'],
    [['--app-secret', 'x', '--only', 'lst'], 2, "there is no check 'lst'; the groups are authentication, projects,"],
    [['--app-secret', 'x', '--delete-user', '1'], 2, '--delete-user needs --write'],
    [['--app-secret', 'x', '--write', '--delete-user', 'me'], 2, 'Expected a user ID'],
    [['--app-secret', 'x', '--other-app-id', 'app_2'], 2, 'set USERDIR_OTHER_APP_SECRET'],
    [['--app-secret', 'x'], 1, 'The server refuses the App ID or the App Secret (401).'],
  ])('the arguments %j are refused with exit code %i', async (args, expected, sentence) => {
    const { code, stdout, stderr } = await conformance({}, args);
    expect({ code, stdout }).toEqual({ code: expected, stdout: '' });
    expect(stderr).toContain(sentence);
  });

  test('exits with 1 for an unreachable server, and with 2 for an invalid URL', async () => {
    const gone = await run({}, [await closedUrl(), '--app-id', 'a', '--app-secret', 'b']);
    expect(gone).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^userdir: The server cannot be reached: .*ECONNREFUSED 127[^\n]*\n$/),
    });
    const none = await run({}, ['127.0.0.1:9', '--app-id', 'a', '--app-secret', 'b']);
    expect(none).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('Expected the base URL') });
  });
});
