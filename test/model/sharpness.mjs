/**
 * `node test/model/sharpness.mjs [FAULT …]`: puts each fault that 1.0.0 to 2.0.0 had back, one at a time, in a copy of the build and of its database, and
 * says after how many random acts the model saw it. Run `npm run build` before. The table is in docs/decisions/person.md.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SEEDS = [101, 202, 303];
const MOST_ACTS = 2000;

/** A function of the database with other text. */
const inFunction = (name, from, to) => `DO $fault$
DECLARE
    had text := pg_get_functiondef('${name}'::regproc);
BEGIN
    IF position(${quote(from)} IN had) = 0 THEN
        RAISE EXCEPTION 'The function ${name} is not as this fault expects it.';
    END IF;
    EXECUTE replace(had, ${quote(from)}, ${quote(to)});
END $fault$`;
const quote = (text) => `'${text.replaceAll("'", "''")}'`;
const withoutCheck = (name) => `ALTER TABLE users DROP CONSTRAINT ${name}`;

/** `sql` are statements in the database, `js` are files of the build with the text that is replaced. */
const FAULTS = {
  // No fault, so nothing may be seen.
  none: {},
  'the ban of a user leaves an identity that has a ban': {
    sql: [
      inFunction(
        'cover_identity',
        'ON CONFLICT DO NOTHING',
        `WHERE NOT EXISTS (SELECT FROM bans x WHERE x.project_id = project AND x.auth_method = method AND x.auth_value_key = value_key)
    ON CONFLICT DO NOTHING`,
      ),
    ],
  },
  'the ban of a user does not cover who is linked later': {
    sql: [
      inFunction(
        'claim_new_identities',
        'PERFORM cover_identity(project_id, user_id, auth_method, auth_value, auth_value_key) FROM new_identities WHERE NOT removed;',
        '',
      ),
    ],
  },
  'a merge keeps the ban that ends first': {
    sql: [inFunction('merge_bans', 'had.expires_at < excluded.expires_at', 'had.expires_at > excluded.expires_at')],
  },
  'unlinking is a way out of a ban': {
    sql: [
      inFunction(
        'keep_ban',
        'UPDATE bans b SET user_id = NULL\n    WHERE',
        'UPDATE bans b SET user_id = NULL\n    WHERE false AND',
      ),
    ],
  },
  'an export has the ban of a user as that of an identity': {
    js: [['domain/export-format.js', '...(isOfUser && { of_user: true }),', '']],
  },
  'the feed does not tell of an unlink': { sql: [inFunction('record_identities', "TG_OP = 'DELETE' OR ", '')] },
  'the feed does not tell of other terms of a ban': {
    sql: [inFunction('record_ban', 'RETURN holder;', 'RETURN NULL;')],
  },
  'a refused login links': {
    js: [['users/logins.js', '{ requestId, andThen });', '{ requestId });\n        await andThen(db);']],
  },
  'an undo removes whom another user was merged into': {
    sql: [inFunction('touch_user', 'WHERE project_id = project', 'WHERE false AND project_id = project')],
  },
  'an undo removes who has a new primary identity': {
    sql: [
      inFunction(
        'forget_import',
        'NEW.import_id := NULL;',
        'IF NEW.auth_value_key = OLD.auth_value_key THEN NEW.import_id := NULL; END IF;',
      ),
      inFunction('touch_user', 'WHERE project_id = project', 'WHERE false AND project_id = project'),
    ],
  },
  'a merged user is restored': {
    sql: [withoutCheck('users_merged_are_removed')],
    js: [['users/write-users.sql.js', ' AND before.merged_into IS NULL', '']],
  },
  'a login by a linked wallet becomes the wallet': {
    sql: [withoutCheck('users_wallet_of_login')],
    js: [['users/user-columns.sql.js', "existing.auth_method = 'wallet' OR ", '']],
  },
  'an email login that is linked shows no email': {
    sql: [
      inFunction(
        'follow_linked_email',
        'WHERE project_id = project AND id',
        'WHERE false AND project_id = project AND id',
      ),
    ],
  },
  'a login without an email forgets emailVerified': {
    js: [['users/user-columns.sql.js', "SAID = 'excluded.said_email'", "SAID = 'excluded.identity_email'"]],
  },
  'an email that was taken away comes back by an export': {
    js: [
      ['domain/export-format.js', "if (email === '')\n        return auth_method === 'email' ? NO_EMAIL : null;", ''],
    ],
  },
  'an export has no dates of a single identity': {
    js: [['domain/export-format.js', 'return follows ? null : [primary];', 'return null;']],
  },
  'updateUser with the email that stands there is refused': {
    js: [
      [
        'users/write-users.sql.js',
        'WHEN had.sets_identity AND ',
        "WHEN k.sets_email AND had.auth_method = 'email' AND ",
      ],
    ],
  },
  'a merge forgets what was said of the other': {
    js: [['users/identities.sql.js', 'AND o.said_email IS NOT NULL', 'AND false']],
  },
  'null clears the terms of a ban': {
    js: [
      ['domain/bans.js', '(text != null && { reason })', '(text !== undefined && { reason })'],
      ['domain/bans.js', '(end != null && { expiresAt })', '(end !== undefined && { expiresAt })'],
    ],
  },
};

