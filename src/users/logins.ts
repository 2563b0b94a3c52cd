import { createBatchedRead } from '../db/batched-read.js';
import { createBatchedWrite } from '../db/batched-write.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import { cursor, cursorOf, LARGEST_ID, parse } from '../domain/filters.js';
import {
  externalIdKept,
  externalIdTaken,
  type GivenBanTerms,
  type GivenIdentity,
  type Identity,
  identityText,
  type ListedBan,
  type Profile,
  parseIdentity,
  parsePrefix,
  parseStoredIdentity,
  requireFewAccounts,
  type Spelling,
  tooManyAccounts,
} from '../domain/identities.js';
import type { ProjectScope } from '../domain/projects.js';
import { type BanState, noUser, type User } from '../domain/users.js';
import { AppError } from '../errors.js';
import { repeatAnswer, retryOf } from '../projects/idempotency.js';
import { isKeyTaken } from '../projects/idempotency.sql.js';
import type { RequestHours } from '../projects/request-hours.js';
import {
  type BannedKey,
  type BanPageKey,
  type BanWindowKey,
  deleteBan,
  findBanned,
  findBanWindows,
  insertBan,
  listBanPage,
} from './bans.sql.js';
import { findIdentity } from './find-users.sql.js';
import { findRegistered, isUserRemoved, type Login, type LoginRow, recordLogins } from './logins.sql.js';
import type { Totals } from './totals.js';
import { throwLinkingError } from './user-columns.sql.js';
import { isExternalIdTaken, throwExternalIdError } from './write-users.sql.js';

export type Logins = ReturnType<typeof createLogins>;

/** A page of bans. The newest come first unless it says otherwise. */
export interface BanPage extends Partial<Pick<BanPageKey, 'order'>> {
  readonly after?: string | null;
  readonly limit: number;
  readonly search?: string | null;
}

/** Why a login was refused. */
function refusalOf(refusal: NonNullable<LoginRow['refusal']>): AppError {
  if (refusal === 'banned')
    return new AppError('BANNED', 'This identity is banned from the project and cannot log in or register.');
  if (refusal === 'external id kept') return externalIdKept();
  return refusal === 'external id taken' ? externalIdTaken() : tooManyAccounts(refusal);
}

/** What no two logins of a statement may have in common. */
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

/** Logins, registration, and the bans that refuse both. */
export function createLogins(db: Database, totals: Totals, hours: RequestHours) {
  const banOf = createBatchedRead({
    name: 'bans of users',
    read: (keys: readonly BannedKey[]) => findBanned(db, keys),
    answer: ([ban]): BanState | null => ban ?? null,
  });

  const banWindows = createBatchedRead({
    name: 'windows of bans',
    read: (keys: readonly BanWindowKey[]) => findBanWindows(db, keys),
    answer: (bans: ListedBan[]) => bans,
    groupKey: () => '',
    weigh: ({ limit }) => limit,
  });

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
     * Registers the identity, or counts a login of it and adds accounts. BANNED; BAD_USER_INPUT if the user would have too
     * many accounts; UNAVAILABLE if it has no answer at `until`, by the clock of `performance`; CONFLICT if the external id is that of another user, or the user has another one. With a key, a retry is not counted again. It is answered with the user as they are by then, or with
     * NOT_FOUND if they were erased.
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
        hours.countLogin(scope.appId);
        if (row.created) totals.countChange(projectId);
        return { user: row, created: row.created };
      }
      const { id, created } = repeatAnswer(row.earlier);
      const user = await findRegistered(db, projectId, id);
      if (user === null) throw new AppError('NOT_FOUND', 'The user of this login has been erased since.');
      return { user, created };
    },

    /** The identity of a user, current or removed. NOT_FOUND. */
    async identityOf(scope: ProjectScope, id: bigint): Promise<Identity> {
      const projectId = scope.projectIdFor('inspect');
      const identity = id > LARGEST_ID ? null : await findIdentity(db, projectId, id);
      if (identity === null) throw noUser(id);
      return identity;
    },

    /**
     * Bans an identity from logging in and registering, also after its user is removed. One that is banned gets this reason and end,
     * and keeps what is not given. Idempotent.
     */
    async ban(scope: ProjectScope, identity: Identity, terms: GivenBanTerms = {}, requestId: string | null = null) {
      return insertBan(db, scope.actorFor('ban', requestId), identity, terms);
    },

    /** The ban of the identity of a user; null where it is not banned. */
    async banOfUser(scope: ProjectScope, userId: number): Promise<BanState | null> {
      return banOf({ projectId: scope.projectIdFor('inspect'), userId });
    },

    /**
     * A page of the project's bans: at most `limit`, after a cursor from an earlier page. `search` selects the bans whose value
     * contains a text, whatever its case. `next` is the cursor of the page after; null where there is none. BAD_USER_INPUT.
     */
    async listBans(
      scope: ProjectScope,
      { after = null, limit, order = 'newest first', search = null }: BanPage,
    ): Promise<{ bans: ListedBan[]; next: string | null }> {
      const projectId = scope.projectIdFor('inspect');
      const position = after === null ? null : parse(cursor('after', 'bans'), after);
      const part = search === null || search.trim() === '' ? null : parsePrefix('search', search);
      const contains = part && [...new Set([part.exact, part.folded])];
      const found = await listBanPage(db, projectId, { after: position, limit: limit + 1, order, contains });
      const bans = found.slice(0, limit);
      const last = bans.at(-1);
      const hasNext = found.length > limit && last !== undefined;
      return { bans, next: hasNext ? cursorOf(last) : null };
    },

    /** A page of bans for the project's backends, newest first, and whether there are more. */
    async readBans(
      scope: ProjectScope,
      { after, limit }: Pick<BanWindowKey, 'after' | 'limit'>,
    ): Promise<{ bans: ListedBan[]; hasMore: boolean }> {
      const bans = await banWindows({ projectId: scope.projectIdFor('read'), after, limit });
      return { bans: bans.slice(0, limit), hasMore: bans.length > limit };
    },

    /** Lifts a ban. Idempotent. */
    async unban(scope: ProjectScope, identity: Identity, requestId: string | null = null): Promise<void> {
      await deleteBan(db, scope.actorFor('ban', requestId), identity);
    },

    /** The same of an identity as it arrives. BAD_USER_INPUT; a method that is misspelt is refused unless the ban was stored with it. */
    async unbanIdentity(
      scope: ProjectScope,
      given: GivenIdentity,
      spelling: Spelling,
      requestId: string | null = null,
    ) {
      const identity = parseStoredIdentity(given, spelling);
      const isLifted = await deleteBan(db, scope.actorFor('ban', requestId), identity);
      return { ...(isLifted ? identity : parseIdentity(given, spelling)), changed: isLifted };
    },
  };
}
