import { afterAll, beforeAll, expect, test } from 'vitest';
import { userdir } from '../support/command.js';
import { isNightly } from '../support/nightly.js';
import { createMigrated, type Resting } from './resting.js';

/** A database from before 2.0.0 was published: its record has migrations, and not the first one of this package as it is. */

const SENTENCE =
  'userdir: This database cannot be used: it is of a release, or of a build of 2.0.0, that was not published. ' +
  'Export the users of each project with what made it (user export), and import them into a new database with this one (npm run -s userdir -- user import).\n';

const readRecord = () => database.query('SELECT * FROM _prisma_migrations ORDER BY 1');
let database: Resting;
let record: unknown[];
beforeAll(async () => {
  database = await createMigrated();
  await database.query(`
    UPDATE _prisma_migrations SET migration_name = '20261121000000_init', checksum = 'another';
    INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at) VALUES ('2', 'another', '20261202000000_person_bans', now())`);
  record = await readRecord();
});
afterAll(async () => {
  // Nothing has tried to migrate it.
  expect(await readRecord()).toEqual(record);
  await database.drop();
});

const OTHERS = ['migrate', 'user export', 'migrate --dry-run', 'project list', 'totals check', 'restored'];

test.each(['serve', ...(isNightly ? OTHERS : [])])(
  '%s is refused in one sentence, which says how users come along',
  async (words) => {
    const settings = { ...database.env, PORT: '0', DEMO: 'off', LOG_LEVEL: 'fatal' };
    const { code, stdout, stderr } = await userdir(settings, words.split(' '));
    expect({ code, stdout, stderr }).toEqual({ code: 3, stdout: '', stderr: SENTENCE });
  },
);

test('with --json it is one line, and doctor has a finding', async () => {
  const { code, stderr } = await userdir(database.env, ['project', 'list', '--json']);
  expect({ code, error: JSON.parse(stderr).error.message }).toEqual({ code: 3, error: SENTENCE.slice(9, -1) });
  const examined = await userdir(database.env, ['doctor', '--json']);
  expect(examined.code).toBe(1);
  const { findings } = JSON.parse(examined.stdout);
  expect(findings.find(({ id }: { id: string }) => id === 'migrations')).toEqual({
    id: 'migrations',
    status: 'failed',
    found: 'it is of a release, or of a build of 2.0.0, that was not published',
    advice:
      'Export the users of each project with what made it (user export), and import them into a new database with this one (npm run -s userdir -- user import).',
  });
});
