import { type Command, CommanderError } from 'commander';
import { ConfigError, findMisspelt } from '../config/config.js';
import { AppError, redact } from '../errors.js';
import { nameProject } from './arguments.js';
import { ReportedFailure } from './present.js';
import { createProgram } from './program.js';
import { explainFailure } from './terminal.js';

/** Exit codes: 0 done, 1 refused or failed with a reason on stderr, 2 wrong usage, also a malformed value. An error may have another one. */
const FAILED = 1;
const WRONG_USAGE = 2;

/** Runs the command of the command line. */
export const main = (): Promise<void> => runProgram(createProgram(process.env));

/** Runs what the command line asks of a program. */
export async function runProgram(program: Command): Promise<void> {
  // A reader that closes the pipe early (`| head`) is not a failure.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : FAILED));

  // Files in DATA_DIR are readable for this system user only, from their creation on.
  process.umask(0o077);

  // Some libraries let FORCE_COLOR override NO_COLOR.
  if (process.env['NO_COLOR'] || process.argv.includes('--no-color')) {
    process.env['NO_COLOR'] = '1';
    delete process.env['FORCE_COLOR'];
  }

  try {
    await program.parseAsync(nameProject(program, process.argv.slice(2)), { from: 'user' });
  } catch (error) {
    process.exitCode = report(error);
  }
  // Unread standard input would keep the process alive.
  process.stdin.unref?.();
}

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  if (error instanceof ReportedFailure) return error.exitCode;
  // A missing setting may be set under a misspelt name.
  if (error instanceof ConfigError)
    process.stderr.write(`${[error.message, ...findMisspelt(process.env)].join('\n')}\n`);
  else process.stderr.write(`userdir: ${redact(explainFailure(error))}\n`);
  if (error instanceof AppError && error.code === 'BAD_USER_INPUT') return WRONG_USAGE;
  return (error as { exitCode?: number }).exitCode ?? FAILED;
}
