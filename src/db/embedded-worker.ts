import { chmodSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/*
 * The thread in which PGlite runs, so that a query never blocks HTTP. It speaks PostgreSQL's wire protocol over message ports; `EmbeddedStream`
 * (embedded.ts) is the socket of node-postgres. PGlite has one session: a new connection replaces the one before, and finds it reset.
 */

/** To the worker: a connection opens, or the command to close. */
export type ToWorker = { readonly open: MessagePort } | { readonly close: true };
export type FromWorker = { readonly ready: true } | { readonly closed: true };

const port = parentPort;
if (port === null) throw new Error('embedded-worker runs only as a worker thread.');

const SYNC = Uint8Array.of(0x53, 0, 0, 0, 4);
const LENGTH_BYTES = 4;
const TERMINATE = 0x58;

/** Made by the build (empty-database.js). */
const EMPTY_DATABASE = fileURLToPath(new URL('./empty-database.tgz', import.meta.url));

/** The directory of the database, which is made where there is none. */
const dataDir: string = workerData;
if (!existsSync(dataDir)) await makeDatabase();
// PGlite makes most of its files writable for all users, and the directory may be accessible to them.
chmodSync(dataDir, 0o700);
const database = await PGlite.create({ dataDir });
const send = (message: FromWorker) => port.postMessage(message);

let connection: MessagePort | null = null;
/** The beginning of a message that has not arrived completely. */
let pending: Uint8Array = new Uint8Array(0);
let hasStarted = false;

/** Everything is done strictly one after another. */
let queue = Promise.resolve();
const next = (work: () => Promise<void>) => {
  queue = queue.then(() => (database.closed ? undefined : work()));
};

port.on('message', (message: ToWorker) => {
  if ('close' in message) next(close);
  else next(() => open(message.open));
});
send({ ready: true });

/** Unpacks EMPTY_DATABASE in another directory, renamed when complete: neither a killed process nor a full disk leaves a part of a database. */
async function makeDatabase(): Promise<void> {
  // Loaded only where it is used, because it takes time and memory.
  const { extract } = await import('tar');
  const draft = `${dataDir}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { mode: 0o700 });
  extract({ file: EMPTY_DATABASE, cwd: draft, preserveOwner: false, sync: true, onwarn: throwWarning });
  renameSync(draft, dataDir);
}

/** For tar, a file that cannot be written is only a warning. It also tells that names in the archive begin with a slash. */
function throwWarning(code: string, message: string | Error): void {
  if (code === 'TAR_ENTRY_INFO') return;
  throw message instanceof Error ? message : new Error(message);
}

async function close(): Promise<void> {
  await database.close();
  send({ closed: true });
  connection?.close();
  port?.close();
}

/** The transaction, the settings and the statements of the connection before are discarded. */
async function open(opened: MessagePort): Promise<void> {
  connection = opened;
  pending = new Uint8Array(0);
  hasStarted = false;
  await execute(SYNC);
  await database.exec('ROLLBACK');
  await database.exec('DISCARD ALL');
  opened.on('message', (bytes: Uint8Array) => next(() => receive(opened, bytes)));
}

async function receive(from: MessagePort, bytes: Uint8Array): Promise<void> {
  if (from !== connection) return;
  pending = concat([pending, bytes]);
  const answers: Uint8Array[] = [];
  for (let length = nextLength(); length !== null; length = nextLength()) {
    const message = pending.slice(0, length);
    pending = pending.subarray(length);
    // Its port closes next.
    if (hasStarted && message[0] === TERMINATE) break;
    hasStarted = true;
    answers.push(await execute(message));
  }
  const answer = concat(answers);
  if (answer.byteLength > 0) from.postMessage(answer, [answer.buffer]);
}

/** The length of the next message; null until it is complete. The first one (startup) has no type byte. */
function nextLength(): number | null {
  const typeBytes = hasStarted ? 1 : 0;
  if (pending.byteLength < typeBytes + LENGTH_BYTES) return null;
  const length = typeBytes + new DataView(pending.buffer, pending.byteOffset + typeBytes).getInt32(0);
  return length <= pending.byteLength ? length : null;
}

/** One message at a time: after an error in the middle of several, PGlite sends an additional ReadyForQuery, which would shift all later answers. */
async function execute(message: Uint8Array): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  // The bytes are a view into the engine's memory, so they are copied before the engine continues.
  await database.execProtocolRawStream(message, { syncToFs: false, onRawData: (bytes) => chunks.push(bytes.slice()) });
  return concat(chunks);
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
