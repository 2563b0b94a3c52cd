-- The email of a user follows from what was said of the person and from their identities, and the database knows whom nobody has touched since an
-- import (docs/decisions/person.md).

-- step: the emails of a user, and the import that has created the user
-- locks: users (ACCESS EXCLUSIVE)
DROP INDEX "users_login_email_idx";
ALTER TABLE "users" RENAME COLUMN "login_email" TO "identity_email";
ALTER TABLE "users"
    -- What was said last of the person: null where nothing was, empty for none.
    ADD COLUMN "said_email" TEXT COLLATE "C",
    -- Of the oldest linked identity that has one; kept by the database.
    ADD COLUMN "linked_email" TEXT COLLATE "C",
    ADD COLUMN "login_email" TEXT COLLATE "C" GENERATED ALWAYS AS (NULLIF(COALESCE(said_email, identity_email, linked_email), ''::text)) STORED,
    -- The import that has created the user, until anything else touches the person; kept by the database.
    ADD COLUMN "import_id" BIGINT DEFAULT (NULLIF(current_setting('userdir.import'::text, true), ''::text))::bigint,
    ADD CONSTRAINT "users_wallet_of_login" CHECK (auth_method <> 'wallet' OR lower(wallet) = lower(auth_value_key)),
    ADD CONSTRAINT "users_merged_are_removed" CHECK (merged_into IS NULL OR deleted_at IS NOT NULL);
-- However many users share an email, an email is looked up by its index.
ALTER TABLE "users" ALTER COLUMN "login_email" SET (n_distinct = -1);
CREATE INDEX "users_login_email_idx" ON "users" ("project_id", "login_email") WHERE "deleted_at" IS NULL;
-- Few users have another email with the primary identity.
CREATE INDEX "users_identity_email_idx" ON "users" ("project_id", "identity_email")
    WHERE "deleted_at" IS NULL AND "identity_email" IS DISTINCT FROM "login_email";

-- step: what follows from identities
-- locks: identities (ACCESS EXCLUSIVE), users (SHARE ROW EXCLUSIVE)
DO $do$
BEGIN
    EXECUTE format($create$
-- Only the import itself, which says its ID, writes a user without a trace.
CREATE FUNCTION forget_import() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    NEW.import_id := NULL;
    RETURN NEW;
END $body$;

-- What is of a user in another table has changed.
CREATE FUNCTION touch_user(project integer, touched bigint) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    UPDATE users SET import_id = NULL
    WHERE project_id = project AND id = touched AND import_id IS NOT NULL AND import_id::text IS DISTINCT FROM current_setting('userdir.import', true);
END $body$;

CREATE FUNCTION follow_linked_email(project integer, owner bigint) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
DECLARE
    email text := (
        SELECT i.login_email FROM identities i
        WHERE i.project_id = project AND i.user_id = owner AND i.login_email IS NOT NULL
        ORDER BY i.created_at, i.id
        LIMIT 1
    );
BEGIN
    UPDATE users SET linked_email = email WHERE project_id = project AND id = owner AND linked_email IS DISTINCT FROM email;
END $body$;

CREATE OR REPLACE FUNCTION claim_new_identities() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
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
END $body$;

-- A change of the identities of a current user is a change of the user. Those of one who is removed, restored or erased go with the user.
CREATE OR REPLACE FUNCTION record_identities() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
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
END $body$;

CREATE OR REPLACE FUNCTION record_ban(change change_type, project integer, method text, value_key text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET search_path = %1$I, pg_temp AS $body$
DECLARE
    banned bigint;
BEGIN
    SELECT u.id INTO banned FROM users u
    WHERE u.project_id = project AND u.auth_method = method AND u.auth_value_key >= value_key AND u.auth_value_key <= value_key
        AND u.deleted_at IS NULL
    ORDER BY u.auth_value_key
    LIMIT 1
    FOR NO KEY UPDATE;
    IF banned IS NULL THEN
        SELECT u.id INTO banned FROM users u WHERE u.project_id = project AND u.id = linked_user(project, method, value_key) FOR NO KEY UPDATE;
    END IF;
    INSERT INTO changes (project_id, type, user_id) VALUES (project, change, banned);
    PERFORM touch_user(project, banned);
END $body$;

CREATE OR REPLACE FUNCTION record_removed_accounts() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
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
END $body$;
    $create$, current_schema());
END $do$;
CREATE TRIGGER "users_touched" BEFORE UPDATE ON "users" FOR EACH ROW
    WHEN (OLD.import_id IS NOT NULL AND OLD.import_id::text IS DISTINCT FROM current_setting('userdir.import'::text, true))
    EXECUTE FUNCTION forget_import();
DROP TRIGGER "identities_changes" ON "identities";
CREATE TRIGGER "identities_changes" AFTER UPDATE ON "identities" FOR EACH ROW
    -- A login changes none of these.
    WHEN ((OLD.user_id, OLD.auth_value, OLD.login_email, OLD.email_verified, OLD.removed)
        IS DISTINCT FROM (NEW.user_id, NEW.auth_value, NEW.login_email, NEW.email_verified, NEW.removed))
    EXECUTE FUNCTION record_identities();
CREATE TRIGGER "identities_changes_delete" AFTER DELETE ON "identities" FOR EACH ROW EXECUTE FUNCTION record_identities();

-- step: changes of emails
DO $do$
DECLARE
    source text;
BEGIN
    SELECT prosrc INTO source FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname = 'write_record_updated_users';
    source := replace(source, $$'identity_login'$$, $$'identity_login', 'import_id'$$);
    source := replace(source, $$'identity_at', 'merged_into']$$, $$'identity_at', 'merged_into', 'said_email', 'linked_email']$$);
    -- The email that is shown follows from others. Where it stays, that of the primary identity is a change of the identities.
    source := replace(source, $$attgenerated = ''
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count', 'identity_login', 'import_id', 'id'$$,
        $$(attgenerated = '' OR attname = 'login_email')
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count', 'identity_login', 'import_id', 'id'$$);
    source := replace(source, $$            CASE attname WHEN 'auth_value' THEN '(n.auth_value, n.auth_value_key)'$$,
        $$            CASE attname WHEN 'identity_email' THEN 'n.login_email IS NOT DISTINCT FROM o.login_email AND n.identity_email'
                WHEN 'auth_value' THEN '(n.auth_value, n.auth_value_key)'$$);
    source := replace(source, $$CASE attname WHEN 'login_email' THEN 'email' ELSE$$,
        $$CASE attname WHEN 'login_email' THEN 'email' WHEN 'identity_email' THEN 'identities' ELSE$$);
    source := replace(source, $$ORDER BY attname = 'created_at', attnum$$,
        $$ORDER BY attname = 'created_at', attname LIKE 'auth%' DESC, attname <> 'login_email', attnum$$);
    IF source NOT LIKE '%''import_id''%n.identity_email%''identities''%''login_email'')%''linked_email''%' THEN
        RAISE EXCEPTION 'The function that records updates of users is not as this migration expects it.';
    END IF;
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION write_record_updated_users() RETURNS void LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
        current_schema(), source
    );
    PERFORM write_record_updated_users();
END $do$;
