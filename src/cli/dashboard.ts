import type { Command } from 'commander';
import { LOOPBACK } from '../config/config.js';
import { AppError } from '../errors.js';
import { jsonOption, option } from './arguments.js';
import type { OperationContext } from './operation.js';
import type { CommandContext } from './run.js';

export function addDashboardCommand(program: Command, { define }: CommandContext): void {
  define(program, {
    name: 'dashboard',
    description: 'make a link that logs an operator in to the dashboard, once, within ten minutes',
    examples: ['dashboard', 'dashboard --operator ada', 'dashboard --json'],
    takes: [
      option('--operator <NAME>', 'who logs in; without it you, and where there is no operator yet, you as admin'),
      jsonOption(),
    ],
    params: ({ operator = null }) => ({ name: operator }),
    run: makeLink,
    print: ({ url, expires_at }) => `${url}\n\nIt works once, until ${expires_at}.${hintOf(url)}`,
  });
}

/** Browsers bind a passkey to a name, never to an address. */
function hintOf(url: string): string {
  const { hostname } = new URL(url);
  const isAddress = hostname !== 'localhost' && LOOPBACK.test(hostname.replace(/^\[|\]$/g, ''));
  return isAddress ? `\nFor a passkey, open it at localhost instead of ${hostname}.` : '';
}

/** A link for an operator, or (null) for the person who runs the command, who is added where there is no operator yet. */
export async function makeLink(
  { services, operator, dashboardUrl }: Pick<OperationContext, 'services' | 'operator' | 'dashboardUrl'>,
  { name }: { name: string | null },
) {
  if (dashboardUrl === null) {
    const message = 'The dashboard is off: set DASHBOARD=on, for the service and for this command.';
    throw new AppError('CONFLICT', message);
  }
  const { token, expiresAt } =
    name === null
      ? await services.operators.createFirstLink(operator)
      : await services.operators.createLink(operator, name);
  return { url: `${dashboardUrl}#login=${token}`, expires_at: expiresAt };
}
