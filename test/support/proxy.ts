import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy in front of a database or Redis that can be cut and frozen like a network. */
export interface TcpProxy {
  readonly port: number;
  /** Breaks every connection and accepts no new ones. */
  cut(): Promise<void>;
  /** Accepts connections and data, and forwards nothing. */
  freeze(): void;
  /** Ends a cut or a freeze. */
  restore(): Promise<void>;
  /** Sends new connections to another target; open connections stay. */
  redirect(target: Target): void;
  close(): Promise<void>;
}

export interface Target {
  readonly host: string;
  readonly port: number;
}

export async function startProxy(firstTarget: Target): Promise<TcpProxy> {
  let target = firstTarget;
  const pairs = new Set<[Socket, Socket]>();
  let isFrozen = false;
  const server = createServer((near) => {
    const far = connect({ ...target });
    const pair: [Socket, Socket] = [near, far];
    pairs.add(pair);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => undefined);
      from.pipe(to);
      from.on('close', () => {
        to.destroy();
        pairs.delete(pair);
      });
      if (isFrozen) from.unpipe(to).pause();
    }
  });
  const listen = async (port: number) => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const stop = async () => {
    const closed = server.listening ? once(server, 'close') : undefined;
    server.close();
    for (const pair of pairs) for (const socket of pair) socket.resetAndDestroy();
    await closed;
  };

  return {
    port,
    cut: stop,
    freeze() {
      isFrozen = true;
      for (const [near, far] of pairs) {
        near.unpipe(far).pause();
        far.unpipe(near).pause();
      }
    },
    async restore() {
      isFrozen = false;
      for (const [near, far] of pairs) {
        near.pipe(far);
        far.pipe(near);
      }
      if (!server.listening) await listen(port);
    },
    redirect(next) {
      target = next;
    },
    close: stop,
  };
}
