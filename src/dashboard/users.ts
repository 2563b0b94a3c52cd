import { cursor, encodeCursor, type Position, readFilter, userFilter } from '../domain/filters.js';
import { camelCase, parseIdentity } from '../domain/identities.js';
import { KEPT_TEXTS, ofKeptTexts } from '../domain/kept-texts.js';
import { parse, userId } from '../domain/parse.js';
import type { OpenProject } from '../domain/projects.js';
import { ofStateFilters, STATE_FILTER_NAMES, type StateFilterRow } from '../domain/state-filters.js';
import { SYSTEM_NAMES, SYSTEM_TITLES } from '../domain/systems.js';
import type { Account, BanOfUser, User, UserDetails } from '../domain/users.js';
import { checksumAddress, parseAddress } from '../domain/wallets.js';
import { costs } from '../engine/cost.js';
import { badInput } from '../errors.js';
import { instantOrNull, orNull, required, withDefault } from '../graphql/shared.js';
import { builder, loginMethodEnum, networkEnum, WHOLE_COST, walletTypeEnum } from './builder.js';
import { connectionType, DEFAULT_PAGE, readLimit } from './paging.js';
import { projectType } from './projects.js';

/** A user with the project to which they belong, for the fields that ask for more. */
interface ProjectUser extends User {
  readonly project: OpenProject;
  /** Known of a user who was looked up; a user in a list is current. */
  readonly removedAt?: string | null;
  readonly mergedInto?: number | null;
  /** Known of a user who was looked up. */
  readonly ban?: BanOfUser | null;
}

export const within =
  (project: OpenProject) =>
  (user: User | UserDetails): ProjectUser => ({ ...user, project });

const banOfUserType = builder.objectRef<BanOfUser>('BanOfUser').implement({
  description: 'The ban of a user or of an identity.',
  fields: (t) => ({
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When the ban began.' }),
    authMethod: t.exposeString('authMethod', {
      description: 'The method of the identity; of a user, of the primary one.',
    }),
    authValue: t.exposeString('authValue', { description: 'The value of that identity.' }),
    isOfUser: t.exposeBoolean('isOfUser', {
      description:
        'True for the ban of a user, which covers each of their identities; false for the ban of one identity.',
    }),
    reason: t.exposeString('reason', orNull('Why; null where no reason was given.')),
    expiresAt: t.expose(
      'expiresAt',
      instantOrNull('When the ban ends by itself; null where it stays until it is lifted.'),
    ),
  }),
});

export const userType = builder.objectRef<ProjectUser>('User').implement({
  description: 'A user of a project: a current one, or one who was removed and is not erased yet.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'The user ID.' }),
    authMethod: t.exposeString('authMethod', {
      description: 'How the user authenticates: `email`, `passkey`, `wallet`, or the name of a social provider.',
    }),
    authValue: t.exposeString('authValue', { description: 'The identifier of the user under `authMethod`.' }),
    loginMethod: t.expose('loginMethod', { type: loginMethodEnum, description: 'The kind of login.' }),
    email: t.exposeString(
      'loginEmail',
      orNull('The login email in the form in which it is compared; null where none is known.'),
    ),
    wallet: t.exposeString('wallet', orNull('The wallet used to log in; null without one.')),
    ...ofKeptTexts((field) => t.exposeString(field, orNull(`${KEPT_TEXTS[field].meaning}; null if none.`))),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When the user registered.' }),
    lastLogin: t.expose('lastLogin', instantOrNull('The most recent login; null when none was recorded.')),
    loginCount: t.exposeInt('loginCount', { description: 'The number of logins recorded.' }),
    removedAt: t.field({
      type: 'DateTime',
      nullable: true,
      description: 'When the user was removed; null for a current user.',
      resolve: ({ removedAt = null }) => removedAt,
    }),
    ban: t.field({
      type: banOfUserType,
      nullable: true,
      description:
        'The ban of the user or else, of those of their identities, the one that ends last; null where none is banned.',
      resolve: ({ id, project, ban }, _args, { services }) =>
        ban === undefined ? services.bans.banOfUser(project.scope, id) : ban,
    }),
    accounts: t.field({
      type: [accountType],
      description: 'The accounts linked to the user, oldest first.',
      resolve: ({ id, accounts, project }, _args, { services }) =>
        accounts ?? services.accounts.listAccounts(project.scope, id),
    }),
  }),
});

