import type { OperatorRole } from '../db/generated/prisma/enums.js';

/* Pages of the dashboard tell roles too, so this file imports nothing. */

/** What each role may do, from the one that may do least to the one that may do all. */
export const ROLE_MEANINGS: Readonly<Record<OperatorRole, string>> = {
  viewer: 'reads all of the projects, except the values of secrets, which no one can read',
  support: 'also edits, removes, restores and bans users',
  admin: 'also changes projects, secrets, webhooks and operators, and imports',
};
export const OPERATOR_ROLES = Object.keys(ROLE_MEANINGS) as readonly OperatorRole[];
