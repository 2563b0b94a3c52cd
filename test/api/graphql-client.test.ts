import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { buildSchema, type GraphQLInputObjectType } from 'graphql';
import { type Change, type Client, type ClientOptions, createClient, type User } from 'userdir/client';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type ChangeCursor, decodeChangeCursor, encodeChangeCursor } from '#dist/domain/changes.js';
import { ofStateFilters, STATE_FILTER_NAMES } from '#dist/domain/state-filters.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { ROOT } from '../support/checkout.js';
import { startProxy, type TcpProxy } from '../support/proxy.js';

/** The package's client against the service, also through proxies that cut, delay and answer themselves. */

const ADDRESS = '0x52908400098527886E0F7030069857D2E4169EE7';
const OTHER_ADDRESS = '0x8617E340B3D01FA5F11F306F4090FD50E238070D';

const app = useTestApp();
let project: TestProject;
let client: Client;
let serial = 0;

const clientOf = ({ appId, appSecret }: TestProject, more: Partial<ClientOptions> = {}) =>
  createClient({ url: app.url, appId, appSecret, ...more });
async function collect<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const collected: Item[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}
type Form = [value: unknown, isCounted: boolean];

/** For each filter some values, and whether the service counts the users whom they select. */
const FILTERS: Record<string, Form[]> = {
  startDate: [['2026-01-01', true]],
  endDate: [['2026-01-01', true]],
  loginMethods: [[['EMAIL'], true]],
  ...ofStateFilters(STATE_FILTER_NAMES, {
    boolean: (): Form[] => [
      [true, false],
      [false, false],
    ],
    instant: (): Form[] => [['2026-01-01', false]],
    methods: (): Form[] => [
      [['email', 'wallet'], true],
      [['google'], false],
      [['email', 'google'], false],
    ],
    text: (): Form[] => [['ada', false]],
  }),
};
const email = () => ({ authMethod: 'email', authValue: `person.${++serial}@example.com` });

async function register(more: object = {}, by = client): Promise<User> {
  return (await by.logins.record({ ...email(), ...more })).user;
}

beforeEach(async () => {
  project = await app.createProject();
  client = clientOf(project);
});

