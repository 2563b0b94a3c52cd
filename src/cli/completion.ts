import type { Command, Option } from 'commander';

/**
 * What makes a shell complete the command: a script made from the commander program itself, so that it knows whatever the
 * program does. It asks nobody when a key is pressed, which would take a quarter of a second.
 */

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

export function completionScript(program: Command, shell: Shell): string {
  const places = placesOf(program, program.name());
  const script = { bash: bashScript, zsh: zshScript, fish: fishScript }[shell];
  return `${script(program.name(), places)}\n`;
}

/** What may follow some words of the command line. */
interface Place {
  /** `userdir user import`. */
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

function placesOf(command: Command, path: string): Place[] {
  const help = command.createHelp();
  const subcommands = help.visibleCommands(command);
  const values = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
  const place: Place = {
    path,
    words: [
      ...subcommands.map((each) => ({ text: each.name(), description: each.description() })),
      ...values.map((text) => ({ text, description: '' })),
    ],
    flags: help.visibleOptions(command).map(toFlag),
    takesFile: command.registeredArguments.some((argument) => argument.name() === 'FILE'),
  };
  return [place, ...command.commands.flatMap((each) => placesOf(each, `${path} ${each.name()}`))];
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

/** A word of a script for bash or zsh, whatever it contains. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
const inner = (places: readonly Place[]) => places.slice(1).map(({ path }) => quoted(path));

/** Finds the place, and then the values of the flag before the cursor, in the syntax that bash and zsh share. */
function findPlace(name: string, places: readonly Place[], words: string, previous: string): string {
  const valued = places.flatMap(({ path, flags }) =>
    flags.filter(({ takesValue }) => takesValue).map((flag) => ({ at: quoted(`${path} ${flag.text}`), ...flag })),
  );
  return `  local at=${name} word
  for word in ${words}; do
    case "$at $word" in
      ${inner(places).join('|')}) at="$at $word" ;;
    esac
  done
  local values=
  case "$at ${previous}" in
${valued.map(({ at, choices }) => `    ${at}) values=${quoted(choices.join(' ') || '-')} ;;`).join('\n')}
  esac`;
}

function bashScript(name: string, places: readonly Place[]): string {
  const cases = places.map(
    ({ path, words, flags, takesFile }) =>
      `    ${quoted(path)}) words=${quoted(texts(words))} flags=${quoted(texts(flags))} files=${takesFile ? 1 : ''} ;;`,
  );
  return `_${name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} words flags files
${findPlace(name, places, `"\${COMP_WORDS[@]:1:COMP_CWORD-1}"`, `\${COMP_WORDS[COMP_CWORD-1]}`)}
  case $at in
${cases.join('\n')}
  esac
  COMPREPLY=()
  # A value that nobody can guess.
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

function zshScript(name: string, places: readonly Place[]): string {
  const described = (words: readonly Word[]) =>
    words.map(({ text, description }) => quoted(`${text}:${description.replaceAll(':', '\\:')}`)).join(' ');
  const cases = places.map(
    ({ path, words, flags, takesFile }) =>
      `    ${quoted(path)}) those=(${described(words)}) flags=(${described(flags)}) files=${takesFile ? 1 : ''} ;;`,
  );
  return `#compdef ${name}
_${name}() {
  local -a those flags
  local files
${findPlace(name, places, `\${words[2,CURRENT-1]}`, `\${words[CURRENT-1]}`)}
  case $at in
${cases.join('\n')}
  esac
  # A value that nobody can guess.
  if [[ $values == - ]]; then return; fi
  if [[ -n $values ]]; then compadd -- \${=values}; return; fi
  if [[ $PREFIX == -* ]]; then _describe -o option flags; return; fi
  if (( $#those )); then _describe command those; fi
  if [[ -n $files ]]; then _files; fi
}
# Loaded by its name from fpath, or by eval.
if [[ $funcstack[1] == _${name} ]]; then _${name} "$@"; else compdef _${name} ${name}; fi`;
}

function fishScript(name: string, places: readonly Place[]): string {
  // Inside single quotes fish knows backslashes too.
  const word = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const lines = places.flatMap(({ path, words, flags, takesFile }) => {
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
      case ${places
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
