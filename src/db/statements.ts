import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { withdrawn } from '../errors.js';
import { currentTrace, withSpan } from '../telemetry/request-trace.js';
import type { KeyedRow } from './batched-read.js';
import { isConflict, isFull, isQueryTimeout, isReadOnly, leavesSession, Pool, toUnavailable } from './failures.js';
import { Prisma } from './generated/prisma/client.js';
import { type ArrayItem, arrayText, PreparedStatement, type TimeLimit } from './prepared-statement.js';

export { Prisma };

/** This instant, as the columns of instants store it: they would round what is finer than a millisecond, perhaps into the next year. */
export const THIS_INSTANT = Prisma.sql`date_trunc('milliseconds', now())`;

/** A statement whose text was made before. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Runs statements: the database, or one transaction of it. */
export interface Queryable {
  /**
   * Runs one statement on node-postgres and returns its rows: `$queryRaw` doubles the cost of a short one, and needs several times the memory
   * for a large result. A bigint is returned as a number, a timestamp as ISO 8601 text, which is the form that callers get.
   */
  query<Row>(statement: Prisma.Sql | Statement): Promise<Row[]>;
}

/** The value of a statement that returns one row of one column; undefined if it returns no row. */
export async function readValue<Value>(db: Queryable, statement: Prisma.Sql): Promise<Value> {
  const [row = {}] = await db.query<Record<string, unknown>>(statement);
  return Object.values(row)[0] as Value;
}

/** A transaction by models (`Database.change`). */
export type ModelTransaction = Prisma.TransactionClient;

/** Runs a statement that returns nothing as part of a transaction of either kind. */
export async function execute(tx: Queryable | ModelTransaction, statement: Prisma.Sql): Promise<void> {
  await ('$executeRaw' in tx ? tx.$executeRaw(statement) : tx.query(statement));
}

/** The rows of a statement as part of a transaction of either kind. */
export function rowsOf<Row>(tx: Queryable | ModelTransaction, statement: Prisma.Sql): Promise<Row[]> {
  return '$queryRaw' in tx ? tx.$queryRaw<Row[]>(statement) : tx.query<Row>(statement);
}

export type Connection = Pool | pg.PoolClient | pg.Client;

/** The one way by which a statement reaches a connection: tests count it, and traces have a span for it. */
export type StatementsOn = (connection: Connection, limit: TimeLimit | null, mayBegin?: () => boolean) => Queryable;

export function createStatements(onStatement: ((sql: string) => void) | undefined): StatementsOn {
  return (connection, limit, mayBegin) => ({
    query<Row>(query: Prisma.Sql | Statement) {
      const statement = 'name' in query ? query : namedStatement(query);
      onStatement?.(statement.text);
      if (currentTrace() === undefined) return send<Row>(connection, statement, limit, mayBegin);
      const step = { kind: 'statement', sql: statement.text } as const;
      return withSpan(step, () => send<Row>(connection, statement, limit, mayBegin)) as Promise<Row[]>;
    },
  });
}

/** A pool gives the statement a connection of its own. A connection that has failed is closed, but not for a statement that was refused. */
function send<Row>(
  connection: Connection,
  { name, text, values }: Statement,
  limit: TimeLimit | null,
  mayBegin?: () => boolean,
): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    if (!(connection instanceof Pool)) return run(connection, () => undefined);
    connection.connect((error, client, release) =>
      client === undefined ? reject(error) : run(client, release as (error?: Error) => void),
    );

    function run(client: pg.ClientBase, release: (error?: Error) => void): void {
      if (mayBegin?.() === false) {
        reject(withdrawn());
        release();
        return;
      }
      const statement = new PreparedStatement<Row>(name, text, values, (error, rows) => {
        limit?.close(slot);
        release(error === null || leavesSession(error) ? undefined : error);
        if (error === null) resolve(rows);
        else reject(error);
      });
      const slot = limit?.open(statement) ?? 0;
      client.query(statement);
    }
  });
}

function namedStatement(sql: Prisma.Sql): Statement {
  const { text, values } = sql;
  return { name: statementName(text), text, values };
}

