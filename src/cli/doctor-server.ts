import { existsSync } from 'node:fs';
import { type Config, LOOPBACK } from '../config/config.js';
import type { Finding } from '../dashboard/builder.js';
import type { Database } from '../db/database.js';
import { adviseConnection } from './connection-failure.js';
import { explainFailure } from './terminal.js';

/** What a check finds. */
export type Outcome = Omit<Finding, 'id'>;

export const passed = (found: string): Outcome => ({ status: 'passed', found, advice: null });
export const skipped = (found: string): Outcome => ({ status: 'skipped', found, advice: null });
export const warning = (found: string, advice: string): Outcome => ({ status: 'warning', found, advice });
export const failed = (found: string, advice: string): Outcome => ({ status: 'failed', found, advice });

/** The limit of a check. node-postgres has this option; its types lack it. */
const QUERY_TIMEOUT = { query_timeout: 10_000 };

export async function queryRow(db: Database, text: string, pool = db.pool): Promise<Record<string, string>> {
  const { rows } = await pool.query({ text, ...QUERY_TIMEOUT });
  return rows[0];
}

/** What `userdir doctor` finds in the URL of the database: what node-postgres ignores in silence, and what is not verified. */

export function checkDatabaseUrls(config: Config): Finding[] {
  return [...checkUrls(config)].map((outcome) => ({ id: 'database-url', ...outcome }));
}

function* checkUrls({ db }: Config): Generator<Outcome> {
  if (db.engine === 'embedded') return;
  yield* checkUrl('DATABASE_URL', new URL(db.url));
  if (db.directUrl !== undefined) yield* checkUrl('DATABASE_DIRECT_URL', new URL(db.directUrl));
  if (db.replicaUrl !== undefined) yield* checkUrl('DATABASE_REPLICA_URL', new URL(db.replicaUrl), 'a standby');
}

function* checkUrl(
  setting: string,
  { hostname, searchParams }: URL,
  leadsTo: 'the primary' | 'a standby' = 'the primary',
): Generator<Outcome> {
  const advice = `Name one address that leads to ${leadsTo}, such as that of HAProxy (docs/operating.md).`;
  const hosts = searchParams.get('host') ?? decodeURIComponent(hostname);
  if (hosts.includes(',')) {
    yield failed(`${setting} has several hosts, and node-postgres connects to one`, advice);
    return;
  }
  if (searchParams.has('target_session_attrs')) {
    const found = `${setting} has target_session_attrs, which node-postgres ignores: it connects to any server`;
    yield failed(found, advice);
    return;
  }
  for (const name of FILES) {
    const file = searchParams.get(name);
    if (file !== null && !existsSync(file))
      yield failed(`${setting}: ${file}, the file of ${name}, does not exist`, `Correct ${name} in ${setting}.`);
  }
  const isLocal = hosts === '' || hosts.startsWith('/') || LOOPBACK.test(hosts.replace(/^\[(.*)\]$/, '$1'));
  const fault = isLocal ? null : findUnverified(searchParams);
  if (fault !== null) yield warning(`${setting}: ${fault}`, `Set sslmode=verify-full in ${setting}.`);
}

/** Parameters that name a file, which node-postgres reads before it connects. */
const FILES = ['sslrootcert', 'sslcert', 'sslkey'];

/** node-postgres verifies with every other mode, unless it is told to do as libpq does. */
function findUnverified(params: URLSearchParams): string | null {
  const isEncrypted = params.has('sslrootcert') || ['true', '1'].includes(params.get('ssl') ?? '');
  const mode = params.get('sslmode') ?? (isEncrypted ? 'verify-full' : 'disable');
  if (mode === 'disable') return 'the connection to another machine is not encrypted';
  const isUnverified = params.get('uselibpqcompat') === 'true' ? !/^verify-/.test(mode) : mode === 'no-verify';
  return isUnverified ? `sslmode=${mode} does not verify the certificate of the server` : null;
}

/** What `userdir doctor` checks where DATABASE_URL leads through a pooler, or should not. */

/** Which database a connection reaches. */
export const IDENTITY = 'SELECT system_identifier, current_database() AS name FROM pg_control_system()';

