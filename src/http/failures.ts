import { randomUUID } from 'node:crypto';
import { type IncomingMessage, maxHeaderSize, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { MAX_HEADERS } from '../domain/bounds.js';
import {
  AppError,
  badInput,
  type DocsOf,
  type ErrorCode,
  expected,
  fromUnknown,
  NO_SUCH_PATH,
  redact,
} from '../errors.js';
import { currentAnswer, endGently } from './connections.js';
import { JSON_TYPE } from './media-types.js';
import type { Hooks } from './pipeline.js';
import { logIds } from './request-log.js';

export function setCommonHeaders(request: FastifyRequest, reply: FastifyReply): void {
  reply.headers({ 'x-request-id': request.id, 'cache-control': 'no-store' });
}

/** Failures set the headers again, because Fastify refuses some requests before their hooks. */
export const commonHeaders: Hooks = {
  onRequest(request, reply, done) {
    setCommonHeaders(request, reply);
    done();
  },
};

/** Notes the code of a failure, and logs one that has a cause for the operator, which the answer does not contain. */
export function reportFailure(failure: AppError, request: FastifyRequest, message = 'A request failed.'): void {
  request.failure = failure.code;
  const { code, cause } = failure;
  if (code === 'INTERNAL_SERVER_ERROR') request.log.error({ ...logIds(request), err: cause }, message);
  // The failure itself: the log has no stacks of what is only away.
  else if (code === 'UNAVAILABLE' && cause !== undefined)
    request.log.warn({ ...logIds(request), err: failure }, message);
}

/** The headers of every failure outside GraphQL: what GraphQL has in `extensions.code` and `extensions.docs`. */
export function codeHeaders(code: ErrorCode, docsOf: DocsOf): Record<string, string> {
  return { 'userdir-error-code': code, ...helpHeader(docsOf(code)) };
}

/** Leads to the documentation of a failure. */
export function helpHeader(docs: string): { link: string } {
  return { link: `<${docs}>; rel="help"` };
}

/** Any thrown value as an AppError, with what the request says of its body where that is the fault. */
export function failureOf(error: unknown, { headers, routeOptions }: FaultyRequest): AppError {
  const failure = fromUnknown(error);
  if (failure.code === 'UNSUPPORTED_MEDIA_TYPE')
    return new AppError(
      failure.code,
      expected('content-type', headers['content-type']?.replace(/;.*/s, ''), JSON_TYPE),
    );
  // Fastify has stopped to read a body, and knows its length only if the client has said it.
  if ((failure.cause as { statusCode?: number } | undefined)?.statusCode !== 413) return failure;
  const got = headers['content-length'] === undefined ? 'more' : `${Number(headers['content-length'])} bytes`;
  return new AppError(failure.code, `body: got ${got}, expected at most ${routeOptions.bodyLimit} bytes.`, failure);
}

type FaultyRequest = Pick<FastifyRequest, 'headers' | 'routeOptions'>;

/** Answers `{"error"}` with the status of the error's code. REST uses this form, and so does everything that is not GraphQL. */
export function sendFailure(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const failure = failureOf(error, request);
  reportFailure(failure, request);
  setCommonHeaders(request, reply);
  reply
    .code(failure.status)
    .headers({ ...codeHeaders(failure.code, request.server.docsOf), ...failure.headers })
    .type('application/json; charset=utf-8');
  reply.serializer(JSON.stringify).send({ error: failure.publicMessage });
}

/** What a caller of a method may look for that a path does not have. */
export interface Instead {
  readonly methods: readonly string[];
  readonly path: RegExp;
  readonly sentence: string;
}

/** A handler for unknown routes: 405 with the methods of the path, or 404. It knows the routes that are registered on `app` after this call. */
export function refuseUnknownRoutes(
  app: FastifyInstance,
  instead: readonly Instead[] = [],
): (request: FastifyRequest) => never {
  const routes: { path: RegExp; method: string }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    const pattern = url.replaceAll('.', '\\.').replaceAll('*', '.*').replace(/:\w+/g, '[^/]+');
    routes.push(...[method].flat().map((name) => ({ path: new RegExp(`^${pattern}$`), method: name })));
  });
  return ({ method, raw }) => {
    const [path = ''] = (raw.url ?? '').split('?', 1);
    const methodsOf = (asked: string) => routes.filter((route) => route.path.test(asked)).map((route) => route.method);
    const allowed = methodsOf(path);
    // The route of the method has found nothing, such as a file of a page.
    if (allowed.length === 0 || allowed.includes(method)) {
      const isOneSlashTooLong = path.endsWith('/') && methodsOf(path.slice(0, -1)).length > 0;
      throw new AppError('PATH_NOT_FOUND', isOneSlashTooLong ? WITHOUT_SLASH : NO_SUCH_PATH);
    }
    const allow = [...new Set(allowed)].join(', ');
    const other = instead.find(({ methods, path: of }) => methods.includes(method) && of.test(path));
    const sentences = [`${method} is not allowed here; use ${allow}.`, ...(other ? [other.sentence] : [])];
    throw new AppError('METHOD_NOT_ALLOWED', sentences.join(' '), { headers: { allow } });
  };
}

