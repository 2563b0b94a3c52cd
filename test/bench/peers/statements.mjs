/** The statements of the hand-written peers that write, on the tables that write-data.mjs makes for them. */

/** Registers the identity or counts a login of it. `columns` are of `u`. */
export const loginReturning = (columns) => `
  INSERT INTO users AS u (project_id, auth_method, auth_value, wallet, last_login, login_count)
  VALUES ($1, $2, $3, CASE WHEN $2 = 'wallet' THEN $3 END, now(), 1)
  ON CONFLICT (project_id, auth_method, auth_value) WHERE deleted_at IS NULL
  DO UPDATE SET last_login = now(), login_count = u.login_count + 1
  RETURNING ${columns}, xmax = 0 AS created`;

export const LINK_ACCOUNTS = `
  INSERT INTO accounts (project_id, user_id, network, public_key, wallet_type)
  SELECT $1, $2, network::network, public_key, 'custodial' FROM unnest($3::text[], $4::text[]) AS a(network, public_key)
  ON CONFLICT (project_id, user_id, public_key) DO NOTHING`;

/** A key that is known is written as it is, so that the statement has its user for the answer. */
export const CLAIM_KEY = `
  INSERT INTO idempotency_keys AS known (project_id, key, user_id) VALUES ($1, $2, $3)
  ON CONFLICT (project_id, key) DO UPDATE SET user_id = known.user_id
  RETURNING user_id, xmax = 0 AS claimed`;

export const REMOVE_USER = `
  UPDATE users SET deleted_at = now() WHERE project_id = $1 AND id = $2 AND deleted_at IS NULL RETURNING id`;
