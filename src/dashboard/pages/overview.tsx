import { ErrorBoundary, lazy } from 'preact-iso';
import type { Bucket } from './chart.js';
import {
  daysAgo,
  firstOfMonth,
  formatBucket,
  formatNumber,
  type Interval,
  LOGIN_METHODS,
  METHOD_NAMES,
  plural,
} from './format.js';
import { graphql } from './graphql.js';
import { paths, useTitle, useUrlState } from './location.js';
import { NoUsers } from './no-users.js';
import { Badge, Copy, FilterInput, Header, Loading, Problem, Table, Time } from './parts.js';
import { useCurrentProject } from './project-frame.js';
import { type Query, useQuery } from './query.js';
import { SameByApi } from './recipes.js';
import { UserName } from './user-name.js';

const OVERVIEW = graphql(`
  query Overview($appId: ID!) {
    project(appId: $appId) {
      createdAt
      totalsByMethod { loginMethod total }
      userPage(page: 1, limit: 5) { totalCount nodes { id authMethod authValue createdAt loginMethod banned } }
    }
  }
`);

const SIGN_UPS = graphql(`
  query SignUps($appId: ID!, $from: Date!, $to: Date!, $by: Interval!) {
    project(appId: $appId) { signUps(from: $from, to: $to, by: $by) { from total email passkey wallet socials } }
  }
`);

const HEALTH = graphql(`query Health { status { checks { name state } } }`);

/** The chart comes with a library of its own, which no other screen loads. */
const Chart = lazy(async () => (await import('./chart.js')).Chart);

