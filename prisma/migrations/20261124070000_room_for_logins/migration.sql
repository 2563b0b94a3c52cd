-- Each login updates its user, in columns that no index has. Where the page has room, PostgreSQL then writes no entry of an index (HOT). New pages keep
-- a tenth of their room for it; a full page gets room by its first update.
ALTER TABLE users SET (fillfactor = 90);
