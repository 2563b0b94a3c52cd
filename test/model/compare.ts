import { isDeepStrictEqual } from 'node:util';
import { ofKeptLines } from '#dist/domain/kept-texts.js';
import type { Json } from '../support/app.js';
import { VOCABULARY, type Vocabulary } from './acts.js';
import * as model from './model.js';
import { NOW, type Project, type User } from './model.js';
import type { Service } from './service.js';

/** Compares the service with the model: everything that can be asked. */

const USER = `fragment Whole on User {
  id authMethod authValue loginMethod email wallet externalId metadata createdAt lastLogin loginCount
  identities { authMethod authValue loginMethod email emailVerified createdAt lastLogin isPrimary }
  accounts { network publicKey walletType } ban { reason expiresAt isOfUser createdAt }
}`;

/** What differs, as a person reads it. */
function differences(name: string, answered: Json, right: Json): string[] {
  if (isDeepStrictEqual(answered, right)) return [];
  const areObjects = [answered, right].every((value) => typeof value === 'object' && value !== null);
  if (!areObjects || (Array.isArray(right) && answered.length !== right.length))
    return [`${name}: the service says ${JSON.stringify(answered)}, the model ${JSON.stringify(right)}`];
  return [...new Set([...Object.keys(answered), ...Object.keys(right)])].flatMap((key) =>
    differences(`${name}.${key}`, answered[key], right[key]),
  );
}

export class Difference extends Error {}

export function requireSame(name: string, answered: Json, right: Json): void {
  const found = differences(name, answered, right);
  if (found.length > 0) throw new Difference(found.slice(0, 5).join('\n'));
}

/** A user as GraphQL shows them. */
function shown(project: Project, user: User): Json {
  const primary = model.primaryOf(user);
  return {
    id: user.id,
    authMethod: primary.authMethod,
    authValue: primary.authValue,
    loginMethod: model.loginMethodOf(primary.authMethod),
    email: model.emailOf(user),
    wallet: model.walletOf(user),
    externalId: user.externalId,
    metadata: user.metadata,
    createdAt: user.createdAt,
    lastLogin: user.lastLogin,
    loginCount: user.loginCount,
    identities: user.identities.map(({ place: _, ...identity }, index) => ({
      ...identity,
      loginMethod: model.loginMethodOf(identity.authMethod),
      isPrimary: index === 0,
    })),
    accounts: user.accounts.map(({ place: _, ...account }) => account),
    ban: model.banOf(project, user),
  };
}

/** The same user over REST, under `/server`. */
function shownByRest(user: User): Json {
  const { authMethod, authValue } = model.primaryOf(user);
  return {
    id: Number(user.id),
    auth_method: authMethod,
    auth_value: authValue,
    wallet: model.walletOf(user),
    created_at: user.createdAt,
    last_login: user.lastLogin,
    login_count: user.loginCount,
    accounts: user.accounts.map(({ network, publicKey }) => ({
      network: network.toLowerCase(),
      public_key: publicKey,
    })),
  };
}

/** The same, whole. */
function shownWhole(user: User): Json {
  return {
    ...shownByRest(user),
    email: model.emailOf(user),
    // No act gives another one.
    ...ofKeptLines((field) => (field === 'externalId' ? user.externalId : null)),
    metadata: user.metadata,
    identities: user.identities.map((identity, index) => ({
      auth_method: identity.authMethod,
      auth_value: identity.authValue,
      email: identity.email,
      email_verified: identity.emailVerified,
      created_at: identity.createdAt,
      last_login: identity.lastLogin,
      primary: index === 0,
    })),
  };
}

/** The IDs of accounts are the service's. */
const withoutAccountIds = (user: Json): Json =>
  user && { ...user, accounts: user.accounts.map(({ id: _, ...account }: Json) => account) };

/** Newest first. */
function newestFirst(project: Project): User[] {
  const users = model.current(project);
  return users.toSorted((one, other) =>
    one.createdAt === other.createdAt ? Number(other.id) - Number(one.id) : one.createdAt < other.createdAt ? 1 : -1,
  );
}

