import cliProgress, { type GenericFormatter } from 'cli-progress';

const MAX_BAR_WIDTH = 30;
const MIN_BAR_WIDTH = 5;

/** Shows the progress of an operation on stderr, which is a terminal. `unit` says what is counted. */
export function progressBar(unit: string) {
  let firstDone: number | undefined;
  const bar = new cliProgress.SingleBar(
    {
      format: progressLine,
      stream: process.stderr,
      clearOnComplete: true,
      // Both would leave the terminal changed if the process is killed.
      hideCursor: false,
      linewrap: true,
    },
    cliProgress.Presets.shades_classic,
  );
  return {
    update(done: number, fraction = 0): void {
      // The rate is measured from the first report on: what comes before it is preparation.
      const isFirst = firstDone === undefined;
      firstDone ??= done;
      if (isFirst) bar.start(1, fraction, { unit, done, firstDone });
      else bar.update(fraction, { unit, done, firstDone });
    },
    // Of a bar that has not begun it does nothing.
    stop: () => bar.stop(),
  };
}

/** The bar and the percentage if the whole is known, the count, the rate, and the remaining or elapsed time. */
const progressLine: GenericFormatter = (options, { progress, startTime, eta }, { unit, done, firstDone }) => {
  const columns = process.stderr.columns;
  const seconds = (Date.now() - startTime) / 1_000;
  const words = [`${done.toLocaleString('en')} ${unit}`];
  if (done > firstDone) words.push(`${Math.round((done - firstDone) / seconds).toLocaleString('en')}/s`);
  if (progress === 0) return [...words, time(seconds)].join('  ').slice(0, columns - 1);
  if (progress === 1) words.push('finishing');
  // Not a number until two reports have come.
  else if (typeof eta === 'number') words.push(`${time(eta)} left`);
  const text = [`${String(Math.floor(progress * 100)).padStart(3)}%`, ...words].join('  ');
  const barsize = Math.min(MAX_BAR_WIDTH, columns - text.length - 2);
  if (barsize < MIN_BAR_WIDTH) return text.slice(0, columns - 1);
  return `${cliProgress.Format.BarFormat(progress, { ...options, barsize })} ${text}`;

  function time(value: number): string {
    return cliProgress.Format.TimeFormat(Math.round(value), options, 1);
  }
};
