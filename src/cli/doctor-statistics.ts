import type { Database } from '../db/database.js';
import { type Finding, passed, QUERY_TIMEOUT, warning } from './finding.js';

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
export async function checkStatistics(db: Database): Promise<Finding> {
  const { rows } = await db.pool.query({ text: WITHOUT_STATISTICS, ...QUERY_TIMEOUT });
  const { tables } = rows[0];
  if (tables === null) return passed('statistics', 'all tables with many rows were analyzed');
  return warning(
    'statistics',
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
export async function checkAutovacuum(db: Database): Promise<Finding> {
  const { rows } = await db.pool.query({ text: AUTOVACUUM, ...QUERY_TIMEOUT });
  const { off, tables, statements } = rows[0];
  if (off === null && tables === null) return passed('autovacuum', 'on');
  const faults = [
    ...(off === null ? [] : [`${off} off`]),
    ...(tables === null ? [] : [`autovacuum off for ${tables}`]),
  ];
  const advice = [
    ...(off === null ? [] : [`Turn ${off} on in postgresql.conf.`]),
    ...(tables === null ? [] : [`Run as the owner of the tables:\n${statements}`]),
  ];
  return warning('autovacuum', `${faults.join('; ')}: dead rows stay, and statistics grow old`, advice.join('\n'));
}
