-- A verification without a user names the current user who linked the address first: the links of an address stand in that order
-- in its index. Those of one user are found by accounts_user_address_key.
DROP INDEX "accounts_address_idx";
CREATE INDEX "accounts_address_idx" ON "accounts" ("project_id", "address_key", "id");
