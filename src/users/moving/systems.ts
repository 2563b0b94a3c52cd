import { badInput } from '../../errors.js';
import { auth0 } from './auth0.js';
import { clerk } from './clerk.js';
import { cognito } from './cognito.js';
import type { Declaration } from './declaration.js';
import { declaredSystem } from './declared-system.js';
import { dynamic } from './dynamic.js';
import { entra } from './entra.js';
import { firebase } from './firebase.js';
import { fusionauth } from './fusionauth.js';
import { keycloak } from './keycloak.js';
import { kratos } from './kratos.js';
import { okta } from './okta.js';
import type { System } from './person.js';
import { privy } from './privy.js';
import { scim } from './scim.js';
import { stytch } from './stytch.js';
import { supabase } from './supabase.js';
import { thirdweb } from './thirdweb.js';
import { workos } from './workos.js';

/** The systems whose exports are imported, in the order of their names, beside any table (csv.ts). */
const DECLARATIONS: readonly Declaration[] = [
  auth0,
  clerk,
  cognito,
  dynamic,
  entra,
  firebase,
  fusionauth,
  keycloak,
  kratos,
  okta,
  privy,
  scim,
  stytch,
  supabase,
  thirdweb,
  workos,
];

export const SYSTEMS: readonly System[] = DECLARATIONS.map(declaredSystem);

/** BAD_USER_INPUT for an unknown name. */
export function systemNamed(name: string): System {
  const system = SYSTEMS.find((one) => one.name === name);
  if (system === undefined)
    throw badInput('from', name, `one of ${[...SYSTEMS.map((one) => one.name), 'csv'].join(', ')}`);
  return system;
}
