import { useState } from 'preact/hooks';
import { AuditTable } from './audit-table.js';
import { Dialog, DialogForm } from './dialog.js';
import { formatDateTime } from './format.js';
import { graphql, send } from './graphql.js';
import { useTitle } from './location.js';
import { announce, Copy, Empty, Field, Header, Loading, Problem, Table, Time } from './parts.js';
import { useAction, useQuery } from './query.js';
import { SameByApi, SameByApiDetails } from './recipes.js';
import { may, me, type Role } from './session.js';

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
  const { data, failure, loading } = useQuery(OPERATORS, may('operate') ? {} : null);
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<string | null>(null);
  const [linking, setLinking] = useState<string | null>(null);
  const setRole = useAction((name: string, role: Role) => send(SET_ROLE, { name, role }));
  useTitle('Operators');
  const operators = data?.operators;
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
        <button type="button" class="primary" onClick={() => setAdding(true)}>
          Add operator
        </button>
      </Header>
      <Problem failure={failure ?? setRole.failure} retry={failure !== undefined} />
      {!operators && loading && <Loading lines={3} />}
      {operators && (
        <Table caption="Operators" busy={loading}>
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">Role</th>
              <th scope="col">From</th>
              <th scope="col">Last seen</th>
              <th scope="col">
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {operators.map(({ name, role, source, lastSeenAt }) => (
              <tr key={name}>
                <td class="main-cell" title={name}>
                  <bdi>{name}</bdi> {name === me.value?.name && <span class="quiet">(you)</span>}
                </td>
                <td>
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
                </td>
                <td>{source === 'sso' ? 'single sign-on' : 'added here'}</td>
                <td class="nowrap">
                  <Time at={lastSeenAt} />
                </td>
                <td class="row-actions">
                  <button type="button" class="small" onClick={() => setLinking(name)}>
                    Login link…
                  </button>
                  {name !== me.value?.name && (
                    <button type="button" class="small danger" onClick={() => setRemoving(name)}>
                      Remove…
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      <Log />
      {adding && <AddOperator onClose={() => setAdding(false)} onAdded={setLinking} />}
      {removing !== null && <RemoveOperator name={removing} onClose={() => setRemoving(null)} />}
      {linking !== null && <LoginLink name={linking} onClose={() => setLinking(null)} />}
    </>
  );
}

/** What concerns no project: sign-ins, changes of operators, refusals. */
function Log() {
  const { data, failure, loading } = useQuery(LOG, {});
  return (
    <section>
      <h2>Log</h2>
      <Problem failure={failure} />
      {!data && loading && <Loading lines={4} />}
      {data && (
        <AuditTable
          appId=""
          caption="Log of the operators"
          entries={data.operatorLog.map((entry) => ({ ...entry, userId: null }))}
          withUser={false}
        />
      )}
    </section>
  );
}

function AddOperator({ onClose, onAdded }: { onClose: () => void; onAdded: (name: string) => void }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('VIEWER');
  const add = useAction(() => send(ADD, { name, role }));
  const submit = async () => {
    const done = await add.run();
    if (!done) return;
    onClose();
    onAdded(done.addOperator.name);
  };
  return (
    <Dialog title="Add operator" onClose={onClose} busy={add.busy}>
      <DialogForm submit="Add" onSubmit={submit} onCancel={onClose} {...add} disabled={name.trim() === ''}>
        <Field
          label="Name"
          hint="As the audit trail shows it, one for each person: letters a to z, digits and . _ @ + -"
        >
          <input value={name} required onInput={(event) => setName(event.currentTarget.value)} />
        </Field>
        <fieldset class="choices">
          <legend>Role</legend>
          {Object.entries(ROLES).map(([one, what]) => (
            <label key={one}>
              <input type="radio" name="role" checked={role === one} onChange={() => setRole(one as Role)} /> {what}
            </label>
          ))}
        </fieldset>
        <SameByApiDetails recipe={{ userdir: ['operator', 'add', name || 'NAME', '--role', role.toLowerCase()] }} />
      </DialogForm>
    </Dialog>
  );
}

function RemoveOperator({ name, onClose }: { name: string; onClose: () => void }) {
  const remove = useAction(() => send(REMOVE, { name }));
  const submit = async () => {
    if (!(await remove.run())) return;
    announce('The operator is removed.');
    onClose();
  };
  return (
    <Dialog title="Remove this operator?" onClose={onClose} busy={remove.busy}>
      <DialogForm submit="Remove" danger onSubmit={submit} onCancel={onClose} {...remove}>
        <p class="long">
          All sessions of <bdi>{name}</bdi> end at once. What the audit trail says of them stays.
        </p>
        <SameByApiDetails recipe={{ userdir: ['operator', 'remove', name] }} />
      </DialogForm>
    </Dialog>
  );
}

function LoginLink({ name, onClose }: { name: string; onClose: () => void }) {
  const make = useAction(async () => (await send(LINK, { operator: name })).createLoginLink);
  const [link, setLink] = useState<{ url: string; expiresAt: string } | undefined>();
  if (link)
    return (
      <Dialog key="link" title="Login link" onClose={onClose}>
        <p class="long">
          It signs in <bdi>{name}</bdi> once, until {formatDateTime(link.expiresAt)}. Give it to that person only.
        </p>
        <figure class="recipe">
          <figcaption>
            Link <Copy text={link.url} what="the login link" />
          </figcaption>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable by keyboard */}
          <pre tabIndex={0}>{link.url}</pre>
        </figure>
        <div class="dialog-actions">
          <button type="button" class="primary" onClick={onClose}>
            Done
          </button>
        </div>
      </Dialog>
    );
  return (
    <Dialog title="Make a login link?" onClose={onClose} busy={make.busy}>
      <DialogForm submit="Make link" onSubmit={async () => setLink(await make.run())} onCancel={onClose} {...make}>
        <p class="long">
          The link signs in <bdi>{name}</bdi>. It works once, within ten minutes, and is shown only here.
        </p>
        <SameByApiDetails recipe={{ userdir: ['dashboard', '--operator', name] }} />
      </DialogForm>
    </Dialog>
  );
}
