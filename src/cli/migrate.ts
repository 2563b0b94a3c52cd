import type { Command } from 'commander';
import { examples, jsonOption } from './arguments.js';
import type { CommandContext } from './run.js';

export function addMigrateCommand(program: Command, { operation }: CommandContext): void {
  // Every operation opens the database first, which applies the missing migrations.
  const migrate = operation('migrate', async ({ applied }) => ({ applied }));
  program
    .command('migrate')
    .description('apply the migrations that the database lacks')
    .addHelpText('after', examples('migrate'))
    .addOption(jsonOption())
    .action(async (options) => {
      const print = ({ applied }: { applied: readonly string[] }) =>
        applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`;
      await migrate({}, { ...options, print });
    });
}
