import { setTimeout as sleep } from 'node:timers/promises';
import { isOlder, VERSION } from '../config/build.js';
import type { Config } from '../config/config.js';
import type { Services } from '../context.js';
import type { Finding } from '../dashboard/builder.js';
import type { Database } from '../db/database.js';
import { inspectMigrations } from '../db/migrate.js';
import { readRelease } from '../db/release.js';
import { COMMAND } from '../errors.js';
import { adviseConnection } from './connection-failure.js';
import {
  checkAutovacuum,
  checkDirect,
  checkPooler,
  checkRole,
  checkStatistics,
  failed,
  IDENTITY,
  type Outcome,
  passed,
  queryRow,
  skipped,
  warning,
} from './doctor-server.js';
import { counted, explainFailure } from './terminal.js';

/** What `userdir doctor` checks in an open database. It runs in its own process, or in the server that holds the database. */

export interface ExaminationParams {
  readonly engine: 'embedded' | 'postgres';
  /** How many connections to PostgreSQL a process of the service opens. Those to a pooler are the pooler's. */
  readonly connections: number;
  /** Whether DATABASE_DIRECT_URL is set. */
  readonly hasDirectUrl: boolean;
  /** Whether to count the users of some projects. */
  readonly totals: boolean;
}

/** What to examine in the database of a configuration. */
export function examinationOf({ db }: Config, totals: boolean): ExaminationParams {
  if (db.engine === 'embedded') return { engine: db.engine, connections: 1, hasDirectUrl: false, totals };
  // Connections that listen for changed secrets, publish changes, vacuum and watch the replication. A pooler has the pool.
  const outside = db.replicaUrl === undefined ? 3 : 4;
  const hasDirectUrl = db.directUrl !== undefined;
  const connections = outside + (hasDirectUrl ? 0 : db.poolSize);
  return { engine: db.engine, connections, hasDirectUrl, totals };
}

/** How often the standby is asked whether it has replayed everything. */
const REPLICA_POLL_MS = 100;
const OLDEST_VERSION = 15;
/** The clock of the database decides when a secret and an idempotency key expire. */
const MAX_SKEW_MS = 2_000;

type Check = readonly [id: string, check: () => Promise<Outcome>, setting?: string];

/** Throws if the database does not answer at all. */
export async function examineDatabase(
  { db, services }: { db: Database; services: Services },
  params: ExaminationParams,
): Promise<Finding[]> {
  const findings: Finding[] = [{ id: 'database', ...(await checkVersion(db, params)) }];
  const server: Check[] = [
    ['clock', () => checkClock(db)],
    ['encoding', () => checkSetting(db, 'server_encoding', 'UTF8', RECREATE)],
    [
      'time-zone',
      () => checkSetting(db, 'TimeZone', 'UTC', 'Let the connection pooler pass startup parameters to PostgreSQL.'),
    ],
    ['schema', () => checkSchema(db)],
    ...(params.engine === 'postgres' ? checksOfPostgres(db, params) : []),
    ['migrations', () => checkMigrations(db)],
  ];
  for (const check of server) findings.push(await attempt(...check));
  const isMigrated = ['passed', 'warning'].includes(findings.at(-1)?.status ?? '');
  const tables: Check[] = [
    ['rights', () => checkPrivileges(db)],
    ['restores', () => checkRestores(services)],
    ['changes', () => checkChanges(services)],
    ['webhooks', () => checkWebhooks(services)],
    ['totals', () => checkTotals(services)],
  ];
  for (const [id, check] of tables) {
    if (id === 'totals' && !params.totals) findings.push({ id, ...skipped('not checked because of --no-totals') });
    else if (isMigrated) findings.push(await attempt(id, check));
    else findings.push({ id, ...skipped('not checked before the migrations are applied') });
  }
  return findings;
}

function checksOfPostgres(db: Database, { connections, hasDirectUrl }: ExaminationParams): Check[] {
  const { replica } = db;
  return [
    ['writable', () => checkWritable(db)],
    ['role', () => checkRole(db)],
    ['connections', () => checkConnections(db, connections)],
    ['direct-connection', () => checkDirect(db, hasDirectUrl)],
    ...(hasDirectUrl ? [['pooler', () => checkPooler(db)] as const] : []),
    ...(replica === null ? [] : [['replica', () => checkReplica(db, replica), 'DATABASE_REPLICA_URL'] as const]),
    ['durability', () => checkDurability(db)],
    ['autovacuum', () => checkAutovacuum(db)],
    ['statistics', () => checkStatistics(db)],
  ];
}

