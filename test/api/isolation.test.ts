import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseIdentity } from '#dist/domain/identities.js';
import { camelCase } from '#dist/domain/spelling.js';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { jsonPost, verify } from '../support/rest.js';

/**
 * Two projects with equal identities and addresses are used concurrently, so that their reads share statements.
 * A model says what each may see. ISOLATION_RUNS is the number of histories; ISOLATION_SEED repeats those of a run.
 */

const RUNS = Number(process.env['ISOLATION_RUNS'] ?? 12);
const SEED = Number(process.env['ISOLATION_SEED'] ?? Date.now() % 2 ** 31);

const app = useTestApp();

const EMAIL = 'ada@example.com';
const ADDRESSES = [1, 2, 3].map(stellarAddress);
/** The users of both projects. The first two share an email, and the auth value of the last is an address. */
const IDENTITIES = [
  { authMethod: 'email', authValue: EMAIL },
  { authMethod: 'google', authValue: EMAIL },
  { authMethod: 'google', authValue: 'grace@example.com' },
  { authMethod: 'passkey', authValue: 'key' },
  { authMethod: 'passkey', authValue: 'Key' },
  { authMethod: 'wallet', authValue: ADDRESSES[0] as string },
] as const;
/** The external ids of the same users in both projects. */
const externalIdOf = (identity: number) => `external-${identity}`;

interface ModelUser {
  readonly identity: number;
  /** The account id for each address. The lowest id shows which user linked an address first. */
  readonly addresses: Map<string, number>;
  logins: number;
  isLive: boolean;
}

/** The expected content of one project, without anything of the other project. */
interface Model {
  readonly project: TestProject;
  readonly users: Map<number, ModelUser>;
  readonly banned: Set<number>;
}

const live = ({ users }: Model) => [...users].filter(([, user]) => user.isLive);
const idsWhere = (model: Model, matches: (user: ModelUser) => boolean) =>
  live(model)
    .flatMap(([id, user]) => (matches(user) ? [id] : []))
    .toSorted((one, other) => one - other);
const idsIn = (users: Json[]): number[] => users.map(({ id }) => Number(id)).toSorted((one, other) => one - other);

const both = fc.constantFrom(0, 1);
const isRest = fc.boolean();
const write = fc.record({
  kind: fc.constantFrom('login', 'login', 'login', 'remove', 'remove foreign', 'ban', 'unban'),
  owner: both,
  identity: fc.nat(IDENTITIES.length - 1),
  addresses: fc.subarray(ADDRESSES),
  isRest,
});
const read = fc.record({
  kind: fc.constantFrom(
    'list',
    'count',
    'email',
    'address',
    'external id',
    'any',
    'bans',
    'get',
    'entities',
    'verify',
    'verify pinned',
    'verify many',
  ),
  owner: both,
  method: fc.constantFrom(null, 'email', 'socials', 'passkey', 'wallet'),
  address: fc.constantFrom(...ADDRESSES),
  /** Selects one of all users that ever existed in either project. */
  target: fc.nat(),
  isRest,
});
type Write = typeof write extends fc.Arbitrary<infer Value> ? Value : never;
type Read = typeof read extends fc.Arbitrary<infer Value> ? Value : never;

/** At most one change per identity in a round, because the order of concurrent changes is unknown. */
const round = fc.record({
  writes: fc.uniqueArray(write, { maxLength: 8, selector: ({ owner, identity }) => `${owner} ${identity}` }),
  reads: fc.array(read, { minLength: 4, maxLength: 20 }),
});

async function login(model: Model, { identity, addresses }: Write, known: ReadonlySet<number>): Promise<void> {
  const accounts = addresses.map((publicKey) => ({ network: 'STELLAR', publicKey }));
  const { data, errors } = await model.project.graphql(
    'mutation ($input: RecordLoginInput!) { recordLogin(input: $input) { created user { id loginCount accounts { id publicKey } } } }',
    { input: { ...IDENTITIES[identity], accounts, externalId: externalIdOf(identity) } },
  );
  if (model.banned.has(identity)) {
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual(['BANNED']);
    return;
  }
  const { created, user } = data.recordLogin;
  const id = Number(user.id);
  const before = live(model).find(([, each]) => each.identity === identity);
  expect([created, before?.[0] ?? id]).toEqual([before === undefined, id]);
  if (created) expect(known.has(id)).toBe(false);
  const { authMethod, authValue } = IDENTITIES[identity] as (typeof IDENTITIES)[number];
  const entry = before?.[1] ?? { identity, addresses: new Map<string, number>(), logins: 0, isLive: true };
  const links = new Map(user.accounts.map((account: Json) => [account.publicKey, Number(account.id)]));
  const expected = new Set([...entry.addresses.keys(), ...(authMethod === 'wallet' ? [authValue] : []), ...addresses]);
  expect(new Set(links.keys())).toEqual(expected);
  expect(Object.fromEntries(links)).toMatchObject(Object.fromEntries(entry.addresses));
  for (const [address, link] of links as Map<string, number>) entry.addresses.set(address, link);
  entry.logins += 1;
  model.users.set(id, entry);
  expect(user.loginCount).toBe(entry.logins);
}

