-- The accounts of a user are read as one text of words (src/sql/columns.ts). No address has a space; the database now says so
-- whatever way a row comes.
ALTER TABLE "accounts" ADD CONSTRAINT "accounts_public_key_is_one_word" CHECK (strpos("public_key", ' ') = 0);
