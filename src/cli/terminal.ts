import { stripVTControlCharacters, styleText } from 'node:util';
import cliProgress, { type GenericFormatter } from 'cli-progress';
import Table from 'cli-table3';
import { read } from 'read';
import { AppError } from '../errors.js';
import { explainConnection } from './connection-failure.js';
import type { Progress } from './operation.js';

/** What a person at a terminal sees: colours, tables, findings, progress bars and notices. */

/** Colours the text if stdout is a terminal, unless NO_COLOR or --no-color is given. FORCE_COLOR colours it anywhere. */
export function paint(style: 'bold' | 'dim' | 'red' | 'green' | 'yellow', text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

export async function writeToStdout(chunk: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(chunk, (error) => (error ? reject(error) : resolve()));
  });
}

/** Writes to stderr, so that stdout contains the result only. */
export function writeNotice(sentence: string): void {
  // On a terminal the line may have a progress bar.
  process.stderr.write(`${process.stderr.isTTY ? '\r\x1b[K' : ''}userdir: ${sentence}\n`);
}

/** Whether a person can be asked: input and questions are on a terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** What a person types after a question on stderr. Throws if they end it by Ctrl+C or Ctrl+D. */
export async function ask(question: string): Promise<string> {
  const answer = await read({ prompt: question, output: process.stderr }).catch(() => {
    process.stderr.write('\n');
    throw new Error('Nothing was changed.');
  });
  return answer.trim();
}

/** Throws unless a person confirms with "yes" or "y". */
export async function confirm(question: string): Promise<void> {
  if (!/^y(es)?$/i.test(await ask(`${question} [y/N] `))) throw new Error('Nothing was changed.');
}

/** Why something failed, in one line. */
export function explainFailure(error: unknown): string {
  const hasReason = error instanceof AppError && ['INTERNAL_SERVER_ERROR', 'UNAVAILABLE'].includes(error.code);
  const cause = hasReason ? (error.cause ?? error) : error;
  if (cause instanceof AggregateError) return cause.errors.map(explainFailure).join('; ');
  const known = explainConnection(cause);
  if (known !== null) return known;
  const { code = '', syscall = '' } = cause as NodeJS.ErrnoException;
  if (['connect', 'getaddrinfo'].includes(syscall))
    return `The database of DATABASE_URL cannot be reached: ${(cause as Error).message || code}.`;
  // For a failed query Prisma prints source code first, and the reason in the last line.
  const lines = (cause instanceof Error ? cause.message : String(cause)).split('\n').filter((line) => line.trim());
  return lines.at(-1) ?? 'It failed without a reason.';
}

/** "1 user", "2 users". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

type Cell = string | number;

/** A table with one line per row. If it is wider than the terminal, each row becomes a list of its fields. */
export function table(head: string[], rows: Cell[][]): string {
  const titles = head.map((title) => paint('bold', title));
  const lines = columns([titles, ...rows]);
  if (lines.every((line) => stripVTControlCharacters(line).length <= terminalWidth())) return lines.join('\n');
  return rows.map((row) => fields(titles.map((title, index) => [title, String(row[index] ?? '')]))).join('\n\n');
}

/** One line per field: its name and its value. */
export function fields(rows: [name: string, value: string][]): string {
  return columns(rows).join('\n');
}

const BORDER_PARTS = ['top', 'bottom', 'left', 'right'].flatMap((side) =>
  ['', '-mid', '-left', '-right'].map((part) => side + part),
);
const NO_BORDERS = Object.fromEntries([...BORDER_PARTS, 'mid', 'mid-mid'].map((part) => [part, '']));

/** Aligned columns without borders, so that lines can be copied and searched. Columns with numbers are aligned right. */
function columns(rows: Cell[][], lastWidth?: number): string[] {
  const width = rows[0]?.length ?? 0;
  const isNumeric = (index: number) => rows.some((row) => typeof row[index] === 'number');
  const layout = new Table({
    chars: { ...NO_BORDERS, middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
    colAligns: Array.from({ length: width }, (_, index) => (isNumeric(index) ? 'right' : 'left')),
    ...(lastWidth !== undefined && { colWidths: [...Array(width - 1).fill(null), lastWidth], wordWrap: true }),
  });
  layout.push(...rows);
  return layout
    .toString()
    .split('\n')
    .map((line) => line.trimEnd());
}

const MARKS = {
  passed: ['green', '✓'],
  warning: ['yellow', '!'],
  failed: ['red', '✗'],
  skipped: ['dim', '-'],
} as const;

export interface FindingText {
  readonly status: keyof typeof MARKS;
  readonly name: string;
  readonly text: string;
  /** Lines below the name and the text. */
  readonly details?: readonly string[];
}

const MIN_TEXT_WIDTH = 20;
const MAX_TEXT_WIDTH = 120;

/** A single finding: a mark, its name and text in one line, and the details below. */
export function formatFinding({ status, name, text, details = [] }: FindingText): string {
  const width = textWidth() - 3;
  const lines = [
    `${paint('bold', name)}  ${paint('dim', text)}`,
    ...details.map((line) => breakLongWords(line, width)),
  ];
  return columns([[mark(status), lines.join('\n')]], width).join('\n');
}

/** Several findings, with marks, names and texts in columns. */
export function formatFindings(findings: readonly FindingText[]): string {
  const nameWidth = Math.max(...findings.map(({ name }) => name.length));
  const width = Math.max(textWidth() - nameWidth - 6, MIN_TEXT_WIDTH);
  const rows = findings.map(({ status, name, text }) => [
    mark(status),
    paint('bold', name),
    breakLongWords(text, width),
  ]);
  return columns(rows, width).join('\n');
}

/** cli-table3 truncates a word that is longer than its column. */
function breakLongWords(text: string, width: number): string {
  return text.replace(new RegExp(`\\S{${width - 1}}(?=\\S)`, 'g'), '$&\n');
}

function mark(status: keyof typeof MARKS): string {
  const [style, sign] = MARKS[status];
  return paint(style, sign);
}

function textWidth(): number {
  return Math.max(Math.min(terminalWidth(), MAX_TEXT_WIDTH), MIN_TEXT_WIDTH);
}

/** Infinite if stdout is not a terminal. */
function terminalWidth(): number {
  return process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY;
}

export interface ProgressBar {
  update(progress: Progress): void;
  stop(): void;
}

const NO_BAR: ProgressBar = { update: () => undefined, stop: () => undefined };
const MAX_BAR_WIDTH = 30;
const MIN_BAR_WIDTH = 5;

/** Shows the progress of an operation on stderr, if stderr is a terminal and `unit` says what is counted. */
export function progressBar(unit: string | undefined): ProgressBar {
  if (unit === undefined || !process.stderr.isTTY) return NO_BAR;
  let first: Progress | undefined;
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
    update(progress) {
      const { done, fraction = 0 } = progress;
      const isFirst = first === undefined;
      // The rate is measured from the first report on: what comes before it is preparation.
      first ??= progress;
      const payload = { unit, done, firstDone: first.done };
      if (isFirst) bar.start(1, fraction, payload);
      else bar.update(fraction, payload);
    },
    stop() {
      if (first !== undefined) bar.stop();
    },
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
