import { signal, useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Choices, FormDialog, IdentityFields, TextField, UndoOffer } from './form.js';
import { api, graphql, inProject, may, type ResultOf, send, type VariablesOf } from './graphql.js';
import { Badge, Button, CopyValue, Swatch, Time, Value } from './parts.js';
import { asked, command, type Recipe } from './recipes.js';
import { Table } from './table.js';

/** The identities and accounts of a user, and how they are linked and unlinked. */

export const IDENTITIES = graphql(`
  fragment Identities on User {
    id authMethod authValue removedAt metadata
    identities { authMethod authValue loginMethod email emailVerified createdAt lastLogin isPrimary }
    accounts { id network publicKey checksummed walletType }
  }
`);

export interface OfUser {
  readonly appId: string;
  readonly user: ResultOf<typeof IDENTITIES>;
}
type Identity = OfUser['user']['identities'][number];
type GivenIdentity = Pick<Identity, 'authMethod' | 'authValue'>;
type Account = OfUser['user']['accounts'][number];

const LINK = inProject(
  api(`mutation LinkIdentity($userId: ID!, $input: LinkIdentityInput!) {
    linkIdentity(userId: $userId, input: $input) { user { id } }
  }`),
);
const UNLINK = inProject(
  api(`mutation UnlinkIdentity($userId: ID!, $identity: IdentityInput!) {
    unlinkIdentity(userId: $userId, identity: $identity) { user { id } }
  }`),
);
const UNLINK_ACCOUNT = inProject(
  api(`mutation UnlinkAccount($userId: ID!, $address: String!) {
    unlinkAccount(userId: $userId, address: $address) { user { id } }
  }`),
);

type LinkInput = VariablesOf<typeof LINK>['input'];

const namedBy = ({ authMethod, authValue }: GivenIdentity) => ({ authMethod, authValue });
/** The variables of what links an identity to a user, or takes it from the user. */
const linkOf = ({ appId, user }: OfUser, input: LinkInput) => ({
  project: appId,
  userId: user.id,
  input,
});
const unlinkOf = ({ appId, user }: OfUser, identity: GivenIdentity) => ({
  project: appId,
  userId: user.id,
  identity: namedBy(identity),
});
const linkAgain = (of: OfUser, { email, emailVerified, isPrimary, ...identity }: Identity) =>
  send(LINK, linkOf(of, { ...namedBy(identity), email, emailVerified, primary: isPrimary }));

/** An identity to link, of which nothing is null. */
interface ToLink extends GivenIdentity {
  readonly email?: string;
  readonly emailVerified?: boolean;
  readonly primary?: boolean;
}

function linkRecipe(of: OfUser, input: ToLink): Recipe {
  const { authMethod: method, authValue: value, ...options } = input;
  return {
    ...asked(LINK, linkOf(of, input)),
    userdir: command('user link', { project: of.appId, userId: of.user.id, method, value, ...options }),
  };
}

const makePrimary = (of: OfUser, identity: GivenIdentity) =>
  send(LINK, linkOf(of, { ...namedBy(identity), primary: true }));

/** The last change of identities that can be taken back, as long as this page is open. */
const lastChange = signal<{ userId: string; text: string; undo: () => Promise<unknown> } | null>(null);
const forget = () => {
  lastChange.value = null;
};

/** Does something to the identities of a user, and offers to take it back. */
async function change(of: OfUser, text: string, work: Promise<unknown>, undo: (() => Promise<unknown>) | null) {
  const result = await work;
  lastChange.value = undo && { userId: of.user.id, text, undo };
  return result;
}

export function Identities(of: OfUser) {
  const { user } = of;
  const maySo = may('edit') && user.removedAt === null;
  return (
    <section>
      <div class="section-header">
        <h2>Identities</h2>
        {maySo && <Button label="Link…" opens={<LinkIdentity {...of} />} />}
      </div>
      {lastChange.value?.userId === user.id && (
        <UndoOffer
          text={lastChange.value.text}
          undo={() => lastChange.value?.undo().then(forget) ?? Promise.resolve()}
          forget={forget}
        />
      )}
      <Table
        caption="Identities"
        rows={user.identities}
        rowKey={({ authMethod, authValue }) => `${authMethod} ${authValue}`}
        columns={[
          {
            title: 'Identity',
            class: 'main-cell',
            hover: ({ authValue }) => authValue,
            cell: ({ loginMethod, authMethod, authValue, isPrimary }) => (
              <>
                <Swatch method={loginMethod} titled /> <bdi>{authValue}</bdi>
                <span class="second-line">
                  <bdi>{authMethod}</bdi> {isPrimary && '· primary'}
                </span>
              </>
            ),
          },
          {
            title: 'Email',
            class: 'reason',
            cell: ({ email, emailVerified }) =>
              email && (
                <>
                  <Value>{email}</Value>{' '}
                  {emailVerified !== null && (
                    <Badge tone={emailVerified ? 'good' : 'warn'}>{emailVerified ? 'verified' : 'not verified'}</Badge>
                  )}
                </>
              ),
          },
          { title: 'Since', class: 'nowrap', cell: ({ createdAt }) => <Time at={createdAt} dayOnly /> },
          { title: 'Last login', class: 'nowrap', cell: ({ lastLogin }) => <Time at={lastLogin} dayOnly /> },
        ]}
        actions={(identity) =>
          maySo &&
          user.identities.length > 1 && (
            <>
              {!identity.isPrimary && (
                <Button
                  label="Make primary…"
                  of={identity.authValue}
                  class="small"
                  opens={<MakePrimary {...of} identity={identity} />}
                />
              )}
              <Button
                label="Unlink…"
                of={identity.authValue}
                class="small"
                opens={<UnlinkIdentity {...of} identity={identity} />}
              />
            </>
          )
        }
      />
    </section>
  );
}

