-- In the mailbox of an email, a sigma at the end of a word is folded as any other from this release on, and a capital one in a domain as IDNA
-- says. What was folded before is folded again, as far as it is known how it was written, unless another user or ban has the new key.
-- While a release before this one runs too, it does not find these users and bans.

-- step: folds a key again
CREATE FUNCTION one_sigma(key text, written text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN key ~ '^[^@[:space:]"]{1,64}@[^@[:space:]"]+$' THEN
        replace(split_part(key, '@', 1), 'ς', 'σ') || '@' ||
        CASE WHEN strpos(split_part(written, '@', 2), 'Σ') > 0 AND split_part(written, '@', 2) !~* 'ς|xn--'
            THEN replace(split_part(key, '@', 2), 'ς', 'σ')
            ELSE split_part(key, '@', 2)
        END
    ELSE key END
$$;

-- step without a transaction: finds users with such a sigma
CREATE INDEX CONCURRENTLY IF NOT EXISTS users_final_sigma_idx ON users (project_id, id)
    WHERE strpos(auth_value_key, 'ς') > 0 OR strpos(login_email, 'ς') > 0;

-- step in batches: folds the identities and emails of users again
UPDATE users u SET
    auth_value_key = refolded.key,
    login_email = one_sigma(u.login_email, CASE WHEN u.login_email = u.auth_value_key THEN u.auth_value END)
FROM (
    -- Of several that become one, the first.
    SELECT DISTINCT ON (project_id, auth_method, one_sigma(auth_value_key, auth_value))
        project_id, id, one_sigma(auth_value_key, auth_value) AS key
    FROM users old
    WHERE (strpos(auth_value_key, 'ς') > 0 OR strpos(login_email, 'ς') > 0)
        AND (
            one_sigma(auth_value_key, auth_value) <> auth_value_key
            OR one_sigma(login_email, CASE WHEN login_email = auth_value_key THEN auth_value END) <> login_email
        )
        AND NOT EXISTS (
            SELECT FROM users other
            WHERE old.deleted_at IS NULL AND other.deleted_at IS NULL AND other.id <> old.id
                AND other.project_id = old.project_id AND other.auth_method = old.auth_method
                AND other.auth_value_key = one_sigma(old.auth_value_key, old.auth_value)
        )
    ORDER BY project_id, auth_method, one_sigma(auth_value_key, auth_value), id
    LIMIT 500
) AS refolded
WHERE u.project_id = refolded.project_id AND u.id = refolded.id;

-- step in batches: folds the identities of bans again
UPDATE bans b SET auth_value_key = refolded.key
FROM (
    SELECT DISTINCT ON (project_id, auth_method, one_sigma(auth_value_key, auth_value))
        project_id, id, one_sigma(auth_value_key, auth_value) AS key
    FROM bans old
    WHERE strpos(auth_value_key, 'ς') > 0 AND one_sigma(auth_value_key, auth_value) <> auth_value_key
        AND NOT EXISTS (
            SELECT FROM bans other
            WHERE other.project_id = old.project_id AND other.auth_method = old.auth_method
                AND other.auth_value_key = one_sigma(old.auth_value_key, old.auth_value)
        )
    ORDER BY project_id, auth_method, one_sigma(auth_value_key, auth_value), id
    LIMIT 500
) AS refolded
WHERE b.project_id = refolded.project_id AND b.id = refolded.id;

-- step without a transaction: drops the index
DROP INDEX CONCURRENTLY IF EXISTS users_final_sigma_idx;

-- step: drops the function
DROP FUNCTION one_sigma(text, text);