const WITHOUT_SLASH = 'There is nothing at this path: send it without the slash at the end.';

/* Requests that HTTP or URL syntax forbids, and those that Node would answer itself, are answered like all others. */

/** Escapes a path whose percent-encoding is broken, so that its interface refuses it after authentication. The router would do so before. */
export function routableUrl({ url = '/' }: RawRequest): string {
  if (!url.includes('%')) return url;
  const [path = '', ...query] = url.split(/(?=\?)/);
  return isDecodable(path) ? url : [path.replaceAll('%', '%25'), ...query].join('');
}

type RawRequest = Pick<IncomingMessage, 'url'>;

/** Refuses a malformed URL, a malformed Host (RFC 9112, section 3.2), and a second content-type. A URL is percent-encoded UTF-8 without a fragment. BAD_USER_INPUT. */
export function refuseMalformedUrl({ originalUrl, raw }: FastifyRequest): void {
  const { host = '' } = raw.headers;
  if (host !== lastHost && (BEYOND_HOST.test(host) || !URL.canParse(`http://${host || 'localhost'}`))) {
    throw new AppError('BAD_USER_INPUT', 'The Host header is malformed.');
  }
  lastHost = host;
  if (raw.headers['content-type'] !== undefined && isRepeated('content-type', raw.rawHeaders)) {
    throw repeated('content-type');
  }
  // A client must not send a fragment (RFC 9112, section 3.2). Parsers disagree on where it ends the query.
  if (originalUrl.includes('#'))
    throw new AppError('BAD_USER_INPUT', 'The URL has a "#", which must be percent-encoded as %23.');
  if (!isDecodable(originalUrl)) throw new AppError('BAD_USER_INPUT', 'The URL is not percent-encoded UTF-8.');
}

/** The name of a query parameter without brackets: many clients write `types[]`, `types[0]` or `types[x]` for values of `types`. */
export const plainName = (name: string): string => name.split('[', 1)[0] as string;

/** Refuses a parameter of the route (null: any) with brackets: ignored, a filter would select everything. BAD_USER_INPUT. */
export function refuseBrackets(query: unknown, parameters: readonly string[] | null): void {
  for (const name in query as object) {
    const plain = plainName(name);
    if (plain === name || parameters?.includes(plain) === false) continue;
    const accepted = `the name ${plain} alone. Where a parameter takes several values, separate them by commas`;
    throw new AppError('BAD_USER_INPUT', `${plain}: got brackets after the name, expected ${accepted}.`);
  }
}

const NAMED = 10;
const NAME_LENGTH = 64;
/** No name is added to a header of this length: a proxy may refuse an answer with more than 4 KiB of headers. */
const HEADER_LENGTH = 1_000;

/** Names unknown query parameters in `Userdir-Ignored-Parameters`, and refuses brackets, before the check, which drops unknown ones. */
export function namesIgnoredParameters({ querystring }: { readonly querystring?: z.ZodObject }) {
  const names = Object.keys(querystring?.shape ?? {});
  return ({ query }: FastifyRequest, reply: FastifyReply): void => {
    const ignored = ignoredParameters(query as object, names);
    if (ignored !== '') reply.header('userdir-ignored-parameters', ignored);
    refuseBrackets(query, names);
  };
}

/** The value of the header: the first unknown query parameters, percent-encoded. */
function ignoredParameters(query: object, names: readonly string[]): string {
  let header = '';
  let named = 0;
  for (const name in query) {
    if (name === '' || names.includes(plainName(name))) continue;
    header += (named === 0 ? '' : ', ') + encodeName(name);
    named += 1;
    if (named === NAMED || header.length >= HEADER_LENGTH) break;
  }
  return header;
}

function encodeName(name: string): string {
  const start = redact(name).slice(0, NAME_LENGTH);
  // Half of a surrogate pair cannot be encoded.
  return encodeURIComponent(start.replace(/[\ud800-\udbff]$/, ''));
}

