import { useState } from 'preact/hooks';
import type { ExportTarget } from '#dist/domain/systems.js';
import { BulkButton, UndoRemoval } from './bulk.js';
import { plural } from './format.js';
import { graphql, may, useQuery } from './graphql.js';
import { ImportDialog } from './import.js';
import { FIRST_PAGE, streamPath, type UrlState, useUrlState } from './location.js';
import { Button, DownloadMenu, Empty, Segments } from './parts.js';
import { Header, useTitle } from './screen.js';
import { Answer, CursorPager, type PageInfo } from './table.js';
import { FilterBar, filterFrom, NO_FILTER, parametersOf, stateFrom, type UserFilter } from './user-filter.js';
import { recipeFor } from './user-recipes.js';
import { NoUsers, ROW, type Row, UserTable } from './user-table.js';

const USERS = graphql(
  `
    query Users($appId: ID!, $filter: UserFilter, $first: Int, $after: String, $last: Int, $before: String) {
      project(appId: $appId) {
        users(filter: $filter, first: $first, after: $after, last: $last, before: $before) {
          totalCount
          nodes { ...Row }
          pageInfo { startCursor endCursor hasNextPage hasPreviousPage }
        }
      }
    }
  `,
  [ROW],
);

const FIND = graphql(
  `query FindUsers($appId: ID!, $any: String!, $removed: Boolean!) {
    project(appId: $appId) {
      findUsers(any: $any, removed: $removed) { ...Row }
      usersByPrefix(prefix: $any) @skip(if: $removed) { hasMore nodes { ...Row } }
    }
  }`,
  [ROW],
);

const SCAN = graphql(
  `query ScanUsers($appId: ID!, $filter: UserFilter, $state: UserState!, $oldestFirst: Boolean!, $first: Int!, $after: String) {
    project(appId: $appId) {
      scanUsers(filter: $filter, state: $state, oldestFirst: $oldestFirst, first: $first, after: $after) {
        endCursor
        nodes { ...Row }
      }
    }
  }`,
  [ROW],
);

const REMOVED = graphql(
  `query RemovedUsers($appId: ID!, $oldestFirst: Boolean!, $after: String) {
    project(appId: $appId) {
      removedUsers(oldestFirst: $oldestFirst, first: 50, after: $after) {
        nodes { ...Row }
        pageInfo { endCursor hasNextPage }
      }
    }
  }`,
  [ROW],
);

/** The systems that import an export. Only the command says what they do not hold. */
const TARGETS: Readonly<Record<ExportTarget, string>> = {
  auth0: 'For Auth0',
  firebase: 'For Firebase',
  keycloak: 'For Keycloak',
  scim: 'SCIM 2.0',
};

/** The current users of a project, or the removed ones. */
export function Users({ appId }: { appId: string }) {
  const removed = useUrlState().query['removed'] === '1';
  // No selection has both.
  return <UserList key={`${appId} ${removed}`} appId={appId} removed={removed} />;
}

