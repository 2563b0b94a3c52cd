import type { Declaration } from './declaration.js';

/** WorkOS AuthKit: users of the API, with their identities where those were asked for and put beside them. */
export const workos: Declaration = {
  idFields: ['id'],
  lists: ['data', 'users'],
  otherFields: ['object'],
  logins: [
    // Anybody may log in by a code to their email.
    { method: 'email', value: 'email', verified: 'email_verified', verifiedIfUnsaid: false },
    { each: 'identities', methodIn: 'provider', value: 'idp_id' },
  ],
  createdAt: 'created_at',
  lastLogin: 'last_sign_in_at',
  metadataIn: 'metadata',
  metadata: { external_id: 'external_id' },
};
