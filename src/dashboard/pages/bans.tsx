import { useSignal } from '@preact/signals';
import { useDialog } from './dialog.js';
import { FilterInput, FormDialog, TextField } from './form.js';
import { graphql, send } from './graphql.js';
import { paths, useUrlState } from './location.js';
import { Button, Empty, Header, Time } from './parts.js';
import { useProjectTitle } from './project-frame.js';
import { useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { may } from './session.js';
import { Answer, CursorPager, Table } from './table.js';
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
  const { query: url, go, href } = useUrlState();
  const search = url['search'] ?? null;
  const query = useQuery(BANS, { appId, search, after: url['after'] ?? null });
  const [dialog, open] = useDialog();
  useProjectTitle('Bans');
  return (
    <>
      <Header title="Bans" note="Logins and registrations of these identities are refused.">
        <SameByApi recipe={{ userdir: ['user', 'bans', '--project', appId] }} />
        {may('ban') && (
          <Button label="Ban an identity" class="primary" onClick={() => open(<BanIdentity appId={appId} />)} />
        )}
      </Header>
      <form class="filters" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
        <FilterInput
          label="Identity begins with"
          value={search ?? ''}
          onCommit={(value) => go({ search: value, after: null })}
        />
      </form>
      <Answer query={query} data={query.data?.project?.bans}>
        {({ nodes, pageInfo }) => (
          <>
            <Table
              caption="Bans"
              busy={query.loading}
              rows={nodes}
              rowKey={({ authMethod, authValue }) => `${authMethod}:${authValue}`}
              empty={
                search ? (
                  <Empty title="No ban matches.">
                    <a href={href({ search: null, after: null })}>Show all bans</a>
                  </Empty>
                ) : (
                  <Empty title="Nothing is banned.">
                    Ban a user on its page, or an identity that has no user here.
                  </Empty>
                )
              }
              columns={[
                {
                  title: 'Identity',
                  class: 'main-cell',
                  hover: ({ authValue }) => authValue,
                  cell: ({ authValue }) => <bdi>{authValue}</bdi>,
                },
                { title: 'Method', class: 'method', cell: ({ authMethod }) => <bdi>{authMethod}</bdi> },
                {
                  title: 'User',
                  class: 'number',
                  cell: ({ userId }) => userId && <a href={paths.user(appId, userId)}>{userId}</a>,
                },
                { title: 'Since', class: 'nowrap', cell: ({ createdAt }) => <Time at={createdAt} /> },
              ]}
              actions={(ban) => {
                const lift = () => open(<LiftBan appId={appId} identity={ban} />);
                return may('ban') && <Button label="Unban…" class="small" onClick={lift} />;
              }}
            />
            <CursorPager pageInfo={pageInfo} />
          </>
        )}
      </Answer>
      {dialog}
    </>
  );
}

function BanIdentity({ appId }: { appId: string }) {
  const authMethod = useSignal('email');
  const authValue = useSignal('');
  const method = authMethod.value.trim();
  return (
    <FormDialog
      title="Ban an identity"
      submit="Ban"
      danger
      work={() => send(BAN, { appId, authMethod: method, authValue: authValue.value })}
      recipe={banRecipe(appId, 'ban', method || 'METHOD', authValue.value || 'VALUE')}
      done="The identity is banned."
      disabled={!method || !authValue.value}
    >
      <p>Also if it has no user in this project: it cannot log in or register.</p>
      <TextField
        label="Auth method"
        hint="email, passkey, wallet, or the name of a social provider"
        text={authMethod}
        required
        list="auth-methods"
      />
      <datalist id="auth-methods">
        {['email', 'passkey', 'wallet', 'google', 'apple', 'github'].map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <TextField
        label="Auth value"
        hint="the login email, the address, or the ID at the provider"
        text={authValue}
        required
      />
    </FormDialog>
  );
}

function LiftBan({ appId, identity }: { appId: string; identity: Identity }) {
  const { authMethod, authValue } = identity;
  return (
    <FormDialog
      title="Unban this identity?"
      submit="Unban"
      work={() => send(UNBAN, { appId, authMethod, authValue })}
      recipe={banRecipe(appId, 'unban', authMethod, authValue)}
      done="The ban is lifted."
    >
      <p class="long">
        <bdi>{authValue}</bdi> <span class="quiet">({authMethod})</span> may log in and register again.
      </p>
    </FormDialog>
  );
}
