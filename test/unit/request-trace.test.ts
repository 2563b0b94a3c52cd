import { expect, test } from 'vitest';
import {
  createRequestCost,
  currentTrace,
  enableTraces,
  runInTrace,
  withSharedSpan,
} from '#dist/telemetry/request-trace.js';

const newTrace = () => ({ costs: [createRequestCost()], span: null });
const read = async () => currentTrace();

test('the current trace is available while traces are enabled', async () => {
  const stop = enableTraces();
  const mine = newTrace();
  expect(await runInTrace(mine, read)).toBe(mine);
  expect(await runInTrace(null, read)).toBeUndefined();
  stop();
});

test('a request that ends after traces are disabled does not enable them again', async () => {
  const late = newTrace();
  enableTraces()();
  expect(await runInTrace(late, read)).toBeUndefined();
  expect(await withSharedSpan([late], { kind: 'statement', sql: 'SELECT' }, read)).toBeUndefined();
  expect(late.costs[0]?.statements).toBe(1);
});
