import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { COMMANDS as COMMAND_TABLE } from '#dist/cli/commands.js';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { schema } from '#dist/dashboard/schema.js';
import { LONGEST_WAIT_MS } from '#dist/db/migration-steps.js';
import { ROOT } from '../support/checkout.js';

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
    const words = [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, ...texts]) => texts.join(''));
    program.parse(words.slice(1), { from: 'user' });
    expect(done).toEqual([name]);
  });

  test('describes every option', () => {
    for (const option of command.options) expect(option.description, option.flags).not.toBe('');
  });
});

test('migrate says how long a step waits by default', () => {
  const [, migrate] = COMMANDS.find(([name]) => name === 'userdir migrate') ?? [];
  const wait = migrate?.options.find(({ long }) => long === '--wait');
  expect(wait?.description).toContain(`(default: ${LONGEST_WAIT_MS / 60_000}m)`);
});

const CLI_FOLDER = join(ROOT, 'src/cli');
const DOCUMENTS = readdirSync(CLI_FOLDER)
  .map((name) => readFileSync(join(CLI_FOLDER, name), 'utf8'))
  .flatMap((text) => [...text.matchAll(/graphql\(\s*`([^`]*)`/g)].map(([, document]) => document))
  .join('\n');

/** What only a browser can do. A command deletes a project part by part, and unbans one user as a caller does. */
const WITHOUT_COMMAND = ['addPasskey', 'beginPasskey', 'logOut', 'revokeSession', 'deleteProject', 'unbanUsers'];

test.each(Object.keys(schema.getMutationType()?.getFields() ?? {}).filter((field) => !WITHOUT_COMMAND.includes(field)))(
  'the change %s of the operators’ schema is asked for by a command',
  (field) => {
    expect(DOCUMENTS).toMatch(new RegExp(`\\b${field}\\b`));
  },
);

test('the table of commands that the pages have says how each is written', () => {
  expect(COMMAND_TABLE['user ban']).toEqual({
    project: '--project',
    userId: null,
    method: '--method',
    value: '--value',
    reason: '--reason',
    until: '--until',
  });
  expect(Object.keys(COMMAND_TABLE['webhook resend'])).toEqual(['project', 'webhookId', 'messageId']);
  expect(Object.keys(COMMAND_TABLE)).toEqual(COMMANDS.map(([name]) => name.replace('userdir ', '')));
});
