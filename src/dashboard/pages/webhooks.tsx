import { useSignal } from '@preact/signals';
import { useState } from 'preact/hooks';
import { closeDialog, Dialog, openDialog } from './dialog.js';
import { Choices, FormDialog, TextField } from './form.js';
import { graphql, may, type ResultOf, send, useQuery, type VariablesOf } from './graphql.js';
import { Badge, Button, Copy, CopyCode, Empty, Time, Value } from './parts.js';
import { ListScreen } from './screen.js';
import { useOverlap } from './secrets.js';
import { type Column, Table } from './table.js';

const WEBHOOKS = graphql(`
  query Webhooks($appId: ID!) {
    project(appId: $appId) {
      webhooks {
        id url description types status reason cursor pendingSince failures nextAttemptAt lastDeliveredAt
        attempts { at messageId type ok status ms error }
        secrets { id expiresAt }
      }
    }
  }
`);

type Webhook = NonNullable<ResultOf<typeof WEBHOOKS>['project']>['webhooks'][number];
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
const TYPES: Record<Type, string> = {
  USER_CREATED: 'user.created',
  USER_UPDATED: 'user.updated',
  USER_REMOVED: 'user.removed',
  USER_RESTORED: 'user.restored',
  ACCOUNT_ADDED: 'account.added',
  IDENTITY_BANNED: 'identity.banned',
  IDENTITY_UNBANNED: 'identity.unbanned',
};
const ALL_TYPES = Object.keys(TYPES) as Type[];

interface OfWebhook {
  readonly appId: string;
  readonly webhook: Webhook;
}

const COLUMNS: readonly Column<Webhook>[] = [
  {
    title: 'URL',
    class: 'main-cell',
    cell: ({ id, url, description }) => (
      <>
        <Value mono>{url}</Value> <span class="quiet">#{id}</span>
        {description && (
          <div class="quiet">
            <bdi>{description}</bdi>
          </div>
        )}
      </>
    ),
  },
  {
    title: 'Types',
    cell: ({ types }) => (types.length === 0 ? 'all' : types.map((type) => TYPES[type]).join(', ')),
  },
  { title: 'State', cell: (webhook) => <State webhook={webhook} /> },
  {
    title: 'Waiting since',
    class: 'nowrap',
    cell: ({ pendingSince }) => (pendingSince ? <Time at={pendingSince} /> : <span class="quiet">nothing waits</span>),
  },
  { title: 'Last delivery', class: 'nowrap', cell: ({ lastDeliveredAt }) => <Time at={lastDeliveredAt} /> },
];

export function Webhooks({ appId }: { appId: string }) {
  const query = useQuery(WEBHOOKS, { appId });
  return (
    <ListScreen
      title="Webhooks"
      note="Changes of users are sent there: signed, in order, and again until they are accepted."
      recipe={{ userdir: ['webhook', 'list', '--project', appId] }}
      offers={may('operate') && <Button label="Add webhook" class="primary" opens={<AddWebhook appId={appId} />} />}
      query={query}
      lines={3}
      found={query.data?.project?.webhooks}
      rowKey={({ id }) => id}
      columns={COLUMNS}
      actions={(webhook) => {
        const isEnabled = webhook.status === 'ENABLED';
        const of = { appId, webhook };
        return (
          <>
            <Button label="Attempts…" class="small" opens={<Attempts {...of} />} />
            {may('operate') && (
              <>
                <Button label="Test…" class="small" opens={<TestWebhook {...of} />} />
                {(!isEnabled || webhook.failures > 0) && (
                  <Button label={isEnabled ? 'Try now…' : 'Enable…'} class="small" opens={<EnableWebhook {...of} />} />
                )}
                <Button label="Replay…" class="small" opens={<ReplayWebhook {...of} />} />
                <Button label="Rotate…" class="small" opens={<RotateSecret {...of} />} />
                <Button label="Remove…" class="small danger" opens={<RemoveWebhook {...of} />} />
              </>
            )}
          </>
        );
      }}
      empty={<Empty title="This project has no webhook.">An admin can add one, and up to ten.</Empty>}
    />
  );
}

function State({ webhook: { status, reason, failures, nextAttemptAt, secrets } }: { webhook: Webhook }) {
  if (reason !== null)
    return (
      <>
        <Badge tone="bad">{status.toLowerCase()}</Badge> {reason}
      </>
    );
  if (failures > 0)
    return (
      <>
        <Badge tone="warn">failing</Badge> {failures} in a row; next attempt <Time at={nextAttemptAt} />
      </>
    );
  return (
    <>
      <Badge tone="good">enabled</Badge>
      {secrets.length > 1 && <span class="quiet"> {secrets.length} secrets sign</span>}
    </>
  );
}

function Attempts({ webhook: { id, attempts } }: OfWebhook) {
  return (
    <Dialog title={`The last attempts of #${id}`} actions={<Button label="Close" onClick={closeDialog} />}>
      <Table
        caption="Attempts"
        rows={attempts}
        rowKey={({ at, messageId }) => at + messageId}
        empty={<Empty title="Nothing has been sent yet." />}
        columns={[
          { title: 'When', class: 'nowrap', cell: ({ at }) => <Time at={at} /> },
          { title: 'Type', class: 'nowrap', cell: ({ type }) => type },
          {
            title: 'Outcome',
            cell: ({ ok, error, status }) => (
              <>
                <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'accepted' : 'failed'}</Badge> {error ?? status}
              </>
            ),
          },
          { title: 'Time', class: 'nowrap', cell: ({ ms }) => `${ms} ms` },
          {
            title: 'Message',
            cell: ({ messageId }) => <Copy text={messageId} what="the ID of the message, a cursor" />,
          },
        ]}
      />
    </Dialog>
  );
}

