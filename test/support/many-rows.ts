import type pg from 'pg';

/**
 * Fills every table by SQL, without triggers: a project that has nearly all, and many that have a row of each kind. What the triggers would
 * have kept is computed from the rows, so that totals are exact.
 */
export interface ManyRows {
  /** Project 1 has so many current users, removed users, accounts, bans, entries, changes and keys. */
  readonly rows: number;
  /** So many projects, of which 2 and on have one row of each kind. */
  readonly projects: number;
}

/** Users that many marks lead to. They are among the first, so that also the last reads of an index are deep. */
export const SHARED = { users: 2_000, email: 'shared@example.com', address: 'shared' } as const;

/** The day on which a part of the users of project 1 has registered. */
export const CROWDED_DAY = '2025-12-01';

/** The App ID of a project. */
export const appIdOf = (projectId: number) => `app_${String(projectId).padStart(24, '0')}`;

const sha = (text: string) => `sha256(convert_to(${text}, 'UTF8'))`;

/** Statements, in order; `:rows` and `:projects` stand for the sizes. */
const FILL = `
INSERT INTO projects (id, name, app_id) SELECT n, 'Project ' || n, 'app_' || lpad(n::text, 24, '0') FROM generate_series(1, :projects) n ON CONFLICT DO NOTHING;
INSERT INTO app_secrets (project_id, secret_hash, label)
  SELECT n, ${sha("'secret ' || n")}, 'main' FROM generate_series(1, :projects) n;
INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, identity_email, external_id, created_at, last_login, login_count)
  SELECT 1, (ARRAY['google', 'email', 'wallet', 'passkey'])[n % 4 + 1], 'u' || n, 'u' || n,
         CASE WHEN n <= ${SHARED.users} THEN '${SHARED.email}' ELSE 'u' || n || '@example.com' END, 'x' || n,
         CASE WHEN n % 3 = 0 THEN timestamptz '${CROWDED_DAY} 00:00Z' + n * (interval '50000 seconds' / :rows)
              ELSE timestamptz '2024-01-01 00:00Z' + n * (interval '700000 minutes' / :rows) END, timestamptz '2026-01-01 00:00Z' + n * interval '1 second', 1
  FROM generate_series(1, :rows) n;
INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, identity_email, external_id, created_at, deleted_at)
  SELECT 1, 'google', 'u' || n, 'u' || n, 'u' || n || '@example.com', 'x' || n, '2024-01-01', timestamptz '2025-01-01 00:00Z' + n * interval '1 second'
  FROM generate_series(1, :rows) n;
INSERT INTO users (project_id, auth_method, auth_value, auth_value_key, identity_email, external_id, created_at)
  SELECT n, 'google', 'u1', 'u1', 'u1@example.com', 'x1', '2024-01-01' FROM generate_series(2, :projects) n;
INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
  SELECT project_id, id, 'ethereum', 'a' || id, 'a' || id, 'custodial' FROM users ORDER BY id;
INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
  SELECT 1, id, 'ethereum', '${SHARED.address}', '${SHARED.address}', 'external' FROM users
  WHERE project_id = 1 AND login_email = '${SHARED.email}' ORDER BY id;
INSERT INTO identities (project_id, user_id, auth_method, auth_value, auth_value_key, login_email, removed)
  SELECT u.project_id, u.id, 'linked', substr(u.auth_value, 2), u.auth_value_key, u.login_email, u.deleted_at IS NOT NULL FROM users u ORDER BY u.id;
INSERT INTO bans (project_id, auth_method, auth_value_key, auth_value, created_at)
  SELECT 1, CASE WHEN n % 50 = 0 THEN 'google' ELSE 'github' END, 'u' || n, 'u' || n, timestamptz '2025-01-01 00:00Z' + n * interval '1 second'
  FROM generate_series(1, :rows) n;
INSERT INTO bans (project_id, auth_method, auth_value_key, auth_value, expires_at)
  SELECT n, 'google', 'u1', 'u1', CASE WHEN n % 2 = 0 THEN now() - n * interval '1 minute' ELSE 'infinity' END FROM generate_series(2, :projects) n;
INSERT INTO user_bans (project_id, user_id, created_at)
  SELECT project_id, id, created_at FROM users WHERE id % 50 = 0;
INSERT INTO audit_log (project_id, at, actor, action, user_id, details)
  SELECT 1, timestamptz '2025-01-01 00:00Z' + n * interval '1 second', CASE WHEN n % 100 = 0 THEN 'rare' ELSE 'main' END, 'remove', n, '{}'
  FROM generate_series(1, :rows) n;
INSERT INTO audit_log (project_id, actor, action, details) SELECT n, 'main', 'create', '{}' FROM generate_series(2, :projects) n;
INSERT INTO idempotency_keys (project_id, key, request_hash, answer, created_at)
  SELECT 1, 'key ' || n, '\\x00', '{}', now() - n * (interval '30 hours' / :rows) FROM generate_series(1, :rows) n;
INSERT INTO idempotency_keys (project_id, key, request_hash, answer) SELECT n, 'key', '\\x00', '{}' FROM generate_series(2, :projects) n;
INSERT INTO changes (project_id, type, user_id, at)
  SELECT 1, 'user.created', n, now() - interval '60 days' + n * (interval '60 days' / :rows) FROM generate_series(1, :rows) n;
INSERT INTO changes (project_id, type, user_id) SELECT n, 'user.created', 1 FROM generate_series(2, :projects) n;
INSERT INTO changes_feed (timeline, incarnation, published)
  SELECT 'first', changes_incarnation(), max(id) FROM changes;
INSERT INTO changes_pruned (project_id, through) SELECT n, 1 FROM generate_series(2, :projects, 2) n;
INSERT INTO webhooks (project_id, url, description, types, place, timeline)
  SELECT (n - 1) % :projects + 1, 'https://example.com/' || n, '', '{}', currval('changes_id_seq'), 'first' FROM generate_series(1, :projects / 4) n;
INSERT INTO webhook_secrets (project_id, webhook_id, secret) SELECT project_id, id, ${sha("'secret'")} FROM webhooks;
INSERT INTO webhook_attempts (project_id, webhook_id, ok, slot, number, at, message, type, status, ms, resent)
  SELECT w.project_id, w.id, ok, n, n, now(), 'x', 'user.created', 204, 5, false FROM webhooks w, generate_series(1, 20) n, (VALUES (true), (false)) AS each (ok);
INSERT INTO webhook_hours (project_id, webhook_id, slot, hour, accepted, failed)
  SELECT project_id, id, n, date_trunc('hour', now()), 1, 1 FROM webhooks, generate_series(0, 23) n;
INSERT INTO operators (name, role, is_limited) SELECT 'operator' || n, 'viewer', n % 2 = 1 FROM generate_series(1, :projects / 10) n;
INSERT INTO operator_projects (operator_id, project_id)
  SELECT o.id, (o.id * 7 + n) % :projects + 1 FROM operators o, generate_series(1, 10) n WHERE o.is_limited;
INSERT INTO operator_sessions (operator_id, token_hash, user_agent, expires_at)
  SELECT n % (:projects / 10) + 1, ${sha("'session ' || n")}, 'test', now() + interval '1 hour' FROM generate_series(1, :projects) n;
INSERT INTO login_links (operator_id, token_hash, expires_at)
  SELECT n % (:projects / 10) + 1, ${sha("'link ' || n")}, now() + interval '1 hour' FROM generate_series(1, :projects) n;
INSERT INTO operator_passkeys (operator_id, name, host, credential_id, public_key, counter)
  SELECT n % (:projects / 10) + 1, 'laptop', 'localhost', ${sha("'credential ' || n")}, ${sha("'key'")}, 5 FROM generate_series(1, :projects) n;
INSERT INTO passkey_challenges (challenge_hash, expires_at)
  SELECT ${sha("'challenge ' || n")}, now() + interval '5 minutes' FROM generate_series(1, :projects) n;
INSERT INTO operator_log (actor, action, details) SELECT 'operator:ada', 'log_in', '{}' FROM generate_series(1, :rows) n;
INSERT INTO tallies (project_id, span, starts_on, login_method, users)
  SELECT u.project_id, each.span, each.starts_on, u.login_method, count(*) FROM users u CROSS JOIN LATERAL (
    VALUES ('all'::tally_span, DATE '1970-01-01'), ('month', date_trunc('month', u.created_at AT TIME ZONE 'UTC')::date), ('day', utc_day(u.created_at))
  ) AS each (span, starts_on)
  WHERE u.deleted_at IS NULL GROUP BY 1, 2, 3, 4;
SELECT cut_crowded_days(1, NULL);
INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
  SELECT 1, '2024-01-01', n / 2, 'email', CASE WHEN n % 2 = 0 THEN 1 ELSE -1 END FROM generate_series(1, 500) n;
INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
  SELECT n, '2024-01-01', d, 'email', d * 2 - 1 FROM generate_series(2, :projects) n, generate_series(0, 1) d`;

export async function fillTables(client: pg.ClientBase, { rows, projects }: ManyRows): Promise<void> {
  await client.query('BEGIN');
  await client.query('SET LOCAL session_replication_role = replica');
  // The ids begin anew: a test may have used some.
  await client.query(
    `SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace`,
  );
  for (const statement of FILL.split(/;\n/)) {
    await client.query(statement.replaceAll(':rows', String(rows)).replaceAll(':projects', String(projects)));
  }
  await client.query('COMMIT');
}

/** Keeps PostgreSQL from analyzing the tables while a test looks at plans without statistics. */
export async function stayUnanalyzed(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query(
    `SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
  );
  for (const { relname } of rows) await client.query(`ALTER TABLE ${relname} SET (autovacuum_enabled = off)`);
}
