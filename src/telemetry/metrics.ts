import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { type BatchSize, batchChannel } from './request-trace.js';

/** What is measured, in the shape of admission and of the database. */
export interface MetricsOptions {
  readonly admission: {
    readonly load: { readonly inFlight: number; readonly queued: number; readonly refused: number };
  };
  readonly db: {
    readonly pool: {
      readonly idleCount: number;
      readonly totalCount: number;
      readonly waitingCount: number;
      readonly options: { readonly max?: number | undefined };
    };
    /** Null on PostgreSQL. */
    engineUsage(): { readonly busySeconds: number; readonly starts: number } | null;
    /** Null without DATABASE_REPLICA_URL. */
    readonly replica: {
      usage(): {
        readonly isUsed: boolean;
        readonly lagSeconds: number;
        readonly reads: Readonly<Record<string, number>>;
        readonly failures: number;
      };
    } | null;
  };
  readonly changes: {
    lagSeconds(): number;
    /** The oldest open transaction that has written changes; null if there is none. */
    findOldestWriter(): Promise<{ readonly seconds: number } | null>;
    openStreams(): number;
  };
  readonly webhooks: {
    countOutcomes(): ReadonlyMap<string, number>;
    findFigures(): Promise<Record<(typeof WEBHOOK_STATES)[number] | 'lagSeconds', number>>;
  };
  /** Answers heavy requests. */
  readonly secondThread: { usage(): { readonly requests: number; readonly starts: number } };
}

const WEBHOOK_STATES = ['enabled', 'failing', 'paused', 'disabled'] as const;

/** In seconds: what is answered from memory, most answers, and up to the time that a request has (REQUEST_TIMEOUT_MS). */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000];
/** As many operations are counted by their name; callers can make up any number of them. */
const MAX_OPERATIONS = 100;

/** All metrics of a process as plain JSON, which a worker sends to the primary process. */
export type Measurements = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** Metrics of this process, as the text that Prometheus reads and as JSON. */
export interface Metrics {
  readonly text: () => Promise<string>;
  readonly json: () => Promise<Measurements>;
}

/**
 * Measures what `app` does. Load this module only where metrics are wanted. The only label that comes from a request is the
 * name of a GraphQL operation, and their number is limited.
 */
export function measure(app: FastifyInstance, options: MetricsOptions): Metrics {
  const { admission, db, changes, webhooks, secondThread } = options;
  const register = new Registry();
  collectDefaultMetrics({ register });
  measureRequests(app, register);
  measureBatches(app, register);
  readAdmission(admission, register);
  readDatabase(db, register);
  if (db.replica !== null) readReplica(db.replica, register);
  readChanges(changes, register);
  readWebhooks(webhooks, register);
  readSecondThread(secondThread, register);
  return { text: () => register.metrics(), json: () => register.getMetricsAsJSON() };
}

/** Serves metrics for Prometheus on their own port. */
export async function serveMetrics(address: { host: string; port: number }, readText: () => Promise<string>) {
  const listener = Fastify({ forceCloseConnections: true });
  listener.get('/metrics', async (_request, reply) => {
    reply.type(Registry.PROMETHEUS_CONTENT_TYPE);
    return readText();
  });
  await listener.listen(address);
  const { address: host, family, port } = listener.server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${host}]` : host}:${port}/metrics`,
    close: () => listener.close(),
  };
}

/** Only these go on from where an ended process has left them. */
const COUNTED = ['counter', 'histogram', 'summary'];

/**
 * The metrics of several processes as those of one: counters, histograms and most gauges are sums, times of the event loop are
 * averages. What processes have counted that have ended is kept, in the one entry of `ended` that this leaves.
 */
export async function addUp(current: readonly Measurements[], ended: Measurements[]): Promise<string> {
  const counted = ended.map((each) => each.filter(({ type }) => COUNTED.includes(String(type))));
  const kept = await AggregatorRegistry.aggregate(counted).getMetricsAsJSON();
  ended.splice(0, counted.length, kept);
  return AggregatorRegistry.aggregate([...current, kept]).metrics();
}

