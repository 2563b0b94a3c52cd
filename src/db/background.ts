import { runInTrace } from '../telemetry/request-trace.js';

/** Called when work in the background failed; `what` names the work. */
export type OnFailure = (error: unknown, what: string) => void;

/** A repeated failure is reported once within this time. */
const REPORT_INTERVAL_MS = 60_000;

/** Runs work for which no request waits. It never rejects: failures are reported to the operator, and the work is tried again later. */
export function createBackground(onFailure: OnFailure): (what: string, work: () => Promise<void>) => Promise<void> {
  const reportedAt = new Map<string, number>();
  return async (what, work) => {
    try {
      await runInTrace(null, work);
    } catch (error) {
      const { code, name } = error as { code?: unknown; name?: unknown };
      const failure = `${what}: ${code ?? name}`;
      const now = performance.now();
      if (now - (reportedAt.get(failure) ?? Number.NEGATIVE_INFINITY) < REPORT_INTERVAL_MS) return;
      reportedAt.set(failure, now);
      onFailure(error, what);
    }
  };
}
