import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test, vi } from 'vitest';
import { ROOT } from '../support/checkout.js';
import { hasPostgres } from '../support/cluster.js';
import { CLI, type Command, outcomeOf, spawnUserdir, startServer, userdirJson } from '../support/command.js';
import { copyTemplate } from '../support/engines.js';
import { PATIENCE } from '../support/waiting.js';

const failing = fileURLToPath(new URL('../support/failing-closers.mjs', import.meta.url));
const command: Command = [process.execPath, '--import', failing, CLI];

test('a server runs all close handlers, reports the first failure, and exits before the watchdog', async () => {
  await using database = await copyTemplate();
  const dataDir = database.env['DATA_DIR'] ?? '';
  // The watchdog would end it two seconds after this timeout.
  const server = await startServer({ ...database.env, DEMO: 'off', REQUEST_TIMEOUT_MS: '600000' }, command);
  const { code, signal, stderr } = await server.stop();
  expect({ code, signal }).toEqual({ code: 1, signal: null });
  expect(stderr).toContain('{"error":{"code":"FAILED","message":"The HTTP server failed to close."}}\n');
  expect(stderr).not.toContain('The pool failed to close.');
  expect(readdirSync(dataDir).filter((name) => name.startsWith('lock') || name === 'command.json')).toEqual([]);
  expect(await userdirJson(database.env, ['totals', 'check'])).toMatchObject({ differences: [] });
});

test('a command that fails reports its own error, not the error of closing', async () => {
  await using database = await copyTemplate();
  const child = spawnUserdir(database.env, ['user', 'bans', '--project', 'app_none'], command);
  child.stdin.end();
  const { code, stderr } = await outcomeOf(child);
  expect({ code, stderr }).toEqual({ code: 1, stderr: 'userdir: There is no project with the App ID "app_none".\n' });
  expect(readdirSync(database.env['DATA_DIR'] ?? '').filter((name) => name.startsWith('lock'))).toEqual([]);
});

test.runIf(hasPostgres)(
  'npm run size, ended by a signal, leaves neither its PostgreSQL nor its folder',
  async ({ onTestFinished }) => {
    // PostgreSQL's user must be able to enter it.
    const folder = mkdtempSync(join(tmpdir(), 'userdir-sizes-test-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    chmodSync(folder, 0o777);
    const script = join(ROOT, 'test/bench/sizes.mjs');
    const env = { PATH: process.env['PATH'], TMPDIR: folder };
    const child = spawn(process.execPath, [script, '--users', '1000'], { env, stdio: 'ignore' });
    const pidFile = () => {
      const file = readdirSync(folder)
        .map((name) => join(folder, name, 'postmaster.pid'))
        .find((path) => existsSync(path));
      return file !== undefined && Number(readFileSync(file, 'utf8').split('\n')[0]);
    };
    const pid = await vi.waitUntil(pidFile, PATIENCE);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([1, null]);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
  },
);
