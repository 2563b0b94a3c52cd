import { text } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { read } from 'read';
import type { Environment } from '../config/config.js';
import { readSecretFiles } from '../config/secret-files.js';
import type { Report, Verdict } from '../conformance/run.js';
import { examples, jsonOption, parseDuration, parseList, parseServerUrl, parseUserId } from './arguments.js';
import { type CommandContext, ReportedFailure } from './run.js';
import { formatFinding, paint } from './terminal.js';

const DEFAULT_TIMEOUT_MS = 120_000;
const SECRET = 'USERDIR_APP_SECRET';
const OTHER_SECRET = 'USERDIR_OTHER_APP_SECRET';

const HELP = `
Without --write, no DELETE is sent with valid credentials. With --write, DELETE is
sent for users that do not exist and for the user of --delete-user, for no others.
With a second project (--other-app-id), the separation of projects is checked too.
Checks that the users of the project give no data for are skipped.

The App Secret is read from ${SECRET}, from standard input with
--app-secret -, or from a prompt. As an argument, other users of this machine can
read it. That of the second project is read from ${OTHER_SECRET}.
The secret must have all scopes.
${examples(
  'conformance http://127.0.0.1:4000 --app-id app_1',
  'conformance https://users.example.com --app-id app_1 --only list,filters',
  'conformance http://127.0.0.1:4000 --app-id app_1 --write --delete-user 42',
)}`;

export function addConformanceCommand(program: Command, { env }: CommandContext): void {
  program
    .command('conformance')
    .description('check a server, this one or any other, against the REST contract')
    .addHelpText('after', HELP)
    .argument('<URL>', 'the base URL of the server', parseServerUrl)
    .requiredOption('--app-id <APP_ID>', 'the App ID of the project')
    .option('--app-secret <SECRET>', 'its App Secret, or - for standard input')
    .option('--other-app-id <APP_ID>', 'the App ID of a second project on the same server')
    .option('--write', 'also run the checks that send DELETE')
    .option('--delete-user <ID>', 'with --write: a user that may be deleted', parseUserId)
    .option('--only <IDS>', 'only these checks or groups, such as list,verify/negative,search/email*', parseList)
    .addOption(
      new Option('--timeout <TIME>', 'when to stop').argParser(parseDuration).default(DEFAULT_TIMEOUT_MS, '2m'),
    )
    .addOption(jsonOption())
    .action(async (url: string, options, command: Command) => {
      // Imported here, because other commands do not need the checks.
      const { checkConformance, chooseChecks, GROUPS } = await import('../conformance/run.js');
      if (options.deleteUser !== undefined && !options.write) command.error('error: --delete-user needs --write');
      const { checks, unknown } = chooseChecks(options.only ?? ['*']);
      if (unknown.length > 0)
        command.error(`error: there is no check '${unknown.join("', '")}'; the groups are ${GROUPS.join(', ')}`);
      const files = readSecretFiles(env, [SECRET, OTHER_SECRET]);
      if (files.faults.length > 0) command.error(`error: ${files.faults.map(({ sentence }) => sentence).join('\n')}`);
      const secrets = { ...env, ...files.values };
      const target = {
        url,
        appId: options.appId,
        appSecret: await findSecret(options.appSecret, secrets, command),
        other: findOther(options.otherAppId, secrets, command),
        write: options.write === true,
        deleteUser: options.deleteUser ?? null,
        signal: AbortSignal.timeout(options.timeout),
      };
      const report = await checkConformance(target, checks, options.json ? () => undefined : createReporter());
      process.stdout.write(`${options.json ? JSON.stringify(report) : summary(report)}\n`);
      if (report.failed > 0 || !report.complete) throw new ReportedFailure();
    });
}

async function findSecret(given: string | undefined, env: Environment, command: Command): Promise<string> {
  if (given === '-') return (await text(process.stdin)).trim();
  const secret = given ?? env[SECRET];
  if (secret) return secret;
  if (process.stdin.isTTY) return promptForSecret();
  return command.error(
    `error: the App Secret is missing: set ${SECRET}, or pass --app-secret - and write the secret to standard input`,
  );
}

async function promptForSecret(): Promise<string> {
  const secret = await read({ prompt: 'App Secret: ', silent: true, output: process.stderr });
  // The Enter key was not echoed either.
  process.stderr.write('\n');
  return secret;
}

function findOther(appId: string | undefined, env: Environment, command: Command) {
  if (appId === undefined) return null;
  const appSecret = env[OTHER_SECRET];
  if (!appSecret) return command.error(`error: the App Secret of ${appId} is missing: set ${OTHER_SECRET}`);
  return { appId, appSecret };
}

/** Writes each verdict as it arrives, below the name of its group. */
function createReporter(): (verdict: Verdict) => void {
  let group = '';
  return (verdict) => {
    const [groupOfCheck = ''] = verdict.id.split('/');
    if (groupOfCheck !== group) process.stdout.write(`${group === '' ? '' : '\n'}${paint('bold', groupOfCheck)}\n`);
    group = groupOfCheck;
    process.stdout.write(`${verdictText(verdict)}\n`);
  };
}

function verdictText(verdict: Verdict): string {
  const { status, id: name, sentence } = verdict;
  if (status === 'passed') return formatFinding({ status, name, text: sentence });
  if (status === 'skipped') return formatFinding({ status, name, text: `skipped: ${verdict.reason}` });
  const { request, expected, arrived } = verdict;
  const details = [`asked     ${request}`, `expected  ${expected}`, `arrived   ${arrived}`];
  return formatFinding({ status, name, text: sentence, details });
}

function summary({ passed, failed, skipped, complete }: Report): string {
  const counts = [
    paint('green', `${passed} passed`),
    failed === 0 ? '0 failed' : paint('red', `${failed} failed`),
    `${skipped} skipped`,
  ];
  return `\n${counts.join(', ')}${complete ? '' : '; stopped by --timeout'}`;
}
