import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { CHANGE_TYPES, type ChangeType } from '#dist/domain/change-types.js';
import { INPUT_LIMITS } from '#dist/domain/input-limits.js';
import { nameOf } from '#dist/domain/spelling.js';
import { closeDialog, Dialog, openDialog } from './dialog.js';
import { Choices, FormDialog, type FormProps, TextField } from './form.js';
import { api, graphql, inProject, type ResultOf, type VariablesOf } from './graphql.js';
import { paths } from './location.js';
import { Badge, Button, CopyCode, Value } from './parts.js';
import { command, sending } from './recipes.js';
import { useOverlap } from './secrets.js';

/** Dialogs of a webhook. */

const ADD = inProject(
  api(`mutation AddWebhook($url: String!, $types: [ChangeType!], $description: String!) {
    made: addWebhook(url: $url, types: $types, description: $description) { secret }
  }`),
);
const UPDATE = graphql(`
  mutation UpdateWebhook($appId: ID!, $id: ID!, $url: String, $types: [ChangeType!], $description: String) {
    updateWebhook(appId: $appId, id: $id, url: $url, types: $types, description: $description) { id }
  }
`);
const ROTATE = inProject(
  api(`mutation RotateWebhookSecret($id: ID!, $overlapSeconds: Int!) {
    made: rotateWebhookSecret(id: $id, overlapSeconds: $overlapSeconds) { secret }
  }`),
);
const TEST = graphql(
  `mutation TestWebhook($appId: ID!, $id: ID!) { sent: testWebhook(appId: $appId, id: $id) { ok status ms error } }`,
);
const RESEND = graphql(`
  mutation ResendWebhookMessage($appId: ID!, $id: ID!, $messageId: String!) {
    sent: resendWebhookMessage(appId: $appId, id: $id, messageId: $messageId) { ok status ms error }
  }
`);
const REPLAY = graphql(`
  mutation ReplayWebhook($appId: ID!, $id: ID!, $after: String, $from: String) {
    replayWebhook(appId: $appId, id: $id, after: $after, from: $from) { id }
  }
`);
const PAUSE = inProject(api(`mutation PauseWebhook($id: ID!) { pauseWebhook(id: $id) { changed } }`));
const RESUME = inProject(api(`mutation ResumeWebhook($id: ID!) { resumeWebhook(id: $id) { changed } }`));
const REMOVE = inProject(api(`mutation RemoveWebhook($id: ID!) { removeWebhook(id: $id) { removedWebhookId } }`));

export type Type = NonNullable<VariablesOf<typeof ADD>['types']>[number];

/** The types of changes as the feed spells them. */
export const TYPES = Object.fromEntries(CHANGE_TYPES.map((name) => [nameOf(name), name])) as Record<Type, ChangeType>;
const ALL_TYPES = Object.keys(TYPES) as Type[];

/** A webhook as it stands before it is changed. */
export interface OfWebhook {
  readonly appId: string;
  readonly webhook: {
    readonly id: string;
    readonly url: string;
    readonly description: string;
    readonly types: readonly Type[];
    readonly reason: string | null;
    readonly status: string;
    readonly secrets: readonly { id: string; expiresAt: string | null }[];
  };
}

function NewSecret({ secret }: { secret: string }) {
  return (
    <Dialog
      title="The new secret"
      unsaved="The secret is shown only here."
      actions={<Button label="I have copied it" class="primary" onClick={closeDialog} />}
    >
      <div class="secret-once">
        <p>
          <strong>Copy the secret now.</strong> It cannot be shown again. The receiver needs it to verify what is sent,
          as Standard Webhooks says.
        </p>
        <p>
          <CopyCode text={secret} what="the secret" />
        </p>
      </div>
    </Dialog>
  );
}

interface Fields {
  readonly url: Signal<string>;
  readonly description: Signal<string>;
  readonly types: readonly Type[];
  readonly setTypes: (types: Type[]) => void;
}

function useFields(webhook?: OfWebhook['webhook']): Fields {
  const url = useSignal(webhook?.url ?? '');
  const description = useSignal(webhook?.description ?? '');
  const [types, setTypes] = useState<readonly Type[]>(webhook?.types.length ? webhook.types : ALL_TYPES);
  return { url, description, types, setTypes };
}

/** All types are none. */
const narrowed = (types: readonly Type[]) => (types.length === ALL_TYPES.length ? [] : [...types]);
const isIncomplete = ({ url, types }: Fields) => url.value.trim() === '' || types.length === 0;

