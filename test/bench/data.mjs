import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { userdir } from './processes.mjs';

/**
 * Two databases with equal users: one as userdir migrates it, and a copy for the peers without triggers and tallies,
 * which they do not use. The copy keeps every index.
 */

/** Users per INSERT: limits the memory of the triggers. */
const CHUNK = 500_000;
const SMALL_PROJECT = { smallest: 100, largest: 10_000 };
/** The registrations of a project are spread evenly over this time. */
const FIRST_DAY = '2024-01-01T00:00:00Z';
const LAST_DAY = '2026-11-01T00:00:00Z';

/** Everything that the measurements need to know about the data. */
/** @typedef {{ ours: string, peers: string, projectId: number, appId: string, appSecret: string, users: number, firstId: number }} Data */

/** Runs `work` with a separate connection. */
export async function withClient(url, work) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** The URL of another database on the same server. */
export function databaseUrl(serverUrl, name) {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** Creates an empty, migrated database; `cleanup` drops it. */
export async function createDatabase(serverUrl, name, cleanup) {
  await withClient(serverUrl, (client) => client.query(`CREATE DATABASE "${name}"`));
  cleanup.push(() => dropDatabase(serverUrl, name));
  const url = databaseUrl(serverUrl, name);
  await userdir(url, ['migrate']);
  return url;
}

export function dropDatabase(serverUrl, name) {
  return withClient(serverUrl, (client) => client.query(`DROP DATABASE IF EXISTS "${name}" WITH (FORCE)`));
}

/**
 * The data of a run: new, or with `reuse` the data that an earlier run kept.
 * @returns {Promise<Data>}
 */
export async function prepareData({ serverUrl, users, smallProjects, keep, reuse, needsPeers = true, log }, cleanup) {
  const kept = `userdir_bench_${users}`;
  const name = keep || reuse ? kept : `${kept}_${randomBytes(4).toString('hex')}`;
  const peersName = `${name}_peers`;
  const existing = await withClient(serverUrl, async (client) => {
    const { rows } = await client.query('SELECT datname FROM pg_database WHERE datname = ANY($1)', [[name, peersName]]);
    return rows.map((row) => row.datname);
  });
  const undoAlways = cleanup.length;
  const ours = databaseUrl(serverUrl, name);
  const peers = databaseUrl(serverUrl, peersName);
  if (reuse && existing.includes(name)) {
    await userdir(ours, ['migrate']);
  } else {
    if (existing.includes(name)) {
      throw new Error(`The database ${name} exists: take it with --reuse, or drop it.`);
    }
    log(`Making ${users} users in one project and ${smallProjects} smaller projects beside it…`);
    await createDatabase(serverUrl, name, cleanup);
    await fill(ours, users, smallProjects, log);
  }
  const project = await takeBigProject(ours);
  if (needsPeers && !(reuse && existing.includes(peersName))) {
    log('Copying them for the peers…');
    cleanup.push(() => dropDatabase(serverUrl, peersName));
    await withClient(serverUrl, (client) =>
      client.query(`CREATE DATABASE "${peersName}" TEMPLATE "${name}" STRATEGY = FILE_COPY`),
    );
    await withClient(peers, (client) => client.query(peersSchema(project.projectId)));
  }
  // A run that fails before this line drops its incomplete databases.
  if (keep || reuse) cleanup.length = undoAlways;
  return { ours, peers, ...project };
}

/** Gives the big project a new secret: only the hash is stored, so a later run cannot read the old secret. */
async function takeBigProject(url) {
  const [{ id, app_id: appId, total_user: users }] = (await userdir(url, ['project', 'list'])).filter(
    ({ name }) => name === 'Big',
  );
  const { app_secret: appSecret } = await userdir(url, ['project', 'rotate', appId]);
  const firstId = await withClient(url, async (client) => {
    const { rows } = await client.query('SELECT min(id)::int AS first FROM users WHERE project_id = $1', [id]);
    return rows[0].first;
  });
  return { projectId: id, appId, appSecret, users, firstId };
}

/** Drops what the peers do not use. PostGraphile serves a schema with the current users of the project. */
function peersSchema(projectId) {
  const userColumns = 'id, auth_method, auth_value, wallet, created_at, last_login, login_count';
  const accountColumns = 'id, user_id, network, public_key, wallet_type';
  return `
    DROP TRIGGER users_tally_insert ON users;
    DROP TRIGGER users_tally_update ON users;
    DROP TRIGGER users_tally_delete ON users;
    DROP TRIGGER users_tally_truncate ON users;
    DROP TABLE tally_deltas, tally_slices, tallies;
    DROP TRIGGER users_changes_truncate ON users;
    DROP TRIGGER accounts_changes_insert ON accounts;
    DROP TRIGGER accounts_changes_update ON accounts;
    DROP TRIGGER accounts_changes_delete ON accounts;
    DROP TABLE changes, changes_feed, changes_timelines, changes_pruned;
    CREATE SCHEMA postgraphile;
    CREATE VIEW postgraphile.users AS
      SELECT ${userColumns} FROM public.users WHERE project_id = ${projectId} AND deleted_at IS NULL;
    CREATE VIEW postgraphile.accounts AS
      SELECT ${accountColumns} FROM public.accounts WHERE project_id = ${projectId};
    COMMENT ON VIEW postgraphile.users IS E'@primaryKey id\\n@behavior -insert -update -delete';
    COMMENT ON VIEW postgraphile.accounts IS
      E'@primaryKey id\\n@foreignKey (user_id) references users (id)|@foreignFieldName accounts\\n@behavior -insert -update -delete';
  `;
}

/** Adds users of every method with one or two accounts by plain SQL; triggers write the tallies. */
async function fill(url, users, smallProjects, log) {
  const { id: big } = await userdir(url, ['project', 'create', '--name', 'Big']);
  await withClient(url, async (client) => {
    await client.query(`SET synchronous_commit = off; SET maintenance_work_mem = '256MB'; SET work_mem = '64MB'`);
    const restore = await dropIndexes(client);

    const { rows: small } = await client.query(
      `INSERT INTO projects (name, app_id)
       SELECT 'Small ' || n, 'small-' || n FROM generate_series(1, $1::int) n RETURNING id`,
      [smallProjects],
    );
    const { smallest, largest } = SMALL_PROJECT;
    const sizes = small.map((_, index) =>
      Math.round(smallest * (largest / smallest) ** (index / Math.max(1, small.length - 1))),
    );
    let firstId = 1;
    for (const [index, { id }] of [{ id: big }, ...small].entries()) {
      const size = index === 0 ? users : sizes[index - 1];
      for (let done = 0; done < size; done += CHUNK) {
        await insertUsers(client, { projectId: id, firstId, size, from: done, to: Math.min(size, done + CHUNK) });
        if (index === 0) log(`  ${Math.min(size, done + CHUNK)} users`);
      }
      firstId += size;
    }
    await client.query(`SELECT setval('users_id_seq', $1)`, [firstId]);

    log('  indexes');
    for (const statement of restore) await client.query(statement);
    log('  tallies');
    for (const { id } of [{ id: big }, ...small]) await fold(client, id);
    log('  vacuum');
    await client.query('VACUUM (ANALYZE)');
    await client.query('CHECKPOINT');
  });
}

export async function fold(client, projectId) {
  for (;;) {
    const { rows } = await client.query('SELECT fold_tallies($1, 1000000) AS folded', [projectId]);
    if (rows[0].folded === 0) return;
  }
}

/** Drops what is expensive to maintain per row; returns the statements that recreate it. */
async function dropIndexes(client) {
  const { rows } = await client.query(`
    SELECT 1 AS step, format('DROP INDEX %I', indexrelid::regclass::text) AS dropped, pg_get_indexdef(indexrelid) AS made
    FROM pg_index WHERE indrelid IN ('users'::regclass, 'accounts'::regclass) AND NOT indisprimary
    UNION ALL
    SELECT 2, format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
           format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
    FROM pg_constraint WHERE contype = 'f' AND conrelid IN ('users'::regclass, 'accounts'::regclass)
    ORDER BY step`);
  for (const { dropped } of rows) await client.query(dropped);
  return rows.map(({ made }) => made);
}

/** Users `from` to `to` of the `size` of a project; registrations follow their ids. */
async function insertUsers(client, { projectId, firstId, size, from, to }) {
  await client.query('BEGIN');
  await client.query(
    `CREATE TEMPORARY TABLE made ON COMMIT DROP AS
     SELECT id, (id * 37) % 100 AS kind, created_at, stellar,
            '0x' || substr(encode(sha256(int8send(id)), 'hex'), 1, 40) AS ethereum
     FROM (
       SELECT $1::bigint + n AS id, stellar,
              date_trunc('milliseconds', timestamptz '${FIRST_DAY}' + (timestamptz '${LAST_DAY}' - '${FIRST_DAY}') * (n::float8 / $2)) AS created_at
       FROM (SELECT stellar, $3::bigint + place - 1 AS n FROM unnest($4::text[]) WITH ORDINALITY AS part(stellar, place)) AS placed
     ) AS numbered`,
    [firstId, size, from, Array.from({ length: to - from }, () => stellarAddress())],
  );
  await client.query(
    `INSERT INTO users (project_id, id, auth_method, auth_value, auth_value_key, identity_email, wallet, created_at, last_login, login_count)
     SELECT $1, id, auth_method, auth_value, CASE WHEN auth_method IN ('email', 'wallet') AND auth_value NOT LIKE 'G%' THEN lower(auth_value) ELSE auth_value END,
            CASE WHEN auth_method = 'email' THEN lower(auth_value) WHEN auth_method IN ('google', 'apple') THEN 'person.' || id || '@example.org' END,
            CASE WHEN auth_method = 'wallet' THEN auth_value END,
            created_at, CASE WHEN id % 20 > 0 THEN created_at + interval '1 hour' * (id % 500) END, id % 20 * 3
     FROM made
     CROSS JOIN LATERAL (SELECT CASE WHEN kind < 45 THEN 'email' WHEN kind < 57 THEN 'passkey' WHEN kind < 75 THEN 'wallet'
                                     ELSE (ARRAY['google', 'google', 'apple', 'github', 'discord'])[id % 5 + 1] END AS auth_method) AS m
     CROSS JOIN LATERAL (SELECT CASE auth_method WHEN 'email' THEN 'person.' || id || '@example.com'
                                                 WHEN 'passkey' THEN encode(sha256(int8send(-id)), 'base64')
                                                 WHEN 'wallet' THEN CASE WHEN id % 5 < 3 THEN stellar ELSE ethereum END
                                                 ELSE auth_method || '|' || id END AS auth_value) AS v
     ORDER BY id`,
    [projectId],
  );
  await client.query(
    `INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
     SELECT $1, made.id, a.network::network, a.address, a.address, a.wallet_type::wallet_type
     FROM made
     CROSS JOIN LATERAL (
       SELECT 'stellar' AS network, stellar AS address, CASE WHEN is_wallet THEN 'external' ELSE 'custodial' END AS wallet_type
       FROM (SELECT kind BETWEEN 57 AND 74 AS is_wallet) AS w WHERE NOT is_wallet OR id % 5 < 3
       UNION ALL
       SELECT 'ethereum', ethereum, CASE WHEN is_wallet THEN 'external' ELSE 'custodial' END
       FROM (SELECT kind BETWEEN 57 AND 74 AS is_wallet) AS w WHERE id % 5 >= 3
     ) AS a
     ORDER BY made.id, a.network`,
    [projectId],
  );
  await client.query('COMMIT');
}

const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

function base32(bytes) {
  let text = '';
  for (let bit = 0; bit < bytes.length * 8; bit += 5) {
    const pair = (bytes[bit >> 3] << 8) | (bytes[(bit >> 3) + 1] ?? 0);
    text += BASE32[(pair >> (11 - (bit & 7))) & 31];
  }
  return text;
}

/** CRC-16/XMODEM. */
function crc16(bytes) {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc;
}

/** A valid Stellar address of random bytes. */
export function stellarAddress() {
  const payload = Buffer.concat([Buffer.from([6 << 3]), randomBytes(32)]);
  const crc = crc16(payload);
  return base32(Buffer.concat([payload, Buffer.from([crc & 0xff, crc >> 8])]));
}
