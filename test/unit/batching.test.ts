import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { createBatchedRead } from '#dist/services/batching.js';

type Row = { value: string; place: number };

/** A batched read over `answer`, with the keys of every read it made. */
function batched(answer: (keys: readonly string[]) => Row[]) {
  const reads: (readonly string[])[] = [];
  const rows = createBatchedRead<string, { value: string }>({
    name: 'echoes',
    read: async (keys) => {
      reads.push(keys);
      return answer(keys);
    },
    identify: (key) => key,
    shape: (key) => (key.startsWith('other') ? 'other' : ''),
  });
  const read = async (key: string) => (await rows(key)).map(({ value }) => ({ value }));
  return { read, reads };
}

/** One row for each key, as a database with WITH ORDINALITY would number them: from 1. */
const echo = (keys: readonly string[]) => keys.map((value, index) => ({ value, place: index + 1 }));

test('the keys of one turn go into one read, in their order', async () => {
  const { read, reads } = batched(echo);
  expect(await Promise.all(['c', 'a', 'b'].map(read))).toEqual([[{ value: 'c' }], [{ value: 'a' }], [{ value: 'b' }]]);
  expect(reads).toEqual([['c', 'a', 'b']]);
});

test('keys that are asked for while the turn still works join the read', async () => {
  const { read, reads } = batched(echo);
  const later = async () => {
    await Promise.resolve();
    return read('b');
  };
  await Promise.all([read('a'), later()]);
  expect(reads).toEqual([['a', 'b']]);
});

test('a key of a later turn waits for none, and nothing is cached', async () => {
  const { read, reads } = batched(echo);
  await read('a');
  await nextTurn();
  await read('a');
  expect(reads).toEqual([['a'], ['a']]);
});

test('rows come back with their key whatever the order of the answer, several to a key in its order', async () => {
  const { read } = batched(() => [
    { value: 'second, first row', place: 2 },
    { value: 'first', place: 1 },
    { value: 'second, second row', place: 2 },
  ]);
  expect(await Promise.all([read('1'), read('2')])).toEqual([
    [{ value: 'first' }],
    [{ value: 'second, first row' }, { value: 'second, second row' }],
  ]);
});

test('a key without a row gets none', async () => {
  const { read } = batched((keys) => echo(keys).filter(({ value }) => value === 'known'));
  expect(await Promise.all([read('unknown'), read('known'), read('missing')])).toEqual([[], [{ value: 'known' }], []]);
});

test('equal keys of one turn each get the rows, for which the database is asked once', async () => {
  const { read, reads } = batched(echo);
  expect(await Promise.all([read('a'), read('b'), read('a')])).toEqual([
    [{ value: 'a' }],
    [{ value: 'b' }],
    [{ value: 'a' }],
  ]);
  expect(reads).toEqual([['a', 'b']]);
});

test('keys of another shape go into a read of their own', async () => {
  const { read, reads } = batched(echo);
  const keys = ['a', 'other a', 'b', 'other b'];
  expect(await Promise.all(keys.map(read))).toEqual(keys.map((value) => [{ value }]));
  expect(reads).toEqual([
    ['a', 'b'],
    ['other a', 'other b'],
  ]);
});

test('a batch that is full leaves before the turn ends, with all that the request asks which fills it', async () => {
  const { read, reads } = batched(echo);
  const keys = (name: string, count: number) => Array.from({ length: count }, (_, index) => `${name}${index}`);
  const first = Promise.all(keys('a', 15).map(read));
  expect(reads).toEqual([]);
  const second = Promise.all(keys('b', 15).map(read));
  await Promise.resolve();
  const third = read('c');
  expect(reads).toEqual([[...keys('a', 15), ...keys('b', 15)]]);
  await Promise.all([first, second, third]);
  expect(reads[1]).toEqual(['c']);
});

test('a value that the database refuses fails for its own key alone', async () => {
  const refusal = Object.assign(new Error('invalid byte sequence'), { code: '22021' });
  const { read, reads } = batched((keys) => {
    if (keys.includes('bad')) throw refusal;
    return echo(keys);
  });
  expect(await Promise.allSettled(['a', 'bad', 'b'].map(read))).toEqual([
    { status: 'fulfilled', value: [{ value: 'a' }] },
    { status: 'rejected', reason: refusal },
    { status: 'fulfilled', value: [{ value: 'b' }] },
  ]);
  expect(reads).toEqual([['a', 'bad', 'b'], ['a'], ['bad'], ['b']]);
});

test('a read that fails fails for each of its keys, and not for the next ones', async () => {
  const failure = new Error('The database is away.');
  let isAway = true;
  const { read } = batched((keys) => {
    if (isAway) throw failure;
    return echo(keys);
  });
  expect(await Promise.allSettled([read('a'), read('b')])).toEqual([
    { status: 'rejected', reason: failure },
    { status: 'rejected', reason: failure },
  ]);
  isAway = false;
  expect(await read('a')).toEqual([{ value: 'a' }]);
});

test('more than 1,000 keys go into several reads, each answered for its own', async () => {
  const { read, reads } = batched(echo);
  const keys = Array.from({ length: 2_001 }, (_, index) => `key ${index}`);
  expect(await Promise.all(keys.map(read))).toEqual(keys.map((value) => [{ value }]));
  expect(reads.map((each) => each.length)).toEqual([1_000, 1_000, 1]);
});
