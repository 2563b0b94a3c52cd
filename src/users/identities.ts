import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { isUniqueViolation } from '../db/failures.js';
import type { Queryable } from '../db/statements.js';
import {
  type Identity,
  identityBanned,
  identityTaken,
  identityText,
  MAX_IDENTITIES,
  type Profile,
  tooManyIdentities,
} from '../domain/identities.js';
import type { ProjectScope } from '../domain/projects.js';
import type { User, UserDetail, UserIdentity } from '../domain/users.js';
import type { Address } from '../domain/wallets.js';
import { AppError } from '../errors.js';
import type { ChangeOptions } from '../projects/idempotency.js';
import { findBans } from './bans.sql.js';
import { findUsersByIdentity } from './find-users.sql.js';
import * as sql from './identities.sql.js';
import type { Totals } from './totals.js';
import { type ActOnUsers, createActs, identitiesOf } from './user-acts.js';
import { createUserStates, type UserStates } from './user-states.js';

/** The identities by which a user logs in: linked, unlinked, banned with the user, and moved when two users turn out to be one person. */
export interface Identities extends IdentityLinks, UserStates {}

/** What a user logs in by. */
export interface IdentityLinks {
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
}

export interface LinkOptions extends ChangeOptions {
  /** True to make it the primary identity. */
  readonly isPrimary?: boolean;
  /** What else is done in the transaction; what it throws undoes the link. */
  readonly andThen?: (tx: Queryable) => Promise<void>;
}

export function createIdentities(db: Database, totals: Totals): Identities {
  const act = createActs(db);
  return { ...createIdentityLinks(db, act), ...createUserStates(db, act, totals) };
}

function createIdentityLinks(db: Database, act: ActOnUsers): IdentityLinks {
  const byUser = createBatchedRead({
    name: 'identities of users',
    read: (keys: readonly { projectId: number; userId: number }[]) => sql.findIdentities(db, keys),
    answer: (rows): UserDetail => ({ identities: rows.map(shown), metadata: rows[0]?.metadata ?? null }),
    weigh: () => 2,
  });

  /** CONFLICT that names who has the identity, where the database has refused it. */
  const toTaken =
    (scope: ProjectScope, identity: Identity) =>
    async (error: unknown): Promise<never> => {
      if (!isUniqueViolation(error)) throw error;
      const projectId = scope.projectIdFor('write', 'edit');
      const [holder] = await findUsersByIdentity(db, [{ ...identity, projectId, withAccounts: false }]);
      throw identityTaken(holder?.id ?? null);
    };

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
          const before = await identitiesOf(tx, projectId, id);
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
        const rows = await identitiesOf(tx, projectId, id);
        const gone = rows.find((row) => identityText(row) === asked);
        if (gone === undefined)
          throw new AppError('NOT_FOUND', `User ${id} has no such identity.`, { subject: { names: ['identity'] } });
        return take(tx, projectId, id, rows, gone);
      });
    },

    async unlinkAccount(scope, id, { key }, options = {}) {
      const unlinking = { action: 'unlink', name: 'unlink account', ids: [id], asked: [key] } as const;
      return act(scope, unlinking, options, async (tx, { projectId }) => {
        const rows = await identitiesOf(tx, projectId, id);
        const gone = rows.find(({ authMethod, authValueKey }) => authMethod === 'wallet' && authValueKey === key);
        if (gone !== undefined) return take(tx, projectId, id, rows, gone);
        if (await sql.deleteAccount(tx, projectId, id, key)) return { account: true };
        const subject = { names: ['address'] };
        throw new AppError('NOT_FOUND', `User ${id} has no account with this address.`, { subject });
      });
    },
  };
}

const shown = ({ id, ...row }: sql.IdentityRow): UserIdentity => ({ ...row, isPrimary: id === null });

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
