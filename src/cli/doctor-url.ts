import { existsSync } from 'node:fs';
import { type Config, isLoopback } from '../config/config.js';
import { type Finding, failed, warning } from './finding.js';

/** What `userdir doctor` finds in the URL of the database: what node-postgres ignores in silence, and what is not verified. */

export function* checkDatabaseUrls({ db }: Config): Generator<Finding> {
  if (db.engine === 'embedded') return;
  yield* checkUrl('DATABASE_URL', new URL(db.url));
  if (db.directUrl !== undefined) yield* checkUrl('DATABASE_DIRECT_URL', new URL(db.directUrl));
  if (db.replicaUrl !== undefined) yield* checkUrl('DATABASE_REPLICA_URL', new URL(db.replicaUrl), 'a standby');
}

function* checkUrl(
  setting: string,
  { hostname, searchParams }: URL,
  leadsTo: 'the primary' | 'a standby' = 'the primary',
): Generator<Finding> {
  const id = 'database-url';
  const advice = `Name one address that leads to ${leadsTo}, such as that of HAProxy (docs/operating.md).`;
  const hosts = searchParams.get('host') ?? decodeURIComponent(hostname);
  if (hosts.includes(',')) {
    yield failed(id, `${setting} has several hosts, and node-postgres connects to one`, advice);
    return;
  }
  if (searchParams.has('target_session_attrs')) {
    const found = `${setting} has target_session_attrs, which node-postgres ignores: it connects to any server`;
    yield failed(id, found, advice);
    return;
  }
  for (const name of FILES) {
    const file = searchParams.get(name);
    if (file !== null && !existsSync(file))
      yield failed(id, `${setting}: ${file}, the file of ${name}, does not exist`, `Correct ${name} in ${setting}.`);
  }
  const isLocal = hosts === '' || hosts.startsWith('/') || isLoopback(hosts.replace(/^\[(.*)\]$/, '$1'));
  const fault = isLocal ? null : findUnverified(searchParams);
  if (fault !== null) yield warning(id, `${setting}: ${fault}`, `Set sslmode=verify-full in ${setting}.`);
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
