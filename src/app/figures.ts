import { setTimeout as sleep } from 'node:timers/promises';
import { VERSION } from '../config/build.js';
import type { Context } from '../context.js';
import type { Admission } from '../http/admission.js';
import type { Streams } from '../http/lifetime.js';
import type { RedisUsage } from '../http/rate-limit.js';
import { countDroppedLines } from '../telemetry/logger.js';
import type { Figure } from '../telemetry/metrics.js';

type Labels = Pick<Figure, 'label' | 'info'>;
type Make = (name: string, help: string, read: Figure['read'], labels?: Labels) => Figure;

const counter: Make = (name, help, read, labels) => ({ kind: 'counter', name, help, read, ...labels });
const gauge: Make = (name, help, read, labels) => ({ kind: 'gauge', name, help, read, ...labels });

/** The database counts as away if it does not answer for so long. A scrape waits a little longer for a figure. */
const DATABASE_UP_MS = 1_500;

/** Figures of the parts of a process, beside the requests that telemetry/metrics.ts measures. */
export function figuresOf(context: Context, { load }: Admission, streams: Streams, redis: RedisUsage | null): Figure[] {
  const { db, services } = context;
  const { changes, webhooks } = services;
  const { pool, replica, engineUsage } = db;
  const isUp = shared(() => isDatabaseUp(context));
  /** What only the database knows is not known while it is away. */
  const whileUp =
    <Result>(read: () => Result | Promise<Result>) =>
    async () =>
      (await isUp()) ? read() : null;
  const findWebhooks = shared(whileUp(() => webhooks.findFigures().catch(() => null)));
  return [
    gauge(
      'userdir_build_info',
      'The version of userdir, and the last migration of its database. The number is 1.',
      () => 1,
      {
        info: () => ({ version: VERSION, schema: context.release.schema ?? '' }),
      },
    ),
    gauge(
      'userdir_admission_units',
      'Units of work in flight (under_way) and in the queue (waiting).',
      () => ({ under_way: load.inFlight, waiting: load.queued }),
      { label: 'state' },
    ),
    counter(
      'userdir_log_lines_dropped_total',
      'Lines of the log that could not be written, because nobody reads them or the disk is full.',
      countDroppedLines,
    ),
    counter('userdir_admission_refused_total', 'Requests refused because the queue was full.', () => load.refused),
    gauge(
      'userdir_database_connections',
      'Connections to the database.',
      () => ({ idle: pool.idleCount, busy: pool.totalCount - pool.idleCount }),
      { label: 'state' },
    ),
    counter(
      'userdir_database_writes_refused_total',
      'Writes that a database which answers has refused: no space on its disk (no_space), or only reads (read_only).',
      () => ({ ...db.refusedWrites.counts() }),
      { label: 'reason' },
    ),
    gauge('userdir_database_connections_max', 'The largest number of connections.', () => pool.options.max ?? 0),
    // Read before the figures below ask the database themselves.
    gauge('userdir_database_waiting', 'Requests that wait for a connection.', () => pool.waitingCount),
    gauge('userdir_database_up', '1 if the database answers now, else 0.', async () => Number(await isUp())),
    ...(engineUsage() === null ? [] : engineFigures(engineUsage)),
    ...(replica === null ? [] : replicaFigures(replica)),
    ...(redis === null ? [] : redisFigures(redis)),
    gauge(
      'userdir_changes_lag_seconds',
      'For how long there have been committed changes that readers do not see yet.',
      whileUp(changes.lagSeconds),
    ),
    gauge('userdir_changes_streams', 'Open streams of changes.', streams.count),
    gauge(
      'userdir_changes_oldest_transaction_seconds',
      'The age of the oldest open transaction that has written changes, and so holds up the feed.',
      whileUp(() =>
        changes.findOldestWriter().then(
          (writer) => writer?.seconds ?? 0,
          () => null,
        ),
      ),
    ),
    counter(
      'userdir_webhook_attempts_total',
      'Attempts to deliver a change to a webhook, by their outcome.',
      () => Object.fromEntries(webhooks.countOutcomes()),
      { label: 'outcome' },
    ),
    gauge(
      'userdir_webhook_lag_seconds',
      'The age of the oldest change that an enabled webhook has not been sent.',
      async () => (await findWebhooks())?.lagSeconds ?? null,
    ),
    gauge(
      'userdir_webhooks',
      'Webhooks by their state. Those that fail are enabled, too.',
      async () => {
        const found = await findWebhooks();
        if (found === null) return null;
        const { enabled, failing, paused, disabled } = found;
        return { enabled, failing, paused, disabled };
      },
      { label: 'state' },
    ),
  ];
}

async function isDatabaseUp({ db, isOpen }: Context): Promise<boolean> {
  if (!isOpen) return false;
  const answers = db.check().then(
    () => true,
    () => false,
  );
  return Promise.race([answers, sleep(DATABASE_UP_MS, false, { ref: false })]);
}

function engineFigures(usage: Context['db']['engineUsage']): Figure[] {
  return [
    counter(
      'userdir_embedded_database_busy_seconds_total',
      'Time for which the thread of the embedded database was busy.',
      () => usage()?.busySeconds ?? 0,
    ),
    counter(
      'userdir_embedded_database_starts_total',
      'Starts of the embedded database. More than one where it has died.',
      () => usage()?.starts ?? 0,
    ),
  ];
}

function replicaFigures({ usage }: NonNullable<Context['db']['replica']>): Figure[] {
  return [
    gauge('userdir_replica_used', '1 if lists are read on the standby now, else 0.', () => Number(usage().isUsed)),
    gauge(
      'userdir_replica_lag_seconds',
      'For how long the standby is not known to have everything.',
      () => usage().lagSeconds,
    ),
    counter(
      'userdir_replica_reads_total',
      'Reads of lists, counts and exports, by the server that answered.',
      () => usage().reads,
      { label: 'server' },
    ),
    counter(
      'userdir_replica_failures_total',
      'Reads that failed on the standby, and were then made on the primary.',
      () => usage().failures,
    ),
  ];
}

function redisFigures({ isUp, failures }: RedisUsage): Figure[] {
  return [
    gauge('userdir_redis_up', '1 if Redis answers now, else 0.', () => Number(isUp())),
    counter(
      'userdir_redis_failures_total',
      'Requests that this process counted by itself, because Redis was away or slow.',
      failures,
    ),
  ];
}

/** Asks once for all that wait for the answer. */
export function shared<Result>(ask: () => Promise<Result>): () => Promise<Result> {
  let asking: Promise<Result> | null = null;
  return () => {
    asking ??= ask().finally(() => {
      asking = null;
    });
    return asking;
  };
}
