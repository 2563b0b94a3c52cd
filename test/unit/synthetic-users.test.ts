import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { createPart, readUntil, syntheticUsers } from '#dist/users/synthetic-users.js';

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

/** `userdir seed` adds what an earlier release has not: a part made by one may be followed by a part made by another. */
test('made-up users are the same ones in every release', () => {
  const hash = createHash('sha256');
  for (const seed of [1, 7]) hash.update(JSON.stringify([...syntheticUsers(2_000, seed)]));
  const later = createPart(5_001, 1, null, new Date('2027-03-01T00:00:00Z'));
  hash.update(JSON.stringify([...later.users(), later.next()]));
  expect(hash.digest('hex')).toBe('3408b11444d13c6c74d20f43e6227d4f7253654c6c12e62d897d441127e791fd');
});

test.each([
  ['2000-01-01', true],
  ['1999-12-31', false],
  ['2026-02-30', false],
  ['2026-1-1', false],
  ['', false],
])('made-up users may end at %s: %s', (day, isAccepted) => {
  if (isAccepted) expect(readUntil(day).toISOString()).toBe(`${day}T00:00:00.000Z`);
  else expect(() => readUntil(day)).toThrow('until: got');
});

test.each([
  ['today', 0, true],
  ['tomorrow', 1, false],
])('made-up users may end %s: %s', (_, days, isAccepted) => {
  const day = new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);
  if (isAccepted) expect(readUntil(day).toISOString()).toBe(`${day}T00:00:00.000Z`);
  else expect(() => readUntil(day)).toThrow('until: got');
});

test('made-up users end today where no day is given', () => {
  const [before, until, after] = [new Date(), readUntil(null), new Date()].map((at) => at.toISOString().slice(0, 10));
  expect([before, after]).toContain(until);
  expect(readUntil(null).toISOString()).toMatch(/T00:00:00\.000Z$/);
});
