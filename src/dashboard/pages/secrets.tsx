import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog, DialogForm } from './dialog.js';
import { graphql, type Operation, send, type VariablesOf } from './graphql.js';
import { useTitle } from './location.js';
import { Badge, CountDown, Empty, Field, Header, Loading, Problem, Table, Time } from './parts.js';
import { useCurrentProject } from './project-frame.js';
import { useAction, useQuery } from './query.js';
import { type Recipe, SameByApi, SameByApiDetails } from './recipes.js';
import { SecretDialog } from './secret-once.js';
import { may } from './session.js';

const SECRETS = graphql(`
  query Secrets($appId: ID!) {
    project(appId: $appId) { secrets { id label scopes documentsOnly createdAt lastUsedAt expiresAt live } }
  }
`);

const ADD = graphql(`
  mutation AddSecret(
    $appId: ID!, $label: String!, $scopes: [SecretScope!]!, $expiresInSeconds: Int, $documentsOnly: Boolean!
  ) {
    made: addSecret(
      appId: $appId, label: $label, scopes: $scopes, expiresInSeconds: $expiresInSeconds, documentsOnly: $documentsOnly
    ) { appSecret }
  }
`);

const ROTATE = graphql(`
  mutation RotateSecret($appId: ID!, $label: String!, $overlapSeconds: Int!) {
    made: rotateSecret(appId: $appId, label: $label, overlapSeconds: $overlapSeconds) { appSecret }
  }
`);

const REVOKE = graphql(`mutation RevokeSecret($appId: ID!, $id: ID!) { revokeSecret(appId: $appId, id: $id) { id } }`);

type Scope = VariablesOf<typeof ADD>['scopes'][number];
const SCOPES: Record<Scope, string> = {
  READ: 'list, count, search and get users',
  VERIFY: 'verify wallet addresses',
  WRITE: 'record logins and remove users',
  CHANGES: 'read the feed of changes',
};

interface Secret {
  readonly id: string;
  readonly label: string;
  readonly scopes: readonly Scope[];
  readonly documentsOnly: boolean;
  readonly createdAt: string;
  readonly lastUsedAt: string | null;
  readonly expiresAt: string | null;
  readonly live: boolean;
}

type Doing = { readonly what: 'add' } | { readonly what: 'rotate' | 'revoke'; readonly secret: Secret };

