import type { Command } from 'commander';
import { LOOPBACK } from '../config/config.js';
import { jsonOption, option } from './arguments.js';
import { graphql } from './graphql.js';
import type { CommandContext } from './rows.js';

export function addDashboardCommand(program: Command, { row }: CommandContext): void {
  row(program, {
    name: 'dashboard',
    description: 'make a link that logs an operator in to the dashboard, once, within ten minutes',
    examples: ['dashboard', 'dashboard --operator ada', 'dashboard --json'],
    takes: [
      option('--operator <NAME>', 'who logs in; without it you, and where there is no operator yet, you as admin'),
      jsonOption(),
    ],
    document: graphql(`mutation CreateLink($operator: String) {
      createLoginLink(operator: $operator) { url expires_at: expiresAt }
    }`),
    pick: ({ createLoginLink }) => createLoginLink,
    print: ({ url, expires_at }) => `${url}\n\nIt works once, until ${expires_at}.${hintOf(url)}`,
  });
}

/** Browsers bind a passkey to a name, never to an address. */
function hintOf(url: string): string {
  const { hostname } = new URL(url);
  const isAddress = hostname !== 'localhost' && LOOPBACK.test(hostname.replace(/^\[|\]$/g, ''));
  return isAddress ? `\nFor a passkey, open it at localhost instead of ${hostname}.` : '';
}
