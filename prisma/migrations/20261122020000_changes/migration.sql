-- A feed of the changes of users that no reader can skip (docs/decisions/changes-feed.md).
--
-- Every statement that changes a user, an account or a ban, by whatever way it comes, appends to `changes` in its own transaction
-- (triggers below). Ids are given out before commit, so they become visible out of order. A publisher settles up to which id everything
-- has been committed or undone, and writes it to changes_feed.published. Readers read no further.

CREATE TYPE "change_type" AS ENUM (
    'user.created', 'user.updated', 'user.removed', 'user.restored', 'account.added', 'identity.banned', 'identity.unbanned'
);

-- No cache: an id that a session keeps for later could be used after it was published. Id 1 is never used, so that last_value is
-- always an id that was given out.
CREATE SEQUENCE "changes_id_seq" AS BIGINT MAXVALUE 9007199254740991 CACHE 1;
SELECT nextval('changes_id_seq');

-- Ids and names of fields only: a change outlives the purge of its user. Without a foreign key, which would lock the row of the project
-- once more for every registration. `user_id` is null for the ban of an identity that no current user has.
-- `fields`, of user.updated, are separated by spaces.
CREATE TABLE "changes" (
    "project_id" INTEGER NOT NULL,
    "id" BIGINT NOT NULL DEFAULT nextval('changes_id_seq'),
    "type" "change_type" NOT NULL,
    "user_id" BIGINT,
    "fields" TEXT,
    "at" TIMESTAMPTZ(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,
    CONSTRAINT "changes_pkey" PRIMARY KEY ("project_id", "id")
);
ALTER SEQUENCE "changes_id_seq" OWNED BY "changes"."id";

-- One row, made by the first publication: every change up to `published` is committed or undone. Cursors carry the timeline in which their change was published, because
-- a database that was restored from an older backup gives the same ids to other changes.
CREATE TABLE "changes_feed" (
    "id" INTEGER NOT NULL DEFAULT 1,
    "timeline" TEXT COLLATE "C" NOT NULL,
    "incarnation" TEXT NOT NULL,
    "published" BIGINT NOT NULL,
    CONSTRAINT "changes_feed_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "changes_feed_has_one_row" CHECK ("id" = 1)
) WITH (fillfactor = 10);

-- Earlier timelines, and up to which id this database has what was published in them.
CREATE TABLE "changes_timelines" (
    "timeline" TEXT COLLATE "C" NOT NULL,
    "published" BIGINT NOT NULL,
    CONSTRAINT "changes_timelines_pkey" PRIMARY KEY ("timeline")
);

-- Up to which id changes of a project have been deleted; no row while none has.
CREATE TABLE "changes_pruned" (
    "project_id" INTEGER NOT NULL,
    "through" BIGINT NOT NULL,
    CONSTRAINT "changes_pruned_pkey" PRIMARY KEY ("project_id"),
    CONSTRAINT "changes_pruned_project_id_fkey" FOREIGN KEY ("project_id") REFERENCES "projects" ("id")
        ON DELETE CASCADE ON UPDATE CASCADE
);

-- Differs after anything by which this database may have lost changes that readers have seen: a restore into another database or over this
-- one, a copy of its files, a crash, another server that took over. It may also differ without a loss, which costs nothing.
CREATE FUNCTION changes_incarnation() RETURNS text LANGUAGE sql STABLE AS $$
    SELECT concat_ws(' ', d.oid, pg_relation_filenode('changes_feed'), extract(epoch FROM pg_postmaster_start_time()))
    FROM pg_database d WHERE d.datname = current_database()
$$;

-- Publishes every change up to an id and returns up to where is published now. The caller has made sure that no transaction is open that
-- may still commit one of them.
CREATE FUNCTION publish_changes(upto bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    feed changes_feed;
BEGIN
    INSERT INTO changes_feed (timeline, incarnation, published)
    VALUES (left(md5(random()::text || clock_timestamp()), 8), changes_incarnation(), 1)
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
        UPDATE changes_feed SET timeline = left(md5(random()::text || clock_timestamp()), 8), incarnation = changes_incarnation();
    END IF;
    IF upto > feed.published THEN
        UPDATE changes_feed SET published = upto;
    END IF;
    RETURN greatest(upto, feed.published);
END $$;

-- The functions that keep the tallies record the changes as well: two triggers instead of one would cost a first login several times as much.
CREATE OR REPLACE FUNCTION record_inserted_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH counted AS (
        INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
        SELECT project_id, created_at, id, login_method, 1 FROM new_users WHERE deleted_at IS NULL
    )
    INSERT INTO changes (project_id, type, user_id)
    SELECT project_id, 'user.created', id FROM new_users WHERE deleted_at IS NULL ORDER BY id;
    RETURN NULL;
END $$;

-- A full join, because it is never a nested loop, whatever the size of the first statement for which it was planned; and because a row
-- whose key has changed is a removed user and a created one.
CREATE OR REPLACE FUNCTION record_updated_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A first login updates nobody, and a later one none of these columns.
    IF NOT EXISTS (SELECT FROM new_users) THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (n.auth_method, n.auth_value, n.auth_value_key, n.login_email, n.wallet, n.created_at, n.deleted_at, n.id)
            IS DISTINCT FROM (o.auth_method, o.auth_value, o.auth_value_key, o.login_email, o.wallet, o.created_at, o.deleted_at, o.id)
    ) THEN
        RETURN NULL;
    END IF;
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
    SELECT project_id, type, user_id, CASE WHEN type = 'user.updated' THEN fields END
    FROM (
        SELECT coalesce(n.project_id, o.project_id) AS project_id, coalesce(n.id, o.id) AS user_id,
            CASE
                WHEN n.id IS NULL OR n.deleted_at IS NOT NULL THEN 'user.removed'::change_type
                WHEN o.id IS NULL THEN 'user.created'
                WHEN o.deleted_at IS NOT NULL THEN 'user.restored'
                ELSE 'user.updated'
            END AS type,
            concat_ws(' ',
                CASE WHEN n.auth_method <> o.auth_method THEN 'auth_method' END,
                CASE WHEN n.auth_value <> o.auth_value OR n.auth_value_key <> o.auth_value_key THEN 'auth_value' END,
                CASE WHEN n.login_email IS DISTINCT FROM o.login_email THEN 'email' END,
                CASE WHEN n.wallet IS DISTINCT FROM o.wallet THEN 'wallet' END,
                CASE WHEN n.created_at <> o.created_at THEN 'created_at' END
            ) AS fields
        FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        -- Who was removed before and after is no user of any reader.
        WHERE o.deleted_at IS NULL AND o.id IS NOT NULL OR n.deleted_at IS NULL AND n.id IS NOT NULL
    ) AS changed
    WHERE type <> 'user.updated' OR fields <> ''
    ORDER BY user_id;
    RETURN NULL;
END $$;

-- Users whose project goes with them leave neither.
CREATE OR REPLACE FUNCTION record_deleted_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT old_users.project_id, old_users.created_at, old_users.id, old_users.login_method, -1
    FROM old_users
    JOIN projects ON projects.id = old_users.project_id
    WHERE old_users.deleted_at IS NULL;
    INSERT INTO changes (project_id, type, user_id)
    SELECT old_users.project_id, 'user.removed', old_users.id
    FROM old_users
    JOIN projects ON projects.id = old_users.project_id
    WHERE old_users.deleted_at IS NULL
    ORDER BY old_users.id;
    RETURN NULL;
END $$;

-- Of one user, changes get their ids in the order of the commits, because each is written under the lock of the user's row. A row that this
-- transaction has written is locked already.
CREATE FUNCTION record_added_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE FUNCTION record_changed_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- Accounts that go with their user leave no change.
CREATE FUNCTION record_removed_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT project_id, 'user.updated', id, 'accounts'
    FROM (
        SELECT u.project_id, u.id FROM users u
        WHERE (u.project_id, u.id) IN (SELECT a.project_id, a.user_id FROM old_accounts a) AND u.deleted_at IS NULL
        ORDER BY u.id
        FOR NO KEY UPDATE
    ) AS locked;
    RETURN NULL;
END $$;

-- With the current user of the identity, if there is one.
CREATE FUNCTION record_bans() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN
        PERFORM record_ban('identity.unbanned', b.project_id, b.auth_method, b.auth_value_key)
        FROM old_bans b
        -- Bans whose project goes with them leave no change.
        JOIN projects p ON p.id = b.project_id;
    END IF;
    IF TG_OP <> 'DELETE' THEN
        PERFORM record_ban('identity.banned', b.project_id, b.auth_method, b.auth_value_key) FROM new_bans b;
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION record_ban(change change_type, project integer, method text, value_key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    banned bigint;
BEGIN
    SELECT u.id INTO banned FROM users u
    WHERE u.project_id = project AND u.auth_method = method AND u.auth_value_key = value_key AND u.deleted_at IS NULL
    FOR NO KEY UPDATE;
    INSERT INTO changes (project_id, type, user_id) VALUES (project, change, banned);
END $$;

-- All users are gone without a change for each, so every cursor has expired.
CREATE FUNCTION forget_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM changes;
    INSERT INTO changes_pruned (project_id, through)
    SELECT p.id, gone.through FROM projects p, (SELECT nextval('changes_id_seq') AS through) AS gone
    ON CONFLICT (project_id) DO UPDATE SET through = excluded.through;
    RETURN NULL;
END $$;

CREATE FUNCTION delete_project_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM changes WHERE project_id IN (SELECT id FROM old_projects);
    RETURN NULL;
END $$;

CREATE TRIGGER users_changes_truncate AFTER TRUNCATE ON users
    FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();
CREATE TRIGGER accounts_changes_insert AFTER INSERT ON accounts
    REFERENCING NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_added_accounts();
CREATE TRIGGER accounts_changes_update AFTER UPDATE ON accounts
    REFERENCING OLD TABLE AS old_accounts NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_changed_accounts();
CREATE TRIGGER accounts_changes_delete AFTER DELETE ON accounts
    REFERENCING OLD TABLE AS old_accounts FOR EACH STATEMENT EXECUTE FUNCTION record_removed_accounts();
CREATE TRIGGER bans_changes_insert AFTER INSERT ON bans
    REFERENCING NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans();
CREATE TRIGGER bans_changes_update AFTER UPDATE ON bans
    REFERENCING OLD TABLE AS old_bans NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans();
CREATE TRIGGER bans_changes_delete AFTER DELETE ON bans
    REFERENCING OLD TABLE AS old_bans FOR EACH STATEMENT EXECUTE FUNCTION record_bans();
CREATE TRIGGER projects_changes_delete AFTER DELETE ON projects
    REFERENCING OLD TABLE AS old_projects FOR EACH STATEMENT EXECUTE FUNCTION delete_project_changes();

-- As in 20261121060000_harden.
DO $$
DECLARE
    ours regprocedure;
BEGIN
    FOR ours IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY[
            'changes_incarnation', 'publish_changes', 'record_inserted_users', 'record_updated_users', 'record_deleted_users',
            'record_added_accounts', 'record_changed_accounts', 'record_removed_accounts', 'record_bans', 'record_ban',
            'forget_changes', 'delete_project_changes'
        ])
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', ours, current_schema());
    END LOOP;
END $$;

-- The scope of secrets that read the feed. A new type, because a value that was added to a type cannot be used in the same transaction. A
-- secret with every scope keeps every scope.
DROP TRIGGER app_secrets_announce ON app_secrets;
ALTER TABLE "app_secrets" DROP CONSTRAINT "app_secrets_is_good_for_something";
ALTER TYPE "secret_scope" RENAME TO "secret_scope_before_changes";
CREATE TYPE "secret_scope" AS ENUM ('read', 'verify', 'write', 'changes');
ALTER TABLE "app_secrets" ALTER COLUMN "scopes" DROP DEFAULT;
ALTER TABLE "app_secrets" ALTER COLUMN "scopes" TYPE "secret_scope"[] USING "scopes"::text[]::"secret_scope"[];
ALTER TABLE "app_secrets" ALTER COLUMN "scopes" SET DEFAULT '{read,verify,write,changes}';
DROP TYPE "secret_scope_before_changes";
ALTER TABLE "app_secrets" ADD CONSTRAINT "app_secrets_is_good_for_something"
    CHECK (cardinality("scopes") > 0 AND array_position("scopes", NULL) IS NULL);
UPDATE "app_secrets" SET "scopes" = "scopes" || 'changes'::"secret_scope" WHERE "scopes" @> '{read,verify,write}';
CREATE TRIGGER app_secrets_announce AFTER UPDATE OF project_id, secret_hash, label, scopes, expires_at OR DELETE ON app_secrets
    FOR EACH STATEMENT EXECUTE FUNCTION announce_secrets();
