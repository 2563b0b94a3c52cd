import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { chmod, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { THE_OPERATOR } from '../domain/operators.js';
import { AppError, type ErrorCode, fromUnknown } from '../errors.js';
import type { Io, Operation, OperationContext, Operations, Progress } from './operation.js';

/**
 * Only one process can open the embedded database. While a server has it open, a command sends its operation to that server over a
 * Unix socket in the data directory, which only the same system user can connect to. The request is an HTTP POST. Its body is a Call as
 * JSON, whose length a header says. The response is a stream of frames, one JSON object per line.
 */
interface Call {
  readonly params: unknown;
  readonly operator: string;
}

type Frame =
  | { progress: Progress }
  | { notice: string }
  | { output: string }
  | { result: unknown }
  | { error: { code: ErrorCode; message: string } };

const SERVER_ENDED = 'The running server ended before the operation was done.';
const CLOSING = 'The running server closes.';
const OTHER_VERSION = 'The running server is of another version than the command. Restart it.';
/** It gets another name when older commands and servers would misunderstand the new ones. */
const CALL_BYTES_HEADER = 'userdir-call-2-bytes';
/** The path of a Unix socket has at most 108 bytes, 104 on some systems. */
const MAX_SOCKET_PATH_BYTES = 100;

/** The server that holds the data directory accepts no operations, because it is starting or closing. */
export class NotListeningError extends Error {
  constructor(options: ErrorOptions) {
    super('The server that holds the data directory does not accept commands now. Try again, or stop it.', options);
  }
}

export function controlSocketPath(dataDir: string): string {
  const path = join(dataDir, 'control.sock');
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES) return path;
  return join(mkdtempSync(join(tmpdir(), 'userdir-')), 'control.sock');
}

/** Removes the temporary directory of the socket, which it has if the path of the data directory is too long. */
export async function removeControlSocket(socketPath: string, dataDir: string): Promise<void> {
  if (dirname(socketPath) !== dataDir) await rm(dirname(socketPath), { recursive: true, force: true });
}

/**
 * Runs the operations that commands send to `socketPath`, until it is closed. The caller holds the data directory, so an existing
 * socket is left over from a server that was killed, and so is spooled input, of a version that gave it names.
 */
export async function serveControlSocket(
  socketPath: string,
  dataDir: string,
  operations: Operations,
  context: Omit<OperationContext, 'operator'>,
): Promise<{ close(): Promise<void> }> {
  await Promise.all([socketPath, join(dataDir, 'spool')].map((path) => rm(path, { recursive: true, force: true })));
  const running = new Set<Running>();
  const server = createServer({ requestTimeout: 0 }, (incoming, response) => {
    const started: Running = { disconnected: new AbortController(), isLive: false };
    running.add(started);
    // Before anything is awaited: the command may be gone by then.
    response.on('close', () => started.disconnected.abort(new Error('The command was interrupted.')));
    respond(operations, context, incoming, response, started)
      .catch(() => response.destroy())
      .finally(() => running.delete(started));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(socketPath, resolve);
  });
  await chmod(socketPath, 0o600);
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
        // They go on until they are interrupted.
        for (const { isLive, disconnected } of running)
          if (isLive) disconnected.abort(new AppError('UNAVAILABLE', CLOSING));
      }),
  };
}

/** An operation that a command has sent. */
interface Running {
  readonly disconnected: AbortController;
  isLive: boolean;
}

/** An operation holds no connection to the database while it writes: a slow terminal at the other end blocks nobody. */
async function respond(
  operations: Operations,
  context: Omit<OperationContext, 'operator'>,
  incoming: IncomingMessage,
  response: ServerResponse,
  running: Running,
): Promise<void> {
  const { signal } = running.disconnected;
  const sendFrame = (frame: Frame) => response.write(`${JSON.stringify(frame)}\n`);
  try {
    const name = decodeURIComponent((incoming.url ?? '/').slice(1));
    const operation = operations.get(name);
    if (operation === undefined) throw new Error(`The running server does not know the operation "${name}".`);
    running.isLive = operation.isLive === true;
    // Only one of this version has the header.
    if (incoming.headers[CALL_BYTES_HEADER] === undefined) throw new Error(OTHER_VERSION);
    const call: Call = JSON.parse(await text(incoming));
    // Only the same system user can connect, so the name is believed.
    const operator = { ...THE_OPERATOR, name: call.operator };
    const result = await operation.run({ ...context, operator }, call.params as never, {
      async write(output) {
        if (!sendFrame({ output })) await once(response, 'drain', { signal });
      },
      progress: (progress) => sendFrame({ progress }),
      notice: (notice) => sendFrame({ notice }),
      signal,
    });
    sendFrame({ result });
  } catch (error) {
    const { code, publicMessage, cause } = fromUnknown(error);
    // The operator may see the reason of an internal error; a client of the API may not.
    sendFrame({
      error: { code, message: code === 'INTERNAL_SERVER_ERROR' ? (cause as Error).message : publicMessage },
    });
  } finally {
    response.end();
  }
}

/** Runs an operation in the server behind `socketPath`; throws the error of the operation. */
export async function runRemotely<Params, Result>(
  socketPath: string,
  { name }: Operation<Params, Result>,
  params: Params,
  io: Io,
  operatorName = '',
): Promise<Result> {
  const incoming = await sendRequest(socketPath, name, { params: params ?? null, operator: operatorName }, io);
  if (incoming.statusCode !== 200)
    throw new Error(`The running server refused the operation: ${incoming.statusCode} ${incoming.statusMessage}.`);
  for await (const line of linesOf(incoming)) {
    const frame: Frame = JSON.parse(line);
    if ('progress' in frame) io.progress(frame.progress);
    else if ('notice' in frame) io.notice(frame.notice);
    else if ('output' in frame) await io.write(frame.output);
    else if ('error' in frame)
      throw new AppError(frame.error.code, frame.error.message, { cause: new Error(frame.error.message) });
    else return frame.result as Result;
  }
  throw new Error(SERVER_ENDED);
}

/** The lines of a response, one at a time: readline holds a thousand for a slow reader, and a line may have a page of a list. */
async function* linesOf(incoming: IncomingMessage): AsyncGenerator<string> {
  let parts: string[] = [];
  try {
    for await (const chunk of incoming.setEncoding('utf8')) {
      const [end, ...starts] = (chunk as string).split('\n');
      parts.push(end as string);
      for (const start of starts) {
        yield parts.join('');
        parts = [start];
      }
    }
  } catch (cause) {
    throw new Error(SERVER_ENDED, { cause });
  }
}

async function sendRequest(socketPath: string, name: string, call: Call, { signal }: Io): Promise<IncomingMessage> {
  const body = JSON.stringify(call);
  const outgoing = request({
    socketPath,
    method: 'POST',
    path: `/${encodeURIComponent(name)}`,
    agent: false,
    headers: { [CALL_BYTES_HEADER]: Buffer.byteLength(body) },
    signal,
  }).end(body);
  return new Promise((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.once('error', (cause: NodeJS.ErrnoException) => {
      const isAway = cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED';
      reject(isAway ? new NotListeningError({ cause }) : new Error(SERVER_ENDED, { cause }));
    });
  });
}
