import { FilterForm, FilterInput, SelectField, toggled } from './form.js';
import { LOGIN_METHODS, type LoginMethod, METHOD_NAMES } from './format.js';
import { FIRST_PAGE, type UrlState, useUrlState } from './location.js';
import { Swatch } from './parts.js';

/** As in the public API, without the absent filters. */
export interface UserFilter {
  readonly startDate?: string;
  readonly endDate?: string;
  readonly loginMethods?: LoginMethod[];
}

/** The filter that the URL names, in `start`, `end` and `method`. */
export function filterFrom(query: UrlState): UserFilter {
  const { start, end } = query;
  const named = (query['method'] ?? '').split(',');
  const loginMethods = LOGIN_METHODS.filter((method) => named.includes(method));
  return {
    ...(start && { startDate: start }),
    ...(end && { endDate: end }),
    ...(loginMethods.length > 0 && { loginMethods }),
  };
}

/** What no index has. */
export interface UserState {
  readonly lastLoginAfter?: string;
  readonly lastLoginBefore?: string;
  readonly banned?: boolean;
  readonly authMethods?: string[];
  readonly contains?: string;
}

/** The state that the URL names, in `seen`, `unseen`, `banned`, `provider` and `part`; null if it names none. */
export function stateFrom({ seen, unseen, banned, provider, part }: UrlState): UserState | null {
  if (!seen && !unseen && !banned && !provider && !part) return null;
  return {
    ...(seen && { lastLoginAfter: seen }),
    ...(unseen && { lastLoginBefore: unseen }),
    ...(banned && { banned: banned === 'yes' }),
    ...(provider && { authMethods: [provider] }),
    ...(part && { contains: part }),
  };
}

/** Of the URL: what clears the whole filter. */
export const NO_FILTER = {
  start: null,
  end: null,
  method: null,
  seen: null,
  unseen: null,
  banned: null,
  provider: null,
  part: null,
};

const BANNED = [
  ['', 'banned or not'],
  ['yes', 'banned'],
  ['no', 'not banned'],
] as const;

/** A filter as parameters of the REST API. */
export const parametersOf = ({ startDate, endDate, loginMethods }: UserFilter): Record<string, string> => ({
  ...(startDate && { start_date: startDate }),
  ...(endDate && { end_date: endDate }),
  ...(loginMethods && { login_method: loginMethods.join(',').toLowerCase() }),
});

/** Dates, login methods and state. Each change is a step for the back button. */
export function FilterBar() {
  const { query, go } = useUrlState();
  const filter = filterFrom(query);
  const chosen = filter.loginMethods ?? [];
  return (
    <FilterForm
      names={Object.keys(NO_FILTER)}
      more={
        <>
          <FilterInput label="Email, external ID or identity contains" name="part" />
          <FilterInput label="Provider" name="provider" />
          <FilterInput label="Created from (UTC)" isDate name="start" />
          <FilterInput label="Created to (UTC)" isDate name="end" />
          <FilterInput label="Last login from (UTC)" isDate name="seen" />
          <FilterInput label="No login since (UTC)" isDate name="unseen" />
          <SelectField
            label="State"
            value={BANNED.find(([value]) => value === query['banned'])?.[0] ?? ''}
            options={BANNED}
            onChange={(banned) => go({ ...FIRST_PAGE, banned })}
          />
        </>
      }
    >
      <fieldset class="chips">
        <legend class="hidden">Login method</legend>
        {LOGIN_METHODS.map((method) => (
          <label key={method} class="chip">
            <input
              type="checkbox"
              checked={chosen.includes(method)}
              onChange={() => go({ ...FIRST_PAGE, method: toggled(chosen, method).join(',') })}
            />
            <Swatch method={method} />
            {METHOD_NAMES[method]}
          </label>
        ))}
      </fieldset>
    </FilterForm>
  );
}
