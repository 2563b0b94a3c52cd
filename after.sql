--
-- PostgreSQL database dump
--

\restrict IJwaptD6bH49SWQdy8BcoYKMXWSGzB5kFhrrqIViDzqUtO2rQK9NmR0dCg881c4

-- Dumped from database version 15.20 (Debian 15.20-0+deb12u1)
-- Dumped by pg_dump version 15.20 (Debian 15.20-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: audit_action; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.audit_action AS ENUM (
    'remove',
    'ban',
    'unban',
    'import',
    'purge',
    'add_secret',
    'rotate',
    'revoke',
    'create',
    'export',
    'refuse',
    'restore',
    'rename',
    'disable',
    'enable',
    'limit',
    'delete',
    'add_webhook',
    'remove_webhook',
    'rotate_webhook',
    'replay_webhook',
    'enable_webhook',
    'test_webhook',
    'update',
    'pause_webhook',
    'resume_webhook',
    'update_webhook',
    'resend_webhook',
    'link',
    'unlink',
    'merge'
);


--
-- Name: change_type; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.change_type AS ENUM (
    'user.created',
    'user.updated',
    'user.removed',
    'user.restored',
    'account.added',
    'identity.banned',
    'identity.unbanned',
    'user.merged'
);


--
-- Name: login_method; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.login_method AS ENUM (
    'email',
    'passkey',
    'wallet',
    'socials'
);


--
-- Name: network; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.network AS ENUM (
    'stellar',
    'ethereum'
);


--
-- Name: operator_role; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.operator_role AS ENUM (
    'viewer',
    'support',
    'admin'
);


--
-- Name: secret_scope; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.secret_scope AS ENUM (
    'read',
    'verify',
    'write',
    'changes',
    'webhooks'
);


--
-- Name: tally_span; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.tally_span AS ENUM (
    'all',
    'month',
    'day'
);


--
-- Name: wallet_type; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.wallet_type AS ENUM (
    'custodial',
    'external'
);


--
-- Name: webhook_status; Type: TYPE; Schema: public; Owner: -
--

CREATE TYPE public.webhook_status AS ENUM (
    'enabled',
    'paused',
    'disabled'
);


--
-- Name: announce_secrets(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.announce_secrets() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    NOTIFY userdir_secrets;
    RETURN NULL;
END $$;


--
-- Name: carry_identities(integer, bigint, text, text, text, boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.carry_identities(project integer, owner bigint, method text, value text, value_key text, is_removed boolean) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    UPDATE identities i SET removed = is_removed WHERE i.project_id = project AND i.user_id = owner AND i.removed <> is_removed;
    IF NOT is_removed THEN
        IF linked_user(project, method, value_key) IS NOT NULL THEN
            RAISE unique_violation USING MESSAGE = 'a user has the identity linked', CONSTRAINT = 'identities_identity_key';
        END IF;
        PERFORM cover_identity(project, owner, method, value, value_key);
    END IF;
END $$;


--
-- Name: carry_removal(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.carry_removal() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    NEW.removed := (SELECT deleted_at IS NOT NULL FROM users WHERE project_id = NEW.project_id AND id = NEW.user_id FOR NO KEY UPDATE);
    RETURN NEW;
END $$;


--
-- Name: changes_incarnation(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.changes_incarnation() RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT concat_ws(' ', d.oid, pg_relation_filenode('changes_feed'), extract(epoch FROM pg_postmaster_start_time()))
    FROM pg_database d WHERE d.datname = current_database()
$$;


--
-- Name: claim_banned_user(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.claim_banned_user() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM users u WHERE u.project_id = NEW.project_id AND u.id = NEW.user_id AND u.merged_into IS NULL FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = 'no such user', CONSTRAINT = 'user_bans_user_fkey';
    END IF;
    RETURN NEW;
END $$;


--
-- Name: claim_identity(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.claim_identity() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    NEW.removed := (SELECT deleted_at IS NOT NULL FROM users WHERE project_id = NEW.project_id AND id = NEW.user_id FOR NO KEY UPDATE);
    IF NOT NEW.removed THEN
        INSERT INTO users (project_id, id, auth_method, auth_value, auth_value_key)
        VALUES (NEW.project_id, -NEW.id, NEW.auth_method, '', NEW.auth_value_key);
        DELETE FROM users WHERE project_id = NEW.project_id AND id = -NEW.id;
        PERFORM cover_identity(NEW.project_id, NEW.user_id, NEW.auth_method, NEW.auth_value, NEW.auth_value_key);
    END IF;
    RETURN NEW;
END $$;


--
-- Name: claim_new_identities(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.claim_new_identities() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    places tid[];
BEGIN
    WITH claimed AS (
        INSERT INTO users (project_id, id, auth_method, auth_value, auth_value_key)
        SELECT project_id, -id, auth_method, '', auth_value_key FROM new_identities WHERE NOT removed ORDER BY id
        RETURNING ctid
    )
    SELECT array_agg(ctid) INTO places FROM claimed;
    DELETE FROM users WHERE ctid = ANY (places);
    PERFORM cover_identity(project_id, user_id, auth_method, auth_value, auth_value_key) FROM new_identities WHERE NOT removed;
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT DISTINCT project_id, 'user.updated'::change_type, user_id, 'identities' FROM new_identities WHERE NOT removed;
    PERFORM follow_linked_email(project_id, user_id), touch_user(project_id, user_id)
    FROM (SELECT DISTINCT project_id, user_id FROM new_identities ORDER BY project_id, user_id) AS owners;
    RETURN NULL;
END $$;


--
-- Name: cover_identities(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cover_identities() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    PERFORM cover_identity(u.project_id, u.id, u.auth_method, u.auth_value, u.auth_value_key)
    FROM users u WHERE u.project_id = NEW.project_id AND u.id = NEW.user_id;
    PERFORM cover_identity(i.project_id, i.user_id, i.auth_method, i.auth_value, i.auth_value_key)
    FROM identities i WHERE i.project_id = NEW.project_id AND i.user_id = NEW.user_id;
    RETURN NULL;
END $$;


--
-- Name: cover_identity(integer, bigint, text, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cover_identity(project integer, owner bigint, method text, value text, value_key text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key, user_id, created_at, reason, expires_at)
    SELECT b.project_id, method, value, value_key, b.user_id, b.created_at, b.reason, b.expires_at
    FROM (
        SELECT * FROM user_bans o WHERE o.project_id = project AND o.user_id = owner AND o.expires_at > now() FOR KEY SHARE
    ) AS b
    ON CONFLICT DO NOTHING;
END $$;


--
-- Name: cut_crowded_days(integer, date[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cut_crowded_days(project integer, days date[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    crowded record;
BEGIN
    PERFORM pg_advisory_xact_lock(1968399457, project);
    IF days IS NULL THEN
        days := (SELECT array_agg(DISTINCT starts_on) FROM tallies WHERE project_id = project AND span = 'day');
    END IF;
    FOR crowded IN
        SELECT utc_start(t.starts_on) AS from_at, 0::bigint AS from_id, utc_start(t.starts_on + 1) AS to_at, 0::bigint AS to_id
        FROM tallies t
        WHERE t.project_id = project AND t.span = 'day' AND t.starts_on = ANY (days)
            AND NOT EXISTS (
                SELECT FROM tally_slices s
                WHERE s.project_id = project AND s.starts_at >= utc_start(t.starts_on) AND s.starts_at < utc_start(t.starts_on + 1)
            )
        GROUP BY t.starts_on
        HAVING sum(t.users) > 2000
        UNION ALL
        SELECT slice.starts_at, slice.starts_id, slice.ends_at, slice.ends_id
        FROM (
            SELECT s.starts_at, s.starts_id, sum(s.users) AS users,
                coalesce(lead(s.starts_at) OVER day, utc_start(utc_day(s.starts_at) + 1)) AS ends_at,
                coalesce(lead(s.starts_id) OVER day, 0) AS ends_id
            FROM unnest(days) AS each (day)
            JOIN tally_slices s
                ON s.project_id = project AND s.starts_at >= utc_start(each.day) AND s.starts_at < utc_start(each.day + 1)
            GROUP BY s.starts_at, s.starts_id
            WINDOW day AS (PARTITION BY utc_day(s.starts_at) ORDER BY s.starts_at, s.starts_id)
        ) AS slice
        WHERE slice.users > 2000
    LOOP
        PERFORM cut_tally_slices(project, crowded.from_at, crowded.from_id, crowded.to_at, crowded.to_id);
    END LOOP;
END $$;


--
-- Name: cut_tally_slices(integer, timestamp with time zone, bigint, timestamp with time zone, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.cut_tally_slices(project integer, from_at timestamp with time zone, from_id bigint, to_at timestamp with time zone, to_id bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM tally_slices
    WHERE project_id = project AND (starts_at, starts_id) >= (from_at, from_id) AND (starts_at, starts_id) < (to_at, to_id);

    INSERT INTO tally_slices (project_id, starts_at, starts_id, login_method, users)
    WITH numbered AS (
        SELECT u.created_at, u.id, u.login_method, (row_number() OVER (ORDER BY u.created_at, u.id) - 1) / 1000 AS slice
        FROM users u
        WHERE u.project_id = project AND u.deleted_at IS NULL
            AND (u.created_at, u.id) >= (from_at, from_id) AND (u.created_at, u.id) < (to_at, to_id)
    ), starts AS (
        -- The first slice starts where the range does, so that every later position of the range has a slice.
        SELECT 0 AS slice, from_at AS starts_at, from_id AS starts_id
        UNION ALL
        (SELECT DISTINCT ON (slice) slice, created_at, id FROM numbered WHERE slice > 0 ORDER BY slice, created_at, id)
    ), counted AS (
        SELECT starts.starts_at, starts.starts_id, numbered.login_method, count(*) AS users
        FROM numbered JOIN starts USING (slice)
        GROUP BY 1, 2, 3
        UNION ALL
        SELECT place.starts_at, place.starts_id, d.login_method, -sum(d.change)
        FROM tally_deltas d
        CROSS JOIN LATERAL (
            SELECT s.starts_at, s.starts_id FROM starts s
            WHERE (s.starts_at, s.starts_id) <= (d.created_at, d.user_id)
            ORDER BY s.starts_at DESC, s.starts_id DESC
            LIMIT 1
        ) AS place
        WHERE d.project_id = project
            AND (d.created_at, d.user_id) >= (from_at, from_id) AND (d.created_at, d.user_id) < (to_at, to_id)
        GROUP BY 1, 2, 3
        UNION ALL
        -- Every slice has its row even while it is empty: its start is a boundary.
        SELECT starts_at, starts_id, 'email', 0 FROM starts
    )
    SELECT project, starts_at, starts_id, login_method, sum(users)
    FROM counted
    GROUP BY starts_at, starts_id, login_method;
END $$;


--
-- Name: delete_project_changes(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.delete_project_changes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM changes WHERE project_id IN (SELECT id FROM old_projects);
    RETURN NULL;
END $$;


--
-- Name: earlier_answer(integer, text, bytea); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.earlier_answer(project integer, given text, request bytea) RETURNS jsonb
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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


--
-- Name: fold_tallies(integer, integer); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.fold_tallies(project integer, most integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    upto bigint;
    folded integer;
    touched date[];
BEGIN
    IF NOT pg_try_advisory_xact_lock(1968399457, project) THEN
        RETURN 0;
    END IF;
    -- A range of ids rather than a list of them: no plan for it is a bad one.
    SELECT max(id) INTO upto
    FROM (SELECT id FROM tally_deltas WHERE project_id = project ORDER BY id LIMIT most) AS oldest;
    WITH taken AS (
        DELETE FROM tally_deltas
        WHERE project_id = project AND id <= upto
        RETURNING created_at, user_id, login_method, change
    ), spans AS (
        INSERT INTO tallies AS tally (project_id, span, starts_on, login_method, users)
        SELECT project, each.span, each.starts_on, taken.login_method, sum(taken.change)
        FROM taken
        CROSS JOIN LATERAL (
            VALUES ('all'::tally_span, DATE '1970-01-01'),
                   ('month'::tally_span, date_trunc('month', taken.created_at AT TIME ZONE 'UTC')::date),
                   ('day'::tally_span, utc_day(taken.created_at))
        ) AS each (span, starts_on)
        GROUP BY each.span, each.starts_on, taken.login_method
        HAVING sum(taken.change) <> 0
        ORDER BY each.span, each.starts_on, taken.login_method
        ON CONFLICT (project_id, span, starts_on, login_method) DO UPDATE SET users = tally.users + excluded.users
    ), slices AS (
        INSERT INTO tally_slices AS tally (project_id, starts_at, starts_id, login_method, users)
        SELECT project, slice.starts_at, slice.starts_id, taken.login_method, sum(taken.change)
        FROM taken
        CROSS JOIN LATERAL (
            SELECT s.starts_at, s.starts_id
            FROM tally_slices s
            WHERE s.project_id = project
                AND (s.starts_at, s.starts_id) <= (taken.created_at, taken.user_id)
                AND s.starts_at >= utc_start(utc_day(taken.created_at))
            ORDER BY s.starts_at DESC, s.starts_id DESC
            LIMIT 1
        ) AS slice
        GROUP BY slice.starts_at, slice.starts_id, taken.login_method
        HAVING sum(taken.change) <> 0
        ORDER BY slice.starts_at, slice.starts_id, taken.login_method
        ON CONFLICT (project_id, starts_at, starts_id, login_method) DO UPDATE SET users = tally.users + excluded.users
    )
    SELECT count(*), array_agg(DISTINCT utc_day(created_at)) INTO folded, touched FROM taken;

    -- While much is left to fold, every cut would have to look through all of it.
    IF folded < most THEN
        PERFORM cut_crowded_days(project, touched);
    END IF;
    RETURN folded;
END $$;


--
-- Name: follow_linked_email(integer, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.follow_linked_email(project integer, owner bigint) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    email text := (
        SELECT i.login_email FROM identities i
        WHERE i.project_id = project AND i.user_id = owner AND i.login_email IS NOT NULL
        ORDER BY i.created_at, i.id
        LIMIT 1
    );
BEGIN
    UPDATE users SET linked_email = email WHERE project_id = project AND id = owner AND linked_email IS DISTINCT FROM email;
END $$;


--
-- Name: forget_changes(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_changes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM changes;
    INSERT INTO changes_pruned (project_id, through)
    SELECT p.id, gone.through FROM projects p, (SELECT nextval('changes_id_seq') AS through) AS gone
    ON CONFLICT (project_id) DO UPDATE SET through = excluded.through;
    RETURN NULL;
END $$;


--
-- Name: forget_deltas(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_deltas() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    DELETE FROM tally_deltas WHERE project_id = OLD.id;
    RETURN NULL;
END $$;


--
-- Name: forget_import(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_import() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    NEW.import_id := NULL;
    RETURN NEW;
END $$;


--
-- Name: forget_tallies(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.forget_tallies() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
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


--
-- Name: keep_ban(integer, bigint, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.keep_ban(project integer, owner bigint, method text, value_key text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
END $$;


--
-- Name: keep_ban_of_identity(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.keep_ban_of_identity() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
END $$;


--
-- Name: keep_bans_of_user(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.keep_bans_of_user() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF (SELECT u.id FROM users u WHERE u.project_id = OLD.project_id AND u.id = OLD.user_id) IS NULL
        AND (SELECT p.id FROM projects p WHERE p.id = OLD.project_id) IS NOT NULL THEN
        PERFORM keep_ban(b.project_id, b.user_id, b.auth_method, b.auth_value_key)
        FROM bans b WHERE b.project_id = OLD.project_id AND b.user_id = OLD.user_id;
    END IF;
    RETURN OLD;
END $$;


--
-- Name: keep_external_id(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.keep_external_id(had text, given text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF had <> given THEN
        RAISE EXCEPTION 'the user has another external id'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'users_external_id_is_kept';
    END IF;
    RETURN given;
END $$;


--
-- Name: linked_user(integer, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.linked_user(project integer, method text, value_key text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RETURN (
        SELECT i.user_id FROM identities i
        WHERE i.project_id = project AND i.auth_method = method AND i.auth_value_key >= value_key AND i.auth_value_key <= value_key
            AND NOT i.removed
        ORDER BY i.auth_value_key
        LIMIT 1
    );
END $$;


--
-- Name: locked_holder(integer, text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.locked_holder(project integer, method text, value_key text) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
END $$;


--
-- Name: merge_bans(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.merge_bans() RETURNS trigger
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
END $$;


--
-- Name: oldest_release(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.oldest_release() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN '2.0.0'::text;


--
-- Name: publish_changes(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.publish_changes(upto bigint) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    feed changes_feed;
    other_timeline text := 'f' || left(md5(random()::text || clock_timestamp()), 7);
BEGIN
    INSERT INTO changes_feed (timeline, incarnation, published)
    VALUES (other_timeline, changes_incarnation(), 1)
    ON CONFLICT DO NOTHING;
    SELECT * INTO feed FROM changes_feed FOR NO KEY UPDATE;
    IF feed.incarnation <> changes_incarnation() THEN
        -- A timeline in which nothing was published has no cursors.
        IF feed.published > coalesce((SELECT max(published) FROM changes_timelines), 1) THEN
            INSERT INTO changes_timelines (timeline, published) VALUES (feed.timeline, feed.published);
            -- So many starts back, a cursor has expired.
            DELETE FROM changes_timelines
            WHERE published < (SELECT t.published FROM changes_timelines t ORDER BY t.published DESC OFFSET 199 LIMIT 1);
        END IF;
        UPDATE changes_feed SET timeline = other_timeline, incarnation = changes_incarnation();
    END IF;
    IF upto > feed.published THEN
        UPDATE changes_feed SET published = upto;
    END IF;
    RETURN greatest(upto, feed.published);
END $$;


--
-- Name: recognise_database(text, text); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.recognise_database(files text, asked text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'public', 'pg_temp'
    AS $$
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


--
-- Name: record_added_accounts(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_added_accounts() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM new_accounts) THEN
        RETURN NULL;
    END IF;
    INSERT INTO changes (project_id, type, user_id)
    SELECT a.project_id, 'account.added', a.user_id FROM new_accounts a
    -- Always true. It waits for the lock before the ids are given out.
    WHERE (
        SELECT u.id FROM users u
        WHERE u.project_id = a.project_id AND u.id = a.user_id AND u.xmin <> pg_current_xact_id()::xid
        FOR NO KEY UPDATE
    ) IS DISTINCT FROM 0
    ORDER BY a.id;
    RETURN NULL;
END $$;


--
-- Name: record_ban(integer, text, text, timestamp with time zone[], timestamp with time zone[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_ban(project integer, method text, value_key text, had timestamp with time zone[], has timestamp with time zone[]) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_sort TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
    IF had_held OR has_held THEN
        PERFORM touch_user(project, holder);
    END IF;
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
END $$;


--
-- Name: record_bans(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_bans() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
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
END $$;


--
-- Name: record_changed_accounts(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_changed_accounts() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM new_accounts) THEN
        RETURN NULL;
    END IF;
    PERFORM FROM new_accounts a
    JOIN users u ON u.project_id = a.project_id AND u.id = a.user_id
    WHERE u.xmin <> pg_current_xact_id()::xid
    FOR NO KEY UPDATE OF u;
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT DISTINCT project_id, 'user.updated'::change_type, user_id, 'accounts'
    FROM (
        (SELECT * FROM new_accounts EXCEPT SELECT * FROM old_accounts)
        UNION ALL
        (SELECT * FROM old_accounts EXCEPT SELECT * FROM new_accounts)
    ) AS changed;
    RETURN NULL;
END $$;


--
-- Name: record_deleted_users(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_deleted_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    -- Users whose project goes with them leave neither a delta nor a change, nor do those who were removed before.
    INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
    SELECT o.project_id, o.created_at, o.id, o.login_method, -1
    FROM old_users o
    WHERE o.id > 0 AND o.deleted_at IS NULL AND (SELECT p.id FROM projects p WHERE p.id = o.project_id) IS NOT NULL;
    INSERT INTO changes (project_id, type, user_id)
    SELECT o.project_id, 'user.removed', o.id
    FROM old_users o
    WHERE o.id > 0 AND o.deleted_at IS NULL AND (SELECT p.id FROM projects p WHERE p.id = o.project_id) IS NOT NULL
    ORDER BY o.id;
    RETURN NULL;
END $$;


--
-- Name: record_identities(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_identities() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
DECLARE
    i identities := coalesce(NEW, OLD);
BEGIN
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT u.project_id, 'user.updated', u.id, 'identities'
    FROM users u
    WHERE u.project_id = i.project_id AND u.id = i.user_id
        -- So written, it fits no index of current users: each has many, and none of them the ID.
        AND (u.deleted_at IS NULL)::int = 1
        AND (TG_OP = 'DELETE' OR NEW.removed = OLD.removed)
    FOR NO KEY UPDATE OF u;
    PERFORM follow_linked_email(i.project_id, i.user_id), touch_user(i.project_id, i.user_id);
    IF OLD.user_id <> i.user_id THEN
        PERFORM follow_linked_email(OLD.project_id, OLD.user_id);
    END IF;
    RETURN NULL;
END $$;


--
-- Name: record_inserted_users(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_inserted_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM new_users WHERE id > 0) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (
        SELECT FROM new_users n CROSS JOIN LATERAL (
            SELECT FROM identities i
            WHERE i.project_id = n.project_id AND i.auth_method = n.auth_method
                AND i.auth_value_key >= n.auth_value_key AND i.auth_value_key <= n.auth_value_key AND NOT i.removed
            ORDER BY i.auth_value_key
            LIMIT 1
        ) AS linked
        WHERE n.deleted_at IS NULL
    ) THEN
        RAISE unique_violation USING MESSAGE = 'another user has the identity linked', CONSTRAINT = 'identities_identity_key';
    END IF;
    WITH counted AS (
        INSERT INTO tally_deltas (project_id, created_at, user_id, login_method, change)
        SELECT project_id, created_at, id, login_method, 1 FROM new_users WHERE deleted_at IS NULL
    )
    INSERT INTO changes (project_id, type, user_id)
    SELECT project_id, 'user.created', id FROM new_users WHERE deleted_at IS NULL ORDER BY id;
    RETURN NULL;
END $$;


--
-- Name: record_removed_accounts(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_removed_accounts() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM old_accounts) THEN
        RETURN NULL;
    END IF;
    INSERT INTO changes (project_id, type, user_id, fields)
    SELECT u.project_id, 'user.updated', u.id, 'accounts'
    FROM (SELECT DISTINCT a.project_id, a.user_id FROM old_accounts a ORDER BY a.project_id, a.user_id) AS a
    CROSS JOIN LATERAL (
        SELECT * FROM users WHERE users.project_id = a.project_id AND users.id = a.user_id OFFSET 0 FOR NO KEY UPDATE
    ) AS u
    WHERE u.deleted_at IS NULL;
    PERFORM touch_user(project_id, user_id)
    FROM (SELECT DISTINCT project_id, user_id FROM old_accounts ORDER BY project_id, user_id) AS owners;
    RETURN NULL;
END $$;


--
-- Name: record_updated_users(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.record_updated_users() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    -- A first login updates nobody, and a later one none of these columns.
    IF NOT EXISTS (
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (n.id, n.auth_method, n.auth_value, n.auth_value_key, n.said_email, n.identity_email, n.linked_email, n.wallet, n.created_at, n.deleted_at, n.external_id, n.email_verified, n.metadata, n.identity_at, n.merged_into)
            IS DISTINCT FROM (o.id, o.auth_method, o.auth_value, o.auth_value_key, o.said_email, o.identity_email, o.linked_email, o.wallet, o.created_at, o.deleted_at, o.external_id, o.email_verified, o.metadata, o.identity_at, o.merged_into)
    ) THEN
        RETURN NULL;
    END IF;
    PERFORM carry_identities(n.project_id, n.id, n.auth_method, n.auth_value, n.auth_value_key, n.deleted_at IS NOT NULL)
    FROM new_users n JOIN old_users o ON o.project_id = n.project_id AND o.id = n.id
    WHERE (n.auth_method, n.auth_value_key, n.deleted_at IS NULL) IS DISTINCT FROM (o.auth_method, o.auth_value_key, o.deleted_at IS NULL)
    ORDER BY n.id;
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
    SELECT project_id, type, user_id, CASE type WHEN 'user.updated' THEN fields WHEN 'user.merged' THEN merged_into::text END
    FROM (
        SELECT coalesce(n.project_id, o.project_id) AS project_id, coalesce(n.id, o.id) AS user_id, n.merged_into,
            CASE
                WHEN n.merged_into IS NOT NULL THEN 'user.merged'::change_type
                WHEN n.id IS NULL OR n.deleted_at IS NOT NULL THEN 'user.removed'::change_type
                WHEN o.id IS NULL THEN 'user.created'
                WHEN o.deleted_at IS NOT NULL THEN 'user.restored'
                ELSE 'user.updated'
            END AS type,
            concat_ws(' ',
                CASE WHEN n.auth_method IS DISTINCT FROM o.auth_method THEN 'auth_method' END,
                CASE WHEN (n.auth_value, n.auth_value_key) IS DISTINCT FROM (o.auth_value, o.auth_value_key) THEN 'auth_value' END,
                CASE WHEN n.login_email IS DISTINCT FROM o.login_email THEN 'email' END,
                CASE WHEN n.login_email IS NOT DISTINCT FROM o.login_email AND n.identity_email IS DISTINCT FROM o.identity_email THEN 'identities' END,
                CASE WHEN n.wallet IS DISTINCT FROM o.wallet THEN 'wallet' END,
                CASE WHEN n.external_id IS DISTINCT FROM o.external_id THEN 'external_id' END,
                CASE WHEN n.email_verified IS DISTINCT FROM o.email_verified THEN 'email_verified' END,
                CASE WHEN n.metadata IS DISTINCT FROM o.metadata THEN 'metadata' END,
                CASE WHEN n.created_at IS DISTINCT FROM o.created_at THEN 'created_at' END
            ) AS fields
        FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        -- Who was removed before and after is no user of any reader.
        WHERE o.deleted_at IS NULL AND o.id IS NOT NULL OR n.deleted_at IS NULL AND n.id IS NOT NULL
    ) AS changed
    WHERE type <> 'user.updated' OR fields <> ''
    ORDER BY user_id;
    RETURN NULL;
END $$;


--
-- Name: refuse_new_project_id(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.refuse_new_project_id() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'the id of a project does not change' USING ERRCODE = 'restrict_violation';
END $$;


--
-- Name: require_account_room(integer, bigint, text[]); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.require_account_room(project integer, owner bigint, address_keys text[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    SET enable_sort TO 'off'
    SET enable_seqscan TO 'off'
    AS $$
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


--
-- Name: skip_ids(bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.skip_ids(stride bigint) RETURNS void
    LANGUAGE sql
    SET search_path TO 'public', 'pg_temp'
    AS $$
    SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, ((coalesce(last_value, 0) + stride / 2) / stride + 1) * stride)
    FROM pg_sequences
    WHERE schemaname = current_schema() AND data_type = 'bigint'::regtype
        AND ((coalesce(last_value, 0) + stride / 2) / stride + 1) * stride < max_value
$$;


--
-- Name: take_expired_key(boolean); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.take_expired_key(expired boolean) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    IF NOT expired THEN
        RAISE EXCEPTION 'another request has the key' USING ERRCODE = 'unique_violation', CONSTRAINT = 'idempotency_key_is_taken';
    END IF;
    RETURN now();
END $$;


--
-- Name: touch_user(integer, bigint); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.touch_user(project integer, touched bigint) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET search_path TO 'public', 'pg_temp'
    AS $$
BEGIN
    UPDATE users SET import_id = NULL
    WHERE project_id = project AND id = touched AND import_id IS NOT NULL AND import_id::text IS DISTINCT FROM current_setting('userdir.import', true);
END $$;


--
-- Name: utc_day(timestamp with time zone); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.utc_day(instant timestamp with time zone) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((instant AT TIME ZONE 'UTC'::text))::date;


--
-- Name: utc_start(date); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.utc_start(day date) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((day)::timestamp without time zone AT TIME ZONE 'UTC'::text);


--
-- Name: write_record_updated_users(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.write_record_updated_users() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'public', 'pg_temp'
    AS $_$
DECLARE
    columns text[];
    fields text;
BEGIN
    -- Not what a login changes, what follows from other columns, or what tells users apart.
    SELECT array_agg(format('%%s.%I', attname) ORDER BY attnum) INTO columns
    FROM pg_attribute
    WHERE attrelid = 'users'::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count', 'identity_login', 'import_id']);
    -- The names of fields where they differ from those of columns. The key of a value goes with the value.
    SELECT string_agg(
        format(
            'CASE WHEN %s IS DISTINCT FROM %s THEN %L END',
            CASE attname WHEN 'identity_email' THEN 'n.login_email IS NOT DISTINCT FROM o.login_email AND n.identity_email'
                WHEN 'auth_value' THEN '(n.auth_value, n.auth_value_key)' ELSE format('n.%I', attname) END,
            CASE attname WHEN 'auth_value' THEN '(o.auth_value, o.auth_value_key)' ELSE format('o.%I', attname) END,
            CASE attname WHEN 'login_email' THEN 'email' WHEN 'identity_email' THEN 'identities' ELSE attname END
        ),
        E',\n                ' ORDER BY attname = 'created_at', attname LIKE 'auth%' DESC, attname <> 'login_email', attnum
    ) INTO fields
    FROM pg_attribute
    WHERE attrelid = 'users'::regclass AND attnum > 0 AND NOT attisdropped AND (attgenerated = '' OR attname = 'login_email')
        AND attname <> ALL (ARRAY['project_id', 'last_login', 'login_count', 'identity_login', 'import_id', 'id', 'auth_value_key', 'deleted_at', 'identity_at', 'merged_into', 'said_email', 'linked_email']);
    EXECUTE format(
        'CREATE OR REPLACE FUNCTION record_updated_users() RETURNS trigger LANGUAGE plpgsql SET search_path = %I, pg_temp AS %L',
        current_schema(),
        format(
            $body$
BEGIN
    -- A first login updates nobody, and a later one none of these columns.
    IF NOT EXISTS (
        SELECT FROM old_users o
        FULL JOIN new_users n ON n.project_id = o.project_id AND n.id = o.id
        WHERE (%s)
            IS DISTINCT FROM (%s)
    ) THEN
        RETURN NULL;
    END IF;
    PERFORM carry_identities(n.project_id, n.id, n.auth_method, n.auth_value, n.auth_value_key, n.deleted_at IS NOT NULL)
    FROM new_users n JOIN old_users o ON o.project_id = n.project_id AND o.id = n.id
    WHERE (n.auth_method, n.auth_value_key, n.deleted_at IS NULL) IS DISTINCT FROM (o.auth_method, o.auth_value_key, o.deleted_at IS NULL)
    ORDER BY n.id;
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
    SELECT project_id, type, user_id, CASE type WHEN 'user.updated' THEN fields WHEN 'user.merged' THEN merged_into::text END
    FROM (
        SELECT coalesce(n.project_id, o.project_id) AS project_id, coalesce(n.id, o.id) AS user_id, n.merged_into,
            CASE
                WHEN n.merged_into IS NOT NULL THEN 'user.merged'::change_type
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
END $_$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.accounts (
    project_id integer NOT NULL,
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    network public.network NOT NULL,
    public_key text NOT NULL,
    address_key text NOT NULL COLLATE pg_catalog."C",
    wallet_type public.wallet_type NOT NULL,
    CONSTRAINT accounts_public_key_is_one_word CHECK ((strpos(public_key, ' '::text) = 0))
);
ALTER TABLE ONLY public.accounts ALTER COLUMN address_key SET (n_distinct=-1);


--
-- Name: accounts_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.accounts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 9007199254740991
    CACHE 1;


--
-- Name: accounts_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.accounts_id_seq OWNED BY public.accounts.id;


--
-- Name: app_secrets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.app_secrets (
    project_id integer NOT NULL,
    id integer NOT NULL,
    secret_hash bytea NOT NULL,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    expires_at timestamp(3) with time zone,
    label text DEFAULT 'main'::text NOT NULL,
    scopes public.secret_scope[] DEFAULT '{read,verify,write,changes}'::public.secret_scope[] NOT NULL,
    last_used_at timestamp(3) with time zone,
    CONSTRAINT app_secrets_is_good_for_something CHECK (((cardinality(scopes) > 0) AND (array_position(scopes, NULL::public.secret_scope) IS NULL))),
    CONSTRAINT app_secrets_label_is_not_an_operator CHECK (((label <> 'operator'::text) AND (label !~~ 'operator:%'::text))),
    CONSTRAINT app_secrets_label_is_one_line CHECK ((((char_length(label) >= 1) AND (char_length(label) <= 64)) AND (label !~ '[[:cntrl:]]'::text))),
    CONSTRAINT app_secrets_secret_hash_is_sha256 CHECK ((octet_length(secret_hash) = 32))
);


--
-- Name: app_secrets_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.app_secrets_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: app_secrets_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.app_secrets_id_seq OWNED BY public.app_secrets.id;


--
-- Name: audit_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.audit_log (
    project_id integer NOT NULL,
    id bigint NOT NULL,
    at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    actor text NOT NULL,
    request_id text,
    action public.audit_action NOT NULL,
    user_id bigint,
    details jsonb NOT NULL
);


--
-- Name: audit_log_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.audit_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 9007199254740991
    CACHE 1;


--
-- Name: audit_log_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.audit_log_id_seq OWNED BY public.audit_log.id;


--
-- Name: bans; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.bans (
    project_id integer NOT NULL,
    id bigint NOT NULL,
    auth_method text NOT NULL COLLATE pg_catalog."C",
    auth_value text NOT NULL,
    auth_value_key text NOT NULL COLLATE pg_catalog."C",
    user_id bigint,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    expires_at timestamp(3) with time zone DEFAULT 'infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT bans_reason_is_short CHECK ((char_length(reason) <= 500))
);


--
-- Name: bans_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.bans_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 9007199254740991
    CACHE 1;


--
-- Name: bans_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.bans_id_seq OWNED BY public.bans.id;


--
-- Name: challenge_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.challenge_keys (
    id integer DEFAULT 1 NOT NULL,
    key bytea NOT NULL,
    CONSTRAINT challenge_keys_is_long CHECK ((octet_length(key) = 32)),
    CONSTRAINT challenge_keys_is_one CHECK ((id = 1))
);


--
-- Name: changes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.changes (
    project_id integer NOT NULL,
    id bigint NOT NULL,
    type public.change_type NOT NULL,
    user_id bigint,
    fields text,
    at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL
);


--
-- Name: changes_feed; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.changes_feed (
    id integer DEFAULT 1 NOT NULL,
    timeline text NOT NULL COLLATE pg_catalog."C",
    incarnation text NOT NULL,
    published bigint NOT NULL,
    CONSTRAINT changes_feed_has_one_row CHECK ((id = 1))
)
WITH (fillfactor='10');


--
-- Name: changes_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.changes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 9007199254740991
    CACHE 1;


--
-- Name: changes_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.changes_id_seq OWNED BY public.changes.id;


--
-- Name: changes_pruned; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.changes_pruned (
    project_id integer NOT NULL,
    through bigint NOT NULL
);


--
-- Name: changes_timelines; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.changes_timelines (
    timeline text NOT NULL COLLATE pg_catalog."C",
    published bigint NOT NULL
);


--
-- Name: database_identity; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.database_identity (
    id integer DEFAULT 1 NOT NULL,
    place text NOT NULL,
    line text,
    restored_at timestamp(3) with time zone,
    CONSTRAINT database_identity_has_one_row CHECK ((id = 1))
);


--
-- Name: idempotency_keys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.idempotency_keys (
    project_id integer NOT NULL,
    key text NOT NULL COLLATE pg_catalog."C",
    request_hash bytea NOT NULL,
    answer jsonb,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    CONSTRAINT idempotency_keys_key_is_short CHECK (((char_length(key) >= 1) AND (char_length(key) <= 255)))
);


--
-- Name: identities; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.identities (
    project_id integer NOT NULL,
    id bigint NOT NULL,
    user_id bigint NOT NULL,
    auth_method text NOT NULL COLLATE pg_catalog."C",
    auth_value text NOT NULL,
    auth_value_key text NOT NULL COLLATE pg_catalog."C",
    login_email text COLLATE pg_catalog."C",
    email_verified boolean,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    last_login timestamp(3) with time zone,
    removed boolean DEFAULT false NOT NULL
);


--
-- Name: identities_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.identities_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: identities_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.identities_id_seq OWNED BY public.identities.id;


--
-- Name: import_parts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.import_parts (
    project_id integer NOT NULL,
    import_id bigint NOT NULL,
    first_user_id bigint NOT NULL,
    user_ids bigint[] NOT NULL
);


--
-- Name: login_links; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.login_links (
    id integer NOT NULL,
    operator_id integer NOT NULL,
    token_hash bytea NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT login_links_token_hash_is_sha256 CHECK ((octet_length(token_hash) = 32))
);


--
-- Name: login_links_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.login_links_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: login_links_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.login_links_id_seq OWNED BY public.login_links.id;


--
-- Name: operator_log; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.operator_log (
    id bigint NOT NULL,
    at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    actor text NOT NULL,
    request_id text,
    action text NOT NULL,
    details jsonb NOT NULL
);


--
-- Name: operator_log_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.operator_log_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 9007199254740991
    CACHE 1;


--
-- Name: operator_log_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.operator_log_id_seq OWNED BY public.operator_log.id;


--
-- Name: operator_passkeys; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.operator_passkeys (
    id integer NOT NULL,
    operator_id integer NOT NULL,
    name text NOT NULL,
    host text NOT NULL COLLATE pg_catalog."C",
    credential_id bytea NOT NULL,
    public_key bytea NOT NULL,
    counter bigint NOT NULL,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    last_used_at timestamp(3) with time zone,
    CONSTRAINT operator_passkeys_credential_is_short CHECK (((octet_length(credential_id) >= 1) AND (octet_length(credential_id) <= 1023))),
    CONSTRAINT operator_passkeys_name_is_one_line CHECK ((((char_length(name) >= 1) AND (char_length(name) <= 64)) AND (name !~ '[[:cntrl:]]'::text)))
);


--
-- Name: operator_passkeys_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.operator_passkeys_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: operator_passkeys_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.operator_passkeys_id_seq OWNED BY public.operator_passkeys.id;


--
-- Name: operator_projects; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.operator_projects (
    operator_id integer NOT NULL,
    project_id integer NOT NULL
);


--
-- Name: operator_sessions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.operator_sessions (
    id integer NOT NULL,
    operator_id integer NOT NULL,
    token_hash bytea NOT NULL,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    last_seen_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL,
    user_agent text NOT NULL,
    passkey_id integer,
    CONSTRAINT operator_sessions_token_hash_is_sha256 CHECK ((octet_length(token_hash) = 32))
);


--
-- Name: operator_sessions_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.operator_sessions_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: operator_sessions_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.operator_sessions_id_seq OWNED BY public.operator_sessions.id;


--
-- Name: operators; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.operators (
    id integer NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    role public.operator_role NOT NULL,
    subject text COLLATE pg_catalog."C",
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    last_seen_at timestamp(3) with time zone,
    is_limited boolean DEFAULT false NOT NULL,
    CONSTRAINT operators_name_is_one_word CHECK ((name ~ '^[a-z0-9][a-z0-9._@+-]{0,63}$'::text))
);


--
-- Name: operators_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.operators_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: operators_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.operators_id_seq OWNED BY public.operators.id;


--
-- Name: passkey_challenges; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.passkey_challenges (
    id bigint NOT NULL,
    challenge_hash bytea NOT NULL,
    expires_at timestamp(3) with time zone NOT NULL,
    CONSTRAINT passkey_challenges_hash_is_sha256 CHECK ((octet_length(challenge_hash) = 32))
);


--
-- Name: passkey_challenges_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.passkey_challenges_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: passkey_challenges_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.passkey_challenges_id_seq OWNED BY public.passkey_challenges.id;


--
-- Name: projects; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.projects (
    id integer NOT NULL,
    name text NOT NULL,
    app_id text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    disabled_at timestamp(3) with time zone,
    requests_per_minute integer,
    CONSTRAINT projects_requests_per_minute_in_range CHECK (((requests_per_minute >= 1) AND (requests_per_minute <= 100000000)))
);


--
-- Name: projects_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.projects_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: projects_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.projects_id_seq OWNED BY public.projects.id;


--
-- Name: tallies; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tallies (
    project_id integer NOT NULL,
    span public.tally_span NOT NULL,
    starts_on date NOT NULL,
    login_method public.login_method NOT NULL,
    users bigint NOT NULL
)
WITH (fillfactor='60');


--
-- Name: tally_deltas; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tally_deltas (
    project_id integer NOT NULL,
    id bigint NOT NULL,
    created_at timestamp(3) with time zone NOT NULL,
    user_id bigint NOT NULL,
    login_method public.login_method NOT NULL,
    change smallint NOT NULL,
    CONSTRAINT tally_deltas_change_is_one CHECK ((change = ANY (ARRAY['-1'::integer, 1])))
);


--
-- Name: tally_deltas_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.tally_deltas_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: tally_deltas_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.tally_deltas_id_seq OWNED BY public.tally_deltas.id;


--
-- Name: tally_slices; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tally_slices (
    project_id integer NOT NULL,
    starts_at timestamp(3) with time zone NOT NULL,
    starts_id bigint NOT NULL,
    login_method public.login_method NOT NULL,
    users bigint NOT NULL
)
WITH (fillfactor='60');


--
-- Name: user_bans; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.user_bans (
    project_id integer NOT NULL,
    user_id bigint NOT NULL,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    reason text DEFAULT ''::text NOT NULL,
    expires_at timestamp(3) with time zone DEFAULT 'infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT user_bans_reason_is_short CHECK ((char_length(reason) <= 500))
);


--
-- Name: users; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.users (
    project_id integer NOT NULL,
    id bigint NOT NULL,
    auth_method text NOT NULL COLLATE pg_catalog."C",
    auth_value text NOT NULL,
    auth_value_key text NOT NULL COLLATE pg_catalog."C",
    login_method public.login_method GENERATED ALWAYS AS (
CASE auth_method
    WHEN 'email'::text THEN 'email'::public.login_method
    WHEN 'passkey'::text THEN 'passkey'::public.login_method
    WHEN 'wallet'::text THEN 'wallet'::public.login_method
    ELSE 'socials'::public.login_method
END) STORED NOT NULL,
    said_email text COLLATE pg_catalog."C",
    identity_email text COLLATE pg_catalog."C",
    linked_email text COLLATE pg_catalog."C",
    login_email text GENERATED ALWAYS AS (NULLIF(COALESCE(said_email, identity_email, linked_email), ''::text)) STORED COLLATE pg_catalog."C",
    wallet text,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    last_login timestamp(3) with time zone,
    login_count integer DEFAULT 0 NOT NULL,
    deleted_at timestamp(3) with time zone,
    external_id text COLLATE pg_catalog."C",
    email_verified boolean,
    metadata jsonb,
    identity_at timestamp(3) with time zone,
    identity_login timestamp(3) with time zone,
    merged_into bigint,
    import_id bigint DEFAULT (NULLIF(current_setting('userdir.import'::text, true), ''::text))::bigint,
    CONSTRAINT users_created_at_in_range CHECK (((created_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (created_at < '10000-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT users_login_count_not_negative CHECK ((login_count >= 0)),
    CONSTRAINT users_merged_are_removed CHECK (((merged_into IS NULL) OR (deleted_at IS NOT NULL))),
    CONSTRAINT users_wallet_of_login CHECK (((auth_method <> 'wallet'::text) OR (lower(wallet) = lower(auth_value_key))))
)
WITH (fillfactor='90');
ALTER TABLE ONLY public.users ALTER COLUMN auth_value_key SET (n_distinct=-1);
ALTER TABLE ONLY public.users ALTER COLUMN identity_email SET (n_distinct=-1);
ALTER TABLE ONLY public.users ALTER COLUMN login_email SET (n_distinct=-1);
ALTER TABLE ONLY public.users ALTER COLUMN external_id SET (n_distinct=-1);


--
-- Name: users_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.users_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    MAXVALUE 9007199254740991
    CACHE 1;


--
-- Name: users_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.users_id_seq OWNED BY public.users.id;


--
-- Name: webhook_attempts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_attempts (
    project_id integer NOT NULL,
    webhook_id integer NOT NULL,
    ok boolean NOT NULL,
    slot smallint NOT NULL,
    number bigint NOT NULL,
    at timestamp(3) with time zone NOT NULL,
    message text NOT NULL COLLATE pg_catalog."C",
    type public.change_type NOT NULL,
    status smallint,
    ms integer NOT NULL,
    error text,
    resent boolean NOT NULL
)
WITH (fillfactor='50');


--
-- Name: webhook_hours; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_hours (
    project_id integer NOT NULL,
    webhook_id integer NOT NULL,
    slot smallint NOT NULL,
    hour timestamp(3) with time zone NOT NULL,
    accepted integer NOT NULL,
    failed integer NOT NULL
)
WITH (fillfactor='50');


--
-- Name: webhook_secrets; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhook_secrets (
    project_id integer NOT NULL,
    webhook_id integer NOT NULL,
    id integer NOT NULL,
    secret bytea NOT NULL,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    expires_at timestamp(3) with time zone,
    CONSTRAINT webhook_secrets_secret_has_32_bytes CHECK ((octet_length(secret) = 32))
);


--
-- Name: webhook_secrets_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.webhook_secrets_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: webhook_secrets_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.webhook_secrets_id_seq OWNED BY public.webhook_secrets.id;


--
-- Name: webhooks; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.webhooks (
    project_id integer NOT NULL,
    id integer NOT NULL,
    url text NOT NULL,
    description text NOT NULL,
    types public.change_type[] NOT NULL,
    place bigint NOT NULL,
    timeline text NOT NULL COLLATE pg_catalog."C",
    moves integer DEFAULT 0 NOT NULL,
    status public.webhook_status DEFAULT 'enabled'::public.webhook_status NOT NULL,
    reason text,
    failures integer DEFAULT 0 NOT NULL,
    failing_since timestamp(3) with time zone,
    next_attempt_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    leased_by text,
    leased_until timestamp(3) with time zone,
    last_delivered_at timestamp(3) with time zone,
    created_at timestamp(3) with time zone DEFAULT date_trunc('milliseconds'::text, CURRENT_TIMESTAMP) NOT NULL,
    edits integer DEFAULT 0 NOT NULL,
    accepted bigint DEFAULT '0'::bigint NOT NULL,
    failed bigint DEFAULT '0'::bigint NOT NULL,
    resend_after timestamp(3) with time zone,
    CONSTRAINT webhooks_reason_unless_enabled CHECK (((status = 'enabled'::public.webhook_status) = (reason IS NULL)))
)
WITH (fillfactor='50');


--
-- Name: webhooks_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.webhooks_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: webhooks_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.webhooks_id_seq OWNED BY public.webhooks.id;


--
-- Name: accounts id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts ALTER COLUMN id SET DEFAULT nextval('public.accounts_id_seq'::regclass);


--
-- Name: app_secrets id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.app_secrets ALTER COLUMN id SET DEFAULT nextval('public.app_secrets_id_seq'::regclass);


--
-- Name: audit_log id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.audit_log ALTER COLUMN id SET DEFAULT nextval('public.audit_log_id_seq'::regclass);


--
-- Name: bans id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bans ALTER COLUMN id SET DEFAULT nextval('public.bans_id_seq'::regclass);


--
-- Name: changes id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes ALTER COLUMN id SET DEFAULT nextval('public.changes_id_seq'::regclass);


--
-- Name: identities id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.identities ALTER COLUMN id SET DEFAULT nextval('public.identities_id_seq'::regclass);


--
-- Name: login_links id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.login_links ALTER COLUMN id SET DEFAULT nextval('public.login_links_id_seq'::regclass);


--
-- Name: operator_log id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_log ALTER COLUMN id SET DEFAULT nextval('public.operator_log_id_seq'::regclass);


--
-- Name: operator_passkeys id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_passkeys ALTER COLUMN id SET DEFAULT nextval('public.operator_passkeys_id_seq'::regclass);


--
-- Name: operator_sessions id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_sessions ALTER COLUMN id SET DEFAULT nextval('public.operator_sessions_id_seq'::regclass);


--
-- Name: operators id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operators ALTER COLUMN id SET DEFAULT nextval('public.operators_id_seq'::regclass);


--
-- Name: passkey_challenges id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.passkey_challenges ALTER COLUMN id SET DEFAULT nextval('public.passkey_challenges_id_seq'::regclass);


--
-- Name: projects id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.projects ALTER COLUMN id SET DEFAULT nextval('public.projects_id_seq'::regclass);


--
-- Name: tally_deltas id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tally_deltas ALTER COLUMN id SET DEFAULT nextval('public.tally_deltas_id_seq'::regclass);


--
-- Name: users id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.users ALTER COLUMN id SET DEFAULT nextval('public.users_id_seq'::regclass);


--
-- Name: webhook_secrets id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_secrets ALTER COLUMN id SET DEFAULT nextval('public.webhook_secrets_id_seq'::regclass);


--
-- Name: webhooks id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhooks ALTER COLUMN id SET DEFAULT nextval('public.webhooks_id_seq'::regclass);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (project_id, id);


--
-- Name: app_secrets app_secrets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.app_secrets
    ADD CONSTRAINT app_secrets_pkey PRIMARY KEY (project_id, id);


--
-- Name: audit_log audit_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_pkey PRIMARY KEY (project_id, id);


--
-- Name: bans bans_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bans
    ADD CONSTRAINT bans_pkey PRIMARY KEY (project_id, id);


--
-- Name: challenge_keys challenge_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.challenge_keys
    ADD CONSTRAINT challenge_keys_pkey PRIMARY KEY (id);


--
-- Name: changes_feed changes_feed_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes_feed
    ADD CONSTRAINT changes_feed_pkey PRIMARY KEY (id);


--
-- Name: changes changes_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (project_id, id);


--
-- Name: changes_pruned changes_pruned_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes_pruned
    ADD CONSTRAINT changes_pruned_pkey PRIMARY KEY (project_id);


--
-- Name: changes_timelines changes_timelines_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes_timelines
    ADD CONSTRAINT changes_timelines_pkey PRIMARY KEY (timeline);


--
-- Name: database_identity database_identity_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.database_identity
    ADD CONSTRAINT database_identity_pkey PRIMARY KEY (id);


--
-- Name: idempotency_keys idempotency_keys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_pkey PRIMARY KEY (project_id, key);


--
-- Name: identities identities_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.identities
    ADD CONSTRAINT identities_pkey PRIMARY KEY (project_id, id);


--
-- Name: import_parts import_parts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.import_parts
    ADD CONSTRAINT import_parts_pkey PRIMARY KEY (project_id, import_id, first_user_id);


--
-- Name: login_links login_links_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.login_links
    ADD CONSTRAINT login_links_pkey PRIMARY KEY (id);


--
-- Name: operator_log operator_log_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_log
    ADD CONSTRAINT operator_log_pkey PRIMARY KEY (id);


--
-- Name: operator_passkeys operator_passkeys_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_passkeys
    ADD CONSTRAINT operator_passkeys_pkey PRIMARY KEY (id);


--
-- Name: operator_projects operator_projects_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_projects
    ADD CONSTRAINT operator_projects_pkey PRIMARY KEY (operator_id, project_id);


--
-- Name: operator_sessions operator_sessions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_sessions
    ADD CONSTRAINT operator_sessions_pkey PRIMARY KEY (id);


--
-- Name: operators operators_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operators
    ADD CONSTRAINT operators_pkey PRIMARY KEY (id);


--
-- Name: passkey_challenges passkey_challenges_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.passkey_challenges
    ADD CONSTRAINT passkey_challenges_pkey PRIMARY KEY (id);


--
-- Name: projects projects_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.projects
    ADD CONSTRAINT projects_pkey PRIMARY KEY (id);


--
-- Name: tallies tallies_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tallies
    ADD CONSTRAINT tallies_pkey PRIMARY KEY (project_id, span, starts_on, login_method);


--
-- Name: tally_deltas tally_deltas_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tally_deltas
    ADD CONSTRAINT tally_deltas_pkey PRIMARY KEY (project_id, id);


--
-- Name: tally_slices tally_slices_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tally_slices
    ADD CONSTRAINT tally_slices_pkey PRIMARY KEY (project_id, starts_at, starts_id, login_method);


--
-- Name: user_bans user_bans_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.user_bans
    ADD CONSTRAINT user_bans_pkey PRIMARY KEY (project_id, user_id);


--
-- Name: users users_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_pkey PRIMARY KEY (project_id, id);


--
-- Name: webhook_attempts webhook_attempts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_pkey PRIMARY KEY (project_id, webhook_id, ok, slot);


--
-- Name: webhook_hours webhook_hours_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_hours
    ADD CONSTRAINT webhook_hours_pkey PRIMARY KEY (project_id, webhook_id, slot);


--
-- Name: webhook_secrets webhook_secrets_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_pkey PRIMARY KEY (project_id, webhook_id, id);


--
-- Name: webhooks webhooks_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_pkey PRIMARY KEY (project_id, id);


--
-- Name: accounts_address_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX accounts_address_idx ON public.accounts USING btree (project_id, address_key, id);


--
-- Name: accounts_user_address_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX accounts_user_address_key ON public.accounts USING btree (project_id, user_id, address_key);


--
-- Name: app_secrets_secret_hash_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX app_secrets_secret_hash_key ON public.app_secrets USING btree (project_id, secret_hash);


--
-- Name: audit_log_action_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX audit_log_action_idx ON public.audit_log USING btree (project_id, action, at, id);


--
-- Name: audit_log_actor_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX audit_log_actor_idx ON public.audit_log USING btree (project_id, actor, at, id);


--
-- Name: audit_log_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX audit_log_at_idx ON public.audit_log USING btree (project_id, at, id);


--
-- Name: audit_log_user_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX audit_log_user_idx ON public.audit_log USING btree (project_id, user_id, at, id) WHERE (user_id IS NOT NULL);


--
-- Name: bans_created_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX bans_created_at_idx ON public.bans USING btree (project_id, created_at, id);


--
-- Name: bans_expires_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX bans_expires_at_idx ON public.bans USING btree (project_id, expires_at) WHERE (expires_at < 'infinity'::timestamp with time zone);


--
-- Name: bans_identity_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX bans_identity_key ON public.bans USING btree (project_id, auth_method, auth_value_key, user_id) NULLS NOT DISTINCT;


--
-- Name: bans_user_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX bans_user_idx ON public.bans USING btree (project_id, user_id) WHERE (user_id IS NOT NULL);


--
-- Name: idempotency_keys_created_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX idempotency_keys_created_at_idx ON public.idempotency_keys USING btree (project_id, created_at);


--
-- Name: identities_identity_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX identities_identity_key ON public.identities USING btree (project_id, auth_method, auth_value_key) WHERE (NOT removed);


--
-- Name: identities_login_email_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX identities_login_email_idx ON public.identities USING btree (project_id, login_email) WHERE (NOT removed);


--
-- Name: identities_user_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX identities_user_idx ON public.identities USING btree (project_id, user_id, id);


--
-- Name: login_links_expires_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX login_links_expires_at_idx ON public.login_links USING btree (expires_at);


--
-- Name: login_links_operator_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX login_links_operator_id_idx ON public.login_links USING btree (operator_id);


--
-- Name: login_links_token_hash_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX login_links_token_hash_key ON public.login_links USING btree (token_hash);


--
-- Name: operator_log_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_log_at_idx ON public.operator_log USING btree (at, id);


--
-- Name: operator_passkeys_credential_id_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX operator_passkeys_credential_id_key ON public.operator_passkeys USING btree (credential_id);


--
-- Name: operator_passkeys_operator_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_passkeys_operator_id_idx ON public.operator_passkeys USING btree (operator_id);


--
-- Name: operator_projects_project_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_projects_project_id_idx ON public.operator_projects USING btree (project_id);


--
-- Name: operator_sessions_expires_at_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_sessions_expires_at_idx ON public.operator_sessions USING btree (expires_at);


--
-- Name: operator_sessions_operator_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_sessions_operator_id_idx ON public.operator_sessions USING btree (operator_id);


--
-- Name: operator_sessions_passkey_id_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX operator_sessions_passkey_id_idx ON public.operator_sessions USING btree (passkey_id) WHERE (passkey_id IS NOT NULL);


--
-- Name: operator_sessions_token_hash_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX operator_sessions_token_hash_key ON public.operator_sessions USING btree (token_hash);


--
-- Name: operators_name_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX operators_name_key ON public.operators USING btree (name);


--
-- Name: operators_subject_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX operators_subject_key ON public.operators USING btree (subject);


--
-- Name: passkey_challenges_challenge_hash_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX passkey_challenges_challenge_hash_key ON public.passkey_challenges USING btree (challenge_hash);


--
-- Name: projects_app_id_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX projects_app_id_key ON public.projects USING btree (app_id);


--
-- Name: user_bans_terms_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX user_bans_terms_key ON public.user_bans USING btree (project_id, user_id, created_at, expires_at, reason);


--
-- Name: users_deleted_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX users_deleted_idx ON public.users USING btree (project_id, deleted_at) WHERE (deleted_at IS NOT NULL);


--
-- Name: users_external_id_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX users_external_id_key ON public.users USING btree (project_id, external_id) WHERE ((deleted_at IS NULL) AND (external_id IS NOT NULL));


--
-- Name: users_identity_email_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX users_identity_email_idx ON public.users USING btree (project_id, identity_email) WHERE ((deleted_at IS NULL) AND (identity_email IS DISTINCT FROM login_email));


--
-- Name: users_identity_key; Type: INDEX; Schema: public; Owner: -
--

CREATE UNIQUE INDEX users_identity_key ON public.users USING btree (project_id, auth_method, auth_value_key) WHERE (deleted_at IS NULL);


--
-- Name: users_login_email_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX users_login_email_idx ON public.users USING btree (project_id, login_email) WHERE (deleted_at IS NULL);


--
-- Name: users_method_newest_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX users_method_newest_idx ON public.users USING btree (project_id, login_method, created_at DESC, id DESC) WHERE (deleted_at IS NULL);


--
-- Name: users_newest_idx; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX users_newest_idx ON public.users USING btree (project_id, created_at DESC, id DESC) WHERE (deleted_at IS NULL);


--
-- Name: accounts accounts_changes_delete; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_changes_delete AFTER DELETE ON public.accounts REFERENCING OLD TABLE AS old_accounts FOR EACH STATEMENT EXECUTE FUNCTION public.record_removed_accounts();


--
-- Name: accounts accounts_changes_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_changes_insert AFTER INSERT ON public.accounts REFERENCING NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION public.record_added_accounts();


--
-- Name: accounts accounts_changes_truncate; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_changes_truncate AFTER TRUNCATE ON public.accounts FOR EACH STATEMENT EXECUTE FUNCTION public.forget_changes();


--
-- Name: accounts accounts_changes_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_changes_update AFTER UPDATE ON public.accounts REFERENCING OLD TABLE AS old_accounts NEW TABLE AS new_accounts FOR EACH STATEMENT EXECUTE FUNCTION public.record_changed_accounts();


--
-- Name: app_secrets app_secrets_announce; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER app_secrets_announce AFTER DELETE OR UPDATE OF project_id, secret_hash, label, scopes, expires_at ON public.app_secrets FOR EACH STATEMENT EXECUTE FUNCTION public.announce_secrets();


--
-- Name: bans bans_changes_delete; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER bans_changes_delete AFTER DELETE ON public.bans REFERENCING OLD TABLE AS old_bans FOR EACH STATEMENT EXECUTE FUNCTION public.record_bans();


--
-- Name: bans bans_changes_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER bans_changes_insert AFTER INSERT ON public.bans REFERENCING NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION public.record_bans();


--
-- Name: bans bans_changes_truncate; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER bans_changes_truncate AFTER TRUNCATE ON public.bans FOR EACH STATEMENT EXECUTE FUNCTION public.forget_changes();


--
-- Name: bans bans_changes_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER bans_changes_update AFTER UPDATE ON public.bans REFERENCING OLD TABLE AS old_bans NEW TABLE AS new_bans FOR EACH STATEMENT EXECUTE FUNCTION public.record_bans();


--
-- Name: identities identities_changes; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER identities_changes AFTER UPDATE ON public.identities FOR EACH ROW WHEN ((((((old.user_id IS DISTINCT FROM new.user_id) OR (old.auth_value IS DISTINCT FROM new.auth_value)) OR (old.login_email IS DISTINCT FROM new.login_email)) OR (old.email_verified IS DISTINCT FROM new.email_verified)) OR (old.removed IS DISTINCT FROM new.removed))) EXECUTE FUNCTION public.record_identities();


--
-- Name: identities identities_changes_delete; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER identities_changes_delete AFTER DELETE ON public.identities FOR EACH ROW EXECUTE FUNCTION public.record_identities();


--
-- Name: identities identities_changes_truncate; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER identities_changes_truncate AFTER TRUNCATE ON public.identities FOR EACH STATEMENT EXECUTE FUNCTION public.forget_changes();


--
-- Name: identities identities_claim; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER identities_claim BEFORE UPDATE OF project_id, user_id, auth_method, auth_value_key, removed ON public.identities FOR EACH ROW EXECUTE FUNCTION public.claim_identity();


--
-- Name: identities identities_claim_new; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER identities_claim_new AFTER INSERT ON public.identities REFERENCING NEW TABLE AS new_identities FOR EACH STATEMENT EXECUTE FUNCTION public.claim_new_identities();


--
-- Name: identities identities_keep_ban; Type: TRIGGER; Schema: public; Owner: -
--

CREATE CONSTRAINT TRIGGER identities_keep_ban AFTER DELETE OR UPDATE OF project_id, user_id, auth_method, auth_value_key ON public.identities DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.keep_ban_of_identity();


--
-- Name: identities identities_removal; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER identities_removal BEFORE INSERT ON public.identities FOR EACH ROW EXECUTE FUNCTION public.carry_removal();


--
-- Name: projects projects_announce; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER projects_announce AFTER UPDATE OF disabled_at, requests_per_minute ON public.projects FOR EACH STATEMENT EXECUTE FUNCTION public.announce_secrets();


--
-- Name: projects projects_changes_delete; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER projects_changes_delete AFTER DELETE ON public.projects REFERENCING OLD TABLE AS old_projects FOR EACH STATEMENT EXECUTE FUNCTION public.delete_project_changes();


--
-- Name: projects projects_forget_deltas; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER projects_forget_deltas AFTER DELETE ON public.projects FOR EACH ROW EXECUTE FUNCTION public.forget_deltas();


--
-- Name: projects projects_id_is_fixed; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER projects_id_is_fixed BEFORE UPDATE OF id ON public.projects FOR EACH ROW WHEN ((old.id IS DISTINCT FROM new.id)) EXECUTE FUNCTION public.refuse_new_project_id();


--
-- Name: user_bans user_bans_claim; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER user_bans_claim BEFORE INSERT ON public.user_bans FOR EACH ROW EXECUTE FUNCTION public.claim_banned_user();


--
-- Name: user_bans user_bans_cover; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER user_bans_cover AFTER INSERT OR UPDATE ON public.user_bans FOR EACH ROW EXECUTE FUNCTION public.cover_identities();


--
-- Name: user_bans user_bans_keep; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER user_bans_keep BEFORE DELETE ON public.user_bans FOR EACH ROW EXECUTE FUNCTION public.keep_bans_of_user();


--
-- Name: users users_changes_truncate; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER users_changes_truncate AFTER TRUNCATE ON public.users FOR EACH STATEMENT EXECUTE FUNCTION public.forget_changes();


--
-- Name: users users_keep_ban; Type: TRIGGER; Schema: public; Owner: -
--

CREATE CONSTRAINT TRIGGER users_keep_ban AFTER UPDATE OF auth_method, auth_value_key ON public.users DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((new.auth_method <> old.auth_method) OR (new.auth_value_key <> old.auth_value_key))) EXECUTE FUNCTION public.keep_ban_of_identity();


--
-- Name: users users_merge_bans; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER users_merge_bans AFTER UPDATE OF merged_into ON public.users FOR EACH ROW WHEN (((old.merged_into IS NULL) AND (new.merged_into IS NOT NULL))) EXECUTE FUNCTION public.merge_bans();


--
-- Name: users users_tally_delete; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER users_tally_delete AFTER DELETE ON public.users REFERENCING OLD TABLE AS old_users FOR EACH STATEMENT EXECUTE FUNCTION public.record_deleted_users();


--
-- Name: users users_tally_insert; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER users_tally_insert AFTER INSERT ON public.users REFERENCING NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION public.record_inserted_users();


--
-- Name: users users_tally_truncate; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER users_tally_truncate AFTER TRUNCATE ON public.users FOR EACH STATEMENT EXECUTE FUNCTION public.forget_tallies();


--
-- Name: users users_tally_update; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER users_tally_update AFTER UPDATE ON public.users REFERENCING OLD TABLE AS old_users NEW TABLE AS new_users FOR EACH STATEMENT EXECUTE FUNCTION public.record_updated_users();


--
-- Name: users users_touched; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER users_touched BEFORE UPDATE ON public.users FOR EACH ROW WHEN (((old.import_id IS NOT NULL) AND ((old.import_id)::text IS DISTINCT FROM current_setting('userdir.import'::text, true)))) EXECUTE FUNCTION public.forget_import();


--
-- Name: accounts accounts_user_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_user_fkey FOREIGN KEY (project_id, user_id) REFERENCES public.users(project_id, id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: app_secrets app_secrets_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.app_secrets
    ADD CONSTRAINT app_secrets_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: audit_log audit_log_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.audit_log
    ADD CONSTRAINT audit_log_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: bans bans_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bans
    ADD CONSTRAINT bans_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: bans bans_user_ban_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.bans
    ADD CONSTRAINT bans_user_ban_fkey FOREIGN KEY (project_id, user_id, created_at, expires_at, reason) REFERENCES public.user_bans(project_id, user_id, created_at, expires_at, reason) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: changes_pruned changes_pruned_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.changes_pruned
    ADD CONSTRAINT changes_pruned_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: idempotency_keys idempotency_keys_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.idempotency_keys
    ADD CONSTRAINT idempotency_keys_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: identities identities_user_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.identities
    ADD CONSTRAINT identities_user_fkey FOREIGN KEY (project_id, user_id) REFERENCES public.users(project_id, id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: import_parts import_parts_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.import_parts
    ADD CONSTRAINT import_parts_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: login_links login_links_operator_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.login_links
    ADD CONSTRAINT login_links_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES public.operators(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: operator_passkeys operator_passkeys_operator_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_passkeys
    ADD CONSTRAINT operator_passkeys_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES public.operators(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: operator_projects operator_projects_operator_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_projects
    ADD CONSTRAINT operator_projects_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES public.operators(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: operator_projects operator_projects_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_projects
    ADD CONSTRAINT operator_projects_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: operator_sessions operator_sessions_operator_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_sessions
    ADD CONSTRAINT operator_sessions_operator_id_fkey FOREIGN KEY (operator_id) REFERENCES public.operators(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: operator_sessions operator_sessions_passkey_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.operator_sessions
    ADD CONSTRAINT operator_sessions_passkey_id_fkey FOREIGN KEY (passkey_id) REFERENCES public.operator_passkeys(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: tallies tallies_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tallies
    ADD CONSTRAINT tallies_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: tally_slices tally_slices_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tally_slices
    ADD CONSTRAINT tally_slices_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: user_bans user_bans_user_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.user_bans
    ADD CONSTRAINT user_bans_user_fkey FOREIGN KEY (project_id, user_id) REFERENCES public.users(project_id, id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: users users_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.users
    ADD CONSTRAINT users_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: webhook_attempts webhook_attempts_webhook_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_attempts
    ADD CONSTRAINT webhook_attempts_webhook_fkey FOREIGN KEY (project_id, webhook_id) REFERENCES public.webhooks(project_id, id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: webhook_hours webhook_hours_webhook_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_hours
    ADD CONSTRAINT webhook_hours_webhook_fkey FOREIGN KEY (project_id, webhook_id) REFERENCES public.webhooks(project_id, id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: webhook_secrets webhook_secrets_webhook_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhook_secrets
    ADD CONSTRAINT webhook_secrets_webhook_fkey FOREIGN KEY (project_id, webhook_id) REFERENCES public.webhooks(project_id, id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- Name: webhooks webhooks_project_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.webhooks
    ADD CONSTRAINT webhooks_project_id_fkey FOREIGN KEY (project_id) REFERENCES public.projects(id) ON UPDATE CASCADE ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--

\unrestrict IJwaptD6bH49SWQdy8BcoYKMXWSGzB5kFhrrqIViDzqUtO2rQK9NmR0dCg881c4

