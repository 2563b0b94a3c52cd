import { LINK_MS } from '#dist/domain/bounds.js';
import { inWords } from '#dist/domain/figures.js';
import { AUDIT_COLUMNS } from './audit.js';
import { closeDialog, Dialog, openDialog } from './dialog.js';
import { FormDialog } from './form.js';
import { formatDateTime } from './format.js';
import { graphql, may, me, type Query, send, useAction, useQuery } from './graphql.js';
import { AddOperator, EditOperator } from './operator-dialogs.js';
import { announce, Badge, Button, CopyBlock, Time } from './parts.js';
import { command, sending } from './recipes.js';
import { ListScreen, NotAllowed, useTitle } from './screen.js';
import { List } from './table.js';

const OPERATORS = graphql(`query Operators { operators { name role projects { appId name } lastSeenAt source } }`);
const LOG = graphql(`query OperatorLog { operatorLog(first: 30) { id at actor words requestId details } }`);
const REMOVE = graphql(`mutation RemoveOperator($name: String!) { removeOperator(name: $name) }`);
const LINK = graphql(
  `mutation CreateLoginLink($operator: String!) { createLoginLink(operator: $operator) { url expiresAt } }`,
);

export function Operators() {
  const query = useQuery(OPERATORS, may('govern') ? {} : null);
  useTitle('Operators');
  if (!may('govern')) return <NotAllowed title="Operators" to="admin" />;
  return (
    <>
      <ListScreen
        title="Operators"
        note="Who may use this dashboard. The audit trail names them."
        recipe={{ userdir: command('operator list', {}) }}
        offers={
          <Button
            label="Add operator"
            class="primary"
            opens={<AddOperator onDone={(name) => openDialog(<LoginLink name={name} isNew />)} />}
          />
        }
        query={query}
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
          { title: 'Role', cell: ({ role }) => role.toLowerCase() },
          {
            title: 'Projects',
            class: 'names',
            hover: ({ projects }) => namesOf(projects ?? []),
            cell: ({ projects }) => <Projects of={projects} />,
          },
          { title: 'Source', cell: ({ source }) => source },
          { title: 'Last seen', class: 'nowrap', cell: ({ lastSeenAt }) => <Time at={lastSeenAt} /> },
        ]}
        actions={(operator) => (
          <>
            <Button label="Sign-in link…" of={operator.name} class="small" opens={<LoginLink name={operator.name} />} />
            {operator.name !== me.value?.name && (
              <>
                <Button label="Edit…" of={operator.name} class="small" opens={<EditOperator operator={operator} />} />
                <Button
                  label="Remove…"
                  of={operator.name}
                  class="small danger"
                  opens={<RemoveOperator name={operator.name} />}
                />
              </>
            )}
          </>
        )}
      />
      <Log />
    </>
  );
}

const namesOf = (projects: readonly { name: string }[]) => projects.map(({ name }) => name).join(', ');
/** The names of projects in a cell. */
const SHOWN = 2;

function Projects({ of: projects }: { of: readonly { name: string }[] | null }) {
  if (!projects) return <>all</>;
  const more = projects.length - SHOWN;
  return (
    <>
      <bdi>{namesOf(projects.slice(0, SHOWN)) || 'none'}</bdi> {more > 0 && <span class="quiet">and {more} more</span>}
    </>
  );
}

/** A query, with the failure of a change of what it lists: only the query itself can be tried again. */
export const queryOr = (query: Query<unknown>, { failure }: Pick<Query<unknown>, 'failure'>) => ({
  query: { ...query, failure: query.failure ?? failure },
  retry: query.failure !== undefined,
});

/** Entries beside the projects: sign-ins, changes of operators, refusals. */
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

function RemoveOperator({ name }: { name: string }) {
  return (
    <FormDialog
      title="Remove this operator?"
      submit="Remove"
      danger
      {...sending(REMOVE, { name }, command('operator remove', { name }))}
      done="The operator is removed."
    >
      <p class="long">
        All sessions of <bdi>{name}</bdi> end at once. What the audit trail says of them stays.
      </p>
    </FormDialog>
  );
}

function LoginLink({ name, isNew = false }: { name: string; isNew?: boolean }) {
  return (
    <FormDialog
      title="Make a sign-in link?"
      submit="Make link"
      {...sending(LINK, { operator: name }, command('dashboard', { operator: name }))}
      onDone={({ createLoginLink: { url, expiresAt } }) =>
        openDialog(
          <Dialog
            title="Sign-in link"
            unsaved="The link is shown only here."
            actions={<Button label="Done" class="primary" onClick={closeDialog} />}
          >
            <p class="long">
              It signs in <bdi>{name}</bdi> once, until {formatDateTime(expiresAt)}. Give it to that person only.
            </p>
            <CopyBlock name="Link" text={url} what="the sign-in link" />
          </Dialog>,
        )
      }
    >
      <p class="long">
        {isNew && (
          <>
            <bdi>{name}</bdi> is an operator now.{' '}
          </>
        )}
        The link signs in <bdi>{name}</bdi>. It works once, within {inWords(LINK_MS)}, and is shown only here.
      </p>
    </FormDialog>
  );
}

const SESSIONS = graphql(
  `query Sessions { sessions { id operator createdAt lastSeenAt expiresAt current userAgent by } }`,
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

/** The sessions of the operator; for an admin, of all. */
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
      note={may('govern') ? `The sessions of all operators. ${note}` : note}
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
        {
          title: 'Signed in',
          class: 'nowrap',
          cell: (session) => (
            <>
              <Time at={session.createdAt} /> <span class="quiet">by {session.by}</span>
            </>
          ),
        },
        { title: 'Last seen', class: 'nowrap', cell: ({ lastSeenAt }) => <Time at={lastSeenAt} /> },
        { title: 'Ends at the latest', class: 'nowrap', cell: ({ expiresAt }) => <Time at={expiresAt} /> },
      ]}
      actions={({ id, operator, current }) => (
        <Button
          class="small"
          disabled={revoke.busy}
          onClick={() => void end(id)}
          label={current ? 'Sign out' : 'End'}
          of={`the session of ${operator}`}
        />
      )}
    />
  );
}
