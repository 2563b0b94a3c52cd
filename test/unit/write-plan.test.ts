import { expect, test } from 'vitest';
import { mayShare, type PlannedCall, planWrites, type StatementsUnderWay } from '#dist/db/write-plan.js';

interface Key {
  readonly projectId: number;
  readonly name: string;
  readonly group: string;
  readonly weight: number;
}

interface Given {
  /** The change that it has in common with others; its own by default. */
  readonly change?: string;
  readonly project?: number;
  readonly isAlone?: boolean;
  readonly group?: string;
  readonly weight?: number;
}

function call(name: string, given: Given = {}): PlannedCall<Key> {
  const { change = name, project = 1, isAlone = false, group = 'one', weight = 1 } = given;
  return { key: { projectId: project, name, group, weight }, changes: [change], isAlone };
}

const calls = (count: number, given: Given = {}, prefix = '') =>
  Array.from({ length: count }, (_, place) => call(`${prefix}${place + 1}`, given));

function plan(waiting: readonly PlannedCall<Key>[], underWay: Partial<StatementsUnderWay> = {}) {
  const statements = { changing: new Set<string>(), shared: 0, alone: [], ...underWay };
  const {
    together,
    alone,
    waiting: later,
  } = planWrites(waiting, statements, {
    groupKey: ({ group }: Key) => group,
    weigh: ({ weight }: Key) => weight,
  });
  const named = (some: readonly PlannedCall<Key>[]) => some.map(({ key }) => key.name).join(' ');
  return { together: named(together), alone: named(alone), waiting: named(later) };
}

const ALONE = { isAlone: true };

test.each([
  {
    expected: 'calls that wait start by one statement',
    waiting: calls(3),
    plan: { together: '1 2 3', alone: '', waiting: '' },
  },
  {
    expected: 'few wait for the end of a statement under way',
    waiting: calls(4),
    underWay: { shared: 1 },
    plan: { together: '', alone: '', waiting: '1 2 3 4' },
  },
  {
    expected: 'many start beside it',
    waiting: calls(5),
    underWay: { shared: 1 },
    plan: { together: '1 2 3 4 5', alone: '', waiting: '' },
  },
  {
    expected: 'none start beside two',
    waiting: calls(5),
    underWay: { shared: 2 },
    plan: { together: '', alone: '', waiting: '1 2 3 4 5' },
  },
  {
    expected: 'a call waits for a statement under way that has one of its changes',
    waiting: [call('a'), call('b')],
    underWay: { changing: new Set(['a']) },
    plan: { together: 'b', alone: '', waiting: 'a' },
  },
  {
    expected: 'of two calls with a change in common, the later waits',
    waiting: [call('a', { change: 'user' }), call('b', { change: 'user' }), call('c')],
    plan: { together: 'a c', alone: '', waiting: 'b' },
  },
  {
    expected: 'a call is not overtaken by one with a change in common, also where it waits for room',
    waiting: [call('a', { group: 'one' }), call('b', { group: 'two', change: 'user' }), call('c', { change: 'user' })],
    plan: { together: 'a', alone: '', waiting: 'b c' },
  },
  {
    expected: 'only calls of the group of the first share its statement',
    waiting: [call('a', { group: 'one' }), call('b', { group: 'two' }), call('c', { group: 'one' })],
    plan: { together: 'a c', alone: '', waiting: 'b' },
  },
  {
    expected: 'a call that makes the statement too large waits, and a smaller one after it does not',
    waiting: [call('a', { weight: 300 }), call('b', { weight: 201 }), call('c', { weight: 200 }), call('d')],
    plan: { together: 'a c', alone: '', waiting: 'b d' },
  },
  {
    expected: 'the first call may be of any size',
    waiting: [call('a', { weight: 5_000 }), call('b')],
    plan: { together: 'a', alone: '', waiting: 'b' },
  },
  {
    expected: 'a call that is written alone starts beside any shared statements',
    waiting: [call('a', ALONE), call('b')],
    underWay: { shared: 2 },
    plan: { together: '', alone: 'a', waiting: 'b' },
  },
  {
    expected: 'two calls of a project are written alone at a time',
    waiting: [call('a', ALONE), call('b', ALONE), call('c', ALONE), call('d', { ...ALONE, project: 2 })],
    plan: { together: '', alone: 'a b d', waiting: 'c' },
  },
  {
    expected: 'those under way count among the two',
    waiting: [call('a', ALONE), call('b', ALONE)],
    underWay: { alone: [1] },
    plan: { together: '', alone: 'a', waiting: 'b' },
  },
  {
    expected: 'six calls of all projects are written alone at a time',
    waiting: [call('a', ALONE), call('b', { ...ALONE, project: 2 })],
    underWay: { alone: [3, 3, 4, 4, 5] },
    plan: { together: '', alone: 'a', waiting: 'b' },
  },
  {
    expected: 'a call that is written alone waits for a change as others do',
    waiting: [call('a', ALONE)],
    underWay: { changing: new Set(['a']) },
    plan: { together: '', alone: '', waiting: 'a' },
  },
])('$expected', ({ waiting, underWay, plan: expected }) => {
  expect(plan(waiting, underWay)).toEqual(expected);
});

test('a statement has at most 64 keys, of which projects take turns: one with many delays another by one', () => {
  const { together, waiting } = plan([...calls(70), call('other', { project: 2 })]);
  const first = Array.from({ length: 63 }, (_, place) => String(place + 1));
  expect(together).toBe(['1', 'other', ...first.slice(1)].join(' '));
  expect(waiting).toBe('64 65 66 67 68 69 70');
});

test('a plan changes nothing that it was made of', () => {
  const waiting = [...calls(70), ...calls(3, ALONE, 'alone ')];
  const underWay = { changing: new Set(['1']), shared: 0, alone: [2] };
  const before = structuredClone({ waiting, underWay });
  plan(waiting, underWay);
  expect({ waiting, underWay }).toEqual(before);
});

test('a shared statement may start where none is under way, or beside one with enough keys', () => {
  const shares = [0, 1, 2].map((shared) => [1, 4, 5, 100].map((waiting) => mayShare({ shared }, waiting)));
  expect(shares).toEqual([
    [true, true, true, true],
    [false, false, true, true],
    [false, false, false, false],
  ]);
});
