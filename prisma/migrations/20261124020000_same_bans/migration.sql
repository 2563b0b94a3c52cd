-- As in 20261122020000_changes, but an UPDATE records only what is no ban any more, and what was none before.
CREATE OR REPLACE FUNCTION record_bans() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM record_ban('identity.banned', b.project_id, b.auth_method, b.auth_value_key) FROM new_bans b;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM record_ban('identity.unbanned', b.project_id, b.auth_method, b.auth_value_key)
        FROM old_bans b
        -- Bans whose project goes with them leave no change.
        JOIN projects p ON p.id = b.project_id;
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

-- As with users: they are gone without a change for each, so every cursor has expired.
CREATE TRIGGER accounts_changes_truncate AFTER TRUNCATE ON accounts
    FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();
CREATE TRIGGER bans_changes_truncate AFTER TRUNCATE ON bans
    FOR EACH STATEMENT EXECUTE FUNCTION forget_changes();

-- As in 20261121060000_harden. A replaced function has lost its setting.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION record_bans() SET search_path = %I, pg_temp', current_schema());
END $$;
