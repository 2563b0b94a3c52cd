import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { DatabaseConfig } from '../config/config.js';

type PostgresConfig = Extract<DatabaseConfig, { engine: 'postgres' }>;

/** How long a command waits for a connection. The service has a setting for it. */
const COMMAND_CONNECT_TIMEOUT_MS = 10_000;

/**
 * Settings of every session, after those of the URL.
 *
 * - UTC: Prisma's adapter reads a timestamp as UTC, whatever offset the session writes (prisma#26786).
 * - No JIT: it would compile for a second what runs for a millisecond.
 * - Generic plans: every statement is written to have one good plan, and planning costs more than running it.
 */
const SETTINGS = '-c TimeZone=UTC -c DateStyle=ISO -c jit=off -c plan_cache_mode=force_generic_plan';

/** How every connection to PostgreSQL is made. `limitMs` is the statement timeout, 0 for none. */
export function connectionOptions(config: PostgresConfig, serving: boolean, limitMs: number): pg.ClientConfig {
  const url = new URL(config.url);
  const given = url.searchParams.get('options') ?? '';
  // pg would use them instead of ours.
  url.searchParams.delete('options');
  return {
    connectionString: url.href,
    connectionTimeoutMillis: serving ? config.poolTimeoutMs : COMMAND_CONNECT_TIMEOUT_MS,
    application_name: 'userdir',
    // A connection whose other end disappeared is noticed in minutes instead of hours.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    options: `${given} ${SETTINGS} -c statement_timeout=${limitMs}`.trim(),
  };
}

const TURNS = 5;

/**
 * Whether two connections get sessions by turns: a pooler of transactions lies between. A lock or a LISTEN of one connection belongs to
 * everyone, and stays behind. A pooler that gives each connection a session of its own does no harm.
 */
export async function sharesSessions(options: pg.ClientConfig): Promise<boolean> {
  return withConnection(options, async (one) => {
    if (await isDirect(one)) return false;
    return withConnection(options, async (other) => {
      const [ofOne, ofOther] = [new Set<number>(), new Set<number>()];
      for (let turn = 0; turn < TURNS; turn += 1) {
        ofOne.add(await sessionOf(one));
        ofOther.add(await sessionOf(other));
      }
      return ofOne.size + ofOther.size !== new Set([...ofOne, ...ofOther]).size || ofOne.size > 1 || ofOther.size > 1;
    });
  });
}

/** Whether no pooler is in between. PostgreSQL itself tells the id of its process when it accepts a connection; poolers tell an invented one. */
export async function isDirect(client: pg.Client): Promise<boolean> {
  return (await sessionOf(client)) === (client as pg.Client & { processID: number }).processID;
}

async function sessionOf(client: pg.Client): Promise<number> {
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  return rows[0].pid;
}

export async function withConnection<Result>(
  options: pg.ClientConfig,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client(options);
  // The statement that waits reports a broken connection. Without a listener the process would end.
  client.on('error', () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

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
