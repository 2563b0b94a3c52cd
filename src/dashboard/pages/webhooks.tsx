import { graphql, may, type ResultOf, useQuery } from './graphql.js';
import { paths } from './location.js';
import { Badge, Button, CopyBlock, Empty, Time, Value } from './parts.js';
import { command } from './recipes.js';
import { ListScreen } from './screen.js';
import { Answer, type Column } from './table.js';
import { AddWebhook, TYPES, type Type } from './webhook-dialogs.js';

const WEBHOOKS = graphql(`
  query Webhooks($appId: ID!) {
    project(appId: $appId) { webhooks { id url description types status pendingSince failures lastDeliveredAt } }
  }
`);

type Webhook = NonNullable<ResultOf<typeof WEBHOOKS>['project']>['webhooks'][number];

const columns = (appId: string): Column<Webhook>[] => [
  {
    title: 'Webhook',
    class: 'main-cell',
    hover: ({ url }) => url,
    cell: ({ id, url, description }) => (
      <>
        <a href={paths.webhook(appId, id)}>
          <Value mono>{url}</Value>
        </a>
        <span class="second-line">
          #{id} <bdi>{description}</bdi>
        </span>
      </>
    ),
  },
  { title: 'State', cell: (webhook) => <State webhook={webhook} /> },
  { title: 'Types', class: 'nowrap', hover: ({ types }) => namesOf(types), cell: ({ types }) => shortTypes(types) },
  {
    title: 'Waiting since',
    class: 'nowrap',
    cell: ({ pendingSince }) => (pendingSince ? <Time at={pendingSince} /> : <span class="quiet">nothing waits</span>),
  },
  { title: 'Last delivery', class: 'nowrap', cell: ({ lastDeliveredAt }) => <Time at={lastDeliveredAt} /> },
];

/** Types by their names in the feed. */
export const namesOf = (types: readonly Type[]) =>
  types.length === 0 ? 'all' : types.map((type) => TYPES[type]).join(', ');
const shortTypes = (types: readonly Type[]) => (types.length > 1 ? `${types.length} types` : namesOf(types));

export function Webhooks({ appId }: { appId: string }) {
  const query = useQuery(WEBHOOKS, { appId });
  return (
    <>
      <ListScreen
        title="Webhooks"
        note="Changes of users are sent there: signed, in order, and again until they are accepted."
        recipe={{ userdir: command('webhook list', { project: appId }) }}
        offers={may('operate') && <Button label="Add webhook" class="primary" opens={<AddWebhook appId={appId} />} />}
        query={query}
        lines={3}
        found={query.data?.project?.webhooks}
        rowKey={({ id }) => id}
        columns={columns(appId)}
        empty={<Empty title="This project has no webhook.">An admin can add one, and up to ten.</Empty>}
      />
      <Samples />
    </>
  );
}

/** The state of a webhook in a word. */
export function State({ webhook: { status, failures } }: { webhook: Pick<Webhook, 'status' | 'failures'> }) {
  if (status !== 'ENABLED') return <Badge tone="bad">{status.toLowerCase()}</Badge>;
  return failures > 0 ? <Badge tone="warn">failing</Badge> : <Badge tone="good">enabled</Badge>;
}

const SAMPLES = graphql(`query WebhookSamples { webhookSamples { type meaning body } }`);

/** The types of changes, and what is sent for each. */
function Samples() {
  const query = useQuery(SAMPLES, {});
  return (
    <section>
      <h2>What is sent</h2>
      <Answer query={query} data={query.data?.webhookSamples} lines={2}>
        {(samples) => (
          <div class="samples">
            {samples.map(({ type, meaning, body }) => (
              <details key={type}>
                <summary>
                  <code>{TYPES[type]}</code> {meaning}
                </summary>
                <CopyBlock name="Body" text={body} what={`the body of ${TYPES[type]}`} />
              </details>
            ))}
          </div>
        )}
      </Answer>
    </section>
  );
}
