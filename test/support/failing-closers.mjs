/** Loaded before the command: closing the HTTP server fails, and so does closing the pool of connections, after each is closed. */
import { subscribe } from 'node:diagnostics_channel';
import pg from 'pg';

subscribe('fastify.initialization', ({ fastify }) => {
  fastify.addHook('onClose', async () => {
    throw new Error('The HTTP server failed to close.');
  });
});

const { end } = pg.Pool.prototype;
pg.Pool.prototype.end = async function () {
  await end.call(this);
  throw new Error('The pool failed to close.');
};
