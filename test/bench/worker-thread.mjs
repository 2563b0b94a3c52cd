/** `node test/bench/worker-thread.mjs`: what it takes the thread of the requests to read 200,000 lines of an import, and to get them from a worker that reads them. */
import { once } from 'node:events';
import { performance } from 'node:perf_hooks';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';

const LINES = 200_000;
const BATCH = 1_000;
const RUNS = 3;

const lineOf = (n) =>
  JSON.stringify({
    auth_method: 'email',
    auth_value: `user.${n}@example.com`,
    created_at: '2026-01-01T00:00:00.000Z',
    last_login: '2026-02-01T00:00:00.000Z',
    login_count: 5,
    metadata: { plan: 'pro', seats: 5 },
    accounts: [{ network: 'ethereum', public_key: `0x${n.toString(16).padStart(40, '0')}` }],
  });
const lines = Array.from({ length: LINES }, (_, n) => lineOf(n));

/** The milliseconds in which this thread is busy during some work. */
async function busyDuring(work) {
  const before = performance.eventLoopUtilization();
  await work();
  return Math.round(performance.eventLoopUtilization(before).active);
}

async function readHere() {
  for (let from = 0; from < LINES; from += BATCH) {
    for (const line of lines.slice(from, from + BATCH)) JSON.parse(line);
    await new Promise(setImmediate);
  }
}

async function readByWorker(worker) {
  worker.postMessage('begin');
  for (let read = 0; read < LINES; ) {
    const [batch] = await once(worker, 'message');
    read += batch.length;
  }
}

async function measure() {
  for (let run = 0; run < RUNS; run += 1) {
    const worker = new Worker(new URL(import.meta.url));
    await once(worker, 'message');
    const here = await busyDuring(readHere);
    const byWorker = await busyDuring(() => readByWorker(worker));
    process.stdout.write(`busy for ${here} ms where it reads itself, for ${byWorker} ms where a worker reads\n`);
    await worker.terminate();
  }
}

/** Each batch waits for the one before to be taken, so that none is missed. */
async function serve() {
  parentPort.postMessage('ready');
  await once(parentPort, 'message');
  for (let from = 0; from < LINES; from += BATCH) {
    parentPort.postMessage(lines.slice(from, from + BATCH).map((line) => JSON.parse(line)));
    await new Promise(setImmediate);
  }
}

await (isMainThread ? measure() : serve());
