import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../config/config.js';
import { OUTDATED } from '../db/release.js';
import type { AskForRequests, RequestsQuestion } from '../domain/requests.js';
import { unavailable } from '../errors.js';
import { shareLimits } from '../http/rate-limit.js';
import type { Logger } from '../telemetry/logger.js';
import type { Measurements } from '../telemetry/metrics.js';
import { type Call, connect, type PrimaryActions, type Started, type WorkerActions } from './channel.js';
import { SAME_SIGNAL_MS, untilSignal } from './worker.js';

/**
 * The primary process of a service with several workers. It accepts connections and hands them to the workers in turn,
 * replaces workers that die, counts the limits that all share, and adds up their metrics. The workers do everything else.
 */

interface Member {
  readonly pid: number | undefined;
  readonly call: Call<WorkerActions>;
  readonly started: Promise<Started>;
  readonly ended: Promise<string>;
  /** Neither ended nor told to. */
  isServing: boolean;
  measured: Measurements;
  kill(): void;
}

/** The first worker that dies within a minute is replaced after this time, each further one after twice the time. */
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 30_000;
const RECENT_MS = 60_000;
/** How much longer a worker may take to end than it allows itself. */
const KILL_GRACE_MS = 1_000;
/** How long a worker may take to say what it remembers. The one that asks waits for longer. */
const REMEMBERING_MS = 1_500;

/** Exit codes of the service, beside OUTDATED: a signal ended it, or something failed. */
const [GOOD, FAILED] = [0, 1];

/**
 * Serves with `config.workers` processes until a signal arrives and all have ended. Returns the exit code. A worker that cannot start has
 * written its reason to stderr.
 */
export async function serveWithWorkers(
  config: Config,
  log: Logger,
  longestDrainMs: number,
  announce: (started: Started) => void,
): Promise<number> {
  const stopping = new AbortController();
  const { signal } = stopping;
  const stop = (code: number) => stopping.abort(code);
  const aborted = once(signal, 'abort');
  /** Why the database may no longer be used. */
  let tooOld: string | null = null;
  /** Every process that has not ended. */
  const alive = new Set<Member>();
  /** Those that make up the service. */
  const members: Member[] = [];
  const metrics = config.metricsPort === null ? null : await collectMetrics(config, alive);
  shareLimits();

  function start(isFirst = false): Member {
    // The first worker creates the demo project.
    const worker = cluster.fork(isFirst ? {} : { DEMO: 'off' });
    const member: Member = createMember(worker, {
      ...{ checkReady, outdated, askForRequests },
      terminated: () => endIfAlone(member),
    });
    alive.add(member);
    void member.ended.then(() => {
      alive.delete(member);
      metrics?.keep(member.measured);
    });
    return member;
  }

  async function checkReady(): Promise<void> {
    if (tooOld !== null) throw unavailable(tooOld);
    if (signal.aborted) throw new Error('The service is stopping.');
    const missing = config.workers - members.filter(({ isServing }) => isServing).length;
    if (missing > 0) throw new Error(`${missing} of ${config.workers} workers are missing.`);
    await Promise.all(members.map(({ call }) => call('checkReady')));
  }

  /** Of those that serve: one that starts remembers nothing, and would keep the question waiting. */
  function askForRequests(question: RequestsQuestion): ReturnType<AskForRequests> {
    const asked = [...alive].filter(({ isServing }) => isServing);
    return Promise.all(
      asked.map(({ call }) =>
        Promise.race([call('readRequests', question).catch(() => null), sleep(REMEMBERING_MS, null, { ref: false })]),
      ),
    );
  }

  /** Said once: the workers notice it one after the other. */
  async function outdated(reason: string): Promise<void> {
    tooOld = reason;
    if (!signal.aborted) log.error(reason);
    stop(OUTDATED);
  }

  /** Keeps a place filled: a worker that dies is replaced, later each time. */
  async function keep(place: number): Promise<void> {
    let deaths: number[] = [];
    while (!signal.aborted) {
      const member = members[place] as Member;
      const outcome = await member.ended;
      // It has been replaced, or the service stops.
      if (members[place] !== member || signal.aborted) continue;
      const now = performance.now();
      deaths = [...deaths.filter((at) => now - at < RECENT_MS), now];
      const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (deaths.length - 1), LONGEST_DELAY_MS);
      log.error(`Worker ${member.pid} ended with ${outcome}. A new one starts in ${delayMs} ms.`);
      await sleep(delayMs, undefined, { signal }).catch(() => undefined);
      if (members[place] !== member || signal.aborted) continue;
      const next = start();
      members[place] = next;
      if (await hasStarted(next)) log.info(`Worker ${next.pid} serves in its place.`);
      else if (!signal.aborted && !members.some(({ isServing }) => isServing)) {
        log.error('No worker is left, and a new one cannot start.');
        stop(FAILED);
      }
    }
  }

  /** Waits until a worker serves; false if it ended before that. */
  function hasStarted(member: Member): Promise<boolean> {
    const started = member.started.then(() => !signal.aborted);
    return Promise.race([started, member.ended.then(() => false), aborted.then(() => false)]);
  }

  /**
   * Ends workers. Only when none of them accepts connections do they end those that they have: their clients connect again, and could come to a
   * worker that is about to stop listening.
   */
  async function end(leaving: readonly Member[]): Promise<void> {
    for (const member of leaving) member.isServing = false;
    // Once more where it takes long: the second call waits for the same.
    const stopListening = ({ call }: Member) => call('stopListening').catch(() => call('stopListening'));
    await Promise.allSettled(leaving.map(stopListening));
    await Promise.all(leaving.map(stopOne));
  }

  async function stopOne(member: Member): Promise<void> {
    const force = setTimeout(() => {
      log.error(`Worker ${member.pid} did not end in time and is killed.`);
      member.kill();
    }, longestDrainMs + KILL_GRACE_MS);
    await Promise.allSettled([member.call('stop'), member.ended]);
    clearTimeout(force);
  }

  /** SIGTERM has reached a worker. Often it has reached every process: then the service stops by itself. */
  async function endIfAlone(member: Member): Promise<void> {
    await sleep(SAME_SIGNAL_MS, undefined, { signal }).then(
      () => end([member]),
      () => undefined,
    );
  }

  /** Replaces the workers one after another. Each new one serves before the old one stops. */
  async function replaceAll(): Promise<void> {
    for (const place of members.keys()) {
      if (signal.aborted) return;
      const next = start();
      if (!(await hasStarted(next))) {
        if (!signal.aborted) log.error('A new worker cannot start. The others go on.');
        return;
      }
      const old = members[place] as Member;
      members[place] = next;
      await end([old]);
    }
    log.info('All workers are replaced.');
  }

  async function startAll(): Promise<void> {
    // Alone, so that what keeps every worker from starting is said once, and migrations run once.
    members.push(start(true));
    const [first] = members as [Member];
    if (!(await hasStarted(first))) return stop(isOutdated(await first.ended) ? OUTDATED : FAILED);
    while (members.length < config.workers) members.push(start());
    if ((await Promise.all(members.map(hasStarted))).includes(false)) return stop(FAILED);
    for (const place of members.keys()) void keep(place);
    announce({ ...(await first.started), metricsUrl: metrics?.url });
  }

  void untilSignal(log, 'stopping all workers').then(() => stop(GOOD));
  // Whatever ends this process ends its workers.
  process.once('exit', () => {
    for (const member of alive) member.kill();
  });
  const started = startAll();
  onHangUp(log, () => started.then(replaceAll));
  await aborted;
  const leaving = [...alive];
  if (signal.reason !== FAILED && config.shutdownDelayMs > 0) {
    for (const { call } of leaving) call('drain').catch(() => undefined);
    await sleep(config.shutdownDelayMs);
  }
  await end(leaving);
  const outcomes = await Promise.all(leaving.map(({ ended }) => ended));
  await metrics?.close();
  if (signal.reason !== GOOD) return signal.reason;
  return outcomes.every((outcome) => outcome === 'code 0') ? GOOD : FAILED;
}

