-- Of 2.0.0, which takes away what 0.9.0 and 1.0.0 use: all their processes are stopped before, and none starts again.

-- step: leaves 1.0.0 and what is older behind
CREATE OR REPLACE FUNCTION oldest_release() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN '2.0.0';

-- step: drops the notes on users
-- locks: user_notes (ACCESS EXCLUSIVE), users (ACCESS EXCLUSIVE)
DROP TABLE "user_notes";
