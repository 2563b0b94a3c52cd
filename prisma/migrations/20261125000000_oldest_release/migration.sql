-- Each release looks here before it serves, and while it serves. A migration that an older release could not serve replaces the function in a step of
-- its own, before the step that would break that release.

-- step: names the oldest release that may serve this schema
CREATE FUNCTION oldest_release() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '0.9.0';
