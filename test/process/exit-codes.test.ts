import type { Argument, Command, Option } from 'commander';
import { beforeAll, describe, expect, test } from 'vitest';
import { createProgram, leafCommands } from '#dist/cli/program.js';
import { CLI, type Credentials, outcomeOf, spawnUserdir, userdir, userdirJson, useServer } from '../support/command.js';
import { copyTemplate } from '../support/engines.js';

/** Wrong usage, of which a malformed value is one, is 2; commands.test.ts has the other exit codes. */

const { run, runJson, runWith, createProject, settings } = useServer();
let project: Credentials;
beforeAll(async () => {
  project = await createProject();
  await runWith('{"auth_method":"github","auth_value":"1"}', 'user', 'import', '--project', project.app_id);
  await runJson('webhook', 'add', '--project', project.app_id, '--url', 'https://example.com/');
});

type Value = Argument | Option;
const nameOf = (value: Value) => ('flags' in value ? /<(.+)>/.exec(value.flags)?.[1] : value.name()) ?? '';
/** Options that are flags have no value. */
const valuesOf = (command: Command): Value[] => [
  ...command.registeredArguments,
  ...command.options.filter((option) => option.required),
];
const isNeeded = (value: Value) =>
  'mandatory' in value ? value.mandatory || value.long === '--project' : value.required;
const wordsOf = (command: Command): string[] =>
  command.parent === null ? [] : [...wordsOf(command.parent), command.name()];

/** What is not parsed: names that are looked up, and paths. */
const FREE = ['APP_ID', 'FILE'];
const LOOKED_UP = [
  'project rotate LABEL',
  'operator update OPERATOR',
  'operator remove NAME',
  'operator passkeys NAME',
  'dashboard NAME',
];

/** Control characters, and more of them than any value may have. */
const MALFORMED = 'x\u0007'.repeat(3_000);

/** Well-formed values by their names in the help. */
const VALUES: Record<string, string> = {
  TIME: '1h',
  METHOD: 'email',
  VALUE: 'ada@example.com',
  URL: 'https://example.com/',
  ROLE: 'viewer',
};
const wellFormed = (name: string) =>
  name === 'APP_ID' ? project.app_id : (VALUES[name] ?? (/^N$|_ID/.test(name) ? '1' : 'Ada'));

const write = (value: Value, text: string) => ('long' in value ? [`${value.long}=${text}`] : [text]);

const malformed = leafCommands(createProgram({})).flatMap((command) => {
  const values = valuesOf(command);
  return values.flatMap((value): [title: string, args: () => string[]][] => {
    const title = `${wordsOf(command).join(' ')} ${nameOf(value)}`;
    if (FREE.includes(nameOf(value)) || LOOKED_UP.includes(title)) return [];
    const args = () =>
      values
        .filter((other) => other === value || isNeeded(other))
        .flatMap((other) => write(other, other === value ? MALFORMED : wellFormed(nameOf(other))));
    return [[`${title}${'long' in value ? ` (${value.long})` : ''}`, () => [...wordsOf(command), ...args()]]];
  });
});

describe('a malformed value is refused with a sentence that does not repeat it', () => {
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

/** Without a database. */
const usage = (...args: string[]) => userdir({ DATA_DIR: '/nonexistent' }, args);

test.each([
  [[], ['serve', 'migrate', 'project', 'user', 'seed', 'doctor', 'DATABASE_URL', 'DATA_DIR']],
  [['project'], ['create', 'list', 'show', 'rename', 'disable', 'enable', 'limit', 'delete', 'rotate']],
  [
    ['user', 'import'],
    ['[FILE...]', '--project <APP_ID>', '--on-conflict', 'skip', '--skip-invalid', '--json', 'auth_method'],
  ],
])('userdir %j --help names its options and ends with 0', async (args, words) => {
  const { code, stdout, stderr } = await usage(...args, '--help');
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toContain(`Usage: ${['userdir', ...args].join(' ')}`);
  for (const word of words) expect(stdout).toContain(word);
});

const IDENTITY = '--method email --value x';
const NO_ID = 'Expected decimal digits, 1 and up.';

test.each([
  ['', 'Usage: userdir'],
  ['project', 'Usage: userdir project'],
  ['frobnicate', "unknown command 'frobnicate'"],
  ['user imprt', 'Did you mean import?'],
  ['project list --jsn', "unknown option '--jsn'"],
  ['project list all', 'too many arguments'],
  ['project create', "required option '--name <NAME>' not specified"],
  ['project delete', "required option '--project <APP_ID>' not specified"],
  ['project rotate My-app', 'too many arguments'],
  ['project rotate app_1 app_2', 'too many arguments'],
  ['project rotate app_1 --project app_2', 'too many arguments'],
  ['project rotate app_1 --overlap 1', 'Expected a whole number with a unit'],
  ['project rotate app_1 --overlap 999999w', '100 years at most'],
  ['project limit app_1 --rate x', 'a whole number'],
  ['project revoke --project app_1 -- -1', 'a whole number'],
  ['user purge', "required option '--older-than <TIME>' not specified"],
  ['user purge --older-than -1d', 'Expected a whole number with a unit'],
  ['user import app_1 --on-conflict ask', 'Allowed choices are skip, update, fail'],
  ['user import app_1 --replace', '--replace needs --on-conflict update'],
  ['user inactive app_1 --since yesterday', '--since'],
  ['user remove app_1', "missing required argument 'USER_ID'"],
  ...['get', 'remove', 'restore'].map((name) => [`user ${name} --project app_1 -- 1.5`, NO_ID]),
  ...['0', 'x', '-1'].map((id) => [`user remove --project app_1 -- 1 ${id}`, NO_ID]),
  ...['', `x ${IDENTITY}`, '--method email', 'x --value x', 'x --prefix x', `${IDENTITY} --prefix x`].map((args) => [
    `user search app_1 ${args}`,
    '--',
  ]),
  ['user search app_1 --prefix x --removed', 'which finds current users only'],
  ['operator update ada --project app_1 --all-projects', 'cannot be used with'],
  ['seed app_1 --users many', 'Expected a whole number'],
])('userdir %s is wrong usage, with the reason on stderr', async (line, sentence = '') => {
  const { code, stdout, stderr } = await usage(...line.split(' ').filter(Boolean));
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(sentence);
});

test('userdir --version prints one line', async () => {
  expect(await usage('--version')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) });
});

