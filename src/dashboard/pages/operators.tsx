import { useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { AuditTable } from './audit.js';
import { CloseButton, Dialog, useDialog } from './dialog.js';
import { Choices, FormDialog, TextField } from './form.js';
import { formatDateTime } from './format.js';
import { graphql, send } from './graphql.js';
import { useTitle } from './location.js';
import { announce, Badge, Button, CopyBlock, Empty, Header, Time } from './parts.js';
import { useAction, useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { may, me, type Role } from './session.js';
import { Answer, Table } from './table.js';

const OPERATORS = graphql(`query Operators { operators { name role createdAt lastSeenAt source } }`);
const LOG = graphql(`query OperatorLog { operatorLog(first: 30) { id at actor action requestId details } }`);
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

const ROLES: Record<Role, string> = {
  VIEWER: 'viewer: reads everything',
  SUPPORT: 'support: also removes, restores, bans and unbans users',
  ADMIN: 'admin: also projects, secrets, imports and operators',
};

/** Who may use this dashboard. */
export function Operators() {
  const query = useQuery(OPERATORS, may('operate') ? {} : null);
  const [dialog, open] = useDialog();
  const setRole = useAction((name: string, role: Role) => send(SET_ROLE, { name, role }));
  useTitle('Operators');
  const openLink = (name: string) => open(<LoginLink name={name} />);
  if (!may('operate'))
    return (
      <>
        <Header title="Operators" />
        <Empty title="Only an admin sees the operators." />
      </>
    );
  return (
    <>
      <Header title="Operators" note="Who may use this dashboard. The audit trail names them.">
        <SameByApi recipe={{ userdir: ['operator', 'list'] }} />
        <Button label="Add operator" class="primary" onClick={() => open(<AddOperator onAdded={openLink} />)} />
      </Header>
      <Answer
        query={{ ...query, failure: query.failure ?? setRole.failure }}
        retry={query.failure !== undefined}
        data={query.data?.operators}
        lines={3}
      >
        {(operators) => (
          <Table
            caption="Operators"
            busy={query.loading}
            rows={operators}
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
                <Button label="Login link…" class="small" onClick={() => openLink(name)} />
                {name !== me.value?.name && (
                  <Button label="Remove…" class="small danger" onClick={() => open(<RemoveOperator name={name} />)} />
                )}
              </>
            )}
          />
        )}
      </Answer>
      <Log />
      {dialog}
    </>
  );
}

/** What concerns no project: sign-ins, changes of operators, refusals. */
function Log() {
  const query = useQuery(LOG, {});
  return (
    <section>
      <h2>Log</h2>
      <Answer query={query} data={query.data?.operatorLog} lines={4} retry={false}>
        {(log) => (
          <AuditTable
            appId=""
            caption="Log of the operators"
            entries={log.map((entry) => ({ ...entry, userId: null }))}
            withUser={false}
          />
        )}
      </Answer>
    </section>
  );
}

function AddOperator({ onAdded }: { onAdded: (name: string) => void }) {
  const name = useSignal('');
  const [role, setRole] = useState<Role>('VIEWER');
  return (
    <FormDialog
      title="Add operator"
      submit="Add"
      work={() => send(ADD, { name: name.value, role })}
      recipe={{ userdir: ['operator', 'add', name.value || 'NAME', '--role', role.toLowerCase()] }}
      onDone={({ addOperator }) => onAdded(addOperator.name)}
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

interface OfOperator {
  readonly name: string;
}

function RemoveOperator({ name }: OfOperator) {
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

function LoginLink({ name }: OfOperator) {
  return (
    <FormDialog
      title="Make a login link?"
      submit="Make link"
      work={() => send(LINK, { operator: name })}
      recipe={{ userdir: ['dashboard', '--operator', name] }}
      after={({ createLoginLink: { url, expiresAt } }) => (
        <Dialog title="Login link">
          <p class="long">
            It signs in <bdi>{name}</bdi> once, until {formatDateTime(expiresAt)}. Give it to that person only.
          </p>
          <CopyBlock name="Link" text={url} what="the login link" />
          <div class="dialog-actions">
            <CloseButton>Done</CloseButton>
          </div>
        </Dialog>
      )}
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
  useTitle('Sessions');
  const end = async (id: string) => {
    if (await revoke.run(id)) announce('The session is ended.');
  };
  const note = `A session ends after ${me.value?.idleMinutes} minutes without use.`;
  return (
    <>
      <Header title="Sessions" note={may('operate') ? `The sessions of all operators. ${note}` : note} />
      <Answer
        query={{ ...query, failure: query.failure ?? revoke.failure }}
        retry={query.failure !== undefined}
        data={query.data?.sessions}
        lines={3}
      >
        {(sessions) => (
          <Table
            caption="Sessions"
            busy={query.loading}
            rows={sessions}
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
        )}
      </Answer>
    </>
  );
}
