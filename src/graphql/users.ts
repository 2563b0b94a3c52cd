import { AppError, badInput } from '../errors.js';
import { requireAddress } from '../domain/addresses.js';
import {
  cursor,
  dateBound,
  encodeCursor,
  PAGE_SIZE,
  parse,
  type UserFilter,
  userFilter,
  userId,
} from '../domain/filters.js';
import { camelCase, parseIdentity, requireEmail, requireExternalId } from '../domain/identities.js';
import type { User } from '../domain/users.js';
import { accountType } from './accounts.js';
import { builder, loginMethodEnum } from './builder.js';
import { ACCOUNTS_PER_USER, costs, SURCHARGES, USERS_PER_SEARCH } from './field-cost.js';
import { selects } from './selection.js';

/** How many users `usersByIds` may be asked for. */
const MAX_IDS = 100;
const firstId = userId('id');
const eachId = userId('ids');
const cursors = { after: cursor('after'), before: cursor('before') };
const dates = { startDate: dateBound('startDate', 'first').nullish(), endDate: dateBound('endDate', 'last').nullish() };

export const userType = builder.prismaObject('User', {
  description: 'A current user of the project. A user who was removed is in no answer.',
  fields: (t) => ({
    id: t.exposeID('id', {
      description: 'The user ID: the integer of the REST interface, as a string of digits.',
    }),
    authMethod: t.exposeString('authMethod', {
      description: 'How the user authenticates: `email`, `passkey`, `wallet`, or the name of a social provider.',
    }),
    loginMethod: t.expose('loginMethod', {
      type: loginMethodEnum,
      description: 'The kind of login to which `authMethod` belongs, by which `UserFilter` selects.',
    }),
    authValue: t.exposeString('authValue', {
      description:
        'The identifier of the user under `authMethod`, spelled as it was registered; for an email login the email address.',
    }),
    email: t.exposeString('loginEmail', {
      nullable: true,
      description:
        'The login email, by which `searchUsers` finds the user: of an email login its address, of another login the email that `recordLogin` or an import gave with it, or else its `authValue` where that is an email. In the form in which emails are compared: trimmed, in lower case and Unicode NFC. Null when there is none. Two users may have the same, and it is not verified here: it proves nothing about who logs in.',
    }),
    wallet: t.exposeString('wallet', {
      nullable: true,
      description: 'The external wallet address used to log in; null when there is none.',
    }),
    externalId: t.exposeString('externalId', {
      nullable: true,
      description:
        "The user's ID in your own system, by which `userByExternalId` finds the user; null when none was given to `recordLogin` or to an import. No two users of the project have the same.",
    }),
    createdAt: t.expose('createdAt', { type: 'DateTime', description: 'When the user registered.' }),
    lastLogin: t.expose('lastLogin', {
      type: 'DateTime',
      nullable: true,
      description: 'The most recent login; null when none was recorded.',
    }),
    loginCount: t.exposeInt('loginCount', { description: 'The number of logins recorded.' }),
    accounts: t.field({
      type: [accountType],
      description:
        'The accounts linked to the user, oldest first: custodial ones, and the external wallet if there is one.',
      extensions: costs({ rows: ACCOUNTS_PER_USER }),
      resolve: (user, _args, { scope, services }) => user.accounts ?? services.accounts.listAccounts(scope, user.id),
    }),
  }),
});

const filterInput = builder.inputType('UserFilter', {
  description: 'Selects users who meet every condition given. A field that is absent or null is no condition.',
  fields: (t) => ({
    startDate: t.string({
      description:
        'Created on or after this: a date (`2026-01-31`, from its first instant in UTC) or an RFC 3339 date-time (`2026-01-31T12:00:00Z`).',
    }),
    endDate: t.string({
      description:
        'Created on or before this: a date (`2026-01-31`, through its last instant in UTC) or an RFC 3339 date-time (`2026-01-31T12:00:00Z`).',
    }),
    loginMethods: t.field({
      type: [loginMethodEnum],
      description: 'With one of these kinds of login. An empty list is refused.',
    }),
  }),
});

const searchInput = builder.inputType('UserSearch', {
  description: 'What to search by. Give exactly one of the fields.',
  isOneOf: true,
  fields: (t) => ({
    email: t.string({ description: 'The whole login email. Upper and lower case are the same.' }),
    address: t.string({
      description: 'The address of a custodial account or of an external wallet: Stellar (`G…`) or Ethereum (`0x…`).',
    }),
  }),
});

const filterArgument = { type: filterInput, description: 'Which users to select; without it, all.' } as const;

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
    description: 'One user by ID; null when the project has no such user.',
    args: { id: t.arg.id({ required: true, description: 'The user ID, as an integer or as a string of digits.' }) },
    extensions: costs({ surcharge: SURCHARGES.search }),
    resolve: (_root, { id }, { scope, services }, info) =>
      services.users.findUser(scope, parse(firstId, id), { withAccounts: selects(info, 'User.accounts') }),
  }),
);

