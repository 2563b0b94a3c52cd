import type { Command } from 'commander';
import { graphql } from '../dashboard/documents.js';
import { newestOption, option, parseSince, projectOption } from './arguments.js';
import type { CommandContext } from './rows.js';

export function addAuditCommand(program: Command, { rows }: CommandContext): void {
  rows(program, {
    name: 'audit',
    description: 'list the audit trail: removals, bans, imports, purges and changes of secrets, oldest first',
    examples: ['audit --project app_1 --since 24h', 'audit --project app_1 --limit 20 --json'],
    takes: [
      projectOption(),
      option('--since <TIME>', 'only entries since then: 24h, 2026-01-31, 2026-01-31T12:00:00Z', parseSince),
      newestOption(),
    ],
    variables: ({ project, since = null, limit }) => ({ project, since, newest: limit }),
    document: graphql(`query ListAudit($project: ID!, $since: DateTime, $newest: Int!, $first: Int!, $after: String) {
      project(appId: $project) {
        newestOfAudit(since: $since, newest: $newest, first: $first, after: $after) {
          nodes { id at actor request_id: requestId action user_id: userId details } pageInfo { endCursor hasNextPage }
        }
      }
    }`),
    row: (entry) => ({ ...entry, details: JSON.parse(entry.details) }),
    columns: {
      At: 'at',
      Actor: 'actor',
      Action: 'action',
      User: 'user_id',
      Details: ({ details }) => JSON.stringify(details),
      Request: 'request_id',
    },
    none: 'The audit trail has no entries.',
  });
}
