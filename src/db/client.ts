import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { closeAll } from '../closers.js';
import type { DatabaseConfig } from '../config/config.js';
import { observed } from '../telemetry/request-trace.js';
import { createEmbeddedEngine, type EngineUsage } from './embedded.js';
import { type Prisma, PrismaClient } from './generated/prisma/client.js';
import { listen } from './listen.js';

export { Prisma } from './generated/prisma/client.js';
export { AuditAction, LoginMethod, Network, SecretScope, WalletType } from './generated/prisma/enums.js';

/** Whatever can run a statement: the database, or a transaction of it. */
export interface Queryable {
  /**
   * Runs one statement for its rows. The same as `$queryRaw` without what Prisma does around it, which costs a short statement
   * as much again and a large one its size several times over. A bigint is a number; a timestamp is its ISO 8601 text, as
   * callers get to see it.
   */
  query<Row>(sql: Prisma.Sql): Promise<Row[]>;
}

/** The database behind one type, whichever engine it is. Until `start` it answers nothing. */
export interface Database extends Queryable {
  /** Starts the embedded engine, whose data directory the caller has locked. */
  start(): Promise<void>;
  /** Ends the embedded engine at once without writing anything more; nothing on PostgreSQL. */
  abandon(): void;
  readonly prisma: PrismaClient;
  /** The connections below Prisma, for what it cannot say: scripts of several statements. */
  readonly pool: pg.Pool;
  /** Runs `work` in one transaction, for as long as it takes; what it throws undoes everything. */
  transaction<Result>(isolation: Isolation, work: (tx: Queryable) => Promise<Result>): Promise<Result>;
  /** The same within the limits of a request. May run `work` again, from the beginning, where it met another transaction. */
  requestTransaction<Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result>;
  /**
   * From now on calls `onNotice` for every notice of a channel, and whenever some may have been missed. Not on the embedded
   * engine, which has one process: who changes something there knows it.
   */
  listen(channel: string, onNotice: () => void): void;
  /** Of the embedded engine; null on PostgreSQL, which tells of itself. */
  engineUsage(): EngineUsage | null;
  /** Throws where the database does not answer, or answers in a way that would make our answers wrong. */
  check(): Promise<void>;
  /** After many rows came or went: PGlite never does it by itself, and PostgreSQL not at once. */
  vacuum(): Promise<void>;
  /** The same for the deltas alone, whose dead rows stand in the way of every total until they are gone. */
  vacuumDeltas(): Promise<void>;
  close(): Promise<void>;
}

export type Isolation = 'READ COMMITTED' | 'REPEATABLE READ';

export interface DatabaseOptions {
  /** Is told every statement, for tests that count them. */
  readonly onStatement?: (sql: string) => void;
  /** Is told of a connection that broke while nobody used it; the pool has already replaced it. */
  readonly onIdleError?: (error: Error) => void;
  /** Whether statements outside transactions are those of requests, which the limits of the settings are for. */
  readonly serving?: boolean;
}

const CONNECT_TIMEOUT_MS = 10_000;
const EMBEDDED_CONNECT_TIMEOUT_MS = 30_000;

export function createDatabase(config: DatabaseConfig, options: DatabaseOptions = {}): Database {
  if (config.engine === 'postgres') {
    const { serving = false } = options;
    // 0 is no limit.
    const limitMs = serving ? config.statementTimeoutMs : 0;
    const connection = {
      connectionString: withoutOptions(config.url),
      connectionTimeoutMillis: serving ? config.poolTimeoutMs : CONNECT_TIMEOUT_MS,
      application_name: 'userdir',
      // A connection whose other end is gone without a word is found out in minutes rather than hours.
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      options: sessionOptions(config.url, limitMs),
    };
    const stops: (() => Promise<void>)[] = [];
    return fromPool(new pg.Pool({ ...connection, max: config.poolSize }), limitMs, options, {
      start: async () => undefined,
      abandon: () => undefined,
      engineUsage: () => null,
      listen: (channel, onNotice) => void stops.push(listen(connection, channel, onNotice)),
      close: () => closeAll(stops),
    });
  }
  const engine = createEmbeddedEngine(config.dataDir);
  const pool = new pg.Pool({
    stream: () => engine.connect(),
    user: 'postgres',
    database: 'postgres',
    // PGlite has one session; a second connection would share it.
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: EMBEDDED_CONNECT_TIMEOUT_MS,
  });
  return fromPool(pool, 0, options, { ...engine, engineUsage: engine.usage, listen: () => undefined });
}

