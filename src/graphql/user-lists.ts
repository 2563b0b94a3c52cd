import { PAGE_SIZE, SCANNED } from '../domain/bounds.js';
import { cursor, cursorOf, encodeCursor, type Position } from '../domain/cursors.js';
import { inFigures } from '../domain/figures.js';
import { type CountedFilter, readFilter } from '../domain/filters.js';
import type { UserScan } from '../domain/pages.js';
import { parse, readAll, readNumber } from '../domain/parse.js';
import { ofStateFilters, STATE_FILTER_NAMES, type StateFilterRow, UNCOUNTED } from '../domain/state-filters.js';
import type { User } from '../domain/users.js';
import { costs } from '../engine/cost.js';
import { selects } from '../engine/nodes.js';
import { AppError } from '../errors.js';
import { builder, loginMethodEnum, SURCHARGES } from './builder.js';
import { connectionType, type Page } from './connections.js';
import { withDefault } from './shared.js';
import { userType } from './users.js';

/* Users in lists: by cursor, by page number, and their number. */

const cursors = { after: cursor('after', 'users'), before: cursor('before', 'users') };

const described = ({ selects, note }: StateFilterRow) => ({ description: `${selects}. ${note}` });

const filterInput = builder.inputType('UserFilter', {
  description: 'Selects users who meet every condition given. A field that is absent or null is no condition.',
  fields: (t) => ({
    startDate: t.string({
      description:
        'Created on or after this: a date (`2026-01-31`, from its first instant in UTC) or an RFC 3339 date-time (`2026-01-31T12:00:00Z`).',
    }),
    endDate: t.string({
      description:
        'Created on or before this: a date (`2026-01-31`, through its last instant in UTC) or an RFC 3339 date-time (`2026-01-31T12:00:00Z`). If it is before `startDate`, no user matches.',
    }),
    loginMethods: t.field({
      type: [loginMethodEnum],
      description: 'With one of these kinds of login. An empty list is refused.',
    }),
    ...ofStateFilters(STATE_FILTER_NAMES, {
      boolean: (row) => t.boolean(described(row)),
      instant: (row) => t.string(described(row)),
      methods: (row) => t.stringList(described(row)),
      text: (row) => t.string(described(row)),
    }),
  }),
});

const filterArgument = { type: filterInput, description: 'Which users to select; without it, all.' } as const;

type FilterInput = typeof filterInput.$inferInput | null | undefined;

/** The filter of a total, which the tallies have to know. */
function toCountedFilter(what: string, input: FilterInput): CountedFilter {
  const { counted, state } = readFilter(input);
  if (state === null) return counted;
  throw new AppError(
    'BAD_USER_INPUT',
    `filter: ${what} cannot select by ${UNCOUNTED.replaceAll('`', '')}, because such users are not counted; ask for users without totalCount.`,
  );
}

