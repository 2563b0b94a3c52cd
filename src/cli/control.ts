import { createReadStream, createWriteStream, mkdtempSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, open, rm, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { AppError, type ErrorCode, fromUnknown } from '../errors.js';
import {
  type Directory,
  type Io,
  type OperationName,
  operations,
  type Params,
  type Progress,
  type Result,
  runOperation,
} from './operations.js';

/**
 * The embedded database admits one process. While a server has it, the command hands its operation to that server over
 * a Unix socket in the data directory, which only the same system user can open: an HTTP POST whose body is the
 * operation's input, answered by frames, one JSON object a line.
 */
type Frame =
  | { progress: Progress }
  | { output: string }
  | { result: unknown }
  | { error: { code: ErrorCode; message: string } };

const CUT_OFF = 'The running server ended before it was done.';
const PARAMS_HEADER = 'userdir-params';
/** The address of a Unix socket has 108 bytes at most, 104 on some systems. */
const MAX_SOCKET_PATH_BYTES = 100;

/** The server that holds the data directory takes no commands, because it is starting or closing. */
export class NotListeningError extends Error {
  constructor(options: ErrorOptions) {
    super('The server that holds the data directory does not take commands; try again, or stop it.', options);
  }
}

export function controlSocketPath(dataDir: string): string {
  const path = join(dataDir, 'control.sock');
  if (Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES) return path;
  return join(mkdtempSync(join(tmpdir(), 'userdir-')), 'control.sock');
}

/** Removes the directory that the socket was given because the data directory's own path is too long. */
export async function removeControlSocket(socketPath: string, dataDir: string): Promise<void> {
  if (dirname(socketPath) !== dataDir) await rm(dirname(socketPath), { recursive: true, force: true });
}

/**
 * Serves operations on `socketPath` until it is closed. The caller holds the data directory, so an older socket is a dead
 * one, and users in an older spool are those of a server that was killed.
 */
export async function serveControl(
  socketPath: string,
  dataDir: string,
  directory: Directory,
): Promise<{ close(): Promise<void> }> {
  const spoolDir = join(dataDir, 'spool');
  await Promise.all([socketPath, spoolDir].map((path) => rm(path, { recursive: true, force: true })));
  await mkdir(spoolDir, { mode: 0o700 });
  const server = createServer({ requestTimeout: 0 }, (incoming, response) => {
    answer(directory, spoolDir, incoming, response).catch(() => response.destroy());
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
 * Input is taken in whole before the operation starts, and output is sent when it is done: an operation occupies the one
 * session of the embedded database, and a slow terminal at the other end must not keep everybody else from it.
 */
async function answer(
  directory: Directory,
  spoolDir: string,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const spool = await mkdtemp(join(spoolDir, 'operation-'));
  const gone = new AbortController();
  response.on('close', () => gone.abort(new Error('The command was interrupted.')));
  const send = (frame: Frame) => response.write(`${JSON.stringify(frame)}\n`);
  try {
    const name = decodeURIComponent((incoming.url ?? '/').slice(1));
    if (!Object.hasOwn(operations, name))
      throw new AppError('BAD_USER_INPUT', `The running server knows no operation ${name}.`);
    const params = JSON.parse(Buffer.from(String(incoming.headers[PARAMS_HEADER]), 'base64url').toString());
    await pipeline(incoming, createWriteStream(join(spool, 'input'), { mode: 0o600 }));
    const output = await open(join(spool, 'output'), 'w', 0o600);
    const result = await runOperation(directory, name as OperationName, params, {
      input: createReadStream(join(spool, 'input')),
      inputBytes: (await stat(join(spool, 'input'))).size,
      write: async (chunk) => void (await output.write(chunk)),
      progress: (progress) => send({ progress }),
      signal: gone.signal,
    }).finally(() => output.close());
    await pipeline(
      createReadStream(join(spool, 'output'), 'utf8'),
      async function* (chunks: AsyncIterable<string>) {
        for await (const chunk of chunks) yield `${JSON.stringify({ output: chunk } satisfies Frame)}\n`;
      },
      response,
      { end: false },
    );
    send({ result });
  } catch (error) {
    const { code, publicMessage, cause } = fromUnknown(error);
    // The operator may read what a caller may not.
    send({ error: { code, message: code === 'INTERNAL_SERVER_ERROR' ? (cause as Error).message : publicMessage } });
  } finally {
    response.end();
    await rm(spool, { recursive: true, force: true });
  }
}

/** Runs an operation in the server behind `socketPath`; throws what it threw. */
export async function runRemotely<Name extends OperationName>(
  socketPath: string,
  name: Name,
  params: Params<Name>,
  io: Io,
): Promise<Result<Name>> {
  const incoming = await ask(socketPath, name, params, io);
  for await (const line of createInterface({ input: incoming })) {
    const frame: Frame = JSON.parse(line);
    if ('progress' in frame) io.progress(frame.progress);
    else if ('output' in frame) await io.write(frame.output);
    else if ('error' in frame)
      throw new AppError(frame.error.code, frame.error.message, { cause: new Error(frame.error.message) });
    else return frame.result as Result<Name>;
  }
  throw new Error(CUT_OFF);
}

async function ask(socketPath: string, name: string, params: unknown, { input, signal }: Io): Promise<IncomingMessage> {
  const outgoing = request({
    socketPath,
    method: 'POST',
    path: `/${encodeURIComponent(name)}`,
    headers: { [PARAMS_HEADER]: Buffer.from(JSON.stringify(params ?? null)).toString('base64url') },
    signal,
  });
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve);
    outgoing.once('error', reject);
  });
  outgoing.flushHeaders();
  // Input is touched only once there is somebody to send it to, so that the caller may try again.
  await Promise.race([
    new Promise((resolve) => outgoing.once('socket', (socket) => socket.once('connect', resolve))),
    answered,
  ]).catch((cause: NodeJS.ErrnoException) => {
    throw cause.code === 'ENOENT' || cause.code === 'ECONNREFUSED' ? new NotListeningError({ cause }) : cause;
  });
  // An answer may come before all input is sent; it tells more than the broken pipe.
  pipeline(Readable.from(input), outgoing).catch(() => undefined);
  return answered.catch((cause) => {
    throw new Error(CUT_OFF, { cause });
  });
}
