import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, open, readFile, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { DataDirLockedError, lockDataDir } from '#dist/db/lock.js';
import {
  CLI,
  type Command,
  outcomeOf as commandOutcome,
  recordLogin,
  spawnUserdir,
  startServer,
  userdir,
  userdirJson,
} from '../support/command.js';
import { copyTemplate, type TestDatabase } from '../support/engines.js';
import { isNightly } from '../support/nightly.js';
import { PATIENCE } from '../support/waiting.js';

/** Larger than any real process id. */
const NO_PID = 4_194_305;
/** Longer than any test, so that a decision never depends on this timeout. */
const NEVER_MS = 3_600_000;
const inNamespace: Command = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc', process.execPath];
const [unshare, ...unshareOptions] = inNamespace;
const hasNamespaces = spawnSync(unshare, [...unshareOptions.slice(0, -1), 'true']).status === 0;

describe.runIf(inject('engine') === 'embedded')('the lock of the data directory', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'userdir-lock-'));
  });
  afterEach(() => rm(dataDir, { recursive: true, force: true }));

  const lockFile = () => join(dataDir, readdirSync(dataDir).find((name) => /^lock\.\d+$/.test(name)) ?? '');
  const take = (options: { deadAfterMs?: number; onLost?: (error: Error) => void; onDoubt?: (text: string) => void }) =>
    lockDataDir(dataDir, { command: 'test' }, { waitMs: 0, heartbeatMs: 20, deadAfterMs: NEVER_MS, ...options });
  const outcomeOf = async (taking: Promise<{ release(): Promise<void> }>) => {
    try {
      await (await taking).release();
      return 'taken';
    } catch (error) {
      if (error instanceof DataDirLockedError) return 'refused';
      throw error;
    }
  };
  /** Writes the lock file of this process with some fields changed, as another process would leave it. */
  async function leaveLock(differences: Record<string, unknown>): Promise<string> {
    const lock = await take({});
    const mine = JSON.parse(await readFile(lockFile(), 'utf8'));
    await lock.release();
    const path = join(dataDir, 'lock.1');
    await writeFile(path, JSON.stringify({ ...mine, id: 'another', ...differences }));
    return path;
  }

  const foreign = { pid: NO_PID, pidSpace: 'this-boot pid:[1]' };
  for (const [whose, differences] of [
    ['another PID namespace of this host', foreign],
    ['an unknown PID namespace', { pid: NO_PID, pidSpace: null }],
    ['another host', { pid: NO_PID, hostname: `not-${hostname()}` }],
    ['a version that did not say', { pid: NO_PID, pidSpace: undefined, beat: undefined, id: undefined }],
  ] as const) {
    test(`a holder of ${whose} whose pid does not exist is dead only after its file stops changing`, async () => {
      await leaveLock(differences);
      const started = performance.now();
      expect(await outcomeOf(take({ deadAfterMs: 300 }))).toBe('taken');
      expect(performance.now() - started).toBeGreaterThan(250);
    });
  }

  test.runIf(isNightly)('who waits for a holder to die is told after three seconds', async () => {
    const path = await leaveLock(foreign);
    const doubts: string[] = [];
    expect(await outcomeOf(take({ deadAfterMs: 3_500, onDoubt: (text) => doubts.push(text) }))).toBe('taken');
    expect(doubts).toEqual([expect.stringContaining(`watching ${path} for 3.5 s`)]);
  });

  test('a heartbeat keeps the lock, whatever the pid and the file time say', async () => {
    const path = await leaveLock(foreign);
    const file = await open(path, 'r+');
    let beats = 0;
    const beating = setInterval(async () => {
      beats += 1;
      await file.write(String(beats).padStart(12, '0'), '{"beat":"'.length);
      await utimes(path, 0, 0);
    }, 20);
    expect(await outcomeOf(take({}))).toBe('refused');
    clearInterval(beating);
    await file.close();
  });

  test('a version that touches its file instead of writing heartbeats is alive, whatever its clock says', async () => {
    const path = await leaveLock({ ...foreign, pidSpace: undefined, beat: undefined, hostname: 'elsewhere' });
    let second = 0;
    const touching = setInterval(() => {
      second += 1;
      utimes(path, second, second).catch(() => undefined);
    }, 20);
    expect(await outcomeOf(take({}))).toBe('refused');
    clearInterval(touching);
  });

  test('a file time in the future does not count as alive', async () => {
    const path = await leaveLock(foreign);
    const tomorrow = Date.now() / 1_000 + 86_400;
    await utimes(path, tomorrow, tomorrow);
    expect(await outcomeOf(take({ deadAfterMs: 300 }))).toBe('taken');
  });

  test.runIf(process.platform === 'linux')('a pid of the same namespace decides at once', async () => {
    await leaveLock({ pid: NO_PID });
    expect(await outcomeOf(take({}))).toBe('taken');
    await leaveLock({ processStart: 'another boot/1' });
    expect(await outcomeOf(take({}))).toBe('taken');
    await leaveLock({ pid: process.pid });
    expect(await outcomeOf(take({}))).toBe('refused');
  });

  test('several dead holders are each watched once', async () => {
    const path = await leaveLock(foreign);
    await writeFile(join(dataDir, 'lock.2'), await readFile(path));
    expect(await outcomeOf(take({ deadAfterMs: 300 }))).toBe('taken');
    expect(readdirSync(dataDir)).toEqual([]);
  });

  for (const [what, change] of [
    ['is gone', (path: string) => rm(path)],
    [
      'was replaced by that of another',
      (path: string) => replace(path, (text) => text.replace(/"id":"/, '"id":"not-')),
    ],
    ['was written over by another', (path: string) => replace(path, () => '{"pid":1}')],
  ] as const) {
    test(`a holder whose file ${what} is told once, and does not change the file`, async () => {
      const lost: Error[] = [];
      const lock = await take({ onLost: (error) => lost.push(error) });
      const path = lockFile();
      await change(path);
      const left = existsSync(path) ? await readFile(path, 'utf8') : null;
      await vi.waitFor(() => expect(lost).toHaveLength(1), PATIENCE);
      await lock.release();
      expect(lost.map(({ message }) => message)).toEqual([expect.stringContaining(`${path} is gone or was changed`)]);
      expect(existsSync(path) ? await readFile(path, 'utf8') : null).toBe(left);
    });
  }

  async function replace(path: string, text: (before: string) => string): Promise<void> {
    const draft = join(dataDir, 'draft');
    await writeFile(draft, text(await readFile(path, 'utf8')));
    await rename(draft, path);
  }

  describe.runIf(hasNamespaces)('in separate PID namespaces (where unshare can create them)', () => {
    const holder = fileURLToPath(new URL('../support/lock-holder.mjs', import.meta.url));
    const module = new URL('../../dist/db/lock.js', import.meta.url).href;
    async function startHolder() {
      const child = spawn(unshare, [...unshareOptions, holder, dataDir, module], {
        stdio: ['pipe', 'pipe', 'inherit'],
      });
      const [line] = await once(child.stdout, 'data');
      expect(String(line)).toBe('held\n');
      return child;
    }

    test('a live holder keeps the lock, and a killed one loses it', async () => {
      const child = await startHolder();
      expect(JSON.parse(readFileSync(lockFile(), 'utf8'))).toMatchObject({ pid: 1, hostname: hostname() });
      expect(await outcomeOf(take({}))).toBe('refused');
      child.kill('SIGKILL');
      await once(child, 'close');
      expect(await outcomeOf(take({ deadAfterMs: 300 }))).toBe('taken');
    });

    test('a second holder with the same pid is refused', async () => {
      const child = await startHolder();
      const second = spawnSync(unshare, [...unshareOptions, holder, dataDir, module], { encoding: 'utf8' });
      expect(second.stdout).toBe('refused\n');
      child.kill('SIGKILL');
      await once(child, 'close');
    });
  });
});

