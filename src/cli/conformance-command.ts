import { text } from 'node:stream/consumers';
import { type Command, Option } from 'commander';
import { read } from 'read';
import type { Environment } from '../config/config.js';
import { readSecretFiles } from '../config/secret-files.js';
import { commaSeparated, duration, examples, json, serverUrl, userNumber } from './arguments.js';
import type { Report, Verdict } from '../conformance/run.js';
import { finding, paint } from './output.js';
import { Refused } from './run.js';

const DEFAULT_TIMEOUT_MS = 120_000;
const SECRET = 'USERDIR_APP_SECRET';
const OTHER_SECRET = 'USERDIR_OTHER_APP_SECRET';

const HELP = `
Without --write no DELETE is sent with right credentials. With it, for users who
are not there, and for the one whom --delete-user names; for nobody else.
A second project (--other-app-id) shows whether projects are kept apart.

The App Secret is taken from ${SECRET}, from standard input with
--app-secret -, or asked for on a terminal; in an argument others on this machine
can read it. That of the second project is taken from ${OTHER_SECRET}.
It must have all scopes. What the users of the project do not show is skipped.
${examples(
  'conformance http://127.0.0.1:4000 --app-id app_1',
  'conformance https://users.example.com --app-id app_1 --only list,filters',
  'conformance http://127.0.0.1:4000 --app-id app_1 --write --delete-user 42',
)}`;

/** The words that hold a server to the contract of the REST interface. */
export function addConformanceCommand(program: Command, env: Environment): void {
  program
    .command('conformance')
    .description('hold a server, this or another one, to every sentence of the REST contract that can be observed')
    .addHelpText('after', HELP)
    .argument('<URL>', 'its base address', serverUrl)
    .requiredOption('--app-id <APP_ID>', 'the App ID of the project')
    .option('--app-secret <SECRET>', 'its App Secret, or - for standard input')
    .option('--other-app-id <APP_ID>', 'the App ID of a second project on the same server')
    .option('--write', 'also what sends DELETE')
    .option('--delete-user <ID>', 'with --write: a user who is deleted', userNumber)
    .option('--only <IDS>', 'only these checks or groups, such as list,verify/negative,search/email*', commaSeparated)
    .addOption(new Option('--timeout <TIME>', 'when to stop').argParser(duration).default(DEFAULT_TIMEOUT_MS, '2m'))
    .addOption(json())
    .action(async (url: string, options, command: Command) => {
      // Loaded when it is wanted, as the server is.
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
      const say = options.json ? () => undefined : createReporter();
      const report = await checkConformance(target, checks, say);
      process.stdout.write(`${options.json ? JSON.stringify(report) : summary(report)}\n`);
      if (report.failed > 0 || !report.complete) throw new Refused();
    });
}

async function findSecret(given: string | undefined, env: Environment, command: Command): Promise<string> {
  if (given === '-') return (await text(process.stdin)).trim();
  const secret = given ?? env[SECRET];
  if (secret) return secret;
  if (process.stdin.isTTY) return ask();
  return command.error(
    `error: the App Secret is missing: set ${SECRET}, or give --app-secret - and write it to standard input`,
  );
}

async function ask(): Promise<string> {
  const secret = await read({ prompt: 'App Secret: ', silent: true, output: process.stderr });
  // The key that ended it was not shown either.
  process.stderr.write('\n');
  return secret;
}

function findOther(appId: string | undefined, env: Environment, command: Command) {
  if (appId === undefined) return null;
  const appSecret = env[OTHER_SECRET];
  if (!appSecret) return command.error(`error: the App Secret of ${appId} is missing: set ${OTHER_SECRET}`);
  return { appId, appSecret };
}

/** Writes each verdict when it comes, below the name of its group. */
function createReporter(): (verdict: Verdict) => void {
  let group = '';
  return (verdict) => {
    const [first = ''] = verdict.id.split('/');
    if (first !== group) process.stdout.write(`${group === '' ? '' : '\n'}${paint('bold', first)}\n`);
    group = first;
    process.stdout.write(`${verdictText(verdict)}\n`);
  };
}

function verdictText(verdict: Verdict): string {
  if (verdict.status === 'passed') return finding('passed', verdict.id, verdict.sentence);
  if (verdict.status === 'skipped') return finding('skipped', verdict.id, `skipped: ${verdict.reason}`);
  const { request, expected, arrived } = verdict;
  const lines = [`asked     ${request}`, `expected  ${expected}`, `arrived   ${arrived}`];
  return finding('failed', verdict.id, verdict.sentence, lines);
}

function summary({ passed, failed, skipped, complete }: Report): string {
  const counts = [
    paint('green', `${passed} passed`),
    failed === 0 ? '0 failed' : paint('red', `${failed} failed`),
    `${skipped} skipped`,
  ];
  return `\n${counts.join(', ')}${complete ? '' : '; the time was up, see --timeout'}`;
}