/** A named statement is parsed and planned once for each connection, which doubles the rate. A list is one array parameter, so there are few names. */
export function statementName(sql: string): string {
  let name = names.get(sql);
  if (name === undefined) {
    name = `userdir_${createHash('sha1').update(sql).digest('hex')}`;
    names.set(sql, name);
  }
  return name;
}
const names = new Map<string, string>();

export type Isolation = 'READ COMMITTED' | 'REPEATABLE READ';

const MAX_TRIES = 3;
const MAX_RETRY_DELAY_MS = 50;

const COMMIT = Prisma.raw('COMMIT');
const ROLLBACK = Prisma.raw('ROLLBACK');

type Outcome<Result> = { readonly result: Result } | { readonly undoneBy: unknown };

interface TransactionOptions {
  /** Gets the connection before the work. */
  readonly prepare?: (connection: pg.PoolClient) => Promise<void>;
  /** Hears of each failure. */
  readonly onFailure?: (error: unknown) => void;
}

/** Work on one connection of a pool, in a transaction, and again after a conflict. */
export interface Transactions {
  /** Runs `work` on one connection. After a failure the connection is closed, because its state is unknown. */
  onOneConnection<Result>(work: (connection: pg.PoolClient) => Promise<Result>): Promise<Result>;
  /** Runs `work` in a transaction. Without a `limit` its statements may take long, in this transaction only: a pooler may lend the session on. */
  inTransaction<Result>(
    isolation: Isolation,
    limit: TimeLimit | null,
    work: (tx: Queryable) => Promise<Result>,
  ): Promise<Result>;
  /** Runs `work` again after a deadlock or a serialization failure, which has undone all of it. UNAVAILABLE while the database is away. */
  withRetries<Result>(work: () => Promise<Result>): Promise<Result>;
  /** The same statements, each again after such a failure. */
  retried(statements: Queryable): Queryable;
  /** Notes what a failure of one connection says of the others in the pool. For work that is not in `withRetries`. */
  note(error: unknown): void;
}

export function createTransactions(
  pool: Pool,
  statementsOn: StatementsOn,
  { prepare, onFailure }: TransactionOptions = {},
): Transactions {
  function note(error: unknown): void {
    onFailure?.(error);
    if (isReadOnly(error)) pool.replaceAll();
    else if (isQueryTimeout(error)) pool.closeIdle();
  }

  async function onOneConnection<Result>(work: (connection: pg.PoolClient) => Promise<Result>): Promise<Result> {
    const connection = await pool.connect();
    try {
      if (prepare !== undefined) await prepare(connection);
      const result = await work(connection);
      connection.release();
      return result;
    } catch (error) {
      connection.release(true);
      throw error;
    }
  }

  async function inTransaction<Result>(
    isolation: Isolation,
    limit: TimeLimit | null,
    work: (tx: Queryable) => Promise<Result>,
  ): Promise<Result> {
    const outcome = await onOneConnection(async (connection): Promise<Outcome<Result>> => {
      const tx = statementsOn(connection, limit);
      await tx.query(Prisma.raw(`BEGIN ISOLATION LEVEL ${isolation}`));
      try {
        if (limit === null) await connection.query('SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0');
        const result = await work(tx);
        await tx.query(COMMIT);
        return { result };
      } catch (undoneBy) {
        await tx.query(ROLLBACK).catch(() => {
          throw undoneBy;
        });
        // Not thrown: the connection can be used again.
        return { undoneBy };
      }
    });
    if (!('undoneBy' in outcome)) return outcome.result;
    const { undoneBy } = outcome;
    throw isFull(undoneBy) ? toUnavailable(undoneBy) : undoneBy;
  }

  async function withRetries<Result>(work: () => Promise<Result>): Promise<Result> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        // The stack of an answer of PostgreSQL leads to the socket. From here it leads to the caller.
        if (error instanceof pg.DatabaseError) Error.captureStackTrace(error);
        note(error);
        if (!isConflict(error) || tries === MAX_TRIES) throw toUnavailable(error);
        await sleep(Math.random() * MAX_RETRY_DELAY_MS);
      }
    }
  }

  const retried: Transactions['retried'] = (statements) => ({
    query: (statement) => withRetries(() => statements.query(statement)),
  });

  return { onOneConnection, inTransaction, withRetries, retried, note };
}

