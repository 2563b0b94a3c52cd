import type { Command } from 'commander';
import { parseBanTerms } from '../domain/bans.js';
import { jsonOption, option, pageOptions, projectOption, required } from './arguments.js';
import { graphql } from './graphql.js';
import { requireProject } from './project.js';
import type { CommandContext } from './rows.js';
import { tellNextPage, tellState } from './terminal.js';

const identityOptions = [
  projectOption(),
  required('--method <METHOD>', 'email, passkey, wallet, or the name of a social provider'),
  required('--value <VALUE>', 'the login email, the address, or the ID at the provider'),
];

/** Adds the commands for the bans of a project, which are of identities. */
export function addBanCommands(user: Command, { row, rows }: CommandContext): void {
  row(user, {
    name: 'user ban',
    description: 'refuse logins and registrations of an identity; again, to change its reason or end',
    examples: [
      'user ban --project app_1 --method email --value eve@example.com',
      'user ban --project app_1 --method email --value eve@example.com --reason "spam" --until 2027-01-31',
    ],
    takes: [
      ...identityOptions,
      option('--reason <TEXT>', 'why, on one line; "" takes it away'),
      option(
        '--until <TIME>',
        'when it ends: 2027-01-31 (through that day, UTC), 2027-01-31T12:00:00Z; "" takes it away',
      ),
      jsonOption(),
    ],
    variables: ({ project, method, value, reason, until }) => {
      const end = until === '' ? null : until;
      // The schema would name another field.
      parseBanTerms({ reason, end }, 'until');
      return { project, method, value, reason, until: end };
    },
    document: graphql(`mutation Ban($project: ID!, $method: String!, $value: String!, $reason: String, $until: String) {
      banIdentity(appId: $project, authMethod: $method, authValue: $value, reason: $reason, expiresAt: $until) {
        auth_method: authMethod auth_value: authValue banned ban { reason expires_at: expiresAt } changed
      }
    }`),
    pick: ({ banIdentity: { ban, changed, ...identity } }) => ({
      ...identity,
      reason: ban?.reason ?? null,
      expires_at: ban?.expires_at ?? null,
      changed,
    }),
    print: ({ changed, auth_method, auth_value, expires_at }) => {
      const end = expires_at === null ? '' : ` until ${expires_at}`;
      return tellState({ changed }, `${auth_method} ${auth_value} is banned${end}.`);
    },
  });
  row(user, {
    name: 'user unban',
    description: 'lift a ban',
    examples: ['user unban --project app_1 --method email --value eve@example.com'],
    takes: [...identityOptions, jsonOption()],
    document: graphql(`mutation Unban($project: ID!, $method: String!, $value: String!) {
      unbanIdentity(appId: $project, authMethod: $method, authValue: $value) {
        auth_method: authMethod auth_value: authValue banned changed
      }
    }`),
    pick: ({ unbanIdentity }) => unbanIdentity,
    print: ({ changed, auth_method, auth_value }) =>
      tellState({ changed }, `${auth_method} ${auth_value} is ${changed ? 'unbanned' : 'not banned'}.`),
  });
  rows(user, {
    name: 'user bans',
    description: 'list banned identities, oldest ban first',
    examples: ['user bans --project app_1 --search eve@', 'user bans --project app_1 --limit 100 --json'],
    takes: [
      projectOption(),
      option('--search <TEXT>', 'only identities whose value contains this text'),
      ...pageOptions(),
      jsonOption(),
    ],
    document: graphql(`query Bans($project: ID!, $search: String, $first: Int!, $after: String) {
      project(appId: $project) {
        bans(search: $search, oldestFirst: true, first: $first, after: $after) {
          nodes { auth_method: authMethod auth_value: authValue created_at: createdAt reason expires_at: expiresAt }
          pageInfo { endCursor hasNextPage }
        }
      }
    }`),
    limit: ({ limit }) => limit,
    page: (data, { project }) => requireProject(data.project, project).bans,
    row: (ban) => ban,
    head: ['Method', 'Value', 'Since', 'Until', 'Reason'],
    cells: ({ auth_method, auth_value, created_at, expires_at, reason }) => [
      ...[auth_method, auth_value, created_at],
      expires_at ?? '',
      reason ?? '',
    ],
    none: 'No identity is banned.',
    tellEnd: tellNextPage('bans'),
  });
}
