import { styleText } from 'node:util';
import type { Command } from 'commander';
import stringWidth from 'fast-string-width';
import { wrapAnsi } from 'fast-wrap-ansi';
import { AppError } from '../errors.js';
import { adviseConnection, explainConnection } from './connection-failure.js';

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

/** Says where a list goes on that ends before its last row. */
export const tellNextPage =
  (things: string) =>
  ({ endCursor, hasNextPage }: { readonly endCursor: string | null; readonly hasNextPage: boolean }): void => {
    if (hasNextPage) writeNotice(`There are more ${things}. The next page: --after ${endCursor}`);
  };

/** What is done, for a progress bar. */
export interface Progress {
  /** How many lines, users or projects are done. */
  readonly done: number;
  /** The part of the whole that is done, from 0 to 1, if the whole is known. */
  readonly fraction?: number;
}

export function progressOf(done: number, total: number): Progress {
  return { done, fraction: total === 0 ? 1 : done / total };
}

/** Whether a person can be asked: input and questions are on a terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** What a person types after a question on stderr. Throws if they end it by Ctrl+C or Ctrl+D. */
export async function ask(question: string): Promise<string> {
  // Loaded only for this, because it takes time.
  const { read } = await import('read');
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

/** Asks at a terminal before the old secret ends at once, unless that is what was asked for. */
export async function confirmNoOverlap(command: Command, question: string): Promise<void> {
  const isChosen = command.opts()['yes'] === true || command.getOptionValueSource('overlap') !== 'default';
  if (!isChosen && canAsk()) await confirm(question);
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

/** A failure to open the database, with what to change; any other one as it is. */
export function withAdvice(error: unknown): unknown {
  const advice = adviseConnection(error, 'DATABASE_URL');
  return advice === null
    ? error
    : new Error(`${explainFailure(error).replace(/\.$/, '')}. ${advice}`, { cause: error });
}

/** Tells the state after a change, also where it was so before. */
export function tellState({ changed }: { readonly changed: boolean }, sentence: string): string {
  return changed ? sentence : `Nothing was to do. ${sentence}`;
}

/** "1 user", "2 users". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

type Cell = string | number;

/** A list that is a single page. */
export function listTable<Row>(rows: readonly Row[], { head, cells, none }: ListForm<Row>): string {
  return rows.length === 0 ? none : startTable(head)(rows.map(cells));
}

/**
 * A table with one line per row, whose rows come in pages. If it is wider than the terminal, each row becomes a list of its fields. The first page says how wide the columns are; a longer value later moves the rest of its line. Last
 * columns in which it has nothing have no title.
 */
function startTable(head: readonly string[]): (page: Cell[][]) => string {
  const titles = head.map((title) => paint('bold', title));
  let format: ((page: Cell[][]) => string) | undefined;
  return (page) => {
    if (format !== undefined) return format(page);
    const shown = titles.slice(0, titles.findLastIndex((_, index) => page.some((row) => row[index] !== '')) + 1);
    const align = columns([shown, ...page]);
    format = (rows) => rows.map(align).join('\n');
    const lines = format([shown, ...page]);
    if (Math.max(...lines.split('\n').map(width)) <= terminalWidth()) return lines;
    const listFields = (row: Cell[]) =>
      fields(
        titles.map((title, index): [string, string] => [title, String(row[index])]).filter(([, value]) => value !== ''),
      );
    format = (rows) => rows.map((row) => `\n${listFields(row)}`).join('\n');
    return format(page).slice(1);
  };
}

/** How a list is printed. */
export interface ListForm<Row> {
  readonly head: readonly string[];
  readonly cells: (row: Row) => Cell[];
  /** What to say if there is no row. */
  readonly none: string;
}

/** Prints the pages of a list, each of them a JSON array: as one array or as a table. */
export function listPrinter<Row>({ head, cells, none }: ListForm<Row>, json: boolean) {
  const format = startTable(head);
  let isFirst = true;
  return {
    async write(page: string): Promise<void> {
      const rows = json ? (isFirst ? '[' : ',') + page.slice(1, -1) : `${format(JSON.parse(page).map(cells))}\n`;
      isFirst = false;
      await writeToStdout(rows);
    },
    print: () => (json ? (isFirst ? '[]' : ']') : isFirst ? none : ''),
  };
}

/** One line per field: its name and its value. */
export function fields(rows: [name: string, value: string][]): string {
  return rows.map(columns(rows)).join('\n');
}

/** Aligns rows in columns as wide as those of `rows`, so that lines can be copied and searched. Numbers are aligned right. */
function columns(rows: Cell[][]): (row: Cell[]) => string {
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => width(row[index] ?? ''))));
  const isNumeric = widths.map((_, index) => rows.some((row) => typeof row[index] === 'number'));
  return (row) =>
    row
      .map((cell, index) => {
        const space = ' '.repeat(Math.max((widths[index] ?? 0) - width(cell), 0));
        return isNumeric[index] ? `${space}${cell}` : `${cell}${space}`;
      })
      .join('  ')
      .trimEnd();
}

/** How many columns of a terminal a text takes. */
function width(text: Cell): number {
  return stringWidth(String(text));
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
}

const MIN_TEXT_WIDTH = 20;
const MAX_TEXT_WIDTH = 120;

/** Findings, with marks, names and texts in columns. */
export function formatFindings(findings: readonly FindingText[]): string {
  const nameWidth = Math.max(...findings.map(({ name }) => name.length));
  const textWidth = Math.max(Math.min(terminalWidth(), MAX_TEXT_WIDTH) - nameWidth - 6, MIN_TEXT_WIDTH);
  return findings
    .map(({ status, name, text }) => {
      const [style, sign] = MARKS[status];
      const start = `${paint(style, sign)}  ${paint('bold', name.padEnd(nameWidth))}  `;
      const lines = wrapAnsi(text, textWidth, { hard: true, trim: false }).split('\n');
      return lines
        .map((line, index) => `${index === 0 ? start : ' '.repeat(width(start))}${line}`.trimEnd())
        .join('\n');
    })
    .join('\n');
}

/** Infinite if stdout is not a terminal. */
function terminalWidth(): number {
  return process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY;
}