const AT_ONCE = 1_000;

/** Runs a statement that deletes up to `limit` rows, until there are no more. */
export async function inBatches(deleteSome: (limit: number) => Promise<number>, signal?: AbortSignal): Promise<void> {
  while (!signal?.aborted && (await deleteSome(AT_ONCE)) >= AT_ONCE);
}

/** A short wait for a lock. Part of the FROM of a statement, so it takes no statement of its own, and ends with the transaction. */
export const SHORT_LOCK_LIMIT = Prisma.sql`(SELECT set_config('lock_timeout', '100ms', true)) AS lock_limit`;

/** A column of the keys `k` of a statement: its type in PostgreSQL, and its value. */
type KeyColumn<Key> = readonly [type: string, value: (key: Key) => ArrayItem];
export type KeyColumns<Key> = Readonly<Record<string, KeyColumn<Key>>>;

/** Reads the rows of keys: a statement of a batched read (db/batched-read.ts). */
export type KeyedRead<Key, Row> = (db: Queryable, keys: readonly Key[]) => Promise<KeyedRow<Row>[]>;

/** Stands among the values of a statement for those of a column of its keys, or for what is made of all keys. */
class Placeholder<Key> {
  constructor(readonly ofKeys: (keys: readonly Key[]) => ArrayItem) {}
}

/** An array of a statement for keys that is made of all of them, for where `k` cannot be read. */
export const arrayOfKeys = <Key>(items: (keys: readonly Key[]) => readonly ArrayItem[]) =>
  new Placeholder<Key>((keys) => arrayText(items(keys))) as unknown as string;

/**
 * A statement for keys, whose text is made once. `build` gets the rows of keys `k`, with `k.key_index`, and whether there is one key.
 * A statement of one key is frequent, and has a text of its own: PostgreSQL takes a fifth less time for a row of values than for arrays.
 * Arrays serve any number of keys with one prepared statement.
 */
export function keyedStatement<Key, Row>(
  columns: KeyColumns<Key>,
  build: (from: Prisma.Sql, isLone: boolean) => Prisma.Sql,
): KeyedRead<Key, Row> {
  const names = Object.keys(columns);
  const values = (suffix: '' | '[]') =>
    Object.values(columns).map(([type, value]) => {
      const lone = new Placeholder<Key>(([key]) => value(key as Key)) as unknown as string;
      const many = arrayOfKeys<Key>((keys) => keys.map(value));
      return Prisma.sql`${suffix === '' ? lone : many}::${Prisma.raw(type + suffix)}`;
    });
  const one = once(() => {
    const row = values('').map((value, place) => Prisma.sql`${value} AS ${Prisma.raw(names[place] as string)}`);
    return build(Prisma.sql`(SELECT ${Prisma.join(row)}, 1 AS key_index) AS k`, true);
  });
  const many = once(() => {
    const k = Prisma.raw(`k(${names.join(', ')}, key_index)`);
    return build(Prisma.sql`unnest(${Prisma.join(values('[]'))}) WITH ORDINALITY AS ${k}`, false);
  });
  return (db, keys) => {
    const statement = keys.length === 1 ? one() : many();
    return db.query({
      ...statement,
      values: statement.values.map((value) => (value instanceof Placeholder ? value.ofKeys(keys) : value)),
    });
  };
}

/** A statement for keys which, unless it `waits`, waits for a lock only for a moment (55P03). */
export function keyedWrite<Key, Row>(...[columns, build]: Parameters<typeof keyedStatement<Key, Row>>) {
  const patient = keyedStatement<Key, Row>(columns, build);
  const hasty = keyedStatement<Key, Row>(columns, (keys, isLone) =>
    build(Prisma.sql`${SHORT_LOCK_LIMIT}, ${keys}`, isLone),
  );
  return (db: Queryable, keys: readonly Key[], waits: boolean) => (waits ? patient : hasty)(db, keys);
}

/** Makes a statement on its first use. */
function once(make: () => Prisma.Sql) {
  let statement: Statement | undefined;
  return () => {
    statement ??= namedStatement(make());
    return statement;
  };
}
