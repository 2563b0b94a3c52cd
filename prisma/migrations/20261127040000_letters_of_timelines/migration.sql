-- A timeline begins with a letter. One of digits only made cursors of changes that lists of users took for their own.

-- step: timelines that begin with a letter
CREATE OR REPLACE FUNCTION publish_changes(upto bigint) RETURNS bigint LANGUAGE plpgsql AS $$
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

DO $$
BEGIN
    EXECUTE format('ALTER FUNCTION publish_changes(bigint) SET search_path = %I, pg_temp', current_schema());
END $$;
