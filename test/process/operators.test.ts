import { describe, expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { createAuthenticator } from '../support/authenticator.js';
import { startServer, TIMESTAMP, userdir, userdirJson, useServer } from '../support/command.js';
import { cookieOf } from '../support/dashboard.js';
import { copyTemplate } from '../support/engines.js';

/** The people who operate the service, by command. */

const logIn = (url: string) => {
  const { origin, hash } = new URL(url);
  return fetch(`${origin}/dashboard/session`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin' },
    body: JSON.stringify({ token: hash.replace('#login=', '') }),
  });
};

describe('while a server runs', () => {
  const server = useServer();
  const as = (name: string, ...args: string[]): Promise<Json> =>
    userdirJson({ ...server.settings(), OPERATOR: name, PUBLIC_URL: server.url() }, args);

  test('the first link makes an admin of the person who asks; later ones are for those who are named', async () => {
    const first = await as('Ada', 'dashboard');
    expect(first).toEqual({
      url: expect.stringMatching(/\/dashboard#login=[\w-]{43}$/),
      expires_at: expect.stringMatching(TIMESTAMP),
    });
    expect(new URL(first.url).origin).toBe(server.url());
    expect((await logIn(first.url)).status).toBe(204);
    expect((await logIn(first.url)).status).toBe(401);
    expect(await as('ada', 'operator', 'list')).toMatchObject([{ name: 'ada', role: 'admin', source: 'added' }]);
    const refused = await userdir({ ...server.settings(), OPERATOR: 'bob' }, ['dashboard']);
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining('There is no operator "bob". Name one of ada by --operator'),
    ]);
    expect(await as('ada', 'operator', 'add', 'bob', '--role', 'viewer')).toEqual({
      name: 'bob',
      role: 'viewer',
      projects: null,
    });
    expect((await logIn((await as('ada', 'dashboard', '--operator', 'bob')).url)).status).toBe(204);
    expect(await as('ada', 'operator', 'remove', 'bob')).toEqual({ name: 'bob' });
    const log = await as('ada', 'operator', 'log');
    expect(log.map(({ actor, action }: Json) => `${actor} ${action}`)).toEqual([
      'operator:ada add_operator',
      'operator:ada make_link',
      'operator:ada log_in',
      'unknown refuse',
      'operator:ada add_operator',
      'operator:ada make_link',
      'operator:bob log_in',
      'operator:ada remove_operator',
    ]);
  });

  test('who takes its last admin of all projects from the service is told', async () => {
    const told = async (...args: string[]) => {
      const { code, stderr } = await userdir({ ...server.settings(), OPERATOR: 'ada' }, ['operator', ...args]);
      expect(code).toBe(0);
      return stderr;
    };
    const warning = 'No admin of all projects is left';
    expect(await told('add', 'second', '--role', 'admin')).toBe('');
    expect(await told('update', 'second', '--role', 'viewer')).toBe('');
    expect(await told('update', 'ada', '--role', 'support')).toContain(warning);
    expect(await told('update', 'ada', '--role', 'admin')).toBe('');
    expect(await told('remove', 'second')).toBe('');
    expect(await told('remove', 'ada')).toContain(warning);
    expect(await told('add', 'ada', '--role', 'admin')).toBe('');
  });

  test('passkeys are listed and removed', async () => {
    const none = await userdir(server.settings(), ['operator', 'passkeys']);
    expect([none.code, none.stdout]).toEqual([0, expect.stringContaining('There is no passkey.')]);
    await as('ada', 'operator', 'add', 'keyed', '--role', 'viewer');
    const session = cookieOf(await logIn((await as('ada', 'dashboard', '--operator', 'keyed')).url));
    const ask = async (cookie: string, query: string, variables: object = {}): Promise<Json> => {
      const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', cookie };
      const body = JSON.stringify({ query, variables });
      return (await fetch(`${server.url()}/dashboard/graphql`, { method: 'POST', headers, body })).json();
    };
    const origin = server.url().replace('127.0.0.1', 'localhost');
    const { data } = await ask(session, 'mutation { beginPasskey }');
    const key = createAuthenticator();
    await ask(
      session,
      `mutation ($id: String!, $clientDataJSON: String!, $attestationObject: String!) {
        addPasskey(name: "laptop", id: $id, clientDataJSON: $clientDataJSON, attestationObject: $attestationObject) { id } }`,
      key.register(JSON.parse(data.beginPasskey), { origin }),
    );

    const [listed, ...others] = await as('ada', 'operator', 'passkeys', 'keyed');
    expect([listed, others]).toEqual([
      {
        id: expect.any(Number),
        operator: 'keyed',
        name: 'laptop',
        host: 'localhost',
        created_at: expect.stringMatching(TIMESTAMP),
        last_used_at: null,
      },
      [],
    ]);
    expect(await as('ada', 'operator', 'remove-passkey', String(listed.id))).toEqual({
      id: listed.id,
      name: 'laptop',
      operator: 'keyed',
    });
    expect(await as('ada', 'operator', 'passkeys')).toEqual([]);
    expect((await ask(session, '{ me { name } }')).data.me.name).toBe('keyed');
    const log = await as('ada', 'operator', 'log', '--limit', '2');
    expect(log.map(({ actor, action }: Json) => `${actor} ${action}`)).toEqual([
      'operator:keyed add_passkey',
      'operator:ada remove_passkey',
    ]);
  });

  test('the audit trail names the person who ran a command', async () => {
    const { app_id } = await as('grace', 'project', 'create', '--name', 'Test');
    await as('heidi', 'user', 'ban', '--project', app_id, '--method', 'google', '--value', '1');
    const trail = await as('ada', 'audit', '--project', app_id);
    expect(trail.map(({ actor, action }: Json) => [actor, action])).toEqual([
      ['operator:grace', 'create'],
      ['operator:heidi', 'ban'],
    ]);
  });

  test('an operator is limited to projects, changed, and listed with what is theirs', async () => {
    const create = async (name: string) => (await as('ada', 'project', 'create', '--name', name)).app_id as string;
    const [first, second] = [await create('First'), await create('Second')];
    const both = ['--project', first, '--project', second];
    const judy = { name: 'judy', role: 'support', projects: [first, second] };
    expect(await as('ada', 'operator', 'add', 'judy', '--role', 'support', ...both)).toEqual(judy);
    const listed = async () => (await as('ada', 'operator', 'list')).filter(({ name }: Json) => /^judy/.test(name));
    expect(await listed()).toMatchObject([judy]);
    expect((await userdir(server.settings(), ['operator', 'list'])).stdout).toContain(`${first}, ${second}`);
    const update = (...args: string[]) => as('ada', 'operator', 'update', ...args);
    expect(await update('judy', '--role', 'viewer')).toEqual({ ...judy, role: 'viewer' });
    const changed = { name: 'judy.h', role: 'viewer', projects: [second] };
    expect(await update('judy', '--name', 'Judy.H', '--project', second)).toEqual(changed);
    expect(await listed()).toMatchObject([changed]);
    expect(await update('judy.h', '--all-projects')).toEqual({ ...changed, projects: null });
    const log = await as('ada', 'operator', 'log');
    expect(log.slice(-4).map(({ action, details }: Json) => [action, details])).toEqual([
      ['add_operator', { operator: 'judy', role: 'support', projects: [first, second] }],
      ['update_operator', { operator: 'judy', role: 'viewer' }],
      ['update_operator', { operator: 'judy', name: 'judy.h', projects: [second] }],
      ['update_operator', { operator: 'judy.h', projects: 'all' }],
    ]);
    const refused = async (...args: string[]) => {
      const { code, stderr } = await userdir(server.settings(), ['operator', 'update', ...args]);
      return [code, stderr];
    };
    expect(await refused('judy.h')).toEqual([2, expect.stringContaining('nothing is to be changed')]);
    expect(await refused('judy', '--role', 'admin')).toEqual([1, expect.stringContaining('no operator "judy"')]);
    expect(await refused('judy.h', '--project', 'app_1')).toEqual([1, expect.stringContaining('"app_1"')]);
    expect(await refused('judy.h', '--project', first, '--all-projects')).toEqual([
      2,
      expect.stringContaining('cannot be used with'),
    ]);
  });

  test.each([
    [
      'operator add',
      ['operator', 'add', 'not a name', '--role', 'admin'],
      'got "not a name", expected 1 to 64 letters',
    ],
    [
      'a second one of a name',
      ['operator', 'add', 'twice', '--role', 'admin'],
      'There is an operator "twice" already.',
    ],
    ['operator remove', ['operator', 'remove', 'nobody'], 'There is no operator "nobody".'],
    ['operator passkeys', ['operator', 'passkeys', 'nobody'], 'There is no operator "nobody".'],
    ['operator remove-passkey', ['operator', 'remove-passkey', '999999'], 'There is no passkey 999999.'],
    ['dashboard', ['dashboard', '--operator', 'nobody'], 'There is no operator "nobody".'],
  ])('%s says what is wrong', async (name, args, words) => {
    if (name.startsWith('a second')) await as('ada', ...args);
    const { code, stderr } = await userdir(server.settings(), args);
    const expected = name === 'operator add' ? 2 : 1;
    expect([code, stderr]).toEqual([expected, expect.stringContaining(words)]);
  });

  test('a malformed OPERATOR is refused', async () => {
    const { code, stderr } = await userdir({ ...server.settings(), OPERATOR: 'a b' }, ['project', 'list']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('OPERATOR: got "a b", expected 1 to 64 letters')]);
  });
});

test('a first start in demo mode prints a link that logs in', async () => {
  const database = await copyTemplate();
  const server = await startServer({ ...database.env, DEMO: 'on', OPERATOR: 'ada' });
  try {
    expect(server.dashboard).toMatch(/\/dashboard#login=[\w-]{43}$/);
    expect((await logIn(server.dashboard ?? '')).status).toBe(204);
  } finally {
    await server.stop();
    await database.drop();
  }
});

test('without a dashboard there is no link', async () => {
  const database = await copyTemplate();
  try {
    const { code, stderr } = await userdir({ ...database.env, DASHBOARD: 'off' }, ['dashboard']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('set DASHBOARD=on')]);
  } finally {
    await database.drop();
  }
});
