import { brotliCompress, type CompressCallback, constants, gzip } from 'node:zlib';
import { negotiate } from '@fastify/accept-negotiator';
import type { FastifyRequest, onSendHookHandler } from 'fastify';
import { isOnThisMachine } from './client-address.js';
import type { Hooks } from './pipeline.js';

/** A smaller answer fits into one packet. */
const SMALLEST_BYTES = 1_025;

/** The lowest levels: higher ones take up to twice the time and save a few percent (docs/decisions/compression.md). */
const ENCODERS: Record<string, (text: string | Buffer, done: CompressCallback) => void> = {
  br: (text, done) => brotliCompress(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }, done),
  gzip: (text, done) => gzip(text, { level: 1 }, done),
};
/** Of several that a client likes equally, the first one. */
const ENCODINGS = [...Object.keys(ENCODERS), 'identity'];

/**
 * Compresses answers for clients that ask for it, in the thread pool. Pages, which may show credentials, and streams are not compressed.
 * An answer stays one piece with a Content-Length, no stream as of @fastify/compress, whose reader could take any time (connections.ts).
 */
export function compressAnswers(compression: 'remote' | 'on' | 'off'): Hooks {
  if (compression === 'off') return {};
  const compress: onSendHookHandler = (request, reply, payload, done) => {
    if (!mayCompress(request, payload) || (compression === 'remote' && isOnThisMachine(request))) return done();
    const vary = reply.getHeader('vary');
    reply.header('vary', vary === undefined ? 'accept-encoding' : `${String(vary)}, accept-encoding`);
    const encoding = negotiate(request.headers['accept-encoding'] ?? 'identity', ENCODINGS) ?? 'identity';
    const encode = ENCODERS[encoding];
    if (encode === undefined) return done();
    encode(payload as string | Buffer, (error, bytes) => {
      // The client takes it as it is, too.
      if (error !== null) return done();
      reply.header('content-encoding', encoding);
      done(null, bytes);
    });
  };
  return {
    // A hook of each route: the hooks of the interfaces come before it and change the text, that of HEAD comes after it and takes the length.
    onRoute(route) {
      route.onSend = [compress, ...([route.onSend ?? []].flat() as onSendHookHandler[])];
    },
  };
}

/** True for the text of an answer behind credentials that is worth it. */
function mayCompress({ scope }: FastifyRequest, payload: unknown): boolean {
  if (!scope || (typeof payload !== 'string' && !Buffer.isBuffer(payload))) return false;
  // A text has at least as many bytes as characters, and to count the bytes of a long one takes long.
  return payload.length >= SMALLEST_BYTES || Buffer.byteLength(payload) >= SMALLEST_BYTES;
}
