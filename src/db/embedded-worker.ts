import { readFile } from 'node:fs/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/*
 * The thread in which PGlite runs, so that a query never blocks HTTP.
 *
 * It speaks PostgreSQL's wire protocol over `parentPort`; `EmbeddedStream` (embedded.ts) takes the place of the socket of
 * node-postgres. PGlite has one session, so there is one connection at a time, and each new connection resets the session.
 */

/** To the worker: a connection opens, bytes of a connection, or the command to close. Answers carry the same number. */
export type ToWorker = { open: number } | { connection: number; bytes: Uint8Array } | { close: true };
export type FromWorker = { ready: true } | { connection: number; bytes: Uint8Array } | { closed: true };

export interface WorkerData {
  readonly dataDir: string;
  /** The file of a database to begin with, as PGlite dumps one. Only where there is none in `dataDir`. */
  readonly archive: string | null;
}

const port = parentPort;
if (port === null) throw new Error('embedded-worker runs only as a worker thread.');

const SYNC = Uint8Array.of(0x53, 0, 0, 0, 4);
const LENGTH_BYTES = 4;
const NO_BYTES: Uint8Array<ArrayBuffer> = new Uint8Array(0);

const { dataDir, archive } = workerData as WorkerData;
const database = await PGlite.create({
  dataDir,
  ...(archive && { loadDataDir: new Blob([new Uint8Array(await readFile(archive))]) }),
});
const send = (message: FromWorker, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);

let current = 0;
let started = false;
let pending: Uint8Array = NO_BYTES;

/** Messages are handled strictly in the order of their arrival. */
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

/** All connections share the session, so the transaction and the settings of the previous one are discarded first. */
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

/** The length of the next message, or null before its header arrived. The first message (startup) has no type byte. */
function nextLength(): number | null {
  const typeBytes = started ? 1 : 0;
  if (pending.byteLength < typeBytes + LENGTH_BYTES) return null;
  return typeBytes + new DataView(pending.buffer, pending.byteOffset + typeBytes).getInt32(0);
}

/**
 * One message at a time. Given several, PGlite sends an additional ReadyForQuery after an error in the middle, and every later
 * answer would be taken for that of another query.
 */
async function execute(message: Uint8Array): Promise<Uint8Array[]> {
  const chunks: Uint8Array[] = [];
  // The bytes are a view into the engine's memory, so they are copied before the engine continues.
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
