import type { Command } from 'commander';
import { parseIdentity, snakeCase } from '../domain/identities.js';
import { examples, jsonOption, parseLimit, projectOption } from './arguments.js';
import { type OperationContext, PAGE_ROWS } from './operation.js';
import type { CommandContext } from './run.js';
import { writeNotice } from './terminal.js';

/** The bans of a project, and the identities in them. */
export function addBanCommands(user: Command, { operation, list }: CommandContext): void {
  const setBanned = (name: string, description: string, banned: boolean) => {
    const run = operation(`user ${name}`, (context, params: BanParams) => changeBan(context, params, banned));
    user
      .command(name)
      .description(description)
      .addHelpText('after', examples(`user ${name} --project app_1 --method email --value eve@example.com`))
      .addOption(projectOption())
      .requiredOption('--method <METHOD>', 'email, passkey, wallet, or the name of a social provider')
      .requiredOption('--value <VALUE>', 'the login email, the address, or the ID at the provider')
      .addOption(jsonOption())
      .action(async ({ project, method, value, ...options }) => {
        await run({ project, method, value }, { ...options, print: banReport });
      });
  };
  setBanned('ban', 'refuse logins and registrations of an identity', true);
  setBanned('unban', 'lift a ban', false);
  const listBans = list('user bans', readBans);
  user
    .command('bans')
    .description('list banned identities, oldest ban first')
    .addHelpText(
      'after',
      examples('user bans --project app_1 --search eve@', 'user bans --project app_1 --limit 100 --json'),
    )
    .addOption(projectOption())
    .option('--search <TEXT>', 'only identities whose value contains this text')
    .option('--limit <N>', 'one page of at most this many; without it, all', parseLimit)
    .option('--after <CURSOR>', 'the page after an earlier one, which told its cursor on stderr')
    .addOption(jsonOption())
    .action(async ({ project, search, limit, after, ...options }) => {
      const { next } = await listBans(
        { project, search: search ?? null, limit: limit ?? null, after: after ?? null },
        {
          ...options,
          head: ['Method', 'Value', 'Since'],
          cells: (ban) => [ban.auth_method, ban.auth_value, ban.created_at],
          none: 'No identity is banned.',
        },
      );
      if (next !== null) writeNotice(`There are more bans. The next page: --after ${next}`);
    });
}

interface BanParams {
  readonly project: string;
  readonly method: string;
  readonly value: string;
}

async function changeBan(
  { services, operator }: OperationContext,
  { project, method, value }: BanParams,
  banned: boolean,
) {
  const scope = await services.projects.getScope(project, operator);
  const identity = parseIdentity({ authMethod: method, authValue: value }, snakeCase);
  if (banned) await services.logins.ban(scope, identity);
  else await services.logins.unban(scope, identity);
  return { auth_method: identity.authMethod, auth_value: identity.authValue, banned };
}

async function* readBans(
  { services, operator }: OperationContext,
  {
    project,
    search,
    limit,
    after,
  }: { project: string; search: string | null; limit: number | null; after: string | null },
) {
  const scope = await services.projects.getScope(project, operator);
  let left = limit ?? Number.POSITIVE_INFINITY;
  let next = after;
  do {
    const size = Math.min(left, PAGE_ROWS);
    const page = await services.logins.listBans(scope, { after: next, limit: size, order: 'oldest first', search });
    yield page.bans.map(({ authMethod, authValue, createdAt }) => ({
      auth_method: authMethod,
      auth_value: authValue,
      created_at: createdAt,
    }));
    left -= page.bans.length;
    next = page.next;
  } while (next !== null && left > 0);
  return next;
}

function banReport({ auth_method, auth_value, banned }: Awaited<ReturnType<typeof changeBan>>): string {
  return `${auth_method} ${auth_value} is ${banned ? 'banned' : 'not banned'}.`;
}