test('an older Node.js is refused with the version that is needed, before it reads what it cannot', async () => {
  const older = "data:text/javascript,Object.defineProperty(process.versions, 'node', { value: '18.20.8' })";
  const [node, cli] = [process.execPath, CLI];
  for (const args of [['doctor'], ['--version'], ['project', 'list']])
    expect(await outcomeOf(spawnUserdir({}, args, [node, '--import', older, cli]))).toEqual({
      code: 1,
      signal: null,
      stdout: '',
      stderr: 'userdir: Node.js 18.20.8 is too old, 20.19 or newer is needed.\n',
    });
});

test('a malformed setting makes every command exit with code 1', async () => {
  const message = 'PORT must be a whole number from 0 to 65535.';
  const error = { code: 'INVALID_SETTINGS', message, settings: ['PORT'] };
  expect((await userdir({ PORT: 'x' }, ['project', 'list'])).stderr).toBe(`${message}\n`);
  expect(await userdir({ PORT: 'x' }, ['project', 'list', '--json'])).toEqual({
    code: 1,
    signal: null,
    stdout: '',
    stderr: `${JSON.stringify({ error })}\n`,
  });
});

describe('a command without --project', () => {
  const purge = ['user', 'purge', '--older-than', '1h'];

  test('acts on the only project, but for project delete', async () => {
    expect(await runJson('project', 'show')).toMatchObject({ app_id: project.app_id });
    expect(await run('project', 'delete', '--yes', '--json')).toMatchObject({
      code: 2,
      stderr: `{"error":{"code":"BAD_USER_INPUT","message":"required option '--project <APP_ID>' not specified"}}\n`,
    });
  });

  test('is refused where there is none', async () => {
    await using empty = await copyTemplate();
    const { code, stderr } = await userdir(empty.env, ['user', 'bans']);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^userdir: There is no project yet\. Create one: /)]);
  });

  test('is refused where there are several, unless USERDIR_PROJECT says which', async () => {
    await createProject();
    expect(await run('project', 'show')).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(
        /^userdir: There are several projects: give --project APP_ID, or set USERDIR_PROJECT\. /,
      ),
    });
    const told = { ...settings(), USERDIR_PROJECT: project.app_id };
    expect(await userdirJson(told, ['project', 'show'])).toMatchObject({ app_id: project.app_id });
    expect((await userdir(told, purge)).stdout).toBe(`Erased 0 removed users of ${project.app_id}.\n`);
    expect((await run(...purge)).stdout).toBe('Erased 0 removed users of all projects.\n');
    expect((await userdir(told, ['project', 'delete', '--yes'])).code).toBe(2);
    expect((await userdir(told, ['project', 'show', '--project', 'app_1'])).code).toBe(1);
  });
});

const SECRET_AS_ID = `command-argument value "[secret]" is invalid for argument 'USER_ID'. ${NO_ID}`;

test.each([
  ['project show --project app_1', 1, 'NOT_FOUND', 'There is no project with the App ID "app_1".'],
  [
    'project limit --rate 0',
    2,
    'BAD_USER_INPUT',
    '--rate: got 0, expected a whole number from 1 to 100000000.',
    '--rate',
  ],
  ['user get uds_Zm9yIGEgdGVzdCBvbmx5', 2, 'BAD_USER_INPUT', SECRET_AS_ID],
])('with --json, userdir %s tells its error as JSON', async (line, exitCode, code, message, argument = undefined) => {
  const told = { ...settings(), USERDIR_PROJECT: project.app_id };
  expect(await userdir(told, [...line.split(' '), '--json'])).toEqual({
    code: exitCode,
    signal: null,
    stdout: '',
    stderr: `${JSON.stringify({ error: { code, message, argument } })}\n`,
  });
});