const isOutdated = (outcome: string) => outcome === `code ${OUTDATED}`;

type Shared = Pick<PrimaryActions, 'checkReady' | 'outdated' | 'askForRequests' | 'terminated'>;

function createMember(worker: Worker, service: Shared): Member {
  let begin: (started: Started) => void = () => undefined;
  const started = new Promise<Started>((resolve) => {
    begin = resolve;
  });
  const actions: PrimaryActions = {
    started: async (announced) => {
      member.isServing = true;
      begin(announced);
    },
    ...service,
    turn: () => nextTurn(),
    leaving: async (last) => {
      member.measured = last;
    },
  };
  const member: Member = {
    pid: worker.process.pid,
    call: connect(worker, { ...actions }),
    started,
    ended: endOf(worker).then((outcome) => {
      member.isServing = false;
      return outcome;
    }),
    isServing: false,
    measured: [],
    kill: () => void worker.process.kill('SIGKILL'),
  };
  return member;
}

/** Resolves when a worker has ended, or could not be started. Not by `once` of node:events, which rejects at an error. */
function endOf(worker: Worker): Promise<string> {
  return new Promise((resolve) => {
    worker.once('exit', (code, signal) => resolve(signal ?? `code ${code}`));
    // A message to a worker that has just died fails, too; its end follows.
    worker.on('error', ({ message }) => {
      if (worker.process.pid === undefined) resolve(message);
    });
  });
}

/** Serves the metrics of all workers as those of one service. */
async function collectMetrics({ host, metricsPort }: Config, alive: ReadonlySet<Member>) {
  const { addUp, serveMetrics } = await import('../telemetry/metrics.js');
  const ended: Measurements[] = [];
  async function read(): Promise<string> {
    await Promise.all(
      [...alive].map(async (member) => {
        // What a worker has counted is not lost with it: the sum would go down, and Prometheus take it for a restart.
        member.measured = await member.call('readMetrics').catch(() => member.measured);
      }),
    );
    return addUp(
      [...alive].map(({ measured }) => measured),
      ended,
    );
  }
  // One after the other, because each replaces what has ended by its sum.
  let reading = Promise.resolve('');
  const listener = await serveMetrics({ host, port: metricsPort ?? 0 }, () => {
    reading = reading.then(read, read);
    return reading;
  });
  return {
    ...listener,
    keep(last: Measurements): void {
      ended.push(last);
    },
  };
}

/** Calls `replaceAll` on SIGHUP, and once more if another one comes meanwhile. Not at a terminal, which sends it when it is closed. */
function onHangUp(log: Logger, replaceAll: () => Promise<void>): void {
  if (process.stderr.isTTY) return;
  let wanted = 0;
  process.on('SIGHUP', async () => {
    wanted = Math.min(wanted + 1, 2);
    if (wanted > 1) return;
    for (; wanted > 0; wanted -= 1) {
      log.info('SIGHUP: replacing the workers one after another.');
      await replaceAll();
    }
  });
}
