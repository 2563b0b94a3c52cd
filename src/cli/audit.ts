import type { Command } from 'commander';
import { examples, jsonOption, parseLimit, parseSince, projectOption } from './arguments.js';
import type { OperationContext } from './operation.js';
import type { CommandContext } from './run.js';
import { table } from './terminal.js';

const DEFAULT_LIMIT = 1_000;

export function addAuditCommand(program: Command, { operation }: CommandContext): void {
  const audit = operation('audit', listEntries);
  program
    .command('audit')
    .description('list the audit trail: removals, bans, imports, purges and changes of secrets, oldest first')
    .addHelpText('after', examples('audit --project app_1 --since 24h', 'audit --project app_1 --limit 20 --json'))
    .addOption(projectOption())
    .option('--since <TIME>', 'only entries since then: 24h, 2026-01-31, 2026-01-31T12:00:00Z', parseSince)
    .option('--limit <N>', 'at most this many of the newest entries', parseLimit, DEFAULT_LIMIT)
    .addOption(jsonOption())
    .action(async ({ project, since, limit, ...options }) => {
      await audit({ project, since: since ?? null, limit }, { ...options, print: entryTable });
    });
}

async function listEntries(
  { services, operator }: OperationContext,
  params: { project: string; since: string | null; limit: number },
) {
  const scope = await services.projects.getScope(params.project, operator);
  const since = params.since === null ? null : new Date(params.since);
  const entries = await services.audit.listEntries(scope, since, params.limit);
  return entries.map(({ id, at, actor, requestId, action, userId, details }) => ({
    id,
    at,
    actor,
    request_id: requestId,
    action,
    user_id: userId,
    details,
  }));
}

function entryTable(entries: Awaited<ReturnType<typeof listEntries>>): string {
  if (entries.length === 0) return 'The audit trail has no entries.';
  return table(
    ['At', 'Actor', 'Action', 'User', 'Details', 'Request'],
    entries.map((entry) => [
      entry.at,
      entry.actor,
      entry.action,
      entry.user_id ?? '',
      JSON.stringify(entry.details),
      entry.request_id ?? '',
    ]),
  );
}
