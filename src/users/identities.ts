import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { isUniqueViolation } from '../db/failures.js';
import type { Queryable } from '../db/statements.js';
import type { GivenBanTerms } from '../domain/bans.js';
import {
  type Identity,
  identityBanned,
  identityTaken,
  identityText,
  MAX_IDENTITIES,
  type Profile,
  tooManyIdentities,
} from '../domain/identities.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { Actor, AuditAction, Permission, ProjectScope } from '../domain/projects.js';
import { noUser, type User, type UserDetail, type UserIdentity } from '../domain/users.js';
import type { Address } from '../domain/wallets.js';
import { AppError } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import { type ChangeOptions, changeOnce, retryOf } from '../projects/idempotency.js';
import { deleteUserBan, findBans, insertUserBan } from './bans.sql.js';
import { describeUser } from './describe-users.sql.js';
import { findUsersByIdentity } from './find-users.sql.js';
import * as sql from './identities.sql.js';
import { findRegistered } from './logins.sql.js';
import type { Totals } from './totals.js';
import { throwLinkingError } from './user-columns.sql.js';
import { type Restoration, restoreUser } from './write-users.sql.js';

/** The identities by which a user logs in: linked, unlinked, and moved when two users turn out to be one person. */
export interface Identities {
  /** The identities of a user who was read, the primary one first, then the oldest; and the metadata. */
  detailsOf(scope: ProjectScope, userId: number): Promise<UserDetail>;
  /**
   * Links an identity to a user. Of one that the user has, it sets what is said of the email.
   * NOT_FOUND; BANNED; CONFLICT where another user has it; BAD_USER_INPUT for too many identities or accounts.
   */
  link(scope: ProjectScope, id: bigint, profile: Profile, options?: LinkOptions): Promise<User>;
  /** Unlinks an identity. If the primary one goes, the oldest other one takes its place. An address goes with its account. NOT_FOUND; CONFLICT for the last one. */
  unlink(scope: ProjectScope, id: bigint, identity: Identity, options?: ChangeOptions): Promise<User>;
  /** Unlinks an account, and an identity that logs in by its address: verification says no from then on. NOT_FOUND; CONFLICT for the last identity. */
  unlinkAccount(scope: ProjectScope, id: bigint, address: Address, options?: ChangeOptions): Promise<User>;
  /** Bans a user: each of their identities, also those linked later. Again, it changes the terms that are given. NOT_FOUND; CONFLICT for one who was merged. */
  ban(scope: ProjectScope, id: bigint, terms: GivenBanTerms, options?: ChangeOptions): Promise<User>;
  /** Lifts the ban of a user. Those of their identities stay. NOT_FOUND. */
  unban(scope: ProjectScope, id: bigint, options?: ChangeOptions): Promise<User>;
  /** Makes a removed user current again, until erased. NOT_FOUND; CONFLICT for a current user, one who was merged, or another with an identity or the external ID. */
  restore(scope: ProjectScope, id: bigint, options?: ChangeOptions): Promise<User>;
  /**
   * Makes two users one: what the first has goes to the second, with the logins, the earlier registration and the later login. The second keeps
   * what only one can have, and is banned if one of both was. The first is removed. NOT_FOUND; BAD_USER_INPUT for too many identities or accounts.
   */
  merge(scope: ProjectScope, from: bigint, into: bigint, options?: ChangeOptions): Promise<User>;
}

interface Act {
  readonly action: AuditAction;
  /** The users who are locked; the last one is returned. */
  readonly ids: readonly bigint[];
  /** What an operator needs; a secret needs the scope `write`. */
  readonly permission?: Permission;
  /** True if a user who was removed is as good. */
  readonly ofRemoved?: boolean;
  /** What else is done in the transaction; what it throws undoes all. */
  readonly andThen?: ((tx: Queryable) => Promise<void>) | undefined;
  /** The request beside the users, for the key; `name` where it is not the action. */
  readonly asked?: readonly unknown[];
  readonly name?: string;
}

export interface LinkOptions extends ChangeOptions {
  /** True to make it the primary identity. */
  readonly isPrimary?: boolean;
  /** What else is done in the transaction; what it throws undoes the link. */
  readonly andThen?: (tx: Queryable) => Promise<void>;
}