function NewSecret({ secret }: { secret: string }) {
  return (
    <Dialog title="The new secret" actions={<Button label="I have copied it" class="primary" onClick={closeDialog} />}>
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

function AddWebhook({ appId }: { appId: string }) {
  const url = useSignal('');
  const description = useSignal('');
  const [types, setTypes] = useState(ALL_TYPES);
  const isAll = types.length === ALL_TYPES.length;
  const list = isAll ? [] : ['--types', types.map((type) => TYPES[type]).join(',')];
  const note = description.value === '' ? [] : ['--description', description.value];
  return (
    <FormDialog
      title="Add webhook"
      submit="Add"
      work={() => send(ADD, { appId, url: url.value, types: isAll ? null : types, description: description.value })}
      recipe={{ userdir: ['webhook', 'add', '--project', appId, '--url', url.value || 'URL', ...list, ...note] }}
      onDone={({ made }) => openDialog(<NewSecret secret={made.secret} />)}
      disabled={url.value.trim() === '' || types.length === 0}
    >
      <TextField
        label="URL"
        hint="A public host, over https. It gets the changes from now on."
        type="url"
        text={url}
        maxLength={2048}
        required
      />
      <TextField label="Description" hint="For people." text={description} maxLength={200} />
      <Choices legend="It gets" options={TYPES} isCode chosen={types} onChange={setTypes} />
    </FormDialog>
  );
}

function RotateSecret({ appId, webhook: { id } }: OfWebhook) {
  const { overlapSeconds, options, field } = useOverlap('The old secret signs too');
  return (
    <FormDialog
      title={`Rotate the secret of #${id}`}
      submit="Rotate"
      work={() => send(ROTATE, { appId, id, overlapSeconds })}
      recipe={{ userdir: ['webhook', 'rotate', '--project', appId, id, ...options] }}
      onDone={({ made }) => openDialog(<NewSecret secret={made.secret} />)}
    >
      <p>
        Messages are signed by both secrets during the overlap, so that the receiver can take the new one meanwhile.
      </p>
      {field}
    </FormDialog>
  );
}

function TestWebhook({ appId, webhook: { id, url } }: OfWebhook) {
  const [result, setResult] = useState<ResultOf<typeof TEST>['testWebhook'] | undefined>();
  return (
    <FormDialog
      title={`Test #${id}`}
      submit="Send"
      work={() => {
        setResult(undefined);
        return send(TEST, { appId, id });
      }}
      recipe={{ userdir: ['webhook', 'test', '--project', appId, id] }}
      onDone={({ testWebhook }) => setResult(testWebhook)}
    >
      <p>
        One signed message of the type <code>webhook.test</code> is sent to <Value mono>{url}</Value>.
      </p>
      {result && (
        <p role="status">
          <Badge tone={result.ok ? 'good' : 'bad'}>{result.ok ? 'accepted' : 'failed'}</Badge>{' '}
          {result.ok ? `Answered ${result.status} after ${result.ms} ms.` : `${result.error}, after ${result.ms} ms.`}
        </p>
      )}
    </FormDialog>
  );
}

function ReplayWebhook({ appId, webhook: { id } }: OfWebhook) {
  const after = useSignal('');
  return (
    <FormDialog
      title={`Replay to #${id}`}
      submit="Replay"
      work={() => send(REPLAY, { appId, id, after: after.value.trim() })}
      recipe={{ userdir: ['webhook', 'replay', '--project', appId, id, '--after', after.value || 'CURSOR'] }}
      done="The webhook goes on from there."
      disabled={after.value.trim() === ''}
    >
      <p>Everything after a change is sent, also what was accepted before. The webhook is enabled.</p>
      <TextField
        label="After"
        hint="The ID of a change or of a message, or “now”, which skips what is waiting."
        text={after}
        maxLength={64}
        required
      />
    </FormDialog>
  );
}

function EnableWebhook({ appId, webhook: { id, reason } }: OfWebhook) {
  return (
    <FormDialog
      title={`Enable #${id}?`}
      submit="Enable"
      work={() => send(ENABLE, { appId, id })}
      recipe={{ userdir: ['webhook', 'enable', '--project', appId, id] }}
      done="The webhook is enabled."
    >
      {reason && <p class="banner warn">{reason}</p>}
      <p>It goes on where it was, at once.</p>
    </FormDialog>
  );
}

function RemoveWebhook({ appId, webhook: { id, url } }: OfWebhook) {
  return (
    <FormDialog
      title={`Remove #${id}?`}
      submit="Remove"
      danger
      work={() => send(REMOVE, { appId, id })}
      recipe={{ userdir: ['webhook', 'remove', '--project', appId, id] }}
    >
      <p>
        Nothing is sent to <Value mono>{url}</Value> any more. Its secrets and its place in the feed are deleted.
      </p>
    </FormDialog>
  );
}
