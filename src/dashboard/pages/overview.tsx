import { useState } from 'preact/hooks';
import { Figures, sumOf } from './figures.js';
import { FilterInput, SelectField } from './form.js';
import {
  daysAgo,
  firstOfMonth,
  formatNumber,
  LOGIN_METHODS,
  type LoginMethod,
  METHOD_NAMES,
  plural,
} from './format.js';
import { api, graphql, inProject, useNews, useQuery } from './graphql.js';
import { paths, streamPath, useUrlState } from './location.js';
import { CopyCode, Problem, Segments, Swatch, Time } from './parts.js';
import { command } from './recipes.js';
import { Header, useCurrentProject, useTitle } from './screen.js';
import { Answer, Table } from './table.js';
import { NoUsers, UserName } from './user-table.js';

const OVERVIEW = graphql(`
  query Overview($appId: ID!) { project(appId: $appId) { totalsByMethod { loginMethod total } } }
`);

const NEWEST = inProject(
  api(`query NewestUsers { users(first: 5) { nodes { id authValue createdAt loginMethod email ban { createdAt } } } }`),
);

const SIGN_UPS = graphql(`
  query SignUps($appId: ID!, $from: Date!, $to: Date!, $by: Interval!) {
    project(appId: $appId) { signUps(from: $from, to: $to, by: $by) { from total email passkey wallet socials } }
  }
`);

export function Overview({ appId }: { appId: string }) {
  const project = useCurrentProject();
  const query = useQuery(OVERVIEW, { appId }, { follows: true });
  const totals = query.data?.project?.totalsByMethod;
  const all = totals && sumOf(totals.map(({ total }) => total));
  const newest = useQuery(NEWEST, { project: appId }, { follows: true });
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
          userdir: command('project list', {}),
        }}
      />
      <Answer query={query} data={totals} lines={3}>
        {(totalsByMethod) => (
          <ul class="tiles">
            <li>
              <a href={paths.project(appId, 'users')}>
                <span>All users</span>
                <strong>{formatNumber(all ?? 0)}</strong>
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
      <SignUps appId={appId} isEmpty={all === 0} />
      <section>
        <h2>Newest users</h2>
        <Answer query={newest} data={newest.data?.users} lines={3}>
          {({ nodes }) => (
            <Table
              caption="Newest users"
              hidesTitles
              rows={nodes}
              rowKey={({ id }) => id}
              columns={[
                { title: 'User', class: 'main-cell', cell: (user) => <UserName appId={appId} user={user} /> },
                { title: 'Created', class: 'nowrap quiet', cell: ({ createdAt }) => <Time at={createdAt} /> },
              ]}
              empty={<p class="quiet">None yet.</p>}
            />
          )}
        </Answer>
      </section>
    </>
  );
}

const TOTALS_OPERATION = `{
  all: userCount
${LOGIN_METHODS.map((method) => `  ${method.toLowerCase()}: userCount(filter: { loginMethods: [${method}] })`).join('\n')}
}`;

const RANGES: readonly { name: string; start: () => string; by: 'DAY' | 'MONTH' }[] = [
  { name: '30 days', start: () => daysAgo(29), by: 'DAY' },
  { name: '90 days', start: () => daysAgo(89), by: 'DAY' },
  { name: '12 months', start: () => firstOfMonth(11), by: 'MONTH' },
];

function SignUps({ appId, isEmpty }: { appId: string; isEmpty: boolean }) {
  const { query, href, go } = useUrlState();
  const from = query['from'] ?? daysAgo(29);
  const to = query['to'] ?? daysAgo(0);
  const by = query['by'] === 'month' ? 'MONTH' : 'DAY';
  // Also where there is no user: otherwise the first one would make it a new query, which counts as one of the operator.
  const answer = useQuery(SIGN_UPS, { appId, from, to, by }, { follows: true });
  const buckets = answer.data?.project?.signUps;
  const total = buckets && sumOf(buckets.map((bucket) => bucket.total));
  const [isOpen, setOpen] = useState(false);
  if (isEmpty) return <NoUsers appId={appId} />;
  return (
    <section>
      <div class="section-header">
        <h2>Sign-ups {total !== undefined && <span class="quiet">{formatNumber(total)}</span>}</h2>
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
        <div class={`filters folds ${isOpen ? 'open' : ''}`}>
          <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Other days
          </button>
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
      {buckets ? (
        <Figures
          caption="Sign-ups by login method"
          summary={plural(total ?? 0, 'sign-up')}
          by={by}
          busy={answer.loading}
          buckets={buckets.map((bucket) => ({
            from: bucket.from,
            counts: LOGIN_METHODS.map((method) => bucket[method.toLowerCase() as Lowercase<LoginMethod>]),
          }))}
          series={LOGIN_METHODS.map((method) => ({ name: METHOD_NAMES[method], colour: method.toLowerCase() }))}
        />
      ) : (
        <div class="plot" />
      )}
      <p class="quiet note">Days and months are those of UTC.</p>
    </section>
  );
}
