import { AsyncLocalStorage } from 'node:async_hooks';
import { channel } from 'node:diagnostics_channel';

/* The steps of a request in its trace. Without tracing, a step costs one lookup. */

/** A step of the work for a request. */
export type Step =
  | { readonly kind: 'queue' }
  | { readonly kind: 'resolver'; readonly name: string }
  | { readonly kind: 'batch'; readonly name: string; readonly keys: number }
  | { readonly kind: 'statement'; readonly sql: string };

/** A span of a distributed trace: that of a request, or of a step of it. */
export interface TraceSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  /** Starts a child span for a step. `sharedBy` has the spans of all requests that share the step. */
  begin(step: Step, sharedBy: readonly TraceSpan[]): TraceSpan;
  /** Links this span to a step of another trace that served it. */
  link(span: TraceSpan): void;
  end(error?: unknown): void;
}

const storage = new AsyncLocalStorage<TraceSpan | undefined>();
let activeTraces = 0;

/** Switches traces on until the returned function is called. The unused storage is off, because on Node 20 it makes each promise slower. */
export function enableTraces(): () => void {
  activeTraces += 1;
  return () => {
    activeTraces -= 1;
    if (activeTraces === 0) storage.disable();
  };
}

/** The trace of the current request. Most requests have none. */
export function currentTrace(): TraceSpan | undefined {
  return storage.getStore();
}

/** Runs work in a request's trace, or in none. Does not touch the storage while traces are off: it would switch on. */
export function runInTrace<Result>(trace: TraceSpan | null, work: () => Result): Result {
  const next = trace ?? undefined;
  return activeTraces === 0 || storage.getStore() === next ? work() : storage.run(next, work);
}

/** Runs a step of the current request. */
export function withSpan<Result>(step: Step, work: () => Result | Promise<Result>): Result | Promise<Result> {
  const trace = storage.getStore();
  return trace === undefined ? work() : runStep(trace, step, [], work);
}

/** Runs a step that several requests share, in the trace of the first. It is linked to the others. */
export function withSharedSpan<Result>(
  traces: readonly TraceSpan[],
  step: Step,
  work: () => Promise<Result>,
): Promise<Result> {
  const spans = [...new Set(traces)];
  return spans[0] === undefined ? runInTrace(null, work) : runStep(spans[0], step, spans, work);
}

async function runStep<Result>(
  trace: TraceSpan,
  step: Step,
  sharedBy: readonly TraceSpan[],
  work: () => Result | Promise<Result>,
): Promise<Result> {
  const span = trace.begin(step, sharedBy);
  try {
    const result = await runInTrace(span, work);
    span.end();
    return result;
  } catch (error) {
    span.end(error);
    throw error;
  }
}

/** Each batch of reads that share a statement is published here, for the metrics. */
export const batchChannel = channel('userdir.batches');
export interface BatchSize {
  readonly name: string;
  readonly keys: number;
}