const userPageType = builder
  .objectRef<{ page: number; limit: number; totalUser: number; users: User[] }>('UserPage')
  .implement({
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

interface UserPageByCursor extends Page<User> {
  readonly total: number | null;
}

const userConnectionType = connectionType<User, UserPageByCursor>(userType, cursorOf, {
  connection: 'A page of users, newest first (Relay).',
  edges: 'The users of this page, each with a cursor.',
  nodes: 'The users of this page, without cursors.',
  pageInfo: 'What is before and after this page.',
  edge: 'A user in a connection, with the cursor of their place in the list.',
  cursor:
    'The place of this user in the list, for `after` and `before`. It stays valid while users come and go, even when this user is removed. Opaque: pass it on as it is.',
  node: 'The user at this place.',
});

builder.objectField(userConnectionType, 'totalCount', (t) =>
  t.int({
    description: `The exact number of users that the filter selects, on all pages together, of the same instant as the users of this page. Refused where the filter has ${UNCOUNTED}.`,
    extensions: costs({ surcharge: SURCHARGES.total }),
    // Counted with the rows, in one statement, because `selects` has found this field.
    resolve: ({ total }) => total as number,
  }),
);

/** The page of a scan: what lies behind its start is only known from the arguments. */
function scanned(
  { users, hasMore, end }: UserScan,
  { from, after, before }: { from: 'newest' | 'oldest'; after: Position | null; before: Position | null },
): UserPageByCursor {
  const isForward = from === 'newest';
  return {
    nodes: users,
    total: null,
    hasNextPage: before !== null || (isForward && hasMore),
    hasPreviousPage: after !== null || (!isForward && hasMore),
    [isForward ? 'endCursor' : 'startCursor']: end && encodeCursor(end),
  };
}

builder.queryFields((t) => ({
  userCount: t.int({
    description: 'The exact number of users that the filter selects.',
    args: { filter: t.arg(filterArgument) },
    extensions: costs({ surcharge: SURCHARGES.total }),
    resolve: (_root, { filter }, { scope, services }) =>
      services.users.countUsers(scope, toCountedFilter('userCount', filter)),
  }),
  userPage: t.field({
    type: userPageType,
    description:
      'Users, newest first, by page number, as the REST interface lists them. Users who register meanwhile shift the pages; to walk through all users, use `users`.',
    args: {
      filter: t.arg(filterArgument),
      page: t.arg.int(withDefault(1, 'The page number, from 1.')),
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
      const [selected] = readAll(
        () => toCountedFilter('userPage', filter),
        () => readNumber('page', page),
        () => readNumber('limit', limit, PAGE_SIZE.max),
      );
      const query = { page, limit, withAccounts: selects(info, 'User.accounts') };
      const { total, users } = await services.users.listPage(scope, selected, query);
      return { page, limit, totalUser: total, users };
    },
  }),
  users: t.field({
    type: userConnectionType,
    description: `Users, newest first, by cursor. Page towards older users with \`first\` and \`after: endCursor\`, towards newer ones with \`last\` and \`before: startCursor\`. Users who register or are removed meanwhile never make others appear twice or go missing. Without \`first\` and \`last\` it is the first ${PAGE_SIZE.default}; both together are refused. A filter with ${UNCOUNTED} looks at ${inFigures(SCANNED)} users a page: a page may have fewer users than \`first\`, even none, although \`hasNextPage\` is true.`,
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
      options: { of: ['filter', STATE_FILTER_NAMES], surcharge: SURCHARGES.scan },
      rows: { of: ['first', 'last'], otherwise: PAGE_SIZE.default, atMost: PAGE_SIZE.max },
    }),
    resolve: async (_root, { filter, first, after, last, before }, { scope, services }, info) => {
      if (first != null && last != null) {
        throw new AppError('BAD_USER_INPUT', 'first, last: got both, expected one of them or neither.');
      }
      const withTotal = selects(info, 'UserConnection.totalCount');
      const [{ counted, state }, newer, older, limit] = readAll(
        () => (withTotal ? { counted: toCountedFilter('totalCount', filter), state: null } : readFilter(filter)),
        () => (after == null ? null : parse(cursors.after, after)),
        () => (before == null ? null : parse(cursors.before, before)),
        () => readNumber(last == null ? 'first' : 'last', first ?? last ?? PAGE_SIZE.default, PAGE_SIZE.max),
      );
      const window = {
        after: newer,
        before: older,
        from: last == null ? 'newest' : 'oldest',
        limit,
        withAccounts: selects(info, 'User.accounts'),
      } as const;
      if (state !== null) {
        const scan = await services.users.scanWindow(scope, counted, state, window);
        return scanned(scan, window);
      }
      const rows = await services.users.listWindow(scope, counted, {
        ...window,
        withTotal,
        withNewer: selects(info, 'PageInfo.hasPreviousPage'),
        withOlder: selects(info, 'PageInfo.hasNextPage'),
      });
      return { nodes: rows.users, hasNextPage: rows.hasOlder, hasPreviousPage: rows.hasNewer, total: rows.total };
    },
  }),
}));
