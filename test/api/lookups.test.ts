import { beforeAll, describe, expect, test } from 'vitest';
import { parseIdentity } from '#dist/domain/identities.js';
import type { ProjectScope } from '#dist/domain/projects.js';
import { snakeCase } from '#dist/domain/spelling.js';
import { ethereumAddress, stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { explained } from '../support/graphql.js';

/** How an operator finds users and bans. */

const app = useTestApp();
let project: TestProject;
let scope: ProjectScope;
beforeAll(async () => {
  project = await app.createProject();
  scope = await app.context.services.projects.getScope(project.appId);
});
const identity = (authMethod: string, authValue: string) => parseIdentity({ authMethod, authValue }, snakeCase);

describe('searchAny', () => {
  const names = async (text: string, removed = false) =>
    (await app.context.services.users.searchAny(scope, text, removed)).map(({ authValue }) => authValue);
  const ids: Record<string, number> = {};
  beforeAll(async () => {
    const other = await app.createProject();
    const users = [
      { auth_method: 'email', auth_value: 'Ada@example.com' },
      { auth_method: 'google', auth_value: '1234', email: 'ada@example.com' },
      { auth_method: 'passkey', auth_value: 'cGFzc2tleQ' },
      { auth_method: 'github', auth_value: 'cGFzc2tleQ', email: 'grace@example.com' },
      { auth_method: 'wallet', auth_value: ethereumAddress(1) },
      {
        auth_method: 'apple',
        auth_value: 'a.1',
        accounts: [{ network: 'stellar', public_key: stellarAddress(1) }],
      },
    ].map((user, n) => ({ ...user, created_at: `2026-01-0${n + 1}T00:00:00Z` }));
    await other.addUsers(...users);
    await project.addUsers(...users);
    const { body } = await project.rest('/server/users');
    for (const { id, auth_method } of body.result.users) ids[auth_method] = id;
  });

  test.each<[what: string, text: () => string, found: string[]]>([
    ['a user id', () => `${ids['apple']}`, ['a.1']],
    ['a user id of another project', () => `${(ids['email'] ?? 0) - 1}`, []],
    ['an email', () => ' ADA@example.com', ['1234', 'Ada@example.com']],
    ['an address in another case', () => ethereumAddress(1).toUpperCase().replace('X', 'x'), [ethereumAddress(1)]],
    ['the address of an account', () => stellarAddress(1), ['a.1']],
    ['a passkey, and whatever else has its value', () => 'cGFzc2tleQ', ['cGFzc2tleQ', 'cGFzc2tleQ']],
    ['an ID of digits at a provider', () => '1234', ['1234']],
    ['an email of nobody', () => 'nobody@example.com', []],
    ['a value of nobody', () => 'CGFZC2TLEQ', []],
  ])('finds %s', async (_what, text, found) => {
    expect(await names(text())).toEqual(found);
  });

  test('refuses what no identity can be', async () => {
    for (const text of ['', ' ', 'a\u0000b', 'x'.repeat(1_501)])
      await expect(names(text)).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
  });

  test('finds an identity by its method and value', async () => {
    const { users } = app.context.services;
    expect(await users.findIdentity(scope, identity('passkey', 'cGFzc2tleQ'))).toMatchObject({
      id: ids['passkey'],
      accounts: [],
    });
    expect(await users.findIdentity(scope, identity('passkey', '1234'))).toBeNull();
  });

  test('tells who is removed and who is banned', async () => {
    const { users, bans } = app.context.services;
    await project.addUsers({ auth_method: 'email', auth_value: 'eve@example.com', login_count: 2 });
    const [eve] = await users.searchAny(scope, 'eve@example.com');
    await bans.ban(scope, identity('email', 'EVE@example.com'));
    const ban = {
      authMethod: 'email',
      authValue: 'EVE@example.com',
      createdAt: expect.any(String),
      reason: null,
      expiresAt: null,
      isOfUser: false,
    };
    const banned = { ...eve, ban };
    expect(await users.searchAny(scope, 'eve@example.com')).toEqual([banned]);
    await project.rest(`/server/users/${eve?.id}`, { method: 'DELETE' });
    const removed = { ...banned, removedAt: expect.any(String) };
    expect(await users.describeUser(scope, BigInt(eve?.id ?? 0))).toEqual(removed);
    expect(await users.searchAny(scope, `${eve?.id}`)).toEqual([removed]);
    expect(await users.searchAny(scope, 'eve@example.com')).toEqual([]);
    expect(await users.searchAny(scope, 'eve@example.com', true)).toEqual([removed]);
    expect(await users.findRemovedByIdentity(scope, identity('email', 'eve@example.com'))).toEqual([removed]);
    expect(await names('ada@example.com', true)).toEqual([]);
    expect(await users.describeUser(scope, 2n ** 80n)).toBe(null);
  });
});

describe('findUser', () => {
  const find = async (any: string, of = mine) => {
    const { data, errors } = await of.graphql(
      'query ($any: String!) { findUser(any: $any) { id authValue accounts { publicKey } } }',
      {
        any,
      },
    );
    expect(errors).toBeUndefined();
    return data.findUser;
  };
  let mine: TestProject;
  let ids: Record<string, string>;
  beforeAll(async () => {
    mine = await app.createProject();
    const users = [
      { auth_method: 'email', auth_value: 'Ada@example.com' },
      { auth_method: 'google', auth_value: '1234', email: 'ada@example.com', external_id: 'Customer 7' },
      { auth_method: 'wallet', auth_value: ethereumAddress(1), external_id: 'ada@example.com' },
      { auth_method: 'apple', auth_value: 'a.1', accounts: [{ network: 'stellar', public_key: stellarAddress(1) }] },
    ].map((user, n) => ({ ...user, created_at: `2026-01-0${n + 1}T00:00:00Z` }));
    await (await app.createProject()).addUsers(...users);
    await mine.addUsers(...users);
    const { data } = await mine.graphql('{ users { nodes { id authValue } } }');
    ids = Object.fromEntries(data.users.nodes.map(({ id, authValue }: Record<string, string>) => [authValue, id]));
  });

  test.each<[what: string, text: () => string, found: string[]]>([
    ['an id', () => ` ${ids['a.1']} `, ['a.1']],
    ['an id of another project', () => `${Number(ids['Ada@example.com']) - 1}`, []],
    [
      'an email, which is also an external id',
      () => 'ada@example.com',
      [ethereumAddress(1), '1234', 'Ada@example.com'],
    ],
    ['an email in another case', () => 'ADA@example.com ', ['1234', 'Ada@example.com']],
    ['an address', () => stellarAddress(1), ['a.1']],
    ['an external id', () => 'Customer 7', ['1234']],
    ['an external id in another case', () => 'customer 7', []],
    ['the value of an identity, which it does not look up', () => '1234', []],
    ['an id that no user has', () => '99999999999999999999', []],
  ])('finds %s', async (_what, text, found) => {
    expect((await find(text())).map(({ authValue }: { authValue: string }) => authValue)).toEqual(found);
  });

  test('gives accounts, and no removed user', async () => {
    expect(await find(ids['a.1'] as string)).toMatchObject([{ accounts: [{ publicKey: stellarAddress(1) }] }]);
    await mine.addUsers({ auth_method: 'google', auth_value: 'gone', external_id: 'gone' });
    const [{ id }] = await find('gone');
    await mine.rest(`/server/users/${id}`, { method: 'DELETE' });
    for (const text of [id, 'gone']) expect(await find(text)).toEqual([]);
  });

  test('refuses what can be none of them', async () => {
    for (const any of ['', ' ', 'a\u0000b', 'x'.repeat(256), 'x'.repeat(1_501)]) {
      const { errors } = await mine.graphql('query ($any: String!) { findUser(any: $any) { id } }', { any });
      expect(errors?.[0]?.extensions).toEqual({ ...explained('BAD_USER_INPUT'), argument: 'any' });
    }
  });
});

describe('listBans', () => {
  let banScope: ProjectScope;
  const list = (page: object) => app.context.services.bans.listBans(banScope, { limit: 10, ...page });
  const values = ({ bans }: { bans: { authValue: string }[] }) => bans.map(({ authValue }) => authValue);
  beforeAll(async () => {
    const { projects, bans } = app.context.services;
    banScope = await projects.getScope((await app.createProject()).appId);
    await bans.ban(scope, identity('email', 'x25@example.com'));
    for (let n = 0; n < 25; n += 1) await bans.ban(banScope, identity('google', `Näme-${n}`));
    await bans.ban(banScope, identity('email', 'Mallory@Example.com'));
  });

  test.each(['newest first', 'oldest first'] as const)('shows each ban once, %s', async (order) => {
    const walked: string[] = [];
    let after: string | null = null;
    let pages = 0;
    do {
      const page = await list({ order, after });
      walked.push(...values(page));
      after = page.next;
      pages += 1;
    } while (after !== null);
    const expected = [...Array.from({ length: 25 }, (_, n) => `Näme-${n}`), 'Mallory@Example.com'];
    expect(walked).toEqual(order === 'newest first' ? expected.reverse() : expected);
    expect(pages).toBe(3);
  });

  test('is searched by a part of a value, whatever its case', async () => {
    expect(values(await list({ search: 'MALLORY@' }))).toEqual(['Mallory@Example.com']);
    expect(values(await list({ search: ' Näme-24' }))).toEqual(['Näme-24']);
    expect(values(await list({ search: '%' }))).toEqual([]);
    const page = await list({ search: 'me-2', limit: 4 });
    expect(values(page)).toEqual(['Näme-24', 'Näme-23', 'Näme-22', 'Näme-21']);
    expect(values(await list({ search: 'me-2', limit: 4, after: page.next }))).toEqual(['Näme-20', 'Näme-2']);
  });

  test('refuses a cursor that is none and a search that is too long', async () => {
    await expect(list({ after: 'x' })).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
    await expect(list({ search: 'x'.repeat(1_501) })).rejects.toMatchObject({ code: 'BAD_USER_INPUT' });
  });
});
