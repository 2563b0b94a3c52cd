import { AuditTable } from './audit-table.js';
import { graphql } from './graphql.js';
import { useTitle, useUrlState } from './location.js';
import { CursorPager } from './pager.js';
import { Empty, FilterInput, Header, Loading, Problem } from './parts.js';
import { useCurrentProject } from './project-frame.js';
import { useQuery } from './query.js';
import { SameByApi } from './recipes.js';

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
  const project = useCurrentProject();
  const { query, go, href } = useUrlState();
  const filter = {
    actor: query['actor'] ?? null,
    action: query['action'] ?? null,
    userId: query['user'] ?? null,
    since: instant(query['since']),
    until: instant(query['until'], true),
  };
  const { data, failure, loading } = useQuery(AUDIT, { appId, ...filter, after: query['after'] ?? null });
  useTitle('Audit', project?.name ?? '');
  const found = data?.project?.audit;
  const actions = data?.project?.auditActions ?? [];
  const filterBy = (changes: Record<string, string | null>) => go({ ...changes, after: null });
  const isFiltered = Object.values(filter).some((value) => value !== null);
  return (
    <>
      <Header title="Audit" note="Who changed what in this project, newest first. Logins are not recorded here.">
        <SameByApi
          recipe={{ userdir: ['audit', '--project', appId, ...(filter.since ? ['--since', filter.since] : [])] }}
        />
        <ExportMenu appId={appId} filter={filter} />
      </Header>
      <form class="filters" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
        <FilterInput label="Who" value={query['actor'] ?? ''} onCommit={(actor) => filterBy({ actor })} />
        <label class="field">
          <span>What</span>
          <select value={query['action'] ?? ''} onChange={(event) => filterBy({ action: event.currentTarget.value })}>
            <option value="">everything</option>
            {actions.map((action) => (
              <option key={action} value={action}>
                {action.toLowerCase().replaceAll('_', ' ')}
              </option>
            ))}
          </select>
        </label>
        <FilterInput label="User ID" value={query['user'] ?? ''} onCommit={(user) => filterBy({ user })} />
        <FilterInput label="From" isDate value={query['since'] ?? ''} onCommit={(since) => filterBy({ since })} />
        <FilterInput label="To" isDate value={query['until'] ?? ''} onCommit={(until) => filterBy({ until })} />
      </form>
      <Problem failure={failure} retry />
      {!found && loading && <Loading lines={10} />}
      {found && found.nodes.length > 0 && (
        <AuditTable
          appId={appId}
          entries={found.nodes}
          busy={loading}
          actorHref={(actor) => href({ actor, after: null })}
        />
      )}
      {found?.nodes.length === 0 && (
        <Empty title={isFiltered ? 'No entry matches the filter.' : 'Nothing has been recorded yet.'}>
          {filter.actor && (
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
      {found && <CursorPager pageInfo={found.pageInfo} />}
    </>
  );
}

function ExportMenu({ appId, filter }: { appId: string; filter: Record<string, string | null> }) {
  const names: Record<string, string> = { userId: 'user_id' };
  const set = Object.entries(filter).flatMap(([name, value]) => (value === null ? [] : [[names[name] ?? name, value]]));
  const link = (format: string) =>
    `/dashboard/projects/${encodeURIComponent(appId)}/audit?${new URLSearchParams([['format', format], ...set])}`;
  return (
    <details class="menu">
      <summary class="button">Export</summary>
      <div class="menu-items">
        <p class="quiet">All entries that match the filter</p>
        <a href={link('csv')} download>
          CSV, for spreadsheets
        </a>
        <a href={link('ndjson')} download>
          NDJSON
        </a>
      </div>
    </details>
  );
}
