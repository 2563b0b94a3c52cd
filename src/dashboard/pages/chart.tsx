import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { formatBucket, formatNumber, formatTick, type Interval } from './format.js';

/** Days and months are those of UTC, hours those of the reader. */
export interface Bucket {
  readonly from: string;
  /** One for each series. */
  readonly counts: readonly number[];
}

export interface ChartProps {
  readonly caption: string;
  readonly buckets: readonly Bucket[];
  /** Colours are variables and classes of style.css. */
  readonly series: readonly { readonly name: string; readonly colour: string }[];
  readonly by: Interval;
}

const cssVariable = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HEIGHT = 220;
const SECONDS: Record<Interval, number> = { HOUR: 3_600, DAY: 86_400, MONTH: 31 * 86_400 };
const prefersDark = matchMedia('(prefers-color-scheme: dark)');

/** Stacked bars, for those who see them. */
export function Chart({ caption, buckets, series, by }: ChartProps) {
  const holder = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const [isDark, setDark] = useState(prefersDark.matches);
  useEffect(() => {
    const change = () => setDark(prefersDark.matches);
    prefersDark.addEventListener('change', change);
    return () => prefersDark.removeEventListener('change', change);
  }, []);
  // The same figures may come in other arrays.
  const shownFigures = JSON.stringify([by, buckets]);
  useEffect(() => {
    const place = holder.current;
    if (!place) return;
    const plot = new uPlot(
      options(place.clientWidth, { buckets, series, by }, setPointed),
      stacked({ buckets, series }),
      place,
    );
    const observer = new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT }));
    observer.observe(place);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [shownFigures, isDark]);

  const shown = pointed === null ? undefined : buckets[pointed];
  const sum = (index: number) => buckets.reduce((total, { counts }) => total + (counts[index] ?? 0), 0);
  return (
    <figure class="chart">
      <figcaption class="legend" aria-hidden="true">
        {series.map(({ name, colour }, index) => (
          <span key={name}>
            <i class={`swatch ${colour}`} /> {name} <b>{formatNumber(shown?.counts[index] ?? sum(index))}</b>
          </span>
        ))}
        <span class="quiet">{shown ? formatBucket(shown.from, by) : 'in this range'}</span>
      </figcaption>
      <div ref={holder} class="plot" role="img" aria-label={`${caption}. The table below has the figures.`} />
    </figure>
  );
}

/** Each series on top of those before it; the highest is drawn first, so that the lower ones cover it. */
function stacked({ buckets, series }: Pick<ChartProps, 'buckets' | 'series'>): uPlot.AlignedData {
  const sums = series.map((_, index) =>
    buckets.map(({ counts }) => counts.slice(0, index + 1).reduce((total, count) => total + count, 0)),
  );
  return [buckets.map(({ from }) => Date.parse(from) / 1000), ...sums.reverse()];
}

function options(
  width: number,
  { buckets, series, by }: Pick<ChartProps, 'buckets' | 'series' | 'by'>,
  onPoint: (index: number | null) => void,
): uPlot.Options {
  const bars = uPlot.paths.bars?.({ size: [0.7, 48] });
  const axis = {
    stroke: cssVariable('--quiet'),
    grid: { stroke: cssVariable('--line'), width: 1 },
    ticks: { show: false },
  };
  const step = SECONDS[by];
  return {
    width,
    height: HEIGHT,
    tzDate: (seconds) => (by === 'HOUR' ? new Date(seconds * 1000) : uPlot.tzDate(new Date(seconds * 1000), 'UTC')),
    legend: { show: false },
    cursor: { y: false, drag: { setScale: false }, points: { show: false } },
    scales: {
      x: { range: (_, min, max) => (buckets.length === 0 ? [0, 1] : [min - step / 2, max + step / 2]) },
      y: { range: (_, __, max) => [0, topOf(max)] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        values: (_, ticks) => ticks.map((tick) => formatTick(tick * 1000, by)),
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
      ...series.toReversed().map(({ colour }) => ({
        fill: cssVariable(`--${colour}`),
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
