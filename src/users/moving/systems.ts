import { badInput } from '../../errors.js';
import { auth0 } from './auth0.js';
import { clerk } from './clerk.js';
import { cognito } from './cognito.js';
import { dynamic } from './dynamic.js';
import { firebase } from './firebase.js';
import { keycloak } from './keycloak.js';
import type { System } from './person.js';
import { privy } from './privy.js';
import { supabase } from './supabase.js';

/** The systems whose exports are imported, by their names, beside any table (csv.ts). */
export const SYSTEMS: readonly System[] = [auth0, clerk, cognito, dynamic, firebase, keycloak, privy, supabase];

/** BAD_USER_INPUT for an unknown name. */
export function systemNamed(name: string): System {
  const system = SYSTEMS.find((one) => one.name === name);
  if (system === undefined)
    throw badInput('from', name, `one of ${[...SYSTEMS.map((one) => one.name), 'csv'].join(', ')}`);
  return system;
}
