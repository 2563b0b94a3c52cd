import type { Socket } from 'node:net';
import type { FastifyInstance } from 'fastify';

/** A connection on which nothing has arrived ends so long after the server has begun to close. */
const SILENT_MS = 1_000;

/**
 * Lets the server close in order: each connection ends with its next answer. Node ends those between two requests, and waits for those that
 * have not sent any; clients open some of them in advance. Returns whether the server drains or closes.
 */
export function closeInOrder(app: FastifyInstance): () => boolean {
  const connections = new Set<Socket>();
  let isClosing = false;
  app.server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  app.decorate('drain', () => {
    isClosing = true;
  });
  app.addHook('preClose', async () => {
    app.drain();
    setTimeout(() => {
      for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
    }, SILENT_MS).unref();
  });
  app.addHook('onSend', (_request, reply, _payload, done) => {
    if (isClosing) reply.header('connection', 'close');
    done();
  });
  return () => isClosing;
}
