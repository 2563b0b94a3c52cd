#!/usr/bin/env node
import { CommanderError } from 'commander';
import { reason } from './cli/output.js';
import { createProgram } from './cli/program.js';
import { Refused } from './cli/run.js';
import { ConfigError } from './config/config.js';
import { findMisspelt } from './config/setting-names.js';

/** Exit codes: 0 done, 1 refused or failed with a reason on stderr, 2 wrong usage. */
const FAILED = 1;
const WRONG_USAGE = 2;

// A reader that has had enough (`| head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : FAILED));

// Whatever is made in DATA_DIR is for this system user alone, from the moment at which it is there.
process.umask(0o077);

// For everything that colours, of which some would let FORCE_COLOR win.
if (process.env['NO_COLOR'] || process.argv.includes('--no-color')) {
  process.env['NO_COLOR'] = '1';
  delete process.env['FORCE_COLOR'];
}

try {
  await createProgram(process.env).parseAsync();
} catch (error) {
  process.exitCode = report(error);
}
// Standard input that nobody reads to its end would keep the process.
process.stdin.unref?.();

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  if (error instanceof Refused) return FAILED;
  // What is missing may be there under another name.
  if (error instanceof ConfigError)
    process.stderr.write(`${[error.message, ...findMisspelt(process.env)].join('\n')}\n`);
  else process.stderr.write(`userdir: ${reason(error)}\n`);
  return FAILED;
}
