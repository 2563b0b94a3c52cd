-- The reason of a ban has at most 500 characters. Its length was measured before NFC, which can double it, and an export with such a reason could not
-- be imported. What is longer is cut off.

-- step: keeps reasons short
-- locks: bans (ACCESS EXCLUSIVE)
ALTER TABLE bans ADD CONSTRAINT bans_reason_is_short CHECK (char_length(reason) <= 500) NOT VALID;

-- step without a transaction: finds longer reasons
CREATE INDEX CONCURRENTLY IF NOT EXISTS bans_long_reasons_idx ON bans (project_id, id) WHERE char_length(reason) > 500;

-- step in batches: cuts off longer reasons
UPDATE bans SET reason = left(reason, 499) || '…'
WHERE (project_id, id) IN (SELECT project_id, id FROM bans WHERE char_length(reason) > 500 LIMIT 500);

-- step without a transaction: drops the index
DROP INDEX CONCURRENTLY IF EXISTS bans_long_reasons_idx;

-- step without a transaction: checks that all reasons are short
ALTER TABLE bans VALIDATE CONSTRAINT bans_reason_is_short;
