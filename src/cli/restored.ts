import type { Command } from 'commander';
import { jsonOption } from './arguments.js';
import type { CommandContext } from './run.js';

const HELP = `
A restore of a dump is noticed without it. It is for what cannot be told from a restart, such as a snapshot of the disk that was put back.`;

export function addRestoredCommand(program: Command, { define }: CommandContext): void {
  define(program, {
    name: 'restored',
    description:
      'say that this database was restored: new IDs begin far beyond the known ones, and webhooks are paused',
    help: HELP,
    examples: ['restored'],
    takes: [jsonOption()],
    run: async ({ services }) => {
      await services.changes.recognise('restored');
      return { restored_at: await services.changes.findRestore() };
    },
    print: ({ restored_at }) =>
      `Noted at ${restored_at}: new IDs begin far beyond the known ones, and webhooks are paused.`,
  });
}
