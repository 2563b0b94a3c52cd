import { type ChildProcess, execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, closeSync, existsSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { vi } from 'vitest';
import { ROOT } from '../support/checkout.js';
import { freePort, freezeServer, thawServer, unprivilegedUser } from '../support/cluster.js';

/**
 * Three nodes of PostgreSQL under Patroni, with etcd and HAProxy, on loopback ports and in a directory of their own. The files are those of
 * docs/failover, with other addresses and directories.
 */

const PROGRAMS = [
  '/usr/bin/patroni',
  '/usr/bin/patronictl',
  '/usr/bin/etcd',
  '/usr/sbin/haproxy',
  '/usr/lib/postgresql/15/bin/postgres',
];

/** What this machine lacks for the drills. */
export const missingPrograms: readonly string[] = PROGRAMS.filter((program) => !existsSync(program));

const NAMES = ['pg1', 'pg2', 'pg3'] as const;
export type NodeName = (typeof NAMES)[number];

interface Node {
  readonly name: NodeName;
  readonly port: number;
  readonly restPort: number;
  readonly config: string;
  readonly dataDir: string;
  patroni: ChildProcess | null;
}

export interface Member {
  readonly Member: NodeName;
  readonly Role: string;
  readonly State: string;
}

export interface PatroniOptions {
  /** Called for each node before it starts. Returns settings of its PostgreSQL, for its own file. */
  readonly prepare?: (
    node: Pick<Node, 'name' | 'port' | 'dataDir'>,
    folder: string,
  ) => Readonly<Record<string, string>>;
}

const PATRONICTL_MS = 30_000;
const PG_CTL = '/usr/lib/postgresql/15/bin/pg_ctl';

const tailOf = (file: string) => readFileSync(file, 'utf8').slice(-2_000);

const LIMIT = { timeout: 120_000, interval: 200 };

export async function startPatroni({ prepare = () => ({}) }: PatroniOptions = {}) {
  const user = unprivilegedUser();
  const folder = mkdtempSync(join(tmpdir(), 'userdir-drill-'));
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid);
  const running = new Set<ChildProcess>();
  const etcdPort = await freePort();
  const proxyPort = await freePort();
  const replicaPort = await freePort();
  const synchronousPort = await freePort();
  const nodes: Node[] = [];
  for (const name of NAMES) {
    const [port, restPort] = [await freePort(), await freePort()];
    nodes.push({
      name,
      port,
      restPort,
      config: join(folder, `${name}.yml`),
      dataDir: join(folder, name),
      patroni: null,
    });
  }

  function run(program: string, args: readonly string[], name: string): ChildProcess {
    const log = openSync(join(folder, `${name}.log`), 'a');
    const child = spawn(program, args, {
      ...user,
      cwd: folder,
      env: { PATH: process.env['PATH'] ?? '', HOME: folder },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    running.add(child);
    child.once('exit', () => running.delete(child));
    return child;
  }

  /** A file of docs/failover with the addresses of this drill. */
  function adapt(file: string, to: string, more: (text: string) => string): void {
    let text = readFileSync(join(ROOT, 'docs/failover', file), 'utf8');
    for (const { name, port, restPort } of nodes) {
      text = text
        .replaceAll(`${name}.example.com:5432 check port 8008`, `127.0.0.1:${port} check port ${restPort}`)
        .replaceAll(`${name}.example.com:5432`, `127.0.0.1:${port}`)
        .replaceAll(`${name}.example.com:8008`, `127.0.0.1:${restPort}`);
    }
    writeFileSync(to, more(text), { mode: 0o644 });
  }

  const startNode = (node: Node) => {
    node.patroni = run('/usr/bin/patroni', [node.config], node.name);
  };

  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const peerUrl = `http://127.0.0.1:${await freePort()}`;
  run(
    '/usr/bin/etcd',
    [
      ...['--name', 'etcd1', '--data-dir', join(folder, 'etcd'), '--log-level', 'warn'],
      ...['--listen-client-urls', etcdUrl, '--advertise-client-urls', etcdUrl],
      ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
      ...['--initial-cluster', `etcd1=${peerUrl}`],
    ],
    'etcd',
  );
  for (const node of nodes) {
    const more = Object.entries(prepare(node, folder)).map(([name, value]) => `\n    ${name}: "${value}"`);
    adapt('patroni.yml', node.config, (text) => {
      const own = text
        .replace('name: pg1', `name: ${node.name}`)
        .replaceAll(`127.0.0.1:${nodes[0]?.port}`, `127.0.0.1:${node.port}`)
        .replaceAll(`127.0.0.1:${nodes[0]?.restPort}`, `127.0.0.1:${node.restPort}`);
      return own
        .replace(/hosts: \[.*\]/, `hosts: ['127.0.0.1:${etcdPort}']`)
        .replaceAll('10.0.0.0/8', '127.0.0.1/32')
        .replace('/var/lib/postgresql/15/userdir', node.dataDir)
        .replace('/var/lib/postgresql/patroni.pgpass', join(folder, `${node.name}.pgpass`))
        .replace('/var/run/postgresql', folder + more.join(''));
    });
    startNode(node);
  }
  const proxyConfig = join(folder, 'haproxy.cfg');
  adapt('haproxy.cfg', proxyConfig, (text) =>
    text
      .replace('127.0.0.1:5000', `127.0.0.1:${proxyPort}`)
      .replace('127.0.0.1:5001', `127.0.0.1:${replicaPort}`)
      .replace('127.0.0.1:5002', `127.0.0.1:${synchronousPort}`),
  );
  run('/usr/sbin/haproxy', ['-db', '-f', proxyConfig], 'haproxy');

  const controlOptions = {
    ...user,
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: folder, LC_ALL: 'C.UTF-8', LANG: 'C.UTF-8' },
    // Without etcd it would try for ever.
    timeout: PATRONICTL_MS,
  };
  const controlArguments = (args: readonly string[]) => ['-c', nodes[0]?.config as string, ...args];

  async function patronictl(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)('/usr/bin/patronictl', controlArguments(args), controlOptions);
    return stdout;
  }

  const members = async (): Promise<Member[]> => JSON.parse(await patronictl('list', '-f', 'json').catch(() => '[]'));

  /** Waits until one node leads, one standby is synchronous and every node runs. Returns the leader, that standby and the other one. */
  async function healthy(): Promise<{ leader: NodeName; standby: NodeName; other: NodeName }> {
    let all: Member[] = [];
    const find = async () => {
      all = await members();
      const leader = all.find(({ Role }) => Role === 'Leader')?.Member;
      const standby = all.find(({ Role }) => Role === 'Sync Standby')?.Member;
      const run = all.filter(({ State }) => ['running', 'streaming'].includes(State));
      const other = all.find(({ Member: name }) => name !== leader && name !== standby)?.Member;
      return leader && standby && other && run.length === NAMES.length && { leader, standby, other };
    };
    return vi.waitUntil(find, LIMIT).catch(() => {
      const logs = ['etcd', ...NAMES].map((name) => `${name}.log: ${tailOf(join(folder, `${name}.log`))}`);
      throw new Error([`The cluster is not healthy: ${JSON.stringify(all)}`, ...logs].join('\n'));
    });
  }

  const leader = async () => (await members()).find(({ Role }) => Role === 'Leader')?.Member;

  const nodeOf = (name: NodeName) => nodes.find((node) => node.name === name) as Node;
  const postmasterOf = ({ dataDir }: Node) =>
    Number(readFileSync(join(dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]);

  return {
    url: `postgres://postgres:change-me-1@127.0.0.1:${proxyPort}/postgres`,
    replicationUrl: `postgres://replicator:change-me-2@127.0.0.1:${proxyPort}/postgres`,
    /** Any standby. */
    replicaUrl: `postgres://postgres:change-me-1@127.0.0.1:${replicaPort}/postgres`,
    /** The synchronous standby. */
    synchronousUrl: `postgres://postgres:change-me-1@127.0.0.1:${synchronousPort}/postgres`,
    folder,
    healthy,
    /** The node that leads now; undefined while none does. */
    leader,
    switchOver: (from: NodeName, to: NodeName) =>
      patronictl('switchover', 'userdir', '--master', from, '--candidate', to, '--force'),
    /** Ends Patroni and PostgreSQL of a node at once, as a power cut does. */
    kill(name: NodeName): void {
      const node = nodeOf(name);
      node.patroni?.kill('SIGKILL');
      process.kill(postmasterOf(node), 'SIGKILL');
    },
    /** Stops the processes of PostgreSQL where they are, and leaves Patroni running. */
    freeze: (name: NodeName) => freezeServer(postmasterOf(nodeOf(name))),
    thaw: (name: NodeName) => thawServer(postmasterOf(nodeOf(name))),
    restart: (name: NodeName) => startNode(nodeOf(name)),
    /** Stops Patroni and PostgreSQL of a node, as systemd does. */
    async stopNode(name: NodeName): Promise<void> {
      const { patroni } = nodeOf(name);
      if (patroni === null) return;
      patroni.kill('SIGTERM');
      await once(patroni, 'exit');
    },
    /** Deletes what a stopped node has, but for its directory. */
    async empty(name: NodeName): Promise<void> {
      const { dataDir } = nodeOf(name);
      const entries = await readdir(dataDir);
      await Promise.all(entries.map((entry) => rm(join(dataDir, entry), { recursive: true })));
    },
    /** Starts PostgreSQL of a node without Patroni, or stops it. */
    control: (name: NodeName, ...args: string[]) =>
      execFileSync(PG_CTL, ['-D', nodeOf(name).dataDir, '-l', join(folder, `${name}.alone.log`), ...args], {
        ...user,
        cwd: folder,
        stdio: 'ignore',
      }),
    /** PostgreSQL of one node, whichever role it has. */
    urlOf: (name: NodeName) => `postgres://postgres:change-me-1@127.0.0.1:${nodeOf(name).port}/postgres`,
    /** Forgets the cluster: what etcd knows of it. */
    forget: () =>
      execFileSync('/usr/bin/patronictl', controlArguments(['remove', 'userdir']), {
        ...controlOptions,
        input: 'userdir\nYes I am aware\n',
        stdio: ['pipe', 'ignore', 'pipe'],
      }),
    async stop(): Promise<void> {
      const children = [...running];
      for (const child of children) child.kill('SIGTERM');
      await Promise.all(
        children.map(async (child) => {
          if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
        }),
      );
      for (const { dataDir } of nodes) {
        // Where Patroni was killed, PostgreSQL may still run.
        try {
          execFileSync(PG_CTL, ['-D', dataDir, '-m', 'immediate', 'stop'], {
            ...user,
            cwd: folder,
            stdio: 'ignore',
          });
        } catch {}
      }
      await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}
