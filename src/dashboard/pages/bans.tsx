import { useState } from 'preact/hooks';
import { Dialog, DialogForm } from './dialog.js';
import { graphql, send } from './graphql.js';
import { paths, useTitle, useUrlState } from './location.js';
import { CursorPager } from './pager.js';
import { announce, Empty, Field, FilterInput, Header, Loading, Problem, Table, Time } from './parts.js';
import { useCurrentProject } from './project-frame.js';
import { useAction, useQuery } from './query.js';
import { SameByApi, SameByApiDetails } from './recipes.js';
import { may } from './session.js';
import { banRecipe } from './user-recipes.js';

const BANS = graphql(`
  query Bans($appId: ID!, $search: String, $after: String) {
    project(appId: $appId) {
      bans(search: $search, first: 50, after: $after) {
        nodes { authMethod authValue createdAt userId }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
`);

const BAN = graphql(`
  mutation BanIdentity($appId: ID!, $authMethod: String!, $authValue: String!) {
    banIdentity(appId: $appId, authMethod: $authMethod, authValue: $authValue) { createdAt }
  }
`);

const UNBAN = graphql(`
  mutation UnbanIdentity($appId: ID!, $authMethod: String!, $authValue: String!) {
    unbanIdentity(appId: $appId, authMethod: $authMethod, authValue: $authValue)
  }
`);

interface Identity {
  readonly authMethod: string;
  readonly authValue: string;
}

/** The identities whose logins are refused. */
export function Bans({ appId }: { appId: string }) {
  const project = useCurrentProject();
  const { query, go, href } = useUrlState();
  const search = query['search'] ?? null;
  const { data, failure, loading } = useQuery(BANS, { appId, search, after: query['after'] ?? null });
  const [adding, setAdding] = useState(false);
  const [lifting, setLifting] = useState<Identity | null>(null);
  useTitle('Bans', project?.name ?? '');
  const bans = data?.project?.bans;
  return (
    <>
      <Header title="Bans" note="Logins and registrations of these identities are refused.">
        <SameByApi recipe={{ userdir: ['user', 'bans', '--project', appId] }} />
        {may('ban') && (
          <button type="button" class="primary" onClick={() => setAdding(true)}>
            Ban an identity
          </button>
        )}
      </Header>
      <form class="filters" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
        <FilterInput
          label="Identity begins with"
          value={search ?? ''}
          onCommit={(value) => go({ search: value, after: null })}
        />
      </form>
      <Problem failure={failure} retry />
      {!bans && loading && <Loading />}
      {bans?.nodes.length === 0 && (
        <Empty title={search ? 'No ban matches.' : 'Nothing is banned.'}>
          {search ? (
            <a href={href({ search: null, after: null })}>Show all bans</a>
          ) : (
            'Ban a user on its page, or an identity that has no user here.'
          )}
        </Empty>
      )}
      {bans && bans.nodes.length > 0 && (
        <Table caption="Bans" busy={loading}>
          <thead>
            <tr>
              <th scope="col">Identity</th>
              <th scope="col">Method</th>
              <th scope="col" class="number">
                User
              </th>
              <th scope="col">Since</th>
              <th scope="col">
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {bans.nodes.map((ban) => (
              <tr key={`${ban.authMethod}:${ban.authValue}`}>
                <td class="main-cell" title={ban.authValue}>
                  <bdi>{ban.authValue}</bdi>
                </td>
                <td class="method">
                  <bdi>{ban.authMethod}</bdi>
                </td>
                <td class="number">{ban.userId && <a href={paths.user(appId, ban.userId)}>{ban.userId}</a>}</td>
                <td class="nowrap">
                  <Time at={ban.createdAt} />
                </td>
                <td class="row-actions">
                  {may('ban') && (
                    <button type="button" class="small" onClick={() => setLifting(ban)}>
                      Unban…
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      {bans && <CursorPager pageInfo={bans.pageInfo} />}
      {adding && <BanIdentity appId={appId} onClose={() => setAdding(false)} />}
      {lifting && <LiftBan appId={appId} identity={lifting} onClose={() => setLifting(null)} />}
    </>
  );
}

function BanIdentity({ appId, onClose }: { appId: string; onClose: () => void }) {
  const [authMethod, setMethod] = useState('email');
  const [authValue, setValue] = useState('');
  const ban = useAction(() => send(BAN, { appId, authMethod, authValue }));
  const submit = async () => {
    if (!(await ban.run())) return;
    announce('The identity is banned.');
    onClose();
  };
  return (
    <Dialog title="Ban an identity" onClose={onClose} busy={ban.busy}>
      <DialogForm
        submit="Ban"
        danger
        onSubmit={submit}
        onCancel={onClose}
        {...ban}
        disabled={!authMethod || !authValue}
      >
        <p>Also if it has no user in this project: it cannot log in or register.</p>
        <Field label="Auth method" hint="email, passkey, wallet, or the name of a social provider">
          <input
            value={authMethod}
            required
            list="auth-methods"
            onInput={(event) => setMethod(event.currentTarget.value.trim())}
          />
        </Field>
        <datalist id="auth-methods">
          {['email', 'passkey', 'wallet', 'google', 'apple', 'github'].map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <Field label="Auth value" hint="the login email, the address, or the ID at the provider">
          <input value={authValue} required onInput={(event) => setValue(event.currentTarget.value)} />
        </Field>
        <SameByApiDetails recipe={banRecipe(appId, 'ban', authMethod || 'METHOD', authValue || 'VALUE')} />
      </DialogForm>
    </Dialog>
  );
}

function LiftBan({ appId, identity, onClose }: { appId: string; identity: Identity; onClose: () => void }) {
  const { authMethod, authValue } = identity;
  const lift = useAction(() => send(UNBAN, { appId, authMethod, authValue }));
  const submit = async () => {
    if (!(await lift.run())) return;
    announce('The ban is lifted.');
    onClose();
  };
  return (
    <Dialog title="Unban this identity?" onClose={onClose} busy={lift.busy}>
      <DialogForm submit="Unban" onSubmit={submit} onCancel={onClose} {...lift}>
        <p class="long">
          <bdi>{authValue}</bdi> <span class="quiet">({authMethod})</span> may log in and register again.
        </p>
        <SameByApiDetails recipe={banRecipe(appId, 'unban', authMethod, authValue)} />
      </DialogForm>
    </Dialog>
  );
}
