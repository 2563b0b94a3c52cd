import { createHash } from 'node:crypto';
import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import type { DatabaseConfig } from '../config.js';
import { createEmbeddedEngine } from './embedded.js';
import { type Prisma, PrismaClient } from './generated/prisma/client.js';

export { type Account, Prisma, type User } from './generated/prisma/client.js';
export { LoginMethod, Network, WalletType } from './generated/prisma/enums.js';

/** Whatever can run a statement: the client, or a transaction of it. */
export type Queryable = Pick<PrismaClient, '$queryRaw' | '$executeRaw'>;

/** Runs one statement for its rows. */
export interface Reader {
  /**
   * The same as `$queryRaw` without what Prisma does around it, which costs a short statement as much again: the hot
   * statements go this way. A bigint is a BigInt, a timestamp a Date, as they are with Prisma.
   */
  read<Row>(sql: Prisma.Sql): Promise<Row[]>;
}

/** The database behind one type, whichever engine it is. Until `start` it answers nothing. */
export interface Database extends Reader {
  /** Starts the embedded engine, whose data directory the caller has locked. */
  start(): Promise<void>;
  readonly prisma: PrismaClient;
  /** The connections below Prisma, for what it cannot say: scripts of several statements. */
  readonly pool: pg.Pool;
  /** Throws where the database does not answer, or answers in a way that would make our answers wrong. */
  check(): Promise<void>;
  /** After many rows came or went: PGlite never does it by itself, and PostgreSQL not at once. */
  vacuum(): Promise<void>;
  /** The same for the deltas alone, whose dead rows stand in the way of every total until they are gone. */
  vacuumDeltas(): Promise<void>;
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** Is told every statement, for tests that count them. */
  readonly onStatement?: (sql: string) => void;
  /** Is told of a connection that broke while nobody used it; the pool has already replaced it. */
  readonly onIdleError?: (error: Error) => void;
}

const CONNECT_TIMEOUT_MS = 10_000;
const EMBEDDED_CONNECT_TIMEOUT_MS = 30_000;

export function createDatabase(config: DatabaseConfig, options: DatabaseOptions = {}): Database {
  if (config.engine === 'postgres') {
    const pool = new pg.Pool({
      connectionString: withoutOptions(config.url),
      max: config.poolSize,
      connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      application_name: 'userdir',
      options: sessionOptions(config.url),
    });
    return fromPool(pool, options, { start: async () => undefined, close: async () => undefined });
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
  return fromPool(pool, options, engine);
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
function sessionOptions(url: string): string {
  return `${new URL(url).searchParams.get('options') ?? ''} -c TimeZone=UTC -c jit=off -c plan_cache_mode=force_generic_plan`.trim();
}

function fromPool(
  pool: pg.Pool,
  options: DatabaseOptions,
  engine: { start(): Promise<void>; close(): Promise<void> },
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
  return {
    prisma,
    pool,
    async read<Row>({ text, values }: Prisma.Sql): Promise<Row[]> {
      onStatement?.(text);
      const { rows } = await pool.query({ name: statementName(text), text, values, types: TYPES });
      return rows as Row[];
    },
    start: () => engine.start(),
    async check() {
      const { rows } = await pool.query(
        `SELECT current_setting('TimeZone') AS zone, current_setting('server_encoding') AS encoding`,
      );
      if (rows[0].zone !== 'UTC')
        throw new Error(`Sessions must be in UTC, but the server put this one in ${rows[0].zone}.`);
      if (rows[0].encoding !== 'UTF8')
        throw new Error(`The database must be in UTF8, but it is in ${rows[0].encoding}.`);
    },
    async vacuum() {
      await pool.query('VACUUM (ANALYZE) users, accounts, tallies, tally_slices, tally_deltas');
    },
    async vacuumDeltas() {
      // Giving space back to the disk would lock everybody out for a moment; the next deltas need it anyway.
      await pool.query('VACUUM (TRUNCATE off) tally_deltas');
    },
    async close() {
      await prisma.$disconnect();
      await pool.end();
      await engine.close();
    },
  };
}

const INT8 = 20;
const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    oid === INT8 ? BigInt : pg.types.getTypeParser(oid, format as 'text'),
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
