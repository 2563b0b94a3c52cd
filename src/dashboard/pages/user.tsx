import { useSignal } from '@preact/signals';
import { AUDIT_COLUMNS } from './audit.js';
import { Until } from './ban-terms.js';
import { ChangeBan } from './bans.js';
import { BulkButton } from './bulk.js';
import { FormDialog, TextField } from './form.js';
import { formatNumber } from './format.js';
import { graphql, may, type ResultOf, send, useQuery } from './graphql.js';
import { paths } from './location.js';
import { Button, Copy, CopyValue, Empty, Fact, State, Swatch, Time, Value } from './parts.js';
import { command } from './recipes.js';
import { Header, useTitle } from './screen.js';
import { Answer, Table } from './table.js';
import { type UserChanges, updateRecipe, userRecipe } from './user-recipes.js';
import { namesOf } from './user-table.js';

const USER = graphql(
  `
  query User($appId: ID!, $id: ID!) {
    project(appId: $appId) {
      user(id: $id) {
        id authMethod authValue loginMethod email wallet externalId createdAt lastLogin loginCount removedAt
        ban { createdAt reason expiresAt }
        accounts { id network publicKey checksummed walletType }
      }
      audit(userId: $id, first: 20) {
        nodes { id at actor words requestId userId details }
        pageInfo { hasNextPage }
      }
    }
  }
`,
);

type Project = NonNullable<ResultOf<typeof USER>['project']>;

interface OfUser {
  readonly appId: string;
  readonly user: NonNullable<Project['user']>;
}

/** Everything that is known of one user, and what may be done with it. */
export function User({ appId, id }: { appId: string; id: string }) {
  const query = useQuery(USER, { appId, id });
  useTitle(`User ${id}`);
  return (
    <>
      <p class="crumbs">
        <a href={paths.project(appId, 'users')}>Users</a> / {id}
      </p>
      <Answer query={query} data={query.data?.project}>
        {({ user, audit }) => (
          <>
            {user ? <Known appId={appId} user={user} /> : <Unknown appId={appId} id={id} trail={audit.nodes.length} />}
            <section>
              <h2>Audit trail of this user</h2>
              <Table
                caption="Audit trail"
                rows={audit.nodes}
                rowKey={(entry) => entry.id}
                columns={AUDIT_COLUMNS}
                empty={<p class="quiet">Nothing has been recorded. Logins are not recorded here.</p>}
              />
              {audit.pageInfo.hasNextPage && (
                <a href={`${paths.project(appId, 'audit')}?userId=${id}`}>The whole trail of this user</a>
              )}
            </section>
          </>
        )}
      </Answer>
    </>
  );
}

function Unknown({ appId, id, trail }: { appId: string; id: string; trail: number }) {
  return (
    <>
      <Header title={`User ${id}`} />
      <Empty title="This project has no user with this ID.">
        {trail > 0 && 'It was erased; the audit trail below remains. '}
        <a href={paths.project(appId, 'users')}>Show all users</a>
      </Empty>
    </>
  );
}