function WebhookFields({ url, description, types, setTypes }: Fields) {
  return (
    <>
      <TextField
        label="URL"
        hint="A public host, over https, unless WEBHOOKS_ALLOW_PRIVATE is on."
        type="url"
        text={url}
        name="url"
        maxLength={INPUT_LIMITS.webhookUrl.max}
        required
      />
      <TextField
        label="Description"
        hint="For people."
        text={description}
        name="description"
        maxLength={INPUT_LIMITS.webhookDescription.max}
      />
      <Choices legend="It gets" options={TYPES} isCode chosen={types} onChange={setTypes} />
      <a href="/docs/changes#webhooks" target="_blank" rel="noreferrer">
        Try it on your own machine
      </a>
    </>
  );
}

/** The types as `--types` has them. */
const namesOf = (types: readonly Type[]) => types.map((type) => TYPES[type]).join(',');

export function AddWebhook({ appId }: { appId: string }) {
  const fields = useFields();
  const { url, description } = fields;
  const types = narrowed(fields.types);
  const adding = {
    project: appId,
    url: url.value,
    types: types.length === 0 ? null : types,
    description: description.value,
  };
  const options = {
    project: appId,
    url: url.value || 'URL',
    description: description.value || undefined,
    types: namesOf(types) || undefined,
  };
  return (
    <FormDialog
      title="Add webhook"
      submit="Add"
      {...sending(ADD, adding, command('webhook add', options))}
      onDone={({ made }) => openDialog(<NewSecret secret={made.secret} />)}
      disabled={isIncomplete(fields)}
    >
      <p>It gets the changes from now on.</p>
      <WebhookFields {...fields} />
    </FormDialog>
  );
}

export function EditWebhook({ appId, webhook }: OfWebhook) {
  const { id } = webhook;
  const fields = useFields(webhook);
  const { url, description } = fields;
  const types = narrowed(fields.types);
  const changed = {
    ...(url.value.trim() !== webhook.url && { url: url.value.trim() }),
    ...(types.join() !== webhook.types.join() && { types }),
    ...(description.value !== webhook.description && { description: description.value }),
  };
  const options = { ...changed, types: changed.types && (namesOf(types) || 'all') };
  return (
    <FormDialog
      title={`Edit #${id}`}
      submit="Save"
      {...sending(
        UPDATE,
        { appId, id, ...changed },
        command('webhook update', { project: appId, webhookId: id, ...options }),
      )}
      done="The webhook is changed."
      disabled={isIncomplete(fields) || Object.keys(changed).length === 0}
    >
      <p>
        It goes on where it was, and its secret stays. Another URL is tried at once
        {webhook.status !== 'ENABLED' && ' when it is resumed'}.
      </p>
      <WebhookFields {...fields} />
    </FormDialog>
  );
}

export function RotateSecret({ appId, webhook: { id, secrets } }: OfWebhook) {
  const older = secrets.filter(({ expiresAt }) => expiresAt);
  const { overlapSeconds, overlap, field } = useOverlap('The old secret signs too', older);
  const asking = { project: appId, id, overlapSeconds };
  return (
    <FormDialog
      title={`Rotate the secret of #${id}`}
      submit="Rotate"
      {...sending(ROTATE, asking, command('webhook rotate', { project: appId, webhookId: id, overlap }))}
      onDone={({ made }) => openDialog(<NewSecret secret={made.secret} />)}
    >
      <p>
        Messages are signed by both secrets during the overlap, so that the receiver can take the new one meanwhile.
      </p>
      {field}
    </FormDialog>
  );
}

type Sent = ResultOf<typeof TEST>;

/** One message is sent by hand, and the dialog says how that ended. */
function SendDialog({ work, children, ...form }: FormProps & { work: () => Promise<Sent> }) {
  const [result, setResult] = useState<Sent['sent'] | undefined>();
  const said = useRef<HTMLParagraphElement>(null);
  // The button that was pressed could not keep it.
  useEffect(() => said.current?.focus(), [result]);
  return (
    <FormDialog
      {...form}
      work={() => {
        setResult(undefined);
        return work();
      }}
      onDone={({ sent }) => setResult(sent)}
      cancel={result && 'Done'}
    >
      {children}
      {result && (
        <p role="status" ref={said} tabIndex={-1}>
          <Badge tone={result.ok ? 'good' : 'bad'}>{result.ok ? 'accepted' : 'failed'}</Badge>{' '}
          {result.ok ? `Answered ${result.status} after ${result.ms} ms.` : `${result.error}, after ${result.ms} ms.`}
        </p>
      )}
    </FormDialog>
  );
}