type LinkOption = 'emailVerified' | 'primary';

function LinkIdentity(of: OfUser) {
  const { user } = of;
  const [authMethod, authValue, email] = [useSignal('google'), useSignal(''), useSignal('')];
  const [options, setOptions] = useState<LinkOption[]>([]);
  const primary = options.includes('primary');
  const method = authMethod.value.trim();
  const identity = { authMethod: method || 'METHOD', authValue: authValue.value || 'VALUE' };
  const given = {
    ...identity,
    ...(email.value.trim() && { email: email.value.trim() }),
    ...(options.includes('emailVerified') && { emailVerified: true }),
    ...(primary && { primary }),
  };
  const undo = async () => {
    if (primary) await makePrimary(of, user);
    await send(UNLINK, unlinkOf(of, identity));
  };
  return (
    <FormDialog
      title="Link an identity"
      submit="Link"
      work={() => change(of, 'The identity is linked.', send(LINK, linkOf(of, given)), undo)}
      recipe={linkRecipe(of, given)}
      disabled={!method || !authValue.value}
    >
      <p>
        From then on it logs in as this user. Link only what the person has proved to be theirs: an equal email proves
        nothing.
      </p>
      <IdentityFields method={authMethod} value={authValue} />
      {method !== 'email' && (
        <TextField label="Email" hint="that the provider reported; may be empty" text={email} name="email" />
      )}
      <Choices
        legend="Options"
        options={{ emailVerified: 'The email is verified', primary: 'It becomes the primary identity' }}
        chosen={options}
        onChange={setOptions}
      />
    </FormDialog>
  );
}

type OfIdentity = OfUser & { readonly identity: Identity };

export const Named = ({ authMethod, authValue }: GivenIdentity) => (
  <>
    <bdi>{authValue}</bdi> <span class="quiet">({authMethod})</span>
  </>
);

function MakePrimary({ identity, ...of }: OfIdentity) {
  const text = 'Another identity is primary.';
  return (
    <FormDialog
      title="Make this identity primary?"
      submit="Make primary"
      work={() => change(of, text, makePrimary(of, identity), () => makePrimary(of, of.user))}
      recipe={linkRecipe(of, { ...namedBy(identity), primary: true })}
    >
      <p class="long">
        <Named {...identity} /> is then what lists, filters and REST show of the user. <Named {...of.user} /> stays
        linked.
      </p>
    </FormDialog>
  );
}

function UnlinkIdentity({ identity, ...of }: OfIdentity) {
  return (
    <FormDialog
      title="Unlink this identity?"
      submit="Unlink"
      danger
      work={() =>
        change(of, 'The identity is unlinked.', send(UNLINK, unlinkOf(of, identity)), () => linkAgain(of, identity))
      }
      recipe={{
        ...asked(UNLINK, unlinkOf(of, identity)),
        userdir: command('user unlink', {
          project: of.appId,
          userId: of.user.id,
          method: identity.authMethod,
          value: identity.authValue,
        }),
      }}
    >
      <p class="long">
        <Named {...identity} /> no longer logs in as this user, and may register anew.{' '}
        {identity.isPrimary && 'The oldest other identity becomes primary.'}{' '}
        {identity.authMethod === 'wallet' && 'Its account goes with it: verification says no from then on.'}
      </p>
    </FormDialog>
  );
}

export function Accounts(of: OfUser) {
  const { user } = of;
  return (
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
        actions={(account) =>
          may('edit') &&
          user.removedAt === null && (
            <Button
              label="Unlink…"
              of={account.checksummed}
              class="small"
              opens={<UnlinkAccount {...of} account={account} />}
            />
          )
        }
      />
    </section>
  );
}

function UnlinkAccount({ account, ...of }: OfUser & { account: Account }) {
  const { appId, user } = of;
  const address = account.publicKey;
  const isSame = ({ authMethod, authValue }: Identity) =>
    authMethod === 'wallet' && authValue.toLowerCase() === address.toLowerCase();
  const identity = user.identities.find(isSame);
  const undo = identity ? () => linkAgain(of, identity) : null;
  const unlinking = { project: appId, userId: user.id, address };
  const work = () => send(UNLINK_ACCOUNT, unlinking);
  return (
    <FormDialog
      title="Unlink this account?"
      submit="Unlink"
      danger
      work={() => change(of, 'The account is unlinked.', work(), undo)}
      recipe={{
        ...asked(UNLINK_ACCOUNT, unlinking),
        userdir: command('user unlink', { project: appId, userId: user.id, address }),
      }}
      done="The account is unlinked."
    >
      <p class="long">
        <bdi class="mono">{account.checksummed}</bdi>: verification says no from then on.{' '}
        {identity
          ? 'The identity that logs in by it goes with it.'
          : 'It cannot be undone here: your backend links it again with a login.'}
      </p>
    </FormDialog>
  );
}
