import { chmodSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';

/*
 * The thread in which PGlite runs, so that a query never blocks HTTP.
 *
 * It speaks PostgreSQL's wire protocol over message ports; `EmbeddedStream` (embedded.ts) takes the place of the socket of
 * node-postgres. PGlite has one session. Each client, which is a thread, has one connection, and connections take turns: one keeps the session
 * until its transaction ends. A new connection of a client replaces the one before and finds the session reset.
 */

/** To the worker: a connection opens, or the command to close. */
export type ToWorker = { readonly open: MessagePort; readonly client: number } | { readonly close: true };
export type FromWorker = { readonly ready: true } | { readonly closed: true };

/** A connection of a client. */
class Connection {
  /** What has arrived of messages that have not been executed. */
  pending = new Uint8Array(0);
  hasStarted = false;
  /** Whether it is closed or replaced, so that nothing more of it is executed. */
  hasEnded = false;
  /** The prepared statements that it has made. */
  readonly statements = new Set<string>();

  constructor(readonly port: MessagePort) {}
}

const port = parentPort;
if (port === null) throw new Error('embedded-worker runs only as a worker thread.');

const SYNC = Uint8Array.of(0x53, 0, 0, 0, 4);
const LENGTH_BYTES = 4;
const [PARSE, TERMINATE, READY, IDLE] = [0x50, 0x58, 0x5a, 0x49];
/** The length of ReadyForQuery, which is the last message of an answer. Its last byte is the state of the transaction. */
const READY_BYTES = 6;

/** Made by the build (empty-database.js). */
const EMPTY_DATABASE = fileURLToPath(new URL('./empty-database.tgz', import.meta.url));

/** The directory of the database, which is made where there is none. */
const dataDir: string = workerData;
if (!existsSync(dataDir)) await makeDatabase();
// PGlite makes most of its files writable for all users, and the directory may be accessible to them.
chmodSync(dataDir, 0o700);
const database = await PGlite.create({ dataDir });
const send = (message: FromWorker) => port.postMessage(message);

const connections = new Map<number, Connection>();
/** The connection whose transaction is open, or whose messages are being executed. */
let owner: Connection | null = null;
/** Those that have sent something, in the order in which they get the session. */
const waiting: Connection[] = [];

/** Everything is done strictly one after another. */
let queue = Promise.resolve();
const next = (work: () => Promise<void>) => {
  queue = queue.then(() => (database.closed ? undefined : work()));
};

port.on('message', (message: ToWorker) => {
  if ('close' in message) next(close);
  else next(() => open(message));
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
  for (const connection of connections.values()) connection.port.close();
  port?.close();
}

async function open({ open: itsPort, client }: Extract<ToWorker, { open: unknown }>): Promise<void> {
  const previous = connections.get(client);
  const connection = new Connection(itsPort);
  connections.set(client, connection);
  if (previous !== undefined) await end(previous);
  itsPort.on('message', (bytes: Uint8Array) => next(() => receive(connection, bytes)));
  itsPort.on('close', () => {
    if (connections.get(client) !== connection) return;
    connections.delete(client);
    next(() => end(connection));
  });
}

/** Discards the transaction, the settings and the statements of a connection that is no longer used. */
async function end(connection: Connection): Promise<void> {
  connection.hasEnded = true;
  connection.pending = new Uint8Array(0);
  if (owner !== null && owner !== connection) {
    // The transaction of another connection is open. It is reset as soon as that ends.
    ended.push(connection);
    return;
  }
  if (owner === connection) {
    await execute(SYNC);
    await database.exec('ROLLBACK');
    owner = null;
  }
  await reset(connection);
  await takeTurns();
}

/** Connections that have ended while another one had the session. */
const ended: Connection[] = [];

/** DISCARD ALL would take the statements of the other connections, too. */
async function reset({ statements }: Connection): Promise<void> {
  await database.exec('RESET ALL; CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD TEMP');
  // One that could not be parsed does not exist.
  for (const name of statements) await database.exec(`DEALLOCATE "${name}"`).catch(() => undefined);
}

async function receive(connection: Connection, bytes: Uint8Array): Promise<void> {
  if (connection.hasEnded) return;
  connection.pending = concat([connection.pending, bytes]);
  if (!waiting.includes(connection)) waiting.push(connection);
  await takeTurns();
}

/** Executes what has arrived, as far as a connection may. */
async function takeTurns(): Promise<void> {
  for (;;) {
    if (owner === null) for (const connection of ended.splice(0)) await reset(connection);
    const place = owner === null ? 0 : waiting.indexOf(owner);
    const [connection] = place < 0 ? [] : waiting.splice(place, 1);
    if (connection === undefined) return;
    // The rest of its message has not arrived, or it has ended.
    if (nextLength(connection) === null) continue;
    const before = owner;
    owner = connection;
    const answer = await answerCompleteMessages(connection);
    if (answer.byteLength > 0) connection.port.postMessage(answer, [answer.buffer]);
    // It only said that it ends.
    else owner = before;
    if (nextLength(connection) !== null) waiting.push(connection);
  }
}

/** Executes messages of a connection until none is complete, or until its transaction has ended. */
async function answerCompleteMessages(connection: Connection): Promise<Uint8Array<ArrayBuffer>> {
  const answers: Uint8Array[] = [];
  for (let length = nextLength(connection); length !== null; length = nextLength(connection)) {
    const message = connection.pending.slice(0, length);
    connection.pending = connection.pending.subarray(length);
    const type = connection.hasStarted ? message[0] : undefined;
    // Its port closes next.
    if (type === TERMINATE) break;
    if (type === PARSE) noteStatement(connection, message);
    connection.hasStarted = true;
    const answer = await execute(message);
    answers.push(answer);
    if (isIdle(answer)) {
      owner = null;
      break;
    }
  }
  return concat(answers);
}

/** Whether an answer is complete and leaves no transaction open. */
function isIdle(answer: Uint8Array): boolean {
  const ready = answer.subarray(-READY_BYTES);
  return ready[0] === READY && ready[READY_BYTES - 1] === IDLE;
}

/** Notes the name in a Parse message, which follows its type and its length and ends with a zero. A statement may have none. */
function noteStatement({ statements }: Connection, message: Uint8Array): void {
  const start = 1 + LENGTH_BYTES;
  const name = new TextDecoder().decode(message.subarray(start, message.indexOf(0, start)));
  if (name !== '') statements.add(name);
}

/** The length of the next message of a connection; null until it is complete. The first one (startup) has no type byte. */
function nextLength({ pending, hasStarted }: Connection): number | null {
  const typeBytes = hasStarted ? 1 : 0;
  if (pending.byteLength < typeBytes + LENGTH_BYTES) return null;
  const length = typeBytes + new DataView(pending.buffer, pending.byteOffset + typeBytes).getInt32(0);
  return length <= pending.byteLength ? length : null;
}

/**
 * One message at a time. Given several, PGlite sends an additional ReadyForQuery after an error in the middle, and every later
 * answer would be taken for that of another query.
 */
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
