import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { closeAll } from '../closers.js';
import { runInTrace } from '../telemetry/request-trace.js';
import { keepConnection, withConnection } from './connection.js';
import { isQueryTimeout, Pool } from './failures.js';
import { createTimeLimit } from './prepared-statement.js';
import {
  createStatements,
  createTransactions,
  type Isolation,
  Prisma,
  type Queryable,
  type Statement,
} from './statements.js';

/** Runs reads that may be somewhat old. */
export interface ReplicaReads extends Queryable {
  /** Runs `work`, which only reads, in one transaction without a time limit. */
  transaction<Result>(isolation: Isolation, work: (tx: Queryable) => Promise<Result>): Promise<Result>;
}

export interface ReplicaOptions {
  readonly connection: pg.ClientConfig;
  readonly poolSize: number;
  readonly maxLagMs: number;
  readonly primary: ReplicaReads;
  /** Keeps a session with the primary. */
  readonly keepSession: (work: (session: Queryable & { readonly signal: AbortSignal }) => Promise<void>) => void;
  readonly onStatement?: (sql: string, server: 'replica') => void;
  readonly onReplica?: (reason: unknown) => void;
}

/** The pause between questions to the primary for its position, and to the standby whether it follows. A connection counts as checked for so long. */
const CHECK_MS = 250;
/** A standby that does not answer a check for so long counts as frozen. */
const CHECK_LIMIT_MS = 750;
/** It is used again after so many good checks. */
const GOOD_CHECKS = 3;
const CONNECT_LIMIT_MS = 1_000;
/** After so long the standby gives a statement up, and the primary gets it. */
export const REPLICA_STATEMENT_MS = 1_500;
/** Its answer may come so much later, before it counts as frozen. */
const ANSWER_MARGIN_MS = 500;
/** The first transaction waits so long until the standby is known to have everything that was there at the start. */
const START_MS = 3_000;
const ASK_LIMIT_MS = 10_000;

/** The identity of the database. A standby has that of its primary. */
const IDENTITY = Prisma.sql`
  SELECT s.system_identifier::text || ' ' || d.oid::text AS identity
  FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()`;
/** On an idle primary this may lie inside a record, which no standby can replay until it is flushed (15 s at most). Lists then go there. */
const WRITTEN = Prisma.sql`SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::float8 AS position`;
const REPLAYED = Prisma.sql`
  SELECT pg_is_in_recovery() AS "isStandby", (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::float8 AS position`;

/** Reads on a standby while it answers and is not too far behind, and otherwise on the primary. */
export interface Replica extends ReplicaReads {
  /** Begins to watch the standby. Otherwise the first read does. */
  start(): void;
  /** Every read that begins now has all commits older than this. */
  readonly maxAgeMs: number;
  /** Answers a question about the standby itself, by one row, on a connection of its own. */
  ask(text: string): Promise<Record<string, string>>;
  usage(): ReplicaUsage;
  close(): Promise<void>;
}

export interface ReplicaUsage {
  /** True while reads go to the standby. */
  readonly isUsed: boolean;
  /** For how long it was not known to have everything. */
  readonly lagSeconds: number;
  /** The number of reads that each server has answered. */
  readonly reads: { readonly replica: number; readonly primary: number };
  /** Reads that failed on the standby, and then were made on the primary. */
  readonly failures: number;
}

