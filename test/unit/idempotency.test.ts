import { describe, expect, test } from 'vitest';
import type { Queryable } from '#dist/db/statements.js';
import { AppError } from '#dist/errors.js';
import { changeOnce, retryOf } from '#dist/projects/idempotency.js';

/**
 * A change that fails because of what another request did in the same moment, which an embedded database never lets happen. That PostgreSQL does is
 * seen by test/api/retries there.
 */

const RETRY = retryOf('key', ['removal', 7]);
const failing: Record<string, () => Error> = {
  'NOT_FOUND, as the user is gone by then': () => new AppError('NOT_FOUND', 'Gone.'),
  'CONFLICT, as it is changed by then': () => new AppError('CONFLICT', 'Changed.'),
  'a key that is taken by then': () => Object.assign(new Error('Taken.'), { code: '23505' }),
  'what no other request is the reason of': () => new AppError('BAD_USER_INPUT', 'Wrong.'),
};

/** A change whose first try fails; `stored` is the answer to the key that another request has stored by then. */
async function change(error: Error, hasKey: boolean, stored: { answer: string; isSame: boolean } | null) {
  const said: string[] = [];
  let tries = 0;
  const tx = {
    async query({ sql }: { sql: string }) {
      if (/INSERT INTO idempotency_keys/.test(sql)) said.push('stores');
      return [{ earlier: tries > 1 ? stored : null }];
    },
  } as unknown as Queryable;
  const outcome = await changeOnce<Queryable, string>(
    (work) => {
      tries += 1;
      return work(tx);
    },
    1,
    hasKey ? RETRY : null,
    async () => {
      said.push('changes');
      if (tries === 1) throw error;
      return 'done';
    },
  ).catch((thrown: Error) => thrown.message);
  return { said, outcome };
}

describe.each(Object.entries(failing))('a change that fails with %s', (what, error) => {
  const isTaken = what.startsWith('a key');
  const mayBeDone = !what.startsWith('what no other');

  test('is answered as the first request with its key was', async () => {
    const { said, outcome } = await change(error(), true, { answer: 'done before', isSame: true });
    expect(outcome).toBe(mayBeDone ? 'done before' : error().message);
    expect(said).toEqual(['changes']);
  });

  test('is refused where the key is that of another request', async () => {
    const { outcome } = await change(error(), true, { answer: 'done before', isSame: false });
    expect(outcome).toBe(mayBeDone ? 'The idempotency key was used for another request.' : error().message);
  });

  test('is tried once more where no request with its key was', async () => {
    const { said, outcome } = await change(error(), true, null);
    expect(outcome).toBe(mayBeDone ? 'done' : error().message);
    expect(said).toEqual(mayBeDone ? ['changes', 'changes', 'stores'] : ['changes']);
  });

  test('without a key is tried once more only where rows were taken', async () => {
    const { said, outcome } = await change(error(), false, null);
    expect(outcome).toBe(isTaken ? 'done' : error().message);
    expect(said).toEqual(isTaken ? ['changes', 'changes'] : ['changes']);
  });
});
