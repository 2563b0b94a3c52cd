import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { createProgram, leafCommands } from '#dist/cli/program.js';

/** The help of every command. */

function helpOf(command: Command): string {
  const written: string[] = [];
  command.configureOutput({ writeOut: (text) => written.push(text) }).outputHelp();
  return written.join('');
}

function nameOf(command: Command): string {
  return command.parent === null ? command.name() : `${nameOf(command.parent)} ${command.name()}`;
}

const COMMANDS = leafCommands(createProgram({})).map((command) => [nameOf(command), command] as const);

describe.each(COMMANDS)('%s', (name, command) => {
  const examples = [...helpOf(command).matchAll(/^ {2}\$ (.+)$/gm)].map((match) => match[1] as string);

  test('has examples in its help', () => {
    expect(examples.length).toBeGreaterThan(0);
    for (const example of examples) expect(`${example} `.startsWith(`${name} `)).toBe(true);
  });

  test.each(examples)('accepts its example: %s', (example) => {
    const program = createProgram({});
    const done: string[] = [];
    for (const leaf of leafCommands(program)) leaf.action(() => void done.push(nameOf(leaf)));
    const [line = ''] = example.split(/ [<>|] /);
    const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? (match[2] as string));
    program.parse(words.slice(1), { from: 'user' });
    expect(done).toEqual([name]);
  });

  test('describes every option', () => {
    for (const option of command.options) expect(option.description, option.flags).not.toBe('');
  });
});
