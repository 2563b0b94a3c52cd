import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProjectScope } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { reportFailure } from './failures.js';

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

/** One kind of requests that the second thread answers (app/second-thread.ts). */
export interface ThreadTask<Asked, Answered> {
  /** Whether it takes a heavy request. If it does not run and could relieve other projects, it is started for the next ones. */
  takes(request: FastifyRequest): boolean;
  isReady(): boolean;
  /** The bytes in `asked` are gone afterwards. AppError; UNAVAILABLE if the thread fails before it has an answer. */
  answer(request: FastifyRequest, asked: Asked): Promise<Answered>;
}

/** What goes to the thread and back: plain data, of which `body` is handed over and not copied. */
export interface PlainData {
  readonly body: Uint8Array<ArrayBuffer> | null;
}

/** Who sent a request, and who is told of it while it is executed. */
export interface Requester {
  /** Of the request. */
  readonly id: string;
  readonly scope: ProjectScope;
  /** Until when what it writes has an answer, by the clock of `performance`. */
  readonly until: number;
  /** Adds units of work (admission.ts) that turned out to be needed. Throws where no client waits for the answer any more. */
  addWeight(units: number): void;
  /** Is told of an error of a resolver as an operator should know of it. */
  readonly report: (failure: AppError) => void;
}

export function requesterOf(request: FastifyRequest): Requester {
  return {
    id: request.id,
    scope: request.scope,
    until: request.until,
    addWeight(units) {
      if (!request.addWeight(units)) throw abandoned();
    },
    report: (failure) => reportFailure(failure, request, 'A resolver failed.'),
  };
}

/** What ends the work for a client that has gone, or that was answered because its time had run out. */
export function abandoned(): AppError {
  return new AppError('REQUEST_TIMEOUT', 'No client waits for the answer.');
}

/** A copy of a body that can be handed over. The buffer of the body may hold bytes of other requests. */
export function bytesOf(body: Buffer | null): Uint8Array<ArrayBuffer> | null {
  return body === null ? null : new Uint8Array(body);
}

/**
 * Sends bytes that came from the thread, and frees them when the operating system has them. V8 counts memory outside of its heap, and would
 * collect everything several times a second while large answers are sent.
 */
export function sendBytes(reply: FastifyReply, bytes: Uint8Array<ArrayBuffer>): FastifyReply {
  // Before Node.js 22 the collector has to do it.
  const buffer: ArrayBuffer & { transfer?: (length: number) => ArrayBuffer } = bytes.buffer;
  reply.raw.once('finish', () => buffer.transfer?.(0));
  return reply.send(bytes);
}
