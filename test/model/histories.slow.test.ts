import { expect, test } from 'vitest';
import { useTestApp } from '../support/app.js';
import { runModel } from './runner.js';

/** More random acts than histories.test.ts makes, of another seed. */

const ACTS = 1000;
const SEED = 20_000;

const app = useTestApp({ ownDatabase: true, takesCommands: true });

test(`the service is as the model after ${ACTS} acts (seed ${SEED})`, async () => {
  expect(await runModel(app, { acts: ACTS, seed: SEED })).toBeGreaterThanOrEqual(ACTS);
}, 3_600_000);