const accountType = builder.objectRef<Account>('Account').implement({
  description: 'A blockchain account linked to a user.',
  fields: (t) => ({
    id: t.exposeID('id', { description: 'The account ID.' }),
    network: t.expose('network', { type: networkEnum, description: 'The network of the account.' }),
    publicKey: t.exposeString('publicKey', { description: 'The address, spelled as it was registered.' }),
    checksummed: t.string({
      description: 'The address with its checksum: for Ethereum in the case of EIP-55, for Stellar as it is.',
      resolve: ({ publicKey }) => checksummed(publicKey),
    }),
    walletType: t.expose('walletType', { type: walletTypeEnum, description: 'Who holds the private key.' }),
  }),
});

function checksummed(publicKey: string): string {
  const address = parseAddress(publicKey);
  return 'reason' in address || address.network !== 'ethereum' ? publicKey : checksumAddress(address.key);
}

export const filterInput = builder.inputType('UserFilter', {
  description: 'Selects users who meet every condition given. A field that is absent or null is no condition.',
  fields: (t) => ({
    startDate: t.string({ description: 'Created on or after this: a date (`2026-01-31`) or an RFC 3339 date-time.' }),
    endDate: t.string({ description: 'Created on or before this: a date (`2026-01-31`) or an RFC 3339 date-time.' }),
    loginMethods: t.field({
      type: [loginMethodEnum],
      description: 'With one of these kinds of login. An empty list is refused.',
    }),
  }),
});

const described = ({ selects }: StateFilterRow) => ({ description: `${selects}.` });

const stateInput = builder.inputType('UserState', {
  description: 'Selects users by what no index has. A field that is absent or null is no condition.',
  fields: (t) =>
    ofStateFilters(STATE_FILTER_NAMES, {
      boolean: (row) => t.boolean(described(row)),
      instant: (row) => t.string(described(row)),
      methods: (row) => t.stringList(described(row)),
      text: (row) => t.string(described(row)),
    }),
});

/** The most that one page of `scanUsers` looks at: so many windows of so many users. After so long it begins no other window. */
const SCAN = { windows: 10, users: 500, ms: 2_000 };
/** It is paid for before the first window. As in the public schema, two users who are looked at cost 1. */
const SCAN_COST = (SCAN.windows * SCAN.users) / 2;

const userScanType = builder.objectRef<{ users: ProjectUser[]; end: Position | null }>('UserScan').implement({
  description: 'Those whose state matches among some users, who were looked at one by one.',
  fields: (t) => ({
    nodes: t.field({ type: [userType], description: 'The users who match.', resolve: ({ users }) => users }),
    endCursor: t.string({
      nullable: true,
      description: 'Where it ended, for `after`; null where it has looked at all users.',
      resolve: ({ end }) => end && encodeCursor(end),
    }),
  }),
});

const removedConnectionType = connectionType<ProjectUser & { at: string }>('RemovedUserConnection', userType, {
  description: 'A page of removed users, by the time of their removal.',
});

const filterArgument = { type: filterInput, description: 'Which users; without it, all.' } as const;
const afterArgument = cursor('after', 'users');
const idArgument = userId('id');

