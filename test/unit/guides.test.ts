import { expect, test } from 'vitest';
import { createFinder } from '#dist/guides/guides.js';

const PARTS = { graphiql: true };
const guide = (text: string) => ({ type: 'text/html', text, compressed: Buffer.alloc(0), tag: text });

test('pages whose reading has failed are read again by the next request, and once only', async () => {
  let reads = 0;
  const find = createFinder(PARTS, {
    read: async () => {
      reads += 1;
      if (reads === 1) throw new Error('too many open files');
      return new Map([['rest', 'text']]);
    },
    make: async (_name, text) => guide(text),
  });
  const both = await Promise.allSettled([find('rest'), find('rest')]);
  expect([reads, both.map(({ status }) => status)]).toEqual([1, ['rejected', 'rejected']]);
  expect((await find('rest'))?.text).toBe('text');
  expect(await find('other')).toBeNull();
  expect(reads).toBe(2);
});

test('a page whose compression has failed is compressed again by the next request, and once only', async () => {
  let makes = 0;
  const find = createFinder(PARTS, {
    read: async () => new Map([['rest', 'text']]),
    make: async (_name, text) => {
      makes += 1;
      if (makes === 1) throw new Error('no memory');
      return guide(text);
    },
  });
  const both = await Promise.allSettled([find('rest'), find('rest')]);
  expect([makes, both.map(({ status }) => status)]).toEqual([1, ['rejected', 'rejected']]);
  expect((await find('rest'))?.text).toBe('text');
  expect((await find('rest'))?.text).toBe('text');
  expect(makes).toBe(2);
});