describe('users', () => {
  test('are recorded, found by what they have, and changed', async () => {
    const login = { ...email(), externalId: `customer-${serial}`, metadata: { plan: 'free' } };
    const { created, user } = await client.logins.record(login);
    expect([created, user]).toMatchObject([true, { ...login, loginCount: 1, metadata: { plan: 'free' } }]);
    expect((await client.logins.record(login)).user.loginCount).toBe(2);
    const { id } = user;
    expect(await client.users.get(id)).toMatchObject({ id, loginCount: 2, identities: [{ isPrimary: true }] });
    expect(await client.users.get(Number(id))).toMatchObject({ id });
    expect(await client.users.getByExternalId(login.externalId)).toMatchObject({ id });
    const { authMethod, authValue } = login;
    expect(await client.users.getByIdentity({ authMethod, authValue })).toMatchObject({ id });
    expect(await client.users.search({ email: login.authValue })).toMatchObject([{ id }]);
    expect(await client.users.update(id, { externalId: null })).toMatchObject({ id, externalId: null });
    expect(await client.users.getByExternalId(login.externalId)).toBe(null);
  });

  test('are created without a login', async () => {
    const given = { ...email(), externalId: `made-${serial}` };
    const user = await client.users.create(given, { idempotencyKey: `made-${serial}` });
    expect(user).toMatchObject({ ...given, loginCount: 0, lastLogin: null });
    expect(await client.users.create(given, { idempotencyKey: `made-${serial}` })).toEqual(user);
    await expect(client.users.create(given)).rejects.toMatchObject({ code: 'CONFLICT', userId: user.id });
  });

  test('are banned and removed many at once', async () => {
    const ids = [(await register()).id, (await register()).id];
    const done = ids.map((id) => ({ id, ok: true, code: null, message: null }));
    expect(await client.users.banMany(ids, { reason: 'spam' })).toEqual(done);
    expect(await client.users.get(ids[0] as string)).toMatchObject({ ban: { isOfUser: true, reason: 'spam' } });
    const key = { idempotencyKey: `many-${++serial}` };
    expect(await client.users.removeMany(ids, key)).toEqual(done);
    expect(await client.users.removeMany(ids, key)).toEqual(done);
    expect(await client.users.removeMany(ids)).toMatchObject([{ code: 'NOT_FOUND' }, { code: 'NOT_FOUND' }]);
  });

  test('are looked up by many values, by any value and by the beginning of one', async () => {
    const [one, other] = [await register({ externalId: `known-${++serial}` }), await register()];
    const identityOf = ({ authMethod, authValue }: User) => ({ authMethod, authValue });
    const unknown = { authMethod: 'email', authValue: 'unknown@example.com' };
    expect(await client.users.getManyByExternalId([`known-${serial + 9}`, one.externalId as string])).toMatchObject([
      null,
      { id: one.id },
    ]);
    // More than one request may ask for.
    const identities = Array.from({ length: 230 }, () => unknown).concat(identityOf(other), identityOf(one));
    const found = await client.users.getManyByIdentity(identities);
    expect(found.map((user) => user?.id)).toEqual([...Array.from({ length: 230 }), other.id, one.id]);
    expect(await client.users.getManyByEmail(['unknown@example.com', one.authValue])).toMatchObject([
      [],
      [{ id: one.id }],
    ]);
    expect(await client.users.find(one.externalId as string)).toMatchObject([{ id: one.id }]);
    const { users, hasMore } = await client.users.findByPrefix('person.', { first: 1 });
    expect([users.length, hasMore]).toEqual([1, true]);
  });

  test('who are banned are listed, all of them', async () => {
    const banned = await Promise.all(Array.from({ length: 103 }, () => register()));
    for (const { id } of banned) await client.users.ban(id, { reason: undefined });
    const listed = await collect(client.bans.list());
    expect(listed.map(({ authValue }) => authValue).sort()).toEqual(banned.map(({ authValue }) => authValue).sort());
  });

  test('are linked, merged, banned, removed and restored', async () => {
    const one = await register();
    const other = await register();
    const identity = { authMethod: 'google', authValue: `g-${serial}` };
    expect((await client.identities.link(one.id, identity)).identities).toHaveLength(2);
    expect((await client.identities.unlink(one.id, identity)).identities).toHaveLength(1);
    await client.identities.ban(identity, { reason: 'spam' });
    await expect(client.identities.link(one.id, identity)).rejects.toMatchObject({ code: 'BANNED' });
    await client.identities.unban(identity);
    expect((await client.identities.link(one.id, identity)).identities).toHaveLength(2);
    expect(await client.users.merge({ from: other.id, into: one.id })).toMatchObject({ id: one.id, loginCount: 2 });
    await client.users.ban(one.id, { reason: 'Fraud.' });
    const { authMethod, authValue } = one;
    await expect(client.logins.record({ authMethod, authValue })).rejects.toMatchObject({
      name: 'UserdirError',
      code: 'BANNED',
      status: 200,
    });
    await client.users.unban(one.id);
    await client.users.remove(one.id);
    await expect(client.users.remove(one.id)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await client.users.get(one.id)).toBe(null);
    expect(await client.users.restore(one.id)).toMatchObject({ id: one.id });
  });

  test('are listed one by one and by pages, with the exact total', async () => {
    await project.addUsers(
      ...Array.from({ length: 205 }, (_, n) => ({ auth_method: 'passkey', auth_value: `key-${n}` })),
    );
    await register();
    expect(await client.users.count()).toBe(206);
    expect(await client.users.count({ loginMethods: ['PASSKEY'] })).toBe(205);
    const ids = (await collect(client.users.list())).map(({ id }) => id);
    expect(new Set(ids).size).toBe(206);
    const pages = await collect(client.users.list({ filter: { loginMethods: ['PASSKEY'] } }).pages());
    expect(pages.map(({ users, totalUser }) => [users.length, totalUser])).toEqual([
      [100, 205],
      [100, 205],
      [5, 205],
    ]);
    const rest = client.users.list({ after: pages[0]?.cursor ?? '', filter: { loginMethods: ['PASSKEY'] } });
    expect(await collect(rest)).toHaveLength(105);
    // A program that has kept the last cursor of all may begin again, and keeps it.
    const last = pages.at(-1)?.cursor;
    expect(await collect(client.users.list({ after: last }).pages())).toMatchObject([{ users: [], cursor: last }]);
    const none = client.users.list({ after: null, filter: { loginMethods: ['EMAIL'], endDate: '2000-01-01' } });
    expect(await collect(none.pages())).toMatchObject([{ users: [], cursor: null }]);
    expect(await client.users.page({ page: 21, limit: 10 })).toMatchObject({ totalUser: 206, users: { length: 6 } });
    const many = await client.users.getMany([...ids, '999999999', ids[0] ?? '']);
    expect(many.map((user) => user?.id ?? null)).toEqual([...ids, null, ids[0]]);
  });

  test.each(Object.entries(FILTERS))(
    'are listed by pages with the filter %s, with a total if they are counted',
    async (name, forms) => {
      await register();
      for (const [value, isCounted] of forms) {
        const [page] = await collect(client.users.list({ filter: { [name]: value } }).pages());
        expect(page?.totalUser).toEqual(isCounted ? expect.any(Number) : null);
      }
    },
  );

  test('have a row above for each filter', () => {
    const schema = buildSchema(readFileSync(join(ROOT, 'schema.graphql'), 'utf8'));
    const filter = schema.getType('UserFilter') as GraphQLInputObjectType;
    expect(Object.keys(FILTERS).sort()).toEqual(Object.keys(filter.getFields()).sort());
  });

  test('are read in smaller parts where they cost too much', async () => {
    const accounts = (user: number) =>
      Array.from({ length: 100 }, (_, n) => ({
        network: 'ethereum',
        public_key: `0x${(user * 1_000 + n).toString(16).padStart(40, '0')}`,
      }));
    await project.addUsers(
      ...Array.from({ length: 25 }, (_, n) => ({
        auth_method: 'passkey',
        auth_value: `key-${n}`,
        accounts: accounts(n),
      })),
    );
    const users = await collect(client.users.list());
    expect(users.map((user) => user.accounts.length)).toEqual(Array(25).fill(100));
    expect(await client.users.getMany(users.map(({ id }) => id))).toEqual(users);
  });
});

