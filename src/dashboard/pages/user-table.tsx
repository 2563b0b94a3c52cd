import { useRef } from 'preact/hooks';
import { formatNumber } from './format.js';
import { Table, Time } from './parts.js';
import { type NamedUser, UserName } from './user-name.js';

export interface Row extends NamedUser {
  readonly email: string | null;
  readonly createdAt: string;
  readonly lastLogin: string | null;
  readonly loginCount: number;
}

interface UserTableProps {
  readonly appId: string;
  readonly rows: readonly Row[];
  readonly busy: boolean;
  /** Without these, rows cannot be selected. */
  readonly selected?: ReadonlyMap<string, Row>;
  readonly onSelect?: (selected: ReadonlyMap<string, Row>) => void;
}

/** Users as a table. The selection holds rows of other pages, too. */
export function UserTable({ appId, rows, busy, selected, onSelect }: UserTableProps) {
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
    <Table caption="Users" busy={busy}>
      <thead>
        <tr>
          {selected && (
            <th scope="col" class="check">
              <input
                type="checkbox"
                aria-label="Select all users of this page"
                checked={chosenHere === rows.length}
                indeterminate={chosenHere > 0 && chosenHere < rows.length}
                onChange={(event) => select(rows, event.currentTarget.checked)}
              />
            </th>
          )}
          <th scope="col">User</th>
          <th scope="col">Method</th>
          <th scope="col" class="number">
            ID
          </th>
          <th scope="col">Created</th>
          <th scope="col">Last login</th>
          <th scope="col" class="number">
            Logins
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((user, index) => (
          <tr key={user.id} class={selected?.has(user.id) ? 'selected' : ''}>
            {selected && (
              <td class="check">
                <input
                  type="checkbox"
                  aria-label={`Select user ${user.id}`}
                  checked={selected.has(user.id)}
                  onClick={(event) => toggle(index, event.currentTarget.checked, event.shiftKey)}
                />
              </td>
            )}
            <td class="main-cell">
              <UserName appId={appId} user={user} />
              {user.email && user.email !== user.authValue && (
                <span class="second-line" title={user.email}>
                  <bdi>{user.email}</bdi>
                </span>
              )}
            </td>
            <td class="method">
              <bdi>{user.authMethod}</bdi>
            </td>
            <td class="number">{user.id}</td>
            <td class="nowrap">
              <Time at={user.createdAt} />
            </td>
            <td class="nowrap">
              <Time at={user.lastLogin} />
            </td>
            <td class="number">{formatNumber(user.loginCount)}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
