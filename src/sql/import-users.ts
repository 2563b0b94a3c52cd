import { Prisma, type Queryable } from '../db/statements.js';
import type { UserRecord } from '../domain/identities.js';
import type { OnConflict } from '../domain/import-format.js';
import { throwExternalIdError } from './external-ids.js';
import { isToBeLinked, throwLinkingError } from './linked-accounts.js';
import {
  importedFields,
  IMPORT_UPDATES,
  IMPORTED_COLUMN_NAMES,
  IMPORTED_COLUMN_TYPES,
  IMPORTED_VALUES,
  toImportedRow,
} from './user-columns.js';

export interface WrittenUser {
  recordIndex: number;
  /** `unchanged`: the user had all that the record gives. */
  outcome: 'created' | 'updated' | 'unchanged';
  /** How many accounts were added. */
  accounts: number;
}

/**
 * Writes users with their accounts in one statement, and returns the written ones; the users of the other records exist.
 * With 'update', the fields that a record gives replace those of the user, and accounts are added but never removed. No two
 * records may have the same identity. BAD_USER_INPUT if a user would have too many accounts; CONFLICT if another user has the
 * external id of one.
 */
export function writeUsers(
  db: Queryable,
  projectId: number,
  records: readonly UserRecord[],
  onConflict: OnConflict,
): Promise<WrittenUser[]> {
  const resolution = onConflict === 'update' ? Prisma.sql`DO UPDATE SET ${IMPORT_UPDATES}` : Prisma.sql`DO NOTHING`;
  // A new user has no accounts yet. An existing user may have the login wallet as a custodial account.
  const accountResolution =
    onConflict === 'update'
      ? Prisma.sql`ON CONFLICT (project_id, user_id, address_key) DO UPDATE SET wallet_type = 'external'
          WHERE linked.wallet_type = 'custodial' AND excluded.wallet_type = 'external'`
      : Prisma.empty;
  const addressKeys = Prisma.sql`ARRAY(SELECT given ->> 'address_key' FROM jsonb_array_elements(record.accounts) AS given)`;
  const accountCondition =
    onConflict === 'update' ? Prisma.sql`WHERE ${isToBeLinked(Prisma.sql`u.is_new`, addressKeys)}` : Prisma.empty;
  // Found as in findUsersByIdentity. A user who registers while the statement runs counts as updated.
  const before = Prisma.sql`
    SELECT record.record_index, existing.fields
    FROM record CROSS JOIN LATERAL (
      SELECT ${importedFields('u')} AS fields FROM users u
      WHERE u.project_id = ${projectId}::int AND u.auth_method = record.auth_method
        AND u.auth_value_key >= record.auth_value_key AND u.auth_value_key <= record.auth_value_key AND u.deleted_at IS NULL
      ORDER BY u.auth_value_key
      LIMIT 1
    ) AS existing`;
  const outcome =
    onConflict === 'update'
      ? Prisma.sql`CASE
          WHEN written.is_new THEN 'created'
          WHEN linked.changes > 0 OR written.fields IS DISTINCT FROM before.fields THEN 'updated'
          ELSE 'unchanged'
        END`
      : Prisma.sql`'created'`;
  const statement = Prisma.sql`
    WITH record AS MATERIALIZED (
      SELECT r.*, nextval('users_id_seq') AS id
      FROM jsonb_to_recordset(${JSON.stringify(records.map(toRow))}::jsonb) AS r(record_index int, ${IMPORTED_COLUMN_TYPES}, accounts jsonb)
    )${onConflict === 'update' ? Prisma.sql`, before AS (${before})` : Prisma.empty}, written AS (
      INSERT INTO users AS existing (project_id, id, ${IMPORTED_COLUMN_NAMES})
      SELECT ${projectId}::int, id, ${IMPORTED_VALUES}
      FROM record
      ORDER BY record_index
      ON CONFLICT (project_id, auth_method, auth_value_key) WHERE deleted_at IS NULL ${resolution}
      RETURNING existing.project_id, existing.id, existing.auth_method, existing.auth_value_key, xmax = 0 AS is_new,
        ${importedFields('existing')} AS fields
    ), added AS (
      INSERT INTO accounts AS linked (project_id, user_id, network, public_key, address_key, wallet_type)
      SELECT u.project_id, u.id, a.network, a.public_key, a.address_key, a.wallet_type
      FROM record
      JOIN written u USING (auth_method, auth_value_key)
      CROSS JOIN LATERAL ROWS FROM (
        jsonb_to_recordset(record.accounts) AS (network network, public_key text, address_key text, wallet_type wallet_type)
      ) WITH ORDINALITY AS a(network, public_key, address_key, wallet_type, ordinal)
      ${accountCondition}
      ORDER BY record.record_index, a.ordinal
      ${accountResolution}
      RETURNING user_id, xmax = 0 AS is_new
    )
    SELECT record.record_index AS "recordIndex", coalesce(linked.accounts, 0) AS accounts, ${outcome} AS outcome
    FROM record
    JOIN written USING (auth_method, auth_value_key)
    ${onConflict === 'update' ? Prisma.sql`LEFT JOIN before USING (record_index)` : Prisma.empty}
    LEFT JOIN (
      SELECT user_id, count(*) FILTER (WHERE is_new)::int AS accounts, count(*) AS changes FROM added GROUP BY user_id
    ) AS linked ON linked.user_id = written.id`;
  return db.query<WrittenUser>(statement).catch(throwExternalIdError).catch(throwLinkingError);
}

