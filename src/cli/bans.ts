import type { Command } from 'commander';
import { api, graphql, inProject } from '../dashboard/documents.js';
import { identityOptions, option, pageOptions, projectOption, userIdArgument } from './arguments.js';
import type { CommandContext } from './rows.js';
import { tellState } from './terminal.js';

const whom = [
  userIdArgument('a user, with all identities: those of now, and those that are linked later', '[USER_ID]'),
  projectOption(),
  ...identityOptions(),
];

/** Whom to ban: a user, or an identity. */
function whomOf(command: Command, userId: string | undefined, { method, value }: { method?: string; value?: string }) {
  const isUser = userId !== undefined;
  if (isUser === (method !== undefined) || (method === undefined) !== (value === undefined))
    command.error('error: give either USER_ID, or --method and --value');
  return { id: userId ?? '', isUser, method: method ?? '', value: value ?? '' };
}

/** The answer of a user whose ban has changed, with what still holds. */
interface OfUser {
  readonly user: {
    readonly user_id: string;
    readonly ban?: { readonly auth_method: string; readonly auth_value: string } | null;
  };
}

/** Adds the commands for the bans of a project. */
export function addBanCommands(user: Command, { row, rows }: CommandContext): void {
  row(user, {
    name: 'user ban',
    description: 'refuse logins and registrations of a user or an identity; again, to change the reason or end',
    examples: [
      'user ban --project app_1 42',
      'user ban --project app_1 --method email --value eve@example.com --reason "spam" --until 2027-01-31',
    ],
    takes: [
      ...whom,
      option('--reason <TEXT>', 'why, on one line; "" takes it away'),
      option(
        '--until <TIME>',
        'when it ends: 2027-01-31 (through that day, UTC), 2027-01-31T12:00:00Z; "" takes it away',
      ),
    ],
    variables: (userId, { project, reason, until, ...identity }, command) => ({
      project,
      reason,
      until: until === '' ? undefined : until,
      untilLifted: until === '',
      ...whomOf(command, userId, identity),
    }),
    document: inProject(
      api(`mutation Ban(
        $id: ID!, $isUser: Boolean!, $method: String!, $value: String!, $reason: String, $until: String, $untilLifted: Boolean
      ) {
        banUser(id: $id, reason: $reason, expiresAt: $until, untilLifted: $untilLifted) @include(if: $isUser) {
          user { user_id: id }
        }
        banIdentity(
          identity: { authMethod: $method, authValue: $value }, reason: $reason, expiresAt: $until, untilLifted: $untilLifted
        ) @skip(if: $isUser) { ban { reason expires_at: expiresAt } changed }
      }`),
    ),
    pick(answer, { method, value }) {
      if (answer === undefined || 'user' in answer) return { user_id: (answer as OfUser).user.user_id, banned: true };
      const { ban, changed } = answer;
      const terms = { reason: ban?.reason ?? null, expires_at: ban?.expires_at ?? null };
      return { auth_method: method, auth_value: value, banned: true, ...terms, changed };
    },
    print(banned) {
      if ('user_id' in banned) return `User ${banned.user_id} is banned.`;
      const { changed, auth_method, auth_value, expires_at } = banned;
      const end = expires_at === null ? '' : ` until ${expires_at}`;
      return tellState({ changed }, `${auth_method} ${auth_value} is banned${end}.`);
    },
  });
  row(user, {
    name: 'user unban',
    description: 'lift the ban of a user, or of an identity',
    examples: ['user unban --project app_1 42', 'user unban --project app_1 --method email --value eve@example.com'],
    takes: whom,
    variables: (userId, { project, ...identity }, command) => ({ project, ...whomOf(command, userId, identity) }),
    document: inProject(
      api(`mutation Unban($id: ID!, $isUser: Boolean!, $method: String!, $value: String!) {
        unbanUser(id: $id) @include(if: $isUser) {
          user { user_id: id ban { auth_method: authMethod auth_value: authValue } }
        }
        unbanIdentity(identity: { authMethod: $method, authValue: $value }) @skip(if: $isUser) { ban { isOfUser } changed }
      }`),
    ),
    pick(answer, { method, value }) {
      if (answer !== undefined && 'changed' in answer)
        return { auth_method: method, auth_value: value, banned: answer.ban !== null, changed: answer.changed };
      const { user_id, ban = null } = (answer as OfUser).user;
      return { user_id, banned: ban !== null, ...(ban && { still_banned: ban }) };
    },
    print(lifted) {
      if ('user_id' in lifted) {
        const { still_banned: still } = lifted;
        const others = still ? ` ${still.auth_method} ${still.auth_value} still is, by a ban of its own.` : '';
        return `User ${lifted.user_id} is not banned.${others}`;
      }
      const { changed, auth_method, auth_value, banned } = lifted;
      const state = banned ? 'still banned, by the ban of its user' : changed ? 'unbanned' : 'not banned';
      return tellState({ changed }, `${auth_method} ${auth_value} is ${state}.`);
    },
  });
  rows(user, {
    name: 'user bans',
    description: 'list banned identities, oldest ban first; the ban of a user once for each of theirs',
    examples: ['user bans --project app_1 --search eve@', 'user bans --project app_1 --limit 100 --json'],
    takes: [
      projectOption(),
      option('--search <TEXT>', 'only identities whose value contains this text'),
      ...pageOptions(),
    ],
    document: graphql(`query Bans($project: ID!, $search: String, $first: Int!, $after: String) {
      project(appId: $project) {
        bans(search: $search, oldestFirst: true, first: $first, after: $after) {
          nodes { auth_method: authMethod auth_value: authValue created_at: createdAt reason expires_at: expiresAt of_user: bannedUserId }
          pageInfo { endCursor hasNextPage }
        }
      }
    }`),
    things: 'bans',
    columns: {
      Method: 'auth_method',
      Value: 'auth_value',
      Since: 'created_at',
      Until: 'expires_at',
      Reason: 'reason',
      'Of user': 'of_user',
    },
    none: 'No identity is banned.',
  });
}
