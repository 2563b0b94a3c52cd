import { FilterInput } from './form.js';
import { LOGIN_METHODS, type LoginMethod, METHOD_NAMES } from './format.js';
import { useUrlState } from './location.js';
import { Button } from './parts.js';

/** As in the public API. What does not filter is left out. */
export interface UserFilter {
  readonly startDate?: string;
  readonly endDate?: string;
  readonly loginMethods?: LoginMethod[];
}

/** The filter that the URL names, in `start`, `end` and `method`. */
export function filterFrom(query: Record<string, string | undefined>): UserFilter {
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
  const filterBy = (changes: Record<string, string | null>) =>
    go({ ...changes, page: null, after: null, before: null });
  const toggle = (method: LoginMethod) => {
    const next = chosen.includes(method) ? chosen.filter((one) => one !== method) : [...chosen, method];
    filterBy({ method: next.join(',') });
  };
  return (
    <form class="filters" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <FilterInput
        label="Created from (UTC)"
        isDate
        value={filter.startDate ?? ''}
        onCommit={(start) => filterBy({ start })}
      />
      <FilterInput label="Created to (UTC)" isDate value={filter.endDate ?? ''} onCommit={(end) => filterBy({ end })} />
      <fieldset class="chips">
        <legend class="hidden">Login method</legend>
        {LOGIN_METHODS.map((method) => (
          <label key={method} class="chip">
            <input type="checkbox" checked={chosen.includes(method)} onChange={() => toggle(method)} />
            <i class={`swatch ${method.toLowerCase()}`} />
            {METHOD_NAMES[method]}
          </label>
        ))}
      </fieldset>
      {Object.keys(filter).length > 0 && (
        <Button
          label="Clear the filter"
          class="plain"
          onClick={() => filterBy({ start: null, end: null, method: null })}
        />
      )}
    </form>
  );
}
