import { useState } from 'preact/hooks';
import { AuditTable } from './audit-table.js';
import { type BulkAction, BulkDialog } from './bulk.js';
import { formatNumber, METHOD_NAMES } from './format.js';
import { graphql } from './graphql.js';
import { paths, useTitle } from './location.js';
import { Badge, Copy, Empty, Header, Loading, Problem, Table, Time, Value } from './parts.js';
import { useCurrentProject } from './project-frame.js';
import { useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { may } from './session.js';
import { userRecipe } from './user-recipes.js';

const USER = graphql(`
  query User($appId: ID!, $id: ID!) {
    project(appId: $appId) {
      user(id: $id) {
        id authMethod authValue loginMethod email wallet createdAt lastLogin loginCount banned
        accounts { id network publicKey checksummed walletType }
        audit(first: 20) { nodes { id at actor action requestId userId details } pageInfo { hasNextPage } }
      }
      removed: audit(userId: $id, first: 20) { nodes { id at actor action requestId userId details } }
    }
  }
`);

/** Everything that is known of one user, and what may be done with it. */
export function User({ appId, id }: { appId: string; id: string }) {
  const project = useCurrentProject();
  const { data, failure, loading } = useQuery(USER, { appId, id });
  const [action, setAction] = useState<BulkAction | null>(null);
  useTitle(`User ${id}`, project?.name ?? '');
  const user = data?.project?.user;
  const trail = data?.project?.removed.nodes ?? [];
  const target = user ?? { id, authMethod: '', authValue: `User ${id}` };
  return (
    <>
      <p class="crumbs">
        <a href={paths.users(appId)}>Users</a> / {id}
      </p>
      {failure && <Problem failure={failure} retry />}
      {!data && loading && <Loading />}
      {data && !user && (
        <>
          <Header title={`User ${id}`}>
            {may('restore') && trail.length > 0 && (
              <button type="button" onClick={() => setAction('restore')}>
                Restore…
              </button>
            )}
          </Header>
          <Empty title={trail.length > 0 ? 'This user is removed.' : 'This project has no user with this ID.'}>
            {trail.length > 0 && 'The audit trail below outlives it. '}
            <a href={paths.users(appId)}>Show all users</a>
          </Empty>
        </>
      )}
      {user && (
        <>
          <Header title={<Value>{user.authValue}</Value>} note={user.banned && <Badge tone="bad">banned</Badge>}>
            <SameByApi recipe={{ ...userRecipe(id), userdir: ['user', 'get', '--project', appId, id] }} />
            {may('ban') && (
              <button type="button" onClick={() => setAction(user.banned ? 'unban' : 'ban')}>
                {user.banned ? 'Unban…' : 'Ban…'}
              </button>
            )}
            {may('remove') && (
              <button type="button" class="danger" onClick={() => setAction('remove')}>
                Remove…
              </button>
            )}
          </Header>
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
            <dd>{user.email ? <Value>{user.email}</Value> : <span class="quiet">none</span>}</dd>
            <dt>Wallet</dt>
            <dd>{user.wallet ? <Value mono>{user.wallet}</Value> : <span class="quiet">none</span>}</dd>
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
          <section>
            <h2>Accounts</h2>
            {user.accounts.length === 0 ? (
              <p class="quiet">No accounts are linked.</p>
            ) : (
              <Accounts accounts={user.accounts} />
            )}
          </section>
        </>
      )}
      {data?.project && (
        <section>
          <h2>Audit trail of this user</h2>
          {trail.length === 0 ? (
            <p class="quiet">Nothing has been recorded. Logins are not recorded here.</p>
          ) : (
            <AuditTable appId={appId} entries={trail} withUser={false} />
          )}
          {user?.audit.pageInfo.hasNextPage && (
            <a href={`${paths.audit(appId)}?user=${id}`}>The whole trail of this user</a>
          )}
        </section>
      )}
      {action && <BulkDialog appId={appId} action={action} users={[target]} onClose={() => setAction(null)} />}
    </>
  );
}

interface Account {
  readonly id: string;
  readonly network: string;
  readonly checksummed: string;
  readonly walletType: string;
}

function Accounts({ accounts }: { accounts: readonly Account[] }) {
  return (
    <Table caption="Accounts">
      <thead>
        <tr>
          <th scope="col">Network</th>
          <th scope="col">Address</th>
          <th scope="col">Wallet</th>
        </tr>
      </thead>
      <tbody>
        {accounts.map(({ id, network, checksummed, walletType }) => (
          <tr key={id}>
            <td>{network.charAt(0) + network.slice(1).toLowerCase()}</td>
            <td class="address">
              <Value mono>{checksummed}</Value> <Copy text={checksummed} what="the address" />
            </td>
            <td>{walletType.toLowerCase()}</td>
          </tr>
        ))}
      </tbody>
    </Table>
  );
}
