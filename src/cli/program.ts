import { styleText } from 'node:util';
import { Command, Option } from 'commander';
import { VERSION } from '../config/build.js';
import type { Environment } from '../config/config.js';
import { redact, show } from '../errors.js';
import { examples } from './arguments.js';
import { addAuditCommand } from './audit.js';
import { addChangesCommand } from './changes.js';
import { addDoctorCommand } from './doctor.js';
import { addMigrateCommand, addRestoredCommand } from './migrate.js';
import { addDashboardCommand, addOperatorCommands } from './operator.js';
import { addProjectCommands } from './project.js';
import { createCommandContext } from './rows.js';
import { addServeCommand, SETTINGS_HELP } from './serve.js';
import { addSeedCommand, addTotalsCommand } from './upkeep.js';
import { addUserCommands } from './user.js';
import { addWalletCommands } from './wallet.js';
import { addWebhookCommands } from './webhook.js';

/** All commands, in the order of the help. */
const COMMANDS = [
  addServeCommand,
  addMigrateCommand,
  addProjectCommands,
  addUserCommands,
  addWalletCommands,
  addAuditCommand,
  addChangesCommand,
  addWebhookCommands,
  addDashboardCommand,
  addOperatorCommands,
  addTotalsCommand,
  addSeedCommand,
  addDoctorCommand,
  addRestoredCommand,
];

/** commander removes the styles where the output is not a terminal. */
const bold = (text: string) => styleText('bold', text, { validateStream: false });
const HELP_STYLES = { styleTitle: bold, styleSubcommandText: bold, styleOptionTerm: bold, minWidthToWrap: 20 };

/** The `userdir` command with all its subcommands. If `isSilent`, what is wrong with the arguments is only thrown. */
export function createProgram(env: Environment, isSilent = false): Command {
  const program = new Command('userdir')
    .description('One user directory for many projects, over GraphQL and REST.')
    .version(VERSION)
    .addOption(noColorOption())
    .configureHelp(HELP_STYLES)
    .configureOutput({
      outputError: (text, write) => write(withoutSecrets(text)),
      ...(isSilent && { writeErr: () => undefined }),
    })
    .addHelpText('after', SETTINGS_HELP)
    .addHelpText('after', examples('serve', 'project create --name "My wallet app"', 'doctor'))
    .exitOverride();
  const context = createCommandContext(env);
  for (const add of COMMANDS) add(program, context);
  nameHelp(program, program.name());
  for (const command of leafCommands(program)) command.addOption(noColorOption().hideHelp());
  return program;
}

/** Says after a wrong command line which help to read. */
function nameHelp(command: Command, words: string): void {
  command.showHelpAfterError(`(see ${words} --help)`);
  for (const each of command.commands) nameHelp(each, `${words} ${each.name()}`);
}

/** Commander repeats what was typed as it is: of any length, with control characters, and with secrets. */
export function withoutSecrets(text: string): string {
  const shown = text.replace(
    /(argument|value|unknown option|unknown command) '(.*?)'(?= is invalid|\n|$)/gs,
    (typed, what, value) => (show(value) === `"${value}"` ? typed : `${what} ${show(value)}`),
  );
  return redact(shown);
}

const noColorOption = () => new Option('--no-color', 'without colours, like NO_COLOR');

/** The commands that have no subcommands. */
export function leafCommands(command: Command): Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leafCommands);
}
