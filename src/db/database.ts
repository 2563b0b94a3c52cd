import type pg from 'pg';
import { closeAll } from '../closers.js';
import type { DatabaseConfig } from '../config/config.js';
import { connectionOptions, isDirect, keepConnection, keepsStatements, sharesSessions } from './connection.js';
import { createEmbeddedEngine, EmbeddedStream, type EngineUsage } from './embedded.js';
import { fromPrisma, Pool, toUnavailable } from './failures.js';
import { Prisma, PrismaClient } from './generated/prisma/client.js';
import { createTurns } from './one-at-a-time.js';
import { createTimeLimit } from './prepared-statement.js';
import { createRefusedWrites, type RefusedWrites } from './refused-writes.js';
import { createReplica, REPLICA_STATEMENT_MS, type Replica, type ReplicaReads } from './replica.js';
import {
  createStatements,
  createTransactions,
  type Isolation,
  type Queryable,
  readValue,
  statementName,
} from './statements.js';

/** The database behind one type, for both engines. It answers nothing before `start`. */
export interface Database extends Queryable {
  /** Statements that are withdrawn if `mayBegin` says no once there is a connection for them. UNAVAILABLE then. */
  withdrawable(mayBegin: () => boolean): Queryable;
  /** The limit of a request's statement, until it is given up. */
  readonly statementMs: number;
  /** Starts the embedded engine. The caller has locked its data directory. */
  start(): Promise<void>;
  /** Stops the embedded engine at once (embedded.ts). Does nothing on PostgreSQL. */
  abandon(): void;
  /** Reads by the models of Prisma, for what few requests need. UNAVAILABLE while the database is away. */
  models<Result>(work: (models: PrismaClient) => Promise<Result>): Promise<Result>;
  /** Changes rows by the models of Prisma in one transaction, and again after a conflict. */
  change<Result>(work: (tx: Prisma.TransactionClient) => Promise<Result>): Promise<Result>;
  /** The connections below Prisma, for scripts of several statements. */
  readonly pool: Pool;
  /** A connection for what a pooler would break: migrations, VACUUM. It has no statement timeout, and is closed when idle. The embedded engine uses its pool. */
  readonly direct: Pool;
  /** Throws if the direct connection leads through a pooler of transactions, where sessions keep neither locks nor LISTEN. */
  requireSessions(): Promise<void>;
  /** Throws if the connections of requests lead through a pooler that loses prepared statements. */
  requireStatements(): Promise<void>;
  /** Reads lists, counts and exports, which may be somewhat old, on the standby while it is good, else on the primary. No reads of own writes. */
  readonly replicaReads: ReplicaReads;
  /** The standby of DATABASE_REPLICA_URL; null without one. */
  readonly replica: Pick<Replica, 'start' | 'maxAgeMs' | 'ask' | 'usage'> | null;
  /** What the database has refused to write in this process. */
  readonly refusedWrites: RefusedWrites;
  /** Runs `work` in one transaction without a time limit. An error undoes everything. */
  transaction<Result>(isolation: Isolation, work: (tx: Queryable) => Promise<Result>): Promise<Result>;
  /** A transaction within the time limits of a request. After a conflict with another one, `work` runs again from its start. */
  requestTransaction<Result>(work: (tx: Queryable) => Promise<Result>, isolation?: Isolation): Promise<Result>;
  /** Calls `onNotice` for every notice of a channel, and whenever some may be missed. The embedded engine has one process, and no notices. */
  listen(channel: string, onNotice: () => void, onFailure: (error: unknown) => void): void;
  /** Keeps a session outside the pool for `work`, and begins again when it breaks or `work` fails. Does nothing on the embedded engine. */
  keepSession(work: (session: Session) => Promise<void>): void;
  /** Null on PostgreSQL, which has statistics of its own. */
  engineUsage(): EngineUsage | null;
  /** Tells the files of the embedded database from a copy of them; empty on PostgreSQL. */
  identifyFiles(): Promise<string>;
  /** Throws if the database does not answer, or if its settings would make our answers wrong. */
  check(): Promise<void>;
  /** To be called after many rows were added or removed: PGlite never vacuums by itself, and PostgreSQL not at once. */
  vacuum(): Promise<void>;
  /** Vacuums the deltas alone, whose dead rows slow down every total until they are removed. */
  vacuumDeltas(): Promise<void>;
  close(): Promise<void>;
}

