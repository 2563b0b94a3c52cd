import { SYSTEM_NAMES, type SystemName } from '../../domain/systems.js';
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

const DECLARATIONS: Readonly<Record<SystemName, Declaration>> = {
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
};

/** The systems whose exports are imported, beside any table (csv.ts). */
export const SYSTEMS: readonly System[] = SYSTEM_NAMES.map((name) => declaredSystem(name, DECLARATIONS[name]));

/** BAD_USER_INPUT for an unknown name. */
export function systemNamed(name: string): System {
  const system = SYSTEMS.find((one) => one.name === name);
  if (system === undefined) throw badInput('from', name, `one of ${[...SYSTEM_NAMES, 'csv'].join(', ')}`);
  return system;
}
