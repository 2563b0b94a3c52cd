import type { GraphQLResolveInfo, SelectionSetNode } from 'graphql';
import { AppError, badInput } from '../errors.js';
import { requireAddress } from '../services/addresses.js';
import {
  cursor,
  dateBound,
  encodeCursor,
  PAGE_SIZE,
  parse,
  type UserFilter,
  userFilter,
  userId,
} from '../services/filters.js';
import { requireEmail } from '../services/identities.js';
import type { User } from '../services/users.js';
import { accountType } from './accounts.js';
import { builder, loginMethodEnum } from './builder.js';

const MAX_IDS = 100;
const firstId = userId('id');
const cursors = { after: cursor('after'), before: cursor('before') };
const dates = { startDate: dateBound('startDate', 'first').nullish(), endDate: dateBound('endDate', 'last').nullish() };

export const userType = builder.prismaObject('User', {
  description: 'A current user of the project: one who has registered and has not been removed.',
  fields: (t) => ({
    id: t.id({
      description: 'The user ID: the integer of the REST interface, as an ID.',
      resolve: (user) => String(user.id),
    }),
    authMethod: t.exposeString('authMethod', {
      description: 'How the user authenticates: `email`, `passkey`, `wallet`, or the name of a social provider.',
    }),
    loginMethod: t.expose('loginMethod', {
      type: loginMethodEnum,
      description: 'The group of authentication methods to which `authMethod` belongs, as filters name it.',
    }),
    authValue: t.exposeString('authValue', {
      description: 'Who the user is to that method; for an email login the login email, as it was registered.',
    }),
    wallet: t.exposeString('wallet', {
      nullable: true,
      description: 'The external address used to log in; null where there is none.',
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When the user registered.' }),
    lastLogin: t.expose('lastLogin', {
      type: 'DateTime',
      nullable: true,
      description: 'The most recent login; null for a user who has never logged in.',
    }),
    loginCount: t.exposeInt('loginCount', { description: 'How many logins were recorded.' }),
    accounts: t.field({
      type: [accountType],
      description:
        'The public accounts linked to the user, oldest first: custodial ones, and an external login wallet.',
      resolve: (user, _args, { scope, services }) => services.accounts.listAccounts(scope, user.id),
    }),
  }),
});

const filterInput = builder.inputType('UserFilter', {
  description: 'Which users; what is absent does not restrict. The rules are those of the REST parameters.',
  fields: (t) => ({
    startDate: t.string({
      description: 'Users created on or after this: a UTC date (`2026-01-31`) or an RFC 3339 date-time.',
    }),
    endDate: t.string({
      description: 'Users created on or before this: a UTC date, through its last instant, or an RFC 3339 date-time.',
    }),
    loginMethods: t.field({
      type: [loginMethodEnum],
      description: 'Users who sign in by one of these. An empty list is refused.',
    }),
  }),
});

const searchInput = builder.inputType('UserSearch', {
  description: 'What to search by: exactly one of the two.',
  isOneOf: true,
  fields: (t) => ({
    email: t.string({ description: 'The whole login email; case does not matter.' }),
    address: t.string({
      description: 'A Stellar (`G…`) or Ethereum (`0x…`) address of a custodial account or an external login wallet.',
    }),
  }),
});

const filterArgument = { type: filterInput, description: 'Which users; all where it is absent.' } as const;

function toFilter(input: typeof filterInput.$inferInput | null | undefined): UserFilter {
  if (input?.loginMethods?.length === 0)
    throw badInput('loginMethods', [], 'at least one login method, or null for all');
  return userFilter({
    createdFrom: parse(dates.startDate, input?.startDate),
    createdTo: parse(dates.endDate, input?.endDate),
    loginMethods: input?.loginMethods,
  });
}

builder.queryField('user', (t) =>
  t.field({
    type: userType,
    nullable: true,
    description: 'One user; null where the project has no such user.',
    args: { id: t.arg.id({ required: true, description: 'The user ID, as a number or as digits.' }) },
    resolve: (_root, { id }, { scope, services }) => services.users.findUser(scope, parse(firstId, id)),
  }),
);

builder.queryField('usersByIds', (t) =>
  t.field({
    type: [userType],
    nullable: { list: false, items: true },
    description:
      'Several users in one go, in the order asked; null in the place of each whom the project does not have.',
    args: { ids: t.arg.idList({ required: true, description: `At most ${MAX_IDS} user IDs.` }) },
    resolve: (_root, { ids }, { scope, services }) => {
      if (ids.length > MAX_IDS)
        throw new AppError('BAD_USER_INPUT', `ids: got ${ids.length}, expected at most ${MAX_IDS}.`);
      return Promise.all(ids.map((id) => parse(firstId, id)).map((id) => services.users.findUser(scope, id)));
    },
  }),
);

builder.queryField('userCount', (t) =>
  t.int({
    description: 'The exact number of users who match.',
    args: { filter: t.arg(filterArgument) },
    resolve: (_root, { filter }, { scope, services }) => services.users.countUsers(scope, toFilter(filter)),
  }),
);

builder.queryField('searchUsers', (t) =>
  t.field({
    type: [userType],
    description:
      'Every user with this login email or address, newest first. To decide something by an address, use `verifyWallet`.',
    args: { by: t.arg({ type: searchInput, required: true, description: 'The email or the address.' }) },
    resolve: (_root, { by }, { scope, services }) =>
      typeof by.email === 'string'
        ? services.users.searchByEmail(scope, requireEmail('email', by.email))
        : services.users.searchByAddress(scope, requireAddress('address', by.address ?? '')),
  }),
);

interface UserPage {
  page: number;
  limit: number;
  totalUser: number;
  users: User[];
}

const userPageType = builder.objectRef<UserPage>('UserPage').implement({
  description: 'One numbered page of users, newest first, with the total of the same instant.',
  fields: (t) => ({
    page: t.exposeInt('page', { description: 'The number of this page.' }),
    limit: t.exposeInt('limit', { description: 'How many users a page has.' }),
    totalUser: t.exposeInt('totalUser', { description: 'The exact number of users who match, on all pages.' }),
    users: t.expose('users', { type: [userType], description: 'The users of this page; none past the end.' }),
  }),
});

builder.queryField('userPage', (t) =>
  t.field({
    type: userPageType,
    description: 'A numbered page of users, newest first, as REST lists them.',
    args: {
      filter: t.arg(filterArgument),
      page: t.arg.int({ required: true, defaultValue: 1, description: 'Page number, from 1.' }),
      limit: t.arg.int({
        required: true,
        defaultValue: PAGE_SIZE.default,
        description: `Users per page, 1 to ${PAGE_SIZE.max}. Other values are refused, never clamped.`,
      }),
    },
    resolve: async (_root, { filter, page, limit }, { scope, services }) => {
      if (page < 1) throw badInput('page', page, 'a whole number, 1 and up');
      requirePageSize('limit', limit);
      const { total, users } = await services.users.listPage(scope, toFilter(filter), { page, limit });
      return { page, limit, totalUser: total, users };
    },
  }),
);

interface UserConnection {
  users: User[];
  hasNextPage: boolean;
  hasPreviousPage: boolean;
  total: number | null;
}

const pageInfoType = builder.objectRef<UserConnection>('PageInfo').implement({
  description: 'Where a stretch of a list stands in the whole of it (Relay).',
  fields: (t) => ({
    hasNextPage: t.exposeBoolean('hasNextPage', { description: 'Whether older users follow.' }),
    hasPreviousPage: t.exposeBoolean('hasPreviousPage', { description: 'Whether newer users precede.' }),
    startCursor: t.string({
      nullable: true,
      description: 'The cursor of the first user here; null where there is none.',
      resolve: ({ users }) => cursorOf(users[0]),
    }),
    endCursor: t.string({
      nullable: true,
      description: 'The cursor of the last user here, to be given as `after`; null where there is none.',
      resolve: ({ users }) => cursorOf(users.at(-1)),
    }),
  }),
});

const userEdgeType = builder.objectRef<User>('UserEdge').implement({
  description: 'A user in a list, with the cursor of that place.',
  fields: (t) => ({
    cursor: t.string({
      description: 'An opaque place in the list. It stays valid when users come and go, this one included.',
      resolve: encodeCursor,
    }),
    node: t.field({ type: userType, description: 'The user.', resolve: (user) => user }),
  }),
});

const userConnectionType = builder.objectRef<UserConnection>('UserConnection').implement({
  description: 'A stretch of the list of users, newest first (Relay).',
  fields: (t) => ({
    edges: t.field({
      type: [userEdgeType],
      description: 'The users with their cursors.',
      resolve: ({ users }) => users,
    }),
    nodes: t.field({ type: [userType], description: 'The users alone.', resolve: ({ users }) => users }),
    pageInfo: t.field({
      type: pageInfoType,
      description: 'Where to go from here.',
      resolve: (connection) => connection,
    }),
    totalCount: t.int({
      description:
        'The exact number of users who match the filter, wherever this stretch is, of the same instant as its users.',
      // Counted with the rows, in one statement; `selects` has seen that this field is asked for.
      resolve: ({ total }) => total as number,
    }),
  }),
});

builder.queryField('users', (t) =>
  t.field({
    type: userConnectionType,
    description:
      'Users, newest first, by cursors: `first` and `after` walk to older ones, `last` and `before` to newer ones. Neither: the first 10.',
    args: {
      filter: t.arg(filterArgument),
      first: t.arg.int({ description: `That many users from the newest end, 1 to ${PAGE_SIZE.max}.` }),
      after: t.arg.string({ description: 'Only users after this cursor (older).' }),
      last: t.arg.int({ description: `That many users from the oldest end, 1 to ${PAGE_SIZE.max}.` }),
      before: t.arg.string({ description: 'Only users before this cursor (newer).' }),
    },
    resolve: async (_root, { filter, first, after, last, before }, { scope, services }, info) => {
      if (first != null && last != null) {
        throw new AppError('BAD_USER_INPUT', 'first, last: got both, expected one of them or neither.');
      }
      const limit = first ?? last ?? PAGE_SIZE.default;
      requirePageSize(last == null ? 'first' : 'last', limit);
      const window = {
        after: after == null ? null : parse(cursors.after, after),
        before: before == null ? null : parse(cursors.before, before),
        from: last == null ? 'newest' : 'oldest',
        limit,
      } as const;
      const rows = await services.users.listWindow(scope, toFilter(filter), window, selects(info, 'totalCount'));
      return { users: rows.users, hasNextPage: rows.hasOlder, hasPreviousPage: rows.hasNewer, total: rows.total };
    },
  }),
);

function cursorOf(user: User | undefined): string | null {
  return user === undefined ? null : encodeCursor(user);
}

function requirePageSize(name: string, value: number): void {
  if (value < 1 || value > PAGE_SIZE.max) throw badInput(name, value, `a whole number from 1 to ${PAGE_SIZE.max}`);
}

/** Whether a field is selected on this one, by itself or in a fragment. One that a directive leaves out may count as selected. */
function selects(info: GraphQLResolveInfo, field: string): boolean {
  const isIn = (set: SelectionSetNode | undefined): boolean =>
    set?.selections.some((selection) => {
      if (selection.kind === 'Field') return selection.name.value === field;
      if (selection.kind === 'InlineFragment') return isIn(selection.selectionSet);
      return isIn(info.fragments[selection.name.value]?.selectionSet);
    }) ?? false;
  return info.fieldNodes.some((node) => isIn(node.selectionSet));
}
