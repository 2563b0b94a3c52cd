import { useState } from 'preact/hooks';
import { formatDateTime, formatNumber } from './format.js';
import { Time } from './parts.js';
import { Table } from './table.js';

/** Small bars: those of the attempts of a webhook, and those of a row of a table. */

interface Hour {
  readonly from: string;
  readonly accepted: number;
  readonly failed: number;
}

const HEIGHT = 60;

const attemptsOf = ({ accepted, failed }: Hour) => accepted + failed;
const sumOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0);

/** Attempts of a webhook by outcome, hour by hour, as bars and as a table. */
export function HoursChart({ hours }: { hours: readonly Hour[] }) {
  const [pointed, setPointed] = useState<number | null>(null);
  const shown = pointed === null ? undefined : hours[pointed];
  const attempts = hours.map(attemptsOf);
  const failures = hours.map(({ failed }) => failed);
  const [tried, failed] = (shown ? [attemptsOf(shown), shown.failed] : [attempts, failures].map(sumOf)).map(
    formatNumber,
  );
  return (
    <>
      <p class="legend">
        <span>
          <i class="swatch accepted" /> attempts <b>{tried}</b>
        </span>
        <span>
          <i class="swatch failed" /> failed <b>{failed}</b>
        </span>
        <span class="quiet">{shown ? `from ${formatDateTime(shown.from)}` : 'in all'}</span>
      </p>
      <svg
        class="day"
        role="img"
        aria-label={`${tried} attempts, of which ${failed} failed`}
        viewBox={viewBoxOf(hours)}
        preserveAspectRatio="none"
        onPointerMove={({ currentTarget, clientX }) => {
          const box = currentTarget.getBoundingClientRect();
          const hour = Math.floor((hours.length * (clientX - box.left)) / box.width);
          setPointed(Math.min(hours.length - 1, Math.max(0, hour)));
        }}
        onPointerLeave={() => setPointed(null)}
      >
        <rect class="zero" y={HEIGHT - 1} width={hours.length * 10} height="1" />
        <path class="accepted" d={outline(attempts)} />
        <path class="failed" d={outline(failures, highest(attempts))} />
      </svg>
      <p class="axis quiet">
        <Time at={hours[0]?.from} /> <span>now</span>
      </p>
      <details>
        <summary>As a table</summary>
        <Table
          caption="Attempts by the hour"
          staysTable
          rows={hours.toReversed()}
          rowKey={({ from }) => from}
          columns={[
            { title: 'Hour from', class: 'nowrap', namesRow: true, cell: ({ from }) => <Time at={from} /> },
            { title: 'Attempts', class: 'number', cell: (hour) => formatNumber(attemptsOf(hour)) },
            { title: 'Failed', class: 'number', cell: ({ failed }) => formatNumber(failed) },
          ]}
        />
      </details>
    </>
  );
}

export const viewBoxOf = (values: readonly unknown[]) => `0 0 ${values.length * 10} ${HEIGHT}`;

const highest = (values: readonly number[]) => Math.max(1, ...values);

/** Bars as one path. */
export function outline(values: readonly number[], most = highest(values)): string {
  return values
    .map((value, at) => {
      const height = Math.max(2, (HEIGHT * value) / most);
      return value === 0 ? '' : `M${at * 10} ${HEIGHT}v${-height}h8v${height}z`;
    })
    .join('');
}
