import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { DatabaseConfig } from '../config/config.js';

type PostgresConfig = Extract<DatabaseConfig, { engine: 'postgres' }>;

/** A command waits so long for a connection. The service has a setting for it. */
const COMMAND_CONNECT_TIMEOUT_MS = 10_000;

/**
 * Settings of every session, after those of the URL.
 * - UTC: Prisma's adapter reads a timestamp as UTC, whatever offset the session writes (prisma#26786).
 * - No JIT: it would compile for a second what runs for a millisecond.
 * - Generic plans: every statement is written to have one good plan, and planning costs more than running it.
 */
const SETTINGS = '-c TimeZone=UTC -c DateStyle=ISO -c jit=off -c plan_cache_mode=force_generic_plan';

/** Options of every connection to PostgreSQL. `limitMs` is the statement timeout, 0 for none. */
export function connectionOptions(config: PostgresConfig, serving: boolean, limitMs: number): pg.ClientConfig {
  const url = new URL(config.url);
  const urlOptions = url.searchParams.get('options') ?? '';
  // pg would use them instead of ours.
  url.searchParams.delete('options');
  return {
    connectionString: url.href,
    connectionTimeoutMillis: serving ? config.poolTimeoutMs : COMMAND_CONNECT_TIMEOUT_MS,
    application_name: 'userdir',
    // A connection whose other end disappeared is noticed in minutes instead of hours.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    options: `${urlOptions} ${SETTINGS} -c statement_timeout=${limitMs}`.trim(),
  };
}

const TURNS = 5;

/** True if a pooler of transactions lends sessions by turns, so a lock or a LISTEN stays behind. One with a session for each does no harm. */
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

/** PostgreSQL does not know the statement, or has it from another client. */
const MIXED = new Set(['26000', '42P05']);

/** False if a pooler of transactions lends sessions without their prepared statements. */
export async function keepsStatements(options: pg.ClientConfig): Promise<boolean> {
  return withConnection(options, async (one) => {
    if (await isDirect(one)) return true;
    return withConnection(options, async (other) => {
      try {
        for (let turn = 0; turn < TURNS; turn += 1) await useNames(one, other);
        return true;
      } catch (error) {
        if (MIXED.has((error as pg.DatabaseError).code ?? '')) return false;
        throw error;
      }
    });
  });
}

/**
 * Uses new names as the service does, which names a statement by its text on each connection. Where both clients get one session, the second client
 * finds the name taken. Where sessions are lent by turns, the second use is in another session, which does not know the name.
 */
async function useNames(one: pg.Client, other: pg.Client): Promise<void> {
  const text = 'SELECT 1';
  const ofBoth = { name: randomUUID(), text };
  await one.query(ofBoth);
  await other.query(ofBoth);
  const ofOne = { name: randomUUID(), text };
  await one.query(ofOne);
  await one.query(ofOne);
}

/** True without a pooler: PostgreSQL itself tells the id of its process when it accepts a connection; poolers tell an invented one. */
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

/** Keeps a connection outside the pool for `work` until the returned function is called, and begins again after failures (`onFailure`). */
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
