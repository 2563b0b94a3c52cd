import { useMemo } from 'preact/hooks';
import { ATTEMPTS_KEPT, ATTEMPTS_KEPT_MS } from '#dist/domain/bounds.js';
import { inWords } from '#dist/domain/figures.js';
import { closeDialog, Dialog } from './dialog.js';
import { Figures, sumOf } from './figures.js';
import { formatDateTime, formatNumber, plural } from './format.js';
import { graphql, may, type ResultOf, refresh, useQuery } from './graphql.js';
import { paths, useUrlState } from './location.js';
import { Badge, Button, Copy, CopyBlock, CopyCode, Empty, Fact, Segments, Time, Value } from './parts.js';
import { command } from './recipes.js';
import { Header, Missing, useTitle } from './screen.js';
import { Answer, Table } from './table.js';
import {
  EditWebhook,
  PauseWebhook,
  RemoveWebhook,
  ReplayWebhook,
  ResendMessage,
  ResumeWebhook,
  RotateSecret,
  TestWebhook,
} from './webhook-dialogs.js';
import { namesOf, State } from './webhooks.js';

const WEBHOOK = graphql(`
  query Webhook($appId: ID!, $id: ID!) {
    project(appId: $appId) {
      webhook(id: $id) {
        id url description types status reason createdAt cursor pendingSince failures nextAttemptAt lastDeliveredAt
        accepted failed
        backlog { count isMore }
        hours { from accepted failed }
        attempts { at messageId type ok status ms error resent body }
        secrets { id expiresAt }
      }
    }
  }
`);

type Webhook = NonNullable<NonNullable<ResultOf<typeof WEBHOOK>['project']>['webhook']>;
type Attempt = Webhook['attempts'][number];

interface OfOne {
  readonly appId: string;
  readonly webhook: Webhook;
}

/** A webhook: its target, its backlog, its attempts, and acts on it. */
export function Webhook({ appId, id }: { appId: string; id: string }) {
  const query = useQuery(WEBHOOK, { appId, id });
  useTitle(`Webhook ${id}`);
  return (
    <>
      <p class="crumbs">
        <a href={paths.project(appId, 'webhooks')}>Webhooks</a> / #{id}
      </p>
      <Answer query={query} data={query.data?.project}>
        {({ webhook }) =>
          webhook ? (
            <Known appId={appId} webhook={webhook} />
          ) : (
            <Missing title={`Webhook ${id}`} says="This project has no webhook with this ID.">
              <a href={paths.project(appId, 'webhooks')}>Show all webhooks</a>
            </Missing>
          )
        }
      </Answer>
    </>
  );
}

function Known({ appId, webhook }: OfOne) {
  const { id, url, status, failures } = webhook;
  const of = { appId, webhook };
  const isWell = status === 'ENABLED' && failures === 0;
  const test = <Button label="Test…" class={isWell ? 'primary' : ''} opens={<TestWebhook {...of} />} />;
  const retry = status === 'ENABLED' ? 'Try now…' : 'Resume…';
  const resume = <Button label={retry} class="primary" opens={<ResumeWebhook {...of} />} />;
  const asOf = useMemo(() => new Date().toISOString(), [webhook]);
  return (
    <>
      <Header
        title={<Value>{url}</Value>}
        recipe={{ userdir: command('webhook attempts', { project: appId, webhookId: id }) }}
        note={
          <>
            <bdi>{webhook.description}</bdi> As of <Time at={asOf} isExact />
          </>
        }
        more={
          may('operate') && (
            <>
              {!isWell && test}
              {status === 'ENABLED' && <Button label="Pause…" opens={<PauseWebhook {...of} />} />}
              <Button label="Edit…" opens={<EditWebhook {...of} />} />
              <Button label="Replay…" opens={<ReplayWebhook {...of} />} />
              <Button label="Rotate…" opens={<RotateSecret {...of} />} />
              <Button label="Remove…" class="danger" opens={<RemoveWebhook {...of} />} />
            </>
          )
        }
      >
        <Button label="Refresh" onClick={refresh} />
        {may('operate') && (isWell ? test : resume)}
      </Header>
      <Facts webhook={webhook} />
      <section>
        <h2>Last 24 hours</h2>
        <Figures
          caption="Attempts by the hour"
          summary={plural(sumOf(webhook.hours.map(({ accepted, failed }) => accepted + failed)), 'attempt')}
          by="HOUR"
          buckets={webhook.hours.map(({ from, accepted, failed }) => ({ from, counts: [accepted, failed] }))}
          series={[
            { name: 'Accepted', colour: 'accepted' },
            { name: 'Failed', colour: 'failed' },
          ]}
        />
      </section>
      <Attempts {...of} />
    </>
  );
}