const isNew = (user: User) =>
  user.id === null ||
  [user.createdAt, user.lastLogin, ...user.identities.flatMap((each) => [each.createdAt, each.lastLogin])].includes(
    NOW,
  );

/** Reads what only the service can say after an act: the IDs of new users, and instants that are new. */
export async function learn(service: Service, project: Project, since: number): Promise<void> {
  await learnUsers(service, project, since);
  await learnBans(service, project, since);
}

async function learnUsers(service: Service, project: Project, since: number): Promise<void> {
  const unknown = model.current(project).filter(isNew);
  if (unknown.length === 0) return;
  const names = unknown.map((user) => {
    const { authMethod, authValue } = model.primaryOf(user);
    return { authMethod, authValue };
  });
  const { usersByIdentities } = await service.query(
    `query ($names: [IdentityInput!]!) { usersByIdentities(identities: $names) { ...Whole } } ${USER}`,
    { names },
  );
  for (const [index, user] of unknown.entries()) learnUser(user, usersByIdentities[index], since);
}

/** The instant that the service says where the model knows no more than that it is new. */
function instantOf(known: string | null, said: string | null, since: number): string | null {
  if (known !== NOW) return known;
  const at = Date.parse(said ?? '');
  // The database rounds to a millisecond.
  if (!(at >= since - 1 && at <= Date.now() + 1)) throw new Difference(`${said} is not the instant of the act.`);
  return said;
}

async function learnBans(service: Service, project: Project, since: number): Promise<void> {
  const ofUsers = project.users.flatMap(({ ban, state, identities }) =>
    ban?.createdAt === NOW && state !== 'merged' ? [{ ban, names: identities, isOfUser: true }] : [],
  );
  const ofIdentities = project.bans.flatMap((ban) =>
    ban.createdAt === NOW ? [{ ban, names: [ban.identity], isOfUser: false }] : [],
  );
  const unknown = [...ofUsers, ...ofIdentities];
  if (unknown.length === 0) return;
  const listed = await walkBans(service, 100);
  for (const { ban, names, isOfUser } of unknown) {
    const rows = listed.filter((row) => row.isOfUser === isOfUser && names.some((name) => model.isSame(name, row)));
    // The newest, because an identity may also have the ban of a removed user.
    ban.createdAt = instantOf(NOW, rows[0]?.createdAt ?? null, since) as string;
  }
}

function learnUser(user: User, answered: Json, since: number): void {
  if (answered === null) throw new Difference(`No user has the identity ${JSON.stringify(user.identities[0])}.`);
  user.id ??= answered.id;
  const instant = (known: string | null, said: string | null) => instantOf(known, said, since);
  user.createdAt = instant(user.createdAt, answered.createdAt) as string;
  user.lastLogin = instant(user.lastLogin, answered.lastLogin);
  for (const identity of user.identities) {
    const said = answered.identities.find((each: Json) => model.isSame(each, identity));
    if (said === undefined) throw new Difference(`User ${user.id} is without ${JSON.stringify(identity)}.`);
    identity.createdAt = instant(identity.createdAt, said.createdAt) as string;
    identity.lastLogin = instant(identity.lastLogin, said.lastLogin);
  }
}

/** The pages of a list, one after the other. */
async function walk(service: Service, direction: 'first' | 'last', size: number, filter: Json): Promise<Json[]> {
  const [by, end, more] =
    direction === 'first' ? ['after', 'endCursor', 'hasNextPage'] : ['before', 'startCursor', 'hasPreviousPage'];
  const document = `query ($size: Int!, $cursor: String, $filter: UserFilter) { users(${direction}: $size, ${by}: $cursor, filter: $filter) {
    nodes { ...Whole } pageInfo { endCursor startCursor hasNextPage hasPreviousPage }
  } } ${USER}`;
  const found: Json[] = [];
  for (let cursor: string | null = null, goesOn = true; goesOn; ) {
    const { users }: Json = await service.query(document, { size, cursor, filter });
    if (direction === 'first') found.push(...users.nodes);
    else found.unshift(...users.nodes);
    cursor = users.pageInfo[end as string];
    goesOn = users.pageInfo[more as string];
  }
  return found;
}

const METHODS = ['EMAIL', 'PASSKEY', 'SOCIALS', 'WALLET'] as const;