/** The App Secrets of a project, without their values. */
export function Secrets({ appId }: { appId: string }) {
  const project = useCurrentProject();
  const { data, failure, loading } = useQuery(SECRETS, { appId });
  const [doing, setDoing] = useState<Doing | null>(null);
  useTitle('Secrets', project?.name ?? '');
  const secrets = data?.project?.secrets;
  const close = () => setDoing(null);
  return (
    <>
      <Header title="Secrets" note="Backends use them with the App ID. Only a hash of each is stored.">
        <SameByApi recipe={{ userdir: ['project', 'secrets', appId] }} />
        {may('operate') && (
          <button type="button" class="primary" onClick={() => setDoing({ what: 'add' })}>
            Add secret
          </button>
        )}
      </Header>
      <Problem failure={failure} retry />
      {!secrets && loading && <Loading lines={3} />}
      {secrets?.length === 0 && (
        <Empty title="This project has no secret.">No backend can use it until an admin adds one.</Empty>
      )}
      {secrets && secrets.length > 0 && (
        <Table caption="Secrets" busy={loading}>
          <thead>
            <tr>
              <th scope="col">Label</th>
              <th scope="col">Scopes</th>
              <th scope="col">State</th>
              <th scope="col">Last used</th>
              <th scope="col">Created</th>
              <th scope="col">
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {secrets.toSorted(byState).map((secret) => (
              <tr key={secret.id} class={secret.live ? '' : 'ended'}>
                <td class="main-cell">
                  <bdi>{secret.label}</bdi> <span class="quiet">#{secret.id}</span>
                </td>
                <td class="scopes">
                  {secret.scopes.map((scope) => scope.toLowerCase()).join(', ')}
                  {secret.documentsOnly && <Badge>documents only</Badge>}
                </td>
                <td class="nowrap">
                  <State secret={secret} />
                </td>
                <td class="nowrap">
                  <Time at={secret.lastUsedAt} />
                </td>
                <td class="nowrap">
                  <Time at={secret.createdAt} dayOnly />
                </td>
                <td class="row-actions">
                  {secret.live && may('operate') && (
                    <>
                      {isNewest(secret, secrets) && (
                        <button type="button" class="small" onClick={() => setDoing({ what: 'rotate', secret })}>
                          Rotate…
                        </button>
                      )}
                      <button type="button" class="small danger" onClick={() => setDoing({ what: 'revoke', secret })}>
                        Revoke…
                      </button>
                    </>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      {doing?.what === 'add' && <AddSecret appId={appId} onClose={close} />}
      {doing?.what === 'rotate' && <RotateSecret appId={appId} secret={doing.secret} onClose={close} />}
      {doing?.what === 'revoke' && <RevokeSecret appId={appId} secret={doing.secret} onClose={close} />}
    </>
  );
}

/** Live ones first, then those that end, then those that have ended; the newest of each first. */
const byState = (one: Secret, other: Secret) => rank(one) - rank(other) || Number(other.id) - Number(one.id);
const rank = ({ live, expiresAt }: Secret) => (live ? (expiresAt === null ? 0 : 1) : 2);

/** A rotation replaces the newest secret of a label. */
const isNewest = ({ id, label }: Secret, secrets: readonly Secret[]) =>
  !secrets.some((other) => other.label === label && other.live && Number(other.id) > Number(id));

function State({ secret: { live, expiresAt } }: { secret: Secret }) {
  if (!live) return <Badge>ended</Badge>;
  if (expiresAt === null) return <Badge tone="good">live</Badge>;
  return (
    <>
      <Badge tone="warn">ending</Badge> <CountDown until={expiresAt} />
    </>
  );
}

interface NewSecretProps<Variables> {
  readonly title: string;
  readonly submit: string;
  readonly appId: string;
  readonly operation: Operation<{ made: { appSecret: string } }, Variables>;
  readonly variables: Variables;
  readonly recipe: Recipe;
  readonly mayRead: boolean;
  readonly onClose: () => void;
  readonly disabled?: boolean;
  readonly children: ComponentChildren;
}

/** A dialog that makes a secret and shows it, once. */
function NewSecretDialog<Variables>(props: NewSecretProps<Variables>) {
  const { title, submit, appId, operation, variables, recipe, mayRead, onClose, disabled = false, children } = props;
  const make = useAction(async () => (await send(operation, variables)).made.appSecret);
  const [appSecret, setAppSecret] = useState<string | undefined>();
  if (appSecret !== undefined)
    return (
      <SecretDialog
        key="made"
        title="The new secret"
        appId={appId}
        appSecret={appSecret}
        mayRead={mayRead}
        onClose={onClose}
      >
        <button type="button" class="primary" onClick={onClose}>
          I have copied it
        </button>
      </SecretDialog>
    );
  return (
    <Dialog title={title} onClose={onClose} busy={make.busy}>
      <DialogForm
        submit={submit}
        onSubmit={async () => setAppSecret(await make.run())}
        onCancel={onClose}
        disabled={disabled}
        {...make}
      >
        {children}
        <SameByApiDetails recipe={recipe} />
      </DialogForm>
    </Dialog>
  );
}

const DAY = 86_400;
const LIFETIMES: readonly [string, number | null][] = [
  ['until it is revoked', null],
  ['30 days', 30 * DAY],
  ['90 days', 90 * DAY],
  ['1 year', 365 * DAY],
];

function AddSecret({ appId, onClose }: { appId: string; onClose: () => void }) {
  const [label, setLabel] = useState('');
  const [scopes, setScopes] = useState<readonly Scope[]>(['READ']);
  const [expiresInSeconds, setExpires] = useState<number | null>(null);
  const [documentsOnly, setDocumentsOnly] = useState(false);
  const toggle = (scope: Scope) =>
    setScopes(scopes.includes(scope) ? scopes.filter((one) => one !== scope) : [...scopes, scope]);
  const expiry = expiresInSeconds === null ? [] : ['--expires-in', `${expiresInSeconds / DAY}d`];
  const documents = documentsOnly ? ['--documents-only'] : [];
  const scopeList = scopes.join(',').toLowerCase();
  return (
    <NewSecretDialog
      title="Add secret"
      submit="Add"
      appId={appId}
      operation={ADD}
      variables={{ appId, label, scopes: [...scopes], expiresInSeconds, documentsOnly }}
      recipe={{
        userdir: [
          'project',
          'add-secret',
          appId,
          '--label',
          label || 'LABEL',
          '--scope',
          scopeList,
          ...expiry,
          ...documents,
        ],
      }}
      mayRead={scopes.includes('READ')}
      onClose={onClose}
      disabled={label.trim() === '' || scopes.length === 0}
    >
      <Field label="Label" hint="Names the backend that uses it; the audit trail shows it.">
        <input value={label} required onInput={(event) => setLabel(event.currentTarget.value)} />
      </Field>
      <fieldset class="choices">
        <legend>It may</legend>
        {Object.entries(SCOPES).map(([scope, what]) => (
          <label key={scope}>
            <input type="checkbox" checked={scopes.includes(scope as Scope)} onChange={() => toggle(scope as Scope)} />{' '}
            {what} <code>{scope.toLowerCase()}</code>
          </label>
        ))}
      </fieldset>
      <label>
        <input
          type="checkbox"
          checked={documentsOnly}
          onChange={(event) => setDocumentsOnly(event.currentTarget.checked)}
        />{' '}
        Over GraphQL only registered documents <code>documents only</code>
      </label>
      <Field label="Valid">
        <select
          value={String(expiresInSeconds ?? '')}
          onChange={(event) => setExpires(event.currentTarget.value ? Number(event.currentTarget.value) : null)}
        >
          {LIFETIMES.map(([name, seconds]) => (
            <option key={name} value={String(seconds ?? '')}>
              {name}
            </option>
          ))}
        </select>
      </Field>
    </NewSecretDialog>
  );
}

const OVERLAPS: readonly [string, number, string][] = [
  ['for 24 hours', DAY, '24h'],
  ['for 1 hour', 3600, '1h'],
  ['for 7 days', 7 * DAY, '7d'],
  ['not at all: it ends now', 0, ''],
];

interface OneSecret {
  readonly appId: string;
  readonly secret: Secret;
  readonly onClose: () => void;
}

function RotateSecret({ appId, secret, onClose }: OneSecret) {
  const [overlapSeconds, setOverlap] = useState(DAY);
  const overlap = OVERLAPS.find(([, seconds]) => seconds === overlapSeconds)?.[2];
  return (
    <NewSecretDialog
      title={`Rotate “${secret.label}”`}
      submit="Rotate"
      appId={appId}
      operation={ROTATE}
      variables={{ appId, label: secret.label, overlapSeconds }}
      recipe={{
        userdir: ['project', 'rotate', appId, '--label', secret.label, ...(overlap ? ['--overlap', overlap] : [])],
      }}
      mayRead={secret.scopes.includes('READ')}
      onClose={onClose}
    >
      <p>A new secret with the same label and scopes is made. Both are accepted during the overlap.</p>
      <Field label="The old secret stays valid" hint="Long enough to give the new one to every backend.">
        <select value={String(overlapSeconds)} onChange={(event) => setOverlap(Number(event.currentTarget.value))}>
          {OVERLAPS.map(([name, seconds]) => (
            <option key={name} value={String(seconds)}>
              {name}
            </option>
          ))}
        </select>
      </Field>
      {overlapSeconds === 0 && <p class="banner warn">Every backend that uses the old secret is refused at once.</p>}
    </NewSecretDialog>
  );
}

function RevokeSecret({ appId, secret, onClose }: OneSecret) {
  const revoke = useAction(() => send(REVOKE, { appId, id: secret.id }));
  const submit = async () => {
    if (await revoke.run()) onClose();
  };
  return (
    <Dialog title={`Revoke “${secret.label}” #${secret.id}?`} onClose={onClose} busy={revoke.busy}>
      <DialogForm submit="Revoke" danger onSubmit={submit} onCancel={onClose} {...revoke}>
        <p>Every backend that uses this secret is refused at once. This cannot be undone.</p>
        <p>
          Last used: <Time at={secret.lastUsedAt} />
        </p>
        <SameByApiDetails recipe={{ userdir: ['project', 'revoke', appId, secret.id] }} />
      </DialogForm>
    </Dialog>
  );
}