export function Overview({ appId }: { appId: string }) {
  const project = useCurrentProject();
  const { data, failure, loading } = useQuery(OVERVIEW, { appId });
  const shown = data?.project;
  useTitle('Overview', project?.name ?? '');
  return (
    <>
      <Header
        title={<bdi>{project?.name ?? ''}</bdi>}
        note={
          <>
            App ID <code>{appId}</code> <Copy text={appId} what="the App ID" />
          </>
        }
      >
        <SameByApi
          recipe={{
            graphql: { operation: TOTALS_OPERATION },
            curl: { path: '/server/users/count' },
            userdir: ['project', 'list'],
          }}
        />
      </Header>
      <Problem failure={failure} retry />
      {!shown && loading && <Loading lines={3} />}
      {shown && (
        <ul class="tiles">
          <li>
            <a href={paths.users(appId)}>
              <span>All users</span>
              <strong>{formatNumber(shown.userPage.totalCount)}</strong>
            </a>
          </li>
          {shown.totalsByMethod.map(({ loginMethod, total }) => (
            <li key={loginMethod}>
              <a href={`${paths.users(appId)}?method=${loginMethod}`}>
                <span>
                  <i class={`swatch ${loginMethod.toLowerCase()}`} /> {METHOD_NAMES[loginMethod]}
                </span>
                <strong>{formatNumber(total)}</strong>
              </a>
            </li>
          ))}
        </ul>
      )}
      {shown?.userPage.totalCount === 0 ? <NoUsers appId={appId} /> : <SignUps appId={appId} />}
      <div class="columns">
        <section>
          <h2>Newest users</h2>
          {shown?.userPage.totalCount === 0 && <p class="quiet">None yet.</p>}
          {shown && shown.userPage.totalCount > 0 && (
            <Table caption="Newest users">
              <thead class="hidden">
                <tr>
                  <th scope="col">User</th>
                  <th scope="col">Created</th>
                </tr>
              </thead>
              <tbody>
                {shown.userPage.nodes.map((user) => (
                  <tr key={user.id}>
                    <td class="main-cell">
                      <UserName appId={appId} user={user} />
                    </td>
                    <td class="nowrap quiet">
                      <Time at={user.createdAt} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </Table>
          )}
        </section>
        <Health />
      </div>
    </>
  );
}

const TOTALS_OPERATION = `{
  all: userCount
  email: userCount(filter: { loginMethods: [EMAIL] })
  passkey: userCount(filter: { loginMethods: [PASSKEY] })
  wallet: userCount(filter: { loginMethods: [WALLET] })
  socials: userCount(filter: { loginMethods: [SOCIALS] })
}`;

const RANGES: readonly { name: string; start: () => string; by: Interval }[] = [
  { name: '30 days', start: () => daysAgo(29), by: 'DAY' },
  { name: '90 days', start: () => daysAgo(89), by: 'DAY' },
  { name: '12 months', start: () => firstOfMonth(11), by: 'MONTH' },
];

function SignUps({ appId }: { appId: string }) {
  const { query, href, go } = useUrlState();
  const from = query['from'] ?? daysAgo(29);
  const to = query['to'] ?? daysAgo(0);
  const by: Interval = query['by'] === 'month' ? 'MONTH' : 'DAY';
  const answer = useQuery(SIGN_UPS, { appId, from, to, by });
  return (
    <section>
      <div class="section-header">
        <h2>Sign-ups</h2>
        <div class="filters">
          <div class="segments">
            {RANGES.map((range) => {
              const start = range.start();
              const chosen = from === start && to === daysAgo(0) && by === range.by;
              return (
                <a
                  key={range.name}
                  aria-current={chosen ? 'true' : undefined}
                  href={href({ from: start, to: null, by: range.by === 'MONTH' ? 'month' : null })}
                >
                  {range.name}
                </a>
              );
            })}
          </div>
          <FilterInput label="From" isDate value={from} onCommit={(value) => go({ from: value })} />
          <FilterInput label="To" isDate value={to} onCommit={(value) => go({ to: value })} />
          <label class="field">
            <span>By</span>
            <select value={by} onChange={(event) => go({ by: event.currentTarget.value === 'MONTH' ? 'month' : null })}>
              <option value="DAY">day</option>
              <option value="MONTH">month</option>
            </select>
          </label>
        </div>
      </div>
      <Problem failure={answer.failure} retry />
      {answer.failure?.code === 'BAD_USER_INPUT' && by === 'DAY' && <a href={href({ by: 'month' })}>Show months</a>}
      <Figures answer={answer} by={by} />
      <p class="quiet note">Days and months are those of UTC.</p>
    </section>
  );
}

function Figures({ answer, by }: { answer: Query<{ project: { signUps: readonly Bucket[] } | null }>; by: Interval }) {
  const buckets = answer.data?.project?.signUps;
  if (!buckets) return <div class="plot" />;
  const sum = buckets.reduce((total, bucket) => total + bucket.total, 0);
  return (
    <>
      <ErrorBoundary>
        <Chart buckets={buckets} by={by} />
      </ErrorBoundary>
      <details>
        <summary>{plural(sum, 'sign-up')}, as a table</summary>
        <Table caption="Sign-ups by login method" busy={answer.loading}>
          <thead>
            <tr>
              <th scope="col">{by === 'MONTH' ? 'Month' : 'Day'}</th>
              {LOGIN_METHODS.map((method) => (
                <th key={method} scope="col" class="number">
                  {METHOD_NAMES[method]}
                </th>
              ))}
              <th scope="col" class="number">
                Total
              </th>
            </tr>
          </thead>
          <tbody>
            {buckets.toReversed().map((bucket) => (
              <tr key={bucket.from}>
                <th scope="row" class="nowrap">
                  {formatBucket(bucket.from, by)}
                </th>
                <td class="number">{formatNumber(bucket.email)}</td>
                <td class="number">{formatNumber(bucket.passkey)}</td>
                <td class="number">{formatNumber(bucket.wallet)}</td>
                <td class="number">{formatNumber(bucket.socials)}</td>
                <td class="number">{formatNumber(bucket.total)}</td>
              </tr>
            ))}
          </tbody>
        </Table>
      </details>
    </>
  );
}

function Health() {
  const { data, failure, loading } = useQuery(HEALTH, {});
  const count = (state: string) => data?.status.checks.filter((check) => check.state === state).length ?? 0;
  return (
    <section>
      <h2>Health of the service</h2>
      <Problem failure={failure} />
      {loading && !data && <Loading lines={2} />}
      {data && (
        <p class="health">
          {count('PROBLEM') > 0 && <Badge tone="bad">{plural(count('PROBLEM'), 'problem')}</Badge>}
          {count('WARNING') > 0 && <Badge tone="warn">{plural(count('WARNING'), 'warning')}</Badge>}
          {count('PROBLEM') + count('WARNING') === 0 && <Badge tone="good">all checks pass</Badge>}
          <a href={paths.status}>Status</a>
        </p>
      )}
    </section>
  );
}
