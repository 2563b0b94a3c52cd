import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError, badInput, fromUnknown } from '../errors.js';
import type { Logger } from '../telemetry/logger.js';
import type { Credentials } from '../services/projects.js';

/** What every request meets, whichever interface it is for: its headers, its body, its failure, its line in the log. */

export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store' });
}

declare module 'fastify' {
  interface FastifyRequest {
    /** What a GraphQL request has asked to be executed, as soon as that is known. */
    operation?: LoggedOperation | null;
  }
}

export interface LoggedOperation {
  readonly type: string;
  /** Null where it has none, or none that a log could repeat. */
  readonly name: string | null;
  readonly cost: number;
}

/**
 * The Content-Security-Policy of a page: it takes what it names and asks nobody but this service, so that no credentials that are
 * typed into it go elsewhere, and no other page shows it as its own.
 */
export function pagePolicy(sources: Record<string, string>): string {
  const more = Object.entries(sources).map(([kind, source]) => `${kind}-src ${source}; `);
  return `default-src 'none'; connect-src 'self'; img-src 'self' data:; ${more.join('')}base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

/** Those of the demo project, where the page that this request asks for may show them. */
export type DemoCredentials = (request: FastifyRequest) => Credentials | null;

/** What an operator should know of a failure; its caller is told nothing. */
export function reportFailure(failure: AppError, request: FastifyRequest, message = 'A request failed.'): void {
  if (failure.code !== 'INTERNAL_SERVER_ERROR') return;
  request.log.error({ ...idsOf(request), err: failure.cause }, message);
}

/** By what the lines of a request are found in the log. */
export function idsOf({ id, observation }: FastifyRequest) {
  return { reqId: id, trace: observation?.span?.traceId };
}

/** REST's form of an error, and that of everything which is not GraphQL: `{"error"}` with the status of its code. */
export function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = fromUnknown(error);
  reportFailure(failure, request);
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
 * in a URL is to be refused (RFC 9112, section 3.2), and so is a body of two types.
 */
export function refuseMalformedUrl({ originalUrl, raw }: FastifyRequest): void {
  const { host = '' } = raw.headers;
  if (host !== lastHost && (BEYOND_HOST.test(host) || !URL.canParse(`http://${host || 'localhost'}`))) {
    throw new AppError('BAD_USER_INPUT', 'The Host header is malformed.');
  }
  lastHost = host;
  if (raw.headers['content-type'] !== undefined && isRepeated('content-type', raw.rawHeaders)) {
    throw repeated('content-type');
  }
  // A fragment is the client's own (RFC 9112, section 3.2); parsers disagree on where it ends a query.
  if (originalUrl.includes('#'))
    throw new AppError('BAD_USER_INPUT', 'The URL has a "#", which is to be percent-encoded.');
  if (!isDecodable(originalUrl)) throw new AppError('BAD_USER_INPUT', 'The URL is not percent-encoded UTF-8.');
}

/** What would begin another part of the URL, or end the name of somebody before the host. */
const BEYOND_HOST = /[/?#@\\]/;
/** The Host of the request before, which was well-formed and is the same nearly always. */
let lastHost = '';

/** Whether a part of a URL is percent-encoded UTF-8. */
function isDecodable(text: string): boolean {
  if (!text.includes('%')) return true;
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
export function logRequests(app: FastifyInstance, log: Logger): void {
  if (!log.isLevelEnabled('info')) return;
  // Nothing that a line has could be a secret, and to look for one takes longer than everything else about it.
  const lines = log.child({}, { redact: [] });
  app.addHook('onResponse', (request, reply, done) => {
    lines.info({
      reqId: request.id,
      trace: request.observation?.span?.traceId,
      method: request.method,
      route: request.routeOptions.url ?? 'none',
      operation: request.operation?.name ?? undefined,
      status: reply.statusCode,
      ms: Math.round(reply.elapsedTime * 10) / 10,
      project: request.scope?.loggedId,
    });
    done();
  });
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
  app.server.on('upgrade', (request, socket: Socket, head: Buffer) => ignoreUpgrade(app, request, socket, head));
  app.addHook('onRequest', ({ raw }, _reply, done) => done(faultOfHeaders(raw)));
}

/**
 * An offer to speak another protocol may be ignored (RFC 9110, section 7.8), and what follows is HTTP. Node would answer the
 * request and lose what came with it in one piece; so it is handed its connection anew, with the request as if it offered nothing.
 */
function ignoreUpgrade(app: FastifyInstance, request: IncomingMessage, socket: Socket, head: Buffer): void {
  const destroy = () => socket.destroy();
  socket.on('error', destroy);
  const { method, url, httpVersion, rawHeaders } = request;
  // Of more headers than it counts Node has left some out, which may say how long the body is.
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    refuseMalformedHttp({ code: 'HPE_HEADER_OVERFLOW' }, socket.resume());
    return;
  }
  const lines = [`${method} ${url} HTTP/${httpVersion}`];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== 'upgrade') lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  }
  whenAnswered(socket, () => {
    if (socket.destroyed) return;
    socket.off('error', destroy);
    socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), head]));
    app.server.emit('connection', socket);
  });
}

