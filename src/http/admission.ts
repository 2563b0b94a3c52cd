import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../errors.js';
import { LARGEST_ANSWER_BYTES } from '../input-limits.js';
import { beginPart, currentObservation, type Observation, observe } from '../telemetry/request-trace.js';

/**
 * Which requests may begin when more is asked than can be done. So many units of work are under way at once; a request that
 * comes then waits, as long as there is room to wait, and is refused at once where there is none. The next turn is for the
 * project that has least under way, so a storm of one project queues behind itself and not before the others.
 *
 * Every project is counted with its share at the most: what it has begun beyond that, while it was alone or because one request
 * takes more than a share, keeps only its own requests waiting.
 */
export interface Admission {
  /** Begins the turn, now or later; false where there is no room to wait. */
  enter(turn: Turn): boolean;
  /** Adds units to a turn that has begun and turns out to cost more: it goes on, and others wait longer. */
  charge(turn: Turn, units: number): void;
  /** Ends a turn, whether it has begun or not. Twice is as once. */
  leave(turn: Turn): void;
  /** Resolves when nothing is under way and nobody waits. */
  idle(): Promise<void>;
  /** Units that are under way and that wait, and how many turns have been refused. */
  readonly load: { readonly underWay: number; readonly waiting: number; readonly refused: number };
}

export interface Turn {
  readonly project: string;
  /** Units of work. Admission's own once it has entered, as is the state. */
  cost: number;
  readonly begin: () => void;
  state: 'new' | 'waiting' | 'underWay' | 'over';
  /** Of a turn that had to wait, to be told when it does no longer. */
  onWaited?: () => void;
}

export interface AdmissionOptions {
  /** Units under way at once, of each project its share at the most; of a project that is alone all of them. */
  readonly capacity: number;
  /** Units under way of one project as long as others are there too. One request may exceed it, or it could never begin. */
  readonly share: number;
  /** Units that may wait. A project may have as many waiting as are left free, so that nobody can take all the room. */
  readonly room: number;
}

/**
 * The lane of all whose project is not known yet: they wait for each other. They are nobody's company, or whoever comes without
 * credentials could leave a lone project with its share.
 */
export const STRANGERS = 'strangers';

/** What a project has. Turns that are over may still stand in the queue. */
interface Lane {
  readonly project: string;
  underWay: number;
  waiting: number;
  /** When one of its turns began last, in turns of all. */
  served: number;
  readonly queue: Turn[];
}