async function compareLists(service: Service, project: Project): Promise<void> {
  const right = newestFirst(project).map((user) => shown(project, user));
  requireSame('users, forwards', await walk(service, 'first', 3, null), right);
  requireSame('users, backwards', await walk(service, 'last', 2, null), right);
  const banned = right.filter(({ ban }) => ban !== null);
  requireSame('users who are banned', await walk(service, 'first', 3, { banned: true }), banned);
  const counts = METHODS.map((method) => `${method}: userCount(filter: { loginMethods: [${method}] })`);
  const since = right[Math.floor(right.length / 2)]?.createdAt ?? '2026-01-01';
  const totals = await service.query(
    `query ($since: String!) { ${counts.join(' ')} all: userCount since: userCount(filter: { startDate: $since })
      users(first: 1) { totalCount } userPage(limit: 2, page: 2) { totalUser users { id } } }`,
    { since },
  );
  const ids = right.map(({ id }) => id);
  requireSame('totals', totals, {
    ...Object.fromEntries(
      METHODS.map((method) => [method, right.filter(({ loginMethod }) => loginMethod === method).length]),
    ),
    all: right.length,
    since: right.filter(({ createdAt }) => createdAt >= since).length,
    users: { totalCount: right.length },
    userPage: { totalUser: right.length, users: ids.slice(2, 4).map((id) => ({ id })) },
  });
}

async function compareRest(service: Service, project: Project): Promise<void> {
  const users = newestFirst(project);
  const listed = await service.get('/server/users?limit=100');
  requireSame('GET /server/users', listed.users.map(withoutAccountIds), users.map(shownByRest));
  requireSame('total_user', listed.total_user, users.length);
  const ids = users.map(({ id }) => id).join();
  if (ids === '') return;
  const copies = await service.get(`/users?ids=${ids}`);
  const byId = Object.fromEntries(copies.users.map((user: Json) => [user.id, withoutAccountIds(user)]));
  requireSame('GET /users', byId, Object.fromEntries(users.map((user) => [user.id, shownWhole(user)])));
}

const findsEmail = (user: User, email: string) =>
  model.emailOf(user) === email || user.identities.some((identity) => identity.email === email);
const findsAddress = (user: User, address: string) =>
  user.accounts.some(({ publicKey }) => model.isSameAddress(publicKey, address));

async function compareLookUps(service: Service, project: Project, asked: Vocabulary): Promise<void> {
  const users = newestFirst(project);
  const { emails, addresses, externalIds, identities } = asked;
  const idOf = (user: User | undefined) => (user === undefined ? null : { id: user.id });
  const idsOf = (matches: (user: User) => boolean) => users.filter(matches).map(({ id }) => ({ id }));
  const everybody = project.users.flatMap(({ id }) => id ?? []);
  const byAddress = addresses.map((address, n) => `a${n}: searchUsers(by: { address: "${address}" }) { id }`);
  const verified = users.flatMap(({ id }) => addresses.map((address) => ({ address, userId: id })));
  const answer = await service.query(
    `query ($ids: [ID!]!, $identities: [IdentityInput!]!, $externalIds: [String!]!, $emails: [String!]!, $wallets: [WalletInput!]!) {
      usersByIds(ids: $ids) { id } usersByIdentities(identities: $identities) { id }
      usersByExternalIds(externalIds: $externalIds) { id } usersByEmails(emails: $emails) { id }
      verifyWallets(inputs: $wallets) { verdict } ${byAddress.join(' ')}
    }`,
    { ids: everybody, identities, externalIds, emails, wallets: verified },
  );
  requireSame('look-ups', answer, {
    usersByIds: everybody.map((id) => idOf(users.find((user) => user.id === id))),
    usersByIdentities: identities.map((name) => idOf(model.findByIdentity(project, name))),
    usersByExternalIds: externalIds.map((id) => idOf(model.findByExternalId(project, id))),
    usersByEmails: emails.map((email) => idsOf((user) => findsEmail(user, email))),
    verifyWallets: verified.map(({ address, userId }) => ({
      verdict: findsAddress(users.find(({ id }) => id === userId) as User, address) ? 'VERIFIED' : 'NOT_OWNED',
    })),
    ...Object.fromEntries(addresses.map((address, n) => [`a${n}`, idsOf((user) => findsAddress(user, address))])),
  });
}

