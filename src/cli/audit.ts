import type { Command } from 'commander';
import { positionOf } from '../domain/filters.js';
import { type AuditEntry, entryJson } from '../domain/projects.js';
import { jsonOption, newestOption, option, parseSince, projectOption } from './arguments.js';
import { type OperationContext, readPages } from './operation.js';
import type { CommandContext } from './run.js';

export function addAuditCommand(program: Command, { list }: CommandContext): void {
  list(program, {
    name: 'audit',
    description: 'list the audit trail: removals, bans, imports, purges and changes of secrets, oldest first',
    examples: ['audit --project app_1 --since 24h', 'audit --project app_1 --limit 20 --json'],
    takes: [
      projectOption(),
      option('--since <TIME>', 'only entries since then: 24h, 2026-01-31, 2026-01-31T12:00:00Z', parseSince),
      newestOption(),
      jsonOption(),
    ],
    params: ({ project, since = null, limit }) => ({ project, since, limit }),
    read: readEntries,
    head: ['At', 'Actor', 'Action', 'User', 'Details', 'Request'],
    cells: ({ at, actor, action, user_id, details, request_id }) => [
      at,
      actor,
      action,
      user_id ?? '',
      JSON.stringify(details),
      request_id ?? '',
    ],
    none: 'The audit trail has no entries.',
  });
}

async function* readEntries(
  { services, operator }: OperationContext,
  params: { project: string; since: string | null; limit: number },
) {
  const { audit, projects } = services;
  const scope = await projects.getScope(params.project, operator);
  const start = await audit.findStart(scope, params.since === null ? null : new Date(params.since), params.limit);
  const pages = readPages<AuditEntry>(params.limit, (last, limit) =>
    audit.listEntries(scope, last === undefined ? start : positionOf(last), limit),
  );
  for await (const page of pages) yield page.map(entryJson);
}