/** True if the user existed. */
async function remove({ project }: Model, id: number, overRest: boolean): Promise<boolean> {
  if (overRest) return (await project.rest(`/server/users/${id}`, { method: 'DELETE' })).status === 200;
  const { data } = await project.graphql('mutation ($id: ID!) { deleteUser(id: $id) { id } }', { id });
  return data !== null;
}

async function change(models: readonly [Model, Model], given: Write, known: ReadonlySet<number>): Promise<void> {
  const model = models[given.owner] as Model;
  const other = models[1 - given.owner] as Model;
  const find = (of: Model) => live(of).find(([, user]) => user.identity === given.identity);
  const { projects, bans } = app.context.services;
  const identity = parseIdentity(IDENTITIES[given.identity] as (typeof IDENTITIES)[number], camelCase);
  switch (given.kind) {
    case 'login':
      return login(model, given, known);
    case 'remove': {
      const own = find(model);
      if (own === undefined) return;
      expect(await remove(model, own[0], given.isRest)).toBe(true);
      own[1].isLive = false;
      return;
    }
    case 'remove foreign': {
      const foreign = find(other);
      if (foreign !== undefined) expect(await remove(model, foreign[0], given.isRest)).toBe(false);
      return;
    }
    case 'ban':
      await bans.ban(await projects.getScope(model.project.appId), identity);
      model.banned.add(given.identity);
      return;
    case 'unban':
      await bans.unbanIdentity(await projects.getScope(model.project.appId), identity);
      model.banned.delete(given.identity);
  }
}

const loginMethodOf = ({ identity }: ModelUser) => {
  const { authMethod } = IDENTITIES[identity] as (typeof IDENTITIES)[number];
  return authMethod === 'google' ? 'socials' : authMethod;
};

/** The user to whom an address belongs: the first who linked it, or only `pinned`. */
function ownerOf(model: Model, address: string, pinned: number | null): number | null {
  const owners = live(model).flatMap(([id, user]) => {
    const link = user.addresses.get(address);
    return link === undefined || (pinned !== null && pinned !== id) ? [] : [{ id, link }];
  });
  return owners.toSorted((one, other) => one.link - other.link)[0]?.id ?? null;
}