/** The pages of the list of bans, newest first, one after the other. */
async function walkBans(service: Service, size: number): Promise<Json[]> {
  const document = `query ($size: Int!, $after: String) { bans(first: $size, after: $after) {
    nodes { authMethod authValue reason expiresAt createdAt isOfUser user { id } } pageInfo { endCursor hasNextPage }
  } }`;
  const found: Json[] = [];
  for (let after: string | null = null, goesOn = true; goesOn; ) {
    const { bans }: Json = await service.query(document, { size, after });
    found.push(...bans.nodes);
    after = bans.pageInfo.endCursor;
    goesOn = bans.pageInfo.hasNextPage;
  }
  return found;
}

/** Bans of one instant have no order that the model knows. */
const inOrder = (bans: readonly Json[]) =>
  bans
    .map((ban) => ({ text: JSON.stringify(Object.entries(ban).toSorted()), ban }))
    .toSorted((one, other) => (one.text < other.text ? -1 : 1))
    .map(({ ban }) => ban);

async function compareBans(service: Service, project: Project): Promise<void> {
  const newest = await walkBans(service, 2);
  const instants = newest.map(({ createdAt }) => createdAt);
  requireSame('the order of bans', instants, instants.toSorted().reverse());
  const right = model.listedBans(project).map((ban) => ({
    ...ban,
    user: model.findByIdentity(project, ban) === undefined ? null : { id: model.findByIdentity(project, ban)?.id },
  }));
  requireSame('bans', inOrder(newest), inOrder(right));
  const nameOf = ({ authMethod, authValue, isOfUser }: Json) => `${authMethod} ${authValue} ${isOfUser}`;
  const oldest = await service.listBans(3);
  requireSame('bans, oldest first', oldest.map(nameOf), newest.map(nameOf).reverse());
}

/** `asked` is what is looked up. */
export async function compare(
  service: Service,
  project: Project,
  asked: readonly Vocabulary[] = [VOCABULARY],
): Promise<void> {
  await Promise.all([
    compareLists(service, project),
    compareRest(service, project),
    ...asked.map((each) => compareLookUps(service, project, each)),
    compareBans(service, project),
  ]);
}

/** A copy of the users, kept by the feed alone. */
export interface Copy {
  cursor: string | null;
  readonly users: Map<string, Json>;
}

/** `lastLogin` and `loginCount` are as of the last change. */
function copied({ lastLogin: _, loginCount: __, ...user }: Json): Json {
  return { ...user, identities: user.identities.map(({ lastLogin: ___, ...identity }: Json) => identity) };
}

/** Reads the changes since the last time, and the users whom they name. Returns the types of the changes. */
export async function follow(service: Service, copy: Copy): Promise<string[]> {
  const types: string[] = [];
  const named = new Set<string>();
  for (let goesOn = true; goesOn; ) {
    const { changes }: Json = await service.query(
      'query ($after: String) { changes(first: 1000, after: $after) { nodes { type userId } pageInfo { endCursor hasNextPage } } }',
      { after: copy.cursor },
    );
    for (const { type, userId } of changes.nodes) {
      types.push(type);
      if (userId !== null) named.add(userId);
    }
    copy.cursor = changes.pageInfo.endCursor;
    goesOn = changes.pageInfo.hasNextPage;
  }
  const ids = [...named];
  if (ids.length === 0) return types;
  const { usersByIds } = await service.query(`query ($ids: [ID!]!) { usersByIds(ids: $ids) { ...Whole } } ${USER}`, {
    ids,
  });
  for (const [index, id] of ids.entries()) {
    if (usersByIds[index] === null) copy.users.delete(id);
    else copy.users.set(id, copied(usersByIds[index]));
  }
  return types;
}

export function compareCopy(copy: Copy, project: Project): void {
  const right = model.current(project).map((user) => [user.id, copied(shown(project, user))]);
  requireSame('the copy by the feed', Object.fromEntries(copy.users), Object.fromEntries(right));
}
