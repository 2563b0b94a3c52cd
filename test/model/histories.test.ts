import { expect, test } from 'vitest';
import { useTestApp } from '../support/app.js';
import { runModel } from './runner.js';

/** Random sequences of acts, compared with the model. `npm run model` makes any number of them. */

const ACTS = Number(process.env['MODEL_ACTS'] ?? 280);
/** The same acts in each run of the tests; `npm run model` has others each time. */
const SEED = Number(process.env['MODEL_SEED'] ?? 5);
const ONLY = process.env['MODEL_ONLY']?.split(',');

const app = useTestApp({ ownDatabase: true, takesCommands: true });

test(`the service is as the model after ${ACTS} acts (seed ${SEED})`, async () => {
  expect(await runModel(app, { acts: ACTS, seed: SEED, ...(ONLY && { only: ONLY }) })).toBeGreaterThanOrEqual(ACTS);
}, 3_600_000);
