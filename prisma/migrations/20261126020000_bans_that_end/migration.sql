-- A ban may have a reason and an end. From its end on it counts as gone for every statement; its row is deleted soon after, and the feed has
-- it then. A release before this one gives neither, and goes on refusing an identity until the row is gone.

-- step: adds the reason and the end of a ban
-- locks: bans (ACCESS EXCLUSIVE)
ALTER TABLE bans ADD COLUMN reason text, ADD COLUMN expires_at timestamptz(3);

-- step without a transaction: makes the index of bans that end
CREATE INDEX CONCURRENTLY IF NOT EXISTS bans_expires_at_idx ON bans (project_id, expires_at) WHERE (expires_at IS NOT NULL);

-- step: a ban in the place of one that has ended is a new ban
-- As in 20261124030000_one_plan. Users are locked in the order in which logins lock them.
CREATE OR REPLACE FUNCTION record_bans() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM record_ban('identity.banned', b.project_id, b.auth_method, b.auth_value_key) FROM new_bans b;
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM record_ban('identity.unbanned', b.project_id, b.auth_method, b.auth_value_key)
        FROM (
            SELECT * FROM old_bans b
            -- Bans whose project goes with them leave no change.
            WHERE (SELECT p.id FROM projects p WHERE p.id = b.project_id) IS NOT NULL
            ORDER BY b.project_id, b.auth_method, b.auth_value_key
            OFFSET 0
        ) AS b;
    ELSE
        PERFORM record_ban('identity.unbanned', b.project_id, b.auth_method, b.auth_value_key)
        FROM (
            SELECT * FROM (
                (
                    SELECT project_id, auth_method, auth_value_key FROM old_bans
                    EXCEPT SELECT project_id, auth_method, auth_value_key FROM new_bans
                )
                UNION
                SELECT project_id, auth_method, auth_value_key FROM old_bans WHERE expires_at <= now()
            ) AS ended
            ORDER BY project_id, auth_method, auth_value_key
            OFFSET 0
        ) AS b;
        PERFORM record_ban('identity.banned', b.project_id, b.auth_method, b.auth_value_key)
        FROM (
            SELECT * FROM (
                SELECT project_id, auth_method, auth_value_key FROM new_bans
                EXCEPT SELECT project_id, auth_method, auth_value_key FROM old_bans WHERE (expires_at <= now()) IS NOT TRUE
            ) AS begun
            ORDER BY project_id, auth_method, auth_value_key
            OFFSET 0
        ) AS b;
    END IF;
    RETURN NULL;
END $$;
-- As in 20261121060000_harden. A replaced function has lost its setting.
DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION record_bans() SET search_path = %I, pg_temp', current_schema());
END $$;
