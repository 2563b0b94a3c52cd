import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { unavailable } from '../errors.js';
import { currentTrace, runInTrace, type TraceSpan } from '../telemetry/request-trace.js';
import { isAwaited, notRead, type UnreadBytes } from './connections.js';
import type { Hooks } from './pipeline.js';
import type * as turns from './turns.js';

export interface QueuedRequest {
  /** The App ID, or UNAUTHENTICATED. */
  readonly project: string;
  /** Units of work. Only admission changes it after `submit`, and `state` as well. */
  weight: number;
  readonly start: () => void;
  state: 'new' | 'queued' | 'inFlight' | 'done';
  /** Called when a request that had to wait leaves the queue. */
  onDequeued?: () => void;
}

export interface AdmissionOptions {
  /** Units in flight at once. A project that is alone may have all of them. */
  readonly maxInFlight: number;
  /** Units in flight of one project while others are active. One larger request may exceed it, to start at all. */
  readonly maxInFlightPerProject: number;
  /** Units that may wait. A project may have at most as many queued as are free, so it cannot fill the queue. */
  readonly maxQueued: number;
}

/** The queue of requests whose project is not known yet. It counts as no tenant: callers without credentials could limit a lone project to `maxInFlightPerProject`. */
export const UNAUTHENTICATED = 'unauthenticated';

type EventLoop = Pick<typeof turns, 'isSliceOver' | 'setAlone'>;

/** The requests of one project. A request that is done may still stand in `queue`. */
interface TenantQueue {
  readonly project: string;
  inFlight: number;
  queued: number;
  /** The value of `starts` when it last started a request. */
  lastStart: number;
  readonly queue: QueuedRequest[];
}

/**
 * Decides which requests start when more work arrives than the process can do: at most `maxInFlight` units of work are in flight.
 * A request that does not fit waits in the queue of its project, or is refused at once if that is full. The next one to start is of the project with
 * the least work in flight, so a storm delays its own project only. Each project counts with at most `maxInFlightPerProject` units.
 * It may have more in flight, if it was alone or if one request is larger, and the excess delays only its own requests.
 * Once a turn of the event loop (turns.ts) has taken long, each project starts at most one request in it.
 */
export interface Admission {
  /** Starts the request now or later. Returns false where there is no room in the queue. */
  submit(request: QueuedRequest): boolean;
  /** Adds units to a request in flight that turns out to cost more. It goes on; others wait longer. */
  addWeight(request: QueuedRequest, units: number): void;
  /** Ends a request, whether it has started or not. A second call does nothing. */
  release(request: QueuedRequest): void;
  /** The most units that one piece of work may weigh to be sure that it can start: what may be in flight, and may wait. */
  readonly budget: number;
  readonly isAlone: Activity['isAlone'];
  readonly load: Load;
  /** Resolves when nothing is in flight and nothing is queued. */
  idle(): Promise<void>;
}