builder.queryField('userByIdentity', (t) =>
  t.field({
    type: userType,
    nullable: true,
    description:
      'The user who logs in with this identity, as `recordLogin` was given it; null when the project has no such user. Identities are compared as there: emails without regard to case, addresses in any spelling, other values exactly.',
    args: {
      authMethod: t.arg.string({
        required: true,
        description: '`email`, `passkey`, `wallet`, or the name of a social provider in lower case, such as `google`.',
      }),
      authValue: t.arg.string({
        required: true,
        description: 'The email address, the wallet address, or the ID at the provider or of the passkey.',
      }),
    },
    extensions: costs({ surcharge: SURCHARGES.search }),
    resolve: (_root, identity, { scope, services }, info) =>
      services.users.findIdentity(scope, parseIdentity(identity, camelCase), {
        withAccounts: selects(info, 'User.accounts'),
      }),
  }),
);

builder.queryField('userByExternalId', (t) =>
  t.field({
    type: userType,
    nullable: true,
    description:
      'The user with this ID in your own system, as `recordLogin` or an import was given it; null when the project has no such user. It is compared exactly: upper and lower case differ.',
    args: { externalId: t.arg.string({ required: true, description: "The user's ID in your own system." }) },
    extensions: costs({ surcharge: SURCHARGES.search }),
    resolve: (_root, { externalId }, { scope, services }, info) =>
      services.users.findByExternalId(scope, requireExternalId('externalId', externalId), {
        withAccounts: selects(info, 'User.accounts'),
      }),
  }),
);

builder.queryField('usersByIds', (t) =>
  t.field({
    type: [userType],
    nullable: { list: false, items: true },
    description:
      'Users by their IDs, in the order of `ids`, with null in the place of each whom the project does not have.',
    args: { ids: t.arg.idList({ required: true, description: `The user IDs, at most ${MAX_IDS}.` }) },
    extensions: costs({
      surcharge: SURCHARGES.search,
      rows: { of: ['ids'], otherwise: 0, atMost: MAX_IDS },
      items: { of: ['ids'], each: SURCHARGES.id },
    }),
    resolve: (_root, { ids }, { scope, services }, info) => {
      if (ids.length > MAX_IDS)
        throw new AppError('BAD_USER_INPUT', `ids: got ${ids.length}, expected at most ${MAX_IDS}.`);
      const wanted = { withAccounts: selects(info, 'User.accounts') };
      return Promise.all(ids.map((id) => parse(eachId, id)).map((id) => services.users.findUser(scope, id, wanted)));
    },
  }),
);

builder.queryField('userCount', (t) =>
  t.int({
    description: 'The exact number of users that the filter selects.',
    args: { filter: t.arg(filterArgument) },
    extensions: costs({ surcharge: SURCHARGES.total }),
    resolve: (_root, { filter }, { scope, services }) => services.users.countUsers(scope, toFilter(filter)),
  }),
);

builder.queryField('searchUsers', (t) =>
  t.field({
    type: [userType],
    description:
      'All users with this login email or address, newest first: one email can belong to several. Where a security decision hangs on an address, use `verifyWallet`.',
    args: { by: t.arg({ type: searchInput, required: true, description: 'The email or the address to search by.' }) },
    extensions: costs({ surcharge: SURCHARGES.search, rows: USERS_PER_SEARCH }),
    resolve: (_root, { by }, { scope, services }, info) => {
      const wanted = { withAccounts: selects(info, 'User.accounts') };
      return typeof by.email === 'string'
        ? services.users.searchByEmail(scope, requireEmail('email', by.email), wanted)
        : services.users.searchByAddress(scope, requireAddress('address', by.address ?? ''), wanted);
    },
  }),
);

interface UserPage {
  page: number;
  limit: number;
  totalUser: number;
  users: User[];
}

const userPageType = builder.objectRef<UserPage>('UserPage').implement({
  description: 'A numbered page of users, newest first. The total and the users are of the same instant.',
  fields: (t) => ({
    page: t.exposeInt('page', { description: 'The number of this page, as asked.' }),
    limit: t.exposeInt('limit', {
      description: 'The number of users a page has, as asked; the last page may have fewer.',
    }),
    totalUser: t.exposeInt('totalUser', {
      description: 'The exact number of users that the filter selects, on all pages together.',
    }),
    users: t.expose('users', { type: [userType], description: 'The users of this page; empty past the last page.' }),
  }),
});

