import { type Command, CommanderError } from 'commander';
import { ConfigError, findMisspelt } from '../config/config.js';
import { explainFailure } from '../db/connection-failures.js';
import { AppError, redact } from '../errors.js';
import { nameProject } from './arguments.js';
import { createProgram, withoutSecrets } from './program.js';
import { ReportedFailure } from './rows.js';

/** Exit codes: 0 done, 1 refused or failed with a reason on stderr, 2 wrong usage, also a malformed value. An error may have another one. */
const FAILED = 1;
const WRONG_USAGE = 2;

/** Runs the command of the command line. */
export const main = (): Promise<void> => runProgram(createProgram(process.env, asksForJson()));

/** Also before the arguments are parsed, for an error of that. */
function asksForJson(): boolean {
  const args = process.argv.slice(2);
  return args.slice(0, args.includes('--') ? args.indexOf('--') : args.length).includes('--json');
}

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
    // After --help or --version.
    const isDone = error instanceof CommanderError && error.exitCode === 0;
    process.exitCode = isDone ? 0 : await report(error);
  }
  // Unread standard input would keep the process alive.
  process.stdin.unref?.();
}

/** Tells of an error on stderr, and returns the exit code. */
async function report(error: unknown): Promise<number> {
  if (error instanceof ReportedFailure) return error.exitCode;
  if (asksForJson()) process.stderr.write(`${JSON.stringify({ error: describe(error) })}\n`);
  else if (error instanceof ConfigError && logsJson()) await logSettings(error);
  // commander has told the others.
  else if (!(error instanceof CommanderError)) process.stderr.write(`${sentenceOf(error)}\n`);
  if (error instanceof CommanderError || (error instanceof AppError && error.code === 'BAD_USER_INPUT'))
    return WRONG_USAGE;
  return (error as { exitCode?: number }).exitCode ?? FAILED;
}

/** True for a server whose log is JSON, as it is unless it goes to a terminal. */
function logsJson(): boolean {
  return process.argv.slice(2).find((argument) => !argument.startsWith('-')) === 'serve' && !process.stderr.isTTY;
}

/** Tells of wrong settings in one line of that log. */
async function logSettings(error: ConfigError): Promise<void> {
  // Loaded only here, because other commands need no logger.
  const { createLogger } = await import('../telemetry/logger.js');
  createLogger('fatal').fatal({ settings: error.settings }, sentenceOf(error).replaceAll('\n', ' '));
}

function sentenceOf(error: unknown): string {
  if (!(error instanceof ConfigError)) return `userdir: ${redact(explainFailure(error))}`;
  // A missing setting may be set under a misspelt name.
  return [error.message, ...findMisspelt(process.env)].join('\n');
}

/** An error for a program. The codes are those of docs/errors.md, and two more. */
function describe(error: unknown): object {
  if (error instanceof CommanderError)
    return { code: 'BAD_USER_INPUT', message: withoutSecrets(error.message).replace(/^error: /, '') };
  const message = sentenceOf(error).replace(/^userdir: /, '');
  if (error instanceof ConfigError) return { code: 'INVALID_SETTINGS', message, settings: error.settings };
  if (!(error instanceof AppError)) return { code: 'FAILED', message };
  const [, argument] = (error.code === 'BAD_USER_INPUT' && /^(\S+): /.exec(message)) || [];
  return { code: error.code, message, ...(argument !== undefined && { argument }) };
}
