import type { Command } from 'commander';
import { jsonOption } from './arguments.js';
import type { CommandContext } from './run.js';

export function addMigrateCommand(program: Command, { define }: CommandContext): void {
  define(program, {
    name: 'migrate',
    description: 'apply the migrations that the database lacks',
    examples: ['migrate'],
    takes: [jsonOption()],
    // Every operation opens the database first, which applies the missing migrations.
    run: async ({ applied }) => ({ applied }),
    print: ({ applied }) => (applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`),
  });
}