builder.queryField('userPage', (t) =>
  t.field({
    type: userPageType,
    description:
      'Users, newest first, by page number, as the REST interface lists them. Users who register meanwhile shift the pages; to walk through all users, use `users`.',
    args: {
      filter: t.arg(filterArgument),
      page: t.arg.int({ required: true, defaultValue: 1, description: 'The page number, from 1.' }),
      limit: t.arg.int({
        required: true,
        defaultValue: PAGE_SIZE.default,
        description: `The number of users per page, 1 to ${PAGE_SIZE.max}. Other values are refused.`,
      }),
    },
    // The page always has its total.
    extensions: costs({
      surcharge: SURCHARGES.search + SURCHARGES.total,
      rows: { of: ['limit'], otherwise: PAGE_SIZE.default, atMost: PAGE_SIZE.max },
    }),
    resolve: async (_root, { filter, page, limit }, { scope, services }, info) => {
      if (page < 1) throw badInput('page', page, 'a whole number, 1 and up');
      requirePageSize('limit', limit);
      const { total, users } = await services.users.listPage(scope, toFilter(filter), {
        page,
        limit,
        withAccounts: selects(info, 'User.accounts'),
      });
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

interface PageInfo {
  hasNextPage: boolean;
  hasPreviousPage: boolean;
  startCursor: string | null;
  endCursor: string | null;
}

export const pageInfoType = builder.objectRef<PageInfo>('PageInfo').implement({
  description: 'Where a page of a connection stands in the whole list (Relay).',
  fields: (t) => ({
    hasNextPage: t.exposeBoolean('hasNextPage', {
      description: 'Whether there is more after this page. Exact, in whichever direction you page.',
    }),
    hasPreviousPage: t.exposeBoolean('hasPreviousPage', {
      description:
        'Whether there is more before this page. Exact for users, in whichever direction you page; for changes, whether `after` was given.',
    }),
    startCursor: t.exposeString('startCursor', {
      nullable: true,
      description: 'The cursor of the first item of this page; null when the page is empty.',
    }),
    endCursor: t.exposeString('endCursor', {
      nullable: true,
      description:
        'The cursor of the last item of this page, to be given as `after`; null when a page of users is empty. A page of changes always has one.',
    }),
  }),
});

const userEdgeType = builder.objectRef<User>('UserEdge').implement({
  description: 'A user in a connection, with the cursor of their place in the list.',
  fields: (t) => ({
    cursor: t.string({
      description:
        'The place of this user in the list, for `after` and `before`. It stays valid while users come and go, even when this user is removed. Opaque: pass it on as it is.',
      resolve: (user) => cursorOf(user),
    }),
    node: t.field({ type: userType, description: 'The user at this place.', resolve: (user) => user }),
  }),
});

const userConnectionType = builder.objectRef<UserConnection>('UserConnection').implement({
  description: 'A page of users, newest first (Relay).',
  fields: (t) => ({
    edges: t.field({
      type: [userEdgeType],
      description: 'The users of this page, each with a cursor.',
      resolve: ({ users }) => users,
    }),
    nodes: t.field({
      type: [userType],
      description: 'The users of this page, without cursors.',
      resolve: ({ users }) => users,
    }),
    pageInfo: t.field({
      type: pageInfoType,
      description: 'What is before and after this page.',
      resolve: ({ users, hasNextPage, hasPreviousPage }) => ({
        hasNextPage,
        hasPreviousPage,
        startCursor: users.length === 0 ? null : cursorOf(users[0] as User),
        endCursor: users.length === 0 ? null : cursorOf(users.at(-1) as User),
      }),
    }),
    totalCount: t.int({
      description:
        'The exact number of users that the filter selects, on all pages together, of the same instant as the users of this page.',
      extensions: costs({ surcharge: SURCHARGES.total }),
      // Counted with the rows, in one statement, because `selects` has found this field.
      resolve: ({ total }) => total as number,
    }),
  }),
});

builder.queryField('users', (t) =>
  t.field({
    type: userConnectionType,
    description:
      'Users, newest first, by cursor. Page towards older users with `first` and `after: endCursor`, towards newer ones with `last` and `before: startCursor`. Users who register or are removed meanwhile never make others appear twice or go missing. Without `first` and `last` it is the first 10; both together are refused.',
    args: {
      filter: t.arg(filterArgument),
      first: t.arg.int({
        description: `The number of users to take from the newest end of what is selected, 1 to ${PAGE_SIZE.max}.`,
      }),
      after: t.arg.string({ description: 'A cursor: only users after it in the list, which are older.' }),
      last: t.arg.int({
        description: `The number of users to take from the oldest end of what is selected, 1 to ${PAGE_SIZE.max}. They still come newest first.`,
      }),
      before: t.arg.string({ description: 'A cursor: only users before it in the list, which are newer.' }),
    },
    extensions: costs({
      surcharge: SURCHARGES.search,
      rows: { of: ['first', 'last'], otherwise: PAGE_SIZE.default, atMost: PAGE_SIZE.max },
    }),
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
        withAccounts: selects(info, 'User.accounts'),
        withTotal: selects(info, 'UserConnection.totalCount'),
      } as const;
      const rows = await services.users.listWindow(scope, toFilter(filter), window);
      return { users: rows.users, hasNextPage: rows.hasOlder, hasPreviousPage: rows.hasNewer, total: rows.total };
    },
  }),
);

function cursorOf({ createdAt, id }: User): string {
  return encodeCursor({ createdAt: new Date(createdAt), id });
}

function requirePageSize(name: string, value: number): void {
  if (value < 1 || value > PAGE_SIZE.max) throw badInput(name, value, `a whole number from 1 to ${PAGE_SIZE.max}`);
}