/** A session that is kept open, for advisory locks and notices. */
export interface Session extends Queryable {
  /** Aborts when the database is closed. */
  readonly signal: AbortSignal;
  /** True without a pooler, so that no other client can ever get this session. */
  isDirect(): Promise<boolean>;
  /** True if a pooler of transactions lends this session to other clients: a lock would stay behind in it. */
  isShared(): Promise<boolean>;
  /** Calls back with the text of every notice of a channel. */
  listen(channel: string, onNotice: (text: string) => void): Promise<void>;
}

export interface DatabaseOptions {
  /** Called with every statement, for tests that count them. */
  readonly onStatement?: (sql: string, server: 'primary' | 'replica') => void;
  /** Called when lists are no longer read on the standby, with the reason, and with null when they are again. */
  readonly onReplica?: (reason: unknown) => void;
  /** Called when an idle connection broke. The pool has replaced it by then. */
  readonly onIdleError?: (error: Error) => void;
  /** True if this process answers requests, whose statements have the time limits of the settings. */
  readonly serving?: boolean;
  /** True if its statements go the way of those of requests, to examine that way. Other commands go past a pooler. */
  readonly asRequests?: boolean;
}

const EMBEDDED_CONNECT_TIMEOUT_MS = 30_000;

/** An answer may come so much later than the server's own limit, before the connection counts as broken. */
const QUERY_TIMEOUT_MARGIN_MS = 1_000;

/** A lock is waited for a little less than a statement may take, so that the answer can say what was waited for. */
const LOCK_PART = 0.8;

const limitLocks = (limitMs: number) => (client: pg.ClientBase) => client.query(`SET lock_timeout = ${limitMs}`);

/** The direct connection stays open so long without use. */
const DIRECT_IDLE_MS = 1_000;

