-- Writes `record_updated_users` anew for the columns that users have now. A migration with a new column ends with it, so that the column is in
-- the feed without being named here. Rows are compared column by column: as jsonb, a login would take twice as long.
-- As in 20261123030000_external_id, but for the lists of columns.
CREATE FUNCTION write_record_updated_users() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    columns text[];
    fields text;
BEGIN
    -- Not what a login changes, what follows from other columns, or what tells users apart.
    SELECT array_agg(format('%%s.%I', attname) ORDER BY attnum) INTO columns
    FROM pg_attribute
    WHERE attrelid = 'users'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count']);
    -- The names of fields where they differ from those of columns. The key of a value goes with the value.
    SELECT string_agg(
        format(
            'CASE WHEN %s IS DISTINCT FROM %s THEN %L END',
            CASE attname WHEN 'auth_value' THEN '(n.auth_value, n.auth_value_key)' ELSE format('n.%I', attname) END,
            CASE attname WHEN 'auth_value' THEN '(o.auth_value, o.auth_value_key)' ELSE format('o.%I', attname) END,
            CASE attname WHEN 'login_email' THEN 'email' ELSE attname END
        ),
        E',\n                ' ORDER BY attname = 'created_at', attnum
    ) INTO fields
    FROM pg_attribute
    WHERE attrelid = 'users'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count', 'id', 'auth_value_key', 'deleted_at']);
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION record_updated_users() RETURNS trigger LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
        current_schema(),
        format(
            $body$
BEGIN
    -- A first login updates nobody, and a later one none of these columns.
    IF NOT EXISTS (SELECT FROM new_users) THEN
        RETURN NULL;
    END IF;
    IF NOT EXISTS (
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (%s)
            IS DISTINCT FROM (%s)
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
END $$;
DO $$
BEGIN
    -- As in 20261121060000_harden.
    EXECUTE format('ALTER FUNCTION write_record_updated_users() SET search_path = %I, pg_temp', current_schema());
END $$;
SELECT write_record_updated_users();
