import type { Socket } from 'node:net';
import type { FastifyReply } from 'fastify';
import { LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';
import { type AppError, unavailable } from '../errors.js';
import { currentAnswer } from './connections.js';

/** A smaller answer fits into the buffers of the operating system, unless it waits behind others on its connection. */
const SMALL_ANSWER = 65_536;
/** What a project may leave unread. */
const MAX_UNREAD_BYTES = 4 * LARGEST_ANSWER_BYTES;

export type UnreadBytes = ReturnType<typeof createUnreadBytes>;

/** Counts, by project, what waits in memory until its clients read it: answers, and pieces of what goes on (lifetime.ts). */
export function createUnreadBytes() {
  const unread = new Map<string, number>();

  /** Counts bytes until the returned function is called. */
  function add(project: string, bytes: number): () => void {
    unread.set(project, (unread.get(project) ?? 0) + bytes);
    return () => {
      const left = (unread.get(project) as number) - bytes;
      if (left > 0) unread.set(project, left);
      else unread.delete(project);
    };
  }

  return {
    add,
    isFull: (project: string) => (unread.get(project) ?? 0) > MAX_UNREAD_BYTES,
    /** Counts an answer until it is read. The characters of a text are taken for its bytes. */
    addAnswer(project: string, payload: unknown, { raw, request }: FastifyReply): void {
      if (typeof payload !== 'string' && !Buffer.isBuffer(payload)) return;
      if (request.socket.destroyed) return;
      if (payload.length < SMALL_ANSWER && currentAnswer(request.socket) === raw) return;
      const remove = add(project, payload.length);
      const forget = onConnectionEnd(request.socket, release);
      raw.once('close', release);

      function release(): void {
        raw.off('close', release);
        forget();
        remove();
      }
    },
  };
}

/** UNAVAILABLE for a project that leaves too much unread. */
export function notRead(): AppError {
  return unavailable('Earlier answers to this project have not been read. Read them before you send more requests.');
}

const callbacks = new WeakMap<Socket, Set<() => void>>();

/**
 * Calls back when a connection ends, at once if it has ended. Returns a function that forgets it. An answer that is queued behind others on
 * its connection emits no 'close' then: Node notifies only the answer that is being sent. Each connection gets one listener: hundreds of
 * answers may be queued on it.
 */
export function onConnectionEnd(socket: Socket, callback: () => void): () => void {
  if (socket.destroyed) {
    callback();
    return () => undefined;
  }
  const known = callbacks.get(socket);
  const ofSocket = known ?? new Set<() => void>();
  ofSocket.add(callback);
  if (known === undefined) {
    callbacks.set(socket, ofSocket);
    socket.once('close', () => {
      for (const each of [...ofSocket]) each();
    });
  }
  return () => ofSocket.delete(callback);
}
