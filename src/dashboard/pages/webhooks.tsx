import { useState } from 'preact/hooks';
import { Dialog } from './dialog.js';
import { graphql, type ResultOf } from './graphql.js';
import { useTitle } from './location.js';
import { Badge, Copy, Empty, Header, Loading, Problem, Table, Time, Value } from './parts.js';
import { useCurrentProject } from './project-frame.js';
import { useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { may } from './session.js';
import {
  AddWebhook,
  EnableWebhook,
  RemoveWebhook,
  ReplayWebhook,
  RotateSecret,
  TestWebhook,
  TYPES,
} from './webhook-dialogs.js';

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
const ACTIONS = ['attempts', 'test', 'replay', 'enable', 'rotate', 'remove'] as const;
type Doing = { readonly what: 'add' } | { readonly what: (typeof ACTIONS)[number]; readonly webhook: Webhook };

/** The webhooks of a project, and how they are doing. */
export function Webhooks({ appId }: { appId: string }) {
  const project = useCurrentProject();
  const { data, failure, loading } = useQuery(WEBHOOKS, { appId });
  const [doing, setDoing] = useState<Doing | null>(null);
  useTitle('Webhooks', project?.name ?? '');
  const webhooks = data?.project?.webhooks;
  const props = { appId, onClose: () => setDoing(null) };
  return (
    <>
      <Header
        title="Webhooks"
        note="Changes of users are sent there: signed, in order, and again until they are accepted."
      >
        <SameByApi recipe={{ userdir: ['webhook', 'list', '--project', appId] }} />
        {may('operate') && (
          <button type="button" class="primary" onClick={() => setDoing({ what: 'add' })}>
            Add webhook
          </button>
        )}
      </Header>
      <Problem failure={failure} retry />
      {!webhooks && loading && <Loading lines={3} />}
      {webhooks?.length === 0 && (
        <Empty title="This project has no webhook.">An admin can add one, and up to ten.</Empty>
      )}
      {webhooks && webhooks.length > 0 && (
        <Table caption="Webhooks" busy={loading}>
          <thead>
            <tr>
              <th scope="col">URL</th>
              <th scope="col">Types</th>
              <th scope="col">State</th>
              <th scope="col">Waiting since</th>
              <th scope="col">Last delivery</th>
              <th scope="col">
                <span class="hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {webhooks.map((webhook) => (
              <Row key={webhook.id} webhook={webhook} onDo={(what) => setDoing({ what, webhook })} />
            ))}
          </tbody>
        </Table>
      )}
      {doing?.what === 'add' && <AddWebhook {...props} />}
      {doing?.what === 'attempts' && <Attempts onClose={props.onClose} webhook={doing.webhook} />}
      {doing?.what === 'test' && <TestWebhook {...props} webhook={doing.webhook} />}
      {doing?.what === 'replay' && <ReplayWebhook {...props} webhook={doing.webhook} />}
      {doing?.what === 'enable' && <EnableWebhook {...props} webhook={doing.webhook} />}
      {doing?.what === 'rotate' && <RotateSecret {...props} webhook={doing.webhook} />}
      {doing?.what === 'remove' && <RemoveWebhook {...props} webhook={doing.webhook} />}
    </>
  );
}

function Row({ webhook, onDo }: { webhook: Webhook; onDo: (what: (typeof ACTIONS)[number]) => void }) {
  const { id, url, description, types, pendingSince, lastDeliveredAt, status, failures } = webhook;
  const isStopped = status !== 'ENABLED' || failures > 0;
  const action = (what: (typeof ACTIONS)[number], name: string, tone = '') => (
    <button type="button" class={`small ${tone}`} onClick={() => onDo(what)}>
      {name}
    </button>
  );
  return (
    <tr>
      <td class="main-cell">
        <Value mono>{url}</Value> <span class="quiet">#{id}</span>
        {description && (
          <div class="quiet">
            <bdi>{description}</bdi>
          </div>
        )}
      </td>
      <td>{types.length === 0 ? 'all' : types.map((type) => TYPES[type]).join(', ')}</td>
      <td>
        <State webhook={webhook} />
      </td>
      <td class="nowrap">{pendingSince ? <Time at={pendingSince} /> : <span class="quiet">nothing waits</span>}</td>
      <td class="nowrap">
        <Time at={lastDeliveredAt} />
      </td>
      <td class="row-actions">
        {action('attempts', 'Attempts…')}
        {may('operate') && (
          <>
            {action('test', 'Test…')}
            {isStopped && action('enable', status === 'ENABLED' ? 'Try now…' : 'Enable…')}
            {action('replay', 'Replay…')}
            {action('rotate', 'Rotate…')}
            {action('remove', 'Remove…', 'danger')}
          </>
        )}
      </td>
    </tr>
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

function Attempts({ webhook: { id, attempts }, onClose }: { webhook: Webhook; onClose: () => void }) {
  return (
    <Dialog title={`The last attempts of #${id}`} onClose={onClose}>
      {attempts.length === 0 ? (
        <Empty title="Nothing has been sent yet." />
      ) : (
        <Table caption="Attempts">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col">Type</th>
              <th scope="col">Outcome</th>
              <th scope="col">Time</th>
              <th scope="col">Message</th>
            </tr>
          </thead>
          <tbody>
            {attempts.map(({ at, messageId, type, ok, status, ms, error }) => (
              <tr key={at + messageId}>
                <td class="nowrap">
                  <Time at={at} />
                </td>
                <td class="nowrap">{type}</td>
                <td>
                  <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'accepted' : 'failed'}</Badge> {error ?? status}
                </td>
                <td class="nowrap">{ms} ms</td>
                <td>
                  <Copy text={messageId} what="the ID of the message, a cursor" />
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
      <div class="dialog-actions">
        <button type="button" onClick={onClose}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
