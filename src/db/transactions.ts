import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { isConflict, isMoving, isQueryTimeout, isReadOnly, toUnavailable } from './failures.js';
import { type createStatements, Prisma, type Queryable } from './statements.js';
import type { TimeLimit } from './time-limit.js';

export type Isolation = 'READ COMMITTED' | 'REPEATABLE READ';

const MAX_TRIES = 3;
const MAX_RETRY_DELAY_MS = 50;

const COMMIT = Prisma.raw('COMMIT');
const ROLLBACK = Prisma.raw('ROLLBACK');

type Outcome<Result> = { readonly result: Result } | { readonly undoneBy: unknown };

/** Work on one connection of a pool, in a transaction, and again after a conflict. `prepare` gets the connection before the work. */
export function createTransactions(
  pool: pg.Pool,
  statementsOn: ReturnType<typeof createStatements>,
  prepare?: (connection: pg.PoolClient) => Promise<void>,
) {
  /** Connections that stood idle beside one that no longer answers are suspect too. */
  function dropIdleConnections(): void {
    for (let idle = pool.idleCount; idle > 0; idle -= 1) {
      pool.connect().then(
        (connection) => connection.release(true),
        () => undefined,
      );
    }
  }

  /** Runs `work` on one connection. After a failure the connection is closed, because its state is unknown. */
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

  /**
   * Runs `work` in a transaction. Without a `limit` its statements may take long. That is said for this transaction only: behind
   * a pooler the next one may have the session of another client.
   */
  async function inTransaction<Result>(
    isolation: Isolation,
    limit: TimeLimit | null,
    work: (tx: Queryable) => Promise<Result>,
  ): Promise<Result> {
    const outcome = await onOneConnection((connection) => attempt(connection, isolation, limit, work));
    if ('undoneBy' in outcome) throw isMoving(outcome.undoneBy) ? toUnavailable(outcome.undoneBy) : outcome.undoneBy;
    return outcome.result;
  }

  /** Where the rollback succeeds the connection can be used again, so the error is returned and not thrown. */
  async function attempt<Result>(
    connection: pg.PoolClient,
    isolation: Isolation,
    limit: TimeLimit | null,
    work: (tx: Queryable) => Promise<Result>,
  ): Promise<Outcome<Result>> {
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
      return { undoneBy };
    }
  }

  /**
   * Runs `work` again after a deadlock or a serialization failure: the database has undone all of it. Throws UNAVAILABLE while the
   * database is away.
   */
  async function withRetries<Result>(work: () => Promise<Result>): Promise<Result> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        // The stack of an answer of PostgreSQL leads to the socket. From here it leads to the caller.
        if (error instanceof pg.DatabaseError) Error.captureStackTrace(error);
        if (isQueryTimeout(error) || isReadOnly(error)) dropIdleConnections();
        if (!isConflict(error) || tries === MAX_TRIES) throw toUnavailable(error);
        await sleep(Math.random() * MAX_RETRY_DELAY_MS);
      }
    }
  }

  return { onOneConnection, inTransaction, withRetries };
}