/** Characters that end the host in a URL, or that put a user name before it. */
const BEYOND_HOST = /[/?#@\\]/;
/** The Host of the last request, which was well-formed. To parse it again takes 0.9 µs, a hundredth of a short request (2026-11-26). */
let lastHost = '';

/** True if a part of a URL is percent-encoded UTF-8. */
function isDecodable(text: string): boolean {
  if (!text.includes('%')) return true;
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Answers what Node would otherwise answer by itself without a body, or not at all. */
export function answerUnusualRequests(app: FastifyInstance): Hooks {
  // An unknown expectation may be ignored (RFC 9110, section 10.1.1).
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  app.server.on('connect', (_request, socket: Socket) => {
    // Node has detached this socket: without a listener an error on it would end the process.
    socket.on('error', () => socket.destroy()).resume();
    refuseMalformedHttp({ code: 'CONNECT' }, socket, app.docsOf);
  });
  app.server.on('upgrade', (request, socket: Socket, head: Buffer) => ignoreUpgrade(app, request, socket, head));
  return { onRequest: ({ raw }, _reply, done) => done(findHeaderFault(raw)) };
}

/** Ignores an offer to change the protocol (RFC 9110, section 7.8): the server gets connection and request again. Node would lose bytes. */
function ignoreUpgrade(app: FastifyInstance, request: IncomingMessage, socket: Socket, head: Buffer): void {
  const destroy = () => socket.destroy();
  socket.on('error', destroy);
  const { method, url, httpVersion, rawHeaders } = request;
  // Node drops headers beyond its limit. One of them may tell how long the body is.
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    refuseMalformedHttp({ code: 'HPE_HEADER_OVERFLOW' }, socket.resume(), app.docsOf);
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

/** Finds header faults that HTTP forbids and Node accepts, and too many headers. */
function findHeaderFault({ headers, httpVersion, rawHeaders }: FastifyRequest['raw']): AppError | undefined {
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    const arrived = rawHeaders.length / 2;
    return new AppError('HEADERS_TOO_LARGE', `headers: got ${arrived}, expected at most ${MAX_HEADERS}.`);
  }
  // Another version may end the body elsewhere, so nothing after this request is read.
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
  // With a second coding, a proxy may read a body of another length (RFC 9112, section 6.1).
  const coding = headers['transfer-encoding'];
  if (coding === undefined || coding.toLowerCase() === 'chunked') return undefined;
  return badInput('transfer-encoding', coding, 'chunked');
}

/** True if a request has a header more than once. Node takes the first; a proxy in front may take the last. */
function isRepeated(name: string, rawHeaders: readonly string[]): boolean {
  let times = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const other = rawHeaders[at] as string;
    if (other.length === name.length && other.toLowerCase() === name) times += 1;
  }
  return times > 1;
}

function repeated(name: string): AppError {
  return new AppError('BAD_USER_INPUT', `The header ${name} was sent more than once.`);
}

/** Meanings of the codes of Node's parser. */
const MALFORMED_HTTP: Record<string, AppError> = {
  CONNECT: new AppError('BAD_USER_INPUT', 'This is not a proxy: CONNECT is not supported.'),
  HPE_HEADER_OVERFLOW: new AppError(
    'HEADERS_TOO_LARGE',
    `headers: got more, expected at most ${maxHeaderSize} bytes together with the request line, and at most ${MAX_HEADERS} headers.`,
  ),
  ERR_HTTP_REQUEST_TIMEOUT: new AppError('REQUEST_TIMEOUT', 'The request did not arrive in time.'),
};
const NOT_HTTP = new AppError('BAD_USER_INPUT', 'The request is not valid HTTP.');

/** Connections that have been refused. All that arrives on them later is malformed too. */
const refused = new WeakSet<Socket>();

/** Answers bytes that Node's parser refuses, which never become a request, after the answers to the requests that came before. */
export function refuseMalformedHttp(error: { readonly code?: string }, socket: Socket, docsOf: DocsOf): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && uploading.has(socket)) return;
  if (error.code === 'ECONNRESET' || socket.destroyed) {
    socket.destroy();
    return;
  }
  if (refused.has(socket)) return;
  refused.add(socket);
  whenAnswered(socket, () => writeRefusal(error, socket, docsOf));
}

const uploading = new WeakSet<Socket>();

/** Lets the body of this request arrive as slowly as it does, as long as it does. Returns a function that ends that. */
export function allowLongUpload({ raw: { socket } }: FastifyRequest): () => void {
  uploading.add(socket);
  return () => void uploading.delete(socket);
}

/** Calls back when every complete request of a connection is answered. */
function whenAnswered(socket: Socket, then: () => void): void {
  const answer = currentAnswer(socket);
  if (answer?.req.complete) answer.once('close', () => whenAnswered(socket, then));
  // The malformed request itself is answered already.
  else if (answer?.headersSent) endGently(socket);
  else then();
}

function writeRefusal(error: { readonly code?: string }, socket: Socket, docsOf: DocsOf): void {
  // The answer to a request with `Connection: close` has ended the connection.
  if (!socket.writable) return;
  const { status, code, message } = MALFORMED_HTTP[error.code ?? ''] ?? NOT_HTTP;
  const body = JSON.stringify({ error: message });
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Type: application/json; charset=utf-8\r\nCache-Control: no-store\r\n` +
      `X-Request-Id: ${randomUUID()}\r\nUserdir-Error-Code: ${code}\r\nLink: ${helpHeader(docsOf(code)).link}\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
  endGently(socket);
}
