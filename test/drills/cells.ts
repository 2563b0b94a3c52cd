import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import { ROOT } from '../support/checkout.js';
import { createCluster, freePort, hasPostgres } from '../support/cluster.js';
import { type RunningServer, type Settings, startServer, userdirJson } from '../support/command.js';

/** Two cells, each a PostgreSQL and a service, behind two HAProxy with the files of docs/cells, on loopback ports. */

const SCRIPTS = join(ROOT, 'docs/cells');
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

/** Commands of a shell. */
export type Around = Record<string, { readonly before?: string; readonly after?: string }>;

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
  const balancers = await Promise.all(['lb1', 'lb2'].map((name) => startBalancer(name)));
  // Instead of ssh: each balancer has a folder with its socket and its maps.
  const shell = join(folder, 'on-balancer');
  writeFileSync(
    shell,
    `#!/bin/sh
balancer=${folder}/$1; shift
exec env PATH="${SCRIPTS}:$PATH" HAPROXY_SOCKET=$balancer/haproxy.sock CELLS_MAP=$balancer/cells.map HELD_MAP=$balancer/held.map "$@"
`,
    { mode: 0o755 },
  );
  const environment = { BALANCERS: 'lb1 lb2', ON_BALANCER: shell };

  async function startBalancer(name: string) {
    const own = join(folder, name);
    mkdirSync(own);
    const port = await freePort();
    const config = join(own, 'haproxy.cfg');
    const addressOf = (url: string) => new URL(url).host;
    const text = readFileSync(join(ROOT, 'docs/cells/haproxy.cfg'), 'utf8')
      .replaceAll('/etc/haproxy/', `${own}/`)
      .replace('/run/haproxy/admin.sock', join(own, 'haproxy.sock'))
      .replace('bind :8080', `bind 127.0.0.1:${port}`)
      .replaceAll(/cell1[ab]\.example\.com:4000/g, addressOf(cell1.server.url))
      .replaceAll(/cell2[ab]\.example\.com:4000/g, addressOf(cell2.server.url));
    writeFileSync(config, text);
    for (const map of ['cells.map', 'held.map']) writeFileSync(join(own, map), '');
    const url = `http://127.0.0.1:${port}`;
    let proxy: ChildProcess | null = null;

    async function start(): Promise<void> {
      proxy = spawn('/usr/sbin/haproxy', ['-db', '-f', config], { stdio: 'ignore' });
      const isReady = () =>
        fetch(`${url}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        );
      await vi.waitUntil(isReady, { timeout: 60_000 });
    }

    async function kill(): Promise<void> {
      if (proxy === null || proxy.exitCode !== null || proxy.signalCode !== null) return;
      const ended = once(proxy, 'exit');
      proxy.kill('SIGKILL');
      await ended;
    }

    await start();
    closers.push(kill);
    return { url, start, kill, pid: () => (proxy as ChildProcess).pid as number };
  }

  return {
    balancers,
    cells: { cell1, cell2 },
    /** The settings and the arguments of the command that moves a project. What is `around` a command is run before or after it, by option. */
    moveCommand(appId: string, from: CellName, to: CellName, around: Around = {}) {
      const cell = { cell1, cell2 };
      const script = (option: string, argument: string) => {
        const { before = 'true', after = 'true' } = around[option] ?? {};
        return [option, `${before} && ${SCRIPTS}/balancers.sh ${argument} && ${after}`];
      };
      const args = [
        ...['project', 'move', appId, '--to', cell[to].databaseUrl],
        ...script('--hold-command', 'hold'),
        ...script('--map-command', to),
        ...script('--release-command', 'release'),
      ];
      return { settings: { ...cell[from].settings, ...environment }, args };
    },
    /** Sends a project to a cell. */
    mapTo(appId: string, name: CellName): void {
      execFileSync(`${SCRIPTS}/balancers.sh`, [name], {
        env: { ...process.env, ...environment, USERDIR_APP_ID: appId },
      });
    },
    async stop(): Promise<void> {
      for (const close of closers.reverse()) await close();
    },
  };
}
