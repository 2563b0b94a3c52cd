import { createBatchedWrite } from '../db/batched-write.js';
import type { Database } from '../db/database.js';
import { isConflict } from '../db/failures.js';
import type { Queryable } from '../db/statements.js';
import {
  externalIdKept,
  externalIdTaken,
  identityBanned,
  identityText,
  MAX_IDENTITIES,
  type Profile,
  requireFewAccounts,
  tooManyAccounts,
} from '../domain/identities.js';
import type { ProjectScope } from '../domain/projects.js';
import { selectColumns } from '../domain/user-columns.js';
import type { LoginFields, User } from '../domain/users.js';
import { AppError, unavailable } from '../errors.js';
import { repeatAnswer, retryOf } from '../projects/idempotency.js';
import { isKeyTaken } from '../projects/idempotency.sql.js';
import { findUsersByExternalId } from './find-users.sql.js';
import type { Identities } from './identities.js';
import {
  findRegistered,
  isLinked,
  isUserRemoved,
  type Login,
  type LoginRow,
  recordLinkedLogins,
  recordLogins,
} from './logins.sql.js';
import type { Totals } from './totals.js';
import { throwLinkingError } from './user-columns.sql.js';
import { isExternalIdTaken, throwExternalIdError } from './write-users.sql.js';

/** Why a login was refused. */
function refusalOf(refusal: Exclude<LoginRow['refusal'], 'external id taken' | null>): AppError {
  if (refusal === 'banned') return identityBanned();
  return refusal === 'external id kept' ? externalIdKept() : tooManyAccounts(refusal);
}

/** The keys that no two logins of a statement may have in common. */
export function changesOf({ projectId, profile, retry }: Login): string[] {
  const changes = [`${projectId} identity ${identityText(profile)}`];
  if (profile.externalId !== null) changes.push(`${projectId} external id ${profile.externalId}`);
  if (retry !== null) changes.push(`${projectId} key ${retry.key}`);
  return changes;
}

/** Records logins by one statement: a row, or why it was refused, for each of them; null for one that it does not decide. */
const writeBy = (statement: typeof recordLogins) => async (db: Queryable, logins: readonly Login[], waits: boolean) => {
  const rows = await statement(db, logins, waits);
  return rows.map((row) =>
    row?.refusal == null || row.earlier !== null || row.refusal === 'external id taken' ? row : refusalOf(row.refusal),
  );
};

const LINK_IT =
  ' A login with linkByExternalId links an identity that is new to that user; mergeUsers makes two users one.';

/** True if a statement was undone, and undone again, because the user or the identity was changed at this moment. */
const isCrossedTwice = (error: unknown) => isUserRemoved(error) || isLinked(error) || isConflict(error);

const LOGIN_FIELDS = selectColumns(({ from }) => from === 'login').map(({ field }) => field as keyof LoginFields);

/**
 * What a retry is compared by: what the login says, and nothing of what it does not say. So a release with one more field knows the retry
 * of a login that the release before has recorded.
 */
export function askedOf(profile: Profile, linkByExternalId = false): object {
  const said = LOGIN_FIELDS.map((field) => [field, profile[field]] as const).filter(([, value]) => value !== null);
  return {
    ...Object.fromEntries(said),
    accounts: profile.accounts,
    ...(linkByExternalId && { linkByExternalId }),
  };
}

/** What comes with a write of a profile. */
export interface WriteOptions {
  readonly key?: string | null;
  readonly until?: number;
}

/** What comes with a login beside the profile. */
export interface LoginOptions extends WriteOptions {
  readonly linkByExternalId?: boolean;
  /** Of the request, for the audit trail. */
  readonly requestId?: string | null;
}

/** Logins and registration. */
export interface Logins {
  /**
   * Registers the identity, or counts a login of its user and adds accounts. With `linkByExternalId`, an identity that is new is linked to the
   * user with the external id. BANNED; BAD_USER_INPUT for too many accounts; CONFLICT for another's or another external id; UNAVAILABLE without
   * an answer at `until`, by the clock of `performance`. With a key, a retry is not counted again: it is answered with the user as they are by
   * then, or with NOT_FOUND if they were erased.
   */
  recordLogin(scope: ProjectScope, profile: Profile, options?: LoginOptions): Promise<RecordedLogin>;
}

