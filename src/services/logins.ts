import { type Database, Prisma, type Queryable } from '../db/client.js';
import { AppError } from '../errors.js';
import { type Ban, listBans } from '../sql/bans.js';
import type { User } from '../sql/columns.js';
import { recordActs } from '../sql/audit.js';
import { findRegistered, recordLogin } from '../sql/record-login.js';
import { explainAccounts, requireFewAccounts } from '../domain/account-limit.js';
import { once } from './idempotency.js';
import type { Identity, Profile } from '../domain/identities.js';
import type { ProjectScope } from './projects.js';

export type Logins = ReturnType<typeof createLogins>;

/** Bans that a statement has changed, each with the current user of its identity, if there is one. */
const CHANGED_BANS = Prisma.sql`
  SELECT u.id, jsonb_build_object('auth_method', changed.auth_method)
  FROM changed
  LEFT JOIN users u ON u.project_id = changed.project_id AND u.auth_method = changed.auth_method
    AND u.auth_value_key = changed.auth_value_key AND u.deleted_at IS NULL`;

async function login(db: Queryable, projectId: number, profile: Profile) {
  requireFewAccounts(profile);
  const user = await recordLogin(db, projectId, profile).catch((error) => {
    throw explainAccounts(error);
  });
  if (user !== null) return user;
  throw new AppError('BANNED', 'This identity is banned from the project and cannot log in or register.');
}

/** Registration, logins, and the bans that refuse both. */
export function createLogins(db: Database) {
  return {
    /**
     * Registers the identity, or counts a login of it and adds accounts. BANNED; BAD_USER_INPUT where the user would have too many. With a key a retry is answered as the first
     * request was, without another login, but with the user as he is by then (NOT_FOUND where he has been erased).
     */
    async recordLogin(
      scope: ProjectScope,
      profile: Profile,
      key: string | null = null,
    ): Promise<{ user: User; created: boolean }> {
      const projectId = scope.idFor('write');
      if (key === null) {
        const { created, ...user } = await login(db, projectId, profile);
        return { user, created };
      }
      const { id, created } = await once(db, projectId, { key, request: ['login', profile] }, async (tx) => {
        const user = await login(tx, projectId, profile);
        return { id: user.id, created: user.created };
      });
      const user = await findRegistered(db, projectId, id);
      if (user === null) throw new AppError('NOT_FOUND', 'The user of this login has been erased since.');
      return { user, created };
    },

    /** From now on the identity can neither log in nor register, also after its user is removed. Twice is as once. */
    async ban(scope: ProjectScope, { authMethod, authValue, authValueKey }: Identity): Promise<void> {
      const actor = scope.actorFor('operate', null);
      await db.query(Prisma.sql`
        WITH changed AS (
          INSERT INTO bans (project_id, auth_method, auth_value, auth_value_key)
          VALUES (${actor.projectId}, ${authMethod}, ${authValue}, ${authValueKey})
          ON CONFLICT DO NOTHING
          RETURNING project_id, auth_method, auth_value_key
        )
        ${recordActs(actor, 'ban', CHANGED_BANS)}`);
    },

    /** Every ban of the project, oldest first. */
    listBans(scope: ProjectScope): Promise<Ban[]> {
      return listBans(db, scope.idFor('operate'));
    },

    /** Lifts a ban; lifting none changes nothing. */
    async unban(scope: ProjectScope, { authMethod, authValueKey }: Identity): Promise<void> {
      const actor = scope.actorFor('operate', null);
      await db.query(Prisma.sql`
        WITH changed AS (
          DELETE FROM bans
          WHERE project_id = ${actor.projectId} AND auth_method = ${authMethod} AND auth_value_key = ${authValueKey}
          RETURNING project_id, auth_method, auth_value_key
        )
        ${recordActs(actor, 'unban', CHANGED_BANS)}`);
    },
  };
}
