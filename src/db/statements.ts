import { createHash } from 'node:crypto';
import { threadId } from 'node:worker_threads';
import pg from 'pg';
import { currentTrace, withSpan } from '../telemetry/request-trace.js';
import type { Prisma } from './generated/prisma/client.js';
import { leavesSession } from './failures.js';
import { PreparedStatement } from './prepared-statement.js';
import type { TimeLimit } from './time-limit.js';

export { Prisma } from './generated/prisma/client.js';

/** A statement whose text was made before. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Runs statements: the database, or one transaction of it. */
export interface Queryable {
  /**
   * Runs one statement and returns its rows. It goes to node-postgres directly: `$queryRaw` doubles the cost of a short
   * statement, and takes several times the memory of a large result. A bigint is returned as a number, a timestamp as ISO 8601
   * text, which is the form that callers of the interfaces get.
   */
  query<Row>(statement: Prisma.Sql | Statement): Promise<Row[]>;
}

export type Connection = pg.Pool | pg.PoolClient | pg.Client;

/** The one way by which a statement reaches a connection: tests count it, and traces have a span for it. */
export function createStatements(onStatement: ((sql: string) => void) | undefined) {
  return (connection: Connection, limit: TimeLimit | null): Queryable => ({
    query<Row>(given: Prisma.Sql | Statement) {
      const statement = 'name' in given ? given : namedStatement(given);
      onStatement?.(statement.text);
      if (currentTrace() === undefined) return send<Row>(connection, statement, limit);
      const step = { kind: 'statement', sql: statement.text } as const;
      return withSpan(step, () => send<Row>(connection, statement, limit)) as Promise<Row[]>;
    },
  });
}

/** A pool gives the statement a connection of its own. A connection that has failed is closed, but not for a statement that was refused. */
function send<Row>(connection: Connection, { name, text, values }: Statement, limit: TimeLimit | null): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    if (!(connection instanceof pg.Pool)) return run(connection, () => undefined);
    connection.connect((error, client, release) =>
      client === undefined ? reject(error) : run(client, release as (error?: Error) => void),
    );

    function run(client: pg.ClientBase, release: (error?: Error) => void): void {
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

/** Threads share the session of the embedded database, and each prepares its own statements. */
const PREFIX = threadId === 0 ? 'userdir_' : `userdir_${threadId}_`;

/**
 * A named statement is parsed and planned once for each connection, which doubles the rate of queries. There are few texts,
 * because a list is passed as one array parameter, so there are few names.
 */
export function statementName(sql: string): string {
  let name = names.get(sql);
  if (name === undefined) {
    name = `${PREFIX}${createHash('sha1').update(sql).digest('hex')}`;
    names.set(sql, name);
  }
  return name;
}
const names = new Map<string, string>();
