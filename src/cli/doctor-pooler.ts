import type { Database } from '../db/database.js';
import { adviseConnection } from './connection-failure.js';
import { type Finding, failed, passed, QUERY_TIMEOUT, warning } from './finding.js';
import { explainFailure } from './terminal.js';

/** What `userdir doctor` checks where DATABASE_URL leads through a pooler, or should not. */

/** Which database a connection reaches. */
export const IDENTITY = 'SELECT system_identifier, current_database() AS name FROM pg_control_system()';

/** Whether the direct connection has sessions of its own, and leads to the database of the pool. */
export async function checkDirect(db: Database, hasDirectUrl: boolean): Promise<Finding> {
  const id = 'direct-connection';
  const fault: unknown = await db.requireSessions().then(
    () => null,
    (error) => error,
  );
  if (fault !== null) {
    const advice = adviseConnection(fault, hasDirectUrl ? 'DATABASE_DIRECT_URL' : 'DATABASE_URL');
    return failed(id, explainFailure(fault), advice ?? 'Without it, the feed of changes stops at the next restart.');
  }
  if (!hasDirectUrl) return passed(id, 'DATABASE_URL leads to PostgreSQL without a pooler of transactions');
  const [pooled, direct] = await Promise.all(
    [db.pool, db.direct].map(async (pool) => (await pool.query({ text: IDENTITY, ...QUERY_TIMEOUT })).rows[0]),
  );
  if (pooled.system_identifier === direct.system_identifier && pooled.name === direct.name)
    return passed(id, 'DATABASE_DIRECT_URL leads to the database of DATABASE_URL');
  return failed(
    id,
    `DATABASE_DIRECT_URL leads to another database: ${direct.name} instead of ${pooled.name}, or one of another server`,
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
export async function checkPooler(db: Database): Promise<Finding> {
  const { rows } = await db.pool.query({ text: LACKING, ...QUERY_TIMEOUT });
  const { found, statements } = rows[0];
  if (found === null) return passed('pooler', 'sessions have the settings of the service');
  return warning('pooler', `the pooler drops settings of the service: ${found}`, `Run as a superuser:\n${statements}`);
}
