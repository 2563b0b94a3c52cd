import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { createBatchedWrite } from '#dist/db/batched-write.js';
import { withdrawn } from '#dist/errors.js';
import { PATIENCE } from '../support/waiting.js';

/**
 * What becomes of writes by how their statements end. Which of those that wait start is a plan of its own: write-plan.test. That PostgreSQL ends
 * statements so is tested with a real one: test/faults/database-faults, test/faults/locks.
 */

interface Key {
  readonly projectId: number;
  readonly name: string;
}

/** What a statement gives: an answer for each key as it was, `code` an error of PostgreSQL, `row` an error of each key. */
type End = 'writes' | 'row' | { readonly code: string };

/** A batched write whose statements end as a script says, the later ones well. */
function scripted(ends: readonly End[] = [], { isCrossed = false, statementMs = 0 } = {}) {
  const statements: string[][] = [];
  const waited: boolean[] = [];
  const left = [...ends];
  let held: Promise<void> | null = null;
  let connecting: Promise<void> | null = null;
  const db = {
    statementMs,
    // The database calls back when a connection is free, and leaves out a statement that is given up by then.
    withdrawable: (isWanted: () => boolean) => ({ isWanted }),
  };
  const write = createBatchedWrite<Key, string>({
    db: db as never,
    name: 'notes',
    weigh: () => 1,
    changes: ({ projectId, name }) => [`${projectId} ${name.slice(0, 1)}`],
    isCrossed: () => isCrossed,
    async write(on, keys, waits) {
      await connecting;
      if (!(on as unknown as { isWanted(): boolean }).isWanted()) throw withdrawn();
      const end = left.shift() ?? 'writes';
      statements.push(keys.map(({ name }) => name));
      waited.push(waits);
      await held;
      if (end === 'writes') return keys.map(({ name }) => `${name} is written`);
      if (end === 'row') return keys.map(({ name }) => new Error(`${name} is refused`));
      throw Object.assign(new Error(end.code), { code: end.code });
    },
  });
  return {
    statements,
    waited,
    /** What comes of keys of project 1, or `project:name`. */
    async outcomes(names: readonly string[], until = performance.now() + 600_000) {
      const keys = names.map((name) => {
        const [project, own] = name.includes(':') ? name.split(':') : ['1', name];
        return { projectId: Number(project), name: own as string };
      });
      const settled = await Promise.allSettled(keys.map((key) => write(key, until)));
      return settled.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).message));
    },
    /** No connection is free until the function that this returns is called. */
    keepConnections() {
      const gate = createGate();
      connecting = gate.opened;
      return gate.open;
    },
    /** Statements last until the function that this returns is called. */
    hold() {
      const gate = createGate();
      held = gate.opened;
      return gate.open;
    },
  };
}

/** What is waited for, and the function that lets it come. */
function createGate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}

const written = (...names: string[]) => names.map((name) => `${name} is written`);
const NOT_SENT = 'The request has waited for too long. Nothing was changed. Send the request again.';
const failed = (code: string, count: number) => Array.from({ length: count }, () => code);

describe('a statement that fails', () => {
  test.each<[what: string, code: string]>([
    ['a value', '22003'],
    ['a key that another row has', '23505'],
    ['a conflict of transactions', '40001'],
    ['a deadlock', '40P01'],
    ['a full disk', '53100'],
    ['a lock', '55P03'],
    ['the time of a statement', '57014'],
  ])('and is undone, for %s, is followed by one for each key, in their order', async (_, code) => {
    const { statements, outcomes } = scripted([{ code }]);
    expect(await outcomes(['a', 'b', 'c'])).toEqual(written('a', 'b', 'c'));
    expect(statements).toEqual([['a', 'b', 'c'], ['a'], ['b'], ['c']]);
  });

  test.each<[what: string, code: string]>([
    ['the connection is lost', '08006'],
    ['the server ends the session', '57P01'],
    ['the server has become a standby', '25006'],
    ['this process fails', 'ERR_ASSERTION'],
  ])('and may be committed, or cannot succeed, is not repeated: %s', async (_, code) => {
    const { statements, outcomes } = scripted([{ code }]);
    expect(await outcomes(['a', 'b'])).toEqual(failed(code, 2));
    expect(statements).toEqual([['a', 'b']]);
  });

  test.each<[what: string, code: string, statements: number]>([
    ['a lock', '55P03', 2],
    ['a conflict', '40001', 1],
    ['the time of a statement', '57014', 1],
    ['a lost connection', '08006', 1],
  ])('for a key alone is repeated for a lock, and for nothing else: %s', async (_, code, times) => {
    const { statements, outcomes } = scripted([{ code }, { code }]);
    expect(await outcomes(['a'])).toEqual([code]);
    expect(statements).toHaveLength(times);
  });

  test('for a key alone because of others that wrote meanwhile is written once more, and finds them', async () => {
    const found = scripted([{ code: '23505' }], { isCrossed: true });
    expect(await found.outcomes(['a'])).toEqual(written('a'));
    expect(found.statements).toEqual([['a'], ['a']]);
    const again = scripted([{ code: '23505' }, { code: '23505' }], { isCrossed: true });
    expect(await again.outcomes(['a'])).toEqual(['23505']);
    expect(again.statements).toHaveLength(2);
  });

  test('for some of its keys fails these alone', async () => {
    const { statements, outcomes } = scripted(['row']);
    expect(await outcomes(['a', 'b'])).toEqual(['a is refused', 'b is refused']);
    expect(statements).toHaveLength(1);
  });
});

