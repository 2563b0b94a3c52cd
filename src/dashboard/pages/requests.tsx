import { FilterForm, FilterInput } from './form.js';
import { formatNumber, plural } from './format.js';
import { graphql, type ResultOf, refresh, useQuery } from './graphql.js';
import { paths, useUrlState } from './location.js';
import { Badge, Button, CopyCode, Empty, Fact, Segments, Time } from './parts.js';
import { RequestHours } from './request-hours.js';
import { Header, useTitle } from './screen.js';
import { Answer, Table } from './table.js';

const REQUESTS = graphql(`
  query Requests($appId: ID!, $failed: Boolean!, $requestId: String) {
    project(appId: $appId) {
      recentRequests(failed: $failed, requestId: $requestId, first: 100) {
        workers answered since
        requests { requestId at ms method route operation cost status code failed secret }
      }
    }
  }
`);

type Recent = NonNullable<ResultOf<typeof REQUESTS>['project']>['recentRequests'];
type Request = Recent['requests'][number];

/** The last requests of a project to this host, and how many it sent by the hour. */
export function Requests({ appId }: { appId: string }) {
  const { query: url, href } = useUrlState();
  const requestId = url['id'] ?? null;
  const failed = requestId === null && url['show'] === 'failed';
  const query = useQuery(REQUESTS, { appId, failed, requestId });
  const recent = query.data?.project?.recentRequests;
  useTitle('Requests');
  return (
    <>
      <Header title="Requests" note={recent && <Rememberers recent={recent} />}>
        <Button label="Refresh" onClick={refresh} />
      </Header>
      {requestId === null && <RequestHours appId={appId} />}
      <div class="section-header">
        <h2>{requestId === null ? 'Last requests' : 'Requests with this ID'}</h2>
        <FilterForm>
          <FilterInput label="X-Request-Id" name="id" />
          {requestId === null && (
            <Segments
              links={[
                { name: 'All', href: href({ show: null }), isChosen: !failed },
                { name: 'Failed', href: href({ show: 'failed' }), isChosen: failed },
              ]}
            />
          )}
        </FilterForm>
      </div>
      <Answer query={query} data={recent}>
        {({ requests }) =>
          requestId === null ? (
            <RequestTable requests={requests} busy={query.loading} failed={failed} />
          ) : (
            <Known appId={appId} requests={requests} requestId={requestId} />
          )
        }
      </Answer>
    </>
  );
}

/** Who remembers them, and since when. */
function Rememberers({ recent: { workers, answered, since } }: { recent: Recent }) {
  const of = workers === 1 ? 'the one worker of this host' : `this host’s ${formatNumber(workers)} workers`;
  return (
    <>
      Of {of}, in memory
      {since && (
        <>
          {' '}
          since <Time at={since} />
        </>
      )}
      . {answered < workers && <b>Only {plural(answered, 'worker')} answered. </b>}
      Requests whose credentials are refused are not among them.
    </>
  );
}

interface TableProps {
  readonly requests: readonly Request[];
  readonly busy: boolean;
  readonly failed: boolean;
}

function RequestTable({ requests, busy, failed }: TableProps) {
  const { href } = useUrlState();
  return (
    <Table
      caption="Last requests"
      busy={busy}
      rows={requests}
      rowKey={keyOf}
      empty={<Empty title={failed ? 'None failed.' : 'This host has answered none yet.'} />}
      columns={[
        { title: 'When', class: 'nowrap', cell: ({ at }) => <Time at={at} isExact /> },
        { title: 'Request', class: 'main-cell', cell: (request) => <What request={request} /> },
        { title: 'Outcome', class: 'outcome', cell: (request) => <Outcome request={request} /> },
        { title: 'Took', class: 'number', cell: ({ ms }) => `${formatNumber(ms)} ms` },
        { title: 'Cost', class: 'number', cell: ({ cost }) => cost !== null && formatNumber(cost) },
        { title: 'Secret', class: 'method', cell: ({ secret }) => <bdi>{secret}</bdi> },
        {
          title: 'X-Request-Id',
          class: 'method',
          hover: ({ requestId }) => requestId,
          cell: ({ requestId }) => (
            <a href={href({ id: requestId, show: null })}>
              <code>{requestId}</code>
            </a>
          ),
        },
      ]}
    />
  );
}

/** A worker may have answered several in a millisecond, and a client may send an ID again. */
const keyOf = ({ requestId, at, ms }: Request) => `${requestId} ${at} ${ms}`;

function What({ request: { method, route, operation } }: { request: Request }) {
  return (
    <>
      {operation ?? `${method} ${route}`}
      {operation && (
        <span class="second-line">
          {method} {route}
        </span>
      )}
    </>
  );
}

function Outcome({ request: { failed, status, code } }: { request: Request }) {
  return (
    <>
      <Badge tone={failed ? 'bad' : 'good'}>{String(status)}</Badge> {code}
    </>
  );
}

interface KnownProps {
  readonly appId: string;
  readonly requestId: string;
  readonly requests: readonly Request[];
}

/** What is known of the requests with an ID, most often one. */
function Known({ appId, requestId, requests }: KnownProps) {
  const { href } = useUrlState();
  const links = (
    <p class="choices-line">
      <a href={href({ id: null })}>Show the last requests</a>
      <a href={`${paths.project(appId, 'users')}?${new URLSearchParams({ q: requestId })}`}>Search users for it</a>
    </p>
  );
  if (requests.length === 0)
    return (
      <Empty title="No worker of this host remembers a request of this project with this ID.">
        <p>
          It may be too old, or another host answered it, or its credentials were refused. The log has each request as{' '}
          <code>reqId</code>.
        </p>
        {links}
      </Empty>
    );
  return (
    <>
      {requests.map((request) => (
        <dl class="facts" key={keyOf(request)}>
          <Fact name="X-Request-Id">
            <CopyCode text={request.requestId} what="the ID of the request" />
          </Fact>
          <Fact name="Answered">
            <Time at={request.at} isExact />, after {formatNumber(request.ms)} ms
          </Fact>
          <Fact name="Request">
            {request.method} {request.route}
          </Fact>
          {request.operation && <Fact name="Operation">{request.operation}</Fact>}
          {request.cost !== null && <Fact name="Cost">{formatNumber(request.cost)}</Fact>}
          <Fact name="Outcome">
            <Outcome request={request} />
          </Fact>
          <Fact name="Secret">
            <bdi>{request.secret}</bdi>
          </Fact>
        </dl>
      ))}
      {links}
    </>
  );
}
