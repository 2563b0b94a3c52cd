import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { closeDialog, Dialog, openDialog } from './dialog.js';
import { Choices, FormDialog, SelectField, TextField } from './form.js';
import { graphql, may, type ResultOf, useQuery, type VariablesOf } from './graphql.js';
import { Badge, Button, CopyBlock, CopyCode, Empty, Fact, Time } from './parts.js';
import { command, firstRequest, sending } from './recipes.js';
import { ListScreen } from './screen.js';
import type { Column } from './table.js';

const SECRETS = graphql(`
  query Secrets($appId: ID!) {
    project(appId: $appId) { secrets { id label scopes createdAt lastUsedAt expiresAt live } }
  }
`);

const ADD = graphql(`
  mutation AddSecret(
    $appId: ID!, $label: String!, $scopes: [SecretScope!]!, $expiresInSeconds: Float
  ) {
    made: addSecret(
      appId: $appId, label: $label, scopes: $scopes, expiresInSeconds: $expiresInSeconds
    ) { appSecret }
  }
`);

const ROTATE = graphql(`
  mutation RotateSecret($appId: ID!, $label: String!, $overlapSeconds: Float!) {
    made: rotateSecret(appId: $appId, label: $label, overlapSeconds: $overlapSeconds) { appSecret }
  }
`);

const REVOKE = graphql(`mutation RevokeSecret($appId: ID!, $id: ID!) { revokeSecret(appId: $appId, id: $id) { id } }`);

type Scope = VariablesOf<typeof ADD>['scopes'][number];
const SCOPES: Record<Scope, string> = {
  READ: 'list, count, search and get users',
  VERIFY: 'verify wallet addresses',
  WRITE: 'record logins, edit and remove users',
  CHANGES: 'read the feed of changes',
  WEBHOOKS: 'manage webhooks',
};

type Secret = NonNullable<ResultOf<typeof SECRETS>['project']>['secrets'][number];

const COLUMNS: readonly Column<Secret>[] = [
  {
    title: 'Label',
    class: 'main-cell',
    cell: ({ id, label }) => (
      <>
        <bdi>{label}</bdi> <span class="quiet">#{id}</span>
      </>
    ),
  },
  {
    title: 'Scopes',
    class: 'scopes',
    cell: ({ scopes }) => scopes.map((scope) => scope.toLowerCase()).join(', '),
  },
  { title: 'State', class: 'nowrap', cell: (secret) => <State secret={secret} /> },
  { title: 'Last used', class: 'nowrap', cell: ({ lastUsedAt }) => <Time at={lastUsedAt} /> },
  { title: 'Created', class: 'roomy nowrap', cell: ({ createdAt }) => <Time at={createdAt} dayOnly /> },
];

export function Secrets({ appId }: { appId: string }) {
  const query = useQuery(SECRETS, { appId });
  const secrets = query.data?.project?.secrets;
  return (
    <ListScreen
      title="Secrets"
      note="Backends use them with the App ID. Only a hash of each is stored."
      recipe={{ userdir: command('project secrets', { project: appId }) }}
      offers={may('operate') && <Button label="Add secret" class="primary" opens={<AddSecret appId={appId} />} />}
      query={query}
      lines={3}
      found={secrets?.toSorted(byState)}
      rowKey={({ id }) => id}
      rowClass={({ live }) => (live ? '' : 'ended')}
      columns={COLUMNS}
      actions={(secret) =>
        secret.live &&
        may('operate') && (
          <>
            {isNewest(secret, secrets) && (
              <Button
                label="Rotate…"
                of={nameOf(secret)}
                class="small"
                opens={<RotateSecret appId={appId} secret={secret} older={olderThan(secret, secrets)} />}
              />
            )}
            <Button
              label="Revoke…"
              of={nameOf(secret)}
              class="small danger"
              opens={<RevokeSecret appId={appId} secret={secret} />}
            />
          </>
        )
      }
      empty={<Empty title="This project has no secret.">No backend can use it until an admin adds one.</Empty>}
    />
  );
}

/** Live ones first, then those that end, then those that have ended; the newest of each first. */
const byState = (one: Secret, other: Secret) => rank(one) - rank(other) || Number(other.id) - Number(one.id);
const rank = ({ live, expiresAt }: Secret) => (live ? (expiresAt === null ? 0 : 1) : 2);

const nameOf = ({ label, id }: Secret) => `${label} #${id}`;

const olderThan = ({ id, label }: Secret, secrets: readonly Secret[] = []) =>
  secrets.filter((other) => other.label === label && other.live && Number(other.id) < Number(id));

/** A rotation replaces the newest secret of a label. */
const isNewest = ({ id, label }: Secret, secrets: readonly Secret[] = []) =>
  !secrets.some((other) => other.label === label && other.live && Number(other.id) > Number(id));

/** Before its end, it is urgent for so long to replace a secret. */
const SOON_MS = 7 * 86_400_000;

function State({ secret: { live, expiresAt } }: { secret: Secret }) {
  if (!live) return <Badge>ended</Badge>;
  if (expiresAt === null) return <Badge tone="good">live</Badge>;
  return (
    <>
      <Badge tone={Date.parse(expiresAt) - Date.now() < SOON_MS ? 'warn' : 'plain'}>ending</Badge>{' '}
      <Time at={expiresAt} />
    </>
  );
}

interface SecretDialogProps {
  readonly title: string;
  readonly appId: string;
  readonly appSecret: string;
  /** Only a secret with the scope `read` may count users, as the first request does. */
  readonly mayRead?: boolean;
  /** The buttons. They close it without a question. */
  readonly actions: ComponentChildren;
}

