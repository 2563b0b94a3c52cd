import { useState } from 'preact/hooks';
import { formatBucket, formatDateTime, formatNumber } from './format.js';
import { graphql, type ResultOf, useQuery } from './graphql.js';
import { useUrlState } from './location.js';
import { Segments, Time } from './parts.js';
import { Answer, Table } from './table.js';

const HOURS = graphql(`
  query RequestHours($appId: ID!) { project(appId: $appId) { requestHours { from requests failures logins } } }
`);

type Hour = NonNullable<ResultOf<typeof HOURS>['project']>['requestHours'][number];

type Tally = Omit<Hour, 'from'>;

const HEIGHT = 60;
const HOURS_OF_DAY = 24;

/** Requests, failures and logins by the hour: of 30 days or of one, as bars and as a table. */
export function RequestHours({ appId }: { appId: string }) {
  const { query: url, href } = useUrlState();
  const isDay = url['range'] === 'day';
  const query = useQuery(HOURS, { appId });
  return (
    <section>
      <div class="section-header">
        <h2>By the hour, on all hosts</h2>
        <Segments
          links={[
            { name: '30 days', href: href({ range: null }), isChosen: !isDay },
            { name: '24 hours', href: href({ range: 'day' }), isChosen: isDay },
          ]}
        />
      </div>
      <Answer query={query} data={query.data?.project?.requestHours} lines={3}>
        {(all) => <HoursChart hours={isDay ? all.slice(-HOURS_OF_DAY) : all} isDay={isDay} />}
      </Answer>
    </section>
  );
}

interface ChartProps {
  readonly hours: readonly Hour[];
  readonly isDay: boolean;
  /** What is counted. Only requests may be logins. */
  readonly of?: 'Requests' | 'Attempts';
}

export function HoursChart({ hours, isDay, of = 'Requests' }: ChartProps) {
  const [pointed, setPointed] = useState<number | null>(null);
  const shown = pointed === null ? undefined : hours[pointed];
  const { requests, failures, logins } = shown ?? sumOf(hours);
  const what = of.toLowerCase();
  const label = `${formatNumber(requests)} ${what}, of which ${formatNumber(failures)} failed`;
  const hasLogins = of === 'Requests';
  return (
    <>
      <p class="legend">
        <span>
          <i class="swatch accepted" /> {what} <b>{formatNumber(requests)}</b>
        </span>
        <span>
          <i class="swatch failed" /> failed <b>{formatNumber(failures)}</b>
        </span>
        {hasLogins && (
          <span>
            <i class="swatch logins" /> logins <b>{formatNumber(logins)}</b>
          </span>
        )}
        <span class="quiet">{shown ? `from ${formatDateTime(shown.from)}` : 'in this range'}</span>
      </p>
      <Bars name="accepted" label={label} hours={hours} of="requests" redOf="failures" onPoint={setPointed} />
      {hasLogins && (
        <Bars name="logins" label={`${formatNumber(logins)} logins`} hours={hours} of="logins" onPoint={setPointed} />
      )}
      <p class="axis quiet">
        <Time at={hours[0]?.from} dayOnly={!isDay} /> <span>now</span>
      </p>
      {hasLogins && <p class="quiet note">What has come is counted twice a minute.</p>}
      <details>
        <summary>As a table</summary>
        <Figures hours={hours} isDay={isDay} of={of} />
      </details>
    </>
  );
}

interface BarsProps {
  readonly name: string;
  readonly label: string;
  readonly hours: readonly Hour[];
  readonly of: keyof Tally;
  /** What is drawn in red over a part of each bar. */
  readonly redOf?: keyof Tally;
  readonly onPoint: (hour: number | null) => void;
}

/** A bar for each hour. Tells at which one someone points. */
function Bars({ name, label, hours, of, redOf, onPoint }: BarsProps) {
  const valuesOf = (name: keyof Tally) => hours.map((hour) => hour[name]);
  const most = Math.max(1, ...valuesOf(of));
  return (
    <svg
      class="day"
      role="img"
      aria-label={label}
      viewBox={viewBoxOf(hours)}
      preserveAspectRatio="none"
      onPointerMove={({ currentTarget, clientX }) => {
        const box = currentTarget.getBoundingClientRect();
        const hour = Math.floor((hours.length * (clientX - box.left)) / box.width);
        onPoint(Math.min(hours.length - 1, Math.max(0, hour)));
      }}
      onPointerLeave={() => onPoint(null)}
    >
      <rect class="zero" y={HEIGHT - 1} width={hours.length * 10} height="1" />
      <path class={name} d={outline(valuesOf(of), most)} />
      {redOf && <path class="failed" d={outline(valuesOf(redOf), most)} />}
    </svg>
  );
}

export const viewBoxOf = (values: readonly unknown[]) => `0 0 ${values.length * 10} ${HEIGHT}`;

/** Bars as one path: 720 elements would make the page slow. */
export function outline(values: readonly number[], most = Math.max(1, ...values)): string {
  return values
    .map((value, at) => {
      const height = Math.max(2, (HEIGHT * value) / most);
      return value === 0 ? '' : `M${at * 10} ${HEIGHT}v${-height}h8v${height}z`;
    })
    .join('');
}

function sumOf(hours: readonly Hour[]): Tally {
  const sum = { requests: 0, failures: 0, logins: 0 };
  for (const { requests, failures, logins } of hours) {
    sum.requests += requests;
    sum.failures += failures;
    sum.logins += logins;
  }
  return sum;
}

/** The hours of a day; of 30 days the days, which are those of UTC. The newest come first. */
function Figures({ hours, isDay, of = 'Requests' }: ChartProps) {
  const days = [...new Set(hours.map(({ from }) => from.slice(0, 10)))];
  const ofDay = (day: string) => sumOf(hours.filter(({ from }) => from.startsWith(day)));
  const rows = isDay ? hours : days.map((day) => ({ from: day, ...ofDay(day) }));
  return (
    <Table
      caption={of}
      staysTable
      rows={rows.toReversed()}
      rowKey={({ from }) => from}
      columns={[
        {
          title: isDay ? 'Hour from' : 'Day in UTC',
          class: 'nowrap',
          namesRow: true,
          cell: ({ from }) => (isDay ? <Time at={from} /> : formatBucket(from, 'DAY')),
        },
        { title: of, class: 'number', cell: ({ requests }) => formatNumber(requests) },
        { title: 'Failed', class: 'number', cell: ({ failures }) => formatNumber(failures) },
        of === 'Requests' && { title: 'Logins', class: 'number', cell: ({ logins }) => formatNumber(logins) },
      ]}
    />
  );
}
