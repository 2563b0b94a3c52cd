import type { KeyedRow } from './batched-read.js';
import { type ArrayItem, arrayText } from './prepared-statement.js';
import { Prisma, type Queryable, statementName } from './statements.js';

/** A column of the keys `k` of a statement: its type in PostgreSQL, and its value. */
type KeyColumn<Key> = readonly [type: string, value: (key: Key) => ArrayItem];
export type KeyColumns<Key> = Readonly<Record<string, KeyColumn<Key>>>;

/** Reads the rows of keys: a statement of a batched read (db/batched-read.ts). */
export type KeyedRead<Key, Row> = (db: Queryable, keys: readonly Key[]) => Promise<KeyedRow<Row>[]>;

/** Stands among the values of a statement for those of a column of its keys. */
class Placeholder<Key> {
  constructor(readonly ofKey: (key: Key) => ArrayItem) {}
}

/**
 * A statement for keys, whose text is made once. `build` gets what selects the keys as `k`, with the columns and `k.key_index`.
 *
 * The text has two forms, because a lone key is frequent, and PostgreSQL takes a fifth less time for a row of values than for arrays.
 * Arrays serve any number of keys with one prepared statement.
 */
export function keyedStatement<Key, Row>(
  columns: KeyColumns<Key>,
  build: (from: Prisma.Sql) => Prisma.Sql,
): KeyedRead<Key, Row> {
  const names = Object.keys(columns);
  const values = (suffix: string) =>
    Object.values(columns).map(
      ([type, value]) => Prisma.sql`${new Placeholder(value) as unknown as string}::${Prisma.raw(type + suffix)}`,
    );
  const one = once(() => {
    const row = values('').map((value, place) => Prisma.sql`${value} AS ${Prisma.raw(names[place] as string)}`);
    return build(Prisma.sql`(SELECT ${Prisma.join(row)}, 1 AS key_index) AS k`);
  });
  const many = once(() => {
    const k = Prisma.raw(`k(${names.join(', ')}, key_index)`);
    return build(Prisma.sql`unnest(${Prisma.join(values('[]'))}) WITH ORDINALITY AS ${k}`);
  });
  return (db, keys) => {
    const isLone = keys.length === 1;
    const statement = isLone ? one() : many();
    const fill = ({ ofKey }: Placeholder<Key>) => (isLone ? ofKey(keys[0] as Key) : arrayText(keys.map(ofKey)));
    return db.query({
      ...statement,
      values: statement.values.map((value) => (value instanceof Placeholder ? fill(value) : value)),
    });
  };
}

/** Makes a statement on its first use. */
function once(make: () => Prisma.Sql) {
  let made: { name: string; text: string; values: readonly unknown[] } | undefined;
  return () => {
    if (made === undefined) {
      const { text, values } = make();
      made = { name: statementName(text), text, values };
    }
    return made;
  };
}
