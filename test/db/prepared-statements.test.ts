import { expect, test } from 'vitest';
import { arrayText } from '#dist/db/prepared-statement.js';
import { keyedStatement, Prisma } from '#dist/db/statements.js';
import { useTestApp } from '../support/app.js';

/** A statement asks once for a connection which columns it returns. One connection shows the first and the later executions. */

const app = useTestApp({ ownDatabase: true, env: { DATABASE_POOL_SIZE: '1' } });
const query = <Row>(sql: Prisma.Sql) => app.context.db.query<Row>(sql);

test('later executions return the same rows as the first, with values of every type and nulls', async () => {
  const all = (id: number | null) => Prisma.sql`
    SELECT ${id}::bigint AS id, ${'é "quoted" \\'}::text AS text, ${null}::text AS nothing, ${['a,b', '"c"']}::text[] AS list,
           ${new Date(Date.UTC(2026, 0, 31, 12))}::timestamptz AS instant, ${true}::boolean AS flag, ${1.5}::float8 AS number,
           ${Buffer.from([0, 255])}::bytea AS bytes`;
  const expected = {
    text: 'é "quoted" \\',
    nothing: null,
    list: ['a,b', '"c"'],
    instant: '2026-01-31T12:00:00.000Z',
    flag: true,
    number: 1.5,
    bytes: Buffer.from([0, 255]),
  };
  for (const id of [1, 2 ** 53 - 1, null]) expect(await query(all(id))).toEqual([{ id, ...expected }]);
});

test('an array that was made ahead arrives as it is, whatever its values', async () => {
  const texts = [
    '',
    'null',
    'NULL',
    null,
    ' a ',
    'a,b',
    '{"c"}',
    '"',
    '\\',
    '\\n',
    '"\\"',
    '\n\t\u0001',
    'é 你 𝒳 \u2028',
    "'",
  ];
  const dates = [new Date(Date.UTC(1970, 0, 1)), null, new Date(Date.UTC(9999, 11, 31, 23, 59, 59, 999))];
  for (const list of [texts, texts.filter((text) => text !== null && !/[\\\n]/.test(text) && text !== '"'), []]) {
    expect(await query(Prisma.sql`SELECT ${arrayText(list)}::text[] AS list`)).toEqual([{ list }]);
  }
  expect(
    await query(Prisma.sql`SELECT ${arrayText([1, null, -3])}::int[] AS numbers, instant
      FROM unnest(${arrayText(dates)}::timestamptz[]) AS instant`),
  ).toEqual(dates.map((date) => ({ numbers: [1, null, -3], instant: date?.toISOString() ?? null })));
  const [flags, ids] = [
    [true, false, null],
    [9_007_199_254_740_993n, 0n, null],
  ];
  expect(
    await query(Prisma.sql`SELECT ${arrayText(flags)}::boolean[] AS flags, ${arrayText(ids)}::bigint[]::text[] AS ids`),
  ).toEqual([{ flags, ids: ['9007199254740993', '0', null] }]);
});

test('a statement without rows, and one that returns none, can be repeated', async () => {
  await app.context.db.pool.query('CREATE TABLE empty (id int)');
  for (let time = 0; time < 3; time += 1) {
    expect(await query(Prisma.sql`DELETE FROM empty WHERE id = ${time}`)).toEqual([]);
    expect(await query(Prisma.sql`SELECT id FROM empty`)).toEqual([]);
  }
});

test('an integer that JSON cannot represent is an error, and the next execution succeeds', async () => {
  const value = (text: string) => Prisma.sql`SELECT ${text}::bigint AS value`;
  expect(await query(value('7'))).toEqual([{ value: 7 }]);
  await expect(query(value('9007199254740992'))).rejects.toThrow('cannot represent exactly');
  await expect(query(value('not a number'))).rejects.toMatchObject({ code: '22P02' });
  expect(await query(value('8'))).toEqual([{ value: 8 }]);
});

test('a result that has other columns than when it was prepared is never read with the old ones', async () => {
  const { pool } = app.context.db;
  await pool.query('CREATE TABLE shape (id int); INSERT INTO shape VALUES (1)');
  const all = Prisma.sql`SELECT * FROM shape`;
  expect(await query(all)).toEqual([{ id: 1 }]);
  await pool.query(`ALTER TABLE shape DROP COLUMN id; ALTER TABLE shape ADD COLUMN name text DEFAULT 'one'`);
  // PostgreSQL refuses the prepared plan; the connection is replaced.
  await expect(query(all)).rejects.toMatchObject({ code: '0A000' });
  expect(await query(all)).toEqual([{ name: 'one' }]);
});

test('a keyed statement answers one key and several keys alike, with values beside the keys', async () => {
  const read = keyedStatement<{ id: number; word: string | null }, { id: number; word: string | null; added: number }>(
    { id: ['bigint', (key) => key.id], word: ['text', (key) => key.word] },
    (keys) => Prisma.sql`
      SELECT k.key_index::int AS "keyIndex", k.id, k.word, k.id + ${10}::int AS added FROM ${keys} ORDER BY k.key_index`,
  );
  const keys = [
    { id: 1, word: 'one' },
    { id: 2, word: null },
  ];
  const rows = keys.map((key, index) => ({ keyIndex: index + 1, ...key, added: key.id + 10 }));
  expect(await read(app.context.db, keys)).toEqual(rows);
  for (const [index, key] of keys.entries()) {
    expect(await read(app.context.db, [key])).toEqual([{ ...rows[index], keyIndex: 1 }]);
  }
});