function Facts({ webhook }: { webhook: Webhook }) {
  const { reason, failures, nextAttemptAt, secrets, pendingSince, backlog } = webhook;
  const ending = secrets.filter(({ expiresAt }) => expiresAt !== null);
  return (
    <dl class="facts">
      <Fact name="State">
        <State webhook={webhook} /> {reason}
        {reason === null && failures > 0 && (
          <>
            {plural(failures, 'attempt')} failed; the next one: <Time at={nextAttemptAt} isExact />
          </>
        )}
      </Fact>
      <Fact name="Waiting">
        {pendingSince === null ? (
          <span class="quiet">nothing waits</span>
        ) : (
          <>
            {backlog.isMore && 'at least '}
            {plural(backlog.count, 'change')}, since <Time at={pendingSince} />
          </>
        )}
      </Fact>
      <Fact name="Last delivery">
        <Time at={webhook.lastDeliveredAt} />
      </Fact>
      <Fact name="Attempts">
        {formatNumber(webhook.accepted)} accepted, {formatNumber(webhook.failed)} failed
      </Fact>
      <Fact name="Types">{namesOf(webhook.types)}</Fact>
      <Fact name="Secrets">
        {secrets.length === 1 ? 'one signs' : `${secrets.length} secrets sign`}
        {ending.map(({ id, expiresAt }) => (
          <span key={id}>
            , one until <Time at={expiresAt} />
          </span>
        ))}
      </Fact>
      <Fact name="Cursor">
        <CopyCode text={webhook.cursor} what="its cursor" />
      </Fact>
      <Fact name="Added">
        <Time at={webhook.createdAt} />
      </Fact>
    </dl>
  );
}

function Attempts({ appId, webhook }: OfOne) {
  const { query, href } = useUrlState();
  const failedOnly = query['show'] === 'failed';
  const one = { appId, webhook };
  return (
    <section>
      <div class="section-header">
        <h2>Attempts</h2>
        <Segments
          links={[
            { name: 'All', href: href({ show: null }), isChosen: !failedOnly },
            { name: 'Failed', href: href({ show: 'failed' }), isChosen: failedOnly },
          ]}
        />
      </div>
      <Table
        caption="Attempts"
        rows={failedOnly ? webhook.attempts.filter(({ ok }) => !ok) : webhook.attempts}
        rowKey={({ at, messageId, resent }) => `${at} ${messageId} ${resent}`}
        empty={<Empty title={failedOnly ? 'None failed.' : 'Nothing has been sent yet.'} />}
        columns={[
          { title: 'When', class: 'nowrap', cell: ({ at }) => <Time at={at} isExact /> },
          { title: 'Type', class: 'nowrap', cell: ({ type }) => <code>{type}</code> },
          { title: 'Outcome', class: 'outcome', cell: (attempt) => <Outcome attempt={attempt} /> },
          { title: 'Took', class: 'number', cell: ({ ms }) => `${formatNumber(ms)} ms` },
        ]}
        actions={(message) => {
          const of = formatDateTime(message.at, true);
          return (
            <>
              <Button label="Message…" of={of} class="small" opens={<Message message={message} />} />
              {may('operate') && message.body !== null && (
                <>
                  <Button label="Resend…" of={of} class="small" opens={<ResendMessage {...one} message={message} />} />
                  <Button
                    label="Replay from here…"
                    of={of}
                    class="small"
                    opens={<ReplayWebhook {...one} from={message.messageId} />}
                  />
                </>
              )}
            </>
          );
        }}
      />
      <p class="quiet note">
        The last {ATTEMPTS_KEPT} that were accepted and the last {ATTEMPTS_KEPT} that failed are kept, for{' '}
        {inWords(ATTEMPTS_KEPT_MS)}.
      </p>
    </section>
  );
}

function Outcome({ attempt: { ok, error, status, resent } }: { attempt: Attempt }) {
  return (
    <>
      <Badge tone={ok ? 'good' : 'bad'}>{ok ? 'accepted' : 'failed'}</Badge> {error ?? status}
      {resent && <span class="quiet"> by hand</span>}
    </>
  );
}

function Message({ message }: { message: Attempt }) {
  const { messageId, body, at, ms } = message;
  return (
    <Dialog title="What was sent" actions={<Button label="Close" onClick={closeDialog} />}>
      <dl class="facts">
        <Fact name="webhook-id">
          <code>{messageId}</code> <Copy text={messageId} what="the ID of the message, a cursor" />
        </Fact>
        <Fact name="Sent">
          <Time at={at} isExact />
        </Fact>
        <Fact name="Outcome">
          <Outcome attempt={message} />
        </Fact>
        <Fact name="Took">{formatNumber(ms)} ms</Fact>
      </dl>
      {body === null ? (
        <p class="quiet">The feed no longer has this change.</p>
      ) : (
        <CopyBlock name="Body" text={body} what="the body" />
      )}
    </Dialog>
  );
}
