import { createReadStream, createWriteStream, mkdtempSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, open, rm, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { THE_OPERATOR } from '../domain/operators.js';
import { AppError, type ErrorCode, fromUnknown } from '../errors.js';
import type { Io, Operation, OperationContext, Operations, Progress } from './operation.js';

/**
 * Only one process can open the embedded database. While a server has it open, a command sends its operation to that server over a
 * Unix socket in the data directory, which only the same system user can connect to. The request is an HTTP POST. Its body is a Call as
 * JSON, whose length a header says, and then the input of the operation. The response is a stream of frames, one JSON object per line.
 */
interface Call {
  readonly params: unknown;
  readonly operator: string;
}

type Frame =
  | { progress: Progress }
  | { output: string }
  | { result: unknown }
  | { error: { code: ErrorCode; message: string } };

const SERVER_ENDED = 'The running server ended before the operation was done.';
const OTHER_VERSION = 'The running server is of another version than the command. Restart it.';
const CALL_BYTES_HEADER = 'userdir-call-bytes';
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
 * socket and spooled input are left over from a server that was killed.
 */
export async function serveControlSocket(
  socketPath: string,
  dataDir: string,
  operations: Operations,
  context: Omit<OperationContext, 'operator'>,
): Promise<{ close(): Promise<void> }> {
  const spoolDir = join(dataDir, 'spool');
  await Promise.all([socketPath, spoolDir].map((path) => rm(path, { recursive: true, force: true })));
  await mkdir(spoolDir, { mode: 0o700 });
  const server = createServer({ requestTimeout: 0 }, (incoming, response) => {
    respond(operations, context, spoolDir, incoming, response).catch(() => response.destroy());
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
      }),
  };
}

/**
 * Reads all input before the operation starts and sends the output after it ends. An operation occupies the only connection to the
 * embedded database, so a slow terminal at the other end must not block other requests. A live operation holds no connection while it
 * writes.
 */
async function respond(
  operations: Operations,
  context: Omit<OperationContext, 'operator'>,
  spoolDir: string,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const spool = await mkdtemp(join(spoolDir, 'operation-'));
  const disconnected = new AbortController();
  response.on('close', () => disconnected.abort(new Error('The command was interrupted.')));
  const sendFrame = (frame: Frame) => response.write(`${JSON.stringify(frame)}\n`);
  const sendOutput = async (output: string) => {
    if (!sendFrame({ output })) await once(response, 'drain', { signal: disconnected.signal });
  };
  try {
    const name = decodeURIComponent((incoming.url ?? '/').slice(1));
    const operation = operations.get(name);
    if (operation === undefined)
      throw new AppError('BAD_USER_INPUT', `The running server does not know the operation "${name}".`);
    const callBytes = Number(incoming.headers[CALL_BYTES_HEADER]);
    if (!(callBytes > 0)) throw new AppError('BAD_USER_INPUT', OTHER_VERSION);
    const body = join(spool, 'body');
    await pipeline(incoming, createWriteStream(body, { mode: 0o600 }));
    const call: Call = JSON.parse(await text(createReadStream(body, { end: callBytes - 1 })));
    const output = await open(join(spool, 'output'), 'w', 0o600);
    const io: Io = {
      input: createReadStream(body, { start: callBytes }),
      inputBytes: (await stat(body)).size - callBytes,
      write: operation.isLive ? sendOutput : async (chunk) => void (await output.write(chunk)),
      progress: (progress) => sendFrame({ progress }),
      signal: disconnected.signal,
    };
    // Only the same system user can connect, so the name is believed.
    const operator = { ...THE_OPERATOR, name: call.operator };
    const result = await operation
      .run({ ...context, operator }, call.params as never, io)
      .finally(() => output.close());
    await pipeline(
      createReadStream(join(spool, 'output'), 'utf8'),
      async function* (chunks: AsyncIterable<string>) {
        for await (const chunk of chunks) yield `${JSON.stringify({ output: chunk } satisfies Frame)}\n`;
      },
      response,
      { end: false },
    );
    sendFrame({ result });
  } catch (error) {
    const { code, publicMessage, cause } = fromUnknown(error);
    // The operator may see the reason of an internal error; a client of the API may not.
    sendFrame({
      error: { code, message: code === 'INTERNAL_SERVER_ERROR' ? (cause as Error).message : publicMessage },
    });
  } finally {
    response.end();
    await rm(spool, { recursive: true, force: true });
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
  for await (const line of createInterface({ input: incoming })) {
    const frame: Frame = JSON.parse(line);
    if ('progress' in frame) io.progress(frame.progress);
    else if ('output' in frame) await io.write(frame.output);
    else if ('error' in frame)
      throw new AppError(frame.error.code, frame.error.message, { cause: new Error(frame.error.message) });
    else return frame.result as Result;
  }
  throw new Error(SERVER_ENDED);
}

async function sendRequest(
  socketPath: string,
  name: string,
  call: Call,
  { input, signal }: Io,
): Promise<IncomingMessage> {
  const head = Buffer.from(JSON.stringify(call));
  const outgoing = request({
    socketPath,
    method: 'POST',
    path: `/${encodeURIComponent(name)}`,
    // A connection of its own: that it is made is what the input waits for.
    agent: false,
    headers: { [CALL_BYTES_HEADER]: head.length },
    signal,
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.once('error', reject);
  });
  outgoing.flushHeaders();
  // Input is read only after the connection is made, so that the caller can try again.
  await Promise.race([
    new Promise((resolve) => outgoing.once('socket', (socket) => socket.once('connect', resolve))),
    answered,
  ]).catch((cause: NodeJS.ErrnoException) => {
    throw cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED' ? new NotListeningError({ cause }) : cause;
  });
  // A response may come before all input is sent. It says more than the broken pipe.
  pipeline(prepend(head, input), outgoing).catch(() => undefined);
  return answered.catch((cause) => {
    throw new Error(SERVER_ENDED, { cause });
  });
}

async function* prepend(head: Buffer, rest: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield head;
  yield* rest;
}
