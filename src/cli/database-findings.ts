import type { Database } from '../db/database.js';
import { inspectMigrations } from '../db/migrate.js';
import type { Services } from '../services/services.js';
import { VERSION } from '../config/version.js';
import { reason } from './output.js';

/** What `userdir doctor` says of a database. It runs where the database is open: here, or in a server that holds it. */

export interface Finding {
  /** Never changes, so that scripts can look for it. */
  readonly id: string;
  readonly status: 'passed' | 'warning' | 'failed' | 'skipped';
  readonly found: string;
  /** What to do about it. */
  readonly advice: string | null;
}

export const passed = (id: string, found: string): Finding => ({ id, status: 'passed', found, advice: null });
export const skipped = (id: string, found: string): Finding => ({ id, status: 'skipped', found, advice: null });
export const warning = (id: string, found: string, advice: string): Finding => ({
  id,
  status: 'warning',
  found,
  advice,
});
export const failed = (id: string, found: string, advice: string): Finding => ({ id, status: 'failed', found, advice });

export interface DatabaseQuestion {
  readonly engine: 'embedded' | 'postgres';
  /** How many connections a serving process takes. */
  readonly connections: number;
  /** Whether to count all users. */
  readonly totals: boolean;
}

/** For a database that has taken the question and never answers. */
const PATIENCE = { query_timeout: 10_000 };
const OLDEST_VERSION = 15;
/** A secret ends, and an idempotency key is forgotten, by the clock of the database. */
const MAX_SKEW_MS = 2_000;

/** Throws where the database does not answer. */
export async function examineDatabase(
  { db, services }: { db: Database; services: Services },
  question: DatabaseQuestion,
): Promise<{ version: string; findings: Finding[] }> {
  const findings = [await findVersion(db, question)];
  findings.push(await guarded('clock', () => findSkew(db)));
  findings.push(await guarded('encoding', () => findSession(db, 'encoding')));
  findings.push(await guarded('time-zone', () => findSession(db, 'time-zone')));
  if (question.engine === 'postgres') {
    findings.push(await guarded('writable', () => findWritable(db)));
    findings.push(await guarded('connections', () => findConnections(db, question.connections)));
    findings.push(await guarded('durability', () => findDurability(db)));
  }
  const migrations = await guarded('migrations', () => findMigrations(db));
  findings.push(migrations);
  const hasTables = migrations.status === 'passed' || migrations.status === 'warning';
  const ifTables = (id: string, look: () => Promise<Finding>) =>
    hasTables ? guarded(id, look) : skipped(id, 'the migrations come first');
  findings.push(await ifTables('rights', () => findRights(db)));
  const totals = () => findTotals(services);
  findings.push(question.totals ? await ifTables('totals', totals) : skipped('totals', 'left out by --no-totals'));
  return { version: VERSION, findings };
}

/** What cannot be found out is a finding too. */
async function guarded(id: string, look: () => Promise<Finding>): Promise<Finding> {
  return look().catch((error) => failed(id, reason(error), 'See the log of the database.'));
}

async function ask(db: Database, text: string): Promise<Record<string, string>> {
  const { rows } = await db.pool.query({ text, ...PATIENCE });
  return rows[0];
}

async function findVersion(db: Database, { engine }: DatabaseQuestion): Promise<Finding> {
  const started = performance.now();
  const { version = '', number } = await ask(
    db,
    "SELECT current_setting('server_version') AS version, current_setting('server_version_num') AS number",
  );
  const found = `PostgreSQL ${version}${engine === 'embedded' ? ', embedded' : ''}, answers in ${Math.ceil(performance.now() - started)} ms`;
  if (Number(number) >= OLDEST_VERSION * 10_000) return passed('database', found);
  return failed('database', found, `Move to PostgreSQL ${OLDEST_VERSION} or newer.`);
}

