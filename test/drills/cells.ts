import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import { ROOT } from '../support/checkout.js';
import { createCluster, freePort, hasPostgres } from '../support/cluster.js';
import { type RunningServer, type Settings, startServer, userdirJson } from '../support/command.js';

/** Two cells, each a PostgreSQL and a service, behind HAProxy with the files of docs/cells, on loopback ports. */

const SCRIPT = join(ROOT, 'docs/cells/cells.sh');
const PROGRAMS = ['/usr/sbin/haproxy', '/usr/bin/socat', '/usr/bin/flock'];

/** What this machine lacks for the drills. */
export const missingPrograms: readonly string[] = [
  ...PROGRAMS.filter((program) => !existsSync(program)),
  ...(hasPostgres ? [] : ['postgres']),
];

export type CellName = 'cell1' | 'cell2';
const RANGES: Record<CellName, string> = { cell1: '1-1000000', cell2: '1000001-2000000' };

export interface Cell {
  readonly name: CellName;
  readonly databaseUrl: string;
  readonly settings: Settings;
}

export async function startCells() {
  const folder = mkdtempSync(join(tmpdir(), 'userdir-cells-'));
  const closers: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];

  async function startCell(name: CellName): Promise<Cell & { server: RunningServer }> {
    const cluster = await createCluster(['wal_level=logical']);
    closers.push(() => cluster.drop());
    const settings = { DATABASE_URL: cluster.url, DATA_DIR: join(folder, name), LOG_LEVEL: 'fatal', DEMO: 'off' };
    await userdirJson(settings, ['project', 'ids', '--range', RANGES[name]]);
    const server = await startServer(settings);
    closers.push(() => server.stop());
    return { name, databaseUrl: cluster.url, settings, server };
  }

  const cell1 = await startCell('cell1');
  const cell2 = await startCell('cell2');
  const port = await freePort();
  const config = join(folder, 'haproxy.cfg');
  const socket = join(folder, 'haproxy.sock');
  const addressOf = (url: string) => new URL(url).host;
  const text = readFileSync(join(ROOT, 'docs/cells/haproxy.cfg'), 'utf8')
    .replaceAll('/etc/haproxy/', `${folder}/`)
    .replace('/run/haproxy/admin.sock', socket)
    .replace('bind :8080', `bind 127.0.0.1:${port}`)
    .replaceAll(/cell1[ab]\.example\.com:4000/g, addressOf(cell1.server.url))
    .replaceAll(/cell2[ab]\.example\.com:4000/g, addressOf(cell2.server.url));
  writeFileSync(config, text);
  for (const map of ['cells.map', 'held.map']) writeFileSync(join(folder, map), '');
  const proxy: ChildProcess = spawn('/usr/sbin/haproxy', ['-db', '-f', config], { stdio: 'ignore' });
  closers.push(async () => {
    if (proxy.exitCode !== null) return;
    proxy.kill('SIGTERM');
    await once(proxy, 'exit');
  });
  const url = `http://127.0.0.1:${port}`;
  await vi.waitUntil(
    () =>
      fetch(`${url}/readyz`).then(
        ({ ok }) => ok,
        () => false,
      ),
    { timeout: 60_000 },
  );
  // The command gives them to the scripts.
  const scripts = {
    HAPROXY_SOCKET: socket,
    CELLS_MAP: join(folder, 'cells.map'),
    HELD_MAP: join(folder, 'held.map'),
  };

  return {
    url,
    cells: { cell1, cell2 },
    /** The settings and the arguments of the command that moves a project. `after` is run at the end of a command, by option. */
    moveCommand(appId: string, from: CellName, to: CellName, after: Record<string, string> = {}) {
      const cell = { cell1, cell2 };
      const script = (option: string, argument: string) => [
        option,
        `${SCRIPT} ${argument}${after[option] ? ` && ${after[option]}` : ''}`,
      ];
      const args = [
        ...['project', 'move', appId, '--to', cell[to].databaseUrl],
        ...script('--hold-command', 'hold'),
        ...script('--map-command', to),
        ...script('--release-command', 'release'),
      ];
      return { settings: { ...cell[from].settings, ...scripts }, args };
    },
    /** Sends a project to a cell. */
    mapTo(appId: string, name: CellName): void {
      execFileSync(SCRIPT, [name], { env: { ...process.env, ...scripts, USERDIR_APP_ID: appId } });
    },
    async stop(): Promise<void> {
      for (const close of closers.reverse()) await close();
    },
  };
}
