import type pg from 'pg';
import type { DatabaseConfig } from '../config/config.js';

type PostgresConfig = Extract<DatabaseConfig, { engine: 'postgres' }>;

/** How long a command waits for a connection. The service has a setting for it. */
const COMMAND_CONNECT_TIMEOUT_MS = 10_000;

/** How every connection to PostgreSQL is made. `limitMs` is the statement timeout, 0 for none. */
export function connectionOptions(config: PostgresConfig, serving: boolean, limitMs: number): pg.ClientConfig {
  return {
    connectionString: withoutOptions(config.url),
    connectionTimeoutMillis: serving ? config.poolTimeoutMs : COMMAND_CONNECT_TIMEOUT_MS,
    application_name: 'userdir',
    // A connection whose other end disappeared is noticed in minutes instead of hours.
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    options: sessionOptions(config.url, limitMs),
  };
}

/** pg would use the options of the URL instead of ours, so they are removed here and added below. */
function withoutOptions(url: string): string {
  const stripped = new URL(url);
  stripped.searchParams.delete('options');
  return stripped.href;
}

/**
 * Settings of every session, after those of the URL.
 *
 * - UTC: Prisma's adapter reads a timestamp as UTC, whatever offset the session writes (prisma#26786).
 * - No JIT: it would compile for a second what runs for a millisecond.
 * - Generic plans: every statement is written to have one good plan, and planning costs more than running it.
 */
function sessionOptions(url: string, limitMs: number): string {
  const given = new URL(url).searchParams.get('options') ?? '';
  const ours = `-c TimeZone=UTC -c DateStyle=ISO -c jit=off -c plan_cache_mode=force_generic_plan`;
  return `${given} ${ours} -c statement_timeout=${limitMs}`.trim();
}
