import { setTimeout as sleep } from 'node:timers/promises';
import { isOlder, VERSION } from '../config/build.js';
import type { DatabaseConfig } from '../config/config.js';
import { adviseConnection, explainFailure } from '../db/connection-failures.js';
import type { Database } from '../db/database.js';
import { isNotPermitted } from '../db/failures.js';
import { inspectMigrations } from '../db/migrate.js';
import { type RefusalReason, refusalOf } from '../db/refused-writes.js';
import { readRelease, UnpublishedError } from '../db/release.js';
import { failed, type Outcome, passed, warning } from '../domain/findings.js';
import { COMMAND } from '../errors.js';

/* What is checked of a database server, whatever its tables have. */

/** `setting` has the URL of the connection that is checked; without it DATABASE_URL has it. */
export type Check = readonly [id: string, check: () => Promise<Outcome>, setting?: string];

/** The limit of a check. node-postgres has this option; its types lack it. */
const QUERY_TIMEOUT = { query_timeout: 10_000 };

type Row = Readonly<Record<string, string>>;

async function queryRow(db: Database, text: string, pool = db.pool): Promise<Row> {
  const { rows } = await pool.query({ text, ...QUERY_TIMEOUT });
  return rows[0];
}

const ROLE = `
  SELECT current_user AS role, rolsuper AS superuser,
         EXISTS (SELECT FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
                   AND pg_has_role(relowner, 'USAGE')) AS owner
  FROM pg_roles WHERE rolname = current_user`;

/** A pooler does not pass these on from the service. Of limits, any is good. */
const DROPPED_SETTINGS = `
  SELECT string_agg(format('ALTER ROLE %I IN DATABASE %I SET %s = %L;', current_user, current_database(), wanted.name, wanted.setting), E'\\n') AS statements,
         string_agg(format('%s is %s', wanted.name, s.setting), ', ') AS found
  FROM (VALUES ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan'), ('statement_timeout', '5s'), ('lock_timeout', '4s')) AS wanted(name, setting)
  JOIN pg_settings s ON s.name = wanted.name
  WHERE s.source <> 'client' AND CASE WHEN wanted.name LIKE '%_timeout' THEN s.setting = '0' ELSE s.setting <> wanted.setting END`;

/** Those of more rows than autovacuum analyzes a table for. A table that was analyzed while it was empty has none either. */
const WITHOUT_STATISTICS = `
  SELECT string_agg(format('%I', c.relname), ', ' ORDER BY c.relname) AS tables
  FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
  WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    AND s.last_analyze IS NULL AND s.last_autoanalyze IS NULL
    AND greatest(c.reltuples, s.n_live_tup) > current_setting('autovacuum_analyze_threshold')::int
    AND NOT EXISTS (SELECT FROM pg_stats WHERE schemaname = current_schema() AND tablename = c.relname)`;

const AUTOVACUUM = `
  SELECT (SELECT string_agg(name, ', ') FROM pg_settings WHERE name IN ('autovacuum', 'track_counts') AND setting = 'off') AS off,
         string_agg(format('%I', c.relname), ', ' ORDER BY c.relname) AS tables,
         string_agg(format('ALTER TABLE %I RESET (autovacuum_enabled);', c.relname), E'\\n' ORDER BY c.relname) AS statements
  FROM pg_class c CROSS JOIN LATERAL pg_options_to_table(c.reloptions) AS o
  WHERE c.relnamespace = current_schema()::regnamespace AND o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean`;

