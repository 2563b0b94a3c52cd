import type { ComponentChildren } from 'preact';
import { useRef } from 'preact/hooks';
import { formatNumber } from './format.js';
import { api, graphql, may, type ResultOf } from './graphql.js';
import { FIRST_PAGE, paths, useUrlState } from './location.js';
import { Empty, State, Swatch, Time } from './parts.js';
import { Table } from './table.js';

/** A current user as a row. */
export const ROW = api(`fragment Row on User {
  id authMethod authValue loginMethod email externalId createdAt lastLogin loginCount ban { createdAt }
}`);

/** A user whom only operators find, who may be removed. */
export const FOUND_ROW = graphql(`fragment FoundRow on User {
  id authMethod authValue loginMethod email externalId createdAt lastLogin loginCount ban { createdAt } removedAt
}`);

export type Row = ResultOf<typeof ROW> & Partial<Pick<ResultOf<typeof FOUND_ROW>, 'removedAt'>>;
type NamedUser = Pick<Row, 'id' | 'authValue' | 'loginMethod' | 'email' | 'ban' | 'removedAt'>;

/** A person's name for a user, and another one: the ID at a social provider says less than the email. */
export function namesOf({ loginMethod, authValue, email }: Pick<Row, 'authValue' | 'loginMethod' | 'email'>) {
  if (!email || email === authValue) return [authValue];
  return loginMethod === 'SOCIALS' ? [email, authValue] : [authValue, email];
}

/** A user as a link, with the login method. A long identity is cut short by the style; the whole is shown on hover. */
export function UserName({ appId, user }: { appId: string; user: NamedUser }) {
  const [name = ''] = namesOf(user);
  return (
    <span class="user-name">
      <Swatch method={user.loginMethod} titled />
      <a href={paths.user(appId, user.id)} title={name}>
        <bdi>{name}</bdi>
      </a>
      {user.ban && <State is="banned" />}
      {user.removedAt && <State is="removed" />}
    </span>
  );
}

interface UserTableProps {
  readonly appId: string;
  readonly rows: readonly Row[];
  readonly busy: boolean;
  readonly empty: ComponentChildren;
  /** True for the removed users of the project, by their removal. */
  readonly removed?: boolean;
  /** True if the order of the rows can be turned around. */
  readonly isSorted?: boolean;
  /** Without these, rows cannot be selected. */
  readonly selected?: ReadonlyMap<string, Row>;
  readonly onSelect?: (selected: ReadonlyMap<string, Row>) => void;
}

/** Users as a table. The selection holds rows of other pages, too. */
export function UserTable(props: UserTableProps) {
  const { appId, rows, busy, empty, removed = false, isSorted = false, selected, onSelect } = props;
  const { query, href } = useUrlState();
  const isDescending = query['order'] !== 'oldest';
  const sort = isSorted && {
    sort: { isDescending, href: href({ ...FIRST_PAGE, order: isDescending ? 'oldest' : null }) },
  };
  const clicked = useRef<string | undefined>(undefined);
  const select = (chosen: readonly Row[], isChosen: boolean) => {
    const next = new Map(selected);
    for (const row of chosen) {
      if (isChosen) next.set(row.id, row);
      else next.delete(row.id);
    }
    onSelect?.(next);
  };
  /** With Shift, all rows from the one that was clicked before. */
  const toggle = (index: number, isChosen: boolean, isRange: boolean) => {
    const before = isRange ? rows.findIndex(({ id }) => id === clicked.current) : -1;
    const from = before < 0 ? index : before;
    clicked.current = rows[index]?.id;
    select(rows.slice(Math.min(from, index), Math.max(from, index) + 1), isChosen);
  };
  const chosenHere = rows.filter(({ id }) => selected?.has(id)).length;
  return (
    <Table
      caption="Users"
      busy={busy}
      empty={empty}
      rows={rows}
      rowKey={({ id }) => id}
      rowClass={({ id }) => (selected?.has(id) ? 'selected' : '')}
      columns={[
        selected !== undefined && {
          title: (
            <input
              type="checkbox"
              aria-label="Select all users of this page"
              checked={chosenHere === rows.length}
              indeterminate={chosenHere > 0 && chosenHere < rows.length}
              onChange={(event) => select(rows, event.currentTarget.checked)}
            />
          ),
          class: 'check',
          cell: ({ id }, index) => (
            <input
              type="checkbox"
              aria-label={`Select user ${id}`}
              checked={selected.has(id)}
              onClick={(event) => toggle(index, event.currentTarget.checked, event.shiftKey)}
            />
          ),
        },
        {
          title: 'User',
          class: 'main-cell',
          cell: (user) => (
            <>
              <UserName appId={appId} user={user} />
              {namesOf(user)
                .slice(1)
                .map((other) => (
                  <span key={other} class="second-line" title={other}>
                    <bdi>{other}</bdi>
                  </span>
                ))}
            </>
          ),
        },
        { title: 'Method', class: 'method', cell: ({ authMethod }) => <bdi>{authMethod}</bdi> },
        { title: 'ID', class: 'number', cell: ({ id }) => id },
        rows.some(({ externalId }) => externalId) && {
          title: 'External ID',
          class: 'method',
          hover: ({ externalId }) => externalId ?? '',
          cell: ({ externalId }) => externalId && <bdi>{externalId}</bdi>,
        },
        {
          title: 'Created',
          class: 'nowrap',
          cell: ({ createdAt }) => <Time at={createdAt} />,
          ...(!removed && sort),
        },
        removed && { title: 'Removed', class: 'nowrap', cell: ({ removedAt }) => <Time at={removedAt} />, ...sort },
        !removed && { title: 'Last login', class: 'nowrap', cell: ({ lastLogin }) => <Time at={lastLogin} /> },
        !removed && { title: 'Logins', class: 'roomy number', cell: ({ loginCount }) => formatNumber(loginCount) },
      ]}
    />
  );
}

/** The next step for a project without users. */
export function NoUsers({ appId }: { appId: string }) {
  return (
    <Empty title="No users yet.">
      A user is added by the first login that a backend records
      {may('operate') && (
        <>
          , or by an <a href={`${paths.project(appId, 'users')}?import=1`}>import</a>
        </>
      )}
      . A backend needs the App ID and one of the <a href={paths.project(appId, 'secrets')}>secrets</a>.
    </Empty>
  );
}