export function createIdentities(db: Database, totals: Totals): Identities {
  const byUser = createBatchedRead({
    name: 'identities of users',
    read: (keys: readonly { projectId: number; userId: number }[]) => sql.findIdentities(db, keys),
    answer: (rows): UserDetail => ({ identities: rows.map(shown), metadata: rows[0]?.metadata ?? null }),
    weigh: () => 2,
  });

  /** Does `work` in one transaction with its audit entry, but none where it returns null, having changed nothing or written its own. NOT_FOUND; CONFLICT for an identity of another user. */
  async function act(
    scope: ProjectScope,
    { action, ids, name = action, asked = [], permission = 'edit', ofRemoved = false, andThen }: Act,
    { requestId = null, key = null }: ChangeOptions,
    work: (tx: Queryable, actor: Actor) => Promise<Readonly<Record<string, unknown>> | null>,
  ): Promise<User> {
    const actor = scope.actorFor('write', requestId, permission);
    const { projectId } = actor;
    const id = ids.at(-1) as bigint;
    // Operators see removed users.
    const isOperator = scope.permits('inspect');
    const missing = (wanted: bigint) =>
      noUser(wanted, ids.length === 1 ? undefined : [wanted === id ? 'into' : 'from']);
    for (const wanted of ids) if (wanted > LARGEST_ID) throw missing(wanted);
    const request = [name, ...ids.map(String), ...asked];
    await changeOnce(db.requestTransaction, projectId, retryOf(key, request), async (tx: Queryable) => {
      const locked = await sql.lockUsers(tx, projectId, ids, ofRemoved ? 'any' : 'current');
      for (const wanted of ids) if (!locked.includes(wanted)) throw missing(wanted);
      const details = await work(tx, actor);
      if (details !== null) await recordAction(tx, actor, action, details, id);
      await andThen?.(tx);
      return null;
    }).catch(throwLinkingError);
    const user = await (isOperator ? describeUser(db, projectId, id) : findRegistered(db, projectId, Number(id)));
    if (user === null) throw noUser(id);
    return user;
  }

  const own = (tx: Queryable, projectId: number, ...ids: bigint[]) =>
    sql.findIdentities(
      tx,
      ids.map((id) => ({ projectId, userId: Number(id) })),
    );

  /** CONFLICT that names who has the identity, where the database has refused it. */
  const toTaken =
    (scope: ProjectScope, identity: Identity) =>
    async (error: unknown): Promise<never> => {
      if (!isUniqueViolation(error)) throw error;
      const projectId = scope.projectIdFor('write', 'edit');
      const [holder] = await findUsersByIdentity(db, [{ ...identity, projectId, withAccounts: false }]);
      throw identityTaken(holder?.id ?? null);
    };

  /** CONFLICT that names whom a user was merged into, where the database has refused their ban. */
  const toMerged =
    (scope: ProjectScope, id: bigint) =>
    async (error: unknown): Promise<never> => {
      if ((error as { constraint?: unknown }).constraint !== 'user_bans_user_fkey') throw error;
      const userId = (await describeUser(db, scope.projectIdFor('write', 'ban'), id))?.mergedInto ?? null;
      if (userId === null) throw noUser(id);
      throw new AppError('CONFLICT', `User ${id} was merged into user ${userId}. Ban that user.`, {
        subject: { names: ['id'], userId },
      });
    };

  /** Takes an identity from a user: the oldest other one becomes primary in its place. CONFLICT for the last one. */
  async function take(
    tx: Queryable,
    projectId: number,
    id: bigint,
    rows: readonly sql.IdentityRow[],
    gone: sql.IdentityRow,
  ) {
    const next = rows.find((row) => row !== gone && row.id !== null);
    if (gone.id !== null) await sql.deleteIdentity(tx, projectId, gone.id);
    else if (next === undefined) throw lastIdentity(id);
    else await replacePrimary(tx, projectId, id, next, next);
    if (gone.authMethod === 'wallet') await sql.deleteAccount(tx, projectId, id, gone.authValueKey);
    return { auth_method: gone.authMethod };
  }

  return {
    async detailsOf(scope, userId) {
      return byUser({ projectId: scope.projectIdFor('read', 'write'), userId });
    },

    async link(scope, id, profile, { isPrimary = false, andThen, ...options } = {}) {
      return act(
        scope,
        { action: 'link', ids: [id], asked: [profile, isPrimary], andThen },
        options,
        async (tx, { projectId }) => {
          const before = await own(tx, projectId, id);
          const known = before.find((row) => identityText(row) === identityText(profile));
          const isPromoted = isPrimary && known?.id !== null;
          const identity = known === undefined ? asIdentity(profile) : withEmail(known, profile);
          if (known === undefined) {
            if (before.length >= MAX_IDENTITIES) throw tooManyIdentities(before.length + 1);
            if ((await findBans(tx, projectId, profile)).length > 0) throw identityBanned();
          } else if (known === identity && !isPromoted) return null;
          if (isPromoted) await replacePrimary(tx, projectId, id, known, identity, before[0]);
          else if (known === undefined) await sql.insertIdentity(tx, projectId, id, identity);
          else await sql.setEmail(tx, projectId, id, { ...identity, id: known.id });
          if (known === undefined) await sql.addAccounts(tx, projectId, id, profile.accounts);
          return {
            auth_method: profile.authMethod,
            ...(known === undefined && { linked: true }),
            ...(isPrimary && { primary: true }),
          };
        },
      ).catch(toTaken(scope, profile));
    },

    async unlink(scope, id, identity, options = {}) {
      const asked = identityText(identity);
      return act(scope, { action: 'unlink', ids: [id], asked: [asked] }, options, async (tx, { projectId }) => {
        const rows = await own(tx, projectId, id);
        const gone = rows.find((row) => identityText(row) === asked);
        if (gone === undefined)
          throw new AppError('NOT_FOUND', `User ${id} has no such identity.`, { subject: { names: ['identity'] } });
        return take(tx, projectId, id, rows, gone);
      });
    },

    async unlinkAccount(scope, id, { key }, options = {}) {
      const unlinking = { action: 'unlink', name: 'unlink account', ids: [id], asked: [key] } as const;
      return act(scope, unlinking, options, async (tx, { projectId }) => {
        const rows = await own(tx, projectId, id);
        const gone = rows.find(({ authMethod, authValueKey }) => authMethod === 'wallet' && authValueKey === key);
        if (gone !== undefined) return take(tx, projectId, id, rows, gone);
        if (await sql.deleteAccount(tx, projectId, id, key)) return { account: true };
        const subject = { names: ['address'] };
        throw new AppError('NOT_FOUND', `User ${id} has no account with this address.`, { subject });
      });
    },

    async ban(scope, id, terms, options = {}) {
      const banned = { ...banning(scope), action: 'ban', ids: [id], asked: [terms] } as const;
      return act(scope, banned, options, async (tx, actor) => {
        await insertUserBan(tx, actor, id, terms);
        return null;
      }).catch(toMerged(scope, id));
    },

    async unban(scope, id, options = {}) {
      return act(scope, { ...banning(scope), action: 'unban', ids: [id] }, options, async (tx, actor) => {
        await deleteUserBan(tx, actor, id);
        return null;
      });
    },

    async restore(scope, id, options = {}) {
      const restoring = { action: 'restore', ids: [id], permission: 'restore', ofRemoved: true } as const;
      return act(scope, restoring, options, async (tx, actor) => {
        const { outcome, ...taken } = await restoreUser(tx, actor, id);
        if (outcome !== 'restored') throw notRestored(id, outcome, taken);
        return null;
      });
    },

    async merge(scope, from, into, options = {}) {
      if (from === into) throw new AppError('BAD_USER_INPUT', 'into: a user cannot be merged into the same user.');
      const user = await act(scope, { action: 'merge', ids: [from, into] }, options, async (tx, { projectId }) => {
        const rows = await own(tx, projectId, from, into);
        if (rows.length > MAX_IDENTITIES) throw tooManyIdentities(rows.length);
        await sql.mergeUsers(tx, projectId, { id: from, primary: rows[0] as sql.IdentityRow }, into);
        return { from: Number(from) };
      });
      totals.countChange(scope.projectIdFor('write', 'edit'));
      return user;
    },
  };
}