/** The test of a fault, which prints after how many acts each seed has failed. */
const testOf = (sql) => `
import { test } from 'vitest';
import { useTestApp } from '../support/app.js';
import { runModel } from './runner.js';

const app = useTestApp({ ownDatabase: true, takesCommands: true });
test('a fault', async () => {
  for (const statement of ${JSON.stringify(sql)}) await app.context.db.pool.query(statement, []);
  for (const seed of ${JSON.stringify(SEEDS)}) {
    const seen = await runModel(app, { acts: ${MOST_ACTS}, seed, shrinks: false, atOnce: 1 }).then(
      () => 'none',
      (error) => (/After (\\d+) acts/.exec(error.message) ?? [error.message])[1] + ' ' + error.message.split('\\n').at(-1).replace(/^Error: /, ''),
    );
    console.log('SEEN', seen);
  }
}, 3_600_000);
`;

const copy = mkdtempSync(join(tmpdir(), 'userdir-sharpness-'));
const COPIED = ['dist', 'test', 'prisma', 'package.json', 'vitest.config.ts', 'schema.graphql', 'tsconfig.json', 'src'];
for (const name of COPIED) cpSync(join(ROOT, name), join(copy, name), { recursive: true });
symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));

/** Replaces a text, which must be there, and returns what puts it back. */
function replaceIn([file, from, to]) {
  const path = join(copy, 'dist', file);
  const had = readFileSync(path, 'utf8');
  if (!had.includes(from)) throw new Error(`${file} has no ${from}`);
  writeFileSync(path, had.replaceAll(from, to));
  return () => writeFileSync(path, had);
}

const median = (numbers) => numbers.toSorted((one, other) => one - other)[Math.floor(numbers.length / 2)];
const project = process.env.TEST_DATABASE_URL === undefined ? 'fast' : 'fast-postgres';
const wanted = process.argv.slice(2);
for (const [name, { sql = [], js = [] }] of Object.entries(FAULTS)) {
  if (wanted.length > 0 && !wanted.some((each) => name.includes(each))) continue;
  const undo = js.map(replaceIn).toReversed();
  writeFileSync(join(copy, 'test/model/sharpness.test.ts'), testOf(sql));
  const { stdout, stderr } = spawnSync('npx', ['vitest', 'run', '--project', project, 'test/model/sharpness.test.ts'], {
    ...{ cwd: copy, encoding: 'utf8', env: { ...process.env, BUILT: 'yes', NO_COLOR: '1' } },
  });
  for (const each of undo) each();
  const seen = [...stdout.matchAll(/^SEEN (.*)$/gm)].map(([, text]) => text);
  const counts = seen.map((text) => Number.parseInt(text, 10) || Number.POSITIVE_INFINITY);
  if (counts.length < SEEDS.length) process.stderr.write(`${stdout}${stderr}`);
  process.stdout.write(`${name} | median ${median(counts)} | ${counts.join(' ')} | ${seen[0]}\n`);
}
rmSync(copy, { recursive: true });