/** What there is to do, at this moment. */
export interface Load {
  /** Units of work. */
  readonly inFlight: number;
  readonly queued: number;
  /** The requests that were refused since the start. */
  readonly refused: number;
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: one queue, whose rules read and change the same few counts
export function createAdmission(
  { maxInFlight, maxInFlightPerProject, maxQueued }: AdmissionOptions,
  { isSliceOver, setAlone }: EventLoop = { isSliceOver: () => false, setAlone: () => undefined },
): Admission {
  /** Every project with work in flight or queued. */
  const tenants = new Map<string, TenantQueue>();
  const load = { inFlight: 0, queued: 0, refused: 0 };
  const activity = createActivity();
  let whenIdle: (() => void)[] = [];

  const capped = (inFlight: number) => Math.min(inFlight, maxInFlightPerProject);
  /** The work in flight of all projects, each counted with at most `maxInFlightPerProject`. */
  let cappedInFlight = 0;
  const addInFlight = (tenant: TenantQueue, units: number) => {
    cappedInFlight -= capped(tenant.inFlight);
    tenant.inFlight += units;
    cappedInFlight += capped(tenant.inFlight);
    load.inFlight += units;
  };

  let starts = 0;
  /** The projects that have started a request in this turn. A new Set each turn: an old one that V8 clears keeps later tables alive until the next full collection. */
  let startedThisTurn = new Set<string>();
  const mayStartThisTurn = ({ project }: TenantQueue) => !startedThisTurn.has(project) || !isSliceOver();

  /** True if the other projects leave room for a request. */
  const fitsGlobally = ({ inFlight }: TenantQueue, weight: number) =>
    cappedInFlight === 0 || cappedInFlight - capped(inFlight) + capped(inFlight + weight) <= maxInFlight;
  /** True if the project's own work leaves room for it. */
  const fitsTenant = ({ project, inFlight }: TenantQueue, weight: number) =>
    inFlight === 0 || inFlight + weight <= (activity.isAlone(project) ? maxInFlight : maxInFlightPerProject);

  function start(request: QueuedRequest, tenant: TenantQueue): void {
    request.state = 'inFlight';
    tenant.lastStart = ++starts;
    if (startedThisTurn.size === 0) setImmediate(beginNextTurn);
    startedThisTurn.add(tenant.project);
    request.onDequeued?.();
    addInFlight(tenant, request.weight);
    request.start();
  }

  function enqueue(request: QueuedRequest, tenant: TenantQueue): void {
    request.state = 'queued';
    tenant.queue.push(request);
    tenant.queued += request.weight;
    load.queued += request.weight;
  }

  /** The oldest request that waits. The tenant must have one. */
  function headOf({ queue }: TenantQueue): QueuedRequest {
    while (queue[0]?.state === 'done') queue.shift();
    return queue[0] as QueuedRequest;
  }

  /** The tenant with the least in flight, or the longest wait. Skips tenants that are at their own limit. */
  function nextTenant(): TenantQueue | null {
    let next: TenantQueue | null = null;
    for (const tenant of tenants.values()) {
      if (tenant.queued === 0 || (next !== null && !precedes(tenant, next))) continue;
      if (mayStartThisTurn(tenant) && fitsTenant(tenant, headOf(tenant).weight)) next = tenant;
    }
    return next;
  }

  function precedes(tenant: TenantQueue, other: TenantQueue): boolean {
    return (
      tenant.inFlight < other.inFlight || (tenant.inFlight === other.inFlight && tenant.lastStart < other.lastStart)
    );
  }

  /** Starts the next request. Returns false where none may start now. */
  function startNext(): boolean {
    const tenant = load.queued > 0 ? nextTenant() : null;
    if (tenant === null) return false;
    const request = headOf(tenant);
    // A smaller request of another tenant might fit, but then a large one could wait forever.
    if (!fitsGlobally(tenant, request.weight)) return false;
    tenant.queue.shift();
    tenant.queued -= request.weight;
    load.queued -= request.weight;
    start(request, tenant);
    return true;
  }

  let isStarting = false;

  /** A request may end as soon as it starts, and calls this again. The loop starts the next one without nesting. */
  function startQueued(): void {
    if (isStarting) return;
    isStarting = true;
    try {
      while (startNext());
    } finally {
      isStarting = false;
    }
  }

  function beginNextTurn(): void {
    startedThisTurn = new Set();
    startQueued();
  }

  function release(request: QueuedRequest): void {
    const { state } = request;
    request.state = 'done';
    if (state !== 'queued' && state !== 'inFlight') return;
    if (state === 'queued') request.onDequeued?.();
    const tenant = tenants.get(request.project) as TenantQueue;
    if (state === 'inFlight') {
      addInFlight(tenant, -request.weight);
    } else {
      tenant.queued -= request.weight;
      load.queued -= request.weight;
    }
    if (tenant.inFlight === 0 && tenant.queued === 0) tenants.delete(request.project);
    startQueued();
    if (tenants.size > 0) return;
    for (const resolve of whenIdle) resolve();
    whenIdle = [];
  }

  return {
    submit(request) {
      const { project, weight } = request;
      if (project !== UNAUTHENTICATED) {
        activity.record(project);
        setAlone(activity.isAlone(project));
      }
      const tenant = tenants.get(project) ?? { project, inFlight: 0, queued: 0, lastStart: 0, queue: [] };
      tenants.set(project, tenant);
      if (load.queued === 0 && fitsGlobally(tenant, weight) && fitsTenant(tenant, weight) && mayStartThisTurn(tenant)) {
        start(request, tenant);
        return true;
      }
      enqueue(request, tenant);
      startQueued();
      const roomBefore = maxQueued - (load.queued - weight);
      if (request.state !== 'queued' || tenant.queued <= roomBefore) return true;
      // Not left in the queue as done: one project may be refused very often, and the queue would grow.
      // It need not be the last one: a request that has just started may have sent another.
      tenant.queue.splice(tenant.queue.lastIndexOf(request), 1);
      load.refused += 1;
      release(request);
      return false;
    },
    addWeight(request, units) {
      if (request.state !== 'inFlight') return;
      request.weight += units;
      addInFlight(tenants.get(request.project) as TenantQueue, units);
    },
    release,
    budget: Math.min(maxInFlight, maxQueued),
    isAlone: activity.isAlone,
    load,
    idle: () => (tenants.size === 0 ? Promise.resolve() : new Promise<void>((resolve) => whenIdle.push(resolve))),
  };
}

/** A project counts as active for at least this long after its last request, and at most for twice as long. */
const ACTIVE_MS = 1_000;

/** The projects that sent a request recently. Keeps two time windows, and drops the older one as a whole. */
interface Activity {
  /** A project sends a request. */
  record(project: string): void;
  /** True unless another project is active, or was a moment ago. */
  isAlone(project: string): boolean;
}

function createActivity(): Activity {
  let current = new Set<string>();
  let previous = new Set<string>();
  let since = performance.now();
  return {
    record(project) {
      const now = performance.now();
      if (now - since > ACTIVE_MS) {
        previous = now - since > 2 * ACTIVE_MS ? new Set() : current;
        current = new Set();
        since = now;
      }
      current.add(project);
    },
    isAlone: (project) => current.size + previous.size === Number(current.has(project)) + Number(previous.has(project)),
  };
}

/** Runs work of `weight` units (default 1) in its turn, also more than may be in flight. `addWeight` adds later needs. UNAVAILABLE if the queue is full. */
export type RunWithAdmission = <Result>(
  project: string,
  work: (addWeight: (units: number) => void) => Promise<Result>,
  weight?: number,
) => Promise<Result>;

/** What makes every authenticated request wait for admission until it is answered. */
export interface AdmittedRequests {
  readonly hooks: Hooks;
  /** Does so for other work. */
  readonly runWithAdmission: RunWithAdmission;
}

export function admitRequests(app: FastifyInstance, admission: Admission, unread: UnreadBytes): AdmittedRequests {
  const refuse = createRefusals();

  app.decorateRequest('addWeight', function addWeight(units) {
    if (this.queued !== null) admission.addWeight(this.queued, units);
    return isAwaited(this);
  });
  const hooks: Hooks = {
    preHandler(request, reply, done) {
      const { scope, routeOptions } = request;
      if (!scope) return done();
      if (unread.isFull(scope.appId)) return done(notRead());
      admit(request, reply, routeOptions.config.weight?.(request) ?? 1, done);
    },
    onSend(request, reply, payload, done) {
      if (request.queued !== null) admission.release(request.queued);
      if (request.scope) unread.addAnswer(request.scope.appId, payload, reply);
      done();
    },
  };
  // The database closes next. Work for a client that has gone may still use a connection, so this waits for it.
  app.addHook('onClose', () => admission.idle());

  function admit(request: FastifyRequest, reply: FastifyReply, weight: number, done: (error?: Error) => void): void {
    const queued: QueuedRequest = { project: request.scope.appId, weight, start, state: 'new' };
    // Set before it starts: a handler may be done at once.
    request.queued = queued;
    submit(queued, request.trace, done);

    function start(): void {
      // The client has gone, or the request has timed out and is answered.
      if (!isAwaited(request) || reply.sent) {
        admission.release(queued);
        return;
      }
      const begun = request.routeOptions.config.begin?.(request);
      if (begun === undefined) done();
      else begun.then(() => done(), done);
    }
  }

  function submit(queued: QueuedRequest, trace: TraceSpan | null, done: (error: Error) => void): void {
    if (!admission.submit(queued)) refuse(queued.project, done);
    else if (trace && queued.state === 'queued') {
      const span = trace.begin({ kind: 'queue' }, []);
      queued.onDequeued = () => span.end();
    }
  }

  const runWithAdmission: RunWithAdmission = (project, work, weight = 1) => {
    const trace = currentTrace() ?? null;
    return new Promise((resolve, reject) => {
      const start = () =>
        void runInTrace(trace, () => work((units) => admission.addWeight(queued, units)))
          .finally(() => admission.release(queued))
          .then(resolve, reject);
      const queued: QueuedRequest = { project, weight: Math.min(weight, admission.budget), start, state: 'new' };
      submit(queued, trace, reject);
    });
  };

  return { hooks, runWithAdmission };
}

/** Requests of a project that are refused without delay in a second. */
const IMMEDIATE_REFUSALS = 50;
const REFUSAL_DELAY_MS = 1_000;
/** The delayed ones are spread over as long again. Otherwise their retries would come all at once. */
const SPREAD = 50;

/** Refuses a request at once or, after many refusals of its project, with a delay: a client that retries without a pause would take time from others. */
function createRefusals(): (project: string, done: (error: Error) => void) => void {
  let since = 0;
  let counts = new Map<string, number>();
  return (project, done) => {
    const now = performance.now();
    if (now - since > REFUSAL_DELAY_MS) {
      since = now;
      counts = new Map();
    }
    const count = (counts.get(project) ?? 0) + 1;
    counts.set(project, count);
    const refuse = () => done(unavailable('The service is overloaded: the queue is full.'));
    if (count <= IMMEDIATE_REFUSALS) refuse();
    else setTimeout(refuse, REFUSAL_DELAY_MS * (1 + (count % SPREAD) / SPREAD));
  };
}
