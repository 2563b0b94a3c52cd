import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { closeAll } from '../closers.js';
import { runInTrace } from '../telemetry/request-trace.js';
import { keepConnection, withConnection } from './connection.js';
import { isQueryTimeout, Pool } from './failures.js';
import { createTimeLimit } from './prepared-statement.js';
import { Behind, CHECK_MS, createStandbyChecks, type StandbyChecks } from './standby-checks.js';
import {
  createStatements,
  createTransactions,
  type Isolation,
  type Prisma,
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
  const { connection, maxLagMs, primary, onStatement } = options;
  const statementsOn = createStatements(onStatement && ((sql) => onStatement(sql, 'replica')));
  const statementLimit = createTimeLimit(REPLICA_STATEMENT_MS + ANSWER_MARGIN_MS);
  const readLimit = createTimeLimit(REPLICA_STATEMENT_MS + CONNECT_LIMIT_MS);
  const checks = createStandbyChecks(maxLagMs);
  const { pool, breakConnections } = createStandbyPool(options, checks);
  const { onOneConnection, inTransaction } = createTransactions(pool, statementsOn, { prepare: checks.requireFresh });
  const asOne = { ...connection, connectionTimeoutMillis: CONNECT_LIMIT_MS };
  const standby = createStandby(options, asOne, checks, { breakConnections, giveUpReads: readLimit.giveUpAll });
  const reads = { replica: 0, primary: 0 };
  let failures = 0;

  function readOnReplica<Row>(statement: Prisma.Sql | Statement): Promise<Row[]> {
    return new Promise((resolve, reject) => {
      const slot = readLimit.open({ giveUp: () => reject(new Error('The standby was left.')) });
      onOneConnection((client) => statementsOn(client, statementLimit).query<Row>(statement))
        .then(resolve, (error) => {
          if (isQueryTimeout(error)) standby.leave(error, false);
          reject(error);
        })
        .finally(() => readLimit.close(slot));
    });
  }

  return {
    start: standby.start,
    maxAgeMs: maxLagMs + CHECK_MS,

    async ask(text) {
      const question = { text, query_timeout: ASK_LIMIT_MS } as pg.QueryConfig;
      return withConnection(asOne, async (client) => (await client.query(question)).rows[0]);
    },

    async query<Row>(statement: Prisma.Sql | Statement): Promise<Row[]> {
      standby.start();
      if (standby.isUsed()) {
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
      standby.start();
      await standby.known;
      let isBegun = false;
      if (standby.isUsed()) {
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
      isUsed: standby.isUsed(),
      lagSeconds: standby.lagSeconds(),
      reads: { ...reads },
      failures,
    }),

    close: () => closeAll([() => pool.end(), () => standby.stop()]),
  };
}

interface StandbyPool {
  readonly pool: Pool;
  /** Breaks all connections off. */
  breakConnections(): void;
}

/** The connections for reads. Each must lead to the database of the primary. */
function createStandbyPool(
  { connection, poolSize }: Pick<ReplicaOptions, 'connection' | 'poolSize'>,
  { requireSameDatabase }: Pick<StandbyChecks, 'requireSameDatabase'>,
): StandbyPool {
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
  return {
    pool,
    breakConnections() {
      for (const client of clients) streamOf(client).destroy();
    },
  };
}

/** A polite end would wait for the answer of a server that gives none. */
function streamOf(client: pg.PoolClient): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** `unknown` until the first checks. It is `used` after some good ones, and `left` from a bad one until then. */
type StandbyState = 'unknown' | 'used' | 'left';

/** Whether the standby is used: it is watched from the first read on. */
interface Standby {
  start(): void;
  /** Stops to watch it. */
  stop(): Promise<void> | undefined;
  isUsed(): boolean;
  /** Resolves once it is used, or has had time enough for that. */
  readonly known: Promise<void>;
  /** For how long it was not known to have everything. */
  lagSeconds(): number;
  /** From now on reads go to the primary, also those that wait for the standby. `isAway` ends its connections, with the exports on them. */
  leave(reason: unknown, isAway: boolean): void;
}

/** What becomes of reads when the standby is left. */
interface Leaving {
  breakConnections(): void;
  giveUpReads(): void;
}

function createStandby(
  { keepSession, onReplica = () => undefined }: Pick<ReplicaOptions, 'keepSession' | 'onReplica'>,
  connection: pg.ClientConfig,
  checks: StandbyChecks,
  { breakConnections, giveUpReads }: Leaving,
): Standby {
  let state: StandbyState = 'unknown';
  let goodChecks = 0;
  let knownAt = performance.now();
  let stopWatching: (() => Promise<void>) | undefined;
  let setKnown = () => {};
  const known = new Promise<void>((resolve) => {
    setKnown = resolve;
  });

  function startWatching(): void {
    knownAt = performance.now();
    setTimeout(setKnown, START_MS).unref();
    keepSession(checks.followPrimary);
    stopWatching = keepConnection(connection, watch, (error) => leave(error, !(error instanceof Behind)));
  }

  /** Checks the standby on a connection of its own, so that neither load nor a pause of it delays that. */
  async function watch(client: pg.Client, signal: AbortSignal): Promise<void> {
    await checks.identified(signal);
    await checks.requireSameDatabase(client);
    for (;;) {
      knownAt = performance.now() - (await checks.check(client));
      goodChecks += 1;
      if (goodChecks >= GOOD_CHECKS) use();
      await sleep(CHECK_MS, undefined, { ref: false, signal });
    }
  }

  function use(): void {
    if (state === 'used') return;
    state = 'used';
    setKnown();
    onReplica(null);
  }

  function leave(reason: unknown, isAway: boolean): void {
    goodChecks = 0;
    if (isAway) breakConnections();
    if (state === 'left') return;
    state = 'left';
    giveUpReads();
    onReplica(reason);
  }

  return {
    start() {
      // A request that starts it must not trace what goes on after it.
      if (stopWatching === undefined) runInTrace(null, startWatching);
    },
    stop: () => stopWatching?.(),
    isUsed: () => state === 'used',
    known,
    lagSeconds: () => (performance.now() - knownAt) / 1_000,
    leave,
  };
}
