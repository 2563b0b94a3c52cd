import { useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { AUDIT_COLUMNS } from './audit.js';
import { closeDialog, Dialog, openDialog } from './dialog.js';
import { Choices, FormDialog, TextField } from './form.js';
import { formatDateTime } from './format.js';
import { graphql, may, me, type Query, send, useAction, useQuery, type VariablesOf } from './graphql.js';
import { announce, Badge, Button, CopyBlock, Empty, Time } from './parts.js';
import { Header, ListScreen, useTitle } from './screen.js';
import { List } from './table.js';

const OPERATORS = graphql(`query Operators { operators { name role createdAt lastSeenAt source } }`);
const LOG = graphql(`query OperatorLog { operatorLog(first: 30) { id at actor words requestId details } }`);
const ADD = graphql(
  `mutation AddOperator($name: String!, $role: OperatorRole!) { addOperator(name: $name, role: $role) { name } }`,
);
const SET_ROLE = graphql(`
  mutation SetOperatorRole($name: String!, $role: OperatorRole!) { setOperatorRole(name: $name, role: $role) { name } }
`);
const REMOVE = graphql(`mutation RemoveOperator($name: String!) { removeOperator(name: $name) }`);
const LINK = graphql(
  `mutation CreateLoginLink($operator: String!) { createLoginLink(operator: $operator) { url expiresAt } }`,
);

type Role = VariablesOf<typeof ADD>['role'];
const ROLES: Record<Role, string> = {
  VIEWER: 'viewer: reads everything',
  SUPPORT: 'support: also edits, removes, restores, bans and unbans users',
  ADMIN: 'admin: also projects, secrets, imports and operators',
};

/** Who may use this dashboard. */
export function Operators() {
  const query = useQuery(OPERATORS, may('operate') ? {} : null);
  const setRole = useAction((name: string, role: Role) => send(SET_ROLE, { name, role }));
  useTitle('Operators');
  if (!may('operate'))
    return (
      <>
        <Header title="Operators" />
        <Empty title="Only an admin sees the operators." />
      </>
    );
  return (
    <>
      <ListScreen
        title="Operators"
        note="Who may use this dashboard. The audit trail names them."
        recipe={{ userdir: ['operator', 'list'] }}
        offers={<Button label="Add operator" class="primary" opens={<AddOperator />} />}
        {...queryOr(query, setRole)}
        found={query.data?.operators}
        lines={3}
        rowKey={({ name }) => name}
        columns={[
          {
            title: 'Name',
            class: 'main-cell',
            hover: ({ name }) => name,
            cell: ({ name }) => (
              <>
                <bdi>{name}</bdi> {name === me.value?.name && <span class="quiet">(you)</span>}
              </>
            ),
          },
          {
            title: 'Role',
            cell: ({ name, role }) => (
              <select
                aria-label={`Role of ${name}`}
                value={role}
                disabled={setRole.busy || name === me.value?.name}
                onChange={(event) => void setRole.run(name, event.currentTarget.value as Role)}
              >
                {Object.keys(ROLES).map((one) => (
                  <option key={one} value={one}>
                    {one.toLowerCase()}
                  </option>
                ))}
              </select>
            ),
          },
          { title: 'From', cell: ({ source }) => (source === 'sso' ? 'single sign-on' : 'added here') },
          { title: 'Last seen', class: 'nowrap', cell: ({ lastSeenAt }) => <Time at={lastSeenAt} /> },
        ]}
        actions={({ name }) => (
          <>
            <Button label="Login link…" class="small" opens={<LoginLink name={name} />} />
            {name !== me.value?.name && (
              <Button label="Remove…" class="small danger" opens={<RemoveOperator name={name} />} />
            )}
          </>
        )}
      />
      <Log />
    </>
  );
}

/** A query, with the failure of a change of what it lists: only the query itself can be tried again. */
const queryOr = (query: Query<unknown>, { failure }: Pick<Query<unknown>, 'failure'>) => ({
  query: { ...query, failure: query.failure ?? failure },
  retry: query.failure !== undefined,
});

/** What concerns no project: sign-ins, changes of operators, refusals. */
function Log() {
  const query = useQuery(LOG, {});
  return (
    <section>
      <h2>Log</h2>
      <List
        caption="Log of the operators"
        query={query}
        found={query.data?.operatorLog}
        lines={4}
        retry={false}
        rowKey={({ id }) => id}
        columns={AUDIT_COLUMNS}
      />
    </section>
  );
}

function AddOperator() {
  const name = useSignal('');
  const [role, setRole] = useState<Role>('VIEWER');
  return (
    <FormDialog
      title="Add operator"
      submit="Add"
      work={() => send(ADD, { name: name.value, role })}
      recipe={{ userdir: ['operator', 'add', name.value || 'NAME', '--role', role.toLowerCase()] }}
      onDone={({ addOperator: added }) => openDialog(<LoginLink name={added.name} />)}
      disabled={name.value.trim() === ''}
    >
      <TextField
        label="Name"
        hint="As the audit trail shows it, one for each person: letters a to z, digits and . _ @ + -"
        text={name}
        required
      />
      <Choices legend="Role" options={ROLES} chosen={[role]} isOne onChange={([one = role]) => setRole(one)} />
    </FormDialog>
  );
}

function RemoveOperator({ name }: { name: string }) {
  return (
    <FormDialog
      title="Remove this operator?"
      submit="Remove"
      danger
      work={() => send(REMOVE, { name })}
      recipe={{ userdir: ['operator', 'remove', name] }}
      done="The operator is removed."
    >
      <p class="long">
        All sessions of <bdi>{name}</bdi> end at once. What the audit trail says of them stays.
      </p>
    </FormDialog>
  );
}

function LoginLink({ name }: { name: string }) {
  return (
    <FormDialog
      title="Make a login link?"
      submit="Make link"
      work={() => send(LINK, { operator: name })}
      recipe={{ userdir: ['dashboard', '--operator', name] }}
      onDone={({ createLoginLink: { url, expiresAt } }) =>
        openDialog(
          <Dialog title="Login link" actions={<Button label="Done" class="primary" onClick={closeDialog} />}>
            <p class="long">
              It signs in <bdi>{name}</bdi> once, until {formatDateTime(expiresAt)}. Give it to that person only.
            </p>
            <CopyBlock name="Link" text={url} what="the login link" />
          </Dialog>,
        )
      }
    >
      <p class="long">
        The link signs in <bdi>{name}</bdi>. It works once, within ten minutes, and is shown only here.
      </p>
    </FormDialog>
  );
}

const SESSIONS = graphql(
  `query Sessions { sessions { id operator createdAt lastSeenAt expiresAt current userAgent } }`,
);
const REVOKE_SESSION = graphql(`mutation RevokeSession($id: ID!) { revokeSession(id: $id) }`);

/** "Chrome 140, Linux" where a browser says it in the usual way; else as it says it. */
function browserName(userAgent: string): string {
  const [, name, version] = /(Firefox|Edg|OPR|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(userAgent) ?? [];
  const system = /Windows|Android|iPhone|iPad|Macintosh|Linux/.exec(userAgent)?.[0];
  if (!name || !system) return userAgent.slice(0, 40);
  const shown: Record<string, string> = { Edg: 'Edge', OPR: 'Opera', HeadlessChrome: 'Chrome', Version: 'Safari' };
  return `${shown[name] ?? name} ${version}, ${system}`;
}

/** Where one is signed in; for an admin, where everyone is. */
export function Sessions() {
  const query = useQuery(SESSIONS, {});
  const revoke = useAction((id: string) => send(REVOKE_SESSION, { id }));
  const end = async (id: string) => {
    if (await revoke.run(id)) announce('The session is ended.');
  };
  const note = `A session ends after ${me.value?.idleMinutes} minutes without use.`;
  return (
    <ListScreen
      title="Sessions"
      note={may('operate') ? `The sessions of all operators. ${note}` : note}
      {...queryOr(query, revoke)}
      found={query.data?.sessions}
      lines={3}
      rowKey={({ id }) => id}
      columns={[
        {
          title: 'Operator',
          class: 'main-cell',
          cell: ({ operator, current }) => (
            <>
              <bdi>{operator}</bdi> {current && <Badge tone="good">this one</Badge>}
            </>
          ),
        },
        {
          title: 'Browser',
          class: 'nowrap',
          hover: ({ userAgent }) => userAgent,
          cell: ({ userAgent }) => <bdi>{browserName(userAgent)}</bdi>,
        },
        { title: 'Signed in', class: 'nowrap', cell: ({ createdAt }) => <Time at={createdAt} /> },
        { title: 'Last seen', class: 'nowrap', cell: ({ lastSeenAt }) => <Time at={lastSeenAt} /> },
        { title: 'Ends at the latest', class: 'nowrap', cell: ({ expiresAt }) => <Time at={expiresAt} /> },
      ]}
      actions={({ id, operator, current }) => (
        <Button
          class="small"
          disabled={revoke.busy}
          onClick={() => void end(id)}
          label={
            <>
              {current ? 'Log out' : 'End'}
              <span class="hidden"> the session of {operator}</span>
            </>
          }
        />
      )}
    />
  );
}