/**
 * The records that would give an existing user more than `most` accounts, and how many the user would have. Locks these users
 * until the transaction ends, so that the result stays true. The count is a second statement, because it must see what was
 * committed before the lock.
 */
export async function findOverfull(
  tx: Queryable,
  projectId: number,
  records: readonly UserRecord[],
  most: number,
): Promise<{ recordIndex: number; accounts: number }[]> {
  const rows = records.flatMap(({ authMethod, authValueKey, accounts }, index) =>
    accounts.length === 0
      ? []
      : {
          record_index: index,
          auth_method: authMethod,
          auth_value_key: authValueKey,
          keys: accounts.map(({ addressKey }) => addressKey),
        },
  );
  if (rows.length === 0) return [];
  const existing = await tx.query<{ record_index: number; id: number; keys: string[] }>(Prisma.sql`
    SELECT r.record_index, u.id, r.keys
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
      AS r(record_index int, auth_method text, auth_value_key text, keys jsonb)
    CROSS JOIN LATERAL (
      SELECT id FROM users
      WHERE project_id = ${projectId}::int AND auth_method = r.auth_method AND auth_value_key = r.auth_value_key AND deleted_at IS NULL
      FOR NO KEY UPDATE
    ) AS u`);
  if (existing.length === 0) return [];
  return tx.query(Prisma.sql`
    SELECT r.record_index AS "recordIndex", (has.accounts + adds.accounts)::int AS accounts
    FROM jsonb_to_recordset(${JSON.stringify(existing)}::jsonb) AS r(record_index int, id bigint, keys jsonb)
    CROSS JOIN LATERAL (
      SELECT count(*) AS accounts FROM accounts a WHERE a.project_id = ${projectId}::int AND a.user_id = r.id
    ) AS has
    CROSS JOIN LATERAL (
      SELECT count(*) AS accounts
      FROM jsonb_array_elements_text(r.keys) AS given(key)
      WHERE (
        SELECT a.id FROM accounts a WHERE a.project_id = ${projectId}::int AND a.user_id = r.id AND a.address_key = given.key
      ) IS NULL
    ) AS adds
    WHERE adds.accounts > 0 AND has.accounts + adds.accounts > ${most}::int
    ORDER BY r.record_index`);
}

function toRow(record: UserRecord, index: number) {
  return {
    record_index: index,
    ...toImportedRow(record),
    accounts: record.accounts.map((account) => ({
      network: account.network,
      public_key: account.publicKey,
      address_key: account.addressKey,
      wallet_type: account.walletType,
    })),
  };
}
