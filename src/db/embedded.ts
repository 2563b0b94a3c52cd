import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { MessageChannel, type MessagePort, Worker } from 'node:worker_threads';
import type { FromWorker, ToWorker } from './embedded-worker.js';

const NOT_OPEN = 'The embedded database is not open.';

/**
 * The embedded PostgreSQL (PGlite) of one data directory, which the caller has locked. It runs in a worker thread, has one session,
 * never vacuums by itself, and does not fsync: a killed process loses nothing; a power cut may lose data.
 */
export interface EmbeddedEngine {
  /** Opens the database, and creates it first if there is none. */
  start(): Promise<void>;
  /** Opens a connection, which speaks PostgreSQL's protocol. It replaces the one before. */
  openPort(): Promise<MessagePort>;
  /** Ends the engine in order. */
  close(): Promise<void>;
  /** Stops the engine at once, as if the process was killed: a clean close would write over files of another process that may have the lock. */
  abandon(): void;
  /** Tells the files of the database from a copy of them. */
  identifyFiles(): Promise<string>;
  usage(): EngineUsage;
}

export interface EngineUsage {
  /** The time for which the engine's thread has been busy. */
  readonly busySeconds: number;
  /** How often the engine was started. */
  readonly starts: number;
}

export function createEmbeddedEngine(dataDir: string): EmbeddedEngine {
  const databaseDir = join(dataDir, 'pgdata');
  let worker: Promise<Worker> | null = null;
  /** The current thread, also while it starts. */
  let running: Worker | null = null;
  let abandoned = false;
  let starts = 0;
  let busyMs = () => 0;
  let busyBeforeMs = 0;

  function start(): Promise<Worker> {
    if (abandoned) throw new Error(NOT_OPEN);
    running = new Worker(new URL('./embedded-worker.js', import.meta.url), { workerData: databaseDir });
    return untilReady(running, databaseDir);
  }

  async function startCounted(): Promise<Worker> {
    busyBeforeMs += busyMs();
    starts += 1;
    const started = await start();
    let last = 0;
    // After a thread has ended its busy time can no longer be read.
    busyMs = () => {
      last = Math.max(last, started.performance.eventLoopUtilization().active);
      return last;
    };
    return started;
  }

  /** Replaces a worker that ended, because its memory is limited. The log of the database restores acknowledged changes. */
  async function findWorker(): Promise<Worker> {
    if (worker === null) throw new Error(NOT_OPEN);
    const current = worker;
    const isAlive = await current.then(
      ({ threadId }) => threadId !== -1,
      () => false,
    );
    // Unless another caller has replaced it meanwhile, or the database was closed: two threads must not open one directory.
    if (!isAlive && worker === current) worker = startCounted();
    return worker ?? findWorker();
  }

  return {
    async start() {
      worker = startCounted();
      await worker;
    },
    async openPort() {
      const engine = await findWorker();
      const { port1: near, port2: far } = new MessageChannel();
      engine.postMessage({ open: far } satisfies ToWorker, [far]);
      return near;
    },
    async close() {
      const last = worker;
      worker = null;
      // A worker that failed to start needs no closing.
      await last?.then(closeWorker, () => undefined);
    },
    abandon() {
      abandoned = true;
      worker = null;
      running?.terminate();
    },
    async identifyFiles() {
      // A file that PostgreSQL writes and never replaces is another one where they were copied or restored.
      const { ino, birthtimeNs } = await stat(join(databaseDir, 'global', 'pg_control'), { bigint: true });
      return `${ino}/${birthtimeNs}`;
    },
    usage: () => ({ busySeconds: (busyBeforeMs + busyMs()) / 1_000, starts }),
  };
}

function untilReady(worker: Worker, dataDir: string): Promise<Worker> {
  return new Promise((resolve, reject) => {
    worker.once('message', () => resolve(worker));
    worker.once('error', (error) =>
      reject(new Error(`The embedded database in ${dataDir} cannot be opened: ${error.message}`, { cause: error })),
    );
    worker.once('exit', () => reject(new Error(`The embedded database in ${dataDir} was stopped while it started.`)));
  });
}

async function closeWorker(worker: Worker): Promise<void> {
  if (worker.threadId === -1) return;
  const closed = new Promise<void>((resolve, reject) => {
    worker.on('message', (message: FromWorker) => 'closed' in message && resolve());
    worker.once('error', reject);
    worker.once('exit', () => resolve());
  });
  worker.postMessage({ close: true } satisfies ToWorker);
  await closed.finally(() => worker.terminate());
}

/** Takes the place of the net.Socket of node-postgres. The other end is the thread of the engine. */
export class EmbeddedStream extends Duplex {
  #port: MessagePort | null = null;

  constructor(readonly openPort: () => Promise<MessagePort>) {
    super();
  }

  connect(): this {
    this.openPort().then(
      (port) => {
        this.#port = port;
        port.on('message', (bytes: Uint8Array) => this.push(bytes));
        port.on('close', this.#lose);
        this.emit('connect');
      },
      (error: Error) => this.destroy(error),
    );
    return this;
  }

  #lose = () => {
    if (!this.destroyed) this.destroy(new Error('The embedded database stopped unexpectedly.'));
  };

  override _read(): void {
    // The worker pushes its answers. Each is complete before the next query is sent, so there is no backpressure.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    // A copy, because node-postgres reuses its buffers.
    this.#port?.postMessage(new Uint8Array(chunk));
    done();
  }

  override _final(done: () => void): void {
    this.push(null);
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#port?.close();
    done(error);
  }

  // Methods of a socket that node-postgres calls and a thread does not need.
  setNoDelay = () => this;
  setKeepAlive = () => this;
  ref = () => this;
  unref = () => this;
}
