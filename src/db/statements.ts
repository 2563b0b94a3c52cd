import { createHash } from 'node:crypto';
import pg from 'pg';
import { withSpan } from '../telemetry/request-trace.js';
import type { Prisma } from './generated/prisma/client.js';

export { Prisma } from './generated/prisma/client.js';

/** Runs statements: the database, or one transaction of it. */
export interface Queryable {
  /**
   * Runs one statement and returns its rows. It goes to node-postgres directly: `$queryRaw` doubles the cost of a short
   * statement, and takes several times the memory of a large result. A bigint is returned as a number, a timestamp as ISO 8601
   * text, which is the form that callers of the interfaces get.
   */
  query<Row>(sql: Prisma.Sql): Promise<Row[]>;
}

/** How long pg waits for the answer to a statement; without a value it waits without limit. */
export interface QueryTimeout {
  readonly query_timeout?: number;
}

export type Connection = pg.Pool | pg.PoolClient | pg.Client;

/** The one way by which a statement reaches a connection: tests count it, and traces have a span for it. */
export function createStatements(onStatement: ((sql: string) => void) | undefined) {
  const run = (connection: Connection, statement: pg.QueryConfig & QueryTimeout) => {
    onStatement?.(statement.text);
    return withSpan({ kind: 'statement', sql: statement.text }, () => connection.query(statement));
  };
  const on = (connection: Connection, timeout: QueryTimeout): Queryable => ({
    async query<Row>({ text, values }: Prisma.Sql) {
      const { rows } = await run(connection, { name: statementName(text), text, values, types: TYPES, ...timeout });
      return rows as Row[];
    },
  });
  return { run, on };
}

/**
 * A named statement is parsed and planned once for each connection, which doubles the rate of queries. There are few texts,
 * because a list is passed as one array parameter, so there are few names.
 */
export function statementName(sql: string): string {
  let name = names.get(sql);
  if (name === undefined) {
    name = `userdir_${createHash('sha1').update(sql).digest('hex')}`;
    names.set(sql, name);
  }
  return name;
}
const names = new Map<string, string>();

/** How `query` reads values from the text that PostgreSQL sends; for other types as pg does. */
const PARSERS: Record<number, (text: string) => unknown> = {
  [pg.types.builtins.INT8]: toSafeInteger,
  [pg.types.builtins.TIMESTAMPTZ]: toIsoInstant,
};

const TYPES: pg.CustomTypesConfig = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    PARSERS[oid] ?? pg.types.getTypeParser(oid, format as 'text'),
};

/** The sequences of the ids end at 2^53 - 1, so that every id and every total is exact in JSON. */
function toSafeInteger(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new RangeError('The database returned an integer that JSON cannot represent exactly.');
}

/** From `2026-01-31 12:00:00.12+00`, the form that sessions use, to ISO 8601 with milliseconds. */
function toIsoInstant(text: string): string {
  const fraction = text.slice(19, -3);
  return `${text.slice(0, 10)}T${text.slice(11, 19)}${fraction === '' ? '.000' : fraction.padEnd(4, '0')}Z`;
}