/** `isBusy` says whether this turn of the event loop has taken long: a project begins no second request in it then. */
export function createAdmission({ capacity, share, room }: AdmissionOptions, isBusy = () => false): Admission {
  /** Of every project that has something under way or waiting. */
  const lanes = new Map<string, Lane>();
  const all = { underWay: 0, waiting: 0, refused: 0 };
  const presence = watchPresence();
  let whenIdle: (() => void)[] = [];

  /** What all projects have under way, each of them no more than its share. */
  let shared = 0;
  const add = (lane: Lane, cost: number) => {
    shared -= Math.min(lane.underWay, share);
    lane.underWay += cost;
    shared += Math.min(lane.underWay, share);
    all.underWay += cost;
  };

  let starts = 0;
  /** The projects that have begun something in this turn of the event loop. */
  const began = new Set<string>();
  /** Where the event loop is busy, a project begins nothing more in this turn of it. */
  const mayBegin = ({ project }: Lane) => !began.has(project) || !isBusy();

  /** Whether the others leave room for a request. */
  const fitsAll = ({ underWay }: Lane, cost: number) =>
    shared === 0 || shared - Math.min(underWay, share) + Math.min(underWay + cost, share) <= capacity;
  /** Whether the project itself does. */
  const fitsLane = ({ project, underWay }: Lane, cost: number) =>
    underWay === 0 || underWay + cost <= (presence.isAlone(project) ? capacity : share);

  function start(turn: Turn, lane: Lane): void {
    turn.state = 'underWay';
    lane.served = ++starts;
    if (began.size === 0) setImmediate(beginNextTurn);
    began.add(lane.project);
    turn.onWaited?.();
    add(lane, turn.cost);
    turn.begin();
  }

  function wait(turn: Turn, lane: Lane): void {
    turn.state = 'waiting';
    lane.queue.push(turn);
    lane.waiting += turn.cost;
    all.waiting += turn.cost;
  }

  /** Who waits first in a lane; the lane has somebody waiting. */
  function headOf({ queue }: Lane): Turn {
    while (queue[0]?.state === 'over') queue.shift();
    return queue[0] as Turn;
  }

  /** The lane with least under way of those that wait for others and not for themselves; of several the one served longest ago. */
  function nextLane(): Lane | null {
    let next: Lane | null = null;
    for (const lane of lanes.values()) {
      if (lane.waiting === 0 || (next !== null && !isBefore(lane, next))) continue;
      if (mayBegin(lane) && fitsLane(lane, headOf(lane).cost)) next = lane;
    }
    return next;
  }

  function isBefore(lane: Lane, other: Lane): boolean {
    return lane.underWay < other.underWay || (lane.underWay === other.underWay && lane.served < other.served);
  }

  /** Starts who may; false where nobody else may now. */
  function startNext(): boolean {
    const lane = all.waiting > 0 ? nextLane() : null;
    if (lane === null) return false;
    const turn = headOf(lane);
    // Not passed by, even by one that would fit: it could wait for ever.
    if (!fitsAll(lane, turn.cost)) return false;
    lane.queue.shift();
    lane.waiting -= turn.cost;
    all.waiting -= turn.cost;
    start(turn, lane);
    return true;
  }

  let isStarting = false;

  /** A turn may be over as soon as it begins, which starts the next: in this loop, and not each within the one before. */
  function startWaiting(): void {
    if (isStarting) return;
    isStarting = true;
    try {
      while (startNext());
    } finally {
      isStarting = false;
    }
  }

  function beginNextTurn(): void {
    began.clear();
    startWaiting();
  }

  function leave(turn: Turn): void {
    const { state } = turn;
    turn.state = 'over';
    if (state !== 'waiting' && state !== 'underWay') return;
    if (state === 'waiting') turn.onWaited?.();
    const lane = lanes.get(turn.project) as Lane;
    if (state === 'underWay') {
      add(lane, -turn.cost);
    } else {
      lane.waiting -= turn.cost;
      all.waiting -= turn.cost;
    }
    if (lane.underWay === 0 && lane.waiting === 0) lanes.delete(turn.project);
    startWaiting();
    if (lanes.size > 0) return;
    for (const resolve of whenIdle) resolve();
    whenIdle = [];
  }

  return {
    enter(turn) {
      const { project, cost } = turn;
      if (project !== STRANGERS) presence.see(project);
      const lane = lanes.get(project) ?? { project, underWay: 0, waiting: 0, served: 0, queue: [] };
      lanes.set(project, lane);
      if (all.waiting === 0 && fitsAll(lane, cost) && fitsLane(lane, cost) && mayBegin(lane)) {
        start(turn, lane);
        return true;
      }
      wait(turn, lane);
      startWaiting();
      if (turn.state !== 'waiting' || lane.waiting <= room - (all.waiting - cost)) return true;
      // Nothing of it stays: whoever is refused is refused often.
      lane.queue.pop();
      all.refused += 1;
      leave(turn);
      return false;
    },
    charge(turn, units) {
      if (turn.state !== 'underWay') return;
      turn.cost += units;
      add(lanes.get(turn.project) as Lane, units);
    },
    leave,
    load: all,
    idle: () => (lanes.size === 0 ? Promise.resolve() : new Promise((resolve) => whenIdle.push(resolve))),
  };
}

/** How long after its last request a project still counts as there, at least; at most twice as long. */
const PRESENCE_MS = 1_000;

/** Which projects have asked for something lately. */
function watchPresence() {
  let current = new Set<string>();
  let previous = new Set<string>();
  let since = performance.now();
  return {
    see(project: string): void {
      const now = performance.now();
      if (now - since > PRESENCE_MS) {
        previous = now - since > 2 * PRESENCE_MS ? new Set() : current;
        current = new Set();
        since = now;
      }
      current.add(project);
    },
    /** Whether there is no other project than this one. */
    isAlone: (project: string) =>
      current.size + previous.size === Number(current.has(project)) + Number(previous.has(project)),
  };
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Units of work of a request, as soon as they are known; 1 where nothing is said, which is what one user takes. */
    cost?: (request: FastifyRequest) => number | Promise<number>;
  }
  interface FastifyRequest {
    turn: Turn | null;
    /** To be told of units beyond the route's cost, once it is known what is answered. */
    charge(units: number): void;
  }
}

/** Runs work in a turn of a project, of so many units; UNAVAILABLE where there is no room to wait. */
export type RunInTurn = <Result>(project: string, work: () => Promise<Result>, cost?: number) => Promise<Result>;

/** Lets every request with a project wait for its turn before its handler, and ends the turn with its answer. */
export function admitRequests(app: FastifyInstance, admission: Admission): void {
  const unread = createUnread();
  app.decorateRequest('turn', null);
  app.decorateRequest('charge', function charge(units) {
    if (this.turn !== null) admission.charge(this.turn, units);
  });
  app.addHook('preHandler', (request, reply, done) => {
    const { scope, routeOptions } = request;
    if (!scope) return done();
    if (unread.isTooMuch(scope.appId)) return done(notRead());
    const cost = routeOptions.config.cost?.(request) ?? 1;
    if (typeof cost === 'number') admit(admission, request, reply, cost, done);
    else cost.then((units) => admit(admission, request, reply, units, done), done);
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    if (request.turn !== null) admission.leave(request.turn);
    if (request.scope) unread.add(request.scope.appId, payload, reply);
    done();
  });
  // The database goes next, and no connection waits for requests whose clients have gone.
  app.addHook('onClose', () => admission.idle());
}

