import { expect, test } from 'vitest';
import {
  currentTrace,
  enableTraces,
  runInTrace,
  type TraceSpan,
  withSharedSpan,
} from '#dist/telemetry/request-trace.js';

function newTrace() {
  const steps: string[] = [];
  const span: TraceSpan = {
    traceId: '1',
    spanId: '2',
    traceFlags: 1,
    link: () => undefined,
    end: () => undefined,
    begin: ({ kind }) => {
      steps.push(kind);
      return span;
    },
  };
  return { span, steps };
}

const read = async () => currentTrace();

test('the current trace is available while traces are enabled', async () => {
  const stop = enableTraces();
  const { span: mine } = newTrace();
  expect(await runInTrace(mine, read)).toBe(mine);
  expect(await runInTrace(null, read)).toBeUndefined();
  stop();
});

test('a request that ends after traces are disabled does not enable them again', async () => {
  const { span: late, steps } = newTrace();
  enableTraces()();
  expect(await runInTrace(late, read)).toBeUndefined();
  expect(await withSharedSpan([late], { kind: 'statement', sql: 'SELECT' }, read)).toBeUndefined();
  expect(steps).toEqual(['statement']);
});
