-- A user may log in by several identities (docs/decisions/linked-identities.md). The primary one stands in users, as before; those that are linked to it have
-- a table. The database holds that an identity is of one current user of a project at most, whichever of the two tables has it.

-- step: words for what is new
ALTER TYPE "change_type" ADD VALUE 'user.merged';
ALTER TYPE "audit_action" ADD VALUE 'link';
ALTER TYPE "audit_action" ADD VALUE 'unlink';
ALTER TYPE "audit_action" ADD VALUE 'merge';

-- step: what is known of a user beyond the primary identity
-- locks: users (ACCESS EXCLUSIVE)
ALTER TABLE "users"
    ADD COLUMN "email_verified" BOOLEAN,
    ADD COLUMN "metadata" JSONB,
    -- Since when the primary identity is the user's; null where that is created_at.
    ADD COLUMN "identity_at" TIMESTAMPTZ(3),
    -- The last login by the primary identity, -infinity for none; null where that is last_login.
    ADD COLUMN "identity_login" TIMESTAMPTZ(3),
    -- Of a removed user: the one who has taken over what they had.
    ADD COLUMN "merged_into" BIGINT;

-- step: a ban of a user is a ban of each of their identities
-- locks: bans (ACCESS EXCLUSIVE)
ALTER TABLE "bans" ADD COLUMN "user_id" BIGINT;

-- step without a transaction: the bans of a user are found
CREATE INDEX CONCURRENTLY IF NOT EXISTS "bans_user_idx" ON "bans" ("project_id", "user_id") WHERE "user_id" IS NOT NULL;

-- step: linked identities
-- locks: users (SHARE ROW EXCLUSIVE)
CREATE TABLE "identities" (
    "project_id" INTEGER NOT NULL,
    "id" BIGSERIAL NOT NULL,
    "user_id" BIGINT NOT NULL,
    "auth_method" TEXT COLLATE "C" NOT NULL,
    "auth_value" TEXT NOT NULL,
    "auth_value_key" TEXT COLLATE "C" NOT NULL,
    "login_email" TEXT COLLATE "C",
    "email_verified" BOOLEAN,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP),
    "last_login" TIMESTAMPTZ(3),
    -- True while the user is removed.
    "removed" BOOLEAN NOT NULL DEFAULT false,
    CONSTRAINT "identities_pkey" PRIMARY KEY ("project_id", "id"),
    CONSTRAINT "identities_user_fkey" FOREIGN KEY ("project_id", "user_id") REFERENCES "users" ("project_id", "id")
        ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE UNIQUE INDEX "identities_identity_key" ON "identities" ("project_id", "auth_method", "auth_value_key") WHERE NOT "removed";
CREATE INDEX "identities_user_idx" ON "identities" ("project_id", "user_id", "id");
CREATE INDEX "identities_login_email_idx" ON "identities" ("project_id", "login_email") WHERE NOT "removed";

-- step: the rules of identities
-- locks: identities (SHARE ROW EXCLUSIVE)
DO $do$
BEGIN
    EXECUTE format($create$
-- The current user who has an identity linked, or null. Ordered, so that no plan reads more than one row of the index.
CREATE FUNCTION linked_user(project integer, method text, value_key text) RETURNS bigint LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_sort = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    RETURN (
        SELECT i.user_id FROM identities i
        WHERE i.project_id = project AND i.auth_method = method AND i.auth_value_key >= value_key AND i.auth_value_key <= value_key
            AND NOT i.removed
        ORDER BY i.auth_value_key
        LIMIT 1
    );
END $body$;

-- The ban of a user is of each identity that they have, also of those that come later.
CREATE FUNCTION cover_identity(project integer, owner bigint, method text, value text, value_key text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, created_at, reason, expires_at, user_id)
    SELECT b.project_id, method, value, value_key, b.created_at, b.reason, b.expires_at, owner
    FROM bans b
    WHERE b.project_id = project AND b.user_id = owner AND (b.expires_at IS NULL OR b.expires_at > now())
    ORDER BY b.id
    LIMIT 1
    ON CONFLICT DO NOTHING;
END $body$;

-- An identity is removed where its user is. Else it takes its place in the index of primary ones until the end of the transaction: who registers it
-- meanwhile waits, and then finds it linked (record_inserted_users). That row has an ID below zero, and is gone when anybody else could see it.
CREATE FUNCTION claim_identity() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    NEW.removed := (SELECT deleted_at IS NOT NULL FROM users WHERE project_id = NEW.project_id AND id = NEW.user_id FOR NO KEY UPDATE);
    IF NOT NEW.removed THEN
        INSERT INTO users (project_id, id, auth_method, auth_value, auth_value_key)
        VALUES (NEW.project_id, -NEW.id, NEW.auth_method, '', NEW.auth_value_key);
        DELETE FROM users WHERE project_id = NEW.project_id AND id = -NEW.id;
        PERFORM cover_identity(NEW.project_id, NEW.user_id, NEW.auth_method, NEW.auth_value, NEW.auth_value_key);
    END IF;
    RETURN NEW;
END $body$;

-- New identities are claimed and recorded at once: an import links many with one statement.
CREATE FUNCTION carry_removal() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    NEW.removed := (SELECT deleted_at IS NOT NULL FROM users WHERE project_id = NEW.project_id AND id = NEW.user_id FOR NO KEY UPDATE);
    RETURN NEW;
END $body$;

CREATE FUNCTION claim_new_identities() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
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
    RETURN NULL;
END $body$;

-- A change of the identities of a current user is a change of the user. Those of one who is removed, restored or erased go with the user.
CREATE FUNCTION record_identities() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT u.project_id, 'user.updated', u.id, 'identities'
    FROM users u
    WHERE u.project_id = coalesce(NEW.project_id, OLD.project_id) AND u.id = coalesce(NEW.user_id, OLD.user_id)
        -- So written, it fits no index of current users: each has many, and none of them the ID.
        AND (u.deleted_at IS NULL)::int = 1
        AND NEW.removed IS NOT DISTINCT FROM coalesce(OLD.removed, NEW.removed)
    FOR NO KEY UPDATE OF u;
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
END $body$;

CREATE OR REPLACE FUNCTION record_inserted_users() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
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
END $body$;

CREATE OR REPLACE FUNCTION record_deleted_users() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
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
END $body$;

-- The identities of a user who is removed or restored, and the primary identity of one who is current with another than before.
CREATE FUNCTION carry_identities(project integer, owner bigint, method text, value text, value_key text, is_removed boolean) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    UPDATE identities i SET removed = is_removed WHERE i.project_id = project AND i.user_id = owner AND i.removed <> is_removed;
    IF NOT is_removed THEN
        IF linked_user(project, method, value_key) IS NOT NULL THEN
            RAISE unique_violation USING MESSAGE = 'a user has the identity linked', CONSTRAINT = 'identities_identity_key';
        END IF;
        PERFORM cover_identity(project, owner, method, value, value_key);
    END IF;
END $body$;
    $create$, current_schema());
