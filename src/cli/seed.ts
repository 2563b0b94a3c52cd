import type { Command } from 'commander';
import { jsonOption, option, parseWholeNumber, projectOption, required } from './arguments.js';
import { graphql, type ResultOf } from './graphql.js';
import type { CommandContext, Tools } from './rows.js';
import { progressOf } from './terminal.js';

export function addSeedCommand(program: Command, { act }: CommandContext): void {
  act(program, {
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
    act: addParts,
    print: ({ users, accounts }) => `Added ${users} users with ${accounts} accounts.`,
  });
}

const SEED = graphql(`mutation Seed($project: ID!, $users: Int!, $seed: Int!, $after: String) {
  seedUsers(appId: $project, users: $users, seed: $seed, after: $after) { users accounts done next }
}`);

async function addParts(
  { ask, progress, signal }: Tools,
  params: { readonly project: string; readonly users: number; readonly seed: number },
) {
  const added = { users: 0, accounts: 0 };
  for (let after: string | null = null; ; ) {
    const data: ResultOf<typeof SEED> = await ask(SEED, { ...params, after });
    const { users, accounts, done, next } = data.seedUsers;
    added.users += users;
    added.accounts += accounts;
    progress(progressOf(done, params.users));
    signal.throwIfAborted();
    if (next === null) return added;
    after = next;
  }
}