/** Users that are found by the search box, or listed. */
function UserList({ appId, removed }: { appId: string; removed: boolean }) {
  const { query, go } = useUrlState();
  const [selected, setSelected] = useState<ReadonlyMap<string, Row>>(new Map());
  const filter = filterFrom(query);
  const list = useUserList(appId, filter, query);
  const search = query['q'];
  useTitle('Users');
  const clear = () => setSelected(new Map());
  const chosen = { appId, users: [...selected.values()], onChanged: clear };
  return (
    <>
      <Header title="Users" note={<span aria-live="polite">{list.note}</span>} recipe={recipeFor(appId, query, filter)}>
        {!search && !removed && (
          <DownloadMenu
            path={streamPath(appId, 'export')}
            parameters={parametersOf(filter)}
            others={TARGETS}
            note={
              (isFiltered(filter) ? 'All users that match the filter' : 'All users of the project') +
              (stateFrom(query) ? ', whatever their last login and state' : '')
            }
          />
        )}
        {may('operate') && <Button label="Import" class="primary" onClick={() => go({ import: '1' })} />}
      </Header>
      <UndoRemoval appId={appId} />
      <div class="list-header">
        <AmongRemoved isChosen={removed} />
        {!search && !removed && <FilterBar />}
      </div>
      <Answer query={list} data={list.rows} lines={10}>
        {(rows) => (
          <UserTable
            appId={appId}
            rows={rows}
            busy={list.loading}
            empty={<NoRows appId={appId} hasMore={'hasMore' in list && list.hasMore} />}
            removed={removed}
            isSorted={!search}
            {...((may('remove') || may('ban')) && { selected, onSelect: setSelected })}
          />
        )}
      </Answer>
      {selected.size > 0 && (
        <div class="selection" role="toolbar" aria-label="Selected users">
          <span>{plural(selected.size, 'user')} selected</span>
          {removed ? (
            <BulkButton {...chosen} action="restore" class="primary" />
          ) : (
            <>
              <BulkButton {...chosen} action="remove" class="danger" />
              <BulkButton {...chosen} action="ban" class="danger" />
              <BulkButton {...chosen} action="unban" />
            </>
          )}
          <Button label="Clear the selection" class="plain" onClick={clear} />
        </div>
      )}
      {list.pages}
      {query['import'] && may('operate') && (
        <ImportDialog appId={appId} onClose={() => go({ import: null }, { replace: true })} />
      )}
    </>
  );
}

const PAGE_SIZES = ['10', '25', '50', '100'];

/** The list for the URL. Exactly one of the four questions is asked. */
function useUserList(appId: string, filter: UserFilter, query: UrlState) {
  const search = query['q'];
  const removed = query['removed'] === '1';
  const oldestFirst = query['order'] === 'oldest';
  const limit = PAGE_SIZES.includes(query['limit'] ?? '') ? Number(query['limit']) : 25;
  const { after = null, before = null } = query;
  // The API has the newest first: in the other order, onwards is towards its beginning.
  const fromOldest = oldestFirst !== (before !== null);
  const [older, newer] = oldestFirst ? [before, after] : [after, before];
  const matches = useQuery(FIND, search ? { appId, any: search, removed } : null);
  const gone = useQuery(REMOVED, removed && !search ? { appId, oldestFirst, after } : null);
  const state = removed || search ? null : stateFrom(query);
  const scan = useQuery(SCAN, state && { appId, filter, state, oldestFirst, first: limit, after });
  const walk = useQuery(
    USERS,
    search || removed || state
      ? null
      : {
          appId,
          filter,
          after: older,
          before: newer,
          ...(fromOldest ? { first: null, last: limit } : { first: limit, last: null }),
        },
  );
  if (search) {
    const { findUsers, usersByPrefix } = matches.data?.project ?? {};
    // First those whom the whole text means, each once.
    const rows = findUsers && [
      ...new Map([...findUsers, ...(usersByPrefix?.nodes ?? [])].map((row) => [row.id, row])).values(),
    ];
    const note =
      rows && `${plural(rows.length, 'user')} found${usersByPrefix?.hasMore ? ', and there may be more' : ''}`;
    return { ...matches, rows, note, pages: null };
  }
  if (removed) {
    const shown = gone.data?.project?.removedUsers;
    const note = 'Removed users can be restored until a purge erases them.';
    const pages = shown && <CursorPager pageInfo={shown.pageInfo} oldestFirst={oldestFirst} />;
    return { ...gone, rows: shown?.nodes, note, pages };
  }
  if (state) {
    const shown = scan.data?.project?.scanUsers;
    const pageInfo = shown && { endCursor: shown.endCursor, hasNextPage: shown.endCursor !== null };
    return {
      ...scan,
      rows: shown?.nodes,
      hasMore: pageInfo?.hasNextPage === true,
      note:
        shown &&
        (shown.endCursor
          ? 'Not all users were looked at yet: the next page goes on.'
          : `All users were looked at${after ? '' : `: ${plural(shown.nodes.length, 'user')} found`}.`),
      pages: pageInfo && <CursorPager pageInfo={pageInfo} oldestFirst={oldestFirst} />,
    };
  }
  const shown = walk.data?.project?.users;
  const pages = shown && shown.totalCount > 0 && (
    <div class="list-footer">
      <CursorPager pageInfo={inOrder(shown.pageInfo, oldestFirst)} backwards oldestFirst={oldestFirst} />
      <RowsOfPage limit={limit} />
    </div>
  );
  const note = shown && describeTotal(shown.totalCount, filter);
  return { ...walk, rows: oldestFirst ? shown?.nodes.toReversed() : shown?.nodes, note, pages };
}

