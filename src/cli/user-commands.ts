import { createReadStream } from 'node:fs';
import { access, constants, stat } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import type { OnConflict } from '../sql/import-users.js';
import { duration, examples, json, project } from './arguments.js';
import { banTable, counted, importReport } from './output.js';
import { Refused, type Run } from './run.js';

/** The words for users. */

const IMPORT_HELP = `
One JSON object a line; auth_method and auth_value are required:
  {"auth_method":"email","auth_value":"ada@example.com"}
  {"auth_method":"google","auth_value":"1234","email":"ada@example.com",
   "created_at":"2026-01-31T12:00:00Z","last_login":null,"login_count":3,
   "accounts":[{"network":"stellar","public_key":"G…"}]}   (on one line)
A ban is a line of its own:
  {"ban":{"auth_method":"email","auth_value":"eve@example.com","created_at":null}}`;

export function addUserCommands(program: Command, run: Run): void {
  const users = program.command('user').description('import, export, remove, purge and ban users');
  users
    .command('import')
    .description('import users from NDJSON, all or nothing')
    .addHelpText('after', IMPORT_HELP)
    .addHelpText(
      'after',
      examples(
        'user import --project app_1 users.ndjson',
        'user import --project app_1 --on-conflict update - < users.ndjson',
      ),
    )
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
      const opened = await openInput(file);
      const report = await run(
        'user import',
        { project: appId, onConflict: onConflict as OnConflict, skipInvalid: skipInvalid === true },
        {
          ...options,
          ...opened,
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
    .description('write all users and bans as NDJSON to stdout, from one snapshot, as import reads them')
    .addHelpText('after', examples('user export --project app_1 > users.ndjson'))
    .addOption(project())
    .addOption(json().hideHelp())
    .action(async ({ project: appId }) => {
      const { exported, bans } = await run(
        'user export',
        { project: appId },
        {
          unit: 'users',
          interrupted: 'Interrupted; the export is incomplete.',
          print: () => '',
        },
      );
      process.stderr.write(`Exported ${exported} users${bans === 0 ? '' : ` and ${counted(bans, 'ban')}`}.\n`);
    });
  users
    .command('remove')
    .description('remove a user from the project; the user may register again')
    .addHelpText('after', examples('user remove --project app_1 42'))
    .argument('<USER_ID>', 'the user ID')
    .addOption(project())
    .addOption(json())
    .action(async (userId: string, { project: appId, ...options }) => {
      await run('user remove', { project: appId, userId }, { ...options, print: ({ id }) => `Removed user ${id}.` });
    });
  users
    .command('purge')
    .description('erase removed users for good')
    .addHelpText('after', examples('user purge --older-than 30d', 'user purge --older-than 0s --project app_1'))
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
      .addHelpText('after', examples(`user ${word} --project app_1 --method email --value eve@example.com`))
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
  users
    .command('bans')
    .description('list who is banned, oldest ban first')
    .addHelpText('after', examples('user bans --project app_1', 'user bans --project app_1 --json'))
    .addOption(project())
    .addOption(json())
    .action(async ({ project: appId, ...options }) => {
      await run('user bans', { project: appId }, { ...options, print: banTable });
    });
}

async function openInput(file: string): Promise<{ input: Readable; inputBytes?: number }> {
  if (file === '-') {
    if (process.stdin.isTTY) process.stderr.write('Reading users from standard input; Ctrl+D ends it.\n');
    return { input: process.stdin };
  }
  await access(file, constants.R_OK).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : 'cannot be read';
    throw new Error(`The file ${file} ${why}.`);
  });
  const found = await stat(file);
  if (found.isDirectory()) throw new Error(`${file} is a directory, not a file.`);
  // A pipe has no size.
  return { input: createReadStream(file), ...(found.isFile() && { inputBytes: found.size }) };
}
