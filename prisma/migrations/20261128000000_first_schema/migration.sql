-- The first schema: what a database of userdir has.
--
-- Tables come first, each with what it is for. Functions and triggers follow by subject, because a function may use any table:
--   totals · the feed of changes · projects and secrets · users · accounts · linked identities · imports · bans · retries · restores
--
-- What is true of all tables:
-- - Every key and index of what belongs to a project begins with the project, so that no query crosses projects by mistake.
-- - A column that is only compared for equality has the collation "C": the same order on every server, and no index to rebuild when the
--   library of a locale changes.
-- - An instant has milliseconds. PostgreSQL rounds what is finer: the last instant of a year could be stored as the first of the next, and
--   a user be counted there. What the database itself writes is cut off, as what arrives is.
-- - A function finds the tables beside it, whatever the search path of the session: that of a restore is empty. Those whose body is an
--   expression are bound when they are made, and a setting would keep them from being inlined.
-- - A function turns off what the planner would take for a table that is small or has no statistics (enable_seqscan, enable_sort). Two
--   bounds of one value (>= and <=), in the order of an index, have one plan as well. So its plan stays the same however the table grows.

-- step: makes the tables, functions and triggers
SELECT set_config('search_path', format('%I, pg_temp', current_schema()), true);

------------------------------------------------------------------------------------------------------------------------------------------
-- Projects and their secrets
------------------------------------------------------------------------------------------------------------------------------------------

CREATE TABLE projects (
    id SERIAL NOT NULL,
    name TEXT NOT NULL,
    app_id TEXT COLLATE "C" NOT NULL,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    -- Since when its credentials are refused; null while they are accepted.
    disabled_at TIMESTAMPTZ(3),
    -- Its own rate limit, instead of RATE_LIMIT.
    requests_per_minute INTEGER,
    CONSTRAINT projects_pkey PRIMARY KEY (id),
    CONSTRAINT projects_requests_per_minute_in_range CHECK (requests_per_minute BETWEEN 1 AND 100000000)
);
CREATE UNIQUE INDEX projects_app_id_key ON projects (app_id);

-- What a secret is good for.
CREATE TYPE secret_scope AS ENUM ('read', 'verify', 'write', 'changes', 'webhooks');

-- Only the SHA-256 of a secret is kept: it has 256 random bits, so that no slow hash is needed.
CREATE TABLE app_secrets (
    project_id INTEGER NOT NULL,
    id SERIAL NOT NULL,
    secret_hash BYTEA NOT NULL,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    expires_at TIMESTAMPTZ(3),
    label TEXT NOT NULL DEFAULT 'main',
    -- A webhook outlives the secret with which it was added, so that no secret manages webhooks until an operator gives it the scope.
    scopes secret_scope[] NOT NULL DEFAULT '{read,verify,write,changes}',
    -- To about a minute.
    last_used_at TIMESTAMPTZ(3),
    CONSTRAINT app_secrets_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT app_secrets_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT app_secrets_secret_hash_is_sha256 CHECK (octet_length(secret_hash) = 32),
    CONSTRAINT app_secrets_label_is_one_line CHECK (char_length(label) BETWEEN 1 AND 64 AND label !~ '[[:cntrl:]]'),
    -- The audit trail calls an operator so.
    CONSTRAINT app_secrets_label_is_not_an_operator CHECK (label <> 'operator' AND label NOT LIKE 'operator:%'),
    CONSTRAINT app_secrets_is_good_for_something CHECK (cardinality(scopes) > 0 AND array_position(scopes, NULL) IS NULL)
);
CREATE UNIQUE INDEX app_secrets_secret_hash_key ON app_secrets (project_id, secret_hash);

------------------------------------------------------------------------------------------------------------------------------------------
-- Users, their accounts and their identities
------------------------------------------------------------------------------------------------------------------------------------------

-- What a filter names: three methods of their own, and all social providers together.
CREATE TYPE login_method AS ENUM ('email', 'passkey', 'wallet', 'socials');