END $do$;
CREATE TRIGGER "identities_removal" BEFORE INSERT ON "identities" FOR EACH ROW EXECUTE FUNCTION carry_removal();
CREATE TRIGGER "identities_claim_new" AFTER INSERT ON "identities"
    REFERENCING NEW TABLE AS new_identities FOR EACH STATEMENT EXECUTE FUNCTION claim_new_identities();
CREATE TRIGGER "identities_claim" BEFORE UPDATE OF "project_id", "user_id", "auth_method", "auth_value_key", "removed" ON "identities"
    FOR EACH ROW EXECUTE FUNCTION claim_identity();
CREATE TRIGGER "identities_changes" AFTER DELETE OR UPDATE OF "user_id", "auth_value", "login_email", "email_verified", "removed"
    ON "identities" FOR EACH ROW EXECUTE FUNCTION record_identities();
CREATE TRIGGER "identities_changes_truncate" AFTER TRUNCATE ON "identities" FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();

-- step: changes of users carry their identities along
DO $do$
DECLARE
    source text;
BEGIN
    SELECT prosrc INTO source FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname = 'write_record_updated_users';
    -- A login by another identity changes only when the primary one was last used.
    source := replace(source, $$'last_login', 'login_count'$$, $$'last_login', 'login_count', 'identity_login'$$);
    source := replace(source, $$'auth_value_key', 'deleted_at']$$, $$'auth_value_key', 'deleted_at', 'identity_at', 'merged_into']$$);
    source := replace(source, $$    INSERT INTO tally_deltas$$, $$    PERFORM carry_identities(n.project_id, n.id, n.auth_method, n.auth_value, n.auth_value_key, n.deleted_at IS NOT NULL)
    FROM new_users n JOIN old_users o ON o.project_id = n.project_id AND o.id = n.id
    WHERE (n.auth_method, n.auth_value_key, n.deleted_at IS NULL) IS DISTINCT FROM (o.auth_method, o.auth_value_key, o.deleted_at IS NULL)
    ORDER BY n.id;
    INSERT INTO tally_deltas$$);
    source := replace(source, $$CASE WHEN type = 'user.updated' THEN fields END$$,
        $$CASE type WHEN 'user.updated' THEN fields WHEN 'user.merged' THEN merged_into::text END$$);
    source := replace(source, $$coalesce(n.id, o.id) AS user_id,$$, $$coalesce(n.id, o.id) AS user_id, n.merged_into,$$);
    source := replace(source, $$            CASE
                WHEN n.id IS NULL$$, $$            CASE
                WHEN n.merged_into IS NOT NULL THEN 'user.merged'::change_type
                WHEN n.id IS NULL$$);
    IF source NOT LIKE '%carry_identities%merged_into::text%user.merged%' THEN
        RAISE EXCEPTION 'The function that records updates of users is not as this migration expects it.';
    END IF;
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION write_record_updated_users() RETURNS void LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
        current_schema(), source
    );
    PERFORM write_record_updated_users();
END $do$;