describe('wallets', () => {
  test('are verified for one user, or for any if that is said', async () => {
    const owner = await register({ accounts: [{ network: 'ETHEREUM', publicKey: ADDRESS }] });
    const other = await register();
    expect(await client.wallets.verify(ADDRESS, { userId: owner.id })).toMatchObject({
      exists: true,
      userId: owner.id,
    });
    expect(await client.wallets.verify(ADDRESS, { userId: other.id })).toMatchObject({ exists: false, userId: null });
    expect(await client.wallets.verify(ADDRESS, { anyUser: true })).toMatchObject({ exists: true, userId: owner.id });
    await expect(client.wallets.verify('0x12', { anyUser: true })).rejects.toMatchObject({
      code: 'BAD_USER_INPUT',
      argument: 'address',
    });
    await client.wallets.unlink(owner.id, ADDRESS);
    expect(await client.wallets.verify(ADDRESS, { anyUser: true })).toMatchObject({ exists: false });
  });

  test('any number of them is verified in order, and only as many are taken as are asked for', async () => {
    const { id: userId } = await register({ accounts: [{ network: 'ETHEREUM', publicKey: ADDRESS }] });
    let taken = 0;
    async function* wallets(count: number) {
      for (taken = 0; taken < count; taken += 1)
        yield {
          address: taken % 3 === 0 ? ADDRESS : OTHER_ADDRESS,
          ...(taken % 2 === 0 ? { userId } : { anyUser: true as const }),
        };
    }
    const verdicts = await collect(client.wallets.verifyMany(wallets(1_203)));
    expect(verdicts.map(({ verdict }) => verdict)).toEqual(
      verdicts.map((_, n) => (n % 3 === 0 ? 'VERIFIED' : 'NOT_OWNED')),
    );
    expect(verdicts).toHaveLength(1_203);
    const some = client.wallets.verifyMany(wallets(1e9));
    await some.next();
    expect(taken).toBeLessThanOrEqual(501);
    await some.return();
    const long = Array.from({ length: 60 }, () => ({ address: 'x'.repeat(4_000), userId }));
    const malformed = await collect(client.wallets.verifyMany(long));
    expect(malformed.map(({ verdict }) => verdict)).toEqual(Array(60).fill('MALFORMED'));
  });
});

