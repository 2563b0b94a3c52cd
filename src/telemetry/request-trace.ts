import { AsyncLocalStorage } from 'node:async_hooks';
import { channel } from 'node:diagnostics_channel';

/** Records the steps of a request, for its cost (http/request-log.ts) or its spans (tracing.ts). Most requests have no trace, and a step then costs one lookup. */
export interface RequestTrace {
  readonly costs: readonly RequestCost[];
  readonly span: TraceSpan | null;
}

/** A step of the work for a request. */
export type Step =
  | { readonly kind: 'queue' }
  | { readonly kind: 'resolver'; readonly name: string }
  | { readonly kind: 'batch'; readonly name: string; readonly keys: number }
  | { readonly kind: 'statement'; readonly sql: string };

/** A span of a distributed trace. */
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

export type RequestCost = ReturnType<typeof createRequestCost>;

const storage = new AsyncLocalStorage<RequestTrace | undefined>();
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
export function currentTrace(): RequestTrace | undefined {
  return storage.getStore();
}

/** Runs work in a request's trace, or in none. Does not touch the storage while traces are off: it would switch on. */
export function runInTrace<Result>(trace: RequestTrace | null, work: () => Result): Result {
  const next = trace ?? undefined;
  return activeTraces === 0 || storage.getStore() === next ? work() : storage.run(next, work);
}

/** Runs a step of the current request. */
export function withSpan<Result>(step: Step, work: () => Result | Promise<Result>): Result | Promise<Result> {
  const trace = storage.getStore();
  return trace === undefined ? work() : runStep(trace, step, [], work);
}

/** Runs a step that several requests share. It counts for each. The first trace has its span, linked to the others. */
export function withSharedSpan<Result>(
  traces: readonly RequestTrace[],
  step: Step,
  work: () => Promise<Result>,
): Promise<Result> {
  if (traces.length === 0) return runInTrace(null, work);
  const costs = [...new Set(traces.flatMap((trace) => trace.costs))];
  const spans = [...new Set(traces.flatMap(({ span }) => span ?? []))];
  return runStep({ costs, span: spans[0] ?? null }, step, spans, work);
}

async function runStep<Result>(
  trace: RequestTrace,
  step: Step,
  sharedBy: readonly TraceSpan[],
  work: () => Result | Promise<Result>,
): Promise<Result> {
  const { within, end } = startStep(trace, step, sharedBy);
  try {
    const result = await runInTrace(within, work);
    end();
    return result;
  } catch (error) {
    end(error);
    throw error;
  }
}

/** Starts a step; the caller runs its work, in the trace `within`, and ends it. */
export function startStep({ costs, span }: RequestTrace, step: Step, sharedBy: readonly TraceSpan[] = []) {
  const child = span?.begin(step, sharedBy) ?? null;
  for (const cost of costs) cost.begin(step);
  return {
    within: { costs, span: child },
    end(error?: unknown): void {
      for (const cost of costs) cost.end(step);
      child?.end(error);
    },
  };
}

/** The cost of a request so far. */
export function createRequestCost() {
  let statements = 0;
  const queue = createStopwatch();
  const statement = createStopwatch();
  const stopwatchOf = ({ kind }: Step) => {
    if (kind === 'queue') return queue;
    return kind === 'statement' ? statement : null;
  };
  return {
    /** A statement shared with other requests counts as one. */
    get statements(): number {
      return statements;
    },
    /** Time in statements. Time with several statements at once counts once. */
    get databaseMs(): number {
      return statement.read();
    },
    /** Time in the queue of admission. */
    get queuedMs(): number {
      return queue.read();
    },
    begin(step: Step): void {
      if (step.kind === 'statement') statements += 1;
      stopwatchOf(step)?.start();
    },
    end(step: Step): void {
      stopwatchOf(step)?.stop();
    },
  };
}

/** Each batch of reads that share a statement is published here, for the metrics. */
export const batchChannel = channel('userdir.batches');
export interface BatchSize {
  readonly name: string;
  readonly keys: number;
}

/** A stopwatch that runs while there were more starts than stops. */
function createStopwatch() {
  let running = 0;
  let startedAt = 0;
  let elapsed = 0;
  const read = () => elapsed + (running === 0 ? 0 : performance.now() - startedAt);
  return {
    read,
    start(): void {
      if (running === 0) startedAt = performance.now();
      running += 1;
    },
    stop(): void {
      elapsed = read();
      startedAt = performance.now();
      running -= 1;
    },
  };
}