/** The privileges that serving needs and the role lacks, and the statements that grant them. */
const LACKING_RIGHTS = `
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

/** The checks that are one statement: its row, and what that means. */
const STATEMENTS = {
  encoding: [
    "SELECT current_setting('server_encoding') AS value",
    requiring('UTF8', "Create a database with ENCODING 'UTF8' and move the data there."),
  ],
  'time-zone': [
    "SELECT current_setting('TimeZone') AS value",
    requiring('UTC', 'Let the connection pooler pass startup parameters to PostgreSQL.'),
  ],
  schema: [
    "SELECT current_schema() AS name, current_setting('search_path') AS path",
    ({ name, path }) =>
      name
        ? passed(name)
        : failed(`no schema of the search_path, ${path}, exists`, 'Create the schema, or correct the search_path.'),
  ],
  // A fault in a process that could do more than serve reaches further.
  role: [
    ROLE,
    ({ role, superuser, owner }) => {
      const advice =
        'Serve as a role that owns nothing, and migrate as the owner: "PostgreSQL: roles and TLS" in docs/operating.md.';
      if (superuser) return warning(`the role ${role} is a superuser: it may read and change everything there`, advice);
      if (owner) return warning(`the role ${role} owns the tables: it may change and drop them`, advice);
      return passed(`the role ${role} is neither a superuser nor the owner of the tables`);
    },
  ],
  // Time zone and encoding are checked in any case.
  pooler: [
    DROPPED_SETTINGS,
    ({ found, statements }) =>
      found === null
        ? passed('sessions have the settings of the service')
        : warning(
            `the role lacks settings that the pooler does not pass on: ${found}`,
            `Run as a superuser:\n${statements}`,
          ),
  ],
  durability: [
    `SELECT string_agg(name, ', ') AS off FROM pg_settings
     WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'`,
    ({ off }) =>
      off
        ? warning(`${off} off: a power cut may lose committed data`, `Turn ${off} on if the data matters.`)
        : passed('committed data survives a power cut'),
  ],
  autovacuum: [AUTOVACUUM, judgeAutovacuum],
  // Such as the tables of a restored dump.
  statistics: [
    WITHOUT_STATISTICS,
    ({ tables }) =>
      tables === null
        ? passed('all tables with many rows were analyzed')
        : warning(
            `never analyzed: ${tables}, so PostgreSQL guesses how to read them`,
            `Run as the owner of the tables: ANALYZE ${tables};`,
          ),
  ],
  rights: [
    LACKING_RIGHTS,
    ({ lacking, grants }) =>
      lacking
        ? failed(`the role lacks ${lacking}`, `Run as the owner of the tables:\n${grants}`)
        : passed('the role can read and write all tables'),
  ],
} satisfies Record<string, readonly [statement: string, judge: (row: Row) => Outcome]>;

const WRITABLE = "SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') AS readonly";
/** Needs a new page on the disk, and leaves nothing: it is undone. */
const TRIAL = [
  'BEGIN',
  "SET LOCAL statement_timeout = '10s'",
  'CREATE TEMPORARY TABLE userdir_trial (text text) ON COMMIT DROP',
  "INSERT INTO userdir_trial VALUES ('a page')",
];
const REFUSALS: Readonly<Record<RefusalReason, readonly [found: string, advice: string]>> = {
  no_space: ['there is no space left on its disk', 'Free space on the disk of PostgreSQL, or make it larger.'],
  read_only: ['it took only reads', 'See whether DATABASE_URL leads to the primary, and to one that is not read-only.'],
};
/** A refusal is a problem for so long, and told of for so long. */
const [REFUSED_MS, TOLD_MS] = [60_000, 86_400_000];

/** Whether the database takes writes: by its settings, by the writes of this process, and with `tries` by one that is undone. */
async function checkWritable(db: Database, tries: boolean): Promise<Outcome> {
  const { standby, readonly } = await queryRow(db, WRITABLE);
  if (standby) return failed('this is a standby', 'Set DATABASE_URL to the primary.');
  if (readonly === 'on')
    return failed('transactions are read-only', 'Turn default_transaction_read_only off for this role.');
  if (tries) await tryWrite(db);
  const refused = db.refusedWrites.last();
  if (refused === null) return passed(tries ? 'accepts writes' : 'accepts writes, and has refused none');
  const [found, advice] = REFUSALS[refused.reason];
  const ageMs = Date.now() - refused.at.getTime();
  const told = `a write was refused at ${refused.at.toISOString()}, because ${found}`;
  if (ageMs < REFUSED_MS) return failed(told, advice);
  return ageMs < TOLD_MS ? warning(`accepts writes; ${told}`, advice) : passed(`accepts writes; ${told}`);
}

/** Notes a refusal. A role without the right to temporary tables tells nothing. */
async function tryWrite(db: Database): Promise<void> {
  const client = await db.pool.connect();
  try {
    for (const text of TRIAL) await client.query({ text, ...QUERY_TIMEOUT });
  } catch (error) {
    db.refusedWrites.note(error);
    if (!isNotPermitted(error) && refusalOf(error) === null) throw error;
  } finally {
    await client.query('ROLLBACK').then(
      () => client.release(),
      () => client.release(true),
    );
  }
}

export function asking(db: Database, id: keyof typeof STATEMENTS): Check {
  const [statement, judge] = STATEMENTS[id];
  return [id, async () => judge(await queryRow(db, statement))];
}

function requiring(expected: string, advice: string) {
  return ({ value = '' }: Row) =>
    value === expected ? passed(value) : failed(`${value}, and it must be ${expected}`, advice);
}

function judgeAutovacuum({ off, tables, statements }: Row): Outcome {
  if (off === null && tables === null) return passed('on');
  const faults = [
    ...(off === null ? [] : [`${off} off`]),
    ...(tables === null ? [] : [`autovacuum off for ${tables}`]),
  ];
  const advice = [
    ...(off === null ? [] : [`Turn ${off} on in postgresql.conf.`]),
    ...(tables === null ? [] : [`Run as the owner of the tables:\n${statements}`]),
  ];
  return warning(`${faults.join('; ')}: dead rows stay, and statistics grow old`, advice.join('\n'));
}

