import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { isConflict, isQueryTimeout, isReadOnly } from './failures.js';
import { type createStatements, Prisma, type Queryable, type TimeLimit } from './statements.js';

export type Isolation = 'READ COMMITTED' | 'REPEATABLE READ';

const MAX_TRIES = 3;
const MAX_RETRY_DELAY_MS = 50;

const COMMIT = Prisma.raw('COMMIT');
const ROLLBACK = Prisma.raw('ROLLBACK');

type Outcome<Result> = { readonly result: Result } | { readonly undoneBy: unknown };

/** Work on one connection of a pool, in a transaction, and again after a conflict. `limitMs` is the statement timeout, 0 for none. */
export function createTransactions(pool: pg.Pool, limitMs: number, statementsOn: ReturnType<typeof createStatements>) {
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
      const result = await work(connection);
      connection.release();
      return result;
    } catch (error) {
      connection.release(true);
      throw error;
    }
  }

  /** The same without the statement timeout, for work that may take long. */
  function withoutStatementTimeout<Result>(work: (connection: pg.PoolClient) => Promise<Result>): Promise<Result> {
    if (limitMs === 0) return onOneConnection(work);
    return onOneConnection(async (connection) => {
      await connection.query('SET statement_timeout = 0');
      const result = await work(connection);
      await connection.query('RESET statement_timeout');
      return result;
    });
  }

  /** Where the rollback succeeds the connection can be used again, so the error is returned and not thrown. */
  const inTransaction =
    <Result>(isolation: Isolation, limit: TimeLimit | null, work: (tx: Queryable) => Promise<Result>) =>
    async (connection: pg.PoolClient): Promise<Outcome<Result>> => {
      const tx = statementsOn(connection, limit);
      await tx.query(Prisma.raw(`BEGIN ISOLATION LEVEL ${isolation}`));
      try {
        const result = await work(tx);
        await tx.query(COMMIT);
        return { result };
      } catch (undoneBy) {
        await tx.query(ROLLBACK).catch(() => {
          throw undoneBy;
        });
        return { undoneBy };
      }
    };

  /** Runs `work` again after a deadlock or a serialization failure: the database has undone all of it. */
  async function withRetries<Result>(work: () => Promise<Result>): Promise<Result> {
    for (let tries = 1; ; tries += 1) {
      try {
        return await work();
      } catch (error) {
        // The stack of an answer of PostgreSQL leads to the socket. From here it leads to the caller.
        if (error instanceof pg.DatabaseError) Error.captureStackTrace(error);
        if (isQueryTimeout(error) || isReadOnly(error)) dropIdleConnections();
        if (!isConflict(error) || tries === MAX_TRIES) throw error;
        await sleep(Math.random() * MAX_RETRY_DELAY_MS);
      }
    }
  }

  return { onOneConnection, withoutStatementTimeout, inTransaction, withRetries };
}

/** The result of a transaction, or its error thrown. */
export async function resultOf<Result>(outcome: Promise<Outcome<Result>>): Promise<Result> {
  const ended = await outcome;
  if ('undoneBy' in ended) throw ended.undoneBy;
  return ended.result;
}
