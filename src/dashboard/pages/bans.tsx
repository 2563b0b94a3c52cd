import { useSignal } from '@preact/signals';
import {
  commandTerms,
  type GivenTerms,
  givenTerms,
  type PresentTerms,
  TermsFields,
  Until,
  useTerms,
} from './ban-terms.js';
import { FilterForm, FilterInput, FormDialog, IdentityFields } from './form.js';
import { api, graphql, inProject, may, useQuery } from './graphql.js';
import { paths, useUrlState } from './location.js';
import { Button, Empty, Time } from './parts.js';
import { command, sending } from './recipes.js';
import { ListScreen } from './screen.js';

const BANS = graphql(`
  query Bans($appId: ID!, $search: String, $after: String) {
    project(appId: $appId) {
      bans(search: $search, first: 50, after: $after) {
        nodes { authMethod authValue createdAt reason expiresAt bannedUserId userId }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
`);

const BAN = inProject(
  api(`mutation BanIdentity($identity: IdentityInput!, $reason: String, $expiresAt: String, $untilLifted: Boolean) {
    banIdentity(identity: $identity, reason: $reason, expiresAt: $expiresAt, untilLifted: $untilLifted) { changed }
  }`),
);

const UNBAN = inProject(
  api(`mutation UnbanIdentity($identity: IdentityInput!) { unbanIdentity(identity: $identity) { changed } }`),
);

/** The ban of an identity with its variables, as the page, a backend and a command ask it. */
function banning({ appId, authMethod, authValue }: OfIdentity, terms: GivenTerms) {
  const variables = { project: appId, identity: { authMethod, authValue }, ...terms };
  const line = { project: appId, method: authMethod, value: authValue, ...commandTerms(terms) };
  return sending(BAN, variables, command('user ban', line));
}

/** The identities whose logins are refused. */
export function Bans({ appId }: { appId: string }) {
  const url = useUrlState().query;
  const { search = null, after = null } = url;
  const query = useQuery(BANS, { appId, search, after });
  return (
    <ListScreen
      title="Bans"
      note="Logins and registrations of these identities are refused."
      recipe={{ userdir: command('user bans', { project: appId, search: search ?? undefined }) }}
      offers={may('ban') && <Button label="Ban an identity" class="primary" opens={<BanIdentity appId={appId} />} />}
      filter={
        <FilterForm names={['search']}>
          <FilterInput label="Identity contains" name="search" />
        </FilterForm>
      }
      query={query}
      found={query.data?.project?.bans}
      rowKey={({ authMethod, authValue, bannedUserId }) => `${authMethod}:${authValue}:${bannedUserId}`}
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
        { title: 'Since', class: 'nowrap', cell: ({ createdAt }) => <Time at={createdAt} dayOnly /> },
        { title: 'Until', class: 'nowrap', cell: ({ expiresAt }) => <Until expiresAt={expiresAt} /> },
        { title: 'Reason', class: 'reason', cell: ({ reason }) => reason && <bdi>{reason}</bdi> },
      ]}
      actions={({ authMethod, authValue, reason, expiresAt, bannedUserId }) =>
        bannedUserId ? (
          <a href={paths.user(appId, bannedUserId)}>ban of user {bannedUserId}</a>
        ) : (
          may('ban') && (
            <>
              <Button
                label="Change…"
                of={authValue}
                class="small"
                opens={
                  <ChangeBan
                    appId={appId}
                    authMethod={authMethod}
                    authValue={authValue}
                    reason={reason}
                    expiresAt={expiresAt}
                  />
                }
              />
              <Button
                label="Unban…"
                of={authValue}
                class="small"
                opens={<LiftBan appId={appId} authMethod={authMethod} authValue={authValue} />}
              />
            </>
          )
        )
      }
      empty={
        search ? (
          <Empty title="No ban matches." />
        ) : (
          <Empty title="Nothing is banned.">Ban a user on its page, or an identity that has no user here.</Empty>
        )
      }
    />
  );
}

function BanIdentity({ appId }: { appId: string }) {
  const authMethod = useSignal('email');
  const authValue = useSignal('');
  const method = authMethod.value.trim();
  const terms = useTerms();
  const identity = { authMethod: method || 'METHOD', authValue: authValue.value || 'VALUE' };
  return (
    <FormDialog
      title="Ban an identity"
      submit="Ban"
      danger
      {...banning({ appId, ...identity }, givenTerms(terms))}
      done="The identity is banned."
      disabled={!method || !authValue.value}
    >
      <p>
        Also if it has no user in this project: it cannot log in or register. A ban that it has keeps what you leave
        empty.
      </p>
      <IdentityFields method={authMethod} value={authValue} />
      <TermsFields {...terms} />
    </FormDialog>
  );
}

interface OfIdentity {
  readonly appId: string;
  readonly authMethod: string;
  readonly authValue: string;
}

/** Gives a ban another reason and end. */
function ChangeBan({ reason, expiresAt, ...ban }: OfIdentity & PresentTerms) {
  const terms = useTerms({ reason, expiresAt });
  return (
    <FormDialog title="Change this ban" submit="Change" {...banning(ban, givenTerms(terms))} done="The ban is changed.">
      <p class="long">
        <bdi>{ban.authValue}</bdi> <span class="quiet">({ban.authMethod})</span> stays banned.
      </p>
      <TermsFields {...terms} />
    </FormDialog>
  );
}

export function LiftBan(ban: OfIdentity) {
  const { appId, ...identity } = ban;
  const unbanning = { project: appId, identity };
  return (
    <FormDialog
      title="Unban this identity?"
      submit="Unban"
      {...sending(
        UNBAN,
        unbanning,
        command('user unban', { project: appId, method: ban.authMethod, value: ban.authValue }),
      )}
      done="The ban is lifted."
    >
      <p class="long">
        <bdi>{ban.authValue}</bdi> <span class="quiet">({ban.authMethod})</span> may log in and register again, unless
        its user is banned.
      </p>
    </FormDialog>
  );
}
