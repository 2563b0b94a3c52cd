import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError, fromUnknown } from './errors.js';

/** What every request meets, whichever interface it is for: its headers, its body, its failure, its line in the log. */

export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store' });
}

/** REST's form of an error, and that of everything which is not GraphQL: `{"error"}` with the status of its code. */
export function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = fromUnknown(error);
  if (failure.code === 'INTERNAL_SERVER_ERROR') request.log.error({ err: failure.cause }, 'A request failed.');
  setCommonHeaders(request, reply);
  reply.code(failure.status).headers(failure.headers).type('application/json; charset=utf-8');
  reply.serializer(JSON.stringify).send({ error: failure.publicMessage });
}

/**
 * A path whose percent-encoding is broken is routed as it was written, so that its interface refuses it, after
 * authentication as everything else; the router itself would refuse it before.
 */
export function routableUrl(url: string): string {
  if (!url.includes('%')) return url;
  const [path = '', ...query] = url.split(/(?=\?)/);
  return isDecodable(path) ? url : [path.replaceAll('%', '%25'), ...query].join('');
}

/**
 * Percent-encoding that is no UTF-8 would otherwise arrive as it was written and be searched for; a Host that cannot stand
 * in a URL is to be refused (RFC 9112, section 3.2).
 */
export function refuseMalformedUrl({ originalUrl, raw }: FastifyRequest): void {
  if (!URL.canParse(`http://${raw.headers.host || 'localhost'}`)) {
    throw new AppError('BAD_USER_INPUT', 'The Host header is malformed.');
  }
  if (!isDecodable(originalUrl)) throw new AppError('BAD_USER_INPUT', 'The URL is not percent-encoded UTF-8.');
}

/** Whether a part of a URL is percent-encoded UTF-8. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** For the routes that are registered on `app` from here on: 405 with the methods that a path has, 404 where it has none. */
export function refuseUnknownRoutes(app: FastifyInstance): (request: FastifyRequest) => never {
  const routes: { path: RegExp; method: string }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = url.replaceAll('.', '\\.').replaceAll('*', '.*').replace(/:\w+/g, '[^/]+');
    routes.push(...[method].flat().map((each) => ({ path: new RegExp(`^${pattern}$`), method: each })));
  });
  return ({ method, raw }) => {
    const path = (raw.url ?? '').replace(/\?.*$/s, '');
    const allowed = routes.filter((route) => route.path.test(path)).map((route) => route.method);
    if (allowed.length === 0) throw new AppError('NOT_FOUND', 'There is nothing at this path.');
    const allow = [...new Set(allowed)].join(', ');
    throw new AppError('METHOD_NOT_ALLOWED', `${method} is not possible here, only ${allow}.`, { headers: { allow } });
  };
}

/** One line a request; never a URL, a body or a header, which carry personal data and credentials. */
export function logRequest(request: FastifyRequest, reply: FastifyReply): void {
  request.log.info({
    method: request.method,
    route: request.routeOptions.url ?? 'none',
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 10) / 10,
    project: request.scope?.projectId,
  });
}

/** Bytes that are no UTF-8 are refused rather than replaced; an empty body is none. */
export function jsonBodyParser(app: FastifyInstance) {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  // Fastify's own, which refuses keys that would reach into a prototype.
  const parseJson = app.getDefaultJsonParser('error', 'error') as (
    request: FastifyRequest,
    text: string,
    done: (error: Error | null, parsed?: unknown) => void,
  ) => void;
  const decode = (body: Buffer) => {
    try {
      return utf8.decode(body);
    } catch (cause) {
      throw new AppError('BAD_USER_INPUT', 'The body is not valid UTF-8.', { cause });
    }
  };
  return async (request: FastifyRequest, body: Buffer): Promise<unknown> => {
    if (body.length === 0) return undefined;
    const text = decode(body);
    return new Promise((resolve, reject) => {
      parseJson(request, text, (cause, parsed) => {
        if (cause === null) resolve(parsed);
        else reject(new AppError('BAD_USER_INPUT', 'The body is not valid JSON.', { cause }));
      });
    });
  };
}

/** What Node would answer by itself, without a body or not at all, is answered as everything else. */
export function answerEverything(app: FastifyInstance): void {
  // An expectation that nobody knows may be ignored (RFC 9110, section 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  app.server.on('connect', (_request, socket: Socket) => {
    // Node has let go of this socket: nobody else reads it or hears its errors.
    socket.on('error', () => socket.destroy()).resume();
    refuseMalformedHttp({ code: 'CONNECT' }, socket);
  });
  app.addHook('onRequest', async ({ raw }) => {
    if (raw.headers.host === undefined && raw.httpVersion === '1.1') {
      throw new AppError('BAD_USER_INPUT', 'The header host is missing.');
    }
  });
}

const MALFORMED_HTTP: Record<string, { status: string; error: string }> = {
  CONNECT: { status: '400 Bad Request', error: 'This is not a proxy: CONNECT is not possible.' },
  HPE_HEADER_OVERFLOW: { status: '431 Request Header Fields Too Large', error: 'The request headers are too large.' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', error: 'The request did not arrive in time.' },
};

const LINGER_MS = 2_000;

/** What Node's parser refuses never becomes a request; its answer is written to the socket. */
export function refuseMalformedHttp(error: { readonly code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, error: message } = MALFORMED_HTTP[error.code ?? ''] ?? {
    status: '400 Bad Request',
    error: 'The request is not valid HTTP.',
  };
  const body = JSON.stringify({ error: message });
  // A caller who never closes its side would keep the socket, and the server from closing.
  socket.setTimeout(LINGER_MS, () => socket.destroy());
  socket.end(
    `HTTP/1.1 ${status}\r\nContent-Type: application/json; charset=utf-8\r\nCache-Control: no-store\r\n` +
      `X-Request-Id: ${randomUUID()}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}
