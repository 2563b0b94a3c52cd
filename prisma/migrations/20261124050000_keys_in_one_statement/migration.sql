-- A write and the answer to its idempotency key are one statement: it looks for an earlier answer first, and stores its own last.

-- The answer to the first request with a key, and whether that was the same request; null where the key is new or has expired. The table is
-- often empty when a plan is made, which would then read all of it: these settings leave the primary key.
CREATE FUNCTION earlier_answer(project integer, given text, request bytea) RETURNS jsonb LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off AS $$
BEGIN
    RETURN (
        SELECT jsonb_build_object('answer', known.answer, 'isSame', known.request_hash = request)
        FROM (
            SELECT * FROM idempotency_keys k
            WHERE k.project_id = project AND k.key >= given AND k.key <= given
            ORDER BY k.key
            LIMIT 1
        ) AS known
        WHERE known.created_at >= now() - interval '24 hours'
    );
END $$;

-- Where another request has stored an answer to the key at the same moment, this undoes the statement; the request runs again then, and finds
-- that answer.
CREATE FUNCTION take_expired_key(expired boolean) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
    IF NOT expired THEN
        RAISE EXCEPTION 'another request has the key' USING ERRCODE = 'unique_violation', CONSTRAINT = 'idempotency_key_is_taken';
    END IF;
    RETURN now();
END $$;

DO $$
BEGIN
    -- As in 20261121060000_harden.
    EXECUTE format('ALTER FUNCTION earlier_answer(integer, text, bytea) SET search_path = %I, pg_temp', current_schema());
    EXECUTE format('ALTER FUNCTION take_expired_key(boolean) SET search_path = %I, pg_temp', current_schema());
END $$;
