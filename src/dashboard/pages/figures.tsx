import { ErrorBoundary, lazy } from 'preact-iso';
import type { Bucket, ChartProps } from './chart.js';
import { formatBucket, formatNumber, type Interval } from './format.js';
import { Table } from './table.js';

/** Counts by time, as a chart and as a table for those who do not see it. */

interface FiguresProps extends ChartProps {
  /** Opens the table. */
  readonly summary: string;
  readonly busy?: boolean;
}

/** The chart comes with a library of its own, which no other screen loads. */
const Chart = lazy(async () => (await import('./chart.js')).Chart);

const TITLES: Record<Interval, string> = { HOUR: 'Hour from', DAY: 'Day', MONTH: 'Month' };
export const sumOf = (counts: readonly number[]): number => counts.reduce((sum, count) => sum + count, 0);

export function Figures({ summary, busy = false, ...chart }: FiguresProps) {
  const { caption, buckets, series, by } = chart;
  return (
    <>
      <ErrorBoundary>
        <Chart {...chart} />
      </ErrorBoundary>
      <details>
        <summary>{summary}, as a table</summary>
        <Table
          caption={caption}
          staysTable
          busy={busy}
          rows={buckets.toReversed()}
          rowKey={({ from }) => from}
          columns={[
            { title: TITLES[by], class: 'nowrap', namesRow: true, cell: ({ from }) => formatBucket(from, by) },
            ...series.map(({ name }, index) => ({
              title: name,
              class: 'number',
              cell: ({ counts }: Bucket) => formatNumber(counts[index] ?? 0),
            })),
            { title: 'Total', class: 'number', cell: ({ counts }) => formatNumber(sumOf(counts)) },
          ]}
        />
      </details>
    </>
  );
}
