import fc from 'fast-check';
import Fastify from 'fastify';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { admitRequests, createAdmission, type QueuedRequest, UNAUTHENTICATED } from '#dist/http/admission.js';

/** Requests that add themselves to `started` when they start. */
function requests() {
  const started: QueuedRequest[] = [];
  const request = (project: string, weight = 1): QueuedRequest => {
    const made: QueuedRequest = { project, weight, state: 'new', start: () => void started.push(made) };
    return made;
  };
  return { started, request };
}

describe('admission', () => {
  test('above maxInFlight requests are queued, and the project with the least weight in flight is next', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 4, maxInFlightPerProject: 4, maxQueued: 100 });
    const storm = Array.from({ length: 10 }, () => request('storm'));
    for (const each of storm) admission.submit(each);
    const calm = request('calm');
    admission.submit(calm);
    expect(started).toEqual(storm.slice(0, 4));
    admission.release(storm[0] as QueuedRequest);
    expect(started.at(-1)).toBe(calm);
    admission.release(storm[1] as QueuedRequest);
    expect(started.at(-1)).toBe(storm[4]);
  });

  test('a project that is not alone has at most maxInFlightPerProject in flight, even with free capacity', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 8, maxInFlightPerProject: 2, maxQueued: 100 });
    const calm = request('calm');
    admission.submit(calm);
    admission.release(calm);
    for (let n = 0; n < 5; n += 1) admission.submit(request('storm'));
    expect(started).toHaveLength(3);
    admission.submit(request('calm'));
    expect(started).toHaveLength(4);
  });

  test('a request with a large weight does not wait forever', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 4, maxInFlightPerProject: 4, maxQueued: 100 });
    const [first, second, large, small] = [request('a', 2), request('a', 2), request('b', 4), request('c', 1)];
    for (const each of [first, second, large, small]) admission.submit(each);
    admission.release(first);
    expect(started).toEqual([first, second]);
    admission.release(second);
    expect(started).toEqual([first, second, large]);
  });

  test('a request is refused when the queue is full, and one project cannot fill the queue', () => {
    const { request } = requests();
    const admission = createAdmission({ maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 8 });
    admission.submit(request('storm'));
    const taken = Array.from({ length: 20 }, () => admission.submit(request('storm')));
    expect(taken.filter(Boolean)).toHaveLength(4);
    expect(admission.submit(request('calm'))).toBe(true);
  });

  test('weight that is added later is counted, and is released with the request', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 4, maxInFlightPerProject: 4, maxQueued: 8 });
    const [dear, next, last] = [request('a'), request('a'), request('a')];
    admission.submit(dear);
    admission.addWeight(dear, 10);
    admission.submit(next);
    expect(started).toEqual([dear]);
    admission.release(dear);
    admission.addWeight(dear, 10);
    admission.submit(last);
    expect(started).toEqual([dear, next, last]);
    expect(admission.load.inFlight).toBe(2);
  });

  test('a request of another project starts immediately, however much one project has in flight', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 256, maxInFlightPerProject: 8, maxQueued: 4_096 });
    // A project that is alone may use the whole limit. One request may exceed it, and its weight may grow later.
    for (let n = 0; n < 200; n += 1) admission.submit(request('storm'));
    for (const each of started) admission.addWeight(each, 380);
    admission.submit(request('storm', 400));
    const calm = request('calm', 3);
    expect(admission.submit(calm)).toBe(true);
    expect(started.at(-1)).toBe(calm);
    expect(admission.load.inFlight).toBe(200 * 381 + 3);
  });

  test('a request heavier than maxInFlightPerProject waits only for its own project', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 16, maxInFlightPerProject: 8, maxQueued: 4_096 });
    const [first, wide, calm] = [request('storm'), request('storm', 400), request('calm')];
    for (const each of [calm, first, wide]) admission.submit(each);
    expect(started).toEqual([calm, first]);
    admission.release(first);
    expect(started).toEqual([calm, first, wide]);
  });

  test('on a busy event loop a project starts one request per tick, and another one starts immediately', async () => {
    const started: string[] = [];
    let isBusy = false;
    const admission = createAdmission(
      { maxInFlight: 8, maxInFlightPerProject: 8, maxQueued: 100 },
      { isSliceOver: () => isBusy, setAlone: () => undefined },
    );
    const enter = (project: string) => {
      const request: QueuedRequest = {
        project,
        weight: 1,
        state: 'new',
        start: () => {
          started.push(project);
          isBusy = true;
          admission.release(request);
        },
      };
      admission.submit(request);
    };
    for (const project of ['storm', 'storm', 'storm', 'calm']) enter(project);
    expect(started).toEqual(['storm', 'calm']);
    await admission.idle();
    expect(started).toEqual(['storm', 'calm', 'storm', 'storm']);
  });

  test('the event loop is told whether one project is alone, of which requests without credentials are none', () => {
    const { request } = requests();
    const told: boolean[] = [];
    const admission = createAdmission(
      { maxInFlight: 8, maxInFlightPerProject: 8, maxQueued: 100 },
      { isSliceOver: () => false, setAlone: (isAlone) => told.push(isAlone) },
    );
    for (const project of ['a', UNAUTHENTICATED, 'a', 'b', 'a']) admission.submit(request(project));
    expect(told).toEqual([true, true, false, false]);
  });

  test('thousands of requests that end immediately do not overflow the call stack', () => {
    const admission = createAdmission({ maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 20_000 });
    const first: QueuedRequest = { project: 'a', weight: 1, state: 'new', start: () => undefined };
    admission.submit(first);
    let done = 0;
    for (let n = 0; n < 9_000; n += 1) {
      const request: QueuedRequest = {
        project: `p${n % 3}`,
        weight: 1,
        state: 'new',
        start: () => {
          done += 1;
          admission.release(request);
        },
      };
      expect(admission.submit(request)).toBe(true);
    }
    admission.release(first);
    expect(done).toBe(9_000);
  });

  test('unauthenticated requests do not count as another tenant, but share the limit while one is active', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 8, maxInFlightPerProject: 2, maxQueued: 100 });
    admission.submit(request(UNAUTHENTICATED));
    for (let n = 0; n < 5; n += 1) admission.submit(request('lone'));
    expect(started).toHaveLength(6);
    for (let n = 0; n < 5; n += 1) admission.submit(request(UNAUTHENTICATED));
    expect(started.filter(({ project }) => project === UNAUTHENTICATED)).toHaveLength(2);
  });

  test('a request that is released while it is queued never starts', () => {
    const { started, request } = requests();
    const admission = createAdmission({ maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 8 });
    const [first, gone, last] = [request('a'), request('a'), request('a')];
    for (const each of [first, gone, last]) admission.submit(each);
    admission.release(gone);
    admission.release(gone);
    admission.release(first);
    expect(started).toEqual([first, last]);
  });

  const step = fc.record({
    kind: fc.constantFrom('enter', 'enter', 'leave'),
    project: fc.constantFrom('a', 'b', 'c'),
    weight: fc.integer({ min: 1, max: 6 }),
    which: fc.nat(),
  });
  test('for any sequence of requests, both limits hold, and every accepted request starts', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const maxInFlight = 8;
        const maxInFlightPerProject = 5;
        const maxQueued = 20;
        const { started, request } = requests();
        const admission = createAdmission({ maxInFlight, maxInFlightPerProject, maxQueued });
        const taken: QueuedRequest[] = [];
        const sum = (state: QueuedRequest['state']) =>
          taken.filter((each) => each.state === state).reduce((total, { weight }) => total + weight, 0);
        for (const { kind, project, weight, which } of steps) {
          const entering = request(project, weight);
          if (kind === 'enter' && admission.submit(entering)) taken.push(entering);
          const inFlight = taken.filter(({ state }) => state === 'inFlight');
          const unitsOf = (of: string) =>
            inFlight.filter((each) => each.project === of).reduce((total, each) => total + each.weight, 0);
          const shared = ['a', 'b', 'c'].reduce((total, of) => total + Math.min(unitsOf(of), maxInFlightPerProject), 0);
          if (kind === 'leave' && inFlight.length > 0)
            admission.release(inFlight[which % inFlight.length] as QueuedRequest);
          expect(shared).toBeLessThanOrEqual(maxInFlight);
          expect(sum('queued')).toBeLessThanOrEqual(maxQueued);
          // No request is queued while none is in flight.
          if (sum('queued') > 0) expect(sum('inFlight')).toBeGreaterThan(0);
        }
        for (let next = taken.find(({ state }) => state === 'inFlight'); next; ) {
          admission.release(next);
          next = taken.find(({ state }) => state === 'inFlight');
        }
        expect(new Set(started)).toEqual(new Set(taken));
        for (const project of ['a', 'b', 'c']) {
          const of = (list: QueuedRequest[]) => list.filter((each) => each.project === project);
          expect(of(started)).toEqual(of(taken));
        }
      }),
    );
  });

  const act = fc.record({
    kind: fc.constantFrom('enter', 'enter', 'enter', 'leave', 'add', 'pause'),
    project: fc.constantFrom('a', 'b', 'c', UNAUTHENTICATED),
    weight: fc.integer({ min: 1, max: 6 }),
    which: fc.nat(),
  });
  test('for any sequence of requests, those start that the rules in their plainest form start, in the same order', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const limits = { maxInFlight: 8, maxInFlightPerProject: 5, maxQueued: 20 };
    try {
      fc.assert(
        fc.property(fc.array(act, { maxLength: 80 }), (acts) => {
          const { started, request } = requests();
          const admission = createAdmission(limits);
          const rules = createRules(limits);
          const all: QueuedRequest[] = [];
          for (const { kind, project, weight, which } of acts) {
            const chosen = which % Math.max(1, all.length);
            const existing = all[chosen];
            if (kind === 'pause') {
              vi.advanceTimersByTime(3_000);
              rules.pause();
            } else if (kind === 'enter') {
              const entering = request(project, weight);
              all.push(entering);
              expect(admission.submit(entering)).toBe(rules.submit(project, weight));
            } else if (existing !== undefined) {
              if (kind === 'leave') admission.release(existing);
              else admission.addWeight(existing, weight);
              rules[kind](chosen, weight);
            }
            expect(started.map((each) => all.indexOf(each))).toEqual(rules.started);
            expect(admission.load).toEqual(rules.load());
          }
        }),
        { numRuns: 500 },
      );
    } finally {
      vi.useRealTimers();
    }
  });

  const nested = fc.record({
    kind: fc.constantFrom('enter', 'enter', 'enter', 'leave', 'turn'),
    project: fc.constantFrom('a', 'b'),
    weight: fc.integer({ min: 1, max: 6 }),
    /** Weights of the requests that it sends in turn when it starts, as the handler of a body that was read does. */
    sends: fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 3 }),
    endsAtOnce: fc.boolean(),
    isBusy: fc.boolean(),
    which: fc.nat(),
  });
  test('requests that send others when they start: every accepted one starts, and no refused one', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(nested, { maxLength: 40 }), async (steps) => {
        let isBusy = false;
        const options = { maxInFlight: 8, maxInFlightPerProject: 4, maxQueued: 10 };
        const admission = createAdmission(options, { isSliceOver: () => isBusy, setAlone: () => undefined });
        const [accepted, refused, started] = [
          new Set<QueuedRequest>(),
          new Set<QueuedRequest>(),
          new Set<QueuedRequest>(),
        ];
        const enter = (project: string, weight: number, sends: readonly number[], endsAtOnce: boolean): void => {
          const request: QueuedRequest = {
            project,
            weight,
            state: 'new',
            start() {
              started.add(request);
              const [next, ...later] = sends;
              if (next !== undefined) enter(project, next, later, endsAtOnce);
              if (endsAtOnce) admission.release(request);
            },
          };
          (admission.submit(request) ? accepted : refused).add(request);
        };
        const open = () => [...started].filter(({ state }) => state === 'inFlight');
        for (const step of steps) {
          ({ isBusy } = step);
          const inFlight = open();
          if (step.kind === 'enter') enter(step.project, step.weight, step.sends, step.endsAtOnce);
          else if (step.kind === 'turn') await new Promise(setImmediate);
          else if (inFlight.length > 0) admission.release(inFlight[step.which % inFlight.length] as QueuedRequest);
        }
        isBusy = false;
        for (let turn = 0; turn < 200 && started.size < accepted.size; turn += 1) {
          for (const each of open()) admission.release(each);
          await new Promise(setImmediate);
        }
        for (const each of open()) admission.release(each);
        expect(started).toEqual(accepted);
        expect([...refused].filter((each) => started.has(each))).toEqual([]);
        expect(admission.load).toMatchObject({ inFlight: 0, queued: 0, refused: refused.size });
      }),
      { numRuns: 400 },
    );
  });
});

