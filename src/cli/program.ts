import { styleText } from 'node:util';
import { Argument, Command, Option } from 'commander';
import { type Environment, parseConfig } from '../config/config.js';
import { findMisspelt } from '../config/setting-names.js';
import { VERSION } from '../config/version.js';
import { examples, json, project, wholeNumber } from './arguments.js';
import { completionScript, SHELLS, type Shell } from './completion.js';
import { addConformanceCommand } from './conformance-command.js';
import { doctorReport, totalsReport } from './output.js';
import { addAuditCommand, addProjectCommands } from './project-commands.js';
import { createRun, Refused } from './run.js';
import { addUserCommands } from './user-commands.js';

const SETTINGS_HELP = `
Settings are environment variables; docs/configuration.md lists all:
  DATABASE_URL  a PostgreSQL database (postgres://…); without it, the embedded one
  EMBEDDED      on: the embedded one is meant, also with NODE_ENV=production
  DATA_DIR      where the embedded database is kept (default: ./data)
  HOST, PORT    where serve listens (default: 127.0.0.1, 4000)
  LOG_LEVEL     how much serve logs (default: info)

Exit codes: 0 done, 1 refused or failed, 2 wrong usage.`;

const DOCTOR_HELP = `
✓ is well, ! could be better, ✗ is wrong, - could not be looked at. Exit code 1
where something is wrong.
${examples('doctor', 'doctor --json', 'doctor --no-totals')}`;

const COMPLETION_HELP = `
Put into the file that your shell reads at its start:
  ~/.bashrc                   eval "$(userdir completion bash)"
  ~/.zshrc, after compinit    eval "$(userdir completion zsh)"
  ~/.config/fish/config.fish  userdir completion fish | source
${examples('completion bash')}`;

/** commander takes the colours away again where there is no terminal. */
const bold = (text: string) => styleText('bold', text, { validateStream: false });
const HELP_STYLES = { styleTitle: bold, styleSubcommandText: bold, styleOptionTerm: bold, minWidthToWrap: 20 };

/** The operator's command: its words, its helps, and how each result looks to a person. */
export function createProgram(env: Environment): Command {
  const run = createRun(env);
  const program = new Command('userdir')
    .description('The user directory of many projects, over GraphQL and REST.')
    .version(VERSION)
    .addOption(noColor())
    .configureHelp(HELP_STYLES)
    .addHelpText('after', SETTINGS_HELP)
    .addHelpText('after', examples('serve', 'project create --name "My wallet app"', 'doctor'))
    .showHelpAfterError('(add --help for what is accepted)')
    .exitOverride();

  program
    .command('serve')
    .description('serve GraphQL and REST until a signal comes')
    .addHelpText('after', SETTINGS_HELP)
    .addHelpText('after', examples('serve', 'serve --json'))
    .addOption(json())
    .action(async (options) => {
      // Loaded when it is wanted: every other command starts in half the time without it.
      const { serve } = await import('./serve.js');
      await serve(parseConfig(env), options.json === true, findMisspelt(env));
    });

  program
    .command('migrate')
    .description('apply the migrations that the database does not have yet')
    .addHelpText('after', examples('migrate'))
    .addOption(json())
    .action(async (options) => {
      await run('migrate', undefined as never, {
        ...options,
        print: ({ applied }) =>
          applied.length === 0 ? 'The database is up to date.' : `Applied ${applied.join(', ')}.`,
      });
    });

  addProjectCommands(program, run);
  addUserCommands(program, run);
  addAuditCommand(program, run);

  program
    .command('totals')
    .description('the tallies from which exact totals are read')
    .command('check')
    .description('count all users again and report where the tallies say otherwise')
    .addHelpText('after', examples('totals check', 'totals check --project app_1 --repair'))
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
    .addHelpText('after', examples('seed --project app_1 --users 10000', 'seed --project app_1 --users 500 --seed 7'))
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
  program
    .command('doctor')
    .description('look whether anything is wrong with the settings, the database or this machine, and change nothing')
    .addHelpText('after', DOCTOR_HELP)
    .option('--no-totals', 'without counting all users, which takes a while where there are millions')
    .addOption(json())
    .action(async ({ totals, json: asJson }) => {
      const { diagnose } = await import('./doctor.js');
      const found = await diagnose(env, totals);
      const ok = found.every(({ status }) => status !== 'failed');
      process.stdout.write(`${asJson ? JSON.stringify({ ok, findings: found }) : doctorReport(found)}\n`);
      if (!ok) throw new Refused();
    });

  addConformanceCommand(program, env);
  program
    .command('completion')
    .description('print what makes a shell complete this command')
    .addHelpText('after', COMPLETION_HELP)
    .addArgument(new Argument('<SHELL>', 'which shell').choices(SHELLS))
    .addOption(json().hideHelp())
    .action((shell: Shell, { json: asJson }) => {
      const script = completionScript(program, shell);
      process.stdout.write(asJson ? `${JSON.stringify({ shell, script })}\n` : script);
    });

  for (const command of leaves(program)) command.addOption(noColor().hideHelp());
  return program;
}

const noColor = () => new Option('--no-color', 'without colours, as with NO_COLOR');

/** The commands that do something. */
export function leaves(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}