export function createReplica(options: ReplicaOptions): Replica {
  const { connection, poolSize, maxLagMs, primary, keepSession, onStatement, onReplica = () => undefined } = options;
  const meter = createLagMeter(2 * maxLagMs);
  const statementsOn = createStatements(onStatement && ((sql) => onStatement(sql, 'replica')));
  const checksOn = createStatements(undefined);
  const checkLimit = createTimeLimit(CHECK_LIMIT_MS);
  const statementLimit = createTimeLimit(REPLICA_STATEMENT_MS + ANSWER_MARGIN_MS);
  const readLimit = createTimeLimit(REPLICA_STATEMENT_MS + CONNECT_LIMIT_MS);
  const clients = new Set<pg.PoolClient>();
  const pool = new Pool({
    ...connection,
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    max: poolSize,
    idleTimeoutMillis: 0,
    onConnect: (client) => requireSameDatabase(client as pg.PoolClient),
  });
  // The check reports what is broken. Without listeners the process would end.
  pool.on('error', () => undefined);
  pool.on('connect', (client) => {
    clients.add(client);
    client.on('error', () => undefined);
  });
  pool.on('remove', (client) => void clients.delete(client));
  const asOne = { ...connection, connectionTimeoutMillis: CONNECT_LIMIT_MS };
  const { onOneConnection, inTransaction } = createTransactions(pool, statementsOn, { prepare: requireFresh });

  const reads = { replica: 0, primary: 0 };
  let failures = 0;
  let state: 'unknown' | 'used' | 'left' = 'unknown';
  let goodChecks = 0;
  let knownAt = performance.now();
  let identity: string | null = null;
  const checked = new WeakMap<pg.ClientBase, { replayed: number; at: number }>();
  let stop: (() => Promise<void>) | undefined;
  let begun = () => {};
  const beginning = new Promise<void>((resolve) => {
    begun = resolve;
  });

  function start(): void {
    // A request that starts it must not trace what goes on after it.
    if (stop === undefined) runInTrace(null, startWatching);
  }

  function startWatching(): void {
    knownAt = performance.now();
    setTimeout(begun, START_MS).unref();
    keepSession(async (session) => {
      const [row] = await session.query<{ identity: string }>(IDENTITY);
      identity = row?.identity ?? null;
      for (;;) {
        const at = performance.now();
        const [written] = await session.query<{ position: number }>(WRITTEN);
        meter.record((written as { position: number }).position, at);
        await sleep(CHECK_MS, undefined, { ref: false, signal: session.signal });
      }
    });
    stop = keepConnection(asOne, watch, (error) => leave(error, !(error instanceof Behind)));
  }

  /** Checks the standby on a connection of its own, so that neither load nor a pause of it delays that. */
  async function watch(client: pg.Client, signal: AbortSignal): Promise<void> {
    while (identity === null) await sleep(CHECK_MS, undefined, { ref: false, signal });
    await requireSameDatabase(client);
    for (;;) {
      knownAt = performance.now() - (await check(client));
      goodChecks += 1;
      if (goodChecks >= GOOD_CHECKS) use();
      await sleep(CHECK_MS, undefined, { ref: false, signal });
    }
  }

  function use(): void {
    if (state === 'used') return;
    state = 'used';
    begun();
    onReplica(null);
  }

  /** From now on reads go to the primary, also those that wait for the standby. `isAway` ends its connections, with the exports on them. */
  function leave(reason: unknown, isAway: boolean): void {
    goodChecks = 0;
    if (isAway) for (const client of clients) streamOf(client).destroy();
    if (state === 'left') return;
    state = 'left';
    readLimit.giveUpAll();
    onReplica(reason);
  }

  async function requireSameDatabase(client: pg.ClientBase): Promise<void> {
    const [row] = await checksOn(client as pg.Client, checkLimit).query<{ identity: string }>(IDENTITY);
    if (identity === null) throw new Behind('The primary has not told yet which database it is.');
    if (row?.identity !== identity)
      throw new Error('DATABASE_REPLICA_URL leads to another database than DATABASE_URL.');
  }

  /** The age of this connection's answers. Throws where they are too old, or not those of the primary. */
  async function check(client: pg.ClientBase): Promise<number> {
    const [row] = await checksOn(client as pg.Client, checkLimit).query<{ isStandby: boolean; position: number }>(
      REPLAYED,
    );
    const { isStandby, position: replayed } = row as { isStandby: boolean; position: number };
    if (!isStandby) throw new Error('DATABASE_REPLICA_URL leads to a server that is not a standby.');
    const before = checked.get(client);
    if (before !== undefined && meter.isAhead(before.replayed, before.at))
      throw new Behind('The standby has what the primary has not: it does not follow it.');
    const at = performance.now();
    const ageMs = meter.ageOf(replayed, at);
    if (ageMs > maxLagMs)
      throw new Behind(`The standby has not replayed what the primary had written ${maxLagMs} ms before.`);
    checked.set(client, { replayed, at });
    return ageMs;
  }

  /** One address may lead to several standbys, so each connection is checked. */
  async function requireFresh(client: pg.PoolClient): Promise<void> {
    if (performance.now() - (checked.get(client)?.at ?? Number.NEGATIVE_INFINITY) > CHECK_MS) await check(client);
  }

  function readOnReplica<Row>(statement: Prisma.Sql | Statement): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      const slot = readLimit.open({ giveUp: () => reject(new Error('The standby was left.')) });
      onOneConnection((client) => statementsOn(client, statementLimit).query<Row>(statement))
        .then(resolve, (error) => {
          if (isQueryTimeout(error)) leave(error, false);
          reject(error);
        })
        .finally(() => readLimit.close(slot));
    });
  }

  return {
    start,
    maxAgeMs: maxLagMs + CHECK_MS,

    async ask(text) {
      const question = { text, query_timeout: ASK_LIMIT_MS } as pg.QueryConfig;
      return withConnection(asOne, async (client) => (await client.query(question)).rows[0]);
    },

    async query<Row>(statement: Prisma.Sql | Statement): Promise<Row[]> {
      start();
      if (state === 'used') {
        try {
          const rows = await readOnReplica<Row>(statement);
          reads.replica += 1;
          return rows;
        } catch {
          // Whatever it was: if it was not the standby, the primary says so too.
          failures += 1;
        }
      }
      reads.primary += 1;
      return primary.query(statement);
    },

    async transaction(isolation, work) {
      start();
      await beginning;
      let isBegun = false;
      if (state === 'used') {
        try {
          return await inTransaction(isolation, null, (tx) => {
            isBegun = true;
            reads.replica += 1;
            return work(tx);
          });
        } catch (error) {
          // Rows that were handed on cannot be read again elsewhere.
          if (isBegun) throw error;
          failures += 1;
        }
      }
      reads.primary += 1;
      return primary.transaction(isolation, work);
    },

    usage: () => ({
      isUsed: state === 'used',
      lagSeconds: (performance.now() - knownAt) / 1_000,
      reads: { ...reads },
      failures,
    }),

    close: () => closeAll([() => pool.end(), () => stop?.()]),
  };
}

