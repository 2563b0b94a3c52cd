/** Gives back one thing that was opened. */
export type Closer = () => unknown;

/**
 * Runs every closer, the last one first, each when the one before has ended, also where one fails. Then throws the first failure.
 * What is opened first stands first, so that what builds on it is closed before it.
 */
export async function closeAll(closers: readonly Closer[]): Promise<void> {
  const failures: unknown[] = [];
  for (const close of closers.toReversed()) {
    try {
      await close();
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** Runs `work`, which may add to the closers, and then every closer. A failure of `work` goes before theirs. */
export async function runThenClose<Result>(work: () => Promise<Result>, closers: readonly Closer[]): Promise<Result> {
  const [done] = await Promise.allSettled([work()]);
  const [closed] = await Promise.allSettled([closeAll(closers)]);
  if (done.status === 'rejected') throw done.reason;
  if (closed.status === 'rejected') throw closed.reason;
  return done.value;
}