describe.runIf(inject('engine') === 'embedded')('a server and the lock of its data directory', () => {
  let database: TestDatabase;
  let dataDir: string;
  beforeEach(async () => {
    database = await copyTemplate();
    dataDir = database.env['DATA_DIR'] ?? '';
  });
  afterEach(() => database.drop());

  test.runIf(hasNamespaces && isNightly)(
    'a server in another PID namespace keeps its directory and accepts commands',
    async () => {
      const server = await startServer(database.env, [...inNamespace, CLI]);
      const demo = server.demo ?? { app_id: '', app_secret: '' };
      const second = await userdir({ ...database.env, PORT: '0' }, ['serve']);
      expect(second).toMatchObject({ code: 1, stdout: '' });
      expect(second.stderr).toContain(
        `The data directory ${dataDir} is in use by "userdir serve" (pid 1 on ${hostname()}`,
      );
      await recordLogin(server.url, demo, { authMethod: 'email', authValue: 'kept@example.com' });
      expect(await userdirJson(database.env, ['project', 'list'])).toMatchObject([{ total_user: 201 }]);
      const child = readFileSync(`/proc/${server.process.pid}/task/${server.process.pid}/children`, 'utf8');
      process.kill(Number(child));
      await server.outcome;
      expect(await userdirJson(database.env, ['totals', 'check'])).toMatchObject({ differences: [] });
      expect(await userdirJson(database.env, ['project', 'list'])).toMatchObject([{ total_user: 201 }]);
    },
  );

  test('a server whose lock file is gone stops at once, and writes nothing more to the database', async () => {
    const server = await startServer({ ...database.env, SHUTDOWN_DELAY_MS: '600000' });
    const demo = server.demo ?? { app_id: '', app_secret: '' };
    const { status } = await recordLogin(server.url, demo, { authMethod: 'email', authValue: 'kept@example.com' });
    expect(status).toBe(200);
    const control = () => readFileSync(join(dataDir, 'pgdata/global/pg_control'), 'latin1');
    const before = control();
    const path = join(dataDir, readdirSync(dataDir).find((name) => /^lock\.\d+$/.test(name)) ?? '');
    await rm(path);
    const { code, signal, stderr } = await server.outcome;
    expect({ code, signal }).toEqual({ code: 1, signal: null });
    expect(stderr).toMatch(
      new RegExp(
        `^\\{"error":\\{"code":"FAILED","message":"The lock file ${path} is gone or was changed by another process`,
        'm',
      ),
    );
    // There is not even a shutdown checkpoint; the next command writes one.
    expect(control()).toBe(before);
    expect(await userdirJson(database.env, ['project', 'list'])).toMatchObject([{ total_user: 201 }]);
    expect(control()).not.toBe(before);
  });

  test.runIf(isNightly)('a command whose lock file is gone ends at once, and changes nothing', async () => {
    const { app_id: appId } = await userdirJson(database.env, ['project', 'create', '--name', 'Test']);
    const child = spawnUserdir(database.env, ['user', 'import', '--project', appId]);
    const outcome = commandOutcome(child);
    // More than the pipe can buffer. When the write ends, the command has read input and holds the directory.
    const line = '{"auth_method":"email","auth_value":"lost@example.com"}\n';
    await new Promise((resolve) => child.stdin.write(line + '\n'.repeat(1_000_000), resolve));
    const path = join(dataDir, readdirSync(dataDir).find((name) => /^lock\.\d+$/.test(name)) ?? '');
    await rm(path);
    const { code, stdout, stderr } = await outcome;
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
    expect(stderr).toMatch(
      new RegExp(`^userdir: The lock file ${path} is gone or was changed by another process[^\n]*\n$`),
    );
    expect(await userdirJson(database.env, ['project', 'list'])).toMatchObject([{ total_user: 0 }]);
  });
});