/** More than any client and the proxies before it send. Node would leave out those beyond a thousand without a word. */
const MAX_HEADERS = 100;

/** What HTTP forbids and Node lets pass, or what is more than a request needs. */
function faultOfHeaders({ headers, httpVersion, rawHeaders }: FastifyRequest['raw']): AppError | undefined {
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    const arrived = rawHeaders.length / 2;
    return new AppError('HEADERS_TOO_LARGE', `headers: got ${arrived}, expected at most ${MAX_HEADERS}.`);
  }
  // Where its body would end is for that version to say, so nothing behind it is read.
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return new AppError('BAD_USER_INPUT', `The request is in HTTP/${httpVersion}, expected HTTP/1.1 or HTTP/1.0.`, {
      headers: { connection: 'close' },
    });
  }
  if (headers.host === undefined && httpVersion === '1.1') {
    return new AppError('BAD_USER_INPUT', 'The header host is missing.');
  }
  for (const name of ['host', 'authorization'] as const) {
    if (isRepeated(name, rawHeaders)) return repeated(name);
  }
  // Another coding before it may mean another length to a proxy (RFC 9112, section 6.1).
  const coding = headers['transfer-encoding'];
  if (coding === undefined || coding.toLowerCase() === 'chunked') return undefined;
  return badInput('transfer-encoding', coding, 'chunked');
}

/** Node takes the first of such headers; a proxy in front may take the last. */
function isRepeated(name: string, rawHeaders: readonly string[]): boolean {
  let times = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const other = rawHeaders[at] as string;
    if (other.length === name.length && other.toLowerCase() === name) times += 1;
  }
  return times > 1;
}

function repeated(name: string): AppError {
  return new AppError('BAD_USER_INPUT', `The header ${name} is there more than once.`);
}

const MALFORMED_HTTP: Record<string, { status: string; error: string }> = {
  CONNECT: { status: '400 Bad Request', error: 'This is not a proxy: CONNECT is not possible.' },
  HPE_HEADER_OVERFLOW: { status: '431 Request Header Fields Too Large', error: 'The request headers are too large.' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', error: 'The request did not arrive in time.' },
};

const LINGER_MS = 2_000;

/** The connections that were told; whatever else comes over them is malformed too. */
const refused = new WeakSet<Socket>();

/**
 * What Node's parser refuses never becomes a request; its answer is written to the socket, after those of the requests
 * that came before it.
 */
export function refuseMalformedHttp(error: { readonly code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) {
    socket.destroy();
    return;
  }
  if (refused.has(socket)) return;
  refused.add(socket);
  whenAnswered(socket, () => writeRefusal(error, socket));
}

/** The answer whose turn it is on a connection. Node has no public name for it; its own handler of errors looks at it as well. */
export function answerOf(socket: Socket): ServerResponse | null {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? null;
}

/** Calls back as soon as every whole request of a connection has its answer. */
function whenAnswered(socket: Socket, then: () => void): void {
  const answer = answerOf(socket);
  if (answer?.req.complete) answer.once('close', () => whenAnswered(socket, then));
  // The malformed request itself has its answer already.
  else if (answer?.headersSent) socket.end();
  else then();
}

function writeRefusal(error: { readonly code?: string }, socket: Socket): void {
  // After the answer to a request with `Connection: close`, which ends the connection, nothing more is said.
  if (!socket.writable) return;
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