function Known({ appId, user }: OfUser) {
  const { id, authMethod, authValue, ban, removedAt } = user;
  const [name = '', other] = namesOf(user);
  const offer = (action: 'remove' | 'restore' | 'ban' | 'unban', tone = '') => (
    <BulkButton appId={appId} action={action} users={[user]} class={tone} />
  );
  return (
    <>
      <Header
        title={<Value>{name}</Value>}
        note={
          <>
            {other && <Value>{other}</Value>} {ban && <State is="banned" />}
            {removedAt && (
              <>
                <State is="removed" /> <Time at={removedAt} />
              </>
            )}
          </>
        }
        recipe={{ ...userRecipe(id), userdir: command('user get', { project: appId, userId: id }) }}
      >
        {removedAt === null && may('edit') && <Button label="Edit…" opens={<EditUser appId={appId} user={user} />} />}
        {removedAt !== null && offer('restore')}
        {ban && may('ban') && (
          <Button
            label="Change ban…"
            opens={<ChangeBan {...{ appId, authMethod, authValue }} reason={ban.reason} expiresAt={ban.expiresAt} />}
          />
        )}
        {offer(ban ? 'unban' : 'ban')}
        {removedAt === null && offer('remove', 'danger')}
      </Header>
      <dl class="facts">
        <Fact name="ID">
          {id} <Copy text={id} what="the user ID" />
        </Fact>
        <Fact name="Method">
          <Swatch method={user.loginMethod} titled /> <Value>{user.authMethod}</Value>
        </Fact>
        <Fact name="Value">
          <CopyValue text={user.authValue} what="the auth value" />
        </Fact>
        <Fact name="Email">{user.email ? <Value>{user.email}</Value> : NONE}</Fact>
        <Fact name="Wallet">{user.wallet ? <Value mono>{user.wallet}</Value> : NONE}</Fact>
        <Fact name="External ID">
          {user.externalId ? <CopyValue text={user.externalId} what="the external ID" /> : NONE}
        </Fact>
        <Fact name="Created">
          <Time at={user.createdAt} />
        </Fact>
        <Fact name="Last login">
          <Time at={user.lastLogin} />
        </Fact>
        <Fact name="Logins">{formatNumber(user.loginCount)}</Fact>
        {ban && (
          <>
            <Fact name="Banned since">
              <Time at={ban.createdAt} />
            </Fact>
            <Fact name="Banned until">
              <Until expiresAt={ban.expiresAt} />
            </Fact>
            <Fact name="Reason of the ban">{ban.reason ? <bdi>{ban.reason}</bdi> : NONE}</Fact>
          </>
        )}
      </dl>
      <section>
        <h2>Accounts</h2>
        <Table
          caption="Accounts"
          rows={user.accounts}
          rowKey={(account) => account.id}
          empty={<p class="quiet">No accounts are linked.</p>}
          columns={[
            { title: 'Network', cell: ({ network }) => network.charAt(0) + network.slice(1).toLowerCase() },
            {
              title: 'Address',
              class: 'address',
              cell: ({ checksummed }) => <CopyValue mono text={checksummed} what="the address" />,
            },
            { title: 'Wallet', cell: ({ walletType }) => walletType.toLowerCase() },
          ]}
        />
      </section>
    </>
  );
}

const UPDATE = graphql(`
  mutation UpdateUser($appId: ID!, $id: ID!, $input: UpdateUserInput!) {
    updateUser(appId: $appId, id: $id, input: $input) { id }
  }
`);

/** The text of a field, if the user has another value. */
const changeOf = (field: keyof UserChanges, text: string, had: string | null): UserChanges =>
  text.trim() === (had ?? '') ? {} : { [field]: text.trim() || null };

/** Changes a user, but not the identity. */
function EditUser({ appId, user }: OfUser) {
  const email = useSignal(user.email ?? '');
  const externalId = useSignal(user.externalId ?? '');
  const logsInByEmail = user.authMethod === 'email';
  const input: UserChanges = {
    ...(!logsInByEmail && changeOf('email', email.value, user.email)),
    ...changeOf('externalId', externalId.value, user.externalId),
  };
  return (
    <FormDialog
      title={`Edit user ${user.id}`}
      submit="Save"
      work={() => send(UPDATE, { appId, id: user.id, input })}
      recipe={updateRecipe(appId, user.id, input)}
      done="The user is changed."
      disabled={Object.keys(input).length === 0}
    >
      {logsInByEmail ? (
        <p>
          <Value>{user.authValue}</Value> is how this user logs in. An identity never changes: whoever has a new email
          registers anew.
        </p>
      ) : (
        <TextField
          label="Email"
          hint="a later login that brings an email replaces it; empty: none"
          text={email}
          name="email"
        />
      )}
      <TextField
        label="External ID"
        hint="the ID in your own system: logins that bring another one fail; empty: none"
        text={externalId}
        name="externalId"
      />
    </FormDialog>
  );
}

const NONE = <span class="quiet">none</span>;