export function TestWebhook({ appId, webhook: { id, url } }: OfWebhook) {
  return (
    <SendDialog
      title={`Test #${id}`}
      submit="Send"
      {...sending(TEST, { appId, id }, command('webhook test', { project: appId, webhookId: id }))}
    >
      <p>
        One signed message of the type <code>webhook.test</code> is sent to <Value mono>{url}</Value>.
      </p>
    </SendDialog>
  );
}

interface OfMessage extends OfWebhook {
  readonly message: { readonly messageId: string; readonly type: string; readonly body: string | null };
}

export function ResendMessage({ appId, webhook: { id, url }, message: { messageId, body } }: OfMessage) {
  return (
    <SendDialog
      title="Send this message again"
      submit="Resend"
      {...sending(
        RESEND,
        { appId, id, messageId },
        command('webhook resend', { project: appId, webhookId: id, messageId }),
      )}
    >
      <p>
        It is signed anew and sent to <Value mono>{url}</Value> at once, with the same <code>webhook-id</code>: a
        receiver that has handled it ignores it. The webhook stays where it is.
      </p>
      {body && <pre>{body}</pre>}
    </SendDialog>
  );
}

/** From a message on, or after a cursor that one types. */
export function ReplayWebhook({ appId, webhook: { id }, from = null }: OfWebhook & { from?: string | null }) {
  const after = useSignal('');
  const start = from === null ? { after: after.value.trim() } : { from };
  const options = from === null ? { after: after.value || 'CURSOR' } : { from };
  return (
    <FormDialog
      title={`Replay to #${id}`}
      submit="Replay"
      {...sending(
        REPLAY,
        { appId, id, ...start },
        command('webhook replay', { project: appId, webhookId: id, ...options }),
      )}
      done="The webhook goes on from there."
      disabled={from === null && after.value.trim() === ''}
    >
      <p>
        {from === null ? 'Everything after a change' : 'This message and everything after it'} is sent, also what was
        accepted before. A webhook that is paused is resumed.
      </p>
      {from === null ? (
        <TextField
          label="After"
          hint="The ID of a change or of a message, or “now”, which skips what is waiting."
          text={after}
          name="after"
          maxLength={INPUT_LIMITS.cursor.max}
          required
        />
      ) : (
        <p>
          From <code>{from}</code> on.
        </p>
      )}
    </FormDialog>
  );
}

export function PauseWebhook({ appId, webhook: { id } }: OfWebhook) {
  const asking = { project: appId, id };
  return (
    <FormDialog
      title={`Pause #${id}?`}
      submit="Pause"
      {...sending(PAUSE, asking, command('webhook pause', { project: appId, webhookId: id }))}
      done="The webhook is paused."
    >
      <p>
        Nothing is sent until you resume it, except a message that is on its way. It then goes on where it was, as long
        as the changes are kept (<code>CHANGES_RETENTION</code>).
      </p>
    </FormDialog>
  );
}

export function ResumeWebhook({ appId, webhook: { id, reason } }: OfWebhook) {
  const asking = { project: appId, id };
  return (
    <FormDialog
      title={`Resume #${id}?`}
      submit="Resume"
      {...sending(RESUME, asking, command('webhook resume', { project: appId, webhookId: id }))}
      done="The webhook is resumed."
    >
      {reason && <p class="banner warn">{reason}</p>}
      <p>It goes on where it was, at once.</p>
    </FormDialog>
  );
}

export function RemoveWebhook({ appId, webhook: { id, url } }: OfWebhook) {
  const { route } = useLocation();
  const asking = { project: appId, id };
  return (
    <FormDialog
      title={`Remove #${id}?`}
      submit="Remove"
      danger
      {...sending(REMOVE, asking, command('webhook remove', { project: appId, webhookId: id }))}
      done="The webhook is removed."
      onDone={() => route(paths.project(appId, 'webhooks'))}
    >
      <p>
        Nothing is sent to <Value mono>{url}</Value> any more. Its secrets, its attempts and its cursor are deleted.
      </p>
    </FormDialog>
  );
}