builder.objectFields(projectType, (t) => ({
  userCount: t.int({
    description: 'The exact number of its current users.',
    resolve: ({ scope }, _args, { services }) => services.users.countUsers(scope, userFilter({})),
  }),
  removedUserCount: t.int({
    description: 'How many users were removed longer ago than a time, and are not erased yet. Needs ADMIN.',
    args: { olderThanSeconds: t.arg.float(required('The time.')) },
    extensions: costs({ surcharge: WHOLE_COST }),
    resolve: ({ scope }, { olderThanSeconds }, { services }) =>
      services.users.countRemoved(scope, olderThanSeconds * 1_000),
  }),
  user: t.field({
    type: userType,
    nullable: true,
    description: 'A user by ID, also one who was removed and is not erased yet; null if there is none.',
    args: { id: t.arg.id(required('The user ID.')) },
    resolve: async (project, { id }, { services }) => {
      const user = await services.users.describeUser(project.scope, parse(idArgument, id));
      return user && within(project)(user);
    },
  }),
  scanUsers: t.field({
    type: userScanType,
    description:
      'Users by their state. No index has it, so one page looks at 5,000 users at most, for about two seconds at most: it may have fewer than asked, even none, although there are more.',
    extensions: costs({ surcharge: SCAN_COST }),
    args: {
      filter: t.arg(filterArgument),
      state: t.arg({ type: stateInput, ...required('Their state: at least one condition.') }),
      oldestFirst: t.arg.boolean(withDefault(false, 'The oldest users first instead of the newest.')),
      first: t.arg.int(withDefault(DEFAULT_PAGE, 'At most how many, 1 to 100.')),
      after: t.arg.string({ description: 'A cursor: only those after it in this order.' }),
    },
    resolve: async (project, { filter, state: given, oldestFirst, first, after }, { services, isAwaited }) => {
      if (Object.values(given).every((condition) => condition == null))
        throw badInput('state', given, 'at least one condition');
      // Some of the methods are kinds, which an index has.
      const { counted: selected, state } = readFilter({ ...filter, ...given });
      const limit = readLimit('first', first);
      let end = after == null ? null : parse(afterArgument, after);
      const users: User[] = [];
      const endsAt = performance.now() + SCAN.ms;
      const goesOn = () => users.length < limit && performance.now() < endsAt && isAwaited();
      for (let windows = 0; windows < SCAN.windows && goesOn(); windows += 1) {
        const found = await services.users.scanWindow(project.scope, selected, state, {
          ...(oldestFirst
            ? { after: null, before: end, from: 'oldest' }
            : { after: end, before: null, from: 'newest' }),
          limit: limit - users.length,
          scanned: SCAN.users,
          withAccounts: false,
        });
        users.push(...(oldestFirst ? found.users.toReversed() : found.users));
        end = found.hasMore ? found.end : null;
        if (end === null) break;
      }
      return { users: users.map(within(project)), end };
    },
  }),
  removedUsers: t.field({
    type: removedConnectionType,
    description: 'The users who were removed and are not erased yet, the last removed first.',
    args: {
      oldestFirst: t.arg.boolean(withDefault(false, 'The first removed first instead.')),
      first: t.arg.int(withDefault(50, 'How many, 1 to 100.')),
      after: t.arg.string({ description: 'A cursor: only those after it in this order.' }),
    },
    resolve: async (project, { oldestFirst, first, after }, { services }) => {
      const { users, next } = await services.users.listRemoved(project.scope, {
        after: after ?? null,
        limit: readLimit('first', first),
        order: oldestFirst ? 'oldest first' : 'newest first',
      });
      const nodes = users.map((user) => ({ ...within(project)(user), at: user.removedAt }));
      return { nodes, hasNextPage: next !== null, hasPreviousPage: after != null };
    },
  }),
  usersByIdentity: t.field({
    type: [userType],
    description: 'The user who logs in with an identity: none or one.',
    args: {
      authMethod: t.arg.string(required('The method: `email`, `passkey`, `wallet`, or the name of a provider.')),
      authValue: t.arg.string(required('The login email, the address, or the ID at the provider or of the passkey.')),
      removed: t.arg.boolean(withDefault(false, 'At most 100 removed users who had it, newest first, instead.')),
    },
    resolve: async (project, { removed, ...given }, { services }) =>
      (await services.users.searchIdentity(project.scope, parseIdentity(given, camelCase), removed)).map(
        within(project),
      ),
  }),
  findUsers: t.field({
    type: [userType],
    description:
      'The users whom a text means, newest first: a user ID (also of a removed user), a login email, an address, or else the value of an identity under any method; and in any case an external ID.',
    args: {
      any: t.arg.string(required('What is known of the user.')),
      removed: t.arg.boolean(withDefault(false, 'At most 100 removed users instead of current ones.')),
    },
    resolve: async (project, { any, removed }, { services }) =>
      (await services.users.searchAny(project.scope, any, removed)).map(within(project)),
  }),
}));

const importSystemType = builder
  .objectRef<{ readonly name: string; readonly title: string }>('ImportSystem')
  .implement({
    description: 'A system whose files an import reads.',
    fields: (t) => ({
      name: t.exposeString('name', { description: 'The name of the system, as in `from` of an import.' }),
      title: t.exposeString('title', { description: 'The system as it is called.' }),
    }),
  });

builder.queryField('importSystems', (t) =>
  t.field({
    type: [importSystemType],
    description: 'The systems whose files an import reads, beside NDJSON of this service and any table (`csv`).',
    resolve: () => SYSTEM_NAMES.map((name) => ({ name, title: SYSTEM_TITLES[name] })),
  }),
);