/** Options in the URL would take the place of ours instead of standing beside them. */
function withoutOptions(url: string): string {
  const stripped = new URL(url);
  stripped.searchParams.delete('options');
  return stripped.href;
}

/**
 * Settings of every session, after those that the URL brings. UTC, because Prisma's adapter takes the digits of a timestamp
 * for UTC, whatever offset the session wrote (prisma#26786). No JIT: it would compile for a second what runs for a millisecond. And one
 * plan for each statement: they are written so that they have one good plan, and planning costs more than running them.
 */
function sessionOptions(url: string, limitMs: number): string {
  const given = new URL(url).searchParams.get('options') ?? '';
  const ours = `-c TimeZone=UTC -c DateStyle=ISO -c jit=off -c plan_cache_mode=force_generic_plan`;
  return `${given} ${ours} -c statement_timeout=${limitMs}`.trim();
}

/** What the database gets beyond its own limit to say so, before it is taken for one that no longer answers. */
const GRACE_MS = 1_000;
const NO_ANSWER = 'Query read timeout';

/** For a statement, as pg takes it; nothing is no limit. */
interface Limit {
  readonly query_timeout?: number;
}

function fromPool(
  pool: pg.Pool,
  limitMs: number,
  options: DatabaseOptions,
  engine: Pick<Database, 'start' | 'abandon' | 'listen' | 'engineUsage' | 'close'>,
): Database {
  pool.on('error', (error) => options.onIdleError?.(error));
  const { onStatement } = options;
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, { statementNameGenerator: ({ sql }) => statementName(sql) }),
    transactionOptions: { maxWait: EMBEDDED_CONNECT_TIMEOUT_MS, timeout: 30_000 },
    ...(onStatement && { log: [{ emit: 'event', level: 'query' }] as const }),
  });
  if (onStatement) {
    (prisma as PrismaClient<'query'>).$on('query', (event) => onStatement(event.query));
  }
  const issue = (connection: pg.Pool | pg.PoolClient, statement: pg.QueryConfig & Limit) => {
    onStatement?.(statement.text);
    return observed({ kind: 'statement', sql: statement.text }, () => connection.query(statement));
  };
  const on = (connection: pg.Pool | pg.PoolClient, limit: Limit): Queryable => ({
    async query<Row>({ text, values }: Prisma.Sql) {
      const { rows } = await issue(connection, { name: statementName(text), text, values, types: TYPES, ...limit });
      return rows as Row[];
    },
  });
  const patience = limitMs === 0 ? {} : { query_timeout: limitMs + GRACE_MS };
  const single = on(pool, patience);

  /** Whoever stood beside a connection that no longer answers, or no longer takes what is written, is not asked either. */
  function dropIdle(): void {
    for (let idle = pool.idleCount; idle > 0; idle -= 1) {
      pool.connect().then(
        (connection) => connection.release(true),
        () => undefined,
      );
    }
  }

  /** Runs `work` on a connection of its own, which is given up with whatever it was in the middle of where that fails. */
  async function onOneConnection<Result>(work: (connection: pg.PoolClient) => Promise<Result>): Promise<Result> {
    const connection = await pool.connect();
    // Whoever waits for an answer hears of a connection that breaks; without a listener the process would end.
    const ignore = () => undefined;
    connection.on('error', ignore);
    try {
      const result = await work(connection);
      connection.off('error', ignore).release();
      return result;
    } catch (error) {
      connection.off('error', ignore).release(true);
      throw error;
    }
  }

  /** The same without the limits of requests. */
  function unhurried<Result>(work: (connection: pg.PoolClient) => Promise<Result>): Promise<Result> {
    if (limitMs === 0) return onOneConnection(work);
    return onOneConnection(async (connection) => {
      await connection.query('SET statement_timeout = 0');
      const result = await work(connection);
      await connection.query('RESET statement_timeout');
      return result;
    });
  }

  /** A connection whose transaction was undone can be used again: what undid it is returned. */
  const inTransaction =
    <Result>(isolation: Isolation, limit: Limit, work: (tx: Queryable) => Promise<Result>) =>
    async (connection: pg.PoolClient): Promise<{ result: Result } | { undoneBy: unknown }> => {
      await issue(connection, { text: `BEGIN ISOLATION LEVEL ${isolation}`, ...limit });
      try {
        const result = await work(on(connection, limit));
        await issue(connection, { text: 'COMMIT', ...limit });
        return { result };
      } catch (undoneBy) {
        await connection.query({ text: 'ROLLBACK', ...limit }).catch(() => {
          throw undoneBy;
        });
        return { undoneBy };
      }
    };

  async function resultOf<Result>(outcome: Promise<{ result: Result } | { undoneBy: unknown }>): Promise<Result> {
    const ended = await outcome;
    if ('undoneBy' in ended) throw ended.undoneBy;
    return ended.result;
  }

  /** Tries again what has met another transaction: the database has undone it, and nothing of it has happened. */
  async function retried<Result>(work: () => Promise<Result>): Promise<Result> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        if ((error as Error).message === NO_ANSWER || isReadOnly(error)) dropIdle();
        if (!isConflict(error) || tries === MAX_TRIES) throw error;
        await sleep(Math.random() * LONGEST_PAUSE_MS);
      }
    }
  }

  return {
    prisma,
    pool,
    query: (sql) => retried(() => single.query(sql)),
    transaction: (isolation, work) => resultOf(unhurried(inTransaction(isolation, {}, work))),
    requestTransaction: (work) =>
      retried(() => resultOf(onOneConnection(inTransaction('READ COMMITTED', patience, work)))),
    start: () => engine.start(),
    abandon: () => engine.abandon(),
    engineUsage: () => engine.engineUsage(),
    listen: (channel, onNotice) => engine.listen(channel, onNotice),
    async check() {
      const text = `SELECT current_setting('TimeZone') AS zone, current_setting('server_encoding') AS encoding`;
      const { rows } = await pool.query({ text, ...patience });
      if (rows[0].zone !== 'UTC')
        throw new Error(`Sessions must be in UTC, but the server put this one in ${rows[0].zone}.`);
      if (rows[0].encoding !== 'UTF8')
        throw new Error(`The database must be in UTF8, but it is in ${rows[0].encoding}.`);
    },
    async vacuum() {
      await unhurried((connection) =>
        connection.query('VACUUM (ANALYZE) users, accounts, tallies, tally_slices, tally_deltas'),
      );
    },
    async vacuumDeltas() {
      // Giving space back to the disk would lock everybody out for a moment; the next deltas need it anyway.
      await unhurried((connection) => connection.query('VACUUM (TRUNCATE off) tally_deltas'));
    },
    close: () => closeAll([() => engine.close(), () => pool.end(), () => prisma.$disconnect()]),
  };
}

