import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

const RECONNECT_MS = 1_000;

/**
 * Follows the notices of a channel on a connection of its own, which is made anew for as long as it takes whenever it breaks.
 * What was sent meanwhile is lost, so `onNotice` is also called whenever the connection stands. Returns how to stop.
 */
export function listen(options: pg.ClientConfig, channel: string, onNotice: () => void): () => Promise<void> {
  let client: pg.Client | null = null;
  const stopped = new AbortController();

  async function follow(): Promise<void> {
    const current = new pg.Client({ ...options, keepAlive: true });
    client = current;
    const ended = new Promise((resolve) => current.once('end', resolve));
    // Without a listener an error would end the process; 'end' follows it.
    current.on('error', () => undefined);
    current.on('notification', onNotice);
    await current.connect();
    await current.query(`LISTEN ${channel}`);
    onNotice();
    await ended;
  }

  async function keepFollowing(): Promise<void> {
    while (!stopped.signal.aborted) {
      await follow().catch(() => undefined);
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
