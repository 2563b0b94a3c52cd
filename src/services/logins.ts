import type { Database, User } from '../db/client.js';
import { AppError } from '../errors.js';
import { recordLogin } from '../sql/record-login.js';
import type { Identity, Profile } from './identities.js';
import type { ProjectScope } from './projects.js';

export type Logins = ReturnType<typeof createLogins>;

/** Registration, logins, and the bans that refuse both. */
export function createLogins(db: Database) {
  const { prisma } = db;
  return {
    /** Registers the identity, or counts a login of it and adds accounts. BANNED. */
    async recordLogin({ projectId }: ProjectScope, profile: Profile): Promise<{ user: User; created: boolean }> {
      const login = await recordLogin(db, projectId, profile);
      if (login === null)
        throw new AppError('BANNED', 'This identity is banned from the project and cannot log in or register.');
      const { created, ...user } = login;
      return { user, created };
    },

    /** From now on the identity can neither log in nor register, also after its user is removed. Twice is as once. */
    async ban({ projectId }: ProjectScope, identity: Identity): Promise<void> {
      // Not an upsert, which looks first and inserts after: of two at once one would fail.
      await prisma.ban.createMany({ data: { projectId, ...identity }, skipDuplicates: true });
    },

    /** Lifts a ban; lifting none changes nothing. */
    async unban({ projectId }: ProjectScope, { authMethod, authValueKey }: Identity): Promise<void> {
      await prisma.ban.deleteMany({ where: { projectId, authMethod, authValueKey } });
    },
  };
}
