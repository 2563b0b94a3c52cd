-- As before (20261121060000_harden), but with one plan: without statistics the planner took an index that reads all accounts of the project
-- for each user. Without a sort, only the index of a user's accounts gives the order.
CREATE OR REPLACE FUNCTION require_account_room(project integer, owner bigint, address_keys text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    would_have bigint;
BEGIN
    SELECT count(*) + (
            SELECT count(*) FROM unnest(address_keys) AS given (key) WHERE given.key <> ALL (coalesce(array_agg(has.address_key), '{}'))
        )
    INTO would_have
    FROM (
        SELECT a.address_key FROM accounts a
        WHERE a.project_id = project AND a.user_id >= owner AND a.user_id <= owner
        ORDER BY a.user_id
        OFFSET 0
    ) AS has;
    IF would_have > 100 THEN
        RAISE EXCEPTION 'a user would have % accounts', would_have
            USING ERRCODE = 'check_violation', CONSTRAINT = 'accounts_are_at_most_100', DETAIL = would_have;
    END IF;
    RETURN true;
END $$;

-- The user of an identity, found in the same way.
CREATE OR REPLACE FUNCTION record_ban(change change_type, project integer, method text, value_key text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    banned bigint;
BEGIN
    SELECT u.id INTO banned FROM users u
    WHERE u.project_id = project AND u.auth_method = method AND u.auth_value_key >= value_key AND u.auth_value_key <= value_key
        AND u.deleted_at IS NULL
    ORDER BY u.auth_value_key
    LIMIT 1
    FOR NO KEY UPDATE;
    INSERT INTO changes (project_id, type, user_id) VALUES (project, change, banned);
END $$;

-- Replaced functions have lost their settings.
DO $$
DECLARE
    ours regprocedure;
BEGIN
    FOR ours IN
        SELECT oid FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (ARRAY['require_account_room', 'record_ban'])
    LOOP
        EXECUTE format(
            'ALTER FUNCTION %s SET search_path = %I, pg_temp SET enable_sort = off SET enable_seqscan = off', ours, current_schema()
        );
    END LOOP;
END $$;

-- The user's own login wallet is external. An import could write it as custodial.
UPDATE accounts a SET wallet_type = 'external'
FROM users u
WHERE u.wallet IS NOT NULL AND a.project_id = u.project_id AND a.user_id = u.id
    AND a.wallet_type = 'custodial' AND lower(a.public_key) = lower(u.wallet);
