/**
 * How long work that can wait may take in one turn of the event loop, in milliseconds. Between two turns the loop reads
 * new requests, so that no caller waits until all work of another caller is done.
 */
const SLICE_MS = 1;
/**
 * The same while one project is alone. The more of its requests are read and answered in a turn, the more share a statement. The first request
 * of another project may have to wait for one turn of this length.
 */
const SLICE_ALONE_MS = 4;
let sliceMs = SLICE_MS;

/** Is told with each request whether its project is the only one that is active. */
export function setAlone(isAlone: boolean): void {
  sliceMs = isAlone ? SLICE_ALONE_MS : SLICE_MS;
}

/** When the first work of this slice was noticed; null until then. */
let startedAt: number | null = null;

/** Whether this turn of the event loop has used up its time, so that more work should wait for the next turn. */
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

/** What waits for a later turn, by project. The project at the front goes on next. An array, because there are few. */
const queues: { readonly project: string; readonly waiting: (() => void)[] }[] = [];
let isScheduled = false;

/** Resolves in a later turn of the event loop, which has time left. Projects take turns. */
export function nextSlice(project: string): Promise<void> {
  return new Promise((resolve) => {
    const queue = queues.find((each) => each.project === project);
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
    // What this turn has done until now does not count. Otherwise a stream of new requests could keep this work waiting for ever.
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
