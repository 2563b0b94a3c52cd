import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLagMeter } from '#dist/db/lag-meter.js';

test('a standby at the end of an idle primary is as old as the last question, however long nothing was written', () => {
  const meter = createLagMeter(60_000);
  for (let at = 0; at <= 600_000; at += 250) meter.record(4_096, at);
  expect(meter.ageOf(4_096, 600_100)).toBe(100);
});

test('a standby that stands still grows old as soon as the primary writes', () => {
  const meter = createLagMeter(60_000);
  meter.record(100, 0);
  meter.record(200, 250);
  meter.record(300, 500);
  expect([300, 250, 200, 100].map((replayed) => meter.ageOf(replayed, 600))).toEqual([100, 350, 350, 600]);
});

test('nothing is known of a standby that has not reached the first position, and nothing before the first one', () => {
  const meter = createLagMeter(60_000);
  expect(meter.ageOf(1_000, 0)).toBe(Number.POSITIVE_INFINITY);
  meter.record(100, 0);
  expect(meter.ageOf(99, 0)).toBe(Number.POSITIVE_INFINITY);
});

test('positions of an earlier primary count for nothing after one that has written less', () => {
  const meter = createLagMeter(60_000);
  meter.record(500, 0);
  meter.record(400, 250);
  expect(meter.ageOf(399, 300)).toBe(Number.POSITIVE_INFINITY);
  expect(meter.ageOf(450, 300)).toBe(50);
});

test('an age is told up to the largest one that is kept, and as the oldest one of an idle primary', () => {
  const meter = createLagMeter(1_000);
  meter.record(100, 0);
  meter.record(200, 1_000);
  expect([150, 200].map((replayed) => meter.ageOf(replayed, 1_000))).toEqual([1_000, 0]);
  meter.record(300, 1_001);
  expect([150, 200].map((replayed) => meter.ageOf(replayed, 1_001))).toEqual([Number.POSITIVE_INFINITY, 1]);
  // Nothing was written: what is missing since 1,001 is as old as before.
  meter.record(300, 1_500);
  expect([200, 300].map((replayed) => meter.ageOf(replayed, 1_500))).toEqual([500, 0]);
  meter.record(400, 9_000);
  expect([300, 400].map((replayed) => meter.ageOf(replayed, 9_000))).toEqual([Number.POSITIVE_INFINITY, 0]);
});

test('a standby is ahead if the primary, asked later, has not written as much', () => {
  const meter = createLagMeter(60_000);
  meter.record(400, 250);
  // The primary may have written it after it was asked.
  expect(meter.isAhead(450, 300)).toBe(false);
  meter.record(420, 500);
  expect(meter.isAhead(450, 300)).toBe(true);
  meter.record(500, 750);
  expect(meter.isAhead(450, 300)).toBe(false);
});

test('an age that is told is never less than the time for which something was missing', () => {
  const steps = fc.array(fc.record({ wrote: fc.nat(5), waited: fc.integer({ min: 1, max: 500 }) }), { minLength: 1 });
  fc.assert(
    fc.property(steps, fc.nat(), (history, choice) => {
      const meter = createLagMeter(1_000);
      let position = 0;
      let at = 0;
      const writes: { position: number; at: number }[] = [];
      for (const { wrote, waited } of history) {
        position += wrote;
        writes.push({ position, at });
        meter.record(position, at);
        at += waited;
      }
      const replayed = choice % (position + 1);
      const missing = writes.find((write) => write.position > replayed);
      if (missing !== undefined) expect(meter.ageOf(replayed, at)).toBeGreaterThanOrEqual(at - missing.at);
    }),
  );
});
