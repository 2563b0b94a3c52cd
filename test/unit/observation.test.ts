import { expect, test } from 'vitest';
import { createBill, currentObservation, observe, observedFor, startObserving } from '#dist/telemetry/request-trace.js';

const observation = () => ({ bills: [createBill()], span: null });
const read = async () => currentObservation();

test('work is known as that of its request as long as somebody observes', async () => {
  const stop = startObserving();
  const mine = observation();
  expect(await observe(mine, read)).toBe(mine);
  expect(await observe(null, read)).toBeUndefined();
  stop();
});

test('a request that outlives its observer does not switch observing on again for everybody', async () => {
  const late = observation();
  startObserving()();
  expect(await observe(late, read)).toBeUndefined();
  expect(await observedFor([late], { kind: 'statement', sql: 'SELECT' }, read)).toBeUndefined();
  expect(late.bills[0]?.statements).toBe(1);
});
