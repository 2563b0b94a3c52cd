import type { KeyedRow } from '../db/batched-read.js';
import { Prisma, type Queryable, type Statement, statementName } from '../db/statements.js';

/** A column of the keys `k` of a statement: its type in PostgreSQL, and its value. */
export type KeyColumn<Key> = readonly [type: string, value: (key: Key) => unknown];

/** Builds the statement for keys that `from` selects as `k`, with the columns and `k.key_index`. It must have no other values. */
type Build = (from: Prisma.Sql) => Prisma.Sql;

/**
 * Returns a read of rows for keys (db/batched-read.ts). The text of the statement is made once. It has two forms, because a lone key
 * is frequent, and PostgreSQL takes a fifth less time for a row of values than for arrays.
 */
export function keyedStatement<Key, Row>(columns: Readonly<Record<string, KeyColumn<Key>>>, build: Build) {
  const names = Object.keys(columns);
  const readers = Object.values(columns).map(([, value]) => value);
  const cast = (suffix: string) =>
    Object.values(columns).map(([type]) => Prisma.sql`${null}::${Prisma.raw(type + suffix)}`);
  const one = once(() => {
    const row = cast('').map((value, place) => Prisma.sql`${value} AS ${Prisma.raw(names[place] as string)}`);
    return textOf(build(Prisma.sql`(SELECT ${Prisma.join(row)}, 1 AS key_index) AS k`), columns);
  });
  const many = once(() => {
    const k = Prisma.raw(`k(${names.join(', ')}, key_index)`);
    return textOf(build(Prisma.sql`unnest(${Prisma.join(cast('[]'))}) WITH ORDINALITY AS ${k}`), columns);
  });
  return (db: Queryable, keys: readonly Key[]): Promise<KeyedRow<Row>[]> =>
    db.query(
      keys.length === 1
        ? { ...one(), values: readers.map((read) => read(keys[0] as Key)) }
        : { ...many(), values: readers.map((read) => keys.map(read)) },
    );
}

function textOf({ text, values }: Prisma.Sql, columns: object): Omit<Statement, 'values'> {
  if (values.length !== Object.keys(columns).length)
    throw new TypeError('A keyed statement has values only in its keys.');
  return { name: statementName(text), text };
}

function once<Value extends object>(make: () => Value): () => Value {
  let value: Value | undefined;
  return () => {
    value ??= make();
    return value;
  };
}
