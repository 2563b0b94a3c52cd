import { observe } from '../telemetry/request-trace.js';

/** Is told what was being done in the background when it failed. */
export type OnFailure = (error: unknown, what: string) => void;

/** The same failure again within this time is not told. */
const QUIET_MS = 60_000;

/** Does work for which no request waits. It never rejects: the work is tried again, and the operator hears of what fails. */
export function createBackground(onFailure: OnFailure): (what: string, work: () => Promise<void>) => Promise<void> {
  const toldAt = new Map<string, number>();
  return async (what, work) => {
    try {
      await observe(null, work);
    } catch (error) {
      const { code, name } = error as { code?: unknown; name?: unknown };
      const failure = `${what}: ${code ?? name}`;
      const now = performance.now();
      if (now - (toldAt.get(failure) ?? Number.NEGATIVE_INFINITY) < QUIET_MS) return;
      toldAt.set(failure, now);
      onFailure(error, what);
    }
  };
}
