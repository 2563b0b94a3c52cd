import { SingleBar } from 'cli-progress';
import type { Progress } from './operations.js';

export interface ProgressBar {
  update(progress: Progress): void;
  stop(): void;
}

const MAX_BAR_WIDTH = 30;
const MIN_BAR_WIDTH = 5;

/** How far an operation is, on stderr, on a terminal only: its share where the whole is known, how many, how fast, how long still. */
export function progressBar(unit: string | undefined): ProgressBar {
  if (unit === undefined || !process.stderr.isTTY) return { update: () => undefined, stop: () => undefined };
  let first: Measured | undefined;
  let latest: Measured;
  const bar = new SingleBar({
    format: () =>
      progressLine(unit, first ?? latest, latest, process.stderr.columns).slice(0, process.stderr.columns - 1),
    stream: process.stderr,
    clearOnComplete: true,
    // Whoever is killed would leave the terminal without them.
    hideCursor: false,
    linewrap: true,
  });
  return {
    update(progress) {
      latest = { fraction: 0, ...progress, seconds: performance.now() / 1_000 };
      if (first === undefined) bar.start(1, 0);
      first ??= latest;
      bar.update(latest.fraction);
    },
    stop() {
      if (first !== undefined) bar.stop();
    },
  };
}

interface Measured extends Required<Progress> {
  readonly seconds: number;
}

/** Measured from the first report on, because what comes before it is the start. */
function progressLine(unit: string, first: Measured, latest: Measured, columns: number): string {
  const { done, fraction } = latest;
  // The clock goes on between two reports.
  const seconds = performance.now() / 1_000 - first.seconds;
  const parts = [`${done.toLocaleString('en')} ${unit}`];
  if (done > first.done) parts.push(`${Math.round((done - first.done) / seconds).toLocaleString('en')}/s`);
  if (fraction === 0) return [...parts, clock(seconds)].join('  ');
  if (fraction === 1) parts.push('finishing');
  else if (fraction > first.fraction)
    parts.push(`${clock((seconds * (1 - fraction)) / (fraction - first.fraction))} left`);
  const words = [`${String(Math.floor(fraction * 100)).padStart(3)}%`, ...parts].join('  ');
  const width = Math.min(MAX_BAR_WIDTH, columns - words.length - 2);
  if (width < MIN_BAR_WIDTH) return words;
  const full = Math.round(fraction * width);
  return `${'█'.repeat(full)}${'░'.repeat(width - full)} ${words}`;
}

/** `1:05`, or `1:01:05`. */
function clock(seconds: number): string {
  const whole = Math.round(seconds);
  const hours = Math.floor(whole / 3_600);
  const minutes = Math.floor(whole / 60) % 60;
  const rest = String(whole % 60).padStart(2, '0');
  return hours === 0 ? `${minutes}:${rest}` : `${hours}:${String(minutes).padStart(2, '0')}:${rest}`;
}
