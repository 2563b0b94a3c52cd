import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { CLI, type Credentials, makeFolder, type Settings, userdir, useServer } from '../support/command.js';

const SCRIPT = '/usr/bin/script';
const ESCAPE = '\u001b[';

const quoted = (words: readonly string[]) => words.map((word) => `'${word}'`).join(' ');

/** A command line for a terminal with this many columns. */
const onTerminal = (columns: number, ...args: string[]) => [
  '-qec',
  `stty cols ${columns}; ${quoted([process.execPath, CLI, ...args])}`,
  '/dev/null',
];
const environment = (settings: Settings) => ({ PATH: process.env['PATH'] ?? '', TERM: 'xterm', ...settings });

async function runOnTerminal(settings: Settings, columns: number, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(SCRIPT, onTerminal(columns, ...args), { env: environment(settings) });
  return stdout.replaceAll('\r\n', '\n');
}

describe.runIf(existsSync(SCRIPT))('on a terminal,', () => {
  const { settings, createProject } = useServer();
  const folder = makeFolder();
  let project: Credentials;
  beforeAll(async () => {
    project = await createProject();
  });

  test('a table prints one line per row if it fits, and one line per value if not', async () => {
    const plain = { ...settings(), NO_COLOR: '1' };
    const { app_id: appId } = project;
    const wide = await runOnTerminal(plain, 120, 'project', 'list');
    expect(wide).toMatch(new RegExp(`^ID {2}Name +App ID +Created +Users\n 1 {2}Test {2}${appId} .* 0\n$`));
    const narrow = await runOnTerminal(plain, 60, 'project', 'list');
    expect(narrow).toMatch(new RegExp(`^ID +1\nName +Test\nApp ID +${appId}\nCreated +\\S+\nUsers +0\n$`));
  });

  test.each<[what: string, settings: Settings, args: string[], coloured: boolean]>([
    ['colours', {}, [], true],
    ['none with NO_COLOR', { NO_COLOR: '1' }, [], false],
    ['none with NO_COLOR beside FORCE_COLOR', { NO_COLOR: '1', FORCE_COLOR: '1' }, [], false],
    ['none with --no-color', { FORCE_COLOR: '1' }, ['--no-color'], false],
    ['none on a terminal that has none', { TERM: 'dumb' }, [], false],
  ])('%s', async (_what, settings, args, coloured) => {
    const help = await runOnTerminal(settings, 80, 'project', 'list', '--help', ...args);
    expect(help.includes(ESCAPE)).toBe(coloured);
    const report = await runOnTerminal({ DATA_DIR: folder, ...settings }, 80, 'doctor', ...args);
    expect(report.includes(ESCAPE)).toBe(coloured);
  });

  test('without a terminal, colours are used only with FORCE_COLOR', async () => {
    expect((await userdir({ DATA_DIR: folder }, ['doctor'])).stdout).not.toContain(ESCAPE);
    expect((await userdir({ DATA_DIR: folder, FORCE_COLOR: '1' }, ['doctor'])).stdout).toContain(ESCAPE);
    const json = await userdir({ DATA_DIR: folder, FORCE_COLOR: '1' }, ['doctor', '--json']);
    expect(json.stdout).not.toContain(ESCAPE);
  });

  test('progress shows a bar, a count and a rate, reaches its end, and leaves only the report', async () => {
    const { app_id: appId } = project;
    const file = join(folder, 'users.ndjson');
    const lines = Array.from({ length: 6_000 }, (_, place) => `{"auth_method":"google","auth_value":"${place}"}\n`);
    await writeFile(file, lines.join(''));
    const imported = await runOnTerminal(settings(), 100, 'user', 'import', '--project', appId, file);
    expect(imported).toMatch(/█+░+ +\d+% {2}[\d,]+ lines {2}[\d,]+\/s {2}(\d+m)?\d+s left/);
    expect(imported).toMatch(/█+ 100% {2}6,000 lines .*finishing/);
    expect(imported.endsWith(`${ESCAPE}2KImported 6000, skipped 0, failed 0.\n`)).toBe(true);
    const redirected = `${quoted([process.execPath, CLI, 'user', 'export', '--project', appId])} > ${join(folder, 'out')}`;
    const env = environment(settings());
    const { stdout } = await promisify(execFile)(SCRIPT, ['-qec', redirected, '/dev/null'], { env });
    expect(stdout).toMatch(/100% {2}6,000 users/);
    const narrow = await runOnTerminal(settings(), 60, 'seed', '--project', appId, '--users', '2000');
    for (const line of narrow.split(`${ESCAPE}1G`)) expect(shownWidth(line)).toBeLessThanOrEqual(60);
    expect(narrow).toMatch(/100% {2}2,000 users/);
    // If the command were killed, a hidden cursor or disabled line wrapping would remain.
    for (const written of [imported, narrow]) expect(written).not.toMatch(/\[\?(25|7)l/);
  });

  /** Runs a command that asks, answers it, and resolves with what is on the terminal in the end. */
  async function answering(question: string, answer: string, ...args: string[]): Promise<string> {
    const child = spawn(SCRIPT, onTerminal(160, ...args), { env: environment({ ...settings(), NO_COLOR: '1' }) });
    const written: string[] = [];
    child.stdout.setEncoding('utf8').on('data', (text: string) => written.push(text));
    await expect.poll(() => written.join('')).toContain(question);
    child.stdin.write(answer);
    await once(child, 'close');
    return written.join('');
  }

  test('a rotation that ends a secret at once is asked about, and one with --yes or --overlap is not', async () => {
    const { app_id: appId } = await createProject();
    const secrets = async () => JSON.parse((await userdir(settings(), ['project', 'secrets', appId, '--json'])).stdout);
    const [before] = await secrets();
    const rotate = ['project', 'rotate', appId] as const;
    const question = `The secret main of ${appId} ends at once`;
    for (const answer of ['n\r', '\r', '\u0003'])
      expect(await answering(question, answer, ...rotate)).toMatch(/Nothing was changed\.\r?\n/);
    expect(await secrets()).toEqual([before]);
    expect(await answering(question, 'y\r', ...rotate)).toContain('The old secret is no longer valid.');
    const plain = settings();
    expect(await runOnTerminal(plain, 160, ...rotate, '--yes')).not.toContain(question);
    expect(await runOnTerminal(plain, 160, ...rotate, '--overlap', '1h')).not.toContain(question);
    expect(await secrets()).toHaveLength(4);
  });

  test('a deletion goes on only when the name of the project is typed', async () => {
    const { app_id: appId } = await createProject();
    const question = 'This erases the project Test with 0 users, and cannot be undone. Type its name to go on: ';
    const remove = ['project', 'delete', appId] as const;
    expect(await answering(question, 'test\r', ...remove)).toContain('That is not its name. Nothing was changed.');
    expect(await answering(question, 'Test\r', ...remove)).toContain('Deleted the project Test and 0 users');
    expect((await userdir(settings(), ['project', 'show', appId])).code).toBe(1);
  });
});

/** The width of a line without its escape sequences. */
function shownWidth(line: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin with one
  return [...line.replace(/\u001b(\[[?\d;]*[A-Za-z]|[78])/g, '')].length;
}