/** A new App Secret, shown only here, with a first request that works when pasted. It is not closed without a question unless it was copied. */
export function SecretDialog({ title, appId, appSecret, mayRead = true, actions }: SecretDialogProps) {
  const [isCopied, setCopied] = useState(false);
  const line = firstRequest(appId, appSecret);
  const copied = () => setCopied(true);
  return (
    <Dialog title={title} unsaved={!isCopied && 'The App Secret has not been copied.'} actions={actions}>
      <div class="secret-once">
        <p>
          <strong>Copy the App Secret now.</strong> It is not stored, and cannot be shown again.
        </p>
        <dl class="facts">
          <Fact name="App ID">
            <CopyCode text={appId} what="the App ID" />
          </Fact>
          <Fact name="App Secret" class="secret-value">
            <CopyCode text={appSecret} what="the App Secret" onCopied={copied} />
          </Fact>
        </dl>
        {mayRead && <CopyBlock name="A first request" text={line} what="the first request" onCopied={copied} />}
      </div>
    </Dialog>
  );
}

const newSecret = (appId: string, appSecret: string, scopes: readonly Scope[]) => (
  <SecretDialog
    title="The new secret"
    appId={appId}
    appSecret={appSecret}
    mayRead={scopes.includes('READ')}
    actions={<Button label="I have copied it" class="primary" onClick={closeDialog} />}
  />
);

const DAY = 86_400;
const LIFETIMES = [
  ['', 'until it is revoked'],
  [String(30 * DAY), '30 days'],
  [String(90 * DAY), '90 days'],
  [String(365 * DAY), '1 year'],
] as const;

function AddSecret({ appId }: { appId: string }) {
  const label = useSignal('');
  const [scopes, setScopes] = useState<Scope[]>(['READ']);
  const [lifetime, setLifetime] = useState('');
  const expiresInSeconds = lifetime === '' ? null : Number(lifetime);
  const options = {
    project: appId,
    label: label.value || 'LABEL',
    scope: scopes.join(',').toLowerCase(),
    expiresIn: expiresInSeconds === null ? undefined : `${expiresInSeconds / DAY}d`,
  };
  return (
    <FormDialog
      title="Add secret"
      submit="Add"
      {...sending(ADD, { appId, label: label.value, scopes, expiresInSeconds }, command('project add-secret', options))}
      onDone={({ made }) => openDialog(newSecret(appId, made.appSecret, scopes))}
      disabled={label.value.trim() === '' || scopes.length === 0}
    >
      <TextField
        label="Label"
        hint="Names the backend that uses it; the audit trail shows it."
        text={label}
        name="label"
        required
      />
      <Choices legend="It may" options={SCOPES} showsValues chosen={scopes} onChange={setScopes} />
      <SelectField label="Valid" value={lifetime} options={LIFETIMES} onChange={setLifetime} />
    </FormDialog>
  );
}

/** The seconds for which the old secret stays, as in the command. */
const OVERLAPS = [
  ['86400', 'for 24 hours', '24h'],
  ['3600', 'for 1 hour', '1h'],
  ['604800', 'for 7 days', '7d'],
  ['0', 'not at all: it ends now', ''],
] as const;

type Ending = Pick<Secret, 'id' | 'expiresAt'>;

/** The time for which two secrets are good when one replaces the other: a field to choose it, and its value for a mutation and a command. */
export function useOverlap(label: string, older: readonly Ending[] = [], hint?: string) {
  const [chosen, setChosen] = useState<(typeof OVERLAPS)[number][0]>('86400');
  const option = OVERLAPS.find(([seconds]) => seconds === chosen)?.[2];
  return {
    overlapSeconds: Number(chosen),
    overlap: option || undefined,
    field: (
      <>
        <SelectField label={label} hint={hint} value={chosen} options={OVERLAPS} onChange={setChosen} />
        {older.map(({ id, expiresAt }) => (
          <p key={id} class="quiet">
            The older secret #{id}{' '}
            {option ? (
              <>
                keeps its end: <Time at={expiresAt} />
              </>
            ) : (
              'ends now, too'
            )}
            .
          </p>
        ))}
      </>
    ),
  };
}

interface OneSecret {
  readonly appId: string;
  readonly secret: Secret;
}

function RotateSecret({
  appId,
  secret: { label, scopes, expiresAt },
  older,
}: OneSecret & { older: readonly Secret[] }) {
  const hint = 'Long enough to give the new one to every backend.';
  const { overlapSeconds, overlap, field } = useOverlap('The old secret stays valid', older, hint);
  return (
    <FormDialog
      title={`Rotate “${label}”`}
      submit="Rotate"
      {...sending(
        ROTATE,
        { appId, label, overlapSeconds },
        command('project rotate', { project: appId, label, overlap }),
      )}
      onDone={({ made }) => openDialog(newSecret(appId, made.appSecret, scopes))}
    >
      <p>
        A new secret with the same label and scopes is made
        {expiresAt && (
          <>
            , which ends when this one was to, <Time at={expiresAt} />
          </>
        )}
        . Both are accepted during the overlap.
      </p>
      {field}
      {overlapSeconds === 0 && <p class="banner warn">Every backend that uses the old secret is refused at once.</p>}
    </FormDialog>
  );
}

function RevokeSecret({ appId, secret: { id, label, lastUsedAt } }: OneSecret) {
  return (
    <FormDialog
      title={`Revoke “${label}” #${id}?`}
      submit="Revoke"
      danger
      {...sending(REVOKE, { appId, id }, command('project revoke', { project: appId, secretId: id }))}
    >
      <p>Every backend that uses this secret is refused at once. This cannot be undone.</p>
      <p>
        Last used: <Time at={lastUsedAt} />
      </p>
    </FormDialog>
  );
}