/** Operators may ban removed users. */
const banning = (scope: ProjectScope) => ({ permission: 'ban', ofRemoved: scope.permits('inspect') }) as const;

const shown = ({ id, ...row }: sql.IdentityRow): UserIdentity => ({ ...row, isPrimary: id === null });

function notRestored(
  id: bigint,
  outcome: string,
  { takenBy, method }: Pick<Restoration, 'takenBy' | 'method'>,
): AppError {
  if (outcome === 'unknown') return noUser(id);
  if (outcome === 'merged')
    return new AppError('CONFLICT', `User ${id} was merged into user ${takenBy}, which cannot be undone.`, {
      subject: { names: ['id'], userId: takenBy },
    });
  if (outcome === 'current')
    return new AppError('CONFLICT', `User ${id} is not removed.`, { subject: { names: ['id'] } });
  const other = takenBy === null ? 'another user' : `user ${takenBy}`;
  const why =
    outcome === 'identity taken'
      ? `an identity${method === null ? '' : ` by ${method}`} is that of ${other} now`
      : `${other} has the external ID now`;
  return new AppError('CONFLICT', `User ${id} cannot be restored: ${why}. Remove that user first.`, {
    subject: { names: ['id'], userId: takenBy },
  });
}

function lastIdentity(id: bigint): AppError {
  return new AppError(
    'CONFLICT',
    `User ${id} has no other identity to log in with. Link another one before, or remove the user.`,
    { subject: { names: ['identity', 'address'] } },
  );
}

/** Puts an identity in the place of the primary one. `linked` is its row before, if it has one; `before` is linked then, or gone. */
async function replacePrimary(
  tx: Queryable,
  projectId: number,
  id: bigint,
  linked: sql.IdentityRow | undefined,
  identity: sql.NewIdentity,
  before?: sql.IdentityRow,
): Promise<void> {
  if (linked?.id != null) await sql.deleteIdentity(tx, projectId, linked.id);
  await sql.setPrimary(tx, projectId, id, identity);
  if (before !== undefined) await sql.insertIdentity(tx, projectId, id, before);
}

/** An identity after what a profile says of the email: the same object where that is nothing new. */
function withEmail(known: sql.IdentityRow, { saidEmail, emailVerified: verified }: Profile): sql.IdentityRow {
  const loginEmail = saidEmail ?? known.loginEmail;
  const isSame = loginEmail === known.loginEmail;
  const emailVerified = isSame ? (verified ?? known.emailVerified) : verified;
  return isSame && emailVerified === known.emailVerified ? known : { ...known, loginEmail, emailVerified };
}

/** A profile as an identity to link. */
const asIdentity = ({ authMethod, authValue, authValueKey, identityEmail, emailVerified }: Profile) => ({
  authMethod,
  authValue,
  authValueKey,
  loginEmail: identityEmail,
  emailVerified,
});
