import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/**
 * The thread in which PGlite runs, so that a query never blocks HTTP.
 *
 * It speaks PostgreSQL's own wire protocol over `parentPort`: `EmbeddedStream` (embedded.ts) stands where node-postgres
 * expects a socket. PGlite has one session, so there is one connection at a time and a new one starts clean.
 */

/** To the worker: a connection opens, its bytes, or the order to close. Its bytes back carry the same number. */
export type ToWorker = { open: number } | { connection: number; bytes: Uint8Array } | { close: true };
export type FromWorker = { ready: true } | { connection: number; bytes: Uint8Array } | { closed: true };

const port = parentPort;
if (port === null) throw new Error('embedded-worker runs as a worker thread only');

const SYNC = Uint8Array.of(0x53, 0, 0, 0, 4);
const LENGTH_BYTES = 4;
const NO_BYTES: Uint8Array<ArrayBuffer> = new Uint8Array(0);

const database = await PGlite.create({ dataDir: workerData.dataDir });
const send = (message: FromWorker, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);

let current = 0;
let started = false;
let pending: Uint8Array = NO_BYTES;

/** Work is done strictly in the order in which it arrived. */
let queue = Promise.resolve();
port.on('message', (message: ToWorker) => {
  queue = queue.then(() => handle(message));
});
send({ ready: true });

async function handle(message: ToWorker): Promise<void> {
  if ('close' in message) {
    await database.close();
    send({ closed: true });
    port?.close();
  } else if ('open' in message) {
    await open(message.open);
  } else if (message.connection === current) {
    pending = concat([pending, message.bytes]);
    const answer = await answerCompleteMessages();
    if (answer.byteLength > 0) send({ connection: current, bytes: answer }, [answer.buffer]);
  }
}

/** The session is shared by every connection in turn: what the last one left open is ended first. */
async function open(connection: number): Promise<void> {
  current = connection;
  started = false;
  pending = NO_BYTES;
  await execute(SYNC);
  await database.exec('ROLLBACK');
  await database.exec('DISCARD ALL');
}

async function answerCompleteMessages(): Promise<Uint8Array<ArrayBuffer>> {
  const answers: Uint8Array[] = [];
  for (let length = nextLength(); length !== null && length <= pending.byteLength; length = nextLength()) {
    const message = pending.slice(0, length);
    pending = pending.subarray(length);
    started = true;
    answers.push(...(await execute(message)));
  }
  return concat(answers);
}

/** Bytes of the next message, once its header is here. The first of a connection (startup) has no type byte. */
function nextLength(): number | null {
  const typeBytes = started ? 1 : 0;
  if (pending.byteLength < typeBytes + LENGTH_BYTES) return null;
  return typeBytes + new DataView(pending.buffer, pending.byteOffset + typeBytes).getInt32(0);
}

/**
 * One message at a time: given several at once, PGlite sends a ReadyForQuery of its own after an error in the middle,
 * and every later answer would go to the wrong query (../shared/pitfalls.md, section 4).
 */
async function execute(message: Uint8Array): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  // The bytes are a view into the engine's own memory, so they are copied before it goes on.
  await database.execProtocolRawStream(message, { syncToFs: false, onRawData: (bytes) => chunks.push(bytes.slice()) });
  return chunks;
}

function concat(parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((bytes, part) => bytes + part.byteLength, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.byteLength;
  }
  return whole;
}
