import { type Command, InvalidArgumentError, type Option } from 'commander';
import { api, inProject } from '../dashboard/documents.js';
import { LOGIN_METHOD_FORM, LOGIN_METHODS, loginMethods } from '../domain/parameters.js';
import { inSentence, nameOf, separated } from '../domain/spelling.js';
import {
  ofStateFilters,
  STATE_FILTER_NAMES,
  type StateFilterName,
  type StateFilterRow,
} from '../domain/state-filters.js';
import { option, pageOptions, parseSince, projectOption, required } from './arguments.js';
import type { CommandContext } from './rows.js';

/* Lists of current users, all or those of a filter, which has the conditions of `UserFilter`. */

export const USER_COLUMNS = {
  ID: 'id',
  Method: 'auth_method',
  Value: 'auth_value',
  Email: 'email',
} as const;

const LISTED = inProject(
  api(`query ListUsers($filter: UserFilter!, $first: Int!, $after: String) {
    users(filter: $filter, first: $first, after: $after) {
      nodes {
        id auth_method: authMethod auth_value: authValue email external_id: externalId
        created_at: createdAt last_login: lastLogin login_count: loginCount
      }
      pageInfo { endCursor hasNextPage }
    }
  }`),
);

const LISTED_COLUMNS = {
  ...USER_COLUMNS,
  Created: 'created_at',
  'Last login': (found: { readonly last_login: string | null }) => found.last_login ?? 'never',
} as const;

/** The option of a filter of the table: `--last-login-before` of `lastLoginBefore`. */
const optionOf =
  (form: string, parse?: (text: string) => unknown) =>
  ({ selects }: StateFilterRow, name: StateFilterName): Option => {
    const words = inSentence(selects).replaceAll('`', '');
    return option(`--${separated(name, '-')} <${form}>`, words, parse);
  };

const STATE_OPTIONS = ofStateFilters(STATE_FILTER_NAMES, {
  boolean: optionOf('yes|no', parseYesNo),
  instant: optionOf('TIME'),
  methods: optionOf('METHOD,…', (text) => text.split(',')),
  text: optionOf('TEXT'),
});

const kinds = loginMethods('login_methods');

/** Kinds of login as GraphQL spells them. */
function parseKinds(text: string): string[] {
  const { success, data } = kinds.safeParse(text);
  if (success) return data.map(nameOf);
  throw new InvalidArgumentError(`Expected ${LOGIN_METHOD_FORM}.`);
}

function parseYesNo(text: string): boolean {
  if (text === 'yes' || text === 'no') return text === 'yes';
  throw new InvalidArgumentError('Expected yes or no.');
}

export function addListCommands(user: Command, { rows }: CommandContext): void {
  rows(user, {
    name: 'user list',
    description: 'list users, the newest first: all, or those who meet every condition',
    examples: [
      'user list --project app_1 --limit 100',
      'user list --project app_1 --login-methods socials --start-date 2026-01-01 --json',
      'user list --project app_1 --contains example.com --banned no',
    ],
    takes: [
      projectOption(),
      option('--start-date <TIME>', 'created on or after this: a date, or an RFC 3339 date-time'),
      option('--end-date <TIME>', 'created on or before this: a date, through its last instant, or a date-time'),
      option('--login-methods <KIND,…>', `with one of these kinds of login: ${LOGIN_METHODS.join(', ')}`, parseKinds),
      ...STATE_FILTER_NAMES.map((name) => STATE_OPTIONS[name]),
      ...pageOptions(),
    ],
    variables({ project, startDate, endDate, loginMethods, after, ...given }) {
      const states = Object.fromEntries(STATE_FILTER_NAMES.map((name) => [name, given[name]]));
      return { project, after, filter: { startDate, endDate, loginMethods, ...states } };
    },
    document: LISTED,
    things: 'users',
    columns: LISTED_COLUMNS,
    none: 'No user matches.',
  });
  rows(user, {
    name: 'user inactive',
    description:
      'list users who have not logged in for some time, the newest first; who never did, counts by the registration',
    examples: ['user inactive --project app_1 --since 90d', 'user inactive --project app_1 --since 2026-01-31 --json'],
    takes: [
      projectOption(),
      required('--since <TIME>', 'without a login since: a time such as 90d, or a date', parsePast),
      ...pageOptions(),
    ],
    variables: ({ project, since, after }) => ({ project, after, filter: { lastLoginBefore: since } }),
    document: LISTED,
    things: 'inactive users',
    columns: LISTED_COLUMNS,
    none: 'No user is inactive.',
  });
}

/** Since an instant that is to come, all users would be inactive. */
function parsePast(text: string): string {
  const since = parseSince(text);
  if (Date.parse(since) <= Date.now()) return since;
  throw new InvalidArgumentError('Expected a time that is past.');
}
