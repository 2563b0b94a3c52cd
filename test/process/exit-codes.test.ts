import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Argument, Command, Option } from 'commander';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { type Credentials, type RunningServer, startServer, userdir, userdirJson } from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';

/** Exit codes: 0 done, also where nothing was to do; 1 refused or failed; 2 wrong usage, of which a malformed value is one. */

let folder: string;
let database: TestDatabase;
let server: RunningServer;
let project: Credentials;
const settings = () => ({ ...database.env, WEBHOOKS_ALLOW_PRIVATE: 'on' });
const run = (...args: string[]) => userdir(settings(), args);
const runJson = (...args: string[]) => userdirJson(settings(), args);
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'userdir-codes-'));
  await writeFile(join(folder, 'a.graphql'), '{ userCount }');
  database = await copyTemplate();
  server = await startServer({ ...settings(), DEMO: 'off' });
  project = await runJson('project', 'create', '--name', 'Test');
  const line = JSON.stringify({ auth_method: 'github', auth_value: '1' });
  await userdir(settings(), ['user', 'import', '--project', project.app_id], `${line}\n`);
  await runJson('webhook', 'add', '--project', project.app_id, '--url', 'https://127.0.0.1:9/');
});
afterAll(async () => {
  await server.stop();
  await database.drop();
  await rm(folder, { recursive: true });
});

type Value = Argument | Option;
const nameOf = (value: Value) => ('flags' in value ? /<(.+)>/.exec(value.flags)?.[1] : value.name()) ?? '';
/** Options that are flags have no value. */
const valuesOf = (command: Command): Value[] => [
  ...command.registeredArguments,
  ...command.options.filter((option) => option.required),
];
const isNeeded = (value: Value) => ('mandatory' in value ? value.mandatory : value.required);
const wordsOf = (command: Command): string[] =>
  command.parent === null ? [] : [...wordsOf(command.parent), command.name()];

/** What is not parsed: names that are looked up, paths, and command lines. */
const FREE = ['APP_ID', 'ID', 'FILE', 'CMD'];
const LOOKED_UP = [
  'project rotate LABEL',
  'operator update NAME',
  'operator remove NAME',
  'operator passkeys NAME',
  'dashboard NAME',
];

/** Control characters, and more of them than any value may have. */
const MALFORMED = 'x\u0007'.repeat(3_000);

/** Well-formed values by their names in the help. */
const VALUES: Record<string, () => string> = {
  APP_ID: () => project.app_id,
  FILE: () => join(folder, 'a.graphql'),
  TIME: () => '1h',
  METHOD: () => 'email',
  VALUE: () => 'ada@example.com',
  URL: () => 'postgres://127.0.0.1:9/none',
  SCOPES: () => 'read',
  'FIRST-LAST': () => '1-10',
  USER_ID: () => '1',
  WEBHOOK_ID: () => '1',
  SECRET_ID: () => '1',
  PASSKEY_ID: () => '1',
  N: () => '1',
  ROLE: () => 'viewer',
  SHELL: () => 'bash',
};

const write = (value: Value, text: string) => ('long' in value ? [`${value.long}=${text}`] : [text]);

const malformed = leafCommands(createProgram({})).flatMap((command) => {
  const values = valuesOf(command);
  return values.flatMap((value): [title: string, args: () => string[]][] => {
    const title = `${wordsOf(command).join(' ')} ${nameOf(value)}`;
    if (FREE.includes(nameOf(value)) || LOOKED_UP.includes(title)) return [];
    const others = values.filter((other) => other !== value && isNeeded(other));
    const order = (one: Value) => (values.indexOf(one) < command.registeredArguments.length ? values.indexOf(one) : 99);
    const args = () =>
      [...others, value]
        .sort((one, other) => order(one) - order(other))
        .flatMap((each) =>
          write(each, each === value ? MALFORMED : (VALUES[nameOf(each).replace('...', '')]?.() ?? 'Ada')),
        );
    return [[`${title}${'long' in value ? ` (${value.long})` : ''}`, () => [...wordsOf(command), ...args()]]];
  });
});

describe('a malformed value is 2, with a sentence that does not repeat it', () => {
  test.each(malformed)('%s', async (_, args) => {
    const { code, stdout, stderr } = await run(...args());
    expect({ code, stdout, stderr }).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/^(userdir|error): /),
    });
    expect(stderr).not.toContain('x\u0007x');
  });
});

test.each([
  ['an option', ['project', 'limit', '--project', 'app_1', '--rate', 'uds_Zm9yIGEgdGVzdCBvbmx5']],
  ['an unknown option', ['project', 'list', '--uds_Zm9yIGEgdGVzdCBvbmx5']],
  ['a command', ['uds_Zm9yIGEgdGVzdCBvbmx5']],
  ['an App ID', ['project', 'show', '--project', 'uds_Zm9yIGEgdGVzdCBvbmx5']],
  ['a subcommand', ['project', 'ada@example.com']],
])('a secret or an email in the place of %s is not repeated', async (_, args) => {
  const { code, stdout, stderr } = await run(...args);
  expect(code).toBeGreaterThan(0);
  expect(stdout + stderr).not.toMatch(/Zm9y|ada@/);
});

describe('what is done already is 0, is not recorded, and says that nothing was to do', () => {
  const identity = ['--method', 'email', '--value', 'eve@example.com'];
  test.each<[string, string[]]>([
    ['user ban', identity],
    ['user unban', identity],
    ['project rename', ['--name', 'Other']],
    ['project limit', ['--rate', '600']],
    ['project disable', []],
    ['project enable', []],
    ['webhook pause', ['1']],
  ])('%s', async (command, args) => {
    const once = () => [...command.split(' '), '--project', project.app_id, ...args];
    const entries = async () => (await runJson('audit', '--project', project.app_id)).length;
    const [first, recorded] = [await run(...once()), await entries()];
    expect(first).toMatchObject({ code: 0, stderr: '', stdout: expect.not.stringContaining('Nothing') });
    expect(await run(...once())).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(/^Nothing was to do\. /),
    });
    expect(await runJson(...once())).toMatchObject({ changed: false });
    expect(await entries()).toBe(recorded);
  });

  test('and so says --json of what was to do', async () => {
    const ban = (...args: string[]) => runJson('user', ...args, '--project', project.app_id, ...identity);
    expect(await ban('ban', '--reason', 'spam')).toMatchObject({ banned: true, changed: true });
    expect(await ban('ban', '--reason', 'fraud')).toMatchObject({ banned: true, changed: true });
    expect(await ban('unban')).toMatchObject({ banned: false, changed: true });
  });
});
