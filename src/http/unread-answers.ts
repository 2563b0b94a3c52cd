import type { Socket } from 'node:net';
import type { FastifyReply } from 'fastify';
import { LARGEST_ANSWER_BYTES } from '../domain/input-limits.js';

/** Smaller answers fit into the buffers of the operating system. */
const SMALL_ANSWER = 65_536;
/** Characters of answers that a project may leave unread. */
const MAX_UNREAD_CHARACTERS = 4 * LARGEST_ANSWER_BYTES;

/** Counts, by project, the answers that wait in memory until their clients read them. */
export function createUnreadAnswers() {
  const unread = new Map<string, number>();
  const onConnectionEnd = createConnectionEnds();
  return {
    isFull: (project: string) => (unread.get(project) ?? 0) > MAX_UNREAD_CHARACTERS,
    add(project: string, payload: unknown, { raw, request }: FastifyReply): void {
      if (typeof payload !== 'string' && !Buffer.isBuffer(payload)) return;
      if (payload.length < SMALL_ANSWER || request.socket.destroyed) return;
      const { length } = payload;
      unread.set(project, (unread.get(project) ?? 0) + length);
      const forget = onConnectionEnd(request.socket, release);
      raw.once('close', release);

      function release(): void {
        raw.off('close', release);
        forget();
        const left = (unread.get(project) ?? 0) - length;
        if (left > 0) unread.set(project, left);
        else unread.delete(project);
      }
    },
  };
}

/**
 * Calls back when a connection ends. An answer that is queued behind others on its connection emits no 'close' then:
 * Node notifies only the answer that is being sent. Each connection gets one listener: hundreds of answers may be
 * queued on it.
 */
function createConnectionEnds() {
  const callbacks = new WeakMap<Socket, Set<() => void>>();
  return (socket: Socket, callback: () => void): (() => void) => {
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
  };
}
