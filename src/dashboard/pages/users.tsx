import { useState } from 'preact/hooks';
import { EXPORT_TARGETS, SYSTEM_TITLES } from '#dist/domain/systems.js';
import { BulkButton, UndoRemoval } from './bulk.js';
import { plural } from './format.js';
import { may } from './graphql.js';
import { ImportDialog } from './import.js';
import { FIRST_PAGE, streamPath, useUrlState } from './location.js';
import { Button, DownloadMenu, Empty, Segments } from './parts.js';
import { Header, useTitle } from './screen.js';
import { Answer } from './table.js';
import { FilterBar, filterFrom, isFiltered, NO_FILTER, parametersOf, stateFrom } from './user-filter.js';
import { useUserList } from './user-list.js';
import { NoUsers, type Row, UserTable } from './user-table.js';

/** The systems that import an export. Only the command says what they do not hold. */
const TARGETS = Object.fromEntries(EXPORT_TARGETS.map((name) => [name, `For ${SYSTEM_TITLES[name]}`]));

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
      <Header title="Users" note={<span aria-live="polite">{list.note}</span>} recipe={list.recipe}>
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
            empty={<NoRows appId={appId} hasMore={list.hasMore === true} />}
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
