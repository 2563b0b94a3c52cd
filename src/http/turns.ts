/** The milliseconds of work that can wait in one turn of the event loop. Between two turns the loop reads new requests, so callers take turns. */
const SLICE_MS = 1;
/** The milliseconds while one project is alone: requests of one turn share statements. Another project's first request may wait for such a turn. */
const SLICE_ALONE_MS = 4;
let sliceMs = SLICE_MS;

/** Is told with each request whether its project is the only one that is active. */
export function setAlone(isAlone: boolean): void {
  sliceMs = isAlone ? SLICE_ALONE_MS : SLICE_MS;
}

/** When the first work of this slice was noticed; null until then. */
let startedAt: number | null = null;

/** True if this turn of the event loop has used up its time, so that more work should wait for the next turn. */
export function isSliceOver(): boolean {
  if (startedAt === null) beginSlice();
  return performance.now() - (startedAt as number) > sliceMs;
}

function beginSlice(): void {
  if (startedAt === null) {
    setImmediate(() => {
      startedAt = null;
    });
  }
  startedAt = performance.now();
}

/** Work for a later turn, by project. The project at the front goes on next. An array, because there are few. */
const queues: { readonly project: string; readonly waiting: (() => void)[] }[] = [];
let isScheduled = false;

/** Resolves in a later turn of the event loop, which has time left. Projects take turns. */
export function nextSlice(project: string): Promise<void> {
  return new Promise((resolve) => {
    const queue = queues.find((queued) => queued.project === project);
    if (queue === undefined) queues.push({ project, waiting: [resolve] });
    else queue.waiting.push(resolve);
    schedule();
  });
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    // The time before does not count. Otherwise a stream of new requests could keep this work waiting for ever.
    beginSlice();
    resumeNext();
  });
}

/** Lets what waits go on, one after another, until the slice is over. */
function resumeNext(): void {
  const queue = queues.shift();
  if (queue === undefined) return;
  const resume = queue.waiting.shift();
  if (queue.waiting.length > 0) queues.push(queue);
  resume?.();
  // The resumed work consists of microtasks. A tick that one of them asks for comes after all of them.
  queueMicrotask(() => process.nextTick(continueSlice));
}

function continueSlice(): void {
  if (isSliceOver()) schedule();
  else resumeNext();
}
