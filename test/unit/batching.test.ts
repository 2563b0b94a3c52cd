import { setImmediate as nextTurn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cacheKey, createBatchedRead } from '#dist/db/batched-read.js';
import type { LoginMethod } from '#dist/domain/users.js';

import { countGroupKey, pageGroupKey, windowGroupKey } from '#dist/users/list-users.sql.js';

/** After the callbacks and promises of now, and those that they make, and before the event loop turns. */
const nextTick = () => new Promise<void>((resolve) => queueMicrotask(() => process.nextTick(resolve)));

type Row = { value: string; keyIndex: number };

/** A batched read that returns `answer` after `wait`, and the keys of each of its reads. */
function batched(answer: (keys: readonly string[]) => Row[], wait: () => Promise<void> | undefined = () => undefined) {
  const reads: (readonly string[])[] = [];
  const read = createBatchedRead({
    name: 'echoes',
    read: async (keys: readonly string[]) => {
      reads.push(keys);
      await wait();
      return answer(keys);
    },
    answer: (rows: Row[]) => rows.map(({ value }) => ({ value })),
    groupKey: () => '',
  });
  return { read, reads };
}

/** One row for each key, numbered from 1 as WITH ORDINALITY does. */
const echo = (keys: readonly string[]) => keys.map((value, index) => ({ value, keyIndex: index + 1 }));

test('a key in a later tick starts a new read, and nothing is cached', async () => {
  const { read, reads } = batched(echo);
  await read('a');
  await nextTurn();
  await read('a');
  expect(reads).toEqual([['a'], ['a']]);
});

test('each key gets its own rows for any order of the answer, and several rows keep their order', async () => {
  const { read } = batched(() => [
    { value: 'second, first row', keyIndex: 2 },
    { value: 'first', keyIndex: 1 },
    { value: 'second, second row', keyIndex: 2 },
  ]);
  expect(await Promise.all([read('1'), read('2')])).toEqual([
    [{ value: 'first' }],
    [{ value: 'second, first row' }, { value: 'second, second row' }],
  ]);
});

const keysOf = (name: string, count: number) => Array.from({ length: count }, (_, index) => `${name}${index}`);

test('eight keys are read before the tick ends, with all keys that are requested synchronously', async () => {
  const { read, reads } = batched(echo);
  const first = Promise.all(keysOf('a', 7).map(read));
  await Promise.resolve();
  expect(reads).toEqual([]);
  const second = Promise.all(keysOf('b', 23).map(read));
  expect(reads).toEqual([]);
  await Promise.resolve();
  expect(reads).toEqual([[...keysOf('a', 7), ...keysOf('b', 23)]]);
  await Promise.all([first, second]);
});

test('while a read is under way, keys wait for the end of the tick, or until they are 24', async () => {
  let answerFirst = () => {};
  const firstAnswer = new Promise<void>((resolve) => {
    answerFirst = resolve;
  });
  const { read, reads } = batched(echo, () => firstAnswer);
  const first = Promise.all(keysOf('a', 8).map(read));
  await Promise.resolve();
  const second = Promise.all(keysOf('b', 23).map(read));
  await Promise.resolve();
  expect(reads).toEqual([keysOf('a', 8)]);
  const third = Promise.all(keysOf('c', 2).map(read));
  await Promise.resolve();
  expect(reads[1]).toEqual([...keysOf('b', 23), ...keysOf('c', 2)]);
  const fourth = Promise.all(keysOf('d', 8).map(read));
  await Promise.resolve();
  expect(reads).toHaveLength(2);
  await nextTurn();
  expect(reads[2]).toEqual(keysOf('d', 8));
  answerFirst();
  await Promise.all([first, second, third, fourth]);
});

test('after a read of one key, the next keys do not wait for the end of the turn, but for the promises of their request', async () => {
  const { read, reads } = batched(echo);
  await read('a');
  const later = async () => {
    for (let step = 0; step < 10; step += 1) await Promise.resolve();
    return read('c');
  };
  const answers = Promise.all([read('b'), later()]);
  expect(reads).toEqual([['a']]);
  await nextTick();
  expect(reads).toEqual([['a'], ['b', 'c']]);
  await answers;
});

