#!/usr/bin/env node
import { CommanderError } from 'commander';
import { createProgram, Refused } from './cli/program.js';
import { ConfigError, parseConfig } from './config.js';
import { AppError } from './errors.js';

/** Exit codes: 0 done, 1 refused or failed with a reason on stderr, 2 wrong usage. */
const FAILED = 1;
const WRONG_USAGE = 2;

// A reader that has had enough (`| head`) is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : FAILED));

try {
  await createProgram(() => parseConfig(process.env)).parseAsync();
} catch (error) {
  process.exitCode = report(error);
}
// Standard input that nobody reads to its end would keep the process.
process.stdin.unref?.();

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : WRONG_USAGE;
  if (error instanceof Refused) return FAILED;
  if (error instanceof ConfigError) process.stderr.write(`${error.message}\n`);
  else process.stderr.write(`userdir: ${reason(error)}\n`);
  return FAILED;
}

/** One line. Of a failed query Prisma's message has the source around it, and what went wrong in its last line. */
function reason(error: unknown): string {
  const cause = error instanceof AppError && error.code === 'INTERNAL_SERVER_ERROR' ? error.cause : error;
  if (cause instanceof AggregateError) return cause.errors.map(reason).join('; ');
  const { code = '', syscall = '' } = cause as NodeJS.ErrnoException;
  if (['connect', 'getaddrinfo'].includes(syscall)) {
    return `The database of DATABASE_URL cannot be reached: ${(cause as Error).message || code}.`;
  }
  const lines = (cause instanceof Error ? cause.message : String(cause))
    .split('\n')
    .filter((line) => line.trim() !== '');
  return lines.at(-1) ?? 'It failed without a reason.';
}
