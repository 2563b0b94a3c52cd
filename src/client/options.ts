import { badInput } from './errors.js';
import { OPERATIONS, type Operations } from './generated/schema.js';

/** The names that an object of options may have. A name that its type gains or loses is a compile error. */
export type Names<Options> = Readonly<Record<keyof Options, unknown>>;

/** Refuses an option that a function does not know, by its name. If it were ignored, a misspelt filter would ask about all users. */
export function requireKnown<Options extends object>(options: Options, known: Names<Options>): void {
  const names = Object.keys(known);
  const accepted = names.length === 0 ? 'no options' : `one of ${names.join(', ')}`;
  if (typeof options !== 'object' || options === null) throw badInput('options', `an object with ${accepted}`);
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) throw badInput(unknown.slice(0, 64), accepted);
}

/** What is given to an operation, but for the arguments that the function itself sets: these would be ignored. */
export function requireGiven<Given extends object>(
  name: keyof Operations,
  given: Given,
  own: readonly string[],
): Given {
  const known = Object.entries(OPERATIONS[name].given).filter(([argument]) => !own.includes(argument));
  requireKnown(given, Object.fromEntries(known) as Names<Given>);
  return given;
}
