-- The database remembers where it ran, so that a restore is noticed (docs/decisions/restores.md). Otherwise it would give the ids of lost
-- users to others.

-- step: where the database ran
-- One row, made by the first server, or by the first command once there is a project: a database that was only migrated can still be restored into.
CREATE TABLE "database_identity" (
    "id" INTEGER NOT NULL DEFAULT 1,
    -- The server, the database, this table; of an embedded database, a file of it.
    "place" TEXT NOT NULL,
    -- The line of history of the server, which a promotion changes; null where it tells none.
    "line" TEXT,
    "restored_at" TIMESTAMPTZ(3),
    CONSTRAINT "database_identity_pkey" PRIMARY KEY ("id"),
    CONSTRAINT "database_identity_has_one_row" CHECK ("id" = 1)
);

-- How far new ids are beyond the last one that is known: after a restore, and after a promotion, which may lose what it had not replicated.
CREATE FUNCTION skip_ids(stride bigint) RETURNS void LANGUAGE sql AS $$
    SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, ((coalesce(last_value, 0) + stride / 2) / stride + 1) * stride)
    FROM pg_sequences
    WHERE schemaname = current_schema() AND data_type = 'bigint'::regtype
        AND ((coalesce(last_value, 0) + stride / 2) / stride + 1) * stride < max_value
$$;

-- Compares where the database runs with where it ran, and does what a difference needs. `asked` is 'look', which changes nothing, 'command',
-- 'server', 'restored' (an operator says so) or 'moved' (everything came with it). With the rights of the owner, because a role that only serves
-- may not set sequences.
CREATE FUNCTION recognise_database(files text, asked text) RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
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

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION skip_ids(bigint) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION recognise_database(text, text) SET search_path = %I, pg_temp', current_schema());
END $$;
