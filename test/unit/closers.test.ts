import { expect, test } from 'vitest';
import { closeAll, runThenClose } from '#dist/closers.js';

function steps() {
  const done: string[] = [];
  const step = (name: string, failure?: Error) => async () => {
    await Promise.resolve();
    done.push(name);
    if (failure !== undefined) throw failure;
  };
  return { done, step };
}
const [first, second] = [new Error('first'), new Error('second')];

test('closers run one after another in reverse order, all of them, and the first failure is thrown', async () => {
  const { done, step } = steps();
  const throwsAtOnce = () => {
    done.push('b');
    throw second;
  };
  await expect(closeAll([step('a'), throwsAtOnce, step('c', first), step('d')])).rejects.toBe(first);
  expect(done).toEqual(['d', 'c', 'b', 'a']);
  await expect(closeAll([])).resolves.toBeUndefined();
});

test('closers added by the work run even if it fails, and its failure is thrown instead of theirs', async () => {
  for (const failure of [undefined, first]) {
    const { done, step } = steps();
    const closers = [step('a', second)];
    const work = async () => {
      closers.push(step('b'));
      if (failure !== undefined) throw failure;
      return 'result';
    };
    await expect(runThenClose(work, closers)).rejects.toBe(failure ?? second);
    expect(done).toEqual(['b', 'a']);
  }
  await expect(runThenClose(async () => 'result', [() => undefined])).resolves.toBe('result');
});