export function createDatabase(config: DatabaseConfig, options: DatabaseOptions = {}): Database {
  if (config.engine === 'postgres') {
    const { serving = false, asRequests = serving } = options;
    const limitMs = serving ? config.statementTimeoutMs : 0;
    const withoutPooler = connectionOptions({ ...config, url: config.directUrl ?? config.url }, serving, 0);
    // A pooler would not pass on that the statements of commands may take long.
    const connection = asRequests ? connectionOptions(config, serving, limitMs) : withoutPooler;
    const isPooled = config.directUrl !== undefined;
    // The role of a pooler has a limit for locks. What goes past the pooler waits for as long as it takes.
    const patient = isPooled ? limitLocks(0) : undefined;
    // No option of the connection, which a pooler would refuse; nor a setting of its session, which other clients have next.
    const hasty = limitMs > 0 && !isPooled ? limitLocks(Math.ceil(limitMs * LOCK_PART)) : undefined;
    const direct = new Pool({ ...withoutPooler, max: 1, idleTimeoutMillis: DIRECT_IDLE_MS, onConnect: patient });
    direct.on('error', (error) => options.onIdleError?.(error));
    const stops: (() => Promise<void>)[] = [() => direct.end()];
    const keep: Database['keepSession'] = (work) =>
      void stops.push(keepSession(withoutPooler, work, options.onIdleError));
    const { replicaUrl, replicaMaxLagMs: maxLagMs, statementTimeoutMs, poolSize } = config;
    const replicaLimitMs = Math.min(statementTimeoutMs, REPLICA_STATEMENT_MS);
    const pool = new Pool({
      ...connection,
      max: poolSize,
      idleTimeoutMillis: 0,
      onConnect: asRequests ? hasty : patient,
    });
    return fromPool(pool, limitMs, options, {
      direct,
      async requireSessions() {
        if (!(await sharesSessions(withoutPooler))) return;
        const name = config.directUrl === undefined ? 'DATABASE_URL' : 'DATABASE_DIRECT_URL';
        throw new Error(
          `${name} leads through a pooler of transactions, where locks and notices do not work. Set DATABASE_DIRECT_URL to the same database past the pooler.`,
        );
      },
      async requireStatements() {
        if (!isPooled || (await keepsStatements(connection))) return;
        throw new Error(
          'DATABASE_URL leads through a pooler that loses prepared statements: it must be PgBouncer 1.21 or newer, with max_prepared_statements = 200.',
        );
      },
      start: async () => undefined,
      abandon: () => undefined,
      engineUsage: () => null,
      identifyFiles: async () => '',
      listen(channel, onNotice, onFailure) {
        const work = async (connection: pg.Client) => {
          connection.on('notification', onNotice);
          await connection.query(`LISTEN ${channel}`);
          onNotice();
        };
        stops.push(keepConnection(withoutPooler, work, onFailure));
      },
      keepSession: keep,
      openReplica(primary) {
        if (replicaUrl === undefined) return null;
        const connection = connectionOptions({ ...config, url: replicaUrl }, serving, replicaLimitMs);
        return createReplica({ ...options, connection, poolSize, maxLagMs, primary, keepSession: keep });
      },
      close: () => closeAll(stops),
    });
  }
  const engine = createEmbeddedEngine(config.dataDir);
  const pool = new Pool({
    stream: () => new EmbeddedStream(engine.openPort),
    user: 'postgres',
    database: 'postgres',
    // PGlite has one session; a second connection would share it.
    max: 1,
    idleTimeoutMillis: 0,
    connectionTimeoutMillis: EMBEDDED_CONNECT_TIMEOUT_MS,
  });
  return fromPool(pool, 0, options, {
    ...engine,
    direct: pool,
    requireSessions: async () => undefined,
    requireStatements: async () => undefined,
    engineUsage: engine.usage,
    listen: () => undefined,
    keepSession: () => undefined,
    openReplica: () => null,
  });
}

type Engine = Pick<
  Database,
  | 'identifyFiles'
  | 'direct'
  | 'requireSessions'
  | 'requireStatements'
  | 'start'
  | 'abandon'
  | 'listen'
  | 'keepSession'
  | 'engineUsage'
  | 'close'
> & {
  readonly openReplica: (primary: ReplicaReads) => Replica | null;
};

