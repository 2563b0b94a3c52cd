import { FilterInput, SelectField } from './form.js';
import { formatDateTime, formatNumber } from './format.js';
import { graphql } from './graphql.js';
import { paths, useUrlState } from './location.js';
import { DownloadMenu, Empty, Header, Time } from './parts.js';
import { useProjectTitle } from './project-frame.js';
import { useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { Answer, CursorPager, Table } from './table.js';

const AUDIT = graphql(`
  query Audit($appId: ID!, $actor: String, $action: String, $userId: ID, $since: DateTime, $until: DateTime, $after: String) {
    project(appId: $appId) {
      auditActions
      audit(actor: $actor, action: $action, userId: $userId, since: $since, until: $until, first: 50, after: $after) {
        nodes { id at actor action requestId userId details }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
`);

/** A day of the reader's zone as an instant: its first, or its last. */
function instant(date: string | undefined, isEnd = false): string | null {
  const [year, month, day] = (date ?? '').split('-').map(Number);
  if (!year || !month || !day) return null;
  return new Date(
    isEnd ? new Date(year, month - 1, day + 1).getTime() - 1 : new Date(year, month - 1, day),
  ).toISOString();
}

/** Who did what and when, newest first. */
export function Audit({ appId }: { appId: string }) {
  const { query: url, go, href } = useUrlState();
  const filter = {
    actor: url['actor'] ?? null,
    action: url['action'] ?? null,
    userId: url['user'] ?? null,
    since: instant(url['since']),
    until: instant(url['until'], true),
  };
  const query = useQuery(AUDIT, { appId, ...filter, after: url['after'] ?? null });
  useProjectTitle('Audit');
  const actions = query.data?.project?.auditActions ?? [];
  const filterBy = (changes: Record<string, string | null>) => go({ ...changes, after: null });
  const { actor, action, userId, since, until } = filter;
  const isFiltered = Object.values(filter).some((value) => value !== null);
  return (
    <>
      <Header title="Audit" note="Who changed what in this project, newest first. Logins are not recorded here.">
        <SameByApi recipe={{ userdir: ['audit', '--project', appId, ...(since ? ['--since', since] : [])] }} />
        <DownloadMenu
          path={`/dashboard/projects/${encodeURIComponent(appId)}/audit`}
          parameters={{ actor, action, user_id: userId, since, until }}
          note="All entries that match the filter"
        />
      </Header>
      <form class="filters" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
        <FilterInput label="Who" value={url['actor'] ?? ''} onCommit={(actor) => filterBy({ actor })} />
        <SelectField
          label="What"
          value={url['action'] ?? ''}
          options={[['', 'everything'], ...actions.map((action) => [action, inSmall(action)] as const)]}
          onChange={(action) => filterBy({ action })}
        />
        <FilterInput label="User ID" value={url['user'] ?? ''} onCommit={(user) => filterBy({ user })} />
        <FilterInput label="From" isDate value={url['since'] ?? ''} onCommit={(since) => filterBy({ since })} />
        <FilterInput label="To" isDate value={url['until'] ?? ''} onCommit={(until) => filterBy({ until })} />
      </form>
      <Answer query={query} data={query.data?.project?.audit} lines={10}>
        {({ nodes, pageInfo }) => (
          <>
            {nodes.length > 0 ? (
              <AuditTable
                appId={appId}
                entries={nodes}
                busy={query.loading}
                actorHref={(actor) => href({ actor, after: null })}
              />
            ) : (
              <Empty title={isFiltered ? 'No entry matches the filter.' : 'Nothing has been recorded yet.'}>
                {actor && (
                  <>
                    Who did it is written as in the list: <code>operator:ada</code>, or the label of a secret.{' '}
                  </>
                )}
                {isFiltered && (
                  <a href={href({ actor: null, action: null, user: null, since: null, until: null, after: null })}>
                    Show everything
                  </a>
                )}
              </Empty>
            )}
            <CursorPager pageInfo={pageInfo} />
          </>
        )}
      </Answer>
    </>
  );
}

interface Entry {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  readonly action: string;
  readonly requestId: string | null;
  readonly userId: string | null;
  /** JSON. */
  readonly details: string;
}

interface AuditTableProps {
  readonly appId: string;
  readonly entries: readonly Entry[];
  readonly caption?: string;
  readonly busy?: boolean;
  readonly withUser?: boolean;
  /** Where the entries of one actor are. */
  readonly actorHref?: (actor: string) => string;
}

/** Entries of the audit trail. */
export function AuditTable(props: AuditTableProps) {
  const { appId, entries, caption = 'Audit trail', busy = false, withUser = true, actorHref } = props;
  return (
    <Table
      caption={caption}
      busy={busy}
      rows={entries}
      rowKey={({ id }) => id}
      columns={[
        { title: 'When', class: 'nowrap', cell: ({ at }) => <Time at={at} /> },
        {
          title: 'Who',
          class: 'method',
          cell: ({ actor }) =>
            actorHref ? (
              <a href={actorHref(actor)} title={`Only what ${actor} did`}>
                <bdi>{actor}</bdi>
              </a>
            ) : (
              <bdi>{actor}</bdi>
            ),
        },
        { title: 'What', class: 'nowrap', cell: ({ action }) => inSmall(action) },
        withUser && {
          title: 'User',
          class: 'number',
          cell: ({ userId }) => userId && <a href={paths.user(appId, userId)}>{userId}</a>,
        },
        {
          title: 'Details',
          class: 'details-cell',
          cell: ({ details, requestId }) => (
            <>
              <bdi>{describe(details)}</bdi>
              {requestId && (
                <span class="second-line" title="The request, as in the log">
                  request {requestId}
                </span>
              )}
            </>
          ),
        },
      ]}
    />
  );
}

/** `SECRET_ADDED` → "secret added". */
const inSmall = (action: string) => action.toLowerCase().replaceAll('_', ' ');

/** What comes first, and what is counted. Details arrive in no order that a reader would expect. */
const COUNTED = ['imported', 'created', 'updated', 'unchanged', 'skipped', 'bans', 'purged', 'users'];
const ORDER = ['label', 'secret', ...COUNTED, 'from', 'to', 'ended', 'ended_at'];
const NAMES: Record<string, string> = { ended: 'replaces', ended_at: 'which ends' };

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
    .map(([name, part]) => `${NAMES[name] ?? name.replaceAll('_', ' ')} ${inWords(readable(name, part))}`)
    .join(', ');
}

/** A time in the reader's zone, a number with its thousands apart. */
function readable(name: string, part: unknown): unknown {
  if (typeof part === 'number' && COUNTED.includes(name)) return formatNumber(part);
  return typeof part === 'string' && name.endsWith('_at') && !Number.isNaN(Date.parse(part))
    ? formatDateTime(part)
    : part;
}