async function findSkew(db: Database): Promise<Finding> {
  const asked = Date.now();
  const { now } = await ask(db, 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now');
  const answered = Date.now();
  // When in between the database looked at its clock is not known.
  const skewMs = Math.round(Number(now) - (asked + answered) / 2);
  const uncertainMs = Math.ceil((answered - asked) / 2);
  if (Math.abs(skewMs) - uncertainMs <= MAX_SKEW_MS)
    return passed('clock', `the database's is within ${Math.abs(skewMs) + uncertainMs} ms of this machine's`);
  const found = `the database's is ${Math.abs(skewMs)} ms ${skewMs > 0 ? 'ahead of' : 'behind'} this machine's`;
  return failed('clock', found, 'Set both by NTP: secrets would end too early or too late.');
}

async function findSession(db: Database, id: 'encoding' | 'time-zone'): Promise<Finding> {
  const [setting, wanted, advice] =
    id === 'encoding'
      ? ['server_encoding', 'UTF8', "Make a database with ENCODING 'UTF8' and move the data there."]
      : ['TimeZone', 'UTC', 'Let startup options pass through what stands between here and PostgreSQL.'];
  const { value = '' } = await ask(db, `SELECT current_setting('${setting}') AS value`);
  return value === wanted ? passed(id, value) : failed(id, `${value}, and it must be ${wanted}`, advice);
}

async function findWritable(db: Database): Promise<Finding> {
  const { standby, readonly } = await ask(
    db,
    "SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') AS readonly",
  );
  if (standby) return failed('writable', 'this is a standby', 'Let DATABASE_URL name the primary.');
  if (readonly === 'on')
    return failed('writable', 'transactions are read-only', 'Turn default_transaction_read_only off for this role.');
  return passed('writable', 'takes what is written');
}

async function findConnections(db: Database, wanted: number): Promise<Finding> {
  const { allowed, used } = await ask(
    db,
    `SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS allowed,
            (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS used`,
  );
  const found = `${used} of ${allowed} in use; a serving process takes up to ${wanted}`;
  if (Number(allowed) - Number(used) >= wanted) return passed('connections', found);
  return warning('connections', found, 'Raise max_connections, or lower DATABASE_POOL_SIZE.');
}

async function findDurability(db: Database): Promise<Finding> {
  const { off } = await ask(
    db,
    `SELECT string_agg(name, ', ') AS off FROM pg_settings
     WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND setting = 'off'`,
  );
  if (!off) return passed('durability', 'what is committed survives a power cut');
  return warning(
    'durability',
    `${off} off: a power cut may lose what was committed`,
    `Turn ${off} on where data matters.`,
  );
}

async function findMigrations(db: Database): Promise<Finding> {
  const { missing, unknown } = await inspectMigrations(db.pool);
  if (missing.length > 0)
    return failed('migrations', `missing: ${missing.join(', ')}`, 'userdir migrate applies them, and so does serve.');
  if (unknown.length === 0) return passed('migrations', 'all are applied');
  const found = `all are applied, and ${unknown.join(', ')}, which this version does not know`;
  return warning('migrations', found, `A newer userdir has migrated it; this is ${VERSION}.`);
}

/** What serving needs of the role, table by table. */
async function findRights(db: Database): Promise<Finding> {
  const { lacking } = await ask(
    db,
    `SELECT string_agg(relname || ' (' || privilege || ')', ', ' ORDER BY relname, privilege) AS lacking
     FROM pg_class, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
     WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relname <> '_prisma_migrations'
       AND NOT has_table_privilege(pg_class.oid, privilege)`,
  );
  if (!lacking) return passed('rights', 'the role may read and write the tables');
  return failed('rights', `the role lacks ${lacking}`, 'Grant SELECT, INSERT, UPDATE and DELETE on all tables to it.');
}

async function findTotals(services: Services): Promise<Finding> {
  const projects = await services.projects.listProjects();
  const wrong = [];
  for (const { appId } of projects) {
    const differences = await services.totals.check(await services.projects.getScope(appId));
    if (differences.length > 0) wrong.push(appId);
  }
  const users = projects.reduce((sum, { totalUser }) => sum + totalUser, 0);
  if (wrong.length === 0) return passed('totals', `exact for ${users} users of ${projects.length} projects`);
  return failed('totals', `not those of the users in ${wrong.join(', ')}`, 'userdir totals check --repair mends them.');
}