describe('a key that waits for a lock alone', () => {
  test('fails those that wait behind it, and sets its project aside for a while', async () => {
    const { statements, outcomes } = scripted([{ code: '55P03' }, { code: '55P03' }]);
    // The second and the third change what the first does; the last is of another project.
    expect(await outcomes(['a1', 'a2', 'a3', '2:a4'])).toEqual(['55P03', '55P03', '55P03', 'a4 is written']);
    expect(statements.slice(0, 3)).toEqual([['a1', 'a4'], ['a1'], ['a4']]);
    statements.length = 0;
    expect(await outcomes(['b', 'c', '2:d', '3:e'])).toEqual(written('b', 'c', 'd', 'e'));
    expect(statements.toSorted()).toEqual([['b'], ['c'], ['d', 'e']]);
  });

  test('sets it aside for five seconds', async () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      const { statements, outcomes } = scripted([{ code: '55P03' }, { code: '55P03' }]);
      await outcomes(['a']);
      for (const [ms, together] of [
        [4_999, false],
        [2, true],
      ] as const) {
        vi.advanceTimersByTime(ms);
        statements.length = 0;
        await outcomes(['b', 'c']);
        expect(statements).toEqual(together ? [['b', 'c']] : [['b'], ['c']]);
      }
    } finally {
      vi.useRealTimers();
    }
  });

  test('waits only where there is time for a whole statement, and where no other key waits with it', async () => {
    const ends = [{ code: '55P03' }];
    const enough = scripted(ends, { statementMs: 30_000 });
    await enough.outcomes(['a']);
    expect(enough.waited).toEqual([false, true]);
    const little = scripted(ends, { statementMs: 30_000 });
    await little.outcomes(['a'], performance.now() + 29_000);
    expect(little.waited).toEqual([false, false]);
  });
});

describe('a call whose time is over', () => {
  test('is answered at once if it comes too late, and is never sent', async () => {
    const { statements, outcomes } = scripted();
    expect(await outcomes(['a'], performance.now())).toEqual([NOT_SENT]);
    expect(statements).toEqual([]);
  });

  test('is answered while its statement goes on: its outcome is unknown', async () => {
    const { statements, outcomes, hold } = scripted();
    const release = hold();
    const [first] = await outcomes(['a'], performance.now() + 100);
    expect(first).toContain('has not answered in time');
    release();
    expect(await outcomes(['b'])).toEqual(written('b'));
    expect(statements).toEqual([['a'], ['b']]);
  });

  test('while it waits for a connection is left out, and those that came with it are written', async () => {
    const { statements, outcomes, keepConnections } = scripted();
    const free = keepConnections();
    const patient = outcomes(['a', 'b']);
    expect(await outcomes(['c'], performance.now() + 100)).toEqual([NOT_SENT]);
    free();
    expect(await patient).toEqual(written('a', 'b'));
    expect(statements).toEqual([['a', 'b']]);
  });

  test('is not sent after it has waited for another', async () => {
    const { statements, outcomes, hold } = scripted();
    const release = hold();
    const first = outcomes(['a1']);
    const second = outcomes(['a2'], performance.now() + 100);
    expect(await second).toEqual([NOT_SENT]);
    release();
    expect(await first).toEqual(written('a1'));
    await sleep(10);
    expect(statements).toEqual([['a1']]);
  });
});

test('keys that change the same are written one after the other, others beside them', async () => {
  const { statements, outcomes, hold } = scripted();
  const release = hold();
  const first = outcomes(['a1', 'b1']);
  await vi.waitUntil(() => statements.length === 1, PATIENCE);
  // As many as start a statement beside one that is under way.
  const later = outcomes(['a2', 'c', 'd', 'e', 'f', 'g']);
  await vi.waitUntil(() => statements.length === 2, PATIENCE);
  expect(statements).toEqual([
    ['a1', 'b1'],
    ['c', 'd', 'e', 'f', 'g'],
  ]);
  release();
  expect(await first).toEqual(written('a1', 'b1'));
  expect(await later).toEqual(written('a2', 'c', 'd', 'e', 'f', 'g'));
  expect(statements.at(-1)).toEqual(['a2']);
});

test('no timer runs while nothing waits for its answer', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  try {
    const { outcomes, hold } = scripted();
    const release = hold();
    const first = outcomes(['a']);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1_000);
    expect(vi.getTimerCount()).toBe(1);
    release();
    await first;
    vi.advanceTimersByTime(50);
    expect(vi.getTimerCount()).toBe(0);
    // It begins again with the next one.
    const second = outcomes(['b']);
    expect(vi.getTimerCount()).toBe(1);
    await second;
  } finally {
    vi.useRealTimers();
  }
});
