import { text } from 'node:stream/consumers';
import { Command, Option } from 'commander';
import { jsonOption, parseDuration, parseList, parseServerUrl, parseUserId } from '#dist/cli/arguments.js';
import { runProgram } from '#dist/cli/main.js';
import { ReportedFailure } from '#dist/cli/run.js';
import { formatFinding, paint } from '#dist/cli/terminal.js';
import type { Environment } from '#dist/config/config.js';
import { readSecretFiles } from '#dist/config/secret-files.js';
import { checkConformance, chooseChecks, GROUPS, type Report, type Verdict } from './run.js';

/** `npm run conformance -- URL`: checks a server, ours or any other, against the REST contract. */

const DEFAULT_TIMEOUT_MS = 120_000;
const SECRET = 'USERDIR_APP_SECRET';
const OTHER_SECRET = 'USERDIR_OTHER_APP_SECRET';

const HELP = `
Without --write, no DELETE is sent with valid credentials. With --write, DELETE is
sent for users that do not exist and for the user of --delete-user, for no others.
With a second project (--other-app-id), the separation of projects is checked too.
Checks that the users of the project give no data for are skipped.

The App Secret is read from ${SECRET}, from standard input with
--app-secret -. As an argument, other users of this machine can read it. That of
the second project is read from ${OTHER_SECRET}.
The secret must have all scopes.

Examples:
  npm run conformance -- http://127.0.0.1:4000 --app-id app_1
  npm run conformance -- https://users.example.com --app-id app_1 --only list,filters
  npm run conformance -- http://127.0.0.1:4000 --app-id app_1 --write --delete-user 42`;

function createProgram(env: Environment): Command {
  return new Command('npm run conformance --')
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
    .showHelpAfterError('(see --help)')
    .exitOverride()
    .action(async (url: string, options, command: Command) => {
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
  return command.error(
    `error: the App Secret is missing: set ${SECRET}, or pass --app-secret - and write the secret to standard input`,
  );
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

await runProgram(createProgram(process.env));
