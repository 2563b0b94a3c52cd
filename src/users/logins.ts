import { createBatchedWrite } from '../db/batched-write.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import {
  externalIdKept,
  externalIdTaken,
  identityText,
  type Profile,
  requireFewAccounts,
  tooManyAccounts,
} from '../domain/identities.js';
import type { ProjectScope } from '../domain/projects.js';
import type { User } from '../domain/users.js';
import { AppError } from '../errors.js';
import { repeatAnswer, retryOf } from '../projects/idempotency.js';
import { isKeyTaken } from '../projects/idempotency.sql.js';
import { findRegistered, isUserRemoved, type Login, type LoginRow, recordLogins } from './logins.sql.js';
import type { Totals } from './totals.js';
import { throwLinkingError } from './user-columns.sql.js';
import { isExternalIdTaken, throwExternalIdError } from './write-users.sql.js';

/** Why a login was refused. */
function refusalOf(refusal: NonNullable<LoginRow['refusal']>): AppError {
  if (refusal === 'banned')
    return new AppError('BANNED', 'This identity is banned from the project and cannot log in or register.');
  if (refusal === 'external id kept') return externalIdKept();
  return refusal === 'external id taken' ? externalIdTaken() : tooManyAccounts(refusal);
}

/** The keys that no two logins of a statement may have in common. */
function changesOf({ projectId, profile, retry }: Login): string[] {
  const changes = [`${projectId} identity ${identityText(profile)}`];
  if (profile.externalId !== null) changes.push(`${projectId} external id ${profile.externalId}`);
  if (retry !== null) changes.push(`${projectId} key ${retry.key}`);
  return changes;
}

/** Records logins by one statement: a row, or why it was refused, for each of them. */
async function writeLogins(db: Queryable, logins: readonly Login[], waits: boolean): Promise<(LoginRow | AppError)[]> {
  const rows = await recordLogins(db, logins, waits);
  return rows.map((row) => {
    if (row === null) return refusalOf('banned');
    return row.refusal === null || row.earlier !== null ? row : refusalOf(row.refusal);
  });
}

/** Logins and registration. */
export function createLogins(db: Database, totals: Totals) {
  const record = createBatchedWrite<Login, LoginRow>({
    db,
    name: 'logins',
    changes: changesOf,
    weigh: ({ profile }) => 1 + profile.accounts.length,
    write: writeLogins,
    // Of two first logins of a user at once, the later may find the external id taken before the user.
    isCrossed: (error) => isExternalIdTaken(error) || isKeyTaken(error) || isUserRemoved(error),
  });

  return {
    /**
     * Registers the identity, or counts a login of it and adds accounts. BANNED; BAD_USER_INPUT for too many accounts; CONFLICT for another's or
     * another external id; UNAVAILABLE without an answer at `until`, by the clock of `performance`. With a key, a retry is not counted again:
     * it is answered with the user as they are by then, or with NOT_FOUND if they were erased.
     */
    async recordLogin(
      scope: ProjectScope,
      profile: Profile,
      key: string | null = null,
      until = Number.POSITIVE_INFINITY,
    ): Promise<{ user: User; created: boolean }> {
      const projectId = scope.projectIdFor('write');
      requireFewAccounts(profile);
      // The request is what it was before there were external ids, and before what was said counted, so that a retry across an upgrade is known.
      const asked = { ...profile, saidEmail: undefined, externalId: profile.externalId ?? undefined };
      const retry = key === null ? null : retryOf(key, ['login', asked]);
      const row = await record({ projectId, profile, retry }, until)
        .catch(throwExternalIdError)
        .catch(throwLinkingError);
      if (row.earlier === null) {
        if (row.created) totals.countChange(projectId);
        return { user: row, created: row.created };
      }
      const { id, created } = repeatAnswer(row.earlier);
      const user = await findRegistered(db, projectId, id);
      if (user === null) throw new AppError('NOT_FOUND', 'The user of this login has been erased since.');
      return { user, created };
    },
  };
}