describe('work that is run with admission', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout'], now: 0 }));
  afterEach(() => void vi.useRealTimers());

  const LIMITS = { maxInFlight: 4, maxInFlightPerProject: 4, maxQueued: 4 };
  function running(limits = LIMITS) {
    const admission = createAdmission(limits);
    const { runWithAdmission } = admitRequests(Fastify(), admission, {} as never);
    return { load: admission.load, run: runWithAdmission };
  }
  const never = () => new Promise<never>(() => undefined);

  test.each([
    [undefined, 1],
    [1, 1],
    [3, 3],
    [4, 4],
    [5, 4],
  ])('of the weight %s weighs %i, never more than can start, and nothing afterwards', async (weight, weighs) => {
    const { load, run } = running();
    const weights: number[] = [];
    const answer = run(
      'a',
      async (addWeight) => {
        weights.push(load.inFlight);
        addWeight(2);
        weights.push(load.inFlight);
        return 'done';
      },
      weight,
    );
    expect(await answer).toBe('done');
    expect(weights).toEqual([weighs, weighs + 2]);
    expect(load.inFlight).toBe(0);
  });

  test('weighs nothing after it has failed', async () => {
    const { load, run } = running();
    await expect(run('a', () => Promise.reject(new Error('Failed.')), 3)).rejects.toThrow('Failed.');
    expect(load.inFlight).toBe(0);
  });

  test('is refused at once 50 times in a second for each project, and then after one to two seconds, spread evenly', async () => {
    const { run } = running({ maxInFlight: 1, maxInFlightPerProject: 1, maxQueued: 1 });
    // One starts, and one fills the queue.
    for (let n = 0; n < 2; n += 1) void run('a', never);
    const refusals: [project: string, n: number, ms: number][] = [];
    let since = performance.now();
    const refuse = (project: string, count: number) => {
      for (let n = 1; n <= count; n += 1)
        run(project, never).catch(({ code }) => {
          expect(code).toBe('UNAVAILABLE');
          // A timer counts whole milliseconds.
          refusals.push([project, n, 10 * Math.round((performance.now() - since) / 10)]);
        });
    };
    refuse('a', 150);
    refuse('b', 50);
    await vi.advanceTimersByTimeAsync(0);
    expect(refusals.map(([project]) => project)).toEqual([...Array(50).fill('a'), ...Array(50).fill('b')]);
    await vi.advanceTimersByTimeAsync(1_000);
    refusals.length = 0;
    // A second is not over yet.
    refuse('b', 1);
    await vi.advanceTimersByTimeAsync(0);
    expect(refusals).toEqual([]);
    await vi.advanceTimersByTimeAsync(2_000);
    const delays = Array.from({ length: 50 }, (_, place) => 1_000 + 20 * place);
    const others = refusals.filter(([project]) => project === 'a').map(([, , ms]) => ms);
    expect(others).toEqual(delays.filter((ms) => ms > 1_000).flatMap((ms) => [ms, ms]));
    expect(refusals.find(([project]) => project === 'b')).toEqual(['b', 1, 2_020]);
    since = performance.now();
    refusals.length = 0;
    refuse('a', 51);
    await vi.advanceTimersByTimeAsync(0);
    expect(refusals).toHaveLength(50);
    await vi.advanceTimersByTimeAsync(1_020);
    expect(refusals.at(-1)).toEqual(['a', 51, 1_020]);
  });
});

