import { expect, test } from 'vitest';
import { createPart, syntheticUsers } from '#dist/users/synthetic-users.js';

test('made-up users are the same in parts as at once', () => {
  const COUNT = 10_500;
  const users = [];
  const done = [];
  for (let after: string | null = null; ; ) {
    const part = createPart(COUNT, 7, after);
    users.push(...part.users());
    done.push(part.done);
    after = part.next();
    if (after === null) break;
  }
  expect(done).toEqual([5_000, 10_000, COUNT]);
  expect(users).toEqual([...syntheticUsers(COUNT, 7)]);
});

test.each(['', 'x', '1.2.3.4', '1.2.3.4.5.6', '-1.2.3.4.5'])('a part after %j is refused', (after) => {
  expect(() => createPart(1, 7, after)).toThrow('after: got');
});

test('of no users there is one part', () => {
  const part = createPart(0, 7, null);
  expect([[...part.users()], part.done, part.next()]).toEqual([[], 0, null]);
});
