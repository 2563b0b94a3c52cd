import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import {
  type Bucket,
  countOf,
  formatBucket,
  formatNumber,
  type Interval,
  LOGIN_METHODS,
  type LoginMethod,
  METHOD_NAMES,
} from './format.js';
import { isDark } from './theme.js';

const cssVariable = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 220;

/** Sign-ups as stacked bars, and as a table for those who do not see the chart. */
export function Chart({ buckets, by }: { buckets: readonly Bucket[]; by: Interval }) {
  const holder = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const dark = isDark.value;
  useEffect(() => {
    const place = holder.current;
    if (!place) return;
    const plot = new uPlot(options(place.clientWidth, by, buckets.length, setPointed), stacked(buckets), place);
    const observer = new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT }));
    observer.observe(place);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [buckets, by, dark]);

  const shown = pointed === null ? undefined : buckets[pointed];
  const sum = (method: LoginMethod) => buckets.reduce((total, bucket) => total + countOf(bucket, method), 0);
  return (
    <figure class="chart">
      <figcaption class="legend" aria-hidden="true">
        {LOGIN_METHODS.map((method) => (
          <span key={method}>
            <i class={`swatch ${method.toLowerCase()}`} /> {METHOD_NAMES[method]}{' '}
            <b>{formatNumber(shown ? countOf(shown, method) : sum(method))}</b>
          </span>
        ))}
        <span class="quiet">{shown ? formatBucket(shown.from, by) : 'in this range'}</span>
      </figcaption>
      <div
        ref={holder}
        class="plot"
        role="img"
        aria-label="Sign-ups by login method. The table below has the figures."
      />
    </figure>
  );
}

/** Each method on top of those before it; the highest is drawn first, so that the lower ones cover it. */
function stacked(buckets: readonly Bucket[]): uPlot.AlignedData {
  const sums = LOGIN_METHODS.map((_, index) =>
    buckets.map((bucket) =>
      LOGIN_METHODS.slice(0, index + 1).reduce((total, method) => total + countOf(bucket, method), 0),
    ),
  );
  return [buckets.map(({ from }) => Date.parse(`${from}T00:00:00Z`) / 1000), ...sums.reverse()];
}

function options(width: number, by: Interval, count: number, onPoint: (index: number | null) => void): uPlot.Options {
  const bars = uPlot.paths.bars?.({ size: [0.7, 48] });
  const axis = {
    stroke: cssVariable('--quiet'),
    grid: { stroke: cssVariable('--line'), width: 1 },
    ticks: { show: false },
  };
  const step = by === 'MONTH' ? 31 * 86_400 : 86_400;
  return {
    width,
    height: HEIGHT,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'UTC'),
    legend: { show: false },
    cursor: { y: false, drag: { setScale: false }, points: { show: false } },
    scales: {
      x: { range: (_, min, max) => (count === 0 ? [0, 1] : [min - step / 2, max + step / 2]) },
      y: { range: (_, __, max) => [0, topOf(max)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        values: (_, ticks) => ticks.map((tick) => axisLabel(tick, by)),
        space: 80,
        size: 30,
      },
      {
        ...axis,
        size: 56,
        splits: (_, __, ___, top) =>
          Array.from({ length: Math.round(top / stepOf(top)) + 1 }, (_each, at) => at * stepOf(top)),
        values: (_, ticks) => ticks.map(formatNumber),
      },
    ],
    series: [
      {},
      ...[...LOGIN_METHODS].reverse().map((method) => ({
        fill: cssVariable(`--${method.toLowerCase()}`),
        width: 0,
        points: { show: false },
        ...(bars && { paths: bars }),
      })),
    ],
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
  };
}

/** The distance of the lines: 1, 2 or 5 times a power of ten, so that there are four to nine. */
function stepOf(top: number): number {
  const power = 10 ** Math.floor(Math.log10(top / 4));
  return Math.max(1, ([5, 2].find((times) => top / (times * power) >= 4) ?? 1) * power);
}

/** The highest line, above every bar. */
function topOf(highest: number | null): number {
  const step = stepOf(Math.max(4, highest ?? 0));
  return Math.max(4, step * Math.ceil(((highest ?? 0) * 1.02) / step));
}

const shortDay = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const shortMonth = new Intl.DateTimeFormat('en-GB', { month: 'short', year: 'numeric', timeZone: 'UTC' });
const axisLabel = (seconds: number, by: Interval) =>
  (by === 'MONTH' ? shortMonth : shortDay).format(new Date(seconds * 1000));
