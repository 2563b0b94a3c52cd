import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { vi } from 'vitest';
import { ROOT } from './checkout.js';
import { freePort } from './cluster.js';
import { PATIENCE } from './waiting.js';

export const HAPROXY = '/usr/sbin/haproxy';
/** HAProxy looks every second and leaves a process after two looks, so a process has to stay for longer. */
export const SHUTDOWN_DELAY_MS = 3_000;

export interface Balancer {
  readonly url: string;
  /** Resolves when requests are sent to both processes. */
  bothUp(): Promise<void>;
  process: ChildProcess;
}

/** HAProxy with the file of docs/deploy, in front of two processes of this machine. `folder` is for its files. */
export async function startBalancer(folder: string, ports: readonly [number, number]): Promise<Balancer> {
  const socket = join(folder, 'balancer.sock');
  const port = await freePort();
  const text = readFileSync(join(ROOT, 'docs/deploy/haproxy.cfg'), 'utf8')
    .replace('global\n', `global\n  stats socket ${socket}\n`)
    .replace('bind :8080', `bind 127.0.0.1:${port}`)
    .replace('userdir-a:4000', `127.0.0.1:${ports[0]}`)
    .replace('userdir-b:4000', `127.0.0.1:${ports[1]}`);
  const file = join(folder, 'balancer.cfg');
  writeFileSync(file, text);
  const countUp = async () => {
    const shown = await promisify(execFile)('sh', ['-c', `echo 'show stat' | socat - UNIX-CONNECT:${socket}`]).catch(
      () => null,
    );
    return shown?.stdout.match(/^userdir,[ab],.*,UP,/gm)?.length;
  };
  const balancer = {
    url: `http://127.0.0.1:${port}`,
    bothUp: () => vi.waitUntil(async () => (await countUp()) === 2, PATIENCE).then(() => {}),
    process: spawn(HAPROXY, ['-db', '-f', file], { stdio: 'ignore' }),
  };
  await balancer.bothUp();
  return balancer;
}
