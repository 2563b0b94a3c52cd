import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProjectScope } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { reportFailure } from './failures.js';

/** Requests that another thread of this process answers (app/second-thread.ts): one kind of them. */
export interface Elsewhere<Asked, Answered> {
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
export interface Asker {
  /** Of the request. */
  readonly id: string;
  readonly scope: ProjectScope;
  /** Adds units of work (admission.ts) that turned out to be needed. Throws where no client waits for the answer any more. */
  addWeight(units: number): void;
  /** Is told of an error of a resolver as an operator should know of it. */
  readonly report: (failure: AppError) => void;
}

export function askerOf(request: FastifyRequest): Asker {
  return {
    id: request.id,
    scope: request.scope,
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
  reply.raw.once('finish', () => free(bytes.buffer));
  return reply.send(bytes);
}

/** Before Node.js 22 the collector has to do it. */
function free(buffer: ArrayBuffer & { transfer?: (length: number) => ArrayBuffer }): void {
  buffer.transfer?.(0);
}
