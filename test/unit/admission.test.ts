import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createAdmission, type Turn } from '#dist/http/admission.js';

/** Turns that note in `begun` that they have begun. */
function turns() {
  const begun: Turn[] = [];
  const turn = (project: string, cost = 1): Turn => {
    const made: Turn = { project, cost, state: 'new', begin: () => void begun.push(made) };
    return made;
  };
  return { begun, turn };
}

describe('admission', () => {
  test('a lone request begins at once, whatever it costs', () => {
    const { begun, turn } = turns();
    expect(createAdmission({ capacity: 4, share: 4, room: 8 }).enter(turn('a', 100))).toBe(true);
    expect(begun).toHaveLength(1);
  });

  test('beyond the capacity requests wait, and the project with least under way is next', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 4, share: 4, room: 100 });
    const storm = Array.from({ length: 10 }, () => turn('storm'));
    for (const each of storm) admission.enter(each);
    const calm = turn('calm');
    admission.enter(calm);
    expect(begun).toEqual(storm.slice(0, 4));
    admission.leave(storm[0] as Turn);
    expect(begun.at(-1)).toBe(calm);
    admission.leave(storm[1] as Turn);
    expect(begun.at(-1)).toBe(storm[4]);
  });

  test('a project that is not alone has its share under way and no more, also where nobody else wants the rest', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 8, share: 2, room: 100 });
    const calm = turn('calm');
    admission.enter(calm);
    admission.leave(calm);
    for (let n = 0; n < 5; n += 1) admission.enter(turn('storm'));
    expect(begun).toHaveLength(3);
    admission.enter(turn('calm'));
    expect(begun).toHaveLength(4);
  });

  test('a large request is not passed by forever', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 4, share: 4, room: 100 });
    const [first, second, large, small] = [turn('a', 2), turn('a', 2), turn('b', 4), turn('c', 1)];
    for (const each of [first, second, large, small]) admission.enter(each);
    admission.leave(first);
    expect(begun).toEqual([first, second]);
    admission.leave(second);
    expect(begun).toEqual([first, second, large]);
  });

  test('without room to wait a request is refused, and one project cannot take all the room', () => {
    const { turn } = turns();
    const admission = createAdmission({ capacity: 1, share: 1, room: 8 });
    admission.enter(turn('storm'));
    const taken = Array.from({ length: 20 }, () => admission.enter(turn('storm')));
    expect(taken.filter(Boolean)).toHaveLength(4);
    expect(admission.enter(turn('calm'))).toBe(true);
  });

  test('what turns out to cost more is counted, and given back in the end', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 4, share: 4, room: 8 });
    const [dear, next, last] = [turn('a'), turn('a'), turn('a')];
    admission.enter(dear);
    admission.charge(dear, 10);
    admission.enter(next);
    expect(begun).toEqual([dear]);
    admission.leave(dear);
    admission.charge(dear, 10);
    admission.enter(last);
    expect(begun).toEqual([dear, next, last]);
    expect(admission.load.underWay).toBe(2);
  });

  test('whatever one project has begun, another begins at once', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 256, share: 8, room: 4_096 });
    // Alone it may take everything, one request may take more than there is, and more may come of what has begun.
    for (let n = 0; n < 200; n += 1) admission.enter(turn('storm'));
    for (const each of begun) admission.charge(each, 380);
    admission.enter(turn('storm', 400));
    const calm = turn('calm', 3);
    expect(admission.enter(calm)).toBe(true);
    expect(begun.at(-1)).toBe(calm);
    expect(admission.load.underWay).toBe(200 * 381 + 3);
  });

  test('a request that takes more than a share waits for its own project and for nobody else', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 16, share: 8, room: 4_096 });
    const [first, wide, calm] = [turn('storm'), turn('storm', 400), turn('calm')];
    for (const each of [calm, first, wide]) admission.enter(each);
    expect(begun).toEqual([calm, first]);
    admission.leave(first);
    expect(begun).toEqual([calm, first, wide]);
  });

  test('while the event loop is busy a project begins one request in each turn of it, and another project at once', async () => {
    const begun: string[] = [];
    let isBusy = false;
    const admission = createAdmission({ capacity: 8, share: 8, room: 100 }, () => isBusy);
    const enter = (project: string) => {
      const turn: Turn = {
        project,
        cost: 1,
        state: 'new',
        begin: () => {
          begun.push(project);
          isBusy = true;
          admission.leave(turn);
        },
      };
      admission.enter(turn);
    };
    for (const project of ['storm', 'storm', 'storm', 'calm']) enter(project);
    expect(begun).toEqual(['storm', 'calm']);
    await admission.idle();
    expect(begun).toEqual(['storm', 'calm', 'storm', 'storm']);
  });

  test('thousands who are done as soon as they begin come to their end one after the other', () => {
    const admission = createAdmission({ capacity: 1, share: 1, room: 20_000 });
    const first: Turn = { project: 'a', cost: 1, state: 'new', begin: () => undefined };
    admission.enter(first);
    let done = 0;
    for (let n = 0; n < 9_000; n += 1) {
      const turn: Turn = {
        project: `p${n % 3}`,
        cost: 1,
        state: 'new',
        begin: () => {
          done += 1;
          admission.leave(turn);
        },
      };
      expect(admission.enter(turn)).toBe(true);
    }
    admission.leave(first);
    expect(done).toBe(9_000);
  });

  test('strangers are nobody’s company, but a project is theirs', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 8, share: 2, room: 100 });
    admission.enter(turn('strangers'));
    for (let n = 0; n < 5; n += 1) admission.enter(turn('lone'));
    expect(begun).toHaveLength(6);
    for (let n = 0; n < 5; n += 1) admission.enter(turn('strangers'));
    expect(begun.filter(({ project }) => project === 'strangers')).toHaveLength(2);
  });

  test('one who leaves while he waits never begins', () => {
    const { begun, turn } = turns();
    const admission = createAdmission({ capacity: 1, share: 1, room: 8 });
    const [first, gone, last] = [turn('a'), turn('a'), turn('a')];
    for (const each of [first, gone, last]) admission.enter(each);
    admission.leave(gone);
    admission.leave(gone);
    admission.leave(first);
    expect(begun).toEqual([first, last]);
  });

  const step = fc.record({
    kind: fc.constantFrom('enter', 'enter', 'leave'),
    project: fc.constantFrom('a', 'b', 'c'),
    cost: fc.integer({ min: 1, max: 6 }),
    which: fc.nat(),
  });
  test('whatever comes and goes, the capacity holds, the room holds, and everyone who was taken begins in the end', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
        const capacity = 8;
        const share = 5;
        const room = 20;
        const { begun, turn } = turns();
        const admission = createAdmission({ capacity, share, room });
        const taken: Turn[] = [];
        const sum = (state: Turn['state']) =>
          taken.filter((each) => each.state === state).reduce((total, { cost }) => total + cost, 0);
        for (const { kind, project, cost, which } of steps) {
          const entering = turn(project, cost);
          if (kind === 'enter' && admission.enter(entering)) taken.push(entering);
          const underWay = taken.filter(({ state }) => state === 'underWay');
          const unitsOf = (of: string) =>
            underWay.filter((each) => each.project === of).reduce((total, each) => total + each.cost, 0);
          const shared = ['a', 'b', 'c'].reduce((total, of) => total + Math.min(unitsOf(of), share), 0);
          if (kind === 'leave' && underWay.length > 0) admission.leave(underWay[which % underWay.length] as Turn);
          expect(shared).toBeLessThanOrEqual(capacity);
          expect(sum('waiting')).toBeLessThanOrEqual(room);
          // Nobody waits while nobody works.
          if (sum('waiting') > 0) expect(sum('underWay')).toBeGreaterThan(0);
        }
        for (let next = taken.find(({ state }) => state === 'underWay'); next; ) {
          admission.leave(next);
          next = taken.find(({ state }) => state === 'underWay');
        }
        expect(new Set(begun)).toEqual(new Set(taken));
        for (const project of ['a', 'b', 'c']) {
          const of = (list: Turn[]) => list.filter((each) => each.project === project);
          expect(of(begun)).toEqual(of(taken));
        }
      }),
    );
  });
});
