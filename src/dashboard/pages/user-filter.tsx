import { FilterForm, FilterInput, toggled } from './form.js';
import { LOGIN_METHODS, type LoginMethod, METHOD_NAMES } from './format.js';
import { FIRST_PAGE, type UrlState, useUrlState } from './location.js';
import { Button, Swatch } from './parts.js';

/** As in the public API. What does not filter is left out. */
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

/** A filter as parameters of the REST API. */
export const parametersOf = ({ startDate, endDate, loginMethods }: UserFilter): Record<string, string> => ({
  ...(startDate && { start_date: startDate }),
  ...(endDate && { end_date: endDate }),
  ...(loginMethods && { login_method: loginMethods.join(',').toLowerCase() }),
});

/** Dates and login methods. Each change is a step for the back button. */
export function FilterBar() {
  const { query, go } = useUrlState();
  const filter = filterFrom(query);
  const chosen = filter.loginMethods ?? [];
  return (
    <FilterForm>
      <FilterInput label="Created from (UTC)" isDate name="start" />
      <FilterInput label="Created to (UTC)" isDate name="end" />
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
      {Object.keys(filter).length > 0 && (
        <Button
          label="Clear the filter"
          class="plain"
          onClick={() => go({ ...FIRST_PAGE, start: null, end: null, method: null })}
        />
      )}
    </FilterForm>
  );
}