function measureRequests(app: FastifyInstance, register: Registry): void {
  const requests = new Counter({
    name: 'userdir_http_requests_total',
    help: 'Requests answered.',
    labelNames: ['method', 'route', 'status'],
    registers: [register],
  });
  const durations = new Histogram({
    name: 'userdir_http_request_duration_seconds',
    help: 'Time from the headers of a request to the end of its answer.',
    labelNames: ['method', 'route'],
    buckets: DURATIONS,
    registers: [register],
  });
  const operations = new Histogram({
    name: 'userdir_graphql_operation_duration_seconds',
    help: `The same for requests that asked for a GraphQL operation, the first ${MAX_OPERATIONS} by name and the rest as "other".`,
    labelNames: ['operation'],
    buckets: DURATIONS,
    registers: [register],
  });
  const labelOf = createLabels(MAX_OPERATIONS);
  app.addHook('onResponse', (request: FastifyRequest, reply: FastifyReply, done) => {
    const { method, routeOptions, operation } = request;
    const route = routeOptions.url ?? 'none';
    const seconds = reply.elapsedTime / 1_000;
    requests.inc({ method, route, status: reply.statusCode });
    // A stream is open for as long as its client likes.
    if (String(reply.getHeader('content-type')).startsWith('text/event-stream')) return done();
    durations.observe({ method, route }, seconds);
    if (operation) operations.observe({ operation: labelOf(operation.name ?? 'unnamed') }, seconds);
    done();
  });
}

/** Keeps the first names as labels and calls all others `other`, so that no caller can fill the memory with names. */
function createLabels(most: number): (name: string) => string {
  const known = new Set<string>();
  return (name) => {
    if (known.has(name)) return name;
    if (known.size === most) return 'other';
    known.add(name);
    return name;
  };
}

function measureBatches(app: FastifyInstance, register: Registry): void {
  const sizes = new Histogram({
    name: 'userdir_batch_keys',
    help: 'Keys of reads that shared a statement.',
    labelNames: ['read'],
    buckets: BATCH_SIZES,
    registers: [register],
  });
  const measure = (batch: unknown) => {
    const { name, keys } = batch as BatchSize;
    sizes.observe({ read: name }, keys);
  };
  batchChannel.subscribe(measure);
  app.addHook('onClose', async () => void batchChannel.unsubscribe(measure));
}

function readAdmission({ load }: MetricsOptions['admission'], register: Registry): void {
  new Gauge({
    name: 'userdir_admission_units',
    help: 'Units of work in flight (under_way) and in the queue (waiting).',
    labelNames: ['state'],
    registers: [register],
    collect() {
      this.set({ state: 'under_way' }, load.inFlight);
      this.set({ state: 'waiting' }, load.queued);
    },
  });
  readCounter(
    register,
    'userdir_admission_refused_total',
    'Requests refused because the queue was full.',
    () => load.refused,
  );
}

function readDatabase({ pool, engineUsage }: MetricsOptions['db'], register: Registry): void {
  new Gauge({
    name: 'userdir_database_connections',
    help: 'Connections to the database.',
    labelNames: ['state'],
    registers: [register],
    collect() {
      this.set({ state: 'idle' }, pool.idleCount);
      this.set({ state: 'busy' }, pool.totalCount - pool.idleCount);
    },
  });
  readGauge(
    register,
    'userdir_database_connections_max',
    'The largest number of connections.',
    () => pool.options.max ?? 0,
  );
  readGauge(register, 'userdir_database_waiting', 'Requests that wait for a connection.', () => pool.waitingCount);
  if (engineUsage() === null) return;
  readCounter(
    register,
    'userdir_embedded_database_busy_seconds_total',
    'Time for which the thread of the embedded database was busy.',
    () => engineUsage()?.busySeconds ?? 0,
  );
  readCounter(
    register,
    'userdir_embedded_database_starts_total',
    'Starts of the embedded database. More than one where it has died.',
    () => engineUsage()?.starts ?? 0,
  );
}