export interface RecordedLogin {
  readonly user: User;
  /** True if the login has registered the user. */
  readonly created: boolean;
}

export function createLogins(db: Database, totals: Totals, identities: Pick<Identities, 'link'>): Logins {
  const batched = {
    db,
    changes: changesOf,
    weigh: ({ profile }: Login) => 1 + profile.accounts.length,
    // Of two first logins of a user at once, the later may find the external id taken before the user.
    isCrossed: (error: unknown) =>
      isExternalIdTaken(error) || isKeyTaken(error) || isUserRemoved(error) || isLinked(error),
  };
  const record = createBatchedWrite<Login, LoginRow | null>({
    ...batched,
    name: 'logins',
    write: writeBy(recordLogins),
  });
  const recordLinked = createBatchedWrite<Login, LoginRow | null>({
    ...batched,
    name: 'logins by linked identities',
    write: writeBy(recordLinkedLogins),
  });

  /** Null where another user has the external id. Between the two statements an identity may be linked or unlinked, and logins of one user take turns. */
  async function write(login: Login, until: number): Promise<LoginRow | null> {
    for (let tries = 0; tries <= MAX_IDENTITIES; tries += 1) {
      // Every login goes through here, so there are no more promises than two statements need.
      try {
        const row = (await record(login, until)) ?? (await recordLinked(login, until));
        if (row !== null) return row.refusal === 'external id taken' && row.earlier === null ? null : row;
      } catch (error) {
        // Of a lone login the database itself refuses the external id.
        if (isExternalIdTaken(error)) return null;
        if (!isCrossedTwice(error)) throwExternalIdError(error);
      }
    }
    throw unavailable('The identity is being linked and unlinked at this moment. Nothing was recorded.');
  }

  /** Links the identity to the user with the external ID, and records the login: what refuses it undoes the link too. */
  async function linkAndWrite(scope: ProjectScope, login: Login, owner: number, requestId: string | null) {
    let row: LoginRow | null = null;
    const andThen = async (tx: Queryable) => {
      // The identity is primary where another request has linked it so meanwhile.
      for (const statement of [recordLinkedLogins, recordLogins]) {
        const [outcome = null] = await writeBy(statement)(tx, [login], true);
        if (outcome instanceof Error) throw outcome;
        row = outcome;
        if (row !== null) break;
      }
      if (row === null || (row.refusal !== null && row.earlier === null)) throw externalIdTaken(owner);
    };
    await identities.link(scope, BigInt(owner), login.profile, { requestId, andThen });
    return row;
  }

  async function findOwner({ projectId, profile: { externalId } }: Login): Promise<number | null> {
    if (externalId === null) return null;
    const [owner] = await findUsersByExternalId(db, [{ projectId, externalId, withAccounts: false }]);
    return owner?.id ?? null;
  }

  return {
    async recordLogin(
      scope,
      profile,
      { linkByExternalId = false, requestId = null, key = null, until = Number.POSITIVE_INFINITY } = {},
    ) {
      const projectId = scope.projectIdFor('write');
      requireFewAccounts(profile);
      const retry = key === null ? null : retryOf(key, ['login', askedOf(profile, linkByExternalId)]);
      const login = { projectId, profile, retry };
      let row = await write(login, until).catch(throwLinkingError);
      if (row === null) {
        const owner = await findOwner(login);
        if (owner === null || !linkByExternalId) throw externalIdTaken(owner, LINK_IT);
        row = await linkAndWrite(scope, login, owner, requestId).catch((error) => {
          if (error.code !== 'NOT_FOUND') throw error;
          // A user who is removed meanwhile has set the external ID free.
          return write(login, until).catch(throwLinkingError);
        });
        if (row === null) throw externalIdTaken(owner);
      }
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