/** `limitMs` is the statement timeout of requests, 0 for none. */
function fromPool(pool: Pool, limitMs: number, options: DatabaseOptions, { openReplica, ...engine }: Engine): Database {
  pool.on('error', (error) => options.onIdleError?.(error));
  // Most commands need no models, and to load them takes longer than their statements.
  let loading: Promise<PrismaClient> | null = null;
  // The statement that waits reports a broken connection. Without a listener the process would end.
  pool.on('connect', (connection) => connection.on('error', () => undefined));
  const readMs = limitMs + QUERY_TIMEOUT_MARGIN_MS;
  const limit = limitMs === 0 ? null : createTimeLimit(readMs);
  const { onStatement } = options;
  const statementsOn = createStatements(onStatement && ((sql) => onStatement(sql, 'primary')));
  const single = statementsOn(pool, limit);
  const refusedWrites = createRefusedWrites();
  const { inTransaction, withRetries, retried, note } = createTransactions(pool, statementsOn, {
    onFailure: refusedWrites.note,
  });

  const primary: ReplicaReads = {
    ...retried(single),
    transaction: (isolation, work) =>
      inTransaction(isolation, null, work).catch((error) => {
        note(error);
        throw toUnavailable(error);
      }),
  };
  const replica = openReplica(primary);
  const models: Database['models'] = (work) =>
    withRetries(async () => {
      loading ??= loadPrisma(pool, single, options);
      const prisma = await loading.catch((error) => {
        loading = null;
        throw error;
      });
      return work(prisma).catch((error) => {
        throw fromPrisma(error, pool);
      });
    });

  // They have one connection, for which they do not wait as long as one of them may take.
  const vacuums = createTurns(1);
  const vacuum = async (what: string) => void (await vacuums.run(() => engine.direct.query(`VACUUM ${what}`)));

  return {
    ...engine,
    withdrawable: (mayBegin) => retried(statementsOn(pool, limit, mayBegin)),
    statementMs: limitMs === 0 ? 0 : readMs,
    models,
    change: (work) => models((prisma) => prisma.$transaction(work)),
    pool,
    refusedWrites,
    ...primary,
    replicaReads: replica ?? primary,
    replica,
    requestTransaction: (work, isolation = 'READ COMMITTED') =>
      withRetries(() => inTransaction(isolation, limit, work)),
    async check() {
      const text = `SELECT current_setting('TimeZone') AS zone, current_setting('server_encoding') AS encoding, current_schema() AS schema,
        current_setting('search_path') AS path`;
      const { rows } = await pool.query({ text, ...(limitMs > 0 && { query_timeout: readMs }) });
      if (rows[0].zone !== 'UTC')
        throw new Error(`The time zone of database sessions must be UTC, but it is ${rows[0].zone}.`);
      if (rows[0].encoding !== 'UTF8')
        throw new Error(`The encoding of the database must be UTF8, but it is ${rows[0].encoding}.`);
      if (rows[0].schema === null) throw new Error(`The database has no schema of its search_path, ${rows[0].path}.`);
    },
    vacuum: () => vacuum('(ANALYZE) users, accounts, bans, tallies, tally_slices, tally_deltas'),
    // To truncate would lock the table for a moment, and the next deltas need its space anyway.
    vacuumDeltas: () => vacuum('(TRUNCATE off) tally_deltas'),
    close: () =>
      closeAll([
        () => engine.close(),
        () => pool.end(),
        async () => (await loading)?.$disconnect(),
        () => replica?.close(),
      ]),
  };
}

/** A kept session waits so long for an answer before it counts the connection as broken. */
const SESSION_LIMIT_MS = 10_000;

function keepSession(
  connection: pg.ClientConfig,
  work: (session: Session) => Promise<void>,
  onFailure: DatabaseOptions['onIdleError'] = () => undefined,
): () => Promise<void> {
  const statementsOn = createStatements(undefined);
  const limit = createTimeLimit(SESSION_LIMIT_MS);
  const runIn = async (client: pg.Client, signal: AbortSignal) => {
    // PostgreSQL holds the locks of a machine that has disappeared until it notices; by default, after two hours.
    await client.query(`SET tcp_keepalives_idle = 10`);
    await client.query(`SET tcp_keepalives_interval = 5`);
    await client.query(`SET tcp_keepalives_count = 3`);
    await work({
      ...statementsOn(client, limit),
      signal,
      isDirect: () => isDirect(client),
      isShared: async () => !(await isDirect(client)) && sharesSessions(connection),
      async listen(channel, onNotice) {
        client.on('notification', ({ payload = '' }) => onNotice(payload));
        await client.query(`LISTEN ${channel}`);
      },
    });
  };
  return keepConnection(connection, runIn, (error) => onFailure(error as Error));
}

async function loadPrisma(pool: Pool, db: Queryable, { onStatement }: DatabaseOptions): Promise<PrismaClient> {
  // Prisma names the schema in its statements; all others leave that to search_path.
  const schema = await readValue<string>(db, Prisma.sql`SELECT current_schema()::text`);
  const { PrismaPg } = await import('@prisma/adapter-pg');
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool, { schema, statementNameGenerator: ({ sql }) => statementName(sql) }),
    transactionOptions: { maxWait: EMBEDDED_CONNECT_TIMEOUT_MS, timeout: 30_000 },
    ...(onStatement && { log: [{ emit: 'event', level: 'query' }] as const }),
  });
  if (onStatement) {
    (prisma as PrismaClient<'query'>).$on('query', (event) => onStatement(event.query, 'primary'));
  }
  return prisma;
}