const MAX_TRIES = 3;
const LONGEST_PAUSE_MS = 50;

/** A serialization failure or a deadlock, which the database ends by undoing one of those who met. */
function isConflict(error: unknown): boolean {
  return ['40001', '40P01'].includes(String((error as { code?: unknown }).code));
}

/** As a server says that was the one to write to before another took its place; whoever connects anew gets to that one. */
function isReadOnly(error: unknown): boolean {
  return (error as { code?: unknown }).code === '25006';
}

const UNREACHABLE = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'EPIPE'],
  // Too many connections; ended by the administrator or by a crash; starting up.
  ...['53300', '57P01', '57P02', '57P03'],
]);
/** What pg says in words only. */
const UNREACHABLE_WORDS = /^(timeout exceeded when trying to connect|Connection terminated|Query read timeout)/;

/** Whether it may be otherwise soon: nobody answers, or whoever does takes no connections now. */
export function isUnreachable(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return UNREACHABLE.has(String(code)) || UNREACHABLE_WORDS.test(String(message));
}

/** How values of `query` are made from their text. */
const PARSERS: Record<number, (text: string) => unknown> = {
  [pg.types.builtins.INT8]: toSafeInteger,
  [pg.types.builtins.TIMESTAMPTZ]: toIsoInstant,
};

/** Ids and totals are below 2^53, which the sequences of the ids see to. */
function toSafeInteger(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new RangeError('The database has an integer that JSON cannot carry exactly.');
}

/** `2026-01-31 12:00:00.12+00`, as sessions write an instant, in ISO 8601 with all its milliseconds. */
function toIsoInstant(text: string): string {
  const fraction = text.slice(19, -3);
  return `${text.slice(0, 10)}T${text.slice(11, 19)}${fraction === '' ? '.000' : fraction.padEnd(4, '0')}Z`;
}

const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    PARSERS[oid] ?? pg.types.getTypeParser(oid, format as 'text'),
};

/**
 * Named statements are parsed and planned once a connection; that doubles the rate of raw queries (design, section 7).
 * All our statements have few texts, because lists go in as one array parameter, so the names stay few too.
 */
const names = new Map<string, string>();
function statementName(sql: string): string {
  let name = names.get(sql);
  if (name === undefined) {
    name = `userdir_${createHash('sha1').update(sql).digest('hex')}`;
    names.set(sql, name);
  }
  return name;
}