/** The pages around one whose rows are shown turned around. */
function inOrder(page: Required<PageInfo>, oldestFirst: boolean): PageInfo {
  const { startCursor, endCursor, hasNextPage, hasPreviousPage } = page;
  if (!oldestFirst) return page;
  return {
    startCursor: endCursor,
    endCursor: startCursor,
    hasNextPage: hasPreviousPage,
    hasPreviousPage: hasNextPage,
  };
}

/** A list or a search is of current users, or of removed ones. */
function AmongRemoved({ isChosen }: { isChosen: boolean }) {
  const { href } = useUrlState();
  return (
    <Segments
      links={[
        { name: 'Current users', href: href({ ...FIRST_PAGE, order: null, removed: null }), isChosen: !isChosen },
        { name: 'Removed users', href: href({ ...FIRST_PAGE, order: null, removed: '1' }), isChosen },
      ]}
    />
  );
}

function RowsOfPage({ limit }: { limit: number }) {
  const { go } = useUrlState();
  return (
    <label class="inline">
      <span class="quiet">Rows</span>
      <select value={String(limit)} onChange={(event) => go({ ...FIRST_PAGE, limit: event.currentTarget.value })}>
        {PAGE_SIZES.map((size) => (
          <option key={size}>{size}</option>
        ))}
      </select>
    </label>
  );
}

const isFiltered = (filter: UserFilter) => Object.keys(filter).length > 0;

function describeTotal(total: number, filter: UserFilter): string {
  return isFiltered(filter)
    ? `${plural(total, 'user')} ${total === 1 ? 'matches' : 'match'} the filter`
    : plural(total, 'user');
}

/** Why no rows are shown, and what to do. */
function NoRows({ appId, hasMore }: { appId: string; hasMore: boolean }) {
  const { query, href } = useUrlState();
  const all = href({ ...FIRST_PAGE, q: null, removed: null, ...NO_FILTER });
  if (query['q']) return <NotFound all={all} />;
  if (query['removed'] === '1' && !query['after'])
    return <Empty title="No user is removed.">A removed user stays here until a purge.</Empty>;
  if (stateFrom(query))
    return (
      <Empty title="None of the users looked at matches.">
        {hasMore && 'The next page looks at more. '}
        <a href={all}>Show all users</a>
      </Empty>
    );
  if (isFiltered(filterFrom(query))) {
    const isBackwards = (query['start'] ?? '') > (query['end'] || '9999');
    return (
      <Empty title={isBackwards ? 'The first day is after the last day.' : 'No user matches the filter.'}>
        <a href={all}>Show all users</a>
      </Empty>
    );
  }
  if (query['after'] || query['before'])
    return (
      <Empty title="There is no such page.">
        <a href={all}>Go to the first page</a>
      </Empty>
    );
  return <NoUsers appId={appId} />;
}

/** A search that found nothing, and where else to look. */
function NotFound({ all }: { all: string }) {
  const { query, href } = useUrlState();
  const removed = query['removed'] === '1';
  return (
    <Empty title={`No ${removed ? 'removed ' : ''}user has this ID, external ID, email, address or identity.`}>
      <p>
        {removed
          ? 'Among removed users the search finds whole values only.'
          : 'Nor does an email, an external ID or the ID at a provider begin with it. User IDs and addresses are found whole.'}
      </p>
      <p class="choices-line">
        {!removed && <a href={href({ q: null, part: query['q'] ?? null })}>Look inside of emails and IDs</a>}
        {!removed && <a href={href({ removed: '1' })}>Look among removed users</a>}
        <a href={all}>Show all users</a>
      </p>
    </Empty>
  );
}
