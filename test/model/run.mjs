/**
 * `npm run model -- --acts N --seed S [--engine postgres|embedded] [--only ACT,ACT]`: random acts against the model.
 * `npm run model -- --writers N --kills N [--seed S] [--engine …]`: by several writers at once, while the service, and then PostgreSQL, is killed.
 */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    acts: { type: 'string', default: '1000' },
    seed: { type: 'string' },
    engine: { type: 'string', default: 'embedded' },
    only: { type: 'string' },
    writers: { type: 'string' },
    kills: { type: 'string', default: '10' },
  },
});
const project = { embedded: '', postgres: '-postgres' }[values.engine];
if (project === undefined) throw new Error('--engine is postgres or embedded.');
const env = { ...process.env, MODEL_ACTS: values.acts, MODEL_SEED: values.seed ?? String(Date.now() % 2 ** 31) };
if (values.only !== undefined) env.MODEL_ONLY = values.only;
if (project !== '') env.TEST_DATABASE_URL ??= 'postgres://postgres@127.0.0.1:5432/postgres';
const ofWriters = values.writers !== undefined;
if (ofWriters) Object.assign(env, { MODEL_WRITERS: values.writers, MODEL_KILLS: values.kills });
const [kind, file] = ofWriters ? ['slow', 'writers.slow.test.ts'] : ['fast', 'histories.test.ts'];
const { status } = spawnSync('npx', ['vitest', 'run', '--project', `${kind}${project}`, `test/model/${file}`], {
  ...{ env, stdio: 'inherit' },
});
process.exit(status ?? 1);
