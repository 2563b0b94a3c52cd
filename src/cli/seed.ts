import type { Command } from 'commander';
import { examples, jsonOption, parseWholeNumber, projectOption } from './arguments.js';
import { type Io, type OperationContext, progressOf } from './operation.js';
import type { CommandContext } from './run.js';
import { syntheticUsers } from './synthetic-users.js';

export function addSeedCommand(program: Command, { operation }: CommandContext): void {
  const seed = operation('seed', addSyntheticUsers);
  program
    .command('seed')
    .description('add synthetic users, the same ones for the same seed; existing users are not changed')
    .addHelpText('after', examples('seed --project app_1 --users 10000', 'seed --project app_1 --users 500 --seed 7'))
    .addOption(projectOption())
    .requiredOption('--users <N>', 'how many users', parseWholeNumber)
    .option('--seed <S>', 'a number; another number makes other users', parseWholeNumber, 1)
    .addOption(jsonOption())
    .action(async ({ project, users, seed: number, ...options }) => {
      await seed(
        { project, users, seed: number },
        {
          ...options,
          unit: 'users',
          interrupted: 'Interrupted. The users added so far remain.',
          print: (added) => `Added ${added.users} users with ${added.accounts} accounts.`,
        },
      );
    });
}

async function addSyntheticUsers(
  { services, operator }: OperationContext,
  params: { project: string; users: number; seed: number },
  { progress, signal }: Io,
) {
  const scope = await services.projects.getScope(params.project, operator);
  return services.transfers.addUsers(scope, syntheticUsers(params.users, params.seed), (done) => {
    progress(progressOf(done, params.users));
    signal.throwIfAborted();
  });
}