/** A check that throws is a failed finding; the other checks still run. `setting` has the URL of its connection. */
async function attempt(id: string, check: () => Promise<Outcome>, setting = 'DATABASE_URL'): Promise<Finding> {
  const outcome = await check().catch((error) =>
    failed(explainFailure(error), adviseConnection(error, setting) ?? 'See the log of the database.'),
  );
  return { id, ...outcome };
}

const RECREATE = "Create a database with ENCODING 'UTF8' and move the data there.";

async function checkVersion(db: Database, { engine }: ExaminationParams): Promise<Outcome> {
  const started = performance.now();
  const { version = '', number } = await queryRow(
    db,
    "SELECT current_setting('server_version') AS version, current_setting('server_version_num') AS number",
  );
  const found = `PostgreSQL ${version}${engine === 'embedded' ? ', embedded' : ''}, answers in ${Math.ceil(performance.now() - started)} ms`;
  if (Number(number) >= OLDEST_VERSION * 10_000) return passed(found);
  return failed(found, `Upgrade to PostgreSQL ${OLDEST_VERSION} or newer.`);
}

async function checkClock(db: Database): Promise<Outcome> {
  const askedAt = Date.now();
  const { now } = await queryRow(db, 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now');
  const answeredAt = Date.now();
  // The database read its clock at an unknown moment in between.
  const skewMs = Math.round(Number(now) - (askedAt + answeredAt) / 2);
  const uncertaintyMs = Math.ceil((answeredAt - askedAt) / 2);
  if (Math.abs(skewMs) - uncertaintyMs <= MAX_SKEW_MS)
    return passed(
      `the clocks of the database and this machine differ by at most ${Math.abs(skewMs) + uncertaintyMs} ms`,
    );
  const found = `the clock of the database is ${Math.abs(skewMs)} ms ${skewMs > 0 ? 'ahead of' : 'behind'} this machine's`;
  return failed(found, 'Synchronize both clocks by NTP; otherwise secrets expire too early or too late.');
}

async function checkSetting(db: Database, name: string, wanted: string, advice: string): Promise<Outcome> {
  const { value = '' } = await queryRow(db, `SELECT current_setting('${name}') AS value`);
  return value === wanted ? passed(value) : failed(`${value}, and it must be ${wanted}`, advice);
}

async function checkSchema(db: Database): Promise<Outcome> {
  const { name, path } = await queryRow(db, "SELECT current_schema() AS name, current_setting('search_path') AS path");
  if (name) return passed(name);
  return failed(`no schema of the search_path, ${path}, exists`, 'Create the schema, or correct the search_path.');
}

async function checkWritable(db: Database): Promise<Outcome> {
  const { standby, readonly } = await queryRow(
    db,
    "SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') AS readonly",
  );
  if (standby) return failed('this is a standby', 'Set DATABASE_URL to the primary.');
  if (readonly === 'on')
    return failed('transactions are read-only', 'Turn default_transaction_read_only off for this role.');
  return passed('accepts writes');
}

async function checkConnections(db: Database, needed: number): Promise<Outcome> {
  const { allowed, used } = await queryRow(
    db,
    `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS allowed,
            (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS used`,
  );
  const found = `${used} of ${allowed} in use; each process of the service opens up to ${needed}`;
  if (Number(allowed) - Number(used) >= needed) return passed(found);
  return warning(found, 'Raise max_connections, or lower DATABASE_POOL_SIZE.');
}

const MIGRATED = 'SELECT count(*)::text AS migrations FROM _prisma_migrations';
const STANDBY = `
  SELECT pg_is_in_recovery() AS standby, system_identifier, current_database() AS name,
         (SELECT count(*) FROM pg_stat_wal_receiver)::int AS receivers, current_setting('hot_standby_feedback') AS feedback
  FROM pg_control_system()`;

/** Whether it is a standby of this primary, and keeps up with it. */
async function checkReplica(db: Database, replica: NonNullable<Database['replica']>): Promise<Outcome> {
  const wrong = (found: string) =>
    failed(found, 'Set DATABASE_REPLICA_URL to a standby of the database of DATABASE_URL.');
  const primary = await queryRow(db, IDENTITY);
  const standby = await replica.ask(STANDBY);
  if (standby['system_identifier'] !== primary['system_identifier'] || standby['name'] !== primary['name'])
    return wrong('DATABASE_REPLICA_URL leads to another database than DATABASE_URL');
  if (!standby['standby']) return wrong('DATABASE_REPLICA_URL leads to a server that is not a standby');
  const { position } = await queryRow(db, 'SELECT pg_current_wal_flush_lsn() AS position');
  const started = performance.now();
  const hasReplayed = `SELECT pg_last_wal_replay_lsn() >= '${position}' AS "isThere"`;
  while (!(await replica.ask(hasReplayed))['isThere']) {
    if (performance.now() - started > replica.maxAgeMs)
      return failed(
        `the standby is more than ${replica.maxAgeMs} ms behind the primary, so lists are read on the primary`,
        'See the log of the standby. It may have lost its place in the log of the primary: give it a replication slot.',
      );
    await sleep(REPLICA_POLL_MS);
  }
  const behind = `has replayed everything after ${Math.ceil(performance.now() - started)} ms`;
  const [here, there] = [await queryRow(db, MIGRATED), await replica.ask(MIGRATED)];
  if (here['migrations'] !== there['migrations']) return wrong('the standby lacks migrations of the primary');
  if (!standby['receivers'])
    return warning(
      `the standby ${behind}, but it is not connected to the primary`,
      'See the log of the standby: it will stay behind as soon as the primary writes.',
    );
  if (standby['feedback'] !== 'on')
    return warning(
      `the standby ${behind}; hot_standby_feedback is off, so the primary can end exports and long reads there`,
      'Turn hot_standby_feedback on, on the standby.',
    );
  return passed(`the standby ${behind}`);
}

async function checkDurability(db: Database): Promise<Outcome> {
  const { off } = await queryRow(
    db,
    `SELECT string_agg(name, ', ') AS off FROM pg_settings
     WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'`,
  );
  if (!off) return passed('committed data survives a power cut');
  return warning(`${off} off: a power cut may lose committed data`, `Turn ${off} on if the data matters.`);
}

async function checkMigrations(db: Database): Promise<Outcome> {
  const { missing, unknown } = await inspectMigrations(db.pool);
  if (missing.length > 0) {
    const { may, role } = await queryRow(
      db,
      "SELECT has_schema_privilege(current_schema(), 'CREATE') AS may, current_user AS role",
    );
    const advice = may
      ? `Run ${COMMAND} migrate, or serve, which applies them too.`
      : `Run ${COMMAND} migrate as the owner of the tables. The role ${role} may not.`;
    return failed(`missing: ${missing.join(', ')}`, advice);
  }
  const { schema, oldest } = await readRelease(db.pool);
  const applied = `all applied up to ${schema}; userdir ${oldest} or newer may serve, and this is ${VERSION}`;
  if (oldest !== null && isOlder(VERSION, oldest))
    return failed(applied, `Upgrade this userdir to ${oldest} or newer.`);
  if (unknown.length === 0) return passed(applied);
  const found = `${applied}; also ${unknown.join(', ')}, which this version does not know`;
  return warning(found, `A newer userdir has migrated this database. Upgrade this one, ${VERSION}.`);
}

/** The privileges that serving needs and the role lacks, and the statements that grant them. */
const LACKING = `
  WITH wanted AS (
    SELECT c.oid, c.relname, c.relkind = 'S' AS is_sequence, needed.privilege, needed.place
    FROM pg_class c CROSS JOIN LATERAL unnest(CASE
      WHEN c.relkind = 'S' THEN ARRAY['USAGE']
      WHEN c.relname = '_prisma_migrations' THEN ARRAY['SELECT']
      ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']
    END) WITH ORDINALITY AS needed(privilege, place)
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'S')
  ), lacking AS (
    SELECT relname, is_sequence, string_agg(privilege, ', ' ORDER BY place) AS privileges
    FROM wanted
    WHERE NOT CASE WHEN is_sequence THEN has_sequence_privilege(oid, privilege) ELSE has_table_privilege(oid, privilege) END
    GROUP BY relname, is_sequence
  ), grants AS (
    SELECT format('GRANT %s ON %s %s TO %I;', privileges, CASE WHEN is_sequence THEN 'SEQUENCE' ELSE 'TABLE' END,
      string_agg(format('%I', relname), ', ' ORDER BY relname), current_user) AS statement
    FROM lacking GROUP BY privileges, is_sequence
  )
  SELECT (SELECT string_agg(format('%s (%s)', relname, privileges), ', ' ORDER BY is_sequence, relname) FROM lacking) AS lacking,
         (SELECT string_agg(statement, E'\\n' ORDER BY statement) FROM grants) AS grants`;

async function checkPrivileges(db: Database): Promise<Outcome> {
  const { lacking, grants } = await queryRow(db, LACKING);
  if (!lacking) return passed('the role can read and write all tables');
  return failed(`the role lacks ${lacking}`, `Run as the owner of the tables:\n${grants}`);
}

/** For so long after a restore it is told of. */
const RESTORE_SECONDS = 7 * 86_400;

/** Names a restore: one that the next start will notice, and one of the last days. */
async function checkRestores({ changes }: Services): Promise<Outcome> {
  const advice = 'docs/operating.md, "After a restore", says what to do.';
  if ((await changes.recognise('look')) === 'restored')
    return warning(
      'the database was restored or copied; the next start pauses the webhooks, and begins new IDs',
      advice,
    );
  const at = await changes.findRestore();
  if (at === null) return passed('it was never restored');
  const found = `it was restored, which was noticed at ${at}`;
  return Date.now() - Date.parse(at) > RESTORE_SECONDS * 1_000 ? passed(found) : warning(found, advice);
}

/** A younger transaction is nothing unusual. */
const MAX_TRANSACTION_SECONDS = 60;
/** A leader that works is never silent for so long. */
const MAX_SILENT_SECONDS = 5;

/** Names the process that publishes changes, and what holds up the feed. */
async function checkChanges({ changes }: Services): Promise<Outcome> {
  const [oldest, leader] = [await changes.findOldestWriter(), await changes.findLeader()];
  if (leader !== null && (leader.silentSeconds ?? 0) > MAX_SILENT_SECONDS)
    return warning(
      `${describeLeader(leader)}: its process is frozen, and the feed of changes with it`,
      `Another server ends its session after 10 s. Without one: SELECT pg_terminate_backend(${leader.pid}).`,
    );
  if (oldest === null || oldest.seconds < MAX_TRANSACTION_SECONDS)
    return passed(`no old transaction holds up the feed${leader === null ? '' : `; ${describeLeader(leader)}`}`);
  const { pid, name, role, state, seconds } = oldest;
  const where = `of role ${role}, open for ${Math.floor(seconds / 60)} min`;
  if (pid === null) {
    const gid = `'${name.replaceAll("'", "''")}'`;
    return warning(
      `the prepared transaction ${gid} ${where}, holds up the feed of changes`,
      `It has no process. Run in this database: ROLLBACK PREPARED ${gid}; or COMMIT PREPARED ${gid};`,
    );
  }
  return warning(
    `process ${pid} (${name || 'without a name'}) ${where} (${state}), holds up the feed of changes`,
    `End its transaction; if it is stuck: SELECT pg_terminate_backend(${pid}).`,
  );
}

type Leader = NonNullable<Awaited<ReturnType<Services['changes']['findLeader']>>>;

function describeLeader({ pid, role, address, seconds, silentSeconds }: Leader): string {
  const age = seconds === null ? '' : ` for ${Math.round(seconds)} s`;
  const silence = silentSeconds === null ? '' : `, silent for ${silentSeconds.toFixed(1)} s`;
  return `process ${pid} of role ${role}${address === null ? '' : ` at ${address}`} leads it${age}${silence}`;
}

/** Names webhooks that nothing is sent to. */
async function checkWebhooks({ webhooks }: Services): Promise<Outcome> {
  const { enabled, paused, disabled } = await webhooks.findFigures();
  if (paused + disabled === 0) return passed(enabled === 0 ? 'there is none' : `${enabled} enabled`);
  const named = (await webhooks.findStopped()).map(({ appId, id, status }) => `${id} of ${appId} is ${status}`);
  const more = paused + disabled - named.length;
  return warning(
    `${named.join(', ')}${more > 0 ? `, and ${more} more are not enabled` : ''}`,
    `${COMMAND} webhook list says why. Resume it, or remove it.`,
  );
}

/** What is checked of many projects: a sample, drawn anew each time, that takes seconds. */
const SAMPLED_PROJECTS = 100;
const SAMPLED_USERS = 300_000;

async function checkTotals({ projects, totals }: Services): Promise<Outcome> {
  const all = await projects.countProjects();
  const wrongAppIds = [];
  let [checked, users] = [0, 0];
  for (const { appId, totalUser } of await projects.sampleProjects(SAMPLED_PROJECTS)) {
    if (users >= SAMPLED_USERS) break;
    const differences = await totals.check(await projects.getScope(appId));
    if (differences.length > 0) wrongAppIds.push(appId);
    checked += 1;
    users += totalUser;
  }
  const more = checked < all ? `; ${all - checked} others were not checked: ${COMMAND} totals check counts all` : '';
  if (wrongAppIds.length === 0)
    return passed(`exact for ${counted(users, 'user')} of ${counted(checked, 'project')}${more}`);
  return failed(`wrong in ${wrongAppIds.join(', ')}${more}`, `Run ${COMMAND} totals check --repair.`);
}
