import { badInput } from '../../errors.js';
import { auth0 } from './auth0.js';
import type { System } from './person.js';

/** The systems whose exports are imported, by their names. */
export const SYSTEMS: readonly System[] = [auth0];

/** BAD_USER_INPUT for an unknown name. */
export function systemNamed(name: string): System {
  const system = SYSTEMS.find((one) => one.name === name);
  if (system === undefined)
    throw badInput('from', name, `one of ${[...SYSTEMS.map((one) => one.name), 'csv'].join(', ')}`);
  return system;
}
