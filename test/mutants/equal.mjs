/**
 * Changes that are equal in effect: no caller could tell them apart. `file` and a piece of the line, what stands there and what is put in
 * its place, as `npm run mutants` prints them, and why.
 */
export const EQUAL = [
  {
    file: 'src/users/import-report.ts',
    line: 'isRest(one) - isRest(other)',
    from: '0',
    to: '1',
    why: 'Each kind has at least one line.',
  },
  {
    file: 'src/users/transfers.ts',
    line: 'batch.length % ITEMS_PER_TICK',
    from: '0',
    to: '1',
    why: 'When others have a turn, not whether.',
  },
  {
    file: 'src/feed/publisher-leader.ts',
    line: 'if (ms < MIN_SETTLE_MS * 4) continue;',
    from: '*',
    to: '/',
    why: 'How soon it looks for writers.',
  },
  {
    file: 'src/feed/publisher-leader.ts',
    line: 'const LEADERLESS_WAIT_MS = 5_000;',
    from: '5_000',
    to: '5001',
    why: 'A millisecond of a pause.',
  },
  {
    file: 'src/feed/pruning.ts',
    line: 'const PRUNE_INTERVAL_MS = 600_000;',
    from: '600_000',
    to: '600001',
    why: 'A millisecond of a pause.',
  },
  {
    file: 'src/feed/webhook-turn.ts',
    line: 'performance.now() - startedAt > limits.turnMs',
    from: '>',
    to: '>=',
    why: 'An instant of a clock that has fractions of a millisecond.',
  },
  {
    file: 'src/domain/bans.ts',
    line: "const end = isTooLong('date', text) ? null",
    from: "isTooLong('date', text)",
    to: 'false',
    why: 'No date is so long: it would be refused after it was read.',
  },
  {
    file: 'src/db/batched-read.ts',
    line: 'if (batchChannel.hasSubscribers)',
    from: 'batchChannel.hasSubscribers',
    to: 'true',
    why: 'Nobody hears what is published without subscribers.',
  },
  {
    file: 'src/db/batched-read.ts',
    line: 'const isLight = sum(weights) <= MAX_WEIGHT;',
    from: '<=',
    to: '<',
    why: 'Keys that weigh as much as one statement may are split into one.',
  },
  {
    file: 'src/db/write-plan.ts',
    line: 'counts.set(call.key.projectId, turn + 1);',
    from: '1',
    to: '2',
    why: 'Turns that no call has are left out.',
  },
  {
    file: 'src/engine/compiled.ts',
    line: "return error === TOO_LARGE ? 'too large'",
    from: 'error === TOO_LARGE',
    to: 'false',
    why: 'GraphQL.js writes the answer again, from the same rows, and refuses it too.',
  },
  {
    file: 'src/db/standby-checks.ts',
    line: 'createLagMeter(2 * maxLagMs)',
    from: '2',
    to: '3',
    why: 'How long positions are kept that are too old to count.',
  },
  {
    file: 'src/db/standby-checks.ts',
    line: 'export const CHECK_MS = 250;',
    from: '250',
    to: '251',
    why: 'A millisecond of a pause.',
  },
  {
    file: 'dist/client/transport.js',
    line: 'Math.min(10_000, 200 * 2 ** failures)',
    from: '10_000',
    to: '10001',
    why: 'A millisecond of a pause that is made by chance.',
  },
];
