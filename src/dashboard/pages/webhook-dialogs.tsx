import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Dialog, DialogForm } from './dialog.js';
import { graphql, type Operation, type ResultOf, send, type VariablesOf } from './graphql.js';
import { announce, Badge, Copy, Field, Value } from './parts.js';
import { useAction } from './query.js';
import { type Recipe, SameByApiDetails } from './recipes.js';

/** What an admin does to webhooks. */

const ADD = graphql(`
  mutation AddWebhook($appId: ID!, $url: String!, $types: [ChangeType!], $description: String!) {
    made: addWebhook(appId: $appId, url: $url, types: $types, description: $description) { secret }
  }
`);
const ROTATE = graphql(`
  mutation RotateWebhookSecret($appId: ID!, $id: ID!, $overlapSeconds: Int!) {
    made: rotateWebhookSecret(appId: $appId, id: $id, overlapSeconds: $overlapSeconds) { secret }
  }
`);
const TEST = graphql(
  `mutation TestWebhook($appId: ID!, $id: ID!) { testWebhook(appId: $appId, id: $id) { ok status ms error } }`,
);
const REPLAY = graphql(
  `mutation ReplayWebhook($appId: ID!, $id: ID!, $after: String!) { replayWebhook(appId: $appId, id: $id, after: $after) { id } }`,
);
const ENABLE = graphql(
  `mutation EnableWebhook($appId: ID!, $id: ID!) { enableWebhook(appId: $appId, id: $id) { id } }`,
);
const REMOVE = graphql(`mutation RemoveWebhook($appId: ID!, $id: ID!) { removeWebhook(appId: $appId, id: $id) }`);

type Type = NonNullable<VariablesOf<typeof ADD>['types']>[number];

/** The types of changes as the feed spells them. */
export const TYPES: Record<Type, string> = {
  USER_CREATED: 'user.created',
  USER_UPDATED: 'user.updated',
  USER_REMOVED: 'user.removed',
  USER_RESTORED: 'user.restored',
  ACCOUNT_ADDED: 'account.added',
  IDENTITY_BANNED: 'identity.banned',
  IDENTITY_UNBANNED: 'identity.unbanned',
};
const ALL_TYPES = Object.keys(TYPES) as Type[];

interface DialogOf {
  readonly appId: string;
  readonly onClose: () => void;
}
interface DialogOfWebhook extends DialogOf {
  readonly webhook: { readonly id: string; readonly url: string; readonly reason: string | null };
}

interface NewSecretProps<Variables> extends DialogOf {
  readonly title: string;
  readonly submit: string;
  readonly operation: Operation<{ made: { secret: string } }, Variables>;
  readonly variables: Variables;
  readonly recipe: Recipe;
  readonly disabled?: boolean;
  readonly children: ComponentChildren;
}

