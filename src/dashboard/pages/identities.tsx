import { signal, useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { Choices, FormDialog, IdentityFields, TextField, UndoOffer } from './form.js';
import { api, graphql, inProject, may, type ResultOf, type VariablesOf } from './graphql.js';
import { Badge, Button, CopyValue, Swatch, Time, Value } from './parts.js';
import { command, type Sending, sending } from './recipes.js';
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

/** Links an identity to a user. */
function link({ appId, user }: OfUser, input: LinkInput) {
  const { authMethod: method, authValue: value, email, emailVerified, primary } = input;
  return sending(
    LINK,
    { project: appId, userId: user.id, input },
    command('user link', {
      project: appId,
      userId: user.id,
      method,
      value,
      email: email ?? undefined,
      emailVerified: emailVerified ?? undefined,
      primary: primary ?? undefined,
    }),
  );
}

const makePrimary = (of: OfUser, identity: GivenIdentity) => link(of, { ...namedBy(identity), primary: true });

const linkAgain = (of: OfUser, { email, emailVerified, isPrimary, ...identity }: Identity) =>
  link(of, { ...namedBy(identity), email, emailVerified, primary: isPrimary });

function unlink({ appId, user }: OfUser, { authMethod, authValue }: GivenIdentity) {
  return sending(
    UNLINK,
    { project: appId, userId: user.id, identity: { authMethod, authValue } },
    command('user unlink', { project: appId, userId: user.id, method: authMethod, value: authValue }),
  );
}

/** The last change of identities that can be taken back, as long as this page is open. */
const lastChange = signal<{ userId: string; text: string; undo: () => Promise<unknown> } | null>(null);
const forget = () => {
  lastChange.value = null;
};

/** A change of the identities of a user that offers to be taken back, unless `undo` is null. */
function undoable<Result>(
  { user }: OfUser,
  text: string,
  { work, recipe }: Sending<Result>,
  undo: (() => Promise<unknown>) | null,
): Sending<Result> {
  return {
    recipe,
    async work() {
      const result = await work();
      lastChange.value = undo && { userId: user.id, text, undo };
      return result;
    },
  };
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
    if (primary) await makePrimary(of, user).work();
    await unlink(of, identity).work();
  };
  return (
    <FormDialog
      title="Link an identity"
      submit="Link"
      {...undoable(of, 'The identity is linked.', link(of, given), undo)}
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
  const undo = () => makePrimary(of, of.user).work();
  return (
    <FormDialog
      title="Make this identity primary?"
      submit="Make primary"
      {...undoable(of, 'Another identity is primary.', makePrimary(of, identity), undo)}
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
      {...undoable(of, 'The identity is unlinked.', unlink(of, identity), () => linkAgain(of, identity).work())}
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
  const undo = identity ? () => linkAgain(of, identity).work() : null;
  const unlinking = sending(
    UNLINK_ACCOUNT,
    { project: appId, userId: user.id, address },
    command('user unlink', { project: appId, userId: user.id, address }),
  );
  return (
    <FormDialog
      title="Unlink this account?"
      submit="Unlink"
      danger
      {...undoable(of, 'The account is unlinked.', unlinking, undo)}
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