/** Whether the direct connection has sessions of its own, and leads to the database of the pool. */
export async function checkDirect(db: Database, hasDirectUrl: boolean): Promise<Outcome> {
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

/** A pooler does not pass these on from the service. */
const LACKING = `
  SELECT string_agg(format('ALTER ROLE %I IN DATABASE %I SET %s = %L;', current_user, current_database(), wanted.name, wanted.setting), E'\\n') AS statements,
         string_agg(format('%s is %s', wanted.name, s.setting), ', ') AS found
  FROM (VALUES ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan'), ('statement_timeout', '5s')) AS wanted(name, setting)
  JOIN pg_settings s ON s.name = wanted.name
  WHERE s.source <> 'client' AND CASE wanted.name WHEN 'statement_timeout' THEN s.setting = '0' ELSE s.setting <> wanted.setting END`;

/** Whether the role has the settings that the pooler drops. Time zone and encoding are checked in any case. */
export async function checkPooler(db: Database): Promise<Outcome> {
  const { found, statements } = await queryRow(db, LACKING);
  if (found === null) return passed('sessions have the settings of the service');
  return warning(`the pooler drops settings of the service: ${found}`, `Run as a superuser:\n${statements}`);
}

const ROLE = `
  SELECT current_user AS role, rolsuper AS superuser,
         EXISTS (SELECT FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
                   AND pg_has_role(relowner, 'USAGE')) AS owner
  FROM pg_roles WHERE rolname = current_user`;

/** Whether the role that serves could do more than serve: a fault in it would reach further. */
export async function checkRole(db: Database): Promise<Outcome> {
  const { role, superuser, owner } = await queryRow(db, ROLE);
  const advice =
    'Serve as a role that owns nothing, and migrate as the owner: "PostgreSQL: roles and TLS" in docs/operating.md.';
  if (superuser) return warning(`the role ${role} is a superuser: it may read and change everything there`, advice);
  if (owner) return warning(`the role ${role} owns the tables: it may change and drop them`, advice);
  return passed(`the role ${role} is neither a superuser nor the owner of the tables`);
}

/** What `userdir doctor` checks of the statistics by which PostgreSQL plans, and of autovacuum, which keeps them. */

/** Those of more rows than autovacuum analyzes a table for. A table that was analyzed while it was empty has none either. */
const WITHOUT_STATISTICS = `
  SELECT string_agg(format('%I', c.relname), ', ' ORDER BY c.relname) AS tables
  FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
  WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    AND s.last_analyze IS NULL AND s.last_autoanalyze IS NULL
    AND greatest(c.reltuples, s.n_live_tup) > current_setting('autovacuum_analyze_threshold')::int
    AND NOT EXISTS (SELECT FROM pg_stats WHERE schemaname = current_schema() AND tablename = c.relname)`;

/** Names tables that were filled and never analyzed, such as those of a restored dump. */
export async function checkStatistics(db: Database): Promise<Outcome> {
  const { tables } = await queryRow(db, WITHOUT_STATISTICS);
  if (tables === null) return passed('all tables with many rows were analyzed');
  return warning(
    `never analyzed: ${tables}, so PostgreSQL guesses how to read them`,
    `Run as the owner of the tables: ANALYZE ${tables};`,
  );
}

const AUTOVACUUM = `
  SELECT (SELECT string_agg(name, ', ') FROM pg_settings WHERE name IN ('autovacuum', 'track_counts') AND setting = 'off') AS off,
         string_agg(format('%I', c.relname), ', ' ORDER BY c.relname) AS tables,
         string_agg(format('ALTER TABLE %I RESET (autovacuum_enabled);', c.relname), E'\\n' ORDER BY c.relname) AS statements
  FROM pg_class c CROSS JOIN LATERAL pg_options_to_table(c.reloptions) AS o
  WHERE c.relnamespace = current_schema()::regnamespace AND o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean`;

/** Whether autovacuum is on, for the server and for each table. */
export async function checkAutovacuum(db: Database): Promise<Outcome> {
  const { off, tables, statements } = await queryRow(db, AUTOVACUUM);
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