interface Work {
  readonly project: string;
  weight: number;
  state: 'queued' | 'inFlight' | 'done';
}

/** The rules of admission without its sums: each question looks at all requests. Requests have the number of their arrival. */
function createRules({ maxInFlight, maxInFlightPerProject, maxQueued }: Parameters<typeof createAdmission>[0]) {
  const all: Work[] = [];
  const started: number[] = [];
  /** The projects that have work, in the order in which they came, with the number of the start of their last request. */
  let tenants: { readonly project: string; lastStart: number }[] = [];
  let active = new Set<string>();
  let isOver = false;
  let refused = 0;

  const units = (state: Work['state'], project?: string) =>
    all
      .filter((work) => work.state === state && (project === undefined || work.project === project))
      .reduce((sum, { weight }) => sum + weight, 0);
  const isAlone = (project: string) => [...active].every((other) => other === project);
  const fits = ({ project, weight }: Work) => {
    const own = units('inFlight', project);
    return own === 0 || own + weight <= (isAlone(project) ? maxInFlight : maxInFlightPerProject);
  };
  const fitsBesideOthers = ({ project, weight }: Work) => {
    const shares = (more: number) =>
      tenants
        .map((tenant) => units('inFlight', tenant.project) + (tenant.project === project ? more : 0))
        .reduce((sum, share) => sum + Math.min(share, maxInFlightPerProject), 0);
    return units('inFlight') === 0 || shares(weight) <= maxInFlight;
  };
  const start = (work: Work) => {
    work.state = 'inFlight';
    started.push(all.indexOf(work));
    for (const tenant of tenants) if (tenant.project === work.project) tenant.lastStart = started.length;
  };
  const headOf = (project: string) => all.find((work) => work.project === project && work.state === 'queued');

  function startNext(): boolean {
    const [next] = tenants
      .flatMap((tenant) => {
        const head = headOf(tenant.project);
        return head !== undefined && fits(head) ? [{ head, tenant, inFlight: units('inFlight', tenant.project) }] : [];
      })
      .sort((a, b) => a.inFlight - b.inFlight || a.tenant.lastStart - b.tenant.lastStart);
    if (next === undefined || !fitsBesideOthers(next.head)) return false;
    start(next.head);
    return true;
  }

  function end(work: Work): void {
    if (work.state === 'done') return;
    work.state = 'done';
    tenants = tenants.filter(({ project }) => units('inFlight', project) + units('queued', project) > 0);
    while (startNext());
  }

  return {
    started,
    load: () => ({ inFlight: units('inFlight'), queued: units('queued'), refused }),
    /** All projects are forgotten that sent a request before. */
    pause() {
      isOver = true;
    },
    submit(project: string, weight: number): boolean {
      if (project !== UNAUTHENTICATED) {
        active = isOver ? new Set([project]) : active.add(project);
        isOver = false;
      }
      if (!tenants.some((tenant) => tenant.project === project)) tenants.push({ project, lastStart: 0 });
      const work: Work = { project, weight, state: 'queued' };
      const isFirst = units('queued') === 0;
      all.push(work);
      if (isFirst && fits(work) && fitsBesideOthers(work)) start(work);
      while (startNext());
      if (work.state === 'inFlight') return true;
      // Of what is free beside the other projects.
      if (units('queued', project) <= maxQueued - units('queued') + weight) return true;
      refused += 1;
      end(work);
      return false;
    },
    leave(place: number) {
      end(all[place] as Work);
    },
    add(place: number, weight: number) {
      const work = all[place] as Work;
      if (work.state === 'inFlight') work.weight += weight;
    },
  };
}
