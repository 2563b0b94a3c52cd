import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Fastify, { type FastifyInstance, type onResponseHookHandler } from 'fastify';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { isErrorCode, MEANINGS } from '../errors.js';
import { type BatchSize, batchChannel } from './request-trace.js';

/** A metric that is read when Prometheus asks. */
export interface Figure {
  readonly kind: 'counter' | 'gauge';
  readonly name: string;
  readonly help: string;
  /** A number, or one for each value of the label. Null while it is not known: then the figure is absent. */
  readonly read: () => Reading | null | Promise<Reading | null>;
  readonly label?: string;
  /** The labels of a figure that says something of the process by them; its number is 1. */
  readonly info?: () => Readonly<Record<string, string>>;
}

type Reading = number | Readonly<Record<string, number>>;

/** In seconds: what is answered from memory, most answers, and up to the time that a request has (REQUEST_TIMEOUT_MS). */
const DURATIONS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000];
/** A figure that takes longer, because the database is busy or away, is left out: the scrape would fail as a whole. */
const FIGURE_MS = 2_000;
/** As many operations are counted by their name; callers can make up any number of them. */
const MAX_OPERATIONS = 100;
/** As many projects are counted by their App ID. */
const MAX_PROJECTS = 1_000;

/** Measures `app`, and reads `figures`. Two labels come from requests, in limited number: the name of an operation and an App ID. */
export function measure(app: FastifyInstance, figures: readonly Figure[]) {
  const register = new Registry();
  collectDefaultMetrics({ register });
  measureBatches(app, register);
  for (const figure of figures) readFigure(figure, register);
  return { hooks: { onResponse: measureRequests(register) }, readMetrics: () => register.metrics() };
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

function measureRequests(register: Registry): onResponseHookHandler {
  const requests = new Counter({
    name: 'userdir_http_requests_total',
    help: 'Requests answered.',
    labelNames: ['method', 'route', 'status'],
    registers: [register],
  });
  const probes = new Counter({
    name: 'userdir_http_probes_total',
    help: 'Answers to probes (/livez, /readyz and OPTIONS /), which are not among the requests.',
    labelNames: ['route', 'status'],
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
  const ofProjects = new Counter({
    name: 'userdir_project_requests_total',
    help: `Requests with valid credentials by their outcome, those of the first ${MAX_PROJECTS} projects by App ID and the rest as "other".`,
    labelNames: ['project', 'outcome'],
    registers: [register],
  });
  const refusals = new Counter({
    name: 'userdir_authentication_failures_total',
    help: 'Requests whose credentials were refused, by the reason.',
    labelNames: ['reason'],
    registers: [register],
  });
  const labelOf = createLabels(MAX_OPERATIONS);
  const projectOf = createLabels(MAX_PROJECTS);
  return (request, reply, done) => {
    const { method, routeOptions, operation, scope, refusal, failure } = request;
    const route = routeOptions.url ?? 'none';
    if (routeOptions.config?.isProbe) {
      probes.inc({ route, status: reply.statusCode });
      return done();
    }
    const seconds = reply.elapsedTime / 1_000;
    requests.inc({ method, route, status: reply.statusCode });
    if (scope) ofProjects.inc({ project: projectOf(scope.appId), outcome: outcomeOf(failure, reply.statusCode) });
    if (refusal) refusals.inc({ reason: refusal.reason });
    // A stream is open for as long as its client likes.
    if (String(reply.getHeader('content-type')).startsWith('text/event-stream')) return done();
    durations.observe({ method, route }, seconds);
    if (operation) operations.observe({ operation: labelOf(operation.name ?? 'unnamed') }, seconds);
    done();
  };
}

/** The outcome of a request, by the code of its first error if it has one: GraphQL answers errors by 200. */
function outcomeOf(code: string | null, status: number): string {
  const worst = Math.max(status, isErrorCode(code) ? MEANINGS[code].status : 0);
  if (worst < 400) return 'ok';
  return worst < 500 ? 'client_error' : 'server_error';
}

/** Keeps the first names as labels and calls all others `other`, so that no caller can fill the memory with names. */
function createLabels(most: number): (name: string) => string {
  const names = new Set<string>();
  return (name) => {
    if (names.has(name)) return name;
    if (names.size === most) return 'other';
    names.add(name);
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

function readFigure({ kind, name, help, read, label, info }: Figure, register: Registry): void {
  const labelNames = info === undefined ? [label ?? []].flat() : Object.keys(info());
  const options = { name, help, labelNames, registers: [register], collect };
  const metric = kind === 'counter' ? new Counter(options) : new Gauge(options);

  async function collect(): Promise<void> {
    const reading = await Promise.race([read(), sleep(FIGURE_MS, null, { ref: false })]);
    metric.reset();
    if (reading === null) {
      // A figure without labels would be 0 again.
      if (labelNames.length === 0) metric.remove();
      return;
    }
    if (typeof reading === 'number') metric.inc(info?.() ?? {}, reading);
    else for (const [value, count] of Object.entries(reading)) metric.inc({ [label ?? '']: value }, count);
  }
}
