import { keyedWrite, Prisma, type Queryable } from '../db/statements.js';
import type { User } from '../domain/users.js';
import { EARLIER, type Earlier } from '../projects/idempotency.sql.js';
import { CURRENT_USER_OF_IDENTITY, currentUserBy } from './find-users.sql.js';
import { ALL_OF_LOGIN, addedAccounts, IN_ORDER, IS_USER_OF_KEY, type Login, storedAnswers } from './logins.sql.js';
import { isBanned, LOGIN_COLUMNS, namesOf, SHOWN_COLUMNS } from './user-columns.sql.js';

/* Users who are created without a login. Such statements are shared, as those of logins. */

/** The outcome of a creation. The user is there where there is neither a refusal nor an earlier answer. */
export interface NewUserRow extends User {
  readonly refusal: 'banned' | 'identity taken' | 'external id taken' | null;
  /** The user who has what is taken. */
  readonly takenBy: number | null;
  readonly earlier: Earlier<{ id: number }> | null;
}

/** The current user who has the identity, primary or linked. */
const OWNER = Prisma.sql`
  coalesce((SELECT had.id FROM (${CURRENT_USER_OF_IDENTITY}) AS had), linked_user(k.project_id, k.auth_method, k.auth_value_key))`;
const OTHER = Prisma.sql`(SELECT other.id FROM (${currentUserBy('external_id')}) AS other)`;

/** What is taken is looked at first, so that a refusal undoes nothing beside it and takes no ID. Of those who create at the same time, the unique indexes decide. */
const newUserStatement = keyedWrite<Login, NewUserRow>(
  ALL_OF_LOGIN,
  (keys) => Prisma.sql`
    WITH k AS MATERIALIZED (
      SELECT k.*,
        CASE
          WHEN ${isBanned('k')} THEN 'banned'
          WHEN k.owner IS NOT NULL THEN 'identity taken'
          WHEN k.other IS NOT NULL THEN 'external id taken'
        END AS refusal
      FROM (SELECT k.*, ${EARLIER} AS earlier, ${OWNER} AS owner, ${OTHER} AS other FROM ${keys} OFFSET 0) AS k
    ), u AS (
      INSERT INTO users (project_id, ${namesOf(LOGIN_COLUMNS)}, last_login, login_count)
      SELECT project_id, ${namesOf(LOGIN_COLUMNS)}, NULL, 0 FROM k WHERE refusal IS NULL AND earlier IS NULL ${IN_ORDER}
      RETURNING *, true AS created
    ), ${addedAccounts(IS_USER_OF_KEY)}, ${storedAnswers(IS_USER_OF_KEY)}
    SELECT k.key_index::int AS "keyIndex", k.refusal, coalesce(k.owner, k.other) AS "takenBy", k.earlier, ${SHOWN_COLUMNS}
    FROM k LEFT JOIN u ON ${IS_USER_OF_KEY}`,
);

/** For each profile, the user who is created of it, or why there is none. No two may share an identity, an external id or an idempotency key. */
export async function insertUsers(db: Queryable, creations: readonly Login[], waits: boolean): Promise<NewUserRow[]> {
  const ordered = new Array<NewUserRow>(creations.length);
  for (const row of await newUserStatement(db, creations, waits)) ordered[row.keyIndex - 1] = row;
  return ordered;
}