function admit(
  admission: Admission,
  request: FastifyRequest,
  reply: FastifyReply,
  cost: number,
  done: (error?: Error) => void,
): void {
  const turn: Turn = { project: request.scope.appId, cost, begin, state: 'new' };
  // Kept before it begins: a handler may be done at once.
  request.turn = turn;
  if (!enter(admission, turn, request.observation)) refuse(turn.project, done);

  function begin(): void {
    // The client has gone, or has been answered because it took too long.
    if (request.socket.destroyed || reply.sent) admission.leave(turn);
    else done();
  }
}

/** Smaller answers go into the buffers of the system at once. */
const SMALL_ANSWER = 65_536;
/** Characters of answers that a project may have made and not read. */
const MAX_UNREAD = 4 * LARGEST_ANSWER_BYTES;

/** Answers that wait in memory until their clients read them, by project. */
function createUnread() {
  const unread = new Map<string, number>();
  const onConnectionEnd = createConnectionEnds();
  return {
    isTooMuch: (project: string) => (unread.get(project) ?? 0) > MAX_UNREAD,
    add(project: string, payload: unknown, { raw, request }: FastifyReply): void {
      if (typeof payload !== 'string' || payload.length < SMALL_ANSWER || request.socket.destroyed) return;
      const { length } = payload;
      unread.set(project, (unread.get(project) ?? 0) + length);
      const forget = onConnectionEnd(request.socket, release);
      raw.once('close', release);

      function release(): void {
        raw.off('close', release);
        forget();
        const left = (unread.get(project) ?? 0) - length;
        if (left > 0) unread.set(project, left);
        else unread.delete(project);
      }
    },
  };
}

/**
 * Calls back when a connection ends. An answer that waits behind others on its connection emits no 'close' then: Node tells only
 * the one that is being sent. One listener a connection, as there may be hundreds of such answers.
 */
function createConnectionEnds() {
  const callbacks = new WeakMap<Socket, Set<() => void>>();
  return (socket: Socket, callback: () => void): (() => void) => {
    let ofSocket = callbacks.get(socket);
    if (ofSocket === undefined) {
      const all = new Set<() => void>();
      ofSocket = all;
      callbacks.set(socket, all);
      socket.once('close', () => {
        for (const each of [...all]) each();
      });
    }
    ofSocket.add(callback);
    return () => ofSocket.delete(callback);
  };
}

/** Runs work in a turn of a project that is no request, or not yet: UNAVAILABLE where there is no room to wait. */
export function runInTurn<Result>(
  admission: Admission,
  project: string,
  work: () => Promise<Result>,
  cost = 1,
): Promise<Result> {
  const observation = currentObservation() ?? null;
  return new Promise((resolve, reject) => {
    const begin = () =>
      void observe(observation, work)
        .finally(() => admission.leave(turn))
        .then(resolve, reject);
    const turn: Turn = { project, cost, begin, state: 'new' };
    if (!enter(admission, turn, observation)) refuse(project, reject);
  });
}

/** As many requests of a project are refused at once in a second. */
const REFUSED_AT_ONCE = 50;
const REFUSAL_PAUSE_MS = 1_000;
let refusedSince = 0;
let refusals = new Map<string, number>();

/**
 * Refuses a request, at once or, where its project has had many refusals, after a pause: a client that does not wait before it
 * asks again would else be refused thousands of times a second, which takes the time of others.
 */
function refuse(project: string, done: (error: Error) => void): void {
  const now = performance.now();
  if (now - refusedSince > REFUSAL_PAUSE_MS) {
    refusedSince = now;
    refusals = new Map();
  }
  const count = (refusals.get(project) ?? 0) + 1;
  refusals.set(project, count);
  if (count <= REFUSED_AT_ONCE) done(overloaded());
  else setTimeout(() => done(overloaded()), REFUSAL_PAUSE_MS);
}

function enter(admission: Admission, turn: Turn, observation: Observation | null): boolean {
  const entered = admission.enter(turn);
  if (observation && turn.state === 'waiting') turn.onWaited = beginPart(observation, { kind: 'turn' }).end;
  return entered;
}

function notRead(): AppError {
  return new AppError(
    'UNAVAILABLE',
    'Earlier answers to this project are not read; read them before you ask for more.',
    {
      headers: { 'retry-after': '1' },
    },
  );
}

function overloaded(): AppError {
  return new AppError('UNAVAILABLE', 'The service is busy and too many requests wait already.', {
    headers: { 'retry-after': '1' },
  });
}
