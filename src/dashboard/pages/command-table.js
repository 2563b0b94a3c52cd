import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createProgram, leafCommands } from '../../../dist/cli/program.js';
import { camelCase } from '../../../dist/domain/spelling.js';

/*
 * Makes the table of the commands from their rows, for the recipes of the pages: what each takes, and how that is written. Its types have the
 * compiler name a recipe that is not right any more.
 */

/** How an option is written: its name in the table, and its flag. */
const ofOption = (option) => ({
  name: option.attributeName(),
  flag: option.long,
  type: option.required ? 'Value' : 'boolean',
  isNeeded: option.mandatory || option.isNeeded === true,
});

/** An argument has no flag. */
const ofArgument = (argument) => ({
  name: camelCase(argument.name().toLowerCase()),
  flag: null,
  type: 'Value',
  isNeeded: argument.required,
});

const wordsOf = (command) => (command.parent === null ? [] : [...wordsOf(command.parent), command.name()]);

/** In the order of a command line: the project, the arguments, the other options. */
function valuesOf(command) {
  const options = command.options.filter(({ long }) => !['--json', '--no-color'].includes(long)).map(ofOption);
  const isProject = ({ name }) => name === 'project';
  return [
    ...options.filter(isProject),
    ...command.registeredArguments.map(ofArgument),
    ...options.filter((option) => !isProject(option)),
  ];
}

const commands = leafCommands(createProgram({})).map((command) => [wordsOf(command).join(' '), valuesOf(command)]);

const table = Object.fromEntries(
  commands.map(([words, values]) => [words, Object.fromEntries(values.map(({ name, flag }) => [name, flag]))]),
);
const types = commands.map(([words, values]) => {
  const fields = values.map(
    ({ name, type, isNeeded }) => `readonly ${name}${isNeeded ? `: ${type}` : `?: ${type} | undefined`}`,
  );
  return `  readonly '${words}': { ${fields.join('; ')} };`;
});

/** A newer file would have the pages built again. */
function write(name, text) {
  const file = join(import.meta.dirname, '../../../dist/cli', name);
  if (!existsSync(file) || readFileSync(file, 'utf8') !== text) writeFileSync(file, text);
}

write('commands.js', `export const COMMANDS = ${JSON.stringify(table)};\n`);
write(
  'commands.d.ts',
  `export type Value = string | number | readonly string[];
export interface Commands {
${types.join('\n')}
}
export declare const COMMANDS: { readonly [Words in keyof Commands]: Readonly<Record<string, string | null>> };
`,
);
