-- A write and the answer to its idempotency key are one statement. Where another request has stored an answer to the key at the same moment,
-- this undoes the statement; the request runs again then, and finds that answer.
CREATE FUNCTION take_expired_key(expired boolean) RETURNS timestamptz LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT expired THEN
        RAISE EXCEPTION 'another request has the key' USING ERRCODE = 'unique_violation', CONSTRAINT = 'idempotency_key_is_taken';
    END IF;
    RETURN now();
END $$;