/** Sends a request, and returns its answer and the answer that the model expects. */
async function ask(models: readonly [Model, Model], given: Read): Promise<{ answered: unknown; right: unknown }> {
  const model = models[given.owner] as Model;
  const { project } = model;
  const { method, address } = given;
  const query = method === null ? '' : `?login_method=${method}`;
  const filter = method === null ? {} : { loginMethods: [method.toUpperCase()] };
  const byMethod = idsWhere(model, (user) => method === null || loginMethodOf(user) === method);
  const everybody = [...models[0].users.keys(), ...models[1].users.keys()];
  const target = everybody[given.target % Math.max(everybody.length, 1)] ?? 1;
  const targetUser = model.users.get(target);
  const isTargetLive = targetUser?.isLive ?? false;
  switch (given.kind) {
    case 'list': {
      const right = { total: byMethod.length, ids: byMethod };
      if (given.isRest) {
        const { result } = (await project.rest(`/server/users${query}`)).body;
        return { answered: { total: result.total_user, ids: idsIn(result.users) }, right };
      }
      const { data } = await project.graphql(
        'query ($f: UserFilter) { users(filter: $f) { totalCount nodes { id } } }',
        { f: filter },
      );
      return { answered: { total: data.users.totalCount, ids: idsIn(data.users.nodes) }, right };
    }
    case 'count': {
      const answered = given.isRest
        ? (await project.rest(`/server/users/count${query}`)).body.result.total_user
        : (await project.graphql('query ($f: UserFilter) { userCount(filter: $f) }', { f: filter })).data.userCount;
      return { answered, right: byMethod.length };
    }
    case 'email':
    case 'address': {
      const by = given.kind === 'email' ? { email: EMAIL } : { address };
      const right = idsWhere(model, (user) =>
        given.kind === 'email' ? IDENTITIES[user.identity]?.authValue === EMAIL : user.addresses.has(address),
      );
      const users = given.isRest
        ? (await project.rest(`/server/users/search?${new URLSearchParams(by as Record<string, string>)}`)).body.result
            .users
        : (await project.graphql('query ($by: UserSearch!) { searchUsers(by: $by) { id } }', { by })).data.searchUsers;
      return { answered: idsIn(users), right };
    }
    case 'any': {
      const any = given.isRest ? EMAIL : String(target);
      const { data } = await project.graphql('query ($any: String!) { findUser(any: $any) { id } }', { any });
      const byEmail = (user: ModelUser) => IDENTITIES[user.identity]?.authValue === EMAIL;
      const right = given.isRest ? idsWhere(model, byEmail) : isTargetLive ? [target] : [];
      return { answered: idsIn(data.findUser), right };
    }
    case 'bans': {
      const { data } = await project.graphql('{ bans { nodes { authMethod authValue user { id } } } }');
      const userOf = (identity: number) => idsWhere(model, (user) => user.identity === identity)[0];
      const right = [...model.banned].map((identity) => ({
        ...IDENTITIES[identity],
        user: userOf(identity) === undefined ? null : { id: String(userOf(identity)) },
      }));
      const sorted = (bans: Json[]) => bans.map((ban) => JSON.stringify(ban)).toSorted();
      return { answered: sorted(data.bans.nodes), right: sorted(right) };
    }
    case 'external id': {
      const identity = given.target % IDENTITIES.length;
      const { data } = await project.graphql('query ($id: String!) { userByExternalId(externalId: $id) { id } }', {
        id: externalIdOf(identity),
      });
      const found = data.userByExternalId;
      return {
        answered: found && Number(found.id),
        right: idsWhere(model, (user) => user.identity === identity)[0] ?? null,
      };
    }
    case 'get': {
      const right = isTargetLive ? [target, targetUser?.logins] : null;
      if (given.isRest) {
        const { status, body } = await project.rest(`/server/users/${target}`);
        return { answered: status === 404 ? null : [body.result.id, body.result.login_count], right };
      }
      const { user } = (await project.graphql('query ($id: ID!) { user(id: $id) { id loginCount } }', { id: target }))
        .data;
      return { answered: user && [Number(user.id), user.loginCount], right };
    }
    case 'verify many': {
      const wallets = [...ADDRESSES, ...ADDRESSES].map((each, place) => ({
        address: each,
        ...(place >= ADDRESSES.length && { user_id: target }),
      }));
      const right = wallets.map(({ address: each, user_id }) => ownerOf(model, each, user_id ?? null));
      const { result } = (await project.rest('/wallets/verify', jsonPost({ wallets }))).body;
      return { answered: result.verdicts.map((verdict: Json) => verdict.user_id ?? null), right };
    }
    case 'entities': {
      const representations = everybody.slice(0, 100).map((id) => ({ __typename: 'User', id }));
      const query = 'query ($r: [_Any!]!) { _entities(representations: $r) { ... on User { id loginCount } } }';
      const { data } = await project.graphql(query, { r: representations });
      const right = representations.map(({ id }) => {
        const user = model.users.get(id);
        return user?.isLive ? { id: String(id), loginCount: user.logins } : null;
      });
      return { answered: data._entities, right };
    }
    default: {
      const isPinned = given.kind === 'verify pinned';
      const right = ownerOf(model, address, isPinned ? target : null);
      if (given.isRest) {
        const { result } = (await verify(project, { address, ...(isPinned && { user_id: target }) })).body;
        return { answered: result.exists ? result.user_id : null, right };
      }
      const { data } = await project.graphql(
        `query ($address: String!, $id: ID) { verifyWallet(address: $address${isPinned ? ', userId: $id' : ''}) { userId } }`.replace(
          isPinned ? '' : ', $id: ID',
          '',
        ),
        { address, ...(isPinned && { id: target }) },
      );
      const { userId } = data.verifyWallet;
      return { answered: userId === null ? null : Number(userId), right };
    }
  }
}

test(
  `no project can see, count, match or remove data of another (ISOLATION_SEED=${SEED})`,
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(round, { minLength: 3, maxLength: 8 }), async (rounds) => {
        const begin = async (): Promise<Model> => ({
          project: await app.createProject(),
          users: new Map(),
          banned: new Set(),
        });
        const models = [await begin(), await begin()] as const;
        for (const { writes, reads } of rounds) {
          const known = new Set(models.flatMap(({ users }) => [...users.keys()]));
          const whileChanging = models.map(({ project }) => project.rest('/server/users?limit=100'));
          await Promise.all(writes.map((each) => change(models, each, known)));
          // A concurrent list may show any of the changes, but only users of its own project.
          for (const [index, listed] of (await Promise.all(whileChanging)).entries()) {
            for (const id of idsIn(listed.body.result.users)) expect(models[index]?.users.has(id)).toBe(true);
          }
          const answers = await Promise.all(reads.map((each) => ask(models, each)));
          for (const [index, { answered, right }] of answers.entries()) {
            expect({ ...reads[index], answered }).toEqual({ ...reads[index], answered: right });
          }
        }
      }),
      { seed: SEED, numRuns: RUNS },
    );
  },
  60_000 + RUNS * 5_000,
);
