import type { Command } from 'commander';
import { jsonOption, option, parseWholeNumber, projectOption, required } from './arguments.js';
import { progressOf } from './operation.js';
import type { CommandContext } from './run.js';
import { syntheticUsers } from './synthetic-users.js';

export function addSeedCommand(program: Command, { define }: CommandContext): void {
  define(program, {
    name: 'seed',
    description: 'add synthetic users, the same ones for the same seed; existing users are not changed',
    examples: ['seed --project app_1 --users 10000', 'seed --project app_1 --users 500 --seed 7'],
    takes: [
      projectOption(),
      required('--users <N>', 'how many users', parseWholeNumber),
      option('--seed <S>', 'a number; another number makes other users', parseWholeNumber).default(1),
      jsonOption(),
    ],
    unit: 'users',
    interrupted: 'Interrupted. The users added so far remain.',
    run: async ({ services, operator }, params: { project: string; users: number; seed: number }, io) => {
      const scope = await services.projects.getScope(params.project, operator);
      return services.transfers.addUsers(scope, syntheticUsers(params.users, params.seed), (done) => {
        io.progress(progressOf(done, params.users));
        io.signal.throwIfAborted();
      });
    },
    print: ({ users, accounts }) => `Added ${users} users with ${accounts} accounts.`,
  });
}
