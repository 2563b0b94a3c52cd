import { ErrorBoundary, lazy } from 'preact-iso';
import { FilterInput, SelectField } from './form.js';
import {
  type Bucket,
  countOf,
  daysAgo,
  firstOfMonth,
  formatBucket,
  formatNumber,
  type Interval,
  LOGIN_METHODS,
  METHOD_NAMES,
  plural,
} from './format.js';
import { graphql, type Query, useNews, useQuery } from './graphql.js';
import { paths, streamPath, useUrlState } from './location.js';
import { Badge, CopyCode, Problem, Segments, Swatch, Time } from './parts.js';
import { Header, useCurrentProject, useTitle } from './screen.js';
import { Answer, Table } from './table.js';
import { NoUsers, UserName } from './user-table.js';

const OVERVIEW = graphql(`
  query Overview($appId: ID!) {
    project(appId: $appId) {
      createdAt
      totalsByMethod { loginMethod total }
      userPage(page: 1, limit: 5) { totalCount nodes { id authMethod authValue createdAt loginMethod email banned } }
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
  const query = useQuery(OVERVIEW, { appId }, { follows: true });
  const shown = query.data?.project;
  const isEmpty = shown?.userPage.totalCount === 0;
  useTitle('Overview');
  useNews(project?.disabledAt === null ? streamPath(appId, 'news') : null);
  return (
    <>
      <Header
        title={<bdi>{project?.name ?? ''}</bdi>}
        note={
          <>
            App ID <CopyCode text={appId} what="the App ID" />
          </>
        }
        recipe={{
          graphql: { operation: TOTALS_OPERATION },
          curl: { path: '/server/users/count' },
          userdir: ['project', 'list'],
        }}
      />
      <Answer query={query} data={shown} lines={3}>
        {({ userPage, totalsByMethod }) => (
          <ul class="tiles">
            <li>
              <a href={paths.project(appId, 'users')}>
                <span>All users</span>
                <strong>{formatNumber(userPage.totalCount)}</strong>
              </a>
            </li>
            {totalsByMethod.map(({ loginMethod, total }) => (
              <li key={loginMethod}>
                <a href={`${paths.project(appId, 'users')}?method=${loginMethod}`}>
                  <span>
                    <Swatch method={loginMethod} /> {METHOD_NAMES[loginMethod]}
                  </span>
                  <strong>{formatNumber(total)}</strong>
                </a>
              </li>
            ))}
          </ul>
        )}
      </Answer>
      <SignUps appId={appId} isEmpty={isEmpty} />
      <div class="columns">
        <section>
          <h2>Newest users</h2>
          {shown && (
            <Table
              caption="Newest users"
              hidesTitles
              rows={shown.userPage.nodes}
              rowKey={({ id }) => id}
              columns={[
                { title: 'User', class: 'main-cell', cell: (user) => <UserName appId={appId} user={user} /> },
                { title: 'Created', class: 'nowrap quiet', cell: ({ createdAt }) => <Time at={createdAt} /> },
              ]}
              empty={<p class="quiet">None yet.</p>}
            />
          )}
        </section>
        <Health />
      </div>
    </>
  );
}

const TOTALS_OPERATION = `{
  all: userCount
${LOGIN_METHODS.map((method) => `  ${method.toLowerCase()}: userCount(filter: { loginMethods: [${method}] })`).join('\n')}
}`;

const RANGES: readonly { name: string; start: () => string; by: Interval }[] = [
  { name: '30 days', start: () => daysAgo(29), by: 'DAY' },
  { name: '90 days', start: () => daysAgo(89), by: 'DAY' },
  { name: '12 months', start: () => firstOfMonth(11), by: 'MONTH' },
];

function SignUps({ appId, isEmpty }: { appId: string; isEmpty: boolean }) {
  const { query, href, go } = useUrlState();
  const from = query['from'] ?? daysAgo(29);
  const to = query['to'] ?? daysAgo(0);
  const by: Interval = query['by'] === 'month' ? 'MONTH' : 'DAY';
  // Also where there is no user: otherwise the first one would make it a new query, which counts as one of the operator.
  const answer = useQuery(SIGN_UPS, { appId, from, to, by }, { follows: true });
  if (isEmpty) return <NoUsers appId={appId} />;
  return (
    <section>
      <div class="section-header">
        <h2>Sign-ups</h2>
        <div class="filters">
          <Segments
            links={RANGES.map((range) => {
              const start = range.start();
              return {
                name: range.name,
                href: href({ from: start, to: null, by: range.by === 'MONTH' ? 'month' : null }),
                isChosen: from === start && to === daysAgo(0) && by === range.by,
              };
            })}
          />
          <FilterInput label="From" isDate name="from" otherwise={from} />
          <FilterInput label="To" isDate name="to" otherwise={to} />
          <SelectField
            label="By"
            value={by}
            options={[
              ['DAY', 'day'],
              ['MONTH', 'month'],
            ]}
            onChange={(value) => go({ by: value === 'MONTH' ? 'month' : null })}
          />
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
        <Table
          caption="Sign-ups by login method"
          staysTable
          busy={answer.loading}
          rows={buckets.toReversed()}
          rowKey={({ from }) => from}
          columns={[
            {
              title: by === 'MONTH' ? 'Month' : 'Day',
              class: 'nowrap',
              namesRow: true,
              cell: ({ from }) => formatBucket(from, by),
            },
            ...LOGIN_METHODS.map((method) => ({
              title: METHOD_NAMES[method],
              class: 'number',
              cell: (bucket: Bucket) => formatNumber(countOf(bucket, method)),
            })),
            { title: 'Total', class: 'number', cell: ({ total }) => formatNumber(total) },
          ]}
        />
      </details>
    </>
  );
}

function Health() {
  const query = useQuery(HEALTH, {});
  return (
    <section>
      <h2>Health of the service</h2>
      <Answer query={query} data={query.data?.status.checks} lines={2} retry={false}>
        {(checks) => {
          const problems = checks.filter(({ state }) => state === 'FAILED').length;
          const warnings = checks.filter(({ state }) => state === 'WARNING').length;
          return (
            <p class="health">
              {problems > 0 && <Badge tone="bad">{plural(problems, 'problem')}</Badge>}
              {warnings > 0 && <Badge tone="warn">{plural(warnings, 'warning')}</Badge>}
              {problems + warnings === 0 && <Badge tone="good">all checks pass</Badge>}
              <a href={paths.status}>Status</a>
            </p>
          );
        }}
      </Answer>
    </section>
  );
}
