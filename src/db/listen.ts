import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

const RECONNECT_MS = 1_000;

/**
 * Listens to the notices of a channel on its own connection, which is made again whenever it breaks. Notices that were sent
 * meanwhile are lost, so `onNotice` is also called after each connect. `onFailure` gets every error of the connection. Returns a
 * function that stops listening.
 */
export function listen(
  options: pg.ClientConfig,
  channel: string,
  onNotice: () => void,
  onFailure: (error: unknown) => void,
): () => Promise<void> {
  let client: pg.Client | null = null;
  const stopped = new AbortController();

  const report = (error: unknown) => {
    if (!stopped.signal.aborted) onFailure(error);
  };

  async function follow(): Promise<void> {
    const current = new pg.Client({ ...options, keepAlive: true });
    client = current;
    const ended = new Promise((resolve) => current.once('end', resolve));
    // Without a listener an error would end the process. An 'end' follows every error.
    current.on('error', report);
    current.on('notification', onNotice);
    await current.connect();
    await current.query(`LISTEN ${channel}`);
    onNotice();
    await ended;
  }

  async function keepFollowing(): Promise<void> {
    while (!stopped.signal.aborted) {
      await follow().catch(report);
      await client?.end().catch(() => undefined);
      await sleep(RECONNECT_MS, undefined, { ref: false, signal: stopped.signal }).catch(() => undefined);
    }
  }

  const following = keepFollowing();
  return async () => {
    stopped.abort();
    await client?.end().catch(() => undefined);
    await following;
  };
}
