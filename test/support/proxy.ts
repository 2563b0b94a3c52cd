import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy in front of a database or Redis that can be cut and frozen like a network. */
export interface TcpProxy {
  readonly port: number;
  /** Breaks every connection and accepts no new ones. */
  cut(): Promise<void>;
  /** Accepts connections and data, and forwards nothing. */
  freeze(): void;
  /** From now on PostgreSQL seems to refuse every new connection with this SQLSTATE. */
  refuse(sqlState: string): void;
  /** From now on PostgreSQL seems to end a session with this SQLSTATE instead of answering; with null, without a word. */
  interrupt(sqlState: string | null): void;
  /** Ends a cut, a freeze, refusals and interruptions. */
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
  let refusal: string | null = null;
  let interruption: string | null | undefined;
  const server = createServer((near) => {
    if (refusal !== null) return refuseStartup(near, refusal);
    const far = connect({ ...target });
    const pair: [Socket, Socket] = [near, far];
    pairs.add(pair);
    near.on('data', () => {
      if (interruption === undefined) return;
      far.destroy();
      near.end(interruption === null ? '' : errorResponse(interruption));
    });
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
    refuse(sqlState) {
      refusal = sqlState;
    },
    interrupt(sqlState) {
      interruption = sqlState;
    },
    async restore() {
      isFrozen = false;
      refusal = null;
      interruption = undefined;
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

/** The answer of PostgreSQL that ends a session, in a language that nobody reads. */
function errorResponse(sqlState: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${sqlState}\0Mhat abgelehnt\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}

function refuseStartup(near: Socket, sqlState: string): void {
  near.on('error', () => undefined).once('data', () => near.end(errorResponse(sqlState)));
}
