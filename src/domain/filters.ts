import { AppError, badInput } from '../errors.js';
import { requireAuthValue, requireMethodName } from './identities.js';
import { dateBound, LOGIN_METHODS } from './parameters.js';
import { EARLIEST, LATEST, parse, readAll, readItems } from './parse.js';
import {
  MAX_AUTH_METHODS,
  ofStateFilters,
  STATE_FILTER_NAMES,
  type StateFilter,
  type StateFilterInput,
} from './state-filters.js';
import { LoginMethod } from './users.js';

/* Filters of the lists and totals of users (spec, "GET /server/users"). */

/** Selects users created from `createdFrom` to `createdTo`, both inclusive, with one of `loginMethods` (null: any). */
export interface CountedFilter {
  readonly createdFrom: Date;
  readonly createdTo: Date;
  readonly loginMethods: readonly LoginMethod[] | null;
}

/** A filter from its parsed parts. An absent part does not restrict the users. */
export function userFilter(
  parts: { [Part in keyof CountedFilter]?: CountedFilter[Part] | null | undefined },
): CountedFilter {
  const { loginMethods } = parts;
  const methods = loginMethods && LOGIN_METHODS.filter((method) => loginMethods.includes(method));
  return {
    createdFrom: parts.createdFrom ?? EARLIEST,
    createdTo: parts.createdTo ?? LATEST,
    loginMethods: methods && methods.length < LOGIN_METHODS.length ? methods : null,
  };
}

const startDate = dateBound('startDate', 'first').nullish();
const endDate = dateBound('endDate', 'last').nullish();

/** A filter as GraphQL gives it. */
export interface FilterInput extends StateFilterInput {
  readonly startDate?: string | null | undefined;
  readonly endDate?: string | null | undefined;
  readonly loginMethods?: readonly LoginMethod[] | null | undefined;
}

const KINDS: ReadonlyMap<string, LoginMethod> = new Map(LOGIN_METHODS.map((method) => [method, method]));
/** The name of a provider is the name of no kind (identities.ts). */
const kindOf = (authMethod: string): LoginMethod => KINDS.get(authMethod) ?? LoginMethod.socials;

function readMethods(list: string, names: readonly string[]): string[] {
  if (names.length === 0) throw badInput(list, [], 'at least one login method, or null for all');
  if (names.length > MAX_AUTH_METHODS)
    throw new AppError('BAD_USER_INPUT', `${list}: got ${names.length}, expected at most ${MAX_AUTH_METHODS}.`);
  return readItems(names, (name, place) => requireMethodName(`${list}[${place}]`, name));
}

/** What reads each state filter. */
const READERS = ofStateFilters(STATE_FILTER_NAMES, {
  boolean: () => (is: boolean) => is,
  instant: (_row, name) => {
    const bound = dateBound(name, 'first');
    return (text: string) => parse(bound, text);
  },
  methods: (_row, name) => (names: readonly string[]) => readMethods(name, names),
  text: (_row, name) => (text: string) => requireAuthValue(name, text),
});

/** A filter in two parts: `counted` for the tallies, which know only the kind of a provider, and the rest, null where there is none. BAD_USER_INPUT. */
export function readFilter(input: FilterInput | null | undefined): {
  counted: CountedFilter;
  state: StateFilter | null;
} {
  const { startDate: from, endDate: to, loginMethods: kinds, ...given } = input ?? {};
  if (kinds?.length === 0) throw badInput('loginMethods', [], 'at least one login method, or null for all');
  const [createdFrom, createdTo, ...values] = readAll(
    () => parse(startDate, from),
    () => parse(endDate, to),
    ...STATE_FILTER_NAMES.map((name) => () => {
      const value = given[name] ?? null;
      // A reader takes what its name is given.
      return value === null ? null : (READERS[name] as (value: unknown) => unknown)(value);
    }),
  );
  const state = Object.fromEntries(STATE_FILTER_NAMES.map((name, place) => [name, values[place]])) as StateFilter;
  const names = state.authMethods;
  const ofNames = names?.map(kindOf);
  const loginMethods = kinds && ofNames ? kinds.filter((kind) => ofNames.includes(kind)) : (kinds ?? ofNames);
  const uncounted = { ...state, authMethods: names?.some((name) => !KINDS.has(name)) ? names : null };
  return {
    counted: userFilter({ createdFrom, createdTo, loginMethods }),
    state: Object.values(uncounted).every((value) => value === null) ? null : uncounted,
  };
}
