import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

const RECONNECT_MS = 1_000;

/**
 * Keeps a connection outside the pool for `work`, until the returned function is called. When it breaks, or when `work` fails, it is made
 * again and `work` runs again. `signal` aborts when it has to stop. `onFailure` gets every error.
 */
export function keepConnection(
  options: pg.ClientConfig,
  work: (connection: pg.Client, signal: AbortSignal) => Promise<void>,
  onFailure: (error: unknown) => void,
): () => Promise<void> {
  let client: pg.Client | null = null;
  const stopped = new AbortController();
  const report = (error: unknown) => {
    if (!stopped.signal.aborted) onFailure(error);
  };

  async function runOnce(): Promise<void> {
    const current = new pg.Client({ ...options, keepAlive: true });
    client = current;
    const ended = new Promise((resolve) => current.once('end', resolve));
    // Without a listener an error would end the process. An 'end' follows every error.
    current.on('error', report);
    // A client that is ended while it connects never settles its connect().
    await Promise.race([current.connect(), ended]);
    if (stopped.signal.aborted) return;
    await Promise.all([work(current, stopped.signal), ended]);
  }

  async function keepRunning(): Promise<void> {
    while (!stopped.signal.aborted) {
      await runOnce().catch(report);
      await client?.end().catch(() => undefined);
      await sleep(RECONNECT_MS, undefined, { ref: false, signal: stopped.signal }).catch(() => undefined);
    }
  }

  const running = keepRunning();
  return async () => {
    stopped.abort();
    await client?.end().catch(() => undefined);
    await running;
  };
}

/**
 * Listens to the notices of a channel on its own connection. Notices that were sent while it was broken are lost, so `onNotice` is also
 * called after each connect. `onFailure` gets every error of the connection. Returns a function that stops listening.
 */
export function listen(
  options: pg.ClientConfig,
  channel: string,
  onNotice: () => void,
  onFailure: (error: unknown) => void,
): () => Promise<void> {
  return keepConnection(
    options,
    async (connection) => {
      connection.on('notification', onNotice);
      await connection.query(`LISTEN ${channel}`);
      onNotice();
    },
    onFailure,
  );
}