/** The checks of a server, in their order. The last one is of the migrations. */
export function checksOfServer(db: Database, config: DatabaseConfig, tries: boolean): readonly Check[] {
  return [
    ['clock', () => checkClock(db)],
    asking(db, 'encoding'),
    asking(db, 'time-zone'),
    asking(db, 'schema'),
    ['writable', () => checkWritable(db, tries)],
    ...(config.engine === 'postgres' ? checksOfPostgres(db, config) : []),
    ['migrations', () => checkMigrations(db)],
  ];
}

function checksOfPostgres(
  db: Database,
  { replicaUrl, directUrl, poolSize }: Extract<DatabaseConfig, { engine: 'postgres' }>,
): Check[] {
  const { replica } = db;
  const hasDirectUrl = directUrl !== undefined;
  // Connections that listen for changed secrets, publish changes, vacuum and watch the replication. A pooler has the pool.
  const connections = (replicaUrl === undefined ? 3 : 4) + (hasDirectUrl ? 0 : poolSize);
  return [
    asking(db, 'role'),
    ['connections', () => checkConnections(db, connections)],
    ['direct-connection', () => checkDirect(db, hasDirectUrl)],
    ...(hasDirectUrl ? [asking(db, 'pooler'), ['prepared-statements', () => checkStatements(db)] as const] : []),
    ...(replica === null ? [] : [['replica', () => checkReplica(db, replica), 'DATABASE_REPLICA_URL'] as const]),
    asking(db, 'durability'),
    asking(db, 'autovacuum'),
    asking(db, 'statistics'),
  ];
}

const OLDEST_VERSION = 15;

/** Throws if the database does not answer at all. */
export async function checkVersion(db: Database, { engine }: DatabaseConfig): Promise<Outcome> {
  const started = performance.now();
  const { version = '', number } = await queryRow(
    db,
    "SELECT current_setting('server_version') AS version, current_setting('server_version_num') AS number",
  );
  const found = `PostgreSQL ${version}${engine === 'embedded' ? ', embedded' : ''}, answers in ${Math.ceil(performance.now() - started)} ms`;
  if (Number(number) >= OLDEST_VERSION * 10_000) return passed(found);
  return failed(found, `Upgrade to PostgreSQL ${OLDEST_VERSION} or newer.`);
}

/** The clock of the database decides when a secret and an idempotency key expire. */
const MAX_SKEW_MS = 2_000;

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

/** Which database a connection reaches. */
const IDENTITY = 'SELECT system_identifier, current_database() AS name FROM pg_control_system()';

/** Whether the direct connection has sessions of its own, and leads to the database of the pool. */
async function checkDirect(db: Database, hasDirectUrl: boolean): Promise<Outcome> {
  const fault: unknown = await db.requireSessions().then(
    () => null,
    (error) => error,
  );
  if (fault !== null) {
    const advice = adviseConnection(fault, hasDirectUrl ? 'DATABASE_DIRECT_URL' : 'DATABASE_URL');
    return failed(explainFailure(fault), advice ?? 'Without it, the feed of changes stops at the next restart.');
  }
  if (!hasDirectUrl) return passed('DATABASE_URL leads to PostgreSQL without a pooler of transactions');
  const pooled = await queryRow(db, IDENTITY);
  const direct = await queryRow(db, IDENTITY, db.direct);
  if (pooled['system_identifier'] === direct['system_identifier'] && pooled['name'] === direct['name'])
    return passed('DATABASE_DIRECT_URL leads to the database of DATABASE_URL');
  return failed(
    `DATABASE_DIRECT_URL leads to another database: ${direct['name']} instead of ${pooled['name']}, or one of another server`,
    'Correct DATABASE_DIRECT_URL.',
  );
}

/** Whether each session that the pooler lends has the statements that requests have prepared. */
async function checkStatements(db: Database): Promise<Outcome> {
  try {
    await db.requireStatements();
    return passed('each session has the prepared statements of requests');
  } catch (error) {
    const advice = adviseConnection(error, 'DATABASE_URL');
    return failed(explainFailure(error), advice ?? 'Without it, requests fail in sessions that others had before.');
  }
}

/** How often the standby is asked whether it has replayed everything. */
const REPLICA_POLL_MS = 100;
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

async function checkMigrations(db: Database): Promise<Outcome> {
  const inspected = await inspectMigrations(db.pool).catch((error) => {
    if (error instanceof UnpublishedError) return null;
    throw error;
  });
  if (inspected === null) return failed(UnpublishedError.FOUND, UnpublishedError.ADVICE);
  const { missing, unknown } = inspected;
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
