import { randomBytes } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { type TestProject, useTestApp } from '../support/app.js';

/** The time of a refusal does not show whether an App ID exists. */

const SAMPLES = 600;
/** Without a database lookup, an unknown App ID would take half the time. Noise from a busy machine affects both. */
const GREATEST_DIFFERENCE = 0.2;

const app = useTestApp();
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
});

async function refusalMs(appId: string): Promise<number> {
  const startedAt = performance.now();
  const attempt = app.context.services.projects.authenticate({
    appId,
    appSecret: `uds_${randomBytes(32).toString('base64url')}`,
  });
  await expect(attempt).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  return performance.now() - startedAt;
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1] as number;
}

// Repeated where it fails: the noise of a busy machine passes, the time of a missing look-up does not.
test.for<[string, () => string]>([
  ['an unknown App ID', () => `app_${randomBytes(12).toString('hex')}`],
  ['what is no App ID', () => randomBytes(12).toString('hex')],
])('%s is refused in the same time as a wrong secret', { retry: 2 }, async ([, unknown], { annotate }) => {
  const times = { known: [] as number[], unknown: [] as number[] };
  // Interleaved, so that a slow moment of the machine affects both.
  for (let sample = -50; sample < SAMPLES; sample += 1) {
    const known = await refusalMs(project.appId);
    const other = await refusalMs(unknown());
    if (sample < 0) continue;
    times.known.push(known);
    times.unknown.push(other);
  }
  const ratio = median(times.unknown) / median(times.known);
  await annotate(`unknown ÷ known ${ratio.toFixed(3)}`);
  expect(Math.abs(Math.log(ratio))).toBeLessThan(Math.log(1 + GREATEST_DIFFERENCE));
});
