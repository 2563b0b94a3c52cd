import { Argument, type Command, type Option } from 'commander';
import { addCommand, jsonOption } from './arguments.js';

/**
 * Completion scripts for bash, zsh and fish, generated from the commander program. The scripts contain all words, so pressing Tab does
 * not start a Node process, which would take a third of a second.
 */

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

const HELP = `
Add a line to the startup file of your shell:
  ~/.bashrc                   eval "$(userdir completion bash)"
  ~/.zshrc, after compinit    eval "$(userdir completion zsh)"
  ~/.config/fish/config.fish  userdir completion fish | source`;

export function addCompletionCommand(program: Command): void {
  addCommand(program, {
    name: 'completion',
    description: 'print a completion script for a shell',
    help: HELP,
    examples: ['completion bash'],
    takes: [new Argument('<SHELL>', 'the shell').choices(SHELLS), jsonOption().hideHelp()],
  }).action((shell: Shell, { json }) => {
    const script = completionScript(program, shell);
    process.stdout.write(json ? `${JSON.stringify({ shell, script })}\n` : script);
  });
}

function completionScript(program: Command, shell: Shell): string {
  const commands = listCommands(program, program.name());
  const script = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell];
  return `${script(program.name(), commands)}\n`;
}

/** A command, and the words that can follow it. */
interface CommandWords {
  /** Such as `userdir user import`. */
  readonly path: string;
  readonly words: readonly Word[];
  readonly flags: readonly Flag[];
  readonly takesFile: boolean;
}

interface Word {
  readonly text: string;
  readonly description: string;
}

interface Flag extends Word {
  readonly short: string | undefined;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

function listCommands(command: Command, path: string): CommandWords[] {
  const help = command.createHelp();
  const subcommands = help.visibleCommands(command);
  const values = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
  const words: CommandWords = {
    path,
    words: [
      ...subcommands.map((subcommand) => ({ text: subcommand.name(), description: subcommand.description() })),
      ...values.map((text) => ({ text, description: '' })),
    ],
    flags: help.visibleOptions(command).map(toFlag),
    takesFile: command.registeredArguments.some((argument) => argument.name() === 'FILE'),
  };
  return [words, ...command.commands.flatMap((subcommand) => listCommands(subcommand, `${path} ${subcommand.name()}`))];
}

function toFlag(option: Option): Flag {
  return {
    text: option.long ?? option.flags,
    short: option.short,
    description: option.description,
    takesValue: option.required || option.optional,
    choices: option.argChoices ?? [],
  };
}

/** Quotes a word for bash and zsh. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Finds the command on the line, and the values of the option before the cursor, in syntax that bash and zsh share. */
function findCommand(name: string, commands: readonly CommandWords[], words: string, previous: string): string {
  const valued = commands.flatMap(({ path, flags }) =>
    flags.filter(({ takesValue }) => takesValue).map((flag) => ({ at: quoted(`${path} ${flag.text}`), ...flag })),
  );
  return `  local at=${name} word
  for word in ${words}; do
    case "$at $word" in
      ${commands
        .slice(1)
        .map(({ path }) => quoted(path))
        .join('|')}) at="$at $word" ;;
    esac
  done
  local values=
  case "$at ${previous}" in
${valued.map(({ at, choices }) => `    ${at}) values=${quoted(choices.join(' ') || '-')} ;;`).join('\n')}
  esac`;
}

function bashScript(name: string, commands: readonly CommandWords[]): string {
  const cases = commands.map(
    ({ path, words, flags, takesFile }) =>
      `    ${quoted(path)}) words=${quoted(texts(words))} flags=${quoted(texts(flags))} files=${takesFile ? 1 : ''} ;;`,
  );
  return `_${name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} words flags files
${findCommand(name, commands, `"\${COMP_WORDS[@]:1:COMP_CWORD-1}"`, `\${COMP_WORDS[COMP_CWORD-1]}`)}
  case $at in
${cases.join('\n')}
  esac
  COMPREPLY=()
  # The option takes a value that cannot be completed.
  if [[ $values == - ]]; then return; fi
  if [[ -n $values ]]; then words=$values flags= files=; fi
  if [[ $current == -* ]]; then words=$flags files=; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    local file
    while IFS= read -r file; do COMPREPLY+=("$file"); done < <(compgen -f -- "$current")
  fi
}
complete -F _${name} ${name}`;
}

const texts = (words: readonly Word[]) => words.map(({ text }) => text).join(' ');

function zshScript(name: string, commands: readonly CommandWords[]): string {
  const described = (words: readonly Word[]) =>
    words.map(({ text, description }) => quoted(`${text}:${description.replaceAll(':', '\\:')}`)).join(' ');
  const cases = commands.map(
    ({ path, words, flags, takesFile }) =>
      `    ${quoted(path)}) words_here=(${described(words)}) flags=(${described(flags)}) files=${takesFile ? 1 : ''} ;;`,
  );
  return `#compdef ${name}
_${name}() {
  local -a words_here flags
  local files
${findCommand(name, commands, `\${words[2,CURRENT-1]}`, `\${words[CURRENT-1]}`)}
  case $at in
${cases.join('\n')}
  esac
  # The option takes a value that cannot be completed.
  if [[ $values == - ]]; then return; fi
  if [[ -n $values ]]; then compadd -- \${=values}; return; fi
  if [[ $PREFIX == -* ]]; then _describe -o option flags; return; fi
  if (( $#words_here )); then _describe command words_here; fi
  if [[ -n $files ]]; then _files; fi
}
# The script can be loaded from fpath or by eval.
if [[ $funcstack[1] == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi`;
}

function fishScript(name: string, commands: readonly CommandWords[]): string {
  // In fish a backslash is an escape character inside single quotes too.
  const word = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = commands.flatMap(({ path, words, flags, takesFile }) => {
    const here = `complete -c ${name} -n ${word(`__${name}_at ${word(path)}`)}`;
    return [
      ...words.map(({ text, description }) => `${here} -a ${word(text)} -d ${word(description)}`),
      ...flags.map(({ text, short, description, takesValue, choices }) => {
        const names = `-l ${text.slice(2)}${short === undefined ? '' : ` -s ${short.slice(1)}`}`;
        const value = takesValue ? ` -x -a ${word(choices.join(' '))}` : '';
        return `${here} ${names}${value} -d ${word(description)}`;
      }),
      ...(takesFile ? [`${here} -F`] : []),
    ];
  });
  return `function __${name}_at
  set -l at ${name}
  for word in (commandline -opc)[2..-1]
    switch "$at $word"
      case ${commands
        .slice(1)
        .map(({ path }) => word(path))
        .join(' ')}
        set at "$at $word"
    end
  end
  test "$at" = "$argv"
end
complete -c ${name} -f
${lines.join('\n')}`;
}
