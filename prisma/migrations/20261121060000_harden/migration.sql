-- What the database holds whatever way a row comes: by the service, by psql or by a restore.

-- A new id of a project would move its tallies by the foreign keys and count its users once more by the triggers.
CREATE FUNCTION refuse_new_project_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the id of a project does not change' USING ERRCODE = 'restrict_violation';
END $$;

CREATE TRIGGER projects_id_is_fixed BEFORE UPDATE OF id ON projects
    FOR EACH ROW WHEN (OLD.id IS DISTINCT FROM NEW.id) EXECUTE FUNCTION refuse_new_project_id();

-- TRUNCATE takes away rows that the snapshot of its transaction does not see; DELETE would leave the tallies of those.
CREATE OR REPLACE FUNCTION forget_tallies() RETURNS trigger LANGUAGE plpgsql AS $$
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

-- At most 100 accounts a user in all: true where a user who exists may be linked with the addresses as well, and otherwise an error.
-- Those who have more from before keep them and get none added. Who calls it has locked the user's row, so that of two at once
-- the second sees what the first has added: a volatile function counts in a snapshot of its own, later than the lock.
-- Not a trigger, which would make every first login a tenth slower, and a restore of those from before impossible.
CREATE FUNCTION require_account_room(project integer, owner bigint, address_keys text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    would_have bigint;
BEGIN
    SELECT (SELECT count(*) FROM accounts a WHERE a.project_id = project AND a.user_id = owner)
         + (SELECT count(*) FROM unnest(address_keys) AS given (key) WHERE NOT EXISTS (
               SELECT FROM accounts a WHERE a.project_id = project AND a.user_id = owner AND a.address_key = given.key
           ))
    INTO would_have;
    IF would_have > 100 THEN
        RAISE EXCEPTION 'a user would have % accounts', would_have
            USING ERRCODE = 'check_violation', CONSTRAINT = 'accounts_are_at_most_100', DETAIL = would_have;
    END IF;
    RETURN true;
END $$;

-- The user's own login wallet is external. One that had been linked as custodial before stayed so until now.
UPDATE accounts a SET wallet_type = 'external'
FROM users u
WHERE u.wallet IS NOT NULL AND a.project_id = u.project_id AND a.user_id = u.id
    AND a.wallet_type = 'custodial' AND lower(a.public_key) = lower(u.wallet);

-- Every function finds the tables beside it whatever the search path of the session: a restore's is empty. The functions whose body is an
-- expression (utc_day, utc_start) were bound when they were made, and a setting would keep them from being inlined.
DO $$
DECLARE
    ours regprocedure;
BEGIN
    FOR ours IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY[
            'record_inserted_users', 'record_updated_users', 'record_deleted_users', 'forget_tallies', 'fold_tallies',
            'cut_crowded_days', 'cut_tally_slices', 'announce_secrets', 'refuse_new_project_id', 'require_account_room'
        ])
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', ours, current_schema());
    END LOOP;
END $$;