test('after a read of several keys, or while one is under way, a key waits for the end of the turn', async () => {
  const ends: (() => void)[] = [];
  const { read, reads } = batched(echo, () => new Promise((resolve) => void ends.push(resolve)));
  const first = Promise.all([read('a'), read('b')]);
  await nextTurn();
  ends[0]?.();
  await first;
  const second = read('c');
  await nextTick();
  expect(reads).toEqual([['a', 'b']]);
  await nextTurn();
  expect(reads).toEqual([['a', 'b'], ['c']]);
  const third = read('d');
  await nextTick();
  expect(reads).toHaveLength(2);
  await nextTurn();
  expect(reads).toEqual([['a', 'b'], ['c'], ['d']]);
  for (const end of ends) end();
  await Promise.all([second, third]);
});

test('a value that the database refuses fails only for its own key', async () => {
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

test('more than 1,000 keys go into several reads, and each key gets its own row', async () => {
  const { read, reads } = batched(echo);
  const keys = Array.from({ length: 2_001 }, (_, index) => `key ${index}`);
  expect(await Promise.all(keys.map(read))).toEqual(keys.map((value) => [{ value }]));
  expect(reads.map((each) => each.length)).toEqual([1_000, 1_000, 1]);
});

interface Question {
  readonly projectId: number;
  readonly name: string;
  readonly weight?: number;
  readonly shape?: string;
}

/** A batched read of several projects, and the key names of each statement, in the order in which they start. */
function questions(read: (keys: readonly Question[]) => Promise<void> | void) {
  const statements: string[][] = [];
  const ask = createBatchedRead({
    name: 'questions',
    read: async (keys: readonly Question[]) => {
      statements.push(keys.map(({ name }) => name));
      await read(keys);
      return echo(keys.map(({ name }) => name));
    },
    answer: ([row]: Row[]) => row?.value,
    weigh: ({ weight = 1 }) => weight,
    groupKey: ({ shape = '' }) => shape,
  });
  return { ask, statements };
}

describe('a statement for several projects that fails', () => {
  const timeout = Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
  const keys = [
    { projectId: 1, name: 'slow' },
    { projectId: 1, name: 'beside slow' },
    { projectId: 2, name: 'b' },
    { projectId: 3, name: 'c' },
    { projectId: 2, name: 'bb' },
  ];

  test('is retried once for each project, and fails only for the project that causes the failure', async () => {
    const { ask, statements } = questions((asked) => {
      if (asked.some(({ name }) => name === 'slow')) throw timeout;
    });
    const answers = await Promise.allSettled(keys.map(ask));
    expect(answers.map((each) => (each.status === 'fulfilled' ? each.value : each.reason))).toEqual([
      timeout,
      timeout,
      'b',
      'c',
      'bb',
    ]);
    expect(statements[0]).toEqual(keys.map(({ name }) => name));
    // The project with the fewest keys comes first.
    expect(statements.slice(1)).toEqual([['c'], ['slow', 'beside slow'], ['b', 'bb']]);
  });

  test('has at most two retries in flight', async () => {
    let underWay = 0;
    let most = 0;
    const { ask } = questions(async (asked) => {
      if (asked.length > 1) throw timeout;
      underWay += 1;
      most = Math.max(most, underWay);
      await nextTurn();
      underWay -= 1;
    });
    const names = Array.from({ length: 12 }, (_, projectId) => ({ projectId, name: `${projectId}` }));
    expect(await Promise.all(names.map(ask))).toEqual(names.map(({ name }) => name));
    expect(most).toBe(2);
  });

  test('is not retried further when many projects fail, because the database is the cause', async () => {
    const { ask, statements } = questions(() => {
      throw timeout;
    });
    const names = Array.from({ length: 100 }, (_, projectId) => ({ projectId, name: `${projectId}` }));
    const answers = await Promise.allSettled(names.map(ask));
    expect(answers.every((each) => each.status === 'rejected' && each.reason === timeout)).toBe(true);
    expect(statements.length).toBeLessThanOrEqual(1 + 5);
  });

  test.each(['ECONNREFUSED', '57P01'])('is not retried when the database is unreachable (%s)', async (code) => {
    const gone = Object.assign(new Error('gone'), { code });
    const { ask, statements } = questions(() => {
      throw gone;
    });
    const answers = await Promise.allSettled(keys.map(ask));
    expect(answers.every((each) => each.status === 'rejected' && each.reason === gone)).toBe(true);
    expect(statements).toHaveLength(1);
  });
});

describe('keys with a large weight', () => {
  test('are split into statements of weight 1,000 that run one after another, the lightest project first', async () => {
    let underWay = 0;
    const { ask, statements } = questions(async () => {
      underWay += 1;
      expect(underWay).toBe(1);
      await nextTurn();
      underWay -= 1;
    });
    const heavy = ['h0', 'h1', 'h2', 'h3', 'h4'].map((name) => ({ projectId: 1, name, weight: 400 }));
    await Promise.all([...heavy, { projectId: 2, name: 'light', weight: 10 }].map(ask));
    expect(statements).toEqual([['light', 'h0', 'h1'], ['h2', 'h3'], ['h4']]);
  });

  test('of many groups have at most two statements in flight', async () => {
    let underWay = 0;
    let most = 0;
    const { ask, statements } = questions(async () => {
      underWay += 1;
      most = Math.max(most, underWay);
      await nextTurn();
      underWay -= 1;
    });
    const keys = Array.from({ length: 10 }, (_, n) => ({ projectId: 1, name: `${n}`, shape: `${n}` }));
    expect(await Promise.all(keys.map(ask))).toEqual(keys.map(({ name }) => name));
    expect(statements).toHaveLength(10);
    expect(most).toBe(2);
  });
});

describe('the cache key', () => {
  const filter = { createdFrom: new Date(0), createdTo: new Date(1), loginMethods: ['email'] as LoginMethod[] };
  const count = { projectId: 1, filter };
  const page = { ...count, page: 1, limit: 10, withAccounts: true };
  const window = {
    ...page,
    after: null,
    before: null,
    from: 'newest',
    withTotal: true,
    withNewer: false,
    withOlder: false,
  } as const;

  test('is different for different keys, with any text in them', () => {
    const text = fc.string({ unit: fc.constantFrom('1', '2', ':', ',', '=', 'b', '[', '}'), maxLength: 6 });
    const key = fc.record({ a: text, b: fc.oneof(text, fc.array(text, { maxLength: 2 })) }, { noNullPrototype: true });
    fc.assert(
      fc.property(key, key, (one, other) => {
        expect(cacheKey(one) === cacheKey(other)).toBe(isDeepStrictEqual(one, other));
      }),
      { numRuns: 2_000 },
    );
    expect(cacheKey({ a: '1,b=1:2' })).not.toBe(cacheKey({ a: '1', b: '2' }));
  });

  test('is refused for an object whose content cannot be read, such as a Set', () => {
    expect(() => cacheKey({ ids: new Set([1]) })).toThrow(TypeError);
  });

  test('keys share a statement only if they differ only in per-key values', () => {
    const other = { ...filter, createdTo: new Date(2) };
    const place = { createdAt: new Date(0), id: 1 };
    for (const [shape, key, own] of [
      [countGroupKey, count, { projectId: 2 }],
      [pageGroupKey, page, { projectId: 2, page: 2, limit: 20 }],
      [
        windowGroupKey,
        { ...window, after: place },
        { projectId: 2, limit: 20, after: { ...place, id: 2 }, withNewer: true, withOlder: true },
      ],
    ] as const) {
      const shapeOf = shape as (key: object) => string;
      expect(shapeOf({ ...key, ...own })).toBe(shapeOf(key));
      const apart = [{ filter: other }, { withAccounts: false }, { added: 1 }, { filter: { ...filter, added: 1 } }];
      for (const change of apart) expect(shapeOf({ ...key, ...change })).not.toBe(shapeOf(key));
    }
    expect(pageGroupKey({ ...page, page: 1_000 })).not.toBe(pageGroupKey(page));
    expect(windowGroupKey({ ...window, after: place })).not.toBe(windowGroupKey(window));
    expect(windowGroupKey({ ...window, before: place })).not.toBe(windowGroupKey({ ...window, after: place }));
  });
});
