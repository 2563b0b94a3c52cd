import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** What Node keeps in private properties of a connection. */
interface PrivateState {
  readonly _httpMessage?: ServerResponse | null;
  readonly parser?: { readonly incoming: IncomingMessage | null } | null;
}

/** The answer that is being sent on a connection. */
export function currentAnswer(socket: Socket): ServerResponse | null {
  return (socket as PrivateState)._httpMessage ?? null;
}

/** Whether another request has arrived on its connection behind a request. */
export function hasNewerRequest(request: IncomingMessage): boolean {
  const newest = (request.socket as PrivateState).parser?.incoming ?? request;
  return newest !== request;
}

/** How long a client may take to close its side of a connection that has ended. */
const LINGER_MS = 1_000;

/**
 * Ends a connection, and reads what still arrives until the client ends it too. If it were closed with something unread, the operating
 * system would reset it, and the client might lose the last answer.
 */
export function endGently(socket: Socket): void {
  socket.end();
  const force = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(force));
}
