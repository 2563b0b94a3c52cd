-- One project may have a million users with one email, or one address linked to all of its users. Statistics are of the whole table:
-- the planner would take any email for one that most users have, and read the table for every search of every project. These columns
-- are only ever looked up by one value, so each value is to count as one that few rows have.
ALTER TABLE "users" ALTER COLUMN "login_email" SET (n_distinct = -1);
ALTER TABLE "users" ALTER COLUMN "auth_value_key" SET (n_distinct = -1);
ALTER TABLE "accounts" ALTER COLUMN "address_key" SET (n_distinct = -1);

-- It takes effect with the next statistics. Those of an empty table would say that to read all of it is cheapest.
DO $$
BEGIN
    IF EXISTS (SELECT FROM "users") THEN
        ANALYZE "users", "accounts";
    END IF;
END $$;