CREATE TABLE users (
    project_id INTEGER NOT NULL,
    id BIGSERIAL NOT NULL,
    -- The primary identity: the method, the value as it was given, and as it is compared.
    auth_method TEXT COLLATE "C" NOT NULL,
    auth_value TEXT NOT NULL,
    auth_value_key TEXT COLLATE "C" NOT NULL,
    login_method login_method NOT NULL GENERATED ALWAYS AS (
        CASE auth_method
            WHEN 'email' THEN 'email'::login_method
            WHEN 'passkey' THEN 'passkey'::login_method
            WHEN 'wallet' THEN 'wallet'::login_method
            ELSE 'socials'::login_method
        END
    ) STORED,
    -- What was said last of the person: null where nothing was, empty for none.
    said_email TEXT COLLATE "C",
    -- That of the primary identity.
    identity_email TEXT COLLATE "C",
    -- That of the oldest linked identity that has one; kept by follow_linked_email.
    linked_email TEXT COLLATE "C",
    -- The email that is shown.
    login_email TEXT COLLATE "C" GENERATED ALWAYS AS (NULLIF(COALESCE(said_email, identity_email, linked_email), '')) STORED,
    wallet TEXT,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    last_login TIMESTAMPTZ(3),
    login_count INTEGER NOT NULL DEFAULT 0,
    deleted_at TIMESTAMPTZ(3),
    -- The ID of the user in the system of the caller, compared byte by byte. The one of a removed user is free for another.
    external_id TEXT COLLATE "C",
    -- Whether the caller has verified the email; null where it did not say.
    email_verified BOOLEAN,
    -- A JSON object of the caller.
    metadata JSONB,
    -- Since when the primary identity is the user's; null where that is created_at.
    identity_at TIMESTAMPTZ(3),
    -- The last login by the primary identity, -infinity for none; null where that is last_login.
    identity_login TIMESTAMPTZ(3),
    -- Of a removed user: the one who has taken over what they had.
    merged_into BIGINT,
    -- The import that has created the user, until anything else touches the person; kept by the triggers of imports.
    import_id BIGINT DEFAULT NULLIF(current_setting('userdir.import', true), '')::bigint,
    CONSTRAINT users_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT users_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT users_login_count_not_negative CHECK (login_count >= 0),
    -- The range of the API's dates: a bound of a filter outside it can be moved to its edge without changing any answer.
    CONSTRAINT users_created_at_in_range CHECK (created_at >= '1970-01-01T00:00:00Z' AND created_at < '10000-01-01T00:00:00Z'),
    CONSTRAINT users_wallet_of_login CHECK (auth_method <> 'wallet' OR lower(wallet) = lower(auth_value_key)),
    CONSTRAINT users_merged_are_removed CHECK (merged_into IS NULL OR deleted_at IS NOT NULL)
-- Each login updates its user, in columns that no index has. Where the page has room, PostgreSQL then writes no entry of an index (HOT).
) WITH (fillfactor = 90);
CREATE UNIQUE INDEX users_identity_key ON users (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL;
CREATE INDEX users_newest_idx ON users (project_id, created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX users_method_newest_idx ON users (project_id, login_method, created_at DESC, id DESC) WHERE deleted_at IS NULL;
CREATE INDEX users_deleted_idx ON users (project_id, deleted_at) WHERE deleted_at IS NOT NULL;
CREATE UNIQUE INDEX users_external_id_key ON users (project_id, external_id) WHERE deleted_at IS NULL AND external_id IS NOT NULL;
CREATE INDEX users_login_email_idx ON users (project_id, login_email) WHERE deleted_at IS NULL;
-- Few users have another email with the primary identity.
CREATE INDEX users_identity_email_idx ON users (project_id, identity_email)
    WHERE deleted_at IS NULL AND identity_email IS DISTINCT FROM login_email;

CREATE TYPE network AS ENUM ('stellar', 'ethereum');
CREATE TYPE wallet_type AS ENUM ('custodial', 'external');

-- Addresses of wallets that a user has.
CREATE TABLE accounts (
    project_id INTEGER NOT NULL,
    id BIGSERIAL NOT NULL,
    user_id BIGINT NOT NULL,
    network network NOT NULL,
    public_key TEXT NOT NULL,
    -- The address as it is compared.
    address_key TEXT COLLATE "C" NOT NULL,
    wallet_type wallet_type NOT NULL,
    CONSTRAINT accounts_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT accounts_user_fkey FOREIGN KEY (project_id, user_id) REFERENCES users (project_id, id) ON DELETE CASCADE ON UPDATE CASCADE,
    -- The accounts of a user are read as one text of words.
    CONSTRAINT accounts_public_key_is_one_word CHECK (strpos(public_key, ' ') = 0)
);
CREATE UNIQUE INDEX accounts_user_address_key ON accounts (project_id, user_id, address_key);
-- A verification without a user names the current user who linked the address first.
CREATE INDEX accounts_address_idx ON accounts (project_id, address_key, id);

-- A project may have a million users with one email, or one address that all of its users have linked. Statistics are of the whole table: the
-- planner would take any email for one that most users have, and read the table for each search of every project. These columns are only
-- looked up by one value, so each value is to count as one that few rows have.
ALTER TABLE users
    ALTER COLUMN login_email SET (n_distinct = -1),
    ALTER COLUMN identity_email SET (n_distinct = -1),
    ALTER COLUMN auth_value_key SET (n_distinct = -1),
    ALTER COLUMN external_id SET (n_distinct = -1);
ALTER TABLE accounts ALTER COLUMN address_key SET (n_distinct = -1);

-- The identities of a user beside the primary one (docs/decisions/linked-identities.md). Of the current users of a project, one at most has an
-- identity, whichever of the two tables has it: see "Linked identities" below.
CREATE TABLE identities (
    project_id INTEGER NOT NULL,
    id BIGSERIAL NOT NULL,
    user_id BIGINT NOT NULL,
    auth_method TEXT COLLATE "C" NOT NULL,
    auth_value TEXT NOT NULL,
    auth_value_key TEXT COLLATE "C" NOT NULL,
    login_email TEXT COLLATE "C",
    email_verified BOOLEAN,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    last_login TIMESTAMPTZ(3),
    -- True while the user is removed.
    removed BOOLEAN NOT NULL DEFAULT false,
    CONSTRAINT identities_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT identities_user_fkey FOREIGN KEY (project_id, user_id) REFERENCES users (project_id, id) ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE UNIQUE INDEX identities_identity_key ON identities (project_id, auth_method, auth_value_key) WHERE NOT removed;
CREATE INDEX identities_user_idx ON identities (project_id, user_id, id);
CREATE INDEX identities_login_email_idx ON identities (project_id, login_email) WHERE NOT removed;

-- The users whom an import has created, a row for each batch of its lines, so that it can be undone (docs/moving.md).
CREATE TABLE import_parts (
    project_id INTEGER NOT NULL,
    -- The entry of the import in the audit trail.
    import_id BIGINT NOT NULL,
    first_user_id BIGINT NOT NULL,
    user_ids BIGINT[] NOT NULL,
    CONSTRAINT import_parts_pkey PRIMARY KEY (project_id, import_id, first_user_id),
    CONSTRAINT import_parts_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE
);

------------------------------------------------------------------------------------------------------------------------------------------
-- Bans
------------------------------------------------------------------------------------------------------------------------------------------

-- From its end on a ban counts as gone for every statement. Its row is deleted soon after, and the feed has it then.

-- The ban of a user, who cannot log in by any identity (docs/decisions/person.md).
CREATE TABLE user_bans (
    project_id INTEGER NOT NULL,
    user_id BIGINT NOT NULL,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    -- Empty where no reason was given: a foreign key does not compare nulls.
    reason TEXT NOT NULL DEFAULT '',
    expires_at TIMESTAMPTZ(3) NOT NULL DEFAULT 'infinity',
    CONSTRAINT user_bans_pkey PRIMARY KEY (project_id, user_id),
    CONSTRAINT user_bans_user_fkey FOREIGN KEY (project_id, user_id) REFERENCES users (project_id, id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT user_bans_reason_is_short CHECK (char_length(reason) <= 500)
);
CREATE UNIQUE INDEX user_bans_terms_key ON user_bans (project_id, user_id, created_at, expires_at, reason);

-- An identity that is banned: for itself, or because the ban of its user covers it.
CREATE TABLE bans (
    project_id INTEGER NOT NULL,
    id BIGSERIAL NOT NULL,
    auth_method TEXT COLLATE "C" NOT NULL,
    auth_value TEXT NOT NULL,
    auth_value_key TEXT COLLATE "C" NOT NULL,
    -- The user whose ban covers the identity; null for a ban of the identity.
    user_id BIGINT,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    reason TEXT NOT NULL DEFAULT '',
    expires_at TIMESTAMPTZ(3) NOT NULL DEFAULT 'infinity',
    CONSTRAINT bans_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT bans_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE,
    -- It holds the terms equal to those of the ban of the user.
    CONSTRAINT bans_user_ban_fkey FOREIGN KEY (project_id, user_id, created_at, expires_at, reason)
        REFERENCES user_bans (project_id, user_id, created_at, expires_at, reason) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT bans_reason_is_short CHECK (char_length(reason) <= 500)
);
CREATE INDEX bans_created_at_idx ON bans (project_id, created_at, id);
CREATE INDEX bans_user_idx ON bans (project_id, user_id) WHERE user_id IS NOT NULL;
-- One ban of the identity, and one of each user that covers it.
CREATE UNIQUE INDEX bans_identity_key ON bans (project_id, auth_method, auth_value_key, user_id) NULLS NOT DISTINCT;
CREATE INDEX bans_expires_at_idx ON bans (project_id, expires_at) WHERE expires_at < 'infinity';

------------------------------------------------------------------------------------------------------------------------------------------
-- Totals
------------------------------------------------------------------------------------------------------------------------------------------

-- Exact totals without scanning, and any page without OFFSET over what lies before it (docs/decisions/totals.md).
--
-- Every statement that changes who is a current user, by whatever way it comes, appends its changes to tally_deltas in its own transaction
-- (see "Users" below). Nobody waits for anybody: there is no counter that two writers share. From time to time fold_tallies moves what has been
-- committed into tallies and tally_slices. At any instant, in any snapshot, tallies + deltas = the users: a reader who adds both up in one
-- statement is exact, folded or not.

CREATE TYPE tally_span AS ENUM ('all', 'month', 'day');

-- Current users by login method and UTC time of creation: in all, by month, by day. A span of 'all' starts on 1970-01-01.
CREATE TABLE tallies (
    project_id INTEGER NOT NULL,
    span tally_span NOT NULL,
    starts_on DATE NOT NULL,
    login_method login_method NOT NULL,
    users BIGINT NOT NULL,
    CONSTRAINT tallies_pkey PRIMARY KEY (project_id, span, starts_on, login_method),
    CONSTRAINT tallies_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 60);

-- Days with many users, cut at positions (created_at, id) into slices of about a thousand. A slice reaches to the start of the next one of its
-- day, or to the end of the day. Positions, and not times, because an import may bring a million users of one instant.
CREATE TABLE tally_slices (
    project_id INTEGER NOT NULL,
    starts_at TIMESTAMPTZ(3) NOT NULL,
    starts_id BIGINT NOT NULL,
    login_method login_method NOT NULL,
    users BIGINT NOT NULL,
    CONSTRAINT tally_slices_pkey PRIMARY KEY (project_id, starts_at, starts_id, login_method),
    CONSTRAINT tally_slices_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 60);

-- Changes that are not folded yet: a current user more (1) or less (-1) at a position. Without a foreign key, which would lock the row of the
-- project once more for every registration.
CREATE TABLE tally_deltas (
    project_id INTEGER NOT NULL,
    id BIGSERIAL NOT NULL,
    created_at TIMESTAMPTZ(3) NOT NULL,
    user_id BIGINT NOT NULL,
    login_method login_method NOT NULL,
    change SMALLINT NOT NULL,
    CONSTRAINT tally_deltas_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT tally_deltas_change_is_one CHECK (change IN (-1, 1))
);

------------------------------------------------------------------------------------------------------------------------------------------
-- The feed of changes
------------------------------------------------------------------------------------------------------------------------------------------

-- A feed of the changes of users that no reader can skip (docs/decisions/changes-feed.md).
--
-- Every statement that changes a user, an account, an identity or a ban, by whatever way it comes, appends to `changes` in its own transaction
-- (see the subjects below). IDs are given out before commit, so they become visible out of order. A publisher settles up to which ID everything
-- has been committed or undone, and writes it to changes_feed.published. Readers read no further.

CREATE TYPE change_type AS ENUM (
    'user.created',
    'user.updated',
    'user.removed',
    'user.restored',
    'account.added',
    'identity.banned',
    'identity.unbanned',
    'user.merged'
);

-- IDs and names of fields only: a change outlives the purge of its user. Without a foreign key, as tally_deltas.
CREATE TABLE changes (
    project_id INTEGER NOT NULL,
    id BIGSERIAL NOT NULL,
    type change_type NOT NULL,
    -- Null for the ban of an identity that no current user has.
    user_id BIGINT,
    -- Of user.updated: names, separated by spaces. Of user.merged: the ID of the user who has taken over.
    fields TEXT,
    at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    CONSTRAINT changes_pkey PRIMARY KEY (project_id, id)
);
-- No cache: an ID that a session keeps for later could be used after it was published. ID 1 is never used, so that last_value is always an ID
-- that was given out.
ALTER SEQUENCE changes_id_seq CACHE 1;
SELECT nextval('changes_id_seq');

-- One row, made by the first publication: every change up to `published` is committed or undone. Cursors carry the timeline in which their
-- change was published, because a database that was restored from an older backup gives the same IDs to other changes.
CREATE TABLE changes_feed (
    id INTEGER NOT NULL DEFAULT 1,
    timeline TEXT COLLATE "C" NOT NULL,
    -- Tells when this database may have lost what was published.
    incarnation TEXT NOT NULL,
    published BIGINT NOT NULL,
    CONSTRAINT changes_feed_pkey PRIMARY KEY (id),
    CONSTRAINT changes_feed_has_one_row CHECK (id = 1)
) WITH (fillfactor = 10);

-- Earlier timelines, and up to which ID this database has what was published in them.
CREATE TABLE changes_timelines (
    timeline TEXT COLLATE "C" NOT NULL,
    published BIGINT NOT NULL,
    CONSTRAINT changes_timelines_pkey PRIMARY KEY (timeline)
);

-- Up to which ID the changes of a project have been deleted; no row while none has.
CREATE TABLE changes_pruned (
    project_id INTEGER NOT NULL,
    through BIGINT NOT NULL,
    CONSTRAINT changes_pruned_pkey PRIMARY KEY (project_id),
    CONSTRAINT changes_pruned_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE
);

------------------------------------------------------------------------------------------------------------------------------------------
-- Webhooks
------------------------------------------------------------------------------------------------------------------------------------------

CREATE TYPE webhook_status AS ENUM ('enabled', 'paused', 'disabled');

-- An endpoint to which the changes of a project are sent (docs/decisions/webhooks.md). It is a place in the feed.
CREATE TABLE webhooks (
    project_id INTEGER NOT NULL,
    id SERIAL NOT NULL,
    url TEXT NOT NULL,
    description TEXT NOT NULL,
    -- Empty: all.
    types change_type[] NOT NULL,
    -- Every change up to this ID has been delivered. The timeline is that of the feed when it was written: a feed that began anew, because a
    -- dump was restored without it, has others.
    place BIGINT NOT NULL,
    timeline TEXT COLLATE "C" NOT NULL,
    -- How often an operator has moved the place. A delivery that began before the last move does not move it again.
    moves INTEGER NOT NULL DEFAULT 0,
    status webhook_status NOT NULL DEFAULT 'enabled',
    -- Why it is not enabled.
    reason TEXT,
    -- Failed attempts since the last one that was accepted, and since when.
    failures INTEGER NOT NULL DEFAULT 0,
    failing_since TIMESTAMPTZ(3),
    next_attempt_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    -- The process that delivers, and until when no other may.
    leased_by TEXT,
    leased_until TIMESTAMPTZ(3),
    last_delivered_at TIMESTAMPTZ(3),
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    -- How often an operator has paused, resumed or changed it. What a turn that began before has come to says nothing about its state.
    edits INTEGER NOT NULL DEFAULT 0,
    -- Attempts since it was added: the numbers of the rows of webhook_attempts.
    accepted BIGINT NOT NULL DEFAULT '0'::bigint,
    failed BIGINT NOT NULL DEFAULT '0'::bigint,
    -- Until when no message is sent again by hand: one at a time.
    resend_after TIMESTAMPTZ(3),
    CONSTRAINT webhooks_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT webhooks_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT webhooks_reason_unless_enabled CHECK ((status = 'enabled') = (reason IS NULL))
) WITH (fillfactor = 50);

-- What signs. As it is, because a signature needs it: one who reads this table can sign.
CREATE TABLE webhook_secrets (
    project_id INTEGER NOT NULL,
    webhook_id INTEGER NOT NULL,
    id SERIAL NOT NULL,
    secret BYTEA NOT NULL,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    expires_at TIMESTAMPTZ(3),
    CONSTRAINT webhook_secrets_pkey PRIMARY KEY (project_id, webhook_id, id),
    CONSTRAINT webhook_secrets_webhook_fkey FOREIGN KEY (project_id, webhook_id) REFERENCES webhooks (project_id, id)
        ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT webhook_secrets_secret_has_32_bytes CHECK (octet_length(secret) = 32)
);

-- The last attempts, and tallies of them by the hour. Both are rings: a new row takes the place of the oldest, so that nothing has to be deleted.
CREATE TABLE webhook_attempts (
    project_id INTEGER NOT NULL,
    webhook_id INTEGER NOT NULL,
    -- Those that failed have a ring of their own, so that successes do not push them out.
    ok BOOLEAN NOT NULL,
    slot SMALLINT NOT NULL,
    number BIGINT NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL,
    -- The cursor of the change, as it was sent.
    message TEXT COLLATE "C" NOT NULL,
    type change_type NOT NULL,
    status SMALLINT,
    ms INTEGER NOT NULL,
    error TEXT,
    -- Whether an operator has sent it again by hand.
    resent BOOLEAN NOT NULL,
    CONSTRAINT webhook_attempts_pkey PRIMARY KEY (project_id, webhook_id, ok, slot),
    CONSTRAINT webhook_attempts_webhook_fkey FOREIGN KEY (project_id, webhook_id) REFERENCES webhooks (project_id, id)
        ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 50);

CREATE TABLE webhook_hours (
    project_id INTEGER NOT NULL,
    webhook_id INTEGER NOT NULL,
    -- The hour of the day, in UTC.
    slot SMALLINT NOT NULL,
    hour TIMESTAMPTZ(3) NOT NULL,
    accepted INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    CONSTRAINT webhook_hours_pkey PRIMARY KEY (project_id, webhook_id, slot),
    CONSTRAINT webhook_hours_webhook_fkey FOREIGN KEY (project_id, webhook_id) REFERENCES webhooks (project_id, id)
        ON DELETE CASCADE ON UPDATE CASCADE
) WITH (fillfactor = 50);

------------------------------------------------------------------------------------------------------------------------------------------
-- Retries, and the audit trail
------------------------------------------------------------------------------------------------------------------------------------------

-- Answers to requests that came with a key, for their retries. The primary key lets one of several at once act; the others wait for it. No
-- personal data: an answer names a user by ID.
CREATE TABLE idempotency_keys (
    project_id INTEGER NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    -- SHA-256 of what was asked.
    request_hash BYTEA NOT NULL,
    answer JSONB,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (project_id, key),
    CONSTRAINT idempotency_keys_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT idempotency_keys_key_is_short CHECK (char_length(key) BETWEEN 1 AND 255)
);
CREATE INDEX idempotency_keys_created_at_idx ON idempotency_keys (project_id, created_at);

CREATE TYPE audit_action AS ENUM (
    'remove',
    'ban',
    'unban',
    'import',
    'purge',
    'add_secret',
    'rotate',
    'revoke',
    'create',
    'export',
    'refuse',
    'restore',
    'rename',
    'disable',
    'enable',
    'limit',
    'delete',
    'add_webhook',
    'remove_webhook',
    'rotate_webhook',
    'replay_webhook',
    'enable_webhook',
    'test_webhook',
    'update',
    'pause_webhook',
    'resume_webhook',
    'update_webhook',
    'resend_webhook',
    'link',
    'unlink',
    'merge'
);

-- Who did what, written in the transaction of the act. No personal data: a user is named by ID, without a foreign key, because the entry
-- outlives the user.
CREATE TABLE audit_log (
    project_id INTEGER NOT NULL,
    id BIGSERIAL NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    -- The label of a secret, or `operator:` and the name of an operator, or `operator` for one without a name.
    actor TEXT NOT NULL,
    request_id TEXT,
    action audit_action NOT NULL,
    user_id BIGINT,
    details JSONB NOT NULL,
    CONSTRAINT audit_log_pkey PRIMARY KEY (project_id, id),
    CONSTRAINT audit_log_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE INDEX audit_log_at_idx ON audit_log (project_id, at, id);
CREATE INDEX audit_log_user_idx ON audit_log (project_id, user_id, at, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_log_actor_idx ON audit_log (project_id, actor, at, id);
CREATE INDEX audit_log_action_idx ON audit_log (project_id, action, at, id);

------------------------------------------------------------------------------------------------------------------------------------------
-- Operators: the people who use the dashboard
------------------------------------------------------------------------------------------------------------------------------------------

-- They are not of one project, so no key here begins with a project.

-- From the least to the most that is allowed.
CREATE TYPE operator_role AS ENUM ('viewer', 'support', 'admin');

CREATE TABLE operators (
    id SERIAL NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    role operator_role NOT NULL,
    -- The issuer and the subject of the single sign-on; null for an operator whom the command or another operator added.
    subject TEXT COLLATE "C",
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    -- To about a minute.
    last_seen_at TIMESTAMPTZ(3),
    -- Whether only the projects of operator_projects are theirs. Not told by these rows: the last of them may go with its project.
    is_limited BOOLEAN NOT NULL DEFAULT false,
    CONSTRAINT operators_pkey PRIMARY KEY (id),
    CONSTRAINT operators_name_is_one_word CHECK (name ~ '^[a-z0-9][a-z0-9._@+-]{0,63}$')
);
CREATE UNIQUE INDEX operators_name_key ON operators (name);
CREATE UNIQUE INDEX operators_subject_key ON operators (subject);

-- A project in which an operator who is limited may act.
CREATE TABLE operator_projects (
    operator_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    CONSTRAINT operator_projects_pkey PRIMARY KEY (operator_id, project_id),
    CONSTRAINT operator_projects_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES operators (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT operator_projects_project_id_fkey FOREIGN KEY (project_id) REFERENCES projects (id) ON DELETE CASCADE ON UPDATE CASCADE
);
-- For the deletion of a project.
CREATE INDEX operator_projects_project_id_idx ON operator_projects (project_id);

-- A passkey (WebAuthn) with which an operator signs in (docs/decisions/passkeys.md). Its sessions end with it.
CREATE TABLE operator_passkeys (
    id SERIAL NOT NULL,
    operator_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    -- The name of the host to which browsers bind it.
    host TEXT COLLATE "C" NOT NULL,
    credential_id BYTEA NOT NULL,
    public_key BYTEA NOT NULL,
    -- How often the authenticator says that it has signed; 0 for one that does not count.
    counter BIGINT NOT NULL,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    last_used_at TIMESTAMPTZ(3),
    CONSTRAINT operator_passkeys_pkey PRIMARY KEY (id),
    CONSTRAINT operator_passkeys_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES operators (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT operator_passkeys_name_is_one_line CHECK (char_length(name) BETWEEN 1 AND 64 AND name !~ '[[:cntrl:]]'),
    CONSTRAINT operator_passkeys_credential_is_short CHECK (octet_length(credential_id) BETWEEN 1 AND 1023)
);
CREATE UNIQUE INDEX operator_passkeys_credential_id_key ON operator_passkeys (credential_id);
CREATE INDEX operator_passkeys_operator_id_idx ON operator_passkeys (operator_id);

-- Of sessions and links only the SHA-256 of their token is kept: it has 256 random bits, so that no slow hash is needed.
CREATE TABLE operator_sessions (
    id SERIAL NOT NULL,
    operator_id INTEGER NOT NULL,
    token_hash BYTEA NOT NULL,
    created_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    -- To about a minute.
    last_seen_at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    expires_at TIMESTAMPTZ(3) NOT NULL,
    user_agent TEXT NOT NULL,
    -- What began it; null for a link or the single sign-on.
    passkey_id INTEGER,
    CONSTRAINT operator_sessions_pkey PRIMARY KEY (id),
    CONSTRAINT operator_sessions_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES operators (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT operator_sessions_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES operator_passkeys (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT operator_sessions_token_hash_is_sha256 CHECK (octet_length(token_hash) = 32)
);
CREATE UNIQUE INDEX operator_sessions_token_hash_key ON operator_sessions (token_hash);
CREATE INDEX operator_sessions_operator_id_idx ON operator_sessions (operator_id);
CREATE INDEX operator_sessions_expires_at_idx ON operator_sessions (expires_at);
CREATE INDEX operator_sessions_passkey_id_idx ON operator_sessions (passkey_id) WHERE passkey_id IS NOT NULL;

-- A link that logs an operator in, once. It is deleted when it is used.
CREATE TABLE login_links (
    id SERIAL NOT NULL,
    operator_id INTEGER NOT NULL,
    token_hash BYTEA NOT NULL,
    expires_at TIMESTAMPTZ(3) NOT NULL,
    CONSTRAINT login_links_pkey PRIMARY KEY (id),
    CONSTRAINT login_links_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES operators (id) ON DELETE CASCADE ON UPDATE CASCADE,
    CONSTRAINT login_links_token_hash_is_sha256 CHECK (octet_length(token_hash) = 32)
);
CREATE UNIQUE INDEX login_links_token_hash_key ON login_links (token_hash);
CREATE INDEX login_links_operator_id_idx ON login_links (operator_id);
CREATE INDEX login_links_expires_at_idx ON login_links (expires_at);

-- The key by which this service signs challenges, so that nothing is kept of one before it is used: anyone may ask for one. The first use makes it.
CREATE TABLE challenge_keys (
    id INTEGER NOT NULL DEFAULT 1,
    key BYTEA NOT NULL,
    CONSTRAINT challenge_keys_pkey PRIMARY KEY (id),
    CONSTRAINT challenge_keys_is_one CHECK (id = 1),
    CONSTRAINT challenge_keys_is_long CHECK (octet_length(key) = 32)
);

-- A challenge that a passkey has signed, so that it counts once.
CREATE TABLE passkey_challenges (
    id BIGSERIAL NOT NULL,
    challenge_hash BYTEA NOT NULL,
    expires_at TIMESTAMPTZ(3) NOT NULL,
    CONSTRAINT passkey_challenges_pkey PRIMARY KEY (id),
    CONSTRAINT passkey_challenges_hash_is_sha256 CHECK (octet_length(challenge_hash) = 32)
);
CREATE UNIQUE INDEX passkey_challenges_challenge_hash_key ON passkey_challenges (challenge_hash);

-- What was done beside the projects. Operators are named and not referred to: an entry outlives its operator.
CREATE TABLE operator_log (
    id BIGSERIAL NOT NULL,
    at TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds', CURRENT_TIMESTAMP),
    actor TEXT NOT NULL,
    request_id TEXT,
    action TEXT NOT NULL,
    details JSONB NOT NULL,
    CONSTRAINT operator_log_pkey PRIMARY KEY (id)
);
CREATE INDEX operator_log_at_idx ON operator_log (at, id);

------------------------------------------------------------------------------------------------------------------------------------------
-- The database itself
------------------------------------------------------------------------------------------------------------------------------------------

-- Where the database ran, so that a restore is noticed (docs/decisions/restores.md). Otherwise it would give the IDs of lost users to others. One
-- row, made by the first server, or by the first command once there is a project: a database that was only migrated can still be restored into.
CREATE TABLE database_identity (
    id INTEGER NOT NULL DEFAULT 1,
    -- The server, the database, this table; of an embedded database, a file of it.
    place TEXT NOT NULL,
    -- The line of history of the server, which a promotion changes; null where it tells none.
    line TEXT,
    restored_at TIMESTAMPTZ(3),
    CONSTRAINT database_identity_pkey PRIMARY KEY (id),
    CONSTRAINT database_identity_has_one_row CHECK (id = 1)
);

-- An ID that callers see must survive JSON in every client: it ends where a double stops counting (2^53 - 1).
ALTER SEQUENCE users_id_seq MAXVALUE 9007199254740991;
ALTER SEQUENCE accounts_id_seq MAXVALUE 9007199254740991;
ALTER SEQUENCE bans_id_seq MAXVALUE 9007199254740991;
ALTER SEQUENCE changes_id_seq MAXVALUE 9007199254740991;
ALTER SEQUENCE audit_log_id_seq MAXVALUE 9007199254740991;
ALTER SEQUENCE operator_log_id_seq MAXVALUE 9007199254740991;

-- The oldest release that may use the database (docs/decisions/migrations.md). Each release looks here before it serves, and while it serves.
CREATE FUNCTION oldest_release() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '2.0.0';

-- The UTC day of an instant, and the instant at which a UTC day starts, whatever the time zone of the session.
CREATE FUNCTION utc_day(instant timestamptz) RETURNS date LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (instant AT TIME ZONE 'UTC')::date;
CREATE FUNCTION utc_start(day date) RETURNS timestamptz LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN day::timestamp AT TIME ZONE 'UTC';

------------------------------------------------------------------------------------------------------------------------------------------
-- Totals: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- Cuts the positions from (from_at, from_id) to before (to_at, to_id), within one day, into slices of a thousand users. The caller folds, so
-- nobody else touches the slices. What is counted here less what is still a delta is what the slices are to hold: one statement, one snapshot.
CREATE FUNCTION cut_tally_slices(project integer, from_at timestamptz, from_id bigint, to_at timestamptz, to_id bigint) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM tally_slices
    WHERE project_id = project AND (starts_at, starts_id) >= (from_at, from_id) AND (starts_at, starts_id) < (to_at, to_id);

    INSERT INTO tally_slices (project_id, starts_at, starts_id, login_method, users)
    WITH numbered AS (
        SELECT u.created_at, u.id, u.login_method, (row_number() OVER (ORDER BY u.created_at, u.id) - 1) / 1000 AS slice
        FROM users u
        WHERE u.project_id = project AND u.deleted_at IS NULL
            AND (u.created_at, u.id) >= (from_at, from_id) AND (u.created_at, u.id) < (to_at, to_id)
    ), starts AS (
        -- The first slice starts where the range does, so that every later position of the range has a slice.
        SELECT 0 AS slice, from_at AS starts_at, from_id AS starts_id
        UNION ALL
        (SELECT DISTINCT ON (slice) slice, created_at, id FROM numbered WHERE slice > 0 ORDER BY slice, created_at, id)
    ), counted AS (
        SELECT starts.starts_at, starts.starts_id, numbered.login_method, count(*) AS users
        FROM numbered JOIN starts USING (slice)
        GROUP BY 1, 2, 3
        UNION ALL
        SELECT place.starts_at, place.starts_id, d.login_method, -sum(d.change)
        FROM tally_deltas d
        CROSS JOIN LATERAL (
            SELECT s.starts_at, s.starts_id FROM starts s
            WHERE (s.starts_at, s.starts_id) <= (d.created_at, d.user_id)
            ORDER BY s.starts_at DESC, s.starts_id DESC
            LIMIT 1
        ) AS place
        WHERE d.project_id = project
            AND (d.created_at, d.user_id) >= (from_at, from_id) AND (d.created_at, d.user_id) < (to_at, to_id)
        GROUP BY 1, 2, 3
        UNION ALL
        -- Every slice has its row even while it is empty: its start is a boundary.
        SELECT starts_at, starts_id, 'email', 0 FROM starts
    )
    SELECT project, starts_at, starts_id, login_method, sum(users)
    FROM counted
    GROUP BY starts_at, starts_id, login_method;
END $$;

-- Cuts days with more than 2,000 users into slices, and slices that have come to have more again. `days` are the days to look at; null is all.
CREATE FUNCTION cut_crowded_days(project integer, days date[]) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    crowded record;
BEGIN
    PERFORM pg_advisory_xact_lock(1968399457, project);
    IF days IS NULL THEN
        days := (SELECT array_agg(DISTINCT starts_on) FROM tallies WHERE project_id = project AND span = 'day');
    END IF;
    FOR crowded IN
        SELECT utc_start(t.starts_on) AS from_at, 0::bigint AS from_id, utc_start(t.starts_on + 1) AS to_at, 0::bigint AS to_id
        FROM tallies t
        WHERE t.project_id = project AND t.span = 'day' AND t.starts_on = ANY (days)
            AND NOT EXISTS (
                SELECT FROM tally_slices s
                WHERE s.project_id = project AND s.starts_at >= utc_start(t.starts_on) AND s.starts_at < utc_start(t.starts_on + 1)
            )
        GROUP BY t.starts_on
        HAVING sum(t.users) > 2000
        UNION ALL
        SELECT slice.starts_at, slice.starts_id, slice.ends_at, slice.ends_id
        FROM (
            SELECT s.starts_at, s.starts_id, sum(s.users) AS users,
                coalesce(lead(s.starts_at) OVER day, utc_start(utc_day(s.starts_at) + 1)) AS ends_at,
                coalesce(lead(s.starts_id) OVER day, 0) AS ends_id
            FROM unnest(days) AS each (day)
            JOIN tally_slices s
                ON s.project_id = project AND s.starts_at >= utc_start(each.day) AND s.starts_at < utc_start(each.day + 1)
            GROUP BY s.starts_at, s.starts_id
            WINDOW day AS (PARTITION BY utc_day(s.starts_at) ORDER BY s.starts_at, s.starts_id)
        ) AS slice
        WHERE slice.users > 2000
    LOOP
        PERFORM cut_tally_slices(project, crowded.from_at, crowded.from_id, crowded.to_at, crowded.to_id);
    END LOOP;
END $$;

-- Moves up to `most` committed deltas of a project into its tallies and returns how many; 0 also while somebody else folds. One statement takes
-- them away and counts them, so that no snapshot sees them twice or not at all.
CREATE FUNCTION fold_tallies(project integer, most integer) RETURNS integer LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    upto bigint;
    folded integer;
    touched date[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(1968399457, project) THEN
        RETURN 0;
    END IF;
    -- A range of ids rather than a list of them: no plan for it is a bad one.
    SELECT max(id) INTO upto
    FROM (SELECT id FROM tally_deltas WHERE project_id = project ORDER BY id LIMIT most) AS oldest;
    WITH taken AS (
        DELETE FROM tally_deltas
        WHERE project_id = project AND id <= upto
        RETURNING created_at, user_id, login_method, change
    ), spans AS (
        INSERT INTO tallies AS tally (project_id, span, starts_on, login_method, users)
        SELECT project, each.span, each.starts_on, taken.login_method, sum(taken.change)
        FROM taken
        CROSS JOIN LATERAL (
            VALUES ('all'::tally_span, DATE '1970-01-01'),
                   ('month'::tally_span, date_trunc('month', taken.created_at AT TIME ZONE 'UTC')::date),
                   ('day'::tally_span, utc_day(taken.created_at))
        ) AS each (span, starts_on)
        GROUP BY each.span, each.starts_on, taken.login_method
        HAVING sum(taken.change) <> 0
        ORDER BY each.span, each.starts_on, taken.login_method
        ON CONFLICT (project_id, span, starts_on, login_method) DO UPDATE SET users = tally.users + excluded.users
    ), slices AS (
        INSERT INTO tally_slices AS tally (project_id, starts_at, starts_id, login_method, users)
        SELECT project, slice.starts_at, slice.starts_id, taken.login_method, sum(taken.change)
        FROM taken
        CROSS JOIN LATERAL (
            SELECT s.starts_at, s.starts_id
            FROM tally_slices s
            WHERE s.project_id = project
                AND (s.starts_at, s.starts_id) <= (taken.created_at, taken.user_id)
                AND s.starts_at >= utc_start(utc_day(taken.created_at))
            ORDER BY s.starts_at DESC, s.starts_id DESC
            LIMIT 1
        ) AS slice
        GROUP BY slice.starts_at, slice.starts_id, taken.login_method
        HAVING sum(taken.change) <> 0
        ORDER BY slice.starts_at, slice.starts_id, taken.login_method
        ON CONFLICT (project_id, starts_at, starts_id, login_method) DO UPDATE SET users = tally.users + excluded.users
    )
    SELECT count(*), array_agg(DISTINCT utc_day(created_at)) INTO folded, touched FROM taken;

    -- While much is left to fold, every cut would have to look through all of it.
    IF folded < most THEN
        PERFORM cut_crowded_days(project, touched);
    END IF;
    RETURN folded;
END $$;

-- TRUNCATE takes away rows that the snapshot of its transaction does not see; DELETE would leave the tallies of those.
CREATE FUNCTION forget_tallies() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    tally_table text;
BEGIN
    FOREACH tally_table IN ARRAY ARRAY['tally_deltas', 'tally_slices', 'tallies'] LOOP
        BEGIN
            EXECUTE format('TRUNCATE %I', tally_table);
        EXCEPTION WHEN object_in_use THEN
            -- The same command empties it: TRUNCATE projects CASCADE, or a list of tables.
            NULL;
        END;
    END LOOP;
    RETURN NULL;
END $$;

CREATE FUNCTION forget_deltas() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM tally_deltas WHERE project_id = OLD.id;
    RETURN NULL;
END $$;

-- Deltas have no foreign key. The name of the trigger comes after those of the foreign keys, so the users are gone by then.
CREATE TRIGGER projects_forget_deltas AFTER DELETE ON projects FOR EACH ROW EXECUTE FUNCTION forget_deltas();
CREATE TRIGGER users_tally_truncate AFTER TRUNCATE ON users FOR EACH STATEMENT EXECUTE FUNCTION forget_tallies();

------------------------------------------------------------------------------------------------------------------------------------------
-- The feed of changes: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- Differs after anything by which this database may have lost changes that readers have seen: a restore into another database or over this one, a
-- copy of its files, a crash, another server that took over. It may also differ without a loss, which costs nothing.
CREATE FUNCTION changes_incarnation() RETURNS text LANGUAGE sql STABLE
SET search_path FROM CURRENT AS $$
    SELECT concat_ws(' ', d.oid, pg_relation_filenode('changes_feed'), extract(epoch FROM pg_postmaster_start_time()))
    FROM pg_database d WHERE d.datname = current_database()
$$;

-- Publishes every change up to an ID and returns up to where is published now. The caller has made sure that no transaction is open that may still
-- commit one of them. A timeline begins with a letter: one of digits only would make cursors that look like those of lists of users.
CREATE FUNCTION publish_changes(upto bigint) RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    feed changes_feed;
    other_timeline text := 'f' || left(md5(random()::text || clock_timestamp()), 7);
BEGIN
    INSERT INTO changes_feed (timeline, incarnation, published)
    VALUES (other_timeline, changes_incarnation(), 1)
    ON CONFLICT DO NOTHING;
    SELECT * INTO feed FROM changes_feed FOR NO KEY UPDATE;
    IF feed.incarnation <> changes_incarnation() THEN
        -- A timeline in which nothing was published has no cursors.
        IF feed.published > coalesce((SELECT max(published) FROM changes_timelines), 1) THEN
            INSERT INTO changes_timelines (timeline, published) VALUES (feed.timeline, feed.published);
            -- So many starts back, a cursor has expired.
            DELETE FROM changes_timelines
            WHERE published < (SELECT t.published FROM changes_timelines t ORDER BY t.published DESC OFFSET 199 LIMIT 1);
        END IF;
        UPDATE changes_feed SET timeline = other_timeline, incarnation = changes_incarnation();
    END IF;
    IF upto > feed.published THEN
        UPDATE changes_feed SET published = upto;
    END IF;
    RETURN greatest(upto, feed.published);
END $$;

-- Publishes every change after `known` that was given an ID before this call, if no transaction is open that may still commit one. If one may be,
-- returns a transaction ID instead: all those transactions have a smaller one. The order decides: first the last ID, then a transaction ID, then a
-- look at which are open, in a snapshot of its own.
CREATE FUNCTION publish_settled(known bigint, OUT last bigint, OUT published bigint, OUT unsettled xid8) LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    last := coalesce(pg_sequence_last_value('changes_id_seq'), 0);
    IF last <= known THEN
        RETURN;
    END IF;
    unsettled := pg_current_xact_id();
    -- This transaction is the oldest that is open.
    IF pg_snapshot_xmin(pg_current_snapshot()) >= unsettled THEN
        unsettled := NULL;
        published := publish_changes(last);
    END IF;
END $$;

-- All users are gone without a change for each, so every cursor has expired.
CREATE FUNCTION forget_changes() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM changes;
    INSERT INTO changes_pruned (project_id, through)
    SELECT p.id, gone.through FROM projects p, (SELECT nextval('changes_id_seq') AS through) AS gone
    ON CONFLICT (project_id) DO UPDATE SET through = excluded.through;
    RETURN NULL;
END $$;

CREATE TRIGGER users_changes_truncate AFTER TRUNCATE ON users FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();
CREATE TRIGGER accounts_changes_truncate AFTER TRUNCATE ON accounts FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();
CREATE TRIGGER identities_changes_truncate AFTER TRUNCATE ON identities FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();
CREATE TRIGGER bans_changes_truncate AFTER TRUNCATE ON bans FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();

CREATE FUNCTION delete_project_changes() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM changes WHERE project_id IN (SELECT id FROM old_projects);
    RETURN NULL;
END $$;

CREATE TRIGGER projects_changes_delete AFTER DELETE ON projects
    REFERENCING OLD TABLE AS old_projects FOR EACH STATEMENT EXECUTE FUNCTION delete_project_changes();

------------------------------------------------------------------------------------------------------------------------------------------
-- Projects and their secrets: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- A process that believes credentials for a moment is told when a secret may have ended, by whatever way that came about.
CREATE FUNCTION announce_secrets() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    NOTIFY userdir_secrets;
    RETURN NULL;
END $$;

-- That a secret was used ends nobody's belief in it.
CREATE TRIGGER app_secrets_announce AFTER UPDATE OF project_id, secret_hash, label, scopes, expires_at OR DELETE ON app_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();
-- Cached credentials know whether their project is disabled, and its limit.
CREATE TRIGGER projects_announce AFTER UPDATE OF disabled_at, requests_per_minute ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();

-- A new ID of a project would move its tallies by the foreign keys, and count its users once more by the triggers.
CREATE FUNCTION refuse_new_project_id() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    RAISE EXCEPTION 'the id of a project does not change' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER projects_id_is_fixed BEFORE UPDATE OF id ON projects
    FOR EACH ROW WHEN (OLD.id IS DISTINCT FROM NEW.id) EXECUTE FUNCTION refuse_new_project_id();

------------------------------------------------------------------------------------------------------------------------------------------
-- Users: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- What keeps the tallies records the changes as well: two triggers instead of one would cost a first login several times as much. Of one user,
-- changes get their IDs in the order of the commits, because each is written under the lock of the user's row.

-- A row with an ID below zero is no user: see claim_identity.
CREATE FUNCTION record_inserted_users() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM new_users WHERE id > 0) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (
        SELECT FROM new_users n CROSS JOIN LATERAL (
            SELECT FROM identities i
            WHERE i.project_id = n.project_id AND i.auth_method = n.auth_method
                AND i.auth_value_key >= n.auth_value_key AND i.auth_value_key <= n.auth_value_key AND NOT i.removed
            ORDER BY i.auth_value_key
            LIMIT 1
        ) AS linked
        WHERE n.deleted_at IS NULL
    ) THEN
        RAISE unique_violation USING MESSAGE = 'another user has the identity linked', CONSTRAINT = 'identities_identity_key';
    END IF;
    WITH counted AS (
        INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
        SELECT project_id, created_at, id, login_method, 1 FROM new_users WHERE deleted_at IS NULL
    )
    INSERT INTO changes (project_id, type, user_id)
    SELECT project_id, 'user.created', id FROM new_users WHERE deleted_at IS NULL ORDER BY id;
    RETURN NULL;
END $$;

CREATE TRIGGER users_tally_insert AFTER INSERT ON users
    REFERENCING NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION record_inserted_users();

-- Writes `record_updated_users` for the columns that users have now. A migration with a new column ends with it, so that the column is in the feed
-- without being named here. Rows are compared column by column: as jsonb, a login would take twice as long. A login changes no tally: what was
-- there before and is there after cancels out. The join is a full one, because that is never a nested loop, whatever the size of the first
-- statement for which it was planned; and because a row whose key has changed is a removed user and a created one.
CREATE FUNCTION write_record_updated_users() RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT AS $function$
DECLARE
    columns text[];
    fields text;
BEGIN
    -- Not what a login changes, what follows from other columns, or what tells users apart.
    SELECT array_agg(format('%%s.%I', attname) ORDER BY attnum) INTO columns
    FROM pg_attribute
    WHERE attrelid = 'users'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count', 'identity_login', 'import_id']);
    -- The names of fields where they differ from those of columns. The key of a value goes with the value.
    SELECT string_agg(
        format(
            'CASE WHEN %s IS DISTINCT FROM %s THEN %L END',
            CASE attname WHEN 'identity_email' THEN 'n.login_email IS NOT DISTINCT FROM o.login_email AND n.identity_email'
                WHEN 'auth_value' THEN '(n.auth_value, n.auth_value_key)' ELSE format('n.%I', attname) END,
            CASE attname WHEN 'auth_value' THEN '(o.auth_value, o.auth_value_key)' ELSE format('o.%I', attname) END,
            CASE attname WHEN 'login_email' THEN 'email' WHEN 'identity_email' THEN 'identities' ELSE attname END
        ),
        E',\n                ' ORDER BY attname = 'created_at', attname LIKE 'auth%' DESC, attname <> 'login_email', attnum
    ) INTO fields
    FROM pg_attribute
    WHERE attrelid = 'users'::regclass AND attnum > 0 AND NOT attisdropped AND (attgenerated = '' OR attname = 'login_email')
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count', 'identity_login', 'import_id', 'id', 'auth_value_key', 'deleted_at', 'identity_at', 'merged_into', 'said_email', 'linked_email']);
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION record_updated_users() RETURNS trigger LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
        current_schema(),
        format(
            $body$
BEGIN
    -- A first login updates nobody, and a later one none of these columns.
    IF NOT EXISTS (
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (%s)
            IS DISTINCT FROM (%s)
    ) THEN
        RETURN NULL;
    END IF;
    PERFORM carry_identities(n.project_id, n.id, n.auth_method, n.auth_value, n.auth_value_key, n.deleted_at IS NOT NULL)
    FROM new_users n JOIN old_users o ON o.project_id = n.project_id AND o.id = n.id
    WHERE (n.auth_method, n.auth_value_key, n.deleted_at IS NULL) IS DISTINCT FROM (o.auth_method, o.auth_value_key, o.deleted_at IS NULL)
    ORDER BY n.id;
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT changed.*, 1 FROM (
        SELECT project_id, created_at, id, login_method FROM new_users WHERE deleted_at IS NULL
        EXCEPT ALL
        SELECT project_id, created_at, id, login_method FROM old_users WHERE deleted_at IS NULL
    ) AS changed
    UNION ALL
    SELECT changed.*, -1 FROM (
        SELECT project_id, created_at, id, login_method FROM old_users WHERE deleted_at IS NULL
        EXCEPT ALL
        SELECT project_id, created_at, id, login_method FROM new_users WHERE deleted_at IS NULL
    ) AS changed;
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT project_id, type, user_id, CASE type WHEN 'user.updated' THEN fields WHEN 'user.merged' THEN merged_into::text END
    FROM (
        SELECT coalesce(n.project_id, o.project_id) AS project_id, coalesce(n.id, o.id) AS user_id, n.merged_into,
            CASE
                WHEN n.merged_into IS NOT NULL THEN 'user.merged'::change_type
                WHEN n.id IS NULL OR n.deleted_at IS NOT NULL THEN 'user.removed'::change_type
                WHEN o.id IS NULL THEN 'user.created'
                WHEN o.deleted_at IS NOT NULL THEN 'user.restored'
                ELSE 'user.updated'
            END AS type,
            concat_ws(' ',
                %s
            ) AS fields
        FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        -- Who was removed before and after is no user of any reader.
        WHERE o.deleted_at IS NULL AND o.id IS NOT NULL OR n.deleted_at IS NULL AND n.id IS NOT NULL
    ) AS changed
    WHERE type <> 'user.updated' OR fields <> ''
    ORDER BY user_id;
    RETURN NULL;
END $body$,
            (SELECT string_agg(format(name, 'n'), ', ') FROM unnest(columns) AS name),
            (SELECT string_agg(format(name, 'o'), ', ') FROM unnest(columns) AS name),
            fields
        )
    );
END $function$;

SELECT write_record_updated_users();

CREATE TRIGGER users_tally_update AFTER UPDATE ON users
    REFERENCING OLD TABLE AS old_users NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION record_updated_users();

CREATE FUNCTION record_deleted_users() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    -- Users whose project goes with them leave neither a delta nor a change, nor do those who were removed before.
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT o.project_id, o.created_at, o.id, o.login_method, -1
    FROM old_users o
    WHERE o.id > 0 AND o.deleted_at IS NULL AND (SELECT p.id FROM projects p WHERE p.id = o.project_id) IS NOT NULL;
    INSERT INTO changes (project_id, type, user_id)
    SELECT o.project_id, 'user.removed', o.id
    FROM old_users o
    WHERE o.id > 0 AND o.deleted_at IS NULL AND (SELECT p.id FROM projects p WHERE p.id = o.project_id) IS NOT NULL
    ORDER BY o.id;
    RETURN NULL;
END $$;

CREATE TRIGGER users_tally_delete AFTER DELETE ON users
    REFERENCING OLD TABLE AS old_users FOR EACH STATEMENT EXECUTE FUNCTION record_deleted_users();

-- The external ID of a user who has logged in with one: a login sets it once. An error if the user has another one. In the statement of the login,
-- so that it compares under the lock of the user's row.
CREATE FUNCTION keep_external_id(had text, given text) RETURNS text LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    IF had <> given THEN
        RAISE EXCEPTION 'the user has another external id'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'users_external_id_is_kept';
    END IF;
    RETURN given;
END $$;

------------------------------------------------------------------------------------------------------------------------------------------
-- Imports: who was touched since
------------------------------------------------------------------------------------------------------------------------------------------

-- Only the import itself, which says its ID, and a migration write a user without a trace.
CREATE FUNCTION forget_import() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    NEW.import_id := NULL;
    RETURN NEW;
END $$;

CREATE TRIGGER users_touched BEFORE UPDATE ON users FOR EACH ROW
    WHEN (
        OLD.import_id IS NOT NULL AND OLD.import_id::text IS DISTINCT FROM current_setting('userdir.import', true)
        AND current_setting('userdir.migrates', true) IS DISTINCT FROM 'on'
    )
    EXECUTE FUNCTION forget_import();

-- What is of a user in another table has changed.
CREATE FUNCTION touch_user(project integer, touched bigint) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE users SET import_id = NULL
    WHERE project_id = project AND id = touched AND import_id IS NOT NULL AND import_id::text IS DISTINCT FROM current_setting('userdir.import', true)
        AND current_setting('userdir.migrates', true) IS DISTINCT FROM 'on';
END $$;

------------------------------------------------------------------------------------------------------------------------------------------
-- Accounts: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- At most 100 accounts a user in all: true where a user who exists may be linked with the addresses as well, and otherwise an error. The caller has
-- locked the user's row, so that of two at once the second sees what the first has added: a volatile function counts in a snapshot of its own,
-- later than the lock. Not a trigger, which would make every first login a tenth slower.
CREATE FUNCTION require_account_room(project integer, owner bigint, address_keys text[]) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT SET enable_sort = off SET enable_seqscan = off AS $$
DECLARE
    would_have bigint;
BEGIN
    SELECT count(*) + (
            SELECT count(*) FROM unnest(address_keys) AS given (key) WHERE given.key <> ALL (coalesce(array_agg(has.address_key), '{}'))
        )
    INTO would_have
    FROM (
        SELECT a.address_key FROM accounts a
        WHERE a.project_id = project AND a.user_id >= owner AND a.user_id <= owner
        ORDER BY a.user_id
        OFFSET 0
    ) AS has;
    IF would_have > 100 THEN
        RAISE EXCEPTION 'a user would have % accounts', would_have
            USING ERRCODE = 'check_violation', CONSTRAINT = 'accounts_are_at_most_100', DETAIL = would_have;
    END IF;
    RETURN true;
END $$;

-- Each of these locks the user first. A row that this transaction has written is locked already.
CREATE FUNCTION record_added_accounts() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM new_accounts) THEN
        RETURN NULL;
    END IF;
    INSERT INTO changes (project_id, type, user_id)
    SELECT a.project_id, 'account.added', a.user_id FROM new_accounts a
    -- Always true. It waits for the lock before the ids are given out.
    WHERE (
        SELECT u.id FROM users u
        WHERE u.project_id = a.project_id AND u.id = a.user_id AND u.xmin <> pg_current_xact_id()::xid
        FOR NO KEY UPDATE
    ) IS DISTINCT FROM 0
    ORDER BY a.id;
    RETURN NULL;
END $$;

CREATE TRIGGER accounts_changes_insert AFTER INSERT ON accounts
    REFERENCING NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_added_accounts();

CREATE FUNCTION record_changed_accounts() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM new_accounts) THEN
        RETURN NULL;
    END IF;
    PERFORM FROM new_accounts a
    JOIN users u ON u.project_id = a.project_id AND u.id = a.user_id
    WHERE u.xmin <> pg_current_xact_id()::xid
    FOR NO KEY UPDATE OF u;
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT DISTINCT project_id, 'user.updated'::change_type, user_id, 'accounts'
    FROM (
        (SELECT * FROM new_accounts EXCEPT SELECT * FROM old_accounts)
        UNION ALL
        (SELECT * FROM old_accounts EXCEPT SELECT * FROM new_accounts)
    ) AS changed;
    RETURN NULL;
END $$;

CREATE TRIGGER accounts_changes_update AFTER UPDATE ON accounts
    REFERENCING OLD TABLE AS old_accounts NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_changed_accounts();

-- Accounts that go with their user leave no change. OFFSET keeps the look-up by ID by itself: next to "is current" an index of current users could be
-- taken, and all of a project be read for each user.
CREATE FUNCTION record_removed_accounts() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM old_accounts) THEN
        RETURN NULL;
    END IF;
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT u.project_id, 'user.updated', u.id, 'accounts'
    FROM (SELECT DISTINCT a.project_id, a.user_id FROM old_accounts a ORDER BY a.project_id, a.user_id) AS a
    CROSS JOIN LATERAL (
        SELECT * FROM users WHERE users.project_id = a.project_id AND users.id = a.user_id OFFSET 0 FOR NO KEY UPDATE
    ) AS u
    WHERE u.deleted_at IS NULL;
    PERFORM touch_user(project_id, user_id)
    FROM (SELECT DISTINCT project_id, user_id FROM old_accounts ORDER BY project_id, user_id) AS owners;
    RETURN NULL;
END $$;

CREATE TRIGGER accounts_changes_delete AFTER DELETE ON accounts
    REFERENCING OLD TABLE AS old_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_removed_accounts();

------------------------------------------------------------------------------------------------------------------------------------------
-- Linked identities: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- The current user who has an identity linked, or null. Ordered, so that no plan reads more than one row of the index.
CREATE FUNCTION linked_user(project integer, method text, value_key text) RETURNS bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_sort = off SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (
        SELECT i.user_id FROM identities i
        WHERE i.project_id = project AND i.auth_method = method AND i.auth_value_key >= value_key AND i.auth_value_key <= value_key
            AND NOT i.removed
        ORDER BY i.auth_value_key
        LIMIT 1
    );
END $$;

-- The ban of a user covers an identity that becomes theirs.
CREATE FUNCTION cover_identity(project integer, owner bigint, method text, value text, value_key text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, user_id, created_at, reason, expires_at)
    SELECT b.project_id, method, value, value_key, b.user_id, b.created_at, b.reason, b.expires_at
    FROM (
        SELECT * FROM user_bans o WHERE o.project_id = project AND o.user_id = owner AND o.expires_at > now() FOR KEY SHARE
    ) AS b
    ON CONFLICT DO NOTHING;
END $$;

-- The email of the oldest linked identity that has one is kept with the user.
CREATE FUNCTION follow_linked_email(project integer, owner bigint) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
DECLARE
    email text := (
        SELECT i.login_email FROM identities i
        WHERE i.project_id = project AND i.user_id = owner AND i.login_email IS NOT NULL
        ORDER BY i.created_at, i.id
        LIMIT 1
    );
BEGIN
    UPDATE users SET linked_email = email WHERE project_id = project AND id = owner AND linked_email IS DISTINCT FROM email;
END $$;

-- A new identity is removed where its user is.
CREATE FUNCTION carry_removal() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    NEW.removed := (SELECT deleted_at IS NOT NULL FROM users WHERE project_id = NEW.project_id AND id = NEW.user_id FOR NO KEY UPDATE);
    RETURN NEW;
END $$;

CREATE TRIGGER identities_removal BEFORE INSERT ON identities FOR EACH ROW EXECUTE FUNCTION carry_removal();

-- New identities are claimed and recorded at once: an import links many with one statement.
CREATE FUNCTION claim_new_identities() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    places tid[];
BEGIN
    WITH claimed AS (
        INSERT INTO users (project_id, id, auth_method, auth_value, auth_value_key)
        SELECT project_id, -id, auth_method, '', auth_value_key FROM new_identities WHERE NOT removed ORDER BY id
        RETURNING ctid
    )
    SELECT array_agg(ctid) INTO places FROM claimed;
    DELETE FROM users WHERE ctid = ANY (places);
    PERFORM cover_identity(project_id, user_id, auth_method, auth_value, auth_value_key) FROM new_identities WHERE NOT removed;
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT DISTINCT project_id, 'user.updated'::change_type, user_id, 'identities' FROM new_identities WHERE NOT removed;
    PERFORM follow_linked_email(project_id, user_id), touch_user(project_id, user_id)
    FROM (SELECT DISTINCT project_id, user_id FROM new_identities ORDER BY project_id, user_id) AS owners;
    RETURN NULL;
END $$;

CREATE TRIGGER identities_claim_new AFTER INSERT ON identities
    REFERENCING NEW TABLE AS new_identities FOR EACH STATEMENT EXECUTE FUNCTION claim_new_identities();

-- An identity takes its place in the index of primary ones until the end of the transaction: a login that registers it meanwhile waits, and then
-- finds it linked (record_inserted_users). That row has an ID below zero, and is gone when anybody else could see it.
CREATE FUNCTION claim_identity() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    NEW.removed := (SELECT deleted_at IS NOT NULL FROM users WHERE project_id = NEW.project_id AND id = NEW.user_id FOR NO KEY UPDATE);
    IF NOT NEW.removed THEN
        INSERT INTO users (project_id, id, auth_method, auth_value, auth_value_key)
        VALUES (NEW.project_id, -NEW.id, NEW.auth_method, '', NEW.auth_value_key);
        DELETE FROM users WHERE project_id = NEW.project_id AND id = -NEW.id;
        PERFORM cover_identity(NEW.project_id, NEW.user_id, NEW.auth_method, NEW.auth_value, NEW.auth_value_key);
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER identities_claim BEFORE UPDATE OF project_id, user_id, auth_method, auth_value_key, removed ON identities
    FOR EACH ROW EXECUTE FUNCTION claim_identity();

-- A change of the identities of a current user is a change of the user. Those of one who is removed, restored or erased go with the user.
CREATE FUNCTION record_identities() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
DECLARE
    i identities := coalesce(NEW, OLD);
BEGIN
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT u.project_id, 'user.updated', u.id, 'identities'
    FROM users u
    WHERE u.project_id = i.project_id AND u.id = i.user_id
        -- So written, it fits no index of current users: each has many, and none of them the ID.
        AND (u.deleted_at IS NULL)::int = 1
        AND (TG_OP = 'DELETE' OR NEW.removed = OLD.removed)
    FOR NO KEY UPDATE OF u;
    PERFORM follow_linked_email(i.project_id, i.user_id), touch_user(i.project_id, i.user_id);
    IF OLD.user_id <> i.user_id THEN
        PERFORM follow_linked_email(OLD.project_id, OLD.user_id);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER identities_changes AFTER UPDATE ON identities FOR EACH ROW
    -- A login changes none of these.
    WHEN ((OLD.user_id, OLD.auth_value, OLD.login_email, OLD.email_verified, OLD.removed)
        IS DISTINCT FROM (NEW.user_id, NEW.auth_value, NEW.login_email, NEW.email_verified, NEW.removed))
    EXECUTE FUNCTION record_identities();
CREATE TRIGGER identities_changes_delete AFTER DELETE ON identities FOR EACH ROW EXECUTE FUNCTION record_identities();

-- The identities of a user who is removed or restored, and the primary identity of one who is current with another than before.
CREATE FUNCTION carry_identities(project integer, owner bigint, method text, value text, value_key text, is_removed boolean) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE identities i SET removed = is_removed WHERE i.project_id = project AND i.user_id = owner AND i.removed <> is_removed;
    IF NOT is_removed THEN
        IF linked_user(project, method, value_key) IS NOT NULL THEN
            RAISE unique_violation USING MESSAGE = 'a user has the identity linked', CONSTRAINT = 'identities_identity_key';
        END IF;
        PERFORM cover_identity(project, owner, method, value, value_key);
    END IF;
END $$;

------------------------------------------------------------------------------------------------------------------------------------------
-- Bans: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- A user is locked before their ban is written, as before an identity is linked: so each sees the other. A user who was merged has no identity.
CREATE FUNCTION claim_banned_user() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM users u WHERE u.project_id = NEW.project_id AND u.id = NEW.user_id AND u.merged_into IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = 'no such user', CONSTRAINT = 'user_bans_user_fkey';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER user_bans_claim BEFORE INSERT ON user_bans FOR EACH ROW EXECUTE FUNCTION claim_banned_user();

-- The ban of a user covers each identity that they have.
CREATE FUNCTION cover_identities() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM cover_identity(u.project_id, u.id, u.auth_method, u.auth_value, u.auth_value_key)
    FROM users u WHERE u.project_id = NEW.project_id AND u.id = NEW.user_id;
    PERFORM cover_identity(i.project_id, i.user_id, i.auth_method, i.auth_value, i.auth_value_key)
    FROM identities i WHERE i.project_id = NEW.project_id AND i.user_id = NEW.user_id;
    RETURN NULL;
END $$;

CREATE TRIGGER user_bans_cover AFTER INSERT OR UPDATE ON user_bans FOR EACH ROW EXECUTE FUNCTION cover_identities();

-- An identity that leaves a banned user takes a ban of its own with the same terms, unless it has one that ends later.
CREATE FUNCTION keep_ban(project integer, owner bigint, method text, value_key text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM bans own USING bans b
    WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key AND b.user_id = owner
        AND own.project_id = project AND own.auth_method = method AND own.auth_value_key = value_key AND own.user_id IS NULL
        AND own.expires_at < b.expires_at;
    UPDATE bans b SET user_id = NULL
    WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key AND b.user_id = owner
        AND NOT EXISTS (
            SELECT FROM bans own
            WHERE own.project_id = project AND own.auth_method = method AND own.auth_value_key = value_key AND own.user_id IS NULL
        );
    DELETE FROM bans b
    WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key AND b.user_id = owner;
END $$;

-- At the end of the transaction: one that makes another identity primary takes it away for a moment.
CREATE FUNCTION keep_ban_of_identity() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
DECLARE
    owner bigint;
BEGIN
    IF TG_TABLE_NAME = 'users' THEN
        owner := OLD.id;
    ELSE
        owner := OLD.user_id;
    END IF;
    PERFORM FROM bans b
    WHERE b.project_id = OLD.project_id AND b.auth_method = OLD.auth_method AND b.auth_value_key = OLD.auth_value_key AND b.user_id = owner;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM users u
    WHERE u.project_id = OLD.project_id AND u.id = owner AND u.auth_method = OLD.auth_method AND u.auth_value_key = OLD.auth_value_key;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM identities i
    WHERE i.project_id = OLD.project_id AND i.user_id = owner AND i.auth_method = OLD.auth_method AND i.auth_value_key = OLD.auth_value_key;
    IF NOT FOUND THEN
        PERFORM keep_ban(OLD.project_id, owner, OLD.auth_method, OLD.auth_value_key);
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER identities_keep_ban AFTER DELETE OR UPDATE OF project_id, user_id, auth_method, auth_value_key ON identities
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION keep_ban_of_identity();
CREATE CONSTRAINT TRIGGER users_keep_ban AFTER UPDATE OF auth_method, auth_value_key ON users
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.auth_method <> OLD.auth_method OR NEW.auth_value_key <> OLD.auth_value_key) EXECUTE FUNCTION keep_ban_of_identity();

-- A ban outlives its user: where the user is erased, each of the identities keeps it.
CREATE FUNCTION keep_bans_of_user() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
BEGIN
    IF (SELECT u.id FROM users u WHERE u.project_id = OLD.project_id AND u.id = OLD.user_id) IS NULL
        AND (SELECT p.id FROM projects p WHERE p.id = OLD.project_id) IS NOT NULL THEN
        PERFORM keep_ban(b.project_id, b.user_id, b.auth_method, b.auth_value_key)
        FROM bans b WHERE b.project_id = OLD.project_id AND b.user_id = OLD.user_id;
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER user_bans_keep BEFORE DELETE ON user_bans FOR EACH ROW EXECUTE FUNCTION keep_bans_of_user();

-- Of two users who turn out to be one person, the ban that ends last is that of the person. It goes before the identities do, so that each stays
-- banned.
CREATE FUNCTION merge_bans() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO user_bans AS had (project_id, user_id, created_at, reason, expires_at)
    SELECT b.project_id, NEW.merged_into, b.created_at, b.reason, b.expires_at
    FROM user_bans b
    WHERE b.project_id = NEW.project_id AND b.user_id = NEW.id AND b.expires_at > now()
    ON CONFLICT (project_id, user_id) DO UPDATE SET created_at = excluded.created_at, reason = excluded.reason, expires_at = excluded.expires_at
        WHERE had.expires_at < excluded.expires_at;
    UPDATE bans b SET user_id = o.user_id, created_at = o.created_at, reason = o.reason, expires_at = o.expires_at
    FROM user_bans o
    WHERE o.project_id = NEW.project_id AND o.user_id = NEW.merged_into AND b.project_id = o.project_id AND b.user_id = NEW.id;
    DELETE FROM user_bans b WHERE b.project_id = NEW.project_id AND b.user_id = NEW.id;
    RETURN NULL;
END $$;

CREATE TRIGGER users_merge_bans AFTER UPDATE OF merged_into ON users FOR EACH ROW
    WHEN (OLD.merged_into IS NULL AND NEW.merged_into IS NOT NULL) EXECUTE FUNCTION merge_bans();

-- The current user who has an identity, locked, so that their changes follow in the order of commits; null if there is none.
CREATE FUNCTION locked_holder(project integer, method text, value_key text) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET search_path FROM CURRENT AS $$
DECLARE
    holder bigint;
BEGIN
    SELECT u.id INTO holder FROM users u
    WHERE u.project_id = project AND u.auth_method = method AND u.auth_value_key >= value_key AND u.auth_value_key <= value_key
        AND u.deleted_at IS NULL
    ORDER BY u.auth_value_key
    LIMIT 1
    FOR NO KEY UPDATE;
    IF holder IS NULL THEN
        SELECT u.id INTO holder FROM users u WHERE u.project_id = project AND u.id = linked_user(project, method, value_key) FOR NO KEY UPDATE;
    END IF;
    RETURN holder;
END $$;

-- Records that an identity is banned from now on, or is not any more. Where it was and is, the user whose ban has changed is returned. `had` and
-- `has` are the ends of its bans that the statement has changed, before and after. The end of a ban by itself, and its deletion after that, touch
-- nobody.
CREATE FUNCTION record_ban(project integer, method text, value_key text, had timestamptz[], has timestamptz[]) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET search_path FROM CURRENT AS $$
DECLARE
    holder bigint := locked_holder(project, method, value_key);
    has_all timestamptz[] := ARRAY(
        SELECT b.expires_at FROM bans b WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key
    );
    -- How many bans the statement has not changed, and how many of these hold.
    others integer := cardinality(has_all) - cardinality(has);
    held_others integer := (SELECT count(*) FROM unnest(has_all) AS e WHERE e > now()) - (SELECT count(*) FROM unnest(has) AS e WHERE e > now());
    had_held boolean := held_others > 0 OR now() < ANY (had);
    has_held boolean := held_others > 0 OR now() < ANY (has);
BEGIN
    -- The deletion of an ended ban beside one that holds is no act on the user.
    IF now() < ANY (had || has) THEN
        PERFORM touch_user(project, holder);
    END IF;
    IF cardinality(had) + others = 0 THEN
        INSERT INTO changes (project_id, type, user_id) VALUES (project, 'identity.banned', holder);
    ELSIF cardinality(has) + others = 0 THEN
        INSERT INTO changes (project_id, type, user_id) VALUES (project, 'identity.unbanned', holder);
    ELSIF had_held THEN
        RETURN holder;
    ELSIF has_held THEN
        -- The end of the ban before has not been told yet.
        INSERT INTO changes (project_id, type, user_id) VALUES (project, 'identity.unbanned', holder), (project, 'identity.banned', holder);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION record_bans() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO changes (project_id, type, user_id, fields)
        SELECT DISTINCT b.project_id, 'user.updated'::change_type, b.holder, 'ban'
        FROM (
            SELECT b.project_id, record_ban(b.project_id, b.auth_method, b.auth_value_key, '{}', array_agg(b.expires_at)) AS holder
            FROM new_bans b
            GROUP BY b.project_id, b.auth_method, b.auth_value_key
            ORDER BY b.project_id, b.auth_method, b.auth_value_key
            OFFSET 0
        ) AS b
        WHERE b.holder IS NOT NULL;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO changes (project_id, type, user_id, fields)
        SELECT DISTINCT b.project_id, 'user.updated'::change_type, b.holder, 'ban'
        FROM (
            SELECT b.project_id, record_ban(b.project_id, b.auth_method, b.auth_value_key, array_agg(b.expires_at), '{}') AS holder
            FROM old_bans b
            -- Bans whose project goes with them leave no change.
            WHERE (SELECT p.id FROM projects p WHERE p.id = b.project_id) IS NOT NULL
            GROUP BY b.project_id, b.auth_method, b.auth_value_key
            ORDER BY b.project_id, b.auth_method, b.auth_value_key
            OFFSET 0
        ) AS b
        WHERE b.holder IS NOT NULL;
    ELSE
        INSERT INTO changes (project_id, type, user_id, fields)
        SELECT DISTINCT b.project_id, 'user.updated'::change_type, b.holder, 'ban'
        FROM (
            SELECT d.project_id, record_ban(d.project_id, d.auth_method, d.auth_value_key,
                coalesce(array_agg(d.expires_at) FILTER (WHERE d.was), '{}'), coalesce(array_agg(d.expires_at) FILTER (WHERE NOT d.was), '{}')) AS holder
            FROM (
                -- Another spelling of an identity is no change.
                (
                    SELECT true AS was, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM old_bans
                    EXCEPT SELECT true, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM new_bans
                )
                UNION ALL
                (
                    SELECT false, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM new_bans
                    EXCEPT SELECT false, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM old_bans
                )
            ) AS d
            GROUP BY d.project_id, d.auth_method, d.auth_value_key
            ORDER BY d.project_id, d.auth_method, d.auth_value_key
            OFFSET 0
        ) AS b
        WHERE b.holder IS NOT NULL;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER bans_changes_insert AFTER INSERT ON bans
    REFERENCING NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans();
CREATE TRIGGER bans_changes_update AFTER UPDATE ON bans
    REFERENCING OLD TABLE AS old_bans NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans();
CREATE TRIGGER bans_changes_delete AFTER DELETE ON bans
    REFERENCING OLD TABLE AS old_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans();

------------------------------------------------------------------------------------------------------------------------------------------
-- Retries: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- A write and the answer to its idempotency key are one statement: it looks for an earlier answer first, and stores its own last.

-- The answer to the first request with a key, and whether that was the same request; null where the key is new or has expired.
CREATE FUNCTION earlier_answer(project integer, given text, request bytea) RETURNS jsonb LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (
        SELECT jsonb_build_object('answer', known.answer, 'isSame', known.request_hash = request)
        FROM (
            SELECT * FROM idempotency_keys k
            WHERE k.project_id = project AND k.key >= given AND k.key <= given
            ORDER BY k.key
            LIMIT 1
        ) AS known
        WHERE known.created_at >= now() - interval '24 hours'
    );
END $$;

-- Where another request has stored an answer to the key at the same moment, this undoes the statement; the request runs again then, and finds that
-- answer.
CREATE FUNCTION take_expired_key(expired boolean) RETURNS timestamptz LANGUAGE plpgsql
SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT expired THEN
        RAISE EXCEPTION 'another request has the key' USING ERRCODE = 'unique_violation', CONSTRAINT = 'idempotency_key_is_taken';
    END IF;
    RETURN now();
END $$;

------------------------------------------------------------------------------------------------------------------------------------------
-- Restores: functions
------------------------------------------------------------------------------------------------------------------------------------------

-- Moves new IDs far beyond the last one that is known: after a restore, and after a promotion, which may lose what it had not replicated.
CREATE FUNCTION skip_ids(stride bigint) RETURNS void LANGUAGE sql
SET search_path FROM CURRENT AS $$
    SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, ((coalesce(last_value, 0) + stride / 2) / stride + 1) * stride)
    FROM pg_sequences
    WHERE schemaname = current_schema() AND data_type = 'bigint'::regtype
        AND ((coalesce(last_value, 0) + stride / 2) / stride + 1) * stride < max_value
$$;

-- Compares where the database runs with where it ran, and does what a difference needs. `asked` is 'look', which changes nothing, 'command',
-- 'server', 'restored' (an operator says so) or 'moved' (everything came with it). With the rights of the owner, because a role that only serves
-- may not set sequences.
CREATE FUNCTION recognise_database(files text, asked text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
DECLARE
    known database_identity;
    here text;
    now_line text;
    outcome text := 'same';
BEGIN
    IF NOT has_table_privilege(session_user, 'users', 'INSERT') THEN
        RAISE insufficient_privilege USING MESSAGE = 'permission denied for function recognise_database';
    END IF;
    -- A standby is looked at when it is promoted, a database that takes no writes when it does.
    IF pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' THEN
        RETURN 'same';
    END IF;
    SELECT concat_ws(' ', c.system_identifier, d.oid, 'database_identity'::regclass::oid, nullif(files, '')) INTO here
    FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();
    BEGIN
        now_line := left(pg_walfile_name(pg_current_wal_lsn()), 8);
    EXCEPTION WHEN others THEN
        -- Not every service that speaks as PostgreSQL tells it.
        now_line := NULL;
    END;
    SELECT * INTO known FROM database_identity;
    IF known.place = here AND known.line IS NOT DISTINCT FROM now_line AND asked <> 'restored' THEN
        RETURN 'same';
    END IF;
    IF NOT FOUND THEN
        IF asked = 'look' OR asked = 'command' AND NOT EXISTS (SELECT FROM projects) THEN
            RETURN 'same';
        END IF;
        -- A dump from before this table was there has the feed of another database.
        INSERT INTO database_identity (place, line)
        SELECT CASE WHEN split_part(f.incarnation, ' ', 1) <> d.oid::text THEN 'elsewhere' ELSE here END, now_line
        FROM pg_database d LEFT JOIN changes_feed f ON true WHERE d.datname = current_database()
        ON CONFLICT DO NOTHING;
    END IF;
    IF asked <> 'look' THEN
        SELECT * INTO known FROM database_identity FOR UPDATE;
    END IF;
    IF asked = 'moved' THEN
        outcome := 'moved';
    ELSIF asked = 'restored' OR known.place <> here THEN
        outcome := 'restored';
    ELSIF known.line <> now_line THEN
        -- A recovery to a point in time leaves its target in the settings; the promotion of a standby has none.
        outcome := CASE WHEN concat(
            current_setting('recovery_target', true), current_setting('recovery_target_time', true),
            current_setting('recovery_target_name', true), current_setting('recovery_target_lsn', true),
            current_setting('recovery_target_xid', true)
        ) <> '' THEN 'restored' ELSE 'promoted' END;
    END IF;
    IF asked = 'look' THEN
        RETURN outcome;
    END IF;
    IF outcome = 'restored' THEN
        PERFORM skip_ids(10000000000);
        UPDATE webhooks SET status = 'paused', edits = edits + 1,
            reason = 'The database was restored from a backup. Receivers may know of changes that it has lost: let them read everything anew, then replay from now. To go on from the place in the backup, resume.'
        WHERE status = 'enabled';
    ELSIF outcome = 'promoted' THEN
        PERFORM skip_ids(1000000);
    END IF;
    UPDATE database_identity SET place = here, line = now_line,
        restored_at = CASE WHEN outcome = 'restored' THEN date_trunc('milliseconds', now()) ELSE restored_at END
    WHERE place <> here OR line IS DISTINCT FROM now_line OR outcome = 'restored';
    RETURN outcome;
END $$;
