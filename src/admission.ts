import type { FastifyInstance } from 'fastify';
import { AppError } from './errors.js';
import { beginPart, currentObservation, type Observation, observe } from './observation.js';

/**
 * Who may begin when more is asked than can be done. So many units of work are under way at once; whoever comes then waits, as
 * long as there is room to wait, and is refused at once where there is none. The next turn is for the project that has least
 * under way, so a storm of one project queues behind itself and not before the others.
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
  /** Units under way at once. One request may exceed it, or it could never begin. */
  readonly capacity: number;
  /** Units under way of one project as long as others are there too: what has begun stands before whatever they ask. */
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
  readonly queue: Turn[];
}

export function createAdmission({ capacity, share, room }: AdmissionOptions): Admission {
  /** Of every project that has something under way or waiting. */
  const lanes = new Map<string, Lane>();
  const all = { underWay: 0, waiting: 0, refused: 0 };
  const presence = watchPresence();
  let whenIdle: (() => void)[] = [];

  const fitsAll = (cost: number) => all.underWay === 0 || all.underWay + cost <= capacity;
  const fitsLane = ({ project, underWay }: Lane, cost: number) =>
    underWay === 0 || underWay + cost <= share || presence.isAlone(project);

  function start(turn: Turn, lane: Lane): void {
    turn.state = 'underWay';
    turn.onWaited?.();
    lane.underWay += turn.cost;
    all.underWay += turn.cost;
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

  /** The lane with least under way of those that wait for others and not for themselves. */
  function nextLane(): Lane | null {
    let next: Lane | null = null;
    for (const lane of lanes.values()) {
      if (lane.waiting === 0 || (next !== null && lane.underWay >= next.underWay)) continue;
      if (fitsLane(lane, headOf(lane).cost)) next = lane;
    }
    return next;
  }

  /** Starts who may; false where nobody else may now. */
  function startNext(): boolean {
    const lane = all.waiting > 0 ? nextLane() : null;
    if (lane === null) return false;
    const turn = headOf(lane);
    // Not passed by, even by one that would fit: it could wait for ever.
    if (!fitsAll(turn.cost)) return false;
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

  function leave(turn: Turn): void {
    const { state } = turn;
    turn.state = 'over';
    if (state !== 'waiting' && state !== 'underWay') return;
    if (state === 'waiting') turn.onWaited?.();
    const lane = lanes.get(turn.project) as Lane;
    lane[state] -= turn.cost;
    all[state] -= turn.cost;
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
      const lane = lanes.get(project) ?? { project, underWay: 0, waiting: 0, queue: [] };
      lanes.set(project, lane);
      if (all.waiting === 0 && fitsAll(cost) && fitsLane(lane, cost)) {
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
      (lanes.get(turn.project) as Lane).underWay += units;
      all.underWay += units;
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
    /** Units of work of a request; 1 where nothing is said, which is what one user takes. */
    cost?: (request: FastifyRequest) => number;
  }
  interface FastifyRequest {
    turn: Turn | null;
    /** To be told of units beyond the route's cost, once it is known what is asked. */
    charge(units: number): void;
  }
}

/** Lets every request with a project wait for its turn before its handler, and ends the turn with its answer. */
export function admitRequests(app: FastifyInstance, admission: Admission): void {
  app.decorateRequest('turn', null);
  app.decorateRequest('charge', function charge(units) {
    if (this.turn !== null) admission.charge(this.turn, units);
  });
  app.addHook('preHandler', (request, _reply, done) => {
    const { scope, routeOptions } = request;
    if (!scope) {
      done();
      return;
    }
    const cost = routeOptions.config.cost?.(request) ?? 1;
    const turn: Turn = { project: scope.appId, cost, begin, state: 'new' };
    // Kept before it begins: a handler may be done at once.
    request.turn = turn;
    if (!enter(admission, turn, request.observation)) done(overloaded());

    function begin(): void {
      // Nobody is there any more to be answered.
      if (request.socket.destroyed) admission.leave(turn);
      else done();
    }
  });
  app.addHook('onSend', ({ turn }, _reply, _payload, done) => {
    if (turn !== null) admission.leave(turn);
    done();
  });
  // The database goes next, and no connection waits for requests whose clients have gone.
  app.addHook('onClose', () => admission.idle());
}

/** Lets work wait for the turn of a project, as a request without one does; UNAVAILABLE where there is no room to wait. */
export function runInTurn<Result>(admission: Admission, project: string, work: () => Promise<Result>): Promise<Result> {
  const observation = currentObservation() ?? null;
  return new Promise((resolve, reject) => {
    const begin = () =>
      void observe(observation, work)
        .finally(() => admission.leave(turn))
        .then(resolve, reject);
    const turn: Turn = { project, cost: 1, begin, state: 'new' };
    if (!enter(admission, turn, observation)) reject(overloaded());
  });
}

function enter(admission: Admission, turn: Turn, observation: Observation | null): boolean {
  const entered = admission.enter(turn);
  if (observation && turn.state === 'waiting') turn.onWaited = beginPart(observation, { kind: 'turn' }).end;
  return entered;
}

function overloaded(): AppError {
  return new AppError('UNAVAILABLE', 'The service is busy and too many requests wait already.', {
    headers: { 'retry-after': '1' },
  });
}
