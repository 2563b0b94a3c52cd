import { Argument, type Command } from 'commander';
import { jsonOption, numberArgument } from './arguments.js';
import type { CommandContext } from './run.js';
import { listTable } from './terminal.js';

export function addPasskeyCommands(parent: Command, { define }: CommandContext): void {
  define(parent, {
    name: 'operator passkeys',
    description: 'list the passkeys with which operators sign in, of one or of all, the newest first',
    examples: ['operator passkeys', 'operator passkeys ada --json'],
    takes: [new Argument('[NAME]', 'the name of the person'), jsonOption()],
    params: (name: string | undefined) => ({ name: name ?? null }),
    run: async ({ services, operator }, { name }: { name: string | null }) =>
      (await services.passkeys.listPasskeysOf(operator, name)).map((passkey) => ({
        id: passkey.id,
        operator: passkey.operator,
        name: passkey.name,
        host: passkey.host,
        created_at: passkey.createdAt,
        last_used_at: passkey.lastUsedAt,
      })),
    print: (passkeys) =>
      listTable(passkeys, {
        head: ['ID', 'Operator', 'Name', 'Works at', 'Created', 'Last used'],
        cells: (each) => [
          String(each.id),
          each.operator,
          each.name,
          each.host,
          each.created_at,
          each.last_used_at ?? 'never',
        ],
        none: 'There is no passkey. Operators add theirs in the dashboard.',
      }),
  });
  define(parent, {
    name: 'operator remove-passkey',
    description: 'remove a passkey, whose sessions end at once',
    examples: ['operator remove-passkey 7'],
    takes: [numberArgument('<PASSKEY_ID>', 'the ID of the passkey, as `operator passkeys` shows it'), jsonOption()],
    run: async ({ services, operator }, { passkeyId }: { passkeyId: number }) => {
      const { id, name, operator: of } = await services.passkeys.removePasskey(operator, passkeyId);
      return { id, name, operator: of };
    },
    print: ({ id, name, operator }) => `Removed the passkey ${id} (${name}) of ${operator}.`,
  });
}
