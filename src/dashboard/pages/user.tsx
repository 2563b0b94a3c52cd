import { useState } from 'preact/hooks';
import { AuditTable } from './audit.js';
import { type BulkAction, BulkDialog } from './bulk.js';
import { formatNumber, METHOD_NAMES } from './format.js';
import { graphql, type ResultOf } from './graphql.js';
import { paths } from './location.js';
import { Badge, Button, Copy, Empty, Header, Loading, Problem, Time, Value } from './parts.js';
import { useProjectTitle } from './project-frame.js';
import { useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { may } from './session.js';
import { Table } from './table.js';
import { userRecipe } from './user-recipes.js';

const USER = graphql(`
  query User($appId: ID!, $id: ID!) {
    project(appId: $appId) {
      user(id: $id) {
        id authMethod authValue loginMethod email wallet externalId createdAt lastLogin loginCount banned removedAt
        accounts { id network publicKey checksummed walletType }
      }
      audit(userId: $id, first: 20) {
        nodes { id at actor action requestId userId details }
        pageInfo { hasNextPage }
      }
    }
  }
`);

/** Everything that is known of one user, and what may be done with it. */
export function User({ appId, id }: { appId: string; id: string }) {
  const { data, failure, loading } = useQuery(USER, { appId, id });
  const [action, setAction] = useState<BulkAction | null>(null);
  useProjectTitle(`User ${id}`);
  const user = data?.project?.user;
  const trail = data?.project?.audit;
  const offer = (what: BulkAction, name: string, isAllowed: boolean) =>
    isAllowed && <Button label={name} class={what === 'remove' ? 'danger' : ''} onClick={() => setAction(what)} />;
  return (
    <>
      <p class="crumbs">
        <a href={paths.users(appId)}>Users</a> / {id}
      </p>
      {failure && <Problem failure={failure} retry />}
      {!data && loading && <Loading />}
      {data && !user && (
        <>
          <Header title={`User ${id}`} />
          <Empty title="This project has no user with this ID.">
            {trail && trail.nodes.length > 0 && 'It was erased; the audit trail below remains. '}
            <a href={paths.users(appId)}>Show all users</a>
          </Empty>
        </>
      )}
      {user && (
        <>
          <Header title={<Value>{user.authValue}</Value>} note={<State user={user} />}>
            <SameByApi recipe={{ ...userRecipe(id), userdir: ['user', 'get', '--project', appId, id] }} />
            {offer('restore', 'Restore…', user.removedAt !== null && may('restore'))}
            {offer('ban', 'Ban…', !user.banned && may('ban'))}
            {offer('unban', 'Unban…', user.banned && may('ban'))}
            {offer('remove', 'Remove…', user.removedAt === null && may('remove'))}
          </Header>
          <Facts user={user} />
          <section>
            <h2>Accounts</h2>
            <Table
              caption="Accounts"
              rows={user.accounts}
              rowKey={(account) => account.id}
              empty={<p class="quiet">No accounts are linked.</p>}
              columns={[
                {
                  title: 'Network',
                  cell: ({ network }) => network.charAt(0) + network.slice(1).toLowerCase(),
                },
                {
                  title: 'Address',
                  class: 'address',
                  cell: ({ checksummed }) => (
                    <>
                      <Value mono>{checksummed}</Value> <Copy text={checksummed} what="the address" />
                    </>
                  ),
                },
                { title: 'Wallet', cell: ({ walletType }) => walletType.toLowerCase() },
              ]}
            />
          </section>
          {action && <BulkDialog appId={appId} action={action} users={[user]} onClose={() => setAction(null)} />}
        </>
      )}
      {trail && (
        <section>
          <h2>Audit trail of this user</h2>
          {trail.nodes.length === 0 ? (
            <p class="quiet">Nothing has been recorded. Logins are not recorded here.</p>
          ) : (
            <AuditTable appId={appId} entries={trail.nodes} withUser={false} />
          )}
          {trail.pageInfo.hasNextPage && <a href={`${paths.audit(appId)}?user=${id}`}>The whole trail of this user</a>}
        </section>
      )}
    </>
  );
}

function State({ user: { banned, removedAt } }: { user: { banned: boolean; removedAt: string | null } }) {
  return (
    <>
      {banned && <Badge tone="bad">banned</Badge>}
      {removedAt && (
        <>
          <Badge tone="warn">removed</Badge> <Time at={removedAt} />
        </>
      )}
    </>
  );
}

type Known = NonNullable<NonNullable<ResultOf<typeof USER>['project']>['user']>;

function Facts({ user }: { user: Known }) {
  const none = <span class="quiet">none</span>;
  return (
    <dl class="facts">
      <dt>ID</dt>
      <dd>
        {user.id} <Copy text={user.id} what="the user ID" />
      </dd>
      <dt>Auth method</dt>
      <dd>
        <i class={`swatch ${user.loginMethod.toLowerCase()}`} title={METHOD_NAMES[user.loginMethod]} />{' '}
        <Value>{user.authMethod}</Value>
      </dd>
      <dt>Auth value</dt>
      <dd>
        <Value>{user.authValue}</Value> <Copy text={user.authValue} what="the auth value" />
      </dd>
      <dt>Login email</dt>
      <dd>{user.email ? <Value>{user.email}</Value> : none}</dd>
      <dt>Wallet</dt>
      <dd>{user.wallet ? <Value mono>{user.wallet}</Value> : none}</dd>
      <dt>External ID</dt>
      <dd>
        {user.externalId ? (
          <>
            <Value>{user.externalId}</Value> <Copy text={user.externalId} what="the external ID" />
          </>
        ) : (
          none
        )}
      </dd>
      <dt>Created</dt>
      <dd>
        <Time at={user.createdAt} />
      </dd>
      <dt>Last login</dt>
      <dd>
        <Time at={user.lastLogin} />
      </dd>
      <dt>Logins</dt>
      <dd>{formatNumber(user.loginCount)}</dd>
    </dl>
  );
}
