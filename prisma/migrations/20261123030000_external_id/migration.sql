-- The id of a user in the system of the caller, compared byte by byte. The one of a removed user is free for another.
ALTER TABLE "users" ADD COLUMN "external_id" TEXT COLLATE "C";
CREATE UNIQUE INDEX "users_external_id_key" ON "users" ("project_id", "external_id")
    WHERE deleted_at IS NULL AND external_id IS NOT NULL;
-- As in 20261121080000_steady_plans.
ALTER TABLE "users" ALTER COLUMN "external_id" SET (n_distinct = -1);

-- The external id of a user who has logged in with one: a login sets it once. An error if the user has another one. In the statement of
-- the login, so that it compares under the lock of the user's row.
CREATE FUNCTION keep_external_id(had text, given text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF had <> given THEN
        RAISE EXCEPTION 'the user has another external id'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'users_external_id_is_kept';
    END IF;
    RETURN given;
END $$;

-- As in 20261122020000_changes, with the new column.
CREATE OR REPLACE FUNCTION record_updated_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A first login updates nobody, and a later one none of these columns.
    IF NOT EXISTS (SELECT FROM new_users) THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (n.auth_method, n.auth_value, n.auth_value_key, n.login_email, n.wallet, n.external_id, n.created_at, n.deleted_at, n.id)
            IS DISTINCT FROM (o.auth_method, o.auth_value, o.auth_value_key, o.login_email, o.wallet, o.external_id, o.created_at, o.deleted_at, o.id)
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
                CASE WHEN n.external_id IS DISTINCT FROM o.external_id THEN 'external_id' END,
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

-- As in 20261121060000_harden. A replaced function has lost its setting.
DO $$
DECLARE
    ours regprocedure;
BEGIN
    FOR ours IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY['keep_external_id', 'record_updated_users'])
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', ours, current_schema());
    END LOOP;
END $$;
