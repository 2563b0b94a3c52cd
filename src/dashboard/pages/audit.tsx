import { FilterForm, FilterInput, SelectField } from './form.js';
import { formatDateTime, formatNumber } from './format.js';
import { graphql, may, type ResultOf, useQuery } from './graphql.js';
import { UndoImport } from './import-report.js';
import { FIRST_PAGE, paths, streamPath, useUrlState } from './location.js';
import { Button, DownloadMenu, Empty, Time } from './parts.js';
import { command } from './recipes.js';
import { ListScreen } from './screen.js';
import type { Column } from './table.js';

const AUDIT = graphql(`
  query Audit($appId: ID!, $actor: String, $action: String, $userId: ID, $since: DateTime, $until: DateTime, $after: String) {
    project(appId: $appId) {
      auditActions { name words }
      audit(actor: $actor, action: $action, userId: $userId, since: $since, until: $until, first: 50, after: $after) {
        nodes { id at actor action words requestId userId details }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
`);

/** The entries of the audit trail, newest first. */
export function Audit({ appId }: { appId: string }) {
  const { query: url, go, href } = useUrlState();
  const { actor = null, action = null, userId = null, since = null, until = null } = url;
  const filter = { actor, action, userId, since, until };
  const query = useQuery(AUDIT, { appId, ...filter, after: url['after'] ?? null });
  const actions = query.data?.project?.auditActions ?? [];
  const entries = query.data?.project?.audit.nodes ?? [];
  const isFiltered = Object.values(filter).some((value) => value !== null);
  return (
    <ListScreen
      title="Audit"
      note="Who changed what in this project, newest first. Logins are not recorded here."
      recipe={{ userdir: command('audit', { project: appId, since: since || undefined }) }}
      offers={
        <DownloadMenu
          path={streamPath(appId, 'audit')}
          parameters={{ actor, action, user_id: userId, since, until }}
          note="All entries that match the filter"
        />
      }
      filter={
        <FilterForm
          names={Object.keys(filter)}
          more={
            <>
              <FilterInput label="From (UTC)" isDate name="since" />
              <FilterInput label="To (UTC)" isDate name="until" />
            </>
          }
        >
          <FilterInput label="Who" name="actor" />
          <SelectField
            label="What"
            value={action ?? ''}
            options={[['', 'everything'], ...actions.map(({ name, words }) => [name, words] as const)]}
            onChange={(value) => go({ ...FIRST_PAGE, action: value })}
          />
          <FilterInput label="User ID" name="userId" />
        </FilterForm>
      }
      query={query}
      lines={10}
      found={query.data?.project?.audit}
      caption="Audit trail"
      rowKey={({ id }) => id}
      columns={[
        WHEN,
        {
          ...WHO,
          cell: (entry) => (
            <a href={href({ ...FIRST_PAGE, actor: entry.actor })} title={`Only what ${entry.actor} did`}>
              {WHO.cell(entry)}
            </a>
          ),
        },
        WHAT,
        {
          title: 'User',
          class: 'number',
          cell: (entry) => entry.userId && <a href={paths.user(appId, entry.userId)}>{entry.userId}</a>,
        },
        DETAILS,
      ]}
      {...(entries.some(isUndoable) && {
        actions: (entry: AnyEntry) =>
          isUndoable(entry) && (
            <Button label="Undo" of={`import ${entry.id}`} opens={<UndoImport appId={appId} importId={entry.id} />} />
          ),
      })}
      empty={
        <Empty title={isFiltered ? 'No entry matches the filter.' : 'Nothing has been recorded yet.'}>
          {actor && (
            <>
              Who did it is written as in the list: <code>operator:ada</code>, or the label of a secret.{' '}
            </>
          )}
        </Empty>
      }
    />
  );
}

type AnyEntry = NonNullable<ResultOf<typeof AUDIT>['project']>['audit']['nodes'][number];
type Entry = Omit<AnyEntry, 'userId' | 'action'>;

/** An import that has written users, seen by one who may undo it. */
const isUndoable = ({ action, details }: AnyEntry) =>
  may('operate') && action === 'import' && /"imported": ?[1-9]/.test(details);

const WHEN = { title: 'When', class: 'nowrap', cell: ({ at }: Entry) => <Time at={at} isExact /> };
const WHO = { title: 'Who', class: 'who', cell: ({ actor }: Entry) => <bdi>{actor}</bdi> };
const WHAT = { title: 'What', class: 'nowrap', cell: ({ words }: Entry) => words };
export const DETAILS = {
  title: 'Details',
  class: 'details-cell',
  cell: ({ details, requestId }: Entry) => (
    <>
      <bdi>{describe(details)}</bdi>
      {requestId && (
        <span class="second-line" title="The request, as in the log">
          request {requestId}
        </span>
      )}
    </>
  ),
};

/** Entries of an audit trail of no users. */
export const AUDIT_COLUMNS: readonly Column<Entry>[] = [WHEN, WHO, WHAT, DETAILS];

/** The first details, which are counts. Details arrive in no order that a reader would expect. */
const USERS = ['imported', 'created', 'updated', 'unchanged', 'skipped', 'failed'];
const COUNTED = [...USERS, 'bans', 'bans_kept', 'bans_ended', 'purged', 'users'];
const ORDER = ['label', 'secret', ...COUNTED, 'from', 'to', 'ended', 'ended_at'];
const NAMES: Record<string, string> = { ended: 'replaces', ended_at: 'which ends', fields: 'changed' };
/** Details that are only true. */
const MARKS: Record<string, string> = { user: 'all logins of the user' };

/** `{"label":"main","ended":[3],"ended_at":null}` → "label main, replaces 3, which ends –". */
function describe(details: string): string {
  try {
    return inWords(JSON.parse(details) as unknown);
  } catch {
    return details;
  }
}

function inWords(value: unknown): string {
  if (value === null) return '–';
  if (Array.isArray(value)) return value.map(inWords).join(' and ');
  if (typeof value !== 'object') return String(value);
  const rank = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length);
  return Object.entries(value)
    .toSorted(([one], [other]) => rank(one) - rank(other))
    .map(([name, part]) => phrase(name, part))
    .join(', ');
}

function phrase(name: string, part: unknown): string {
  const words = NAMES[name] ?? name.replaceAll('_', ' ');
  if (part === true) return MARKS[name] ?? words;
  return part === false ? `not ${words}` : `${words} ${inWords(readable(name, part))}`;
}

/** A time in the reader's zone, a number with its thousands apart, names of fields as words. */
function readable(name: string, part: unknown): unknown {
  if (typeof part === 'number' && COUNTED.includes(name)) return formatNumber(part);
  if (part === 'log_in') return 'sign-in';
  if (name === 'fields') return String(part).replaceAll('_', ' ').replaceAll(',', ' and ');
  return /^\d{4}-\d\d-\d\dT\d/.test(String(part)) ? formatDateTime(String(part)) : part;
}
