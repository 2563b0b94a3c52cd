/* Other systems from which users come, and to which they leave. Help, pages and lists take their names from here. */

/** The systems whose exports are imported: their names in commands, and what they are called. */
export const SYSTEM_TITLES = {
  auth0: 'Auth0',
  clerk: 'Clerk',
  cognito: 'Amazon Cognito',
  dynamic: 'Dynamic',
  entra: 'Microsoft Entra',
  firebase: 'Firebase Authentication',
  fusionauth: 'FusionAuth',
  keycloak: 'Keycloak',
  kratos: 'Ory Kratos',
  okta: 'Okta',
  privy: 'Privy',
  scim: 'SCIM',
  stytch: 'Stytch',
  supabase: 'Supabase Auth',
  thirdweb: 'thirdweb',
  workos: 'WorkOS',
} as const;

export type SystemName = keyof typeof SYSTEM_TITLES;

export const SYSTEM_NAMES = Object.keys(SYSTEM_TITLES) as SystemName[];

/** The systems in whose own form users are exported. */
export const EXPORT_TARGETS = ['auth0', 'firebase', 'keycloak', 'scim'] as const satisfies readonly SystemName[];

export type ExportTarget = (typeof EXPORT_TARGETS)[number];
