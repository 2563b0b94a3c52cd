import { describe, expect, test } from 'vitest';
import type { Json } from '../support/app.js';
import { startServer, TIMESTAMP, userdir, userdirJson, useServer } from '../support/command.js';
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

  test('a malformed OPERATOR is refused', async () => {
    const { code, stderr } = await userdir({ ...server.settings(), OPERATOR: 'a b' }, ['project', 'list']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('OPERATOR: got "a b", expected 1 to 64 letters')]);
  });
});

test('a first start in demo mode prints a link that logs in', async () => {
  await using database = await copyTemplate();
  const server = await startServer({ ...database.env, DEMO: 'on', OPERATOR: 'ada' });
  expect(server.dashboard).toMatch(/\/dashboard#login=[\w-]{43}$/);
  expect((await logIn(server.dashboard ?? '')).status).toBe(204);
  await server.stop();
});

test('without a dashboard there is no link', async () => {
  await using database = await copyTemplate();
  const { code, stderr } = await userdir({ ...database.env, DASHBOARD: 'off' }, ['dashboard']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('set DASHBOARD=on')]);
});
