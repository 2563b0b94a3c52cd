/** Closes one thing that was opened. */
export type Closer = () => unknown;

/** Runs every closer, even if one fails, from the last one opened to the first, so that what builds on something is closed before it. Then throws the first failure. */
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

/** Runs `work`, which may add closers, and then every closer. If both fail, the failure of `work` is thrown. */
export async function runThenClose<Result>(work: () => Promise<Result>, closers: readonly Closer[]): Promise<Result> {
  const [done] = await Promise.allSettled([work()]);
  const [closed] = await Promise.allSettled([closeAll(closers)]);
  if (done.status === 'rejected') throw done.reason;
  if (closed.status === 'rejected') throw closed.reason;
  return done.value;
}
