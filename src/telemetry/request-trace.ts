import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * What is done for a request, told to whoever has asked: a bill for its caller (src/observe.ts), a trace for the operator
 * (src/tracing.ts). Nearly always nobody has, and then a part of the work costs one look.
 */
export interface Observation {
  readonly bills: readonly Bill[];
  readonly span: ObservedSpan | null;
}

/** A part of the work for a request. */
export type Part =
  | { readonly kind: 'turn' }
  | { readonly kind: 'resolver'; readonly name: string }
  | { readonly kind: 'batch'; readonly name: string; readonly keys: number }
  | { readonly kind: 'statement'; readonly sql: string };

/** Work with a place in a trace. */
export interface ObservedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly traceFlags: number;
  /** A part of this work begins; `serves` is whose work it is, where it may be that of others too. */
  begin(part: Part, serves: readonly ObservedSpan[]): ObservedSpan;
  /** Work that was done elsewhere served this. */
  link(span: ObservedSpan): void;
  end(error?: unknown): void;
}

/** What a request has cost until now. */
export interface Bill {
  readonly statements: number;
  /** With statements shared with other requests, each as a whole; the time of several at once counts once. */
  readonly databaseMs: number;
  /** Until it was its turn (src/admission.ts). */
  readonly waitedMs: number;
  begin(part: Part): void;
  end(part: Part): void;
}

const storage = new AsyncLocalStorage<Observation | undefined>();
let observing = 0;

/**
 * Somebody observes, until the function that is returned is called. Without anybody the storage is off: Node 20 would make every
 * promise of every request pay for it.
 */
export function startObserving(): () => void {
  observing += 1;
  return () => {
    observing -= 1;
    if (observing === 0) storage.disable();
  };
}

/** The observation of the request for which this is done; undefined nearly always. */
export function currentObservation(): Observation | undefined {
  return storage.getStore();
}

/**
 * Does work for a request, whichever request's turn of the event loop it is. Once nothing is observed any more it is only done: to run
 * anything in the storage would switch it on again, and nothing off.
 */
export function observe<Result>(observation: Observation | null, work: () => Result): Result {
  const wanted = observation ?? undefined;
  return observing === 0 || storage.getStore() === wanted ? work() : storage.run(wanted, work);
}

/** Does a part of the work of the current request. */
export function observed<Result>(part: Part, work: () => Result | Promise<Result>): Result | Promise<Result> {
  const observation = storage.getStore();
  return observation === undefined ? work() : report(observation, part, [], work);
}

/** Does work for several requests at once: on the bill of each, and in the trace of the first, linked to the others. */
export function observedFor<Result>(
  observations: readonly Observation[],
  part: Part,
  work: () => Promise<Result>,
): Promise<Result> {
  if (observations.length === 0) return observe(null, work);
  const bills = [...new Set(observations.flatMap((each) => each.bills))];
  const spans = [...new Set(observations.flatMap(({ span }) => span ?? []))];
  return report({ bills, span: spans[0] ?? null }, part, spans, work);
}

async function report<Result>(
  observation: Observation,
  part: Part,
  serves: readonly ObservedSpan[],
  work: () => Result | Promise<Result>,
): Promise<Result> {
  const { within, end } = beginPart(observation, part, serves);
  try {
    const result = await observe(within, work);
    end();
    return result;
  } catch (error) {
    end(error);
    throw error;
  }
}

/** A part begins, of whose work and of whose end somebody else takes care. */
export function beginPart({ bills, span }: Observation, part: Part, serves: readonly ObservedSpan[] = []) {
  const spanWithin = span?.begin(part, serves) ?? null;
  for (const bill of bills) bill.begin(part);
  return {
    within: { bills, span: spanWithin },
    end(error?: unknown): void {
      for (const bill of bills) bill.end(part);
      spanWithin?.end(error);
    },
  };
}

export function createBill(): Bill {
  let statements = 0;
  const times = { turn: createStopwatch(), statement: createStopwatch() };
  const timeOf = ({ kind }: Part) => (kind === 'turn' || kind === 'statement' ? times[kind] : null);
  return {
    get statements() {
      return statements;
    },
    get databaseMs() {
      return times.statement.read();
    },
    get waitedMs() {
      return times.turn.read();
    },
    begin(part) {
      if (part.kind === 'statement') statements += 1;
      timeOf(part)?.start();
    },
    end: (part) => timeOf(part)?.stop(),
  };
}

/** Runs as long as somebody has started it who has not stopped it. */
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
