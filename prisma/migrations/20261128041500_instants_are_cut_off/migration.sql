-- An instant of the database has milliseconds. PostgreSQL rounds what is finer, so the last instant of a year could be stored as the first of the
-- next, and a user be counted there. What the database itself writes is cut off, as what arrives is.

-- step: cuts off the instants of projects
-- locks: projects (ACCESS EXCLUSIVE)
ALTER TABLE projects
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of app_secrets
-- locks: app_secrets (ACCESS EXCLUSIVE)
ALTER TABLE app_secrets
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of users
-- locks: users (ACCESS EXCLUSIVE)
ALTER TABLE users
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of user_notes
-- locks: user_notes (ACCESS EXCLUSIVE)
ALTER TABLE user_notes
    ALTER at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of bans
-- locks: bans (ACCESS EXCLUSIVE)
ALTER TABLE bans
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of documents
-- locks: documents (ACCESS EXCLUSIVE)
ALTER TABLE documents
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of idempotency_keys
-- locks: idempotency_keys (ACCESS EXCLUSIVE)
ALTER TABLE idempotency_keys
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of audit_log
-- locks: audit_log (ACCESS EXCLUSIVE)
ALTER TABLE audit_log
    ALTER at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of operators
-- locks: operators (ACCESS EXCLUSIVE)
ALTER TABLE operators
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of operator_sessions
-- locks: operator_sessions (ACCESS EXCLUSIVE)
ALTER TABLE operator_sessions
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    ALTER last_seen_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of operator_passkeys
-- locks: operator_passkeys (ACCESS EXCLUSIVE)
ALTER TABLE operator_passkeys
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of operator_log
-- locks: operator_log (ACCESS EXCLUSIVE)
ALTER TABLE operator_log
    ALTER at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of changes
-- locks: changes (ACCESS EXCLUSIVE)
ALTER TABLE changes
    ALTER at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of webhooks
-- locks: webhooks (ACCESS EXCLUSIVE)
ALTER TABLE webhooks
    ALTER next_attempt_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of webhook_secrets
-- locks: webhook_secrets (ACCESS EXCLUSIVE)
ALTER TABLE webhook_secrets
    ALTER created_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);

-- step: cuts off the instants of project_moves
-- locks: project_moves (ACCESS EXCLUSIVE)
ALTER TABLE project_moves
    ALTER started_at SET DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP);
