/** `npm run model -- --acts N --seed S [--engine postgres|embedded] [--only ACT,ACT]`: random acts against the model. */
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    acts: { type: 'string', default: '1000' },
    seed: { type: 'string' },
    engine: { type: 'string', default: 'embedded' },
    only: { type: 'string' },
  },
});
const project = { embedded: '', postgres: '-postgres' }[values.engine];
if (project === undefined) throw new Error('--engine is postgres or embedded.');
const env = { ...process.env, MODEL_ACTS: values.acts, MODEL_SEED: values.seed ?? String(Date.now() % 2 ** 31) };
if (values.only !== undefined) env.MODEL_ONLY = values.only;
if (project !== '') env.TEST_DATABASE_URL ??= 'postgres://postgres@127.0.0.1:5432/postgres';
const { status } = spawnSync('npx', ['vitest', 'run', '--project', `fast${project}`, 'test/model/histories.test.ts'], {
  ...{ env, stdio: 'inherit' },
});
process.exit(status ?? 1);