function readReplica({ usage }: NonNullable<MetricsOptions['db']['replica']>, register: Registry): void {
  readGauge(register, 'userdir_replica_used', 'Workers that read lists on the standby now.', () =>
    usage().isUsed ? 1 : 0,
  );
  readGauge(
    register,
    'userdir_replica_lag_seconds',
    'For how long the standby is not known to have everything.',
    () => usage().lagSeconds,
    'max',
  );
  new Counter({
    name: 'userdir_replica_reads_total',
    help: 'Reads of lists, counts and exports, by the server that answered.',
    labelNames: ['server'],
    registers: [register],
    collect() {
      this.reset();
      for (const [server, count] of Object.entries(usage().reads)) this.inc({ server }, count);
    },
  });
  readCounter(
    register,
    'userdir_replica_failures_total',
    'Reads that failed on the standby, and were then made on the primary.',
    () => usage().failures,
  );
}

function readChanges(changes: MetricsOptions['changes'], register: Registry): void {
  readGauge(
    register,
    'userdir_changes_lag_seconds',
    'For how long there have been committed changes that readers do not see yet.',
    changes.lagSeconds,
    'max',
  );
  readGauge(register, 'userdir_changes_streams', 'Open streams of changes.', changes.openStreams);
  new Gauge({
    name: 'userdir_changes_oldest_transaction_seconds',
    help: 'The age of the oldest open transaction that has written changes, and so holds up the feed.',
    registers: [register],
    aggregator: 'max',
    async collect() {
      const oldest = await changes.findOldestWriter().catch(() => null);
      this.set(oldest?.seconds ?? 0);
    },
  });
}

function readWebhooks({ countOutcomes, findFigures }: MetricsOptions['webhooks'], register: Registry): void {
  new Counter({
    name: 'userdir_webhook_attempts_total',
    help: 'Attempts to deliver a change to a webhook, by their outcome.',
    labelNames: ['outcome'],
    registers: [register],
    collect() {
      this.reset();
      for (const [outcome, count] of countOutcomes()) this.inc({ outcome }, count);
    },
  });
  let reading: ReturnType<typeof findFigures> | null = null;
  /** One statement for both gauges. */
  const read = () => {
    reading ??= findFigures().finally(() => {
      reading = null;
    });
    return reading.catch(() => null);
  };
  new Gauge({
    name: 'userdir_webhook_lag_seconds',
    help: 'The age of the oldest change that an enabled webhook has not been sent.',
    registers: [register],
    aggregator: 'max',
    async collect() {
      this.set((await read())?.lagSeconds ?? 0);
    },
  });
  new Gauge({
    name: 'userdir_webhooks',
    help: 'Webhooks by their state. Those that fail are enabled, too.',
    labelNames: ['state'],
    registers: [register],
    aggregator: 'max',
    async collect() {
      const figures = await read();
      for (const state of WEBHOOK_STATES) this.set({ state }, figures?.[state] ?? 0);
    },
  });
}

function readGauge(
  register: Registry,
  name: string,
  help: string,
  read: () => number,
  aggregator: 'sum' | 'max' = 'sum',
): void {
  new Gauge({
    name,
    help,
    registers: [register],
    aggregator,
    collect() {
      this.set(read());
    },
  });
}

/** A counter whose value is kept secondThread. */
function readSecondThread({ usage }: MetricsOptions['secondThread'], register: Registry): void {
  readCounter(
    register,
    'userdir_second_thread_requests_total',
    'Requests that were answered in the second thread, because they were not known to be light.',
    () => usage().requests,
  );
  readCounter(
    register,
    'userdir_second_thread_starts_total',
    'How often the second thread was started: when it was needed, after it was idle for long, and after it failed.',
    () => usage().starts,
  );
}

function readCounter(register: Registry, name: string, help: string, read: () => number): void {
  new Counter({
    name,
    help,
    registers: [register],
    collect() {
      this.reset();
      this.inc(read());
    },
  });
}
