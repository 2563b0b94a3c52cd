import { COUNTED_METHODS } from './auth-methods.js';

/* The filters by what totals do not know of a user. The schema, the users' page, the client and the texts follow from this table. */

export interface StateFilterRow {
  /** How it is given: true or false, an instant or a UTC day, names of login methods, or a part of a text. */
  readonly kind: 'boolean' | 'instant' | 'methods' | 'text';
  /** Whom it selects, as Markdown. Without a full stop at the end. */
  readonly selects: string;
  /** What more a caller should know of it. */
  readonly note: string;
  /** What of it is not counted, as it stands in sentences. */
  readonly uncounted: string;
  /** On the page of users: the label, and the parameter of its address. */
  readonly label: string;
  readonly parameter: string;
}

const ONLY_USERS = 'Only in `users`, and without `totalCount`: such users are not counted.';

/** The most names of login methods in a filter. */
export const MAX_AUTH_METHODS = 20;

/** A row for each. Its condition in SQL stands in users/list-users.sql.ts, which does not compile without it. */
export const STATE_FILTERS = {
  contains: {
    kind: 'text',
    selects: 'With this text, in any case, in the login email, the primary identity or the external ID',
    note: `${ONLY_USERS} The beginning of one is found at once by \`usersByPrefix\`.`,
    uncounted: '`contains`',
    label: 'Email, external ID or identity contains',
    parameter: 'part',
  },
  lastLoginBefore: {
    kind: 'instant',
    selects:
      'Last logged in before this, a date (its first instant in UTC) or an RFC 3339 date-time; a user who never logged in counts by the registration',
    note: ONLY_USERS,
    uncounted: '`lastLoginBefore`',
    label: 'No login since (UTC)',
    parameter: 'unseen',
  },
  lastLoginAfter: {
    kind: 'instant',
    selects: 'Last logged in on or after this, a date (its first instant in UTC) or an RFC 3339 date-time',
    note: ONLY_USERS,
    uncounted: '`lastLoginAfter`',
    label: 'Last login from (UTC)',
    parameter: 'seen',
  },
  banned: {
    kind: 'boolean',
    selects: 'Whether the user, or one of their identities, is banned (`User.ban`)',
    note: `${ONLY_USERS} To list the banned, ask for \`bans\`, which need not look at all users.`,
    uncounted: '`banned`',
    label: 'Banned',
    parameter: 'banned',
  },
  authMethods: {
    kind: 'methods',
    selects: `With one of these methods as \`User.authMethod\`: ${COUNTED_METHODS.map((method) => `\`${method}\``).join(', ')} or names of providers, at most ${MAX_AUTH_METHODS}. An empty list is refused`,
    note: 'Only kinds of login are counted: with the name of a provider, only in `users`, and without `totalCount`.',
    uncounted: 'the name of a provider in `authMethods`',
    label: 'Provider',
    parameter: 'provider',
  },
} as const satisfies Record<string, StateFilterRow>;

type Table = typeof STATE_FILTERS;
export type StateFilterName = keyof Table;

export const STATE_FILTER_NAMES = Object.keys(STATE_FILTERS) as StateFilterName[];

interface Given {
  readonly boolean: boolean;
  readonly instant: string;
  readonly methods: readonly string[];
  readonly text: string;
}

interface Read extends Omit<Given, 'instant'> {
  readonly instant: Date;
}

/** As they are given. One that is absent or null does not restrict the users. */
export type StateFilterInput = {
  readonly [Name in StateFilterName]?: Given[Table[Name]['kind']] | null | undefined;
};

/** As they are read; null: any. A text is in the folded case. */
export type StateFilter = { readonly [Name in StateFilterName]: Read[Table[Name]['kind']] | null };

/** Something for some of the filters, made by their kinds. */
export function ofStateFilters<Name extends StateFilterName, Makers extends Record<StateFilterRow['kind'], Maker>>(
  names: readonly Name[],
  makers: Makers,
) {
  const made = names.map((name) => [name, makers[STATE_FILTERS[name].kind](STATE_FILTERS[name], name)]);
  return Object.fromEntries(made) as { readonly [Of in Name]: ReturnType<Makers[Table[Of]['kind']]> };
}
type Maker = (row: StateFilterRow, name: StateFilterName) => unknown;

const rows: readonly StateFilterRow[] = Object.values(STATE_FILTERS);

/** What cannot be counted by, as it stands in sentences: "`a`, `b` or `c`". */
export const UNCOUNTED = `${rows
  .slice(0, -1)
  .map(({ uncounted }) => uncounted)
  .join(', ')} or ${rows.at(-1)?.uncounted}`;
