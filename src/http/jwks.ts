import type { FastifyInstance } from 'fastify';
import type { Receipts } from '../services/receipts.js';

/** For how long a verifier may keep the keys. A new key must be published for longer before it signs. */
const MAX_AGE_SECONDS = 300;

/** Publishes the keys of receipts at /.well-known/jwks.json, if there are any. */
export function servePublicKeys(app: FastifyInstance, receipts: Receipts): void {
  if (!receipts.isOn) return;
  // So that no request waits for it.
  app.addHook('onReady', async () => void (await receipts.publicKeys()));
  app.get('/.well-known/jwks.json', { schema: { hide: true } }, async (_request, reply) => {
    reply.header('cache-control', `public, max-age=${MAX_AGE_SECONDS}`);
    return receipts.publicKeys();
  });
}