/** A polite end would wait for the answer of a server that gives none. */
function streamOf(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** The standby answers, and must not be used. */
class Behind extends Error {
  override name = 'Behind';
}

/**
 * Measures how old the answers of a standby are, by the clock of this process alone. A standby that has replayed the log up to a position
 * has everything that was committed before the primary was asked for it. So an idle primary makes no standby old, as the time of the last
 * replayed commit would, and a standby that has lost its place in the log grows old, however healthy it looks.
 */
export interface LagMeter {
  /** The primary, asked at `at`, had written its log up to `position`. */
  record(position: number, at: number): void;
  /** The age of the oldest log that a standby has not replayed, which has replayed up to `replayed`: in milliseconds, Infinity where it is not known. */
  ageOf(replayed: number, now: number): number;
  /** True if the primary, asked after `since`, has not written what a standby had replayed by then: it does not follow this primary. */
  isAhead(replayed: number, since: number): boolean;
}

/** `keptMs` is the largest age that can be told. */
export function createLagMeter(keptMs: number): LagMeter {
  let positions: { readonly position: number; readonly at: number }[] = [];
  return {
    record(position, at) {
      const last = positions.at(-1);
      // Another server has become the primary, and the end of the old log is lost.
      if (last !== undefined && position < last.position) positions = [];
      while (positions[0] !== undefined && positions[0].at < at - keptMs) positions.shift();
      positions.push({ position, at });
    },
    ageOf(replayed, now) {
      const reached = positions.findLast(({ position }) => position <= replayed);
      return reached === undefined ? Number.POSITIVE_INFINITY : now - reached.at;
    },
    isAhead(replayed, since) {
      const last = positions.at(-1);
      return last !== undefined && last.at > since && last.position < replayed;
    },
  };
}