test('webhooks are added, listed, paused, resumed, given a new secret and removed', async () => {
  const { projects, secrets } = app.context.services;
  const scope = await projects.getScope(project.appId);
  const { appSecret } = await secrets.addSecret(scope, { label: 'hooks', scopes: ['webhooks'], expiresInMs: null });
  const { webhooks } = clientOf({ ...project, appSecret });
  const { webhook, secret } = await webhooks.add({ url: 'https://hooks.example.com/users', description: 'orders' });
  expect(webhook).toMatchObject({ description: 'orders', status: 'ENABLED' });
  expect(await webhooks.pause(webhook.id)).toMatchObject({ status: 'PAUSED' });
  expect(await webhooks.resume(webhook.id)).toMatchObject({ status: 'ENABLED' });
  expect((await webhooks.rotateSecret(webhook.id, { overlapSeconds: 60 })).secret).not.toBe(secret);
  expect(await webhooks.list()).toMatchObject([{ id: webhook.id }]);
  await webhooks.remove(webhook.id);
  expect(await webhooks.list()).toEqual([]);
});

describe('the caller', () => {
  test('is the project and the secret', async () => {
    expect(await client.caller()).toMatchObject({ appId: project.appId, projectName: 'Test' });
    const stranger = clientOf({ ...project, appSecret: 'uds_wrong-wrong-wrong' });
    await expect(stranger.caller()).rejects.toMatchObject({
      code: 'UNAUTHENTICATED',
      status: 401,
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
  });
});

/** What befalls a request: an answer of the gate instead of the service, or a connection that is cut before or after the work. */
type Mishap = (request: IncomingMessage, response: ServerResponse, pass: () => Promise<void>) => unknown;

const MISHAPS: Record<string, Mishap> = {
  'a 502': (_request, response) => response.writeHead(502).end('<html>Away.</html>'),
  'a 503': (_request, response) => response.writeHead(503, { 'retry-after': '0' }).end(),
  'a cut before the work': (request) => request.socket.destroy(),
  'a cut after the work': async (request, _response, pass) => {
    await pass();
    request.socket.destroy();
  },
  'half an answer': (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
    response.write('{"data":{', () => response.destroy());
  },
  'no answer in time': async (_request, _response, pass) => pass(),
};

describe('behind a proxy with', () => {
  let mishaps: Mishap[] = [];
  const gate = createServer(async (request, response) => {
    const body = await buffer(request);
    const { headers } = request;
    const pass = async () => {
      const kept = ['service-app-id', 'service-app-secret', 'content-type'].map((name) => [
        name,
        String(headers[name]),
      ]);
      const passed = await fetch(app.url + request.url, { method: 'POST', headers: Object.fromEntries(kept), body });
      return [passed.status, await passed.text()] as const;
    };
    const mishap = mishaps.shift();
    if (mishap) return void (await mishap(request, response, async () => void (await pass())));
    const [status, text] = await pass();
    response.writeHead(status, { 'content-type': 'application/json' }).end(text);
  });
  beforeAll(async () => {
    await once(gate.listen(0, '127.0.0.1'), 'listening');
  });
  afterAll(() => {
    gate.close();
    gate.closeAllConnections();
  });
  const through = (more: Partial<ClientOptions> = {}) =>
    clientOf(project, { url: `http://127.0.0.1:${(gate.address() as AddressInfo).port}`, ...more });

  test.each(Object.entries(MISHAPS))('%s, a login counts once, and a read is answered', async (name, mishap) => {
    const behind = through(name === 'no answer in time' ? { timeoutMs: 1_000 } : {});
    const login = email();
    mishaps = [mishap, mishap];
    expect(await behind.logins.record(login)).toMatchObject({ created: true, user: { loginCount: 1 } });
    mishaps = [mishap];
    expect(await behind.users.getByIdentity(login)).toMatchObject({ loginCount: 1 });
    mishaps = [mishap];
    expect((await behind.logins.record(login)).user.loginCount).toBe(2);
    expect(mishaps).toEqual([]);
  });

  test('a page of its own, the error says so', async () => {
    mishaps = [(_request, response) => response.writeHead(404).end('<html>Nothing here.</html>')];
    await expect(through().users.get(1)).rejects.toMatchObject({ code: 'BAD_ANSWER', status: 404 });
  });

  test('a call that is ended, nothing is sent again', async () => {
    const controller = new AbortController();
    mishaps = [() => controller.abort(new Error('Enough.')), () => expect.unreachable()];
    await expect(through().users.get(1, { signal: controller.signal })).rejects.toThrow('Enough.');
    expect(mishaps).toHaveLength(1);
  });
});

describe('changes', () => {
  let proxy: TcpProxy;
  let stop: AbortController;
  beforeEach(async () => {
    proxy = await startProxy({ host: '127.0.0.1', port: Number(new URL(app.url).port) });
    stop = new AbortController();
    return async () => {
      stop.abort();
      await proxy.close();
    };
  });
  const through = () => clientOf(project, { url: `http://127.0.0.1:${proxy.port}` });

  test('are followed through a cut and from the cursor that was saved, each once', async () => {
    const followed: Change[] = [];
    let cursor: string | null = null;
    const begin = () => {
      stop = new AbortController();
      return through().changes.follow({
        after: cursor,
        types: ['USER_CREATED'],
        handle: (change) => followed.push(change),
        save: (saved) => {
          cursor = saved;
        },
        signal: stop.signal,
      });
    };
    const expected: string[] = [];
    const registerAndWait = async (count: number) => {
      for (let n = 0; n < count; n += 1) expected.push((await register()).id);
      await expect.poll(() => followed.map(({ userId }) => userId)).toEqual(expected);
    };
    let following = begin();
    await registerAndWait(3);
    await proxy.cut();
    expected.push((await register()).id);
    await proxy.restore();
    await registerAndWait(2);
    stop.abort();
    await following;
    expected.push((await register()).id);
    following = begin();
    await registerAndWait(1);
    stop.abort();
    await following;
  });

  test('that were not handled come again, and what the handler throws ends it', async () => {
    const first = await register();
    await register();
    const saved: string[] = [];
    const follow = (handle: (change: Change) => void) =>
      client.changes.follow({ after: null, handle, save: (cursor) => saved.push(cursor), signal: stop.signal });
    const failing = follow(({ userId }) => {
      if (userId !== first.id) throw new Error('Not now.');
    });
    await expect(failing).rejects.toThrow('Not now.');
    expect(saved).toHaveLength(1);
    const rest: Change[] = [];
    await client.changes.follow({
      after: saved[0] ?? null,
      handle: (change) => {
        rest.push(change);
        stop.abort();
      },
      save: (cursor) => saved.push(cursor),
      signal: stop.signal,
    });
    // The work that was under way is saved.
    expect(saved[1]).toBe(rest[0]?.id);
  });

  test('whose cursor is none, or has expired, are an error for a follower', async () => {
    const follow = (after: string) => client.changes.follow({ after, handle: () => 0, save: () => 0 });
    await expect(follow('x')).rejects.toMatchObject({ code: 'BAD_USER_INPUT', argument: 'after' });
    await expect(follow(await expiredCursor())).rejects.toMatchObject({ code: 'CURSOR_EXPIRED' });
  });

  /** A cursor of a database before it was restored from an older backup. */
  async function expiredCursor(): Promise<string> {
    const { body } = await project.rest('/changes?after=now');
    const cursor = decodeChangeCursor(body.result.next_cursor) as ChangeCursor;
    return encodeChangeCursor({
      ...cursor,
      timeline: cursor.timeline.replaceAll(/./g, (digit) => (digit === '0' ? '1' : '0')),
    });
  }

  test('are copied from the beginning, with removals and merges, and anew where the cursor has expired', async () => {
    const copy = new Map<string, User>();
    const merged: [string, string][] = [];
    let begun = 0;
    const from = (after: string | null) =>
      through().changes.copy({
        after,
        begin() {
          begun += 1;
          copy.clear();
        },
        put(users) {
          for (const user of users) copy.set(user.id, user);
        },
        remove(removals) {
          for (const { id, mergedInto } of removals) {
            if (mergedInto !== null && copy.has(id)) merged.push([id, mergedInto]);
            if (mergedInto !== null) expect(copy.has(mergedInto)).toBe(true);
            copy.delete(id);
          }
        },
        save: () => undefined,
        signal: stop.signal,
      });
    const isEqual = async () => {
      const users = await collect(client.users.list());
      await vi.waitFor(
        () => expect(Object.fromEntries(copy)).toEqual(Object.fromEntries(users.map((user) => [user.id, user]))),
        20_000,
      );
    };
    const [removed, from1, into, kept] = [await register(), await register(), await register(), await register()];
    const copying = from(await expiredCursor());
    await isEqual();
    await client.users.remove(removed.id);
    await client.users.update(kept.id, { metadata: { plan: 'paid' } });
    await register({}, client);
    await client.users.merge({ from: from1.id, into: into.id });
    await isEqual();
    expect(merged).toEqual([[from1.id, into.id]]);
    await client.users.restore(removed.id);
    await isEqual();
    expect(begun).toBe(1);
    stop.abort();
    await copying;
  });
});
