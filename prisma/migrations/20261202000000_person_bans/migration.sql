-- The ban of a user is one record, beside the bans of identities (docs/decisions/person.md).

-- step: the table of the bans of users
-- locks: bans (ACCESS EXCLUSIVE), users (SHARE ROW EXCLUSIVE)
CREATE TABLE "user_bans" (
    "project_id" INTEGER NOT NULL,
    "user_id" BIGINT NOT NULL,
    "created_at" TIMESTAMPTZ(3) NOT NULL DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP),
    -- Empty where no reason was given: a foreign key does not compare nulls.
    "reason" TEXT NOT NULL DEFAULT '',
    "expires_at" TIMESTAMPTZ(3) NOT NULL DEFAULT 'infinity',
    CONSTRAINT "user_bans_pkey" PRIMARY KEY ("project_id", "user_id"),
    CONSTRAINT "user_bans_reason_is_short" CHECK (char_length("reason") <= 500),
    CONSTRAINT "user_bans_user_fkey" FOREIGN KEY ("project_id", "user_id") REFERENCES "users" ("project_id", "id")
        ON DELETE CASCADE ON UPDATE CASCADE
);
CREATE UNIQUE INDEX "user_bans_terms_key" ON "user_bans" ("project_id", "user_id", "created_at", "expires_at", "reason");
ALTER TABLE "bans" ALTER COLUMN "reason" SET DEFAULT '', ALTER COLUMN "expires_at" SET DEFAULT 'infinity';

-- step in batches: the bans of users, each with the end of the copy that ends last
INSERT INTO user_bans (project_id, user_id, created_at, reason, expires_at)
SELECT DISTINCT ON (b.project_id, b.user_id) b.project_id, b.user_id, b.created_at, coalesce(b.reason, ''), coalesce(b.expires_at, 'infinity')
FROM bans b JOIN users u ON u.project_id = b.project_id AND u.id = b.user_id AND u.merged_into IS NULL
WHERE b.user_id IS NOT NULL AND NOT EXISTS (SELECT FROM user_bans o WHERE o.project_id = b.project_id AND o.user_id = b.user_id)
ORDER BY b.project_id, b.user_id, coalesce(b.expires_at, 'infinity') DESC
LIMIT 1000;

-- step in batches: the bans of identities, with the terms of their user's
WITH wrong AS (
    SELECT b.project_id, b.id, o.user_id, coalesce(o.created_at, b.created_at) AS created_at,
        coalesce(o.reason, b.reason, '') AS reason, coalesce(o.expires_at, b.expires_at, 'infinity') AS expires_at
    FROM bans b LEFT JOIN user_bans o ON o.project_id = b.project_id AND o.user_id = b.user_id
    WHERE b.reason IS NULL OR b.expires_at IS NULL OR b.user_id IS DISTINCT FROM o.user_id
        OR o.user_id IS NOT NULL AND (b.created_at, b.reason, b.expires_at) <> (o.created_at, o.reason, o.expires_at)
    LIMIT 1000
)
UPDATE bans b SET user_id = wrong.user_id, created_at = wrong.created_at, reason = wrong.reason, expires_at = wrong.expires_at
FROM wrong WHERE b.project_id = wrong.project_id AND b.id = wrong.id;

-- step without a transaction: a ban by its ID
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS bans_id_key ON bans (project_id, id);

-- step without a transaction: one ban of each identity
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS bans_identity_key ON bans (project_id, auth_method, auth_value_key) WHERE user_id IS NULL;

-- step without a transaction: one ban of each user that covers an identity
CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS bans_covered_key ON bans (project_id, auth_method, auth_value_key, user_id);

-- step without a transaction: the old index of ends
DROP INDEX CONCURRENTLY IF EXISTS bans_expires_at_idx;

-- step without a transaction: the ends of bans
CREATE INDEX CONCURRENTLY IF NOT EXISTS bans_expires_at_idx ON bans (project_id, expires_at) WHERE expires_at < 'infinity';

-- step: what must be true of a ban
-- locks: bans (ACCESS EXCLUSIVE), user_bans (SHARE ROW EXCLUSIVE)
ALTER TABLE "bans"
    ADD CONSTRAINT "bans_reason_is_set" CHECK ("reason" IS NOT NULL) NOT VALID,
    ADD CONSTRAINT "bans_end_is_set" CHECK ("expires_at" IS NOT NULL) NOT VALID,
    -- The ban of a user covers each of their identities, by a row that the foreign key holds equal to it.
    ADD CONSTRAINT "bans_user_ban_fkey" FOREIGN KEY ("project_id", "user_id", "created_at", "expires_at", "reason")
        REFERENCES "user_bans" ("project_id", "user_id", "created_at", "expires_at", "reason")
        ON DELETE CASCADE ON UPDATE CASCADE NOT VALID;

