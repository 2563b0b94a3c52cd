import { ofStateFilters, STATE_FILTER_NAMES, STATE_FILTERS, type StateFilterName } from '#dist/domain/state-filters.js';
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

export const isFiltered = (filter: UserFilter) => Object.keys(filter).length > 0;

/** What a text of the URL means, by the kind of the filter. */
const READERS = ofStateFilters(STATE_FILTER_NAMES, {
  boolean: () => (text: string) => text === 'yes',
  instant: () => (text: string) => text,
  methods: () => (text: string) => [text],
  text: () => (text: string) => text,
});

export type UserState = { [Name in StateFilterName]?: ReturnType<(typeof READERS)[Name]> };

/** The state that the URL names; null if it names none. */
export function stateFrom(query: UrlState): UserState | null {
  const given = STATE_FILTER_NAMES.flatMap((name) => {
    const text = query[STATE_FILTERS[name].parameter];
    return text ? [[name, READERS[name](text)] as const] : [];
  });
  return given.length > 0 ? Object.fromEntries(given) : null;
}

/** Of the URL: what clears the whole filter. */
export const NO_FILTER: Readonly<Record<string, null>> = Object.fromEntries(
  ['start', 'end', 'method', ...STATE_FILTER_NAMES.map((name) => STATE_FILTERS[name].parameter)].map((name) => [
    name,
    null,
  ]),
);

const EITHER = [
  ['', 'either'],
  ['yes', 'yes'],
  ['no', 'no'],
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
          <FilterInput label="Created from (UTC)" isDate name="start" />
          <FilterInput label="Created to (UTC)" isDate name="end" />
          {STATE_FILTER_NAMES.map((name) => (
            <StateInput key={name} name={name} />
          ))}
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

/** One filter of the table, as its kind is given. */
function StateInput({ name }: { name: StateFilterName }) {
  const { query, go } = useUrlState();
  const { kind, label, parameter } = STATE_FILTERS[name];
  if (kind !== 'boolean') return <FilterInput label={label} isDate={kind === 'instant'} name={parameter} />;
  return (
    <SelectField
      label={label}
      value={EITHER.find(([value]) => value === query[parameter])?.[0] ?? ''}
      options={EITHER}
      onChange={(is) => go({ ...FIRST_PAGE, [parameter]: is })}
    />
  );
}