/** A dialog that makes a secret and shows it, once. */
function NewSecretDialog<Variables>(props: NewSecretProps<Variables>) {
  const { title, submit, operation, variables, recipe, disabled = false, children, onClose } = props;
  const make = useAction(async () => (await send(operation, variables)).made.secret);
  const [secret, setSecret] = useState<string | undefined>();
  if (secret !== undefined)
    return (
      <Dialog key="made" title="The new secret" onClose={onClose}>
        <div class="secret-once">
          <p>
            <strong>Copy the secret now.</strong> It cannot be shown again. The receiver needs it to verify what is
            sent, as Standard Webhooks says.
          </p>
          <p>
            <code>{secret}</code> <Copy text={secret} what="the secret" />
          </p>
        </div>
        <div class="dialog-actions">
          <button type="button" class="primary" onClick={onClose}>
            I have copied it
          </button>
        </div>
      </Dialog>
    );
  return (
    <Dialog title={title} onClose={onClose} busy={make.busy}>
      <DialogForm
        submit={submit}
        onSubmit={async () => setSecret(await make.run())}
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

export function AddWebhook({ appId, onClose }: DialogOf) {
  const [url, setUrl] = useState('');
  const [description, setDescription] = useState('');
  const [types, setTypes] = useState<readonly Type[]>(ALL_TYPES);
  const toggle = (type: Type) =>
    setTypes(types.includes(type) ? types.filter((one) => one !== type) : [...types, type]);
  const isAll = types.length === ALL_TYPES.length;
  const list = isAll ? [] : ['--types', types.map((type) => TYPES[type]).join(',')];
  const note = description === '' ? [] : ['--description', description];
  return (
    <NewSecretDialog
      title="Add webhook"
      submit="Add"
      appId={appId}
      operation={ADD}
      variables={{ appId, url, types: isAll ? null : [...types], description }}
      recipe={{ userdir: ['webhook', 'add', '--project', appId, '--url', url || 'URL', ...list, ...note] }}
      onClose={onClose}
      disabled={url.trim() === '' || types.length === 0}
    >
      <Field label="URL" hint="A public host, over https. It gets the changes from now on.">
        <input
          type="url"
          value={url}
          maxLength={2048}
          required
          onInput={(event) => setUrl(event.currentTarget.value)}
        />
      </Field>
      <Field label="Description" hint="For people.">
        <input value={description} maxLength={200} onInput={(event) => setDescription(event.currentTarget.value)} />
      </Field>
      <fieldset class="choices">
        <legend>It gets</legend>
        {ALL_TYPES.map((type) => (
          <label key={type}>
            <input type="checkbox" checked={types.includes(type)} onChange={() => toggle(type)} />{' '}
            <code>{TYPES[type]}</code>
          </label>
        ))}
      </fieldset>
    </NewSecretDialog>
  );
}

const DAY = 86_400;
const OVERLAPS: readonly [string, number, string][] = [
  ['for 24 hours', DAY, '24h'],
  ['for 1 hour', 3600, '1h'],
  ['for 7 days', 7 * DAY, '7d'],
  ['not at all: it ends now', 0, ''],
];

export function RotateSecret({ appId, webhook: { id }, onClose }: DialogOfWebhook) {
  const [overlapSeconds, setOverlap] = useState(DAY);
  const overlap = OVERLAPS.find(([, seconds]) => seconds === overlapSeconds)?.[2];
  return (
    <NewSecretDialog
      title={`Rotate the secret of #${id}`}
      submit="Rotate"
      appId={appId}
      operation={ROTATE}
      variables={{ appId, id, overlapSeconds }}
      recipe={{
        userdir: ['webhook', 'rotate', '--project', appId, id, ...(overlap ? ['--overlap', overlap] : [])],
      }}
      onClose={onClose}
    >
      <p>
        Messages are signed by both secrets during the overlap, so that the receiver can take the new one meanwhile.
      </p>
      <Field label="The old secret signs too">
        <select value={String(overlapSeconds)} onChange={(event) => setOverlap(Number(event.currentTarget.value))}>
          {OVERLAPS.map(([name, seconds]) => (
            <option key={name} value={String(seconds)}>
              {name}
            </option>
          ))}
        </select>
      </Field>
    </NewSecretDialog>
  );
}

export function TestWebhook({ appId, webhook: { id, url }, onClose }: DialogOfWebhook) {
  const [result, setResult] = useState<ResultOf<typeof TEST>['testWebhook'] | undefined>();
  const test = useAction(async () => (await send(TEST, { appId, id })).testWebhook);
  return (
    <Dialog title={`Test #${id}`} onClose={onClose} busy={test.busy}>
      <DialogForm submit="Send" onSubmit={async () => setResult(await test.run())} onCancel={onClose} {...test}>
        <p>
          One signed message of the type <code>webhook.test</code> is sent to <Value mono>{url}</Value>.
        </p>
        {result && (
          <p role="status">
            <Badge tone={result.ok ? 'good' : 'bad'}>{result.ok ? 'accepted' : 'failed'}</Badge>{' '}
            {result.ok ? `Answered ${result.status} after ${result.ms} ms.` : `${result.error}, after ${result.ms} ms.`}
          </p>
        )}
        <SameByApiDetails recipe={{ userdir: ['webhook', 'test', '--project', appId, id] }} />
      </DialogForm>
    </Dialog>
  );
}

export function ReplayWebhook({ appId, webhook: { id }, onClose }: DialogOfWebhook) {
  const [after, setAfter] = useState('');
  const replay = useAction(() => send(REPLAY, { appId, id, after: after.trim() }));
  const submit = async () => {
    if (!(await replay.run())) return;
    announce('The webhook goes on from there.');
    onClose();
  };
  return (
    <Dialog title={`Replay to #${id}`} onClose={onClose} busy={replay.busy}>
      <DialogForm submit="Replay" onSubmit={submit} onCancel={onClose} disabled={after.trim() === ''} {...replay}>
        <p>Everything after a change is sent, also what was accepted before. The webhook is enabled.</p>
        <Field label="After" hint="The ID of a change or of a message, or “now”, which skips what is waiting.">
          <input value={after} maxLength={64} required onInput={(event) => setAfter(event.currentTarget.value)} />
        </Field>
        <SameByApiDetails
          recipe={{ userdir: ['webhook', 'replay', '--project', appId, id, '--after', after || 'CURSOR'] }}
        />
      </DialogForm>
    </Dialog>
  );
}

export function EnableWebhook({ appId, webhook: { id, reason }, onClose }: DialogOfWebhook) {
  const enable = useAction(() => send(ENABLE, { appId, id }));
  const submit = async () => {
    if (!(await enable.run())) return;
    announce('The webhook is enabled.');
    onClose();
  };
  return (
    <Dialog title={`Enable #${id}?`} onClose={onClose} busy={enable.busy}>
      <DialogForm submit="Enable" onSubmit={submit} onCancel={onClose} {...enable}>
        {reason && <p class="banner warn">{reason}</p>}
        <p>It goes on where it was, at once.</p>
        <SameByApiDetails recipe={{ userdir: ['webhook', 'enable', '--project', appId, id] }} />
      </DialogForm>
    </Dialog>
  );
}

export function RemoveWebhook({ appId, webhook: { id, url }, onClose }: DialogOfWebhook) {
  const remove = useAction(() => send(REMOVE, { appId, id }));
  const submit = async () => {
    if (await remove.run()) onClose();
  };
  return (
    <Dialog title={`Remove #${id}?`} onClose={onClose} busy={remove.busy}>
      <DialogForm submit="Remove" danger onSubmit={submit} onCancel={onClose} {...remove}>
        <p>
          Nothing is sent to <Value mono>{url}</Value> any more. Its secrets and its place in the feed are deleted.
        </p>
        <SameByApiDetails recipe={{ userdir: ['webhook', 'remove', '--project', appId, id] }} />
      </DialogForm>
    </Dialog>
  );
}
