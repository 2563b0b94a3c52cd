import { createReadStream } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import { addAbortSignal, type Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import type { Config } from '../config.js';
import { DataDirLockedError } from '../db/lock.js';
import { createDirectory, type Directory } from '../directory.js';
import type { OnConflict } from '../sql/import-users.js';
import { VERSION } from '../version.js';
import { duration, wholeNumber } from './arguments.js';
import { NotListeningError, runRemotely } from './control.js';
import { type Io, type OperationName, type Params, type Result, runOperation } from './operations.js';
import { importReport, progressBar, totalsReport, writeToStdout } from './output.js';
import { addAuditCommand, addProjectCommands } from './project-commands.js';

/** Something went wrong that the report on stdout already tells; the exit code is 1. */
export class Refused extends Error {}

const LOCK_WAIT_MS = 5_000;
/** A server that has just taken the data directory may still be making its database; one that closes leaves it soon. */
const SERVER_WAIT_MS = 30_000;
const RETRY_MS = 200;

const SETTINGS_HELP = `
Settings are environment variables; the README lists all:
  DATABASE_URL  a PostgreSQL database (postgres://…); without it, the embedded one
  DATA_DIR      where the embedded database is kept (default: ./data)
  HOST, PORT    where serve listens (default: 127.0.0.1, 4000)
  LOG_LEVEL     how much serve logs (default: info)

Exit codes: 0 done, 1 refused or failed, 2 wrong usage.`;

const IMPORT_HELP = `
One JSON object a line; auth_method and auth_value are required:
  {"auth_method":"email","auth_value":"ada@example.com"}
  {"auth_method":"google","auth_value":"1234","email":"ada@example.com",
   "created_at":"2026-01-31T12:00:00Z","last_login":null,"login_count":3,
   "accounts":[{"network":"stellar","public_key":"G…"}]}   (on one line)`;

/** The operator's command: its words, its helps, and how each result looks to a person. */
export function createProgram(readConfig: () => Config): Command {
  const program = new Command('userdir')
    .description('The user directory of many projects, over GraphQL and REST.')
    .version(VERSION)
    .addHelpText('after', SETTINGS_HELP)
    .showHelpAfterError('(add --help for what is accepted)')
    .exitOverride();
  const json = () => new Option('--json', 'print one JSON value on stdout');
  const project = () => new Option('--project <APP_ID>', 'the App ID of the project').makeOptionMandatory();

  async function run<Name extends OperationName>(
    name: Name,
    params: Params<Name>,
    options: Presentation<Result<Name>>,
  ): Promise<Result<Name>> {
    const config = readConfig();
    const interruption = new AbortController();
    const { signal } = interruption;
    const interrupt = () => interruption.abort(new Error(options.interrupted ?? 'Interrupted.'));
    // The first Ctrl+C ends the operation in good order, a second one the process.
    process.once('SIGINT', interrupt);
    const bar = progressBar(options.unit);
    const result = await reach(config, name, params, {
      input: options.input === undefined ? nothing() : addAbortSignal(signal, options.input),
      write: writeToStdout,
      progress: bar.update,
      signal,
    })
      .catch((error) => {
        throw signal.aborted ? signal.reason : error;
      })
      .finally(() => {
        bar.stop();
        process.off('SIGINT', interrupt);
      });
    const text = options.json ? JSON.stringify(result) : options.print(result);
    if (text !== '') process.stdout.write(`${text}\n`);
    return result;
  }

  program
    .command('serve')
    .description('serve GraphQL and REST until a signal comes')
    .addHelpText('after', SETTINGS_HELP)
    .addOption(json())
    .action(async (options) => {
      // Loaded when it is wanted: every other command starts in half the time without it.
      const { serve } = await import('./serve.js');
      await serve(readConfig(), options.json === true);
    });

  program
    .command('migrate')
    .description('apply the migrations that the database does not have yet')
    .addOption(json())
    .action(async (options) => {
      await run('migrate', undefined as never, {
        ...options,
        print: ({ applied }) =>
          applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`,
      });
    });

  addProjectCommands(program, run);

  const users = program.command('user').description('import, export, remove, purge and ban users');
  users
    .command('import')
    .description('import users from NDJSON, all or nothing')
    .addHelpText('after', IMPORT_HELP)
    .argument('[FILE]', 'a file, or - for standard input', '-')
    .addOption(project())
    .addOption(
      new Option('--on-conflict <WHAT>', 'what to do with a user who exists')
        .choices(['skip', 'update', 'fail'])
        .default('fail'),
    )
    .option('--skip-invalid', 'import the good lines and report the bad ones')
    .addOption(json())
    .action(async (file: string, { project: appId, onConflict, skipInvalid, ...options }) => {
      const input = await openInput(file);
      const report = await run(
        'user import',
        { project: appId, onConflict: onConflict as OnConflict, skipInvalid: skipInvalid === true },
        {
          ...options,
          input,
          unit: 'lines',
          interrupted: skipInvalid
            ? 'Interrupted; users imported so far stay. Import the file again with --on-conflict skip to add the rest.'
            : 'Interrupted; an import that was not complete leaves nothing.',
          print: importReport,
        },
      );
      if (report.failed > 0 && skipInvalid !== true) throw new Refused();
    });
  users
    .command('export')
    .description('write all users as NDJSON to stdout, from one snapshot, as import reads them')
    .addOption(project())
    .addOption(json().hideHelp())
    .action(async ({ project: appId }) => {
      const { exported } = await run(
        'user export',
        { project: appId },
        {
          unit: 'users',
          interrupted: 'Interrupted; the export is incomplete.',
          print: () => '',
        },
      );
      process.stderr.write(`Exported ${exported} users.\n`);
    });
  users
    .command('remove')
    .description('remove a user from the project; the user may register again')
    .argument('<USER_ID>', 'the user ID')
    .addOption(project())
    .addOption(json())
    .action(async (userId: string, { project: appId, ...options }) => {
      await run('user remove', { project: appId, userId }, { ...options, print: ({ id }) => `Removed user ${id}.` });
    });
  users
    .command('purge')
    .description('erase removed users for good')
    .requiredOption('--older-than <TIME>', 'only those removed longer ago than this, such as 30d', duration)
    .option('--project <APP_ID>', 'only those of this project')
    .addOption(json())
    .action(async ({ project: appId, olderThan, ...options }) => {
      await run(
        'user purge',
        { project: appId ?? null, olderThanMs: olderThan },
        {
          ...options,
          unit: 'users',
          interrupted: 'Interrupted; users erased so far stay erased.',
          print: ({ purged }) => `Erased ${purged} removed users.`,
        },
      );
    });
  for (const [word, description] of [
    ['ban', 'refuse every login and registration of an identity from now on'],
    ['unban', 'lift a ban'],
  ] as const) {
    users
      .command(word)
      .description(description)
      .addOption(project())
      .requiredOption('--method <METHOD>', 'email, passkey, wallet, or the name of a social provider')
      .requiredOption('--value <VALUE>', 'the login email, the address, or the id at the provider')
      .addOption(json())
      .action(async ({ project: appId, method, value, ...options }) => {
        await run(
          `user ${word}`,
          { project: appId, method, value },
          {
            ...options,
            print: (identity) =>
              `${identity.auth_method} ${identity.auth_value} is ${identity.banned ? 'banned' : 'not banned'}.`,
          },
        );
      });
  }

  addAuditCommand(program, run);

  program
    .command('totals')
    .description('the tallies from which exact totals are read')
    .command('check')
    .description('count all users again and report where the tallies say otherwise')
    .option('--project <APP_ID>', 'only those of this project')
    .option('--repair', 'make the tallies say what the users do')
    .addOption(json())
    .action(async ({ project: appId, repair, ...options }) => {
      const { differences } = await run(
        'totals check',
        { project: appId ?? null, repair: repair === true },
        { ...options, unit: 'projects', print: totalsReport },
      );
      if (differences.length > 0 && repair !== true) throw new Refused();
    });

  program
    .command('seed')
    .description('add made-up users, the same for the same seed; those who exist are left as they are')
    .addOption(project())
    .requiredOption('--users <N>', 'how many', wholeNumber)
    .option('--seed <S>', 'a number; another one makes other users', wholeNumber, 1)
    .addOption(json())
    .action(async ({ project: appId, users: count, seed, ...options }) => {
      await run(
        'seed',
        { project: appId, users: count, seed },
        {
          ...options,
          unit: 'users',
          interrupted: 'Interrupted; users added so far stay.',
          print: (added) => `Added ${added.users} users with ${added.accounts} accounts.`,
        },
      );
    });
  return program;
}

/** Runs an operation where the database can be reached, and prints its result for a person or as JSON. */
export type Run = <Name extends OperationName>(
  name: Name,
  params: Params<Name>,
  options: Presentation<Result<Name>>,
) => Promise<Result<Name>>;

interface Presentation<Result> {
  readonly json?: boolean;
  readonly input?: Readable;
  /** What the progress counts; without it none is shown. */
  readonly unit?: string;
  /** What is said where Ctrl+C ended the operation. */
  readonly interrupted?: string;
  readonly print: (result: Result) => string;
}

/** Here, or in the server that holds the embedded database. */
async function reach<Name extends OperationName>(
  config: Config,
  name: Name,
  params: Params<Name>,
  io: Io,
): Promise<Result<Name>> {
  const directory = createDirectory(config, { command: `userdir ${name}`, lockWaitMs: LOCK_WAIT_MS });
  const deadline = Date.now() + SERVER_WAIT_MS;
  try {
    for (;;) {
      const opened = await openOrFindServer(directory);
      io.signal.throwIfAborted();
      if ('applied' in opened) {
        return await runOperation({ services: directory.services, applied: opened.applied }, name, params, io);
      }
      try {
        return await runRemotely(opened.socket, name, params, io);
      } catch (error) {
        if (!(error instanceof NotListeningError) || Date.now() >= deadline) throw error;
      }
      await sleep(RETRY_MS);
    }
  } finally {
    await directory.close();
  }
}

/** Opens the directory; where a server holds it, the socket on which that server takes commands. */
async function openOrFindServer(directory: Directory): Promise<{ applied: string[] } | { socket: string }> {
  try {
    return { applied: await directory.open() };
  } catch (error) {
    const socket = error instanceof DataDirLockedError ? error.holder.controlSocket : undefined;
    if (socket === undefined) throw error;
    return { socket };
  }
}

async function openInput(file: string): Promise<Readable> {
  if (file === '-') {
    if (process.stdin.isTTY) process.stderr.write('Reading users from standard input; Ctrl+D ends it.\n');
    return process.stdin;
  }
  await access(file, constants.R_OK).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : 'cannot be read';
    throw new Error(`The file ${file} ${why}.`);
  });
  if ((await stat(file)).isDirectory()) throw new Error(`${file} is a directory, not a file.`);
  return createReadStream(file);
}

async function* nothing(): AsyncGenerator<Buffer> {
  // An operation without input.
}