-- step without a transaction: reasons are checked
ALTER TABLE bans VALIDATE CONSTRAINT bans_reason_is_set;

-- step without a transaction: ends are checked
ALTER TABLE bans VALIDATE CONSTRAINT bans_end_is_set;

-- step without a transaction: terms are checked
ALTER TABLE bans VALIDATE CONSTRAINT bans_user_ban_fkey;

-- step: bans of users cover identities
-- locks: bans (ACCESS EXCLUSIVE), identities (SHARE ROW EXCLUSIVE), user_bans (SHARE ROW EXCLUSIVE), users (SHARE ROW EXCLUSIVE)
ALTER TABLE "bans" ALTER COLUMN "reason" SET NOT NULL, ALTER COLUMN "expires_at" SET NOT NULL;
ALTER TABLE "bans" DROP CONSTRAINT "bans_reason_is_set", DROP CONSTRAINT "bans_end_is_set",
    DROP CONSTRAINT "bans_pkey", ADD CONSTRAINT "bans_pkey" PRIMARY KEY USING INDEX "bans_id_key";
DO $migration$
BEGIN
    EXECUTE format($create$
-- A ban of a user covers an identity that becomes theirs.
CREATE OR REPLACE FUNCTION cover_identity(project integer, owner bigint, method text, value text, value_key text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, user_id, created_at, reason, expires_at)
    SELECT b.project_id, method, value, value_key, b.user_id, b.created_at, b.reason, b.expires_at
    FROM (
        SELECT * FROM user_bans o WHERE o.project_id = project AND o.user_id = owner AND o.expires_at > now() FOR KEY SHARE
    ) AS b
    ON CONFLICT DO NOTHING;
END $body$;

-- A user is locked before their ban is written, as before an identity is linked: so each sees the other. A user who was merged has no identity.
CREATE FUNCTION claim_banned_user() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    PERFORM FROM users u WHERE u.project_id = NEW.project_id AND u.id = NEW.user_id AND u.merged_into IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = 'no such user', CONSTRAINT = 'user_bans_user_fkey';
    END IF;
    RETURN NEW;
END $body$;

-- The ban of a user covers each identity that they have.
CREATE FUNCTION cover_identities() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    PERFORM cover_identity(u.project_id, u.id, u.auth_method, u.auth_value, u.auth_value_key)
    FROM users u WHERE u.project_id = NEW.project_id AND u.id = NEW.user_id;
    PERFORM cover_identity(i.project_id, i.user_id, i.auth_method, i.auth_value, i.auth_value_key)
    FROM identities i WHERE i.project_id = NEW.project_id AND i.user_id = NEW.user_id;
    RETURN NULL;
END $body$;

-- An identity that leaves a banned user takes a ban of its own with the same terms, unless it has one that ends later.
CREATE FUNCTION keep_ban(project integer, owner bigint, method text, value_key text) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    DELETE FROM bans own USING bans b
    WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key AND b.user_id = owner
        AND own.project_id = project AND own.auth_method = method AND own.auth_value_key = value_key AND own.user_id IS NULL
        AND own.expires_at < b.expires_at;
    UPDATE bans b SET user_id = NULL
    WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key AND b.user_id = owner
        AND NOT EXISTS (
            SELECT FROM bans own
            WHERE own.project_id = project AND own.auth_method = method AND own.auth_value_key = value_key AND own.user_id IS NULL
        );
    DELETE FROM bans b
    WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key AND b.user_id = owner;
END $body$;

-- At the end of the transaction: one that makes another identity primary takes it away for a moment.
CREATE FUNCTION keep_ban_of_identity() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
DECLARE
    owner bigint;
BEGIN
    IF TG_TABLE_NAME = 'users' THEN
        owner := OLD.id;
    ELSE
        owner := OLD.user_id;
    END IF;
    PERFORM FROM bans b
    WHERE b.project_id = OLD.project_id AND b.auth_method = OLD.auth_method AND b.auth_value_key = OLD.auth_value_key AND b.user_id = owner;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM users u
    WHERE u.project_id = OLD.project_id AND u.id = owner AND u.auth_method = OLD.auth_method AND u.auth_value_key = OLD.auth_value_key;
    IF FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM FROM identities i
    WHERE i.project_id = OLD.project_id AND i.user_id = owner AND i.auth_method = OLD.auth_method AND i.auth_value_key = OLD.auth_value_key;
    IF NOT FOUND THEN
        PERFORM keep_ban(OLD.project_id, owner, OLD.auth_method, OLD.auth_value_key);
    END IF;
    RETURN NULL;
END $body$;

-- A ban outlives its user: where the user is erased, each of the identities keeps it.
CREATE FUNCTION keep_bans_of_user() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    IF (SELECT u.id FROM users u WHERE u.project_id = OLD.project_id AND u.id = OLD.user_id) IS NULL
        AND (SELECT p.id FROM projects p WHERE p.id = OLD.project_id) IS NOT NULL THEN
        PERFORM keep_ban(b.project_id, b.user_id, b.auth_method, b.auth_value_key)
        FROM bans b WHERE b.project_id = OLD.project_id AND b.user_id = OLD.user_id;
    END IF;
    RETURN OLD;
END $body$;

-- Of two users who turn out to be one person, the ban that ends last is that of the person. It goes before the identities do, so that each stays banned.
CREATE FUNCTION merge_bans() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off SET search_path = %1$I, pg_temp AS $body$
BEGIN
    INSERT INTO user_bans AS had (project_id, user_id, created_at, reason, expires_at)
    SELECT b.project_id, NEW.merged_into, b.created_at, b.reason, b.expires_at
    FROM user_bans b
    WHERE b.project_id = NEW.project_id AND b.user_id = NEW.id AND b.expires_at > now()
    ON CONFLICT (project_id, user_id) DO UPDATE SET created_at = excluded.created_at, reason = excluded.reason, expires_at = excluded.expires_at
        WHERE had.expires_at < excluded.expires_at;
    UPDATE bans b SET user_id = o.user_id, created_at = o.created_at, reason = o.reason, expires_at = o.expires_at
    FROM user_bans o
    WHERE o.project_id = NEW.project_id AND o.user_id = NEW.merged_into AND b.project_id = o.project_id AND b.user_id = NEW.id;
    DELETE FROM user_bans b WHERE b.project_id = NEW.project_id AND b.user_id = NEW.id;
    RETURN NULL;
END $body$;

-- The current user who has an identity, locked, so that their changes follow in the order of commits; null if there is none.
CREATE FUNCTION locked_holder(project integer, method text, value_key text) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET search_path = %1$I, pg_temp AS $body$
DECLARE
    holder bigint;
BEGIN
    SELECT u.id INTO holder FROM users u
    WHERE u.project_id = project AND u.auth_method = method AND u.auth_value_key >= value_key AND u.auth_value_key <= value_key
        AND u.deleted_at IS NULL
    ORDER BY u.auth_value_key
    LIMIT 1
    FOR NO KEY UPDATE;
    IF holder IS NULL THEN
        SELECT u.id INTO holder FROM users u WHERE u.project_id = project AND u.id = linked_user(project, method, value_key) FOR NO KEY UPDATE;
    END IF;
    RETURN holder;
END $body$;

DROP FUNCTION record_ban(change_type, integer, text, text);

-- Records that an identity is banned from now on, or is not any more. Where it was and is, the user whose ban has changed is returned.
-- `had` and `has` are the ends of its bans that the statement has changed, before and after.
CREATE FUNCTION record_ban(project integer, method text, value_key text, had timestamptz[], has timestamptz[]) RETURNS bigint LANGUAGE plpgsql
SET enable_seqscan = off SET enable_sort = off SET search_path = %1$I, pg_temp AS $body$
DECLARE
    holder bigint := locked_holder(project, method, value_key);
    has_all timestamptz[] := ARRAY(
        SELECT b.expires_at FROM bans b WHERE b.project_id = project AND b.auth_method = method AND b.auth_value_key = value_key
    );
    -- How many bans the statement has not changed, and how many of these hold.
    others integer := cardinality(has_all) - cardinality(has);
    held_others integer := (SELECT count(*) FROM unnest(has_all) AS e WHERE e > now()) - (SELECT count(*) FROM unnest(has) AS e WHERE e > now());
    had_held boolean := held_others > 0 OR now() < ANY (had);
    has_held boolean := held_others > 0 OR now() < ANY (has);
BEGIN
    PERFORM touch_user(project, holder);
    IF cardinality(had) + others = 0 THEN
        INSERT INTO changes (project_id, type, user_id) VALUES (project, 'identity.banned', holder);
    ELSIF cardinality(has) + others = 0 THEN
        INSERT INTO changes (project_id, type, user_id) VALUES (project, 'identity.unbanned', holder);
    ELSIF had_held THEN
        RETURN holder;
    ELSIF has_held THEN
        -- The end of the ban before has not been told yet.
        INSERT INTO changes (project_id, type, user_id) VALUES (project, 'identity.unbanned', holder), (project, 'identity.banned', holder);
    END IF;
    RETURN NULL;
END $body$;

CREATE OR REPLACE FUNCTION record_bans() RETURNS trigger LANGUAGE plpgsql SET search_path = %1$I, pg_temp AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO changes (project_id, type, user_id, fields)
        SELECT DISTINCT b.project_id, 'user.updated'::change_type, b.holder, 'ban'
        FROM (
            SELECT b.project_id, record_ban(b.project_id, b.auth_method, b.auth_value_key, '{}', array_agg(b.expires_at)) AS holder
            FROM new_bans b
            GROUP BY b.project_id, b.auth_method, b.auth_value_key
            ORDER BY b.project_id, b.auth_method, b.auth_value_key
            OFFSET 0
        ) AS b
        WHERE b.holder IS NOT NULL;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO changes (project_id, type, user_id, fields)
        SELECT DISTINCT b.project_id, 'user.updated'::change_type, b.holder, 'ban'
        FROM (
            SELECT b.project_id, record_ban(b.project_id, b.auth_method, b.auth_value_key, array_agg(b.expires_at), '{}') AS holder
            FROM old_bans b
            -- Bans whose project goes with them leave no change.
            WHERE (SELECT p.id FROM projects p WHERE p.id = b.project_id) IS NOT NULL
            GROUP BY b.project_id, b.auth_method, b.auth_value_key
            ORDER BY b.project_id, b.auth_method, b.auth_value_key
            OFFSET 0
        ) AS b
        WHERE b.holder IS NOT NULL;
    ELSE
        INSERT INTO changes (project_id, type, user_id, fields)
        SELECT DISTINCT b.project_id, 'user.updated'::change_type, b.holder, 'ban'
        FROM (
            SELECT d.project_id, record_ban(d.project_id, d.auth_method, d.auth_value_key,
                coalesce(array_agg(d.expires_at) FILTER (WHERE d.was), '{}'), coalesce(array_agg(d.expires_at) FILTER (WHERE NOT d.was), '{}')) AS holder
            FROM (
                -- Another spelling of an identity is no change.
                (
                    SELECT true AS was, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM old_bans
                    EXCEPT SELECT true, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM new_bans
                )
                UNION ALL
                (
                    SELECT false, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM new_bans
                    EXCEPT SELECT false, project_id, auth_method, auth_value_key, user_id, created_at, reason, expires_at FROM old_bans
                )
            ) AS d
            GROUP BY d.project_id, d.auth_method, d.auth_value_key
            ORDER BY d.project_id, d.auth_method, d.auth_value_key
            OFFSET 0
        ) AS b
        WHERE b.holder IS NOT NULL;
    END IF;
    RETURN NULL;
END $body$;
    $create$, current_schema());
END $migration$;

CREATE TRIGGER user_bans_claim BEFORE INSERT ON user_bans FOR EACH ROW EXECUTE FUNCTION claim_banned_user();
CREATE TRIGGER user_bans_cover AFTER INSERT OR UPDATE ON user_bans FOR EACH ROW EXECUTE FUNCTION cover_identities();
CREATE TRIGGER user_bans_keep BEFORE DELETE ON user_bans FOR EACH ROW EXECUTE FUNCTION keep_bans_of_user();
CREATE CONSTRAINT TRIGGER identities_keep_ban AFTER DELETE OR UPDATE OF project_id, user_id, auth_method, auth_value_key ON identities
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION keep_ban_of_identity();
CREATE CONSTRAINT TRIGGER users_keep_ban AFTER UPDATE OF auth_method, auth_value_key ON users
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.auth_method <> OLD.auth_method OR NEW.auth_value_key <> OLD.auth_value_key) EXECUTE FUNCTION keep_ban_of_identity();
CREATE TRIGGER users_merge_bans AFTER UPDATE OF merged_into ON users FOR EACH ROW
    WHEN (OLD.merged_into IS NULL AND NEW.merged_into IS NOT NULL) EXECUTE FUNCTION merge_bans();
