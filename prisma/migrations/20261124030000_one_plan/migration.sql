-- Triggers whose statements have one plan. Joined, a table of all users or of all projects could be read for a few rows.

-- As in 20261122020000_changes. OFFSET keeps the look-up by id by itself: next to "is current" an index of current users could be taken, and
-- all of a project be read for each user.
CREATE OR REPLACE FUNCTION record_removed_accounts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT u.project_id, 'user.updated', u.id, 'accounts'
    FROM (SELECT DISTINCT a.project_id, a.user_id FROM old_accounts a ORDER BY a.project_id, a.user_id) AS a
    CROSS JOIN LATERAL (
        SELECT * FROM users WHERE users.project_id = a.project_id AND users.id = a.user_id OFFSET 0 FOR NO KEY UPDATE
    ) AS u
    WHERE u.deleted_at IS NULL;
    RETURN NULL;
END $$;

-- As in 20261124020000_same_bans.
CREATE OR REPLACE FUNCTION record_bans() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM record_ban('identity.banned', b.project_id, b.auth_method, b.auth_value_key) FROM new_bans b;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM record_ban('identity.unbanned', b.project_id, b.auth_method, b.auth_value_key)
        FROM old_bans b
        -- Bans whose project goes with them leave no change.
        WHERE (SELECT p.id FROM projects p WHERE p.id = b.project_id) IS NOT NULL;
    ELSE
        PERFORM record_ban('identity.unbanned', b.project_id, b.auth_method, b.auth_value_key)
        FROM (
            SELECT project_id, auth_method, auth_value_key FROM old_bans
            EXCEPT SELECT project_id, auth_method, auth_value_key FROM new_bans
        ) AS b;
        PERFORM record_ban('identity.banned', b.project_id, b.auth_method, b.auth_value_key)
        FROM (
            SELECT project_id, auth_method, auth_value_key FROM new_bans
            EXCEPT SELECT project_id, auth_method, auth_value_key FROM old_bans
        ) AS b;
    END IF;
    RETURN NULL;
END $$;

-- As in 20261122020000_changes.
CREATE OR REPLACE FUNCTION record_deleted_users() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Users whose project goes with them leave neither a delta nor a change, nor do those who were removed before.
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT o.project_id, o.created_at, o.id, o.login_method, -1
    FROM old_users o
    WHERE o.deleted_at IS NULL AND (SELECT p.id FROM projects p WHERE p.id = o.project_id) IS NOT NULL;
    INSERT INTO changes (project_id, type, user_id)
    SELECT o.project_id, 'user.removed', o.id
    FROM old_users o
    WHERE o.deleted_at IS NULL AND (SELECT p.id FROM projects p WHERE p.id = o.project_id) IS NOT NULL
    ORDER BY o.id;
    RETURN NULL;
END $$;

-- As in 20261121060000_harden. A replaced function has lost its setting.
DO $$
DECLARE
    ours regprocedure;
BEGIN
    FOR ours IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname IN ('record_removed_accounts', 'record_bans', 'record_deleted_users')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', ours, current_schema());
    END LOOP;
END $$;

-- For what has expired.
CREATE INDEX operator_sessions_expires_at_idx ON operator_sessions (expires_at);
CREATE INDEX login_links_expires_at_idx ON login_links (expires_at);
