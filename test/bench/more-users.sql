-- Fills a project, in which `userdir seed` has made users, with copies of them, until the highest ID is that of the setting bench.users: for
-- measurements with millions. In each copy, texts begin with its number, so their keys are a part of an index of their own. Addresses of
-- copies have no right checksum.
DO $$
DECLARE
  seeded CONSTANT bigint := (SELECT max(id) FROM users);
  wanted CONSTANT bigint := current_setting('bench.users')::bigint;
BEGIN
  FOR n IN 1 .. (wanted - 1) / seeded LOOP
    INSERT INTO users (project_id, id, auth_method, auth_value, auth_value_key, identity_email, wallet, created_at, last_login, login_count)
    SELECT project_id, id + n * seeded, auth_method, n || '.' || auth_value, n || '.' || auth_value_key, n || '.' || identity_email, n || '.' || wallet,
      created_at, last_login, login_count
    FROM users WHERE id <= least(seeded, wanted - n * seeded);
    INSERT INTO accounts (project_id, user_id, network, public_key, address_key, wallet_type)
    SELECT project_id, user_id + n * seeded, network, overlay(public_key PLACING chr((65 + n)::int) FROM 2 FOR 1),
      overlay(address_key PLACING chr((65 + n)::int) FROM 2 FOR 1), wallet_type
    FROM accounts WHERE user_id <= least(seeded, wanted - n * seeded);
  END LOOP;
  PERFORM setval('users_id_seq', (SELECT max(id) FROM users));
END $$;
