import { styleText } from 'node:util';
import type { Command } from 'commander';
import stringWidth from 'fast-string-width';

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

/** Shows how many lines, users or projects are done, and which part of the whole from 0 to 1, if that is known. */
export type ShowProgress = (done: number, fraction?: number) => void;

/** The part of a whole that may have grown since it was counted. */
export const partOf = (done: number, total: number) => (done >= total ? 1 : done / total);

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

/** Asks at a terminal before the old secret ends at once, unless that is what was asked for. */
export async function confirmNoOverlap(command: Command, question: string): Promise<void> {
  const isChosen = command.opts()['yes'] === true || command.getOptionValueSource('overlap') !== 'default';
  if (!isChosen && canAsk()) await confirm(question);
}

/** Throws unless a person confirms with "yes" or "y". */
export async function confirm(question: string): Promise<void> {
  if (!/^y(es)?$/i.test(await ask(`${question} [y/N] `))) throw new Error('Nothing was changed.');
}

/** Tells the state after a change, also where it was so before. */
export function tellState({ changed }: { readonly changed: boolean }, sentence: string): string {
  return changed ? sentence : `Nothing was to do. ${sentence}`;
}

type Cell = string | number;

/** How a list is printed. */
export interface ListForm<Row> {
  /** The columns by their titles: the name of a field, or what makes the cell of a row. Null is an empty cell. */
  readonly columns: Readonly<Record<string, (keyof Row & string) | ((row: Row) => Cell | null)>>;
  /** What to say if there is no row. */
  readonly none?: string;
}

/** A list that is a single page. */
export function listTable<Row>(rows: readonly Row[], form: ListForm<Row>): string {
  return rows.length === 0 ? (form.none ?? '') : startTable(form)(rows);
}

/**
 * A table with one line per row, whose rows come in pages. If it is wider than the terminal, each row becomes a list of its fields. The first page says how wide the columns are; a longer value later moves the rest of its line. Last
 * columns in which it has nothing have no title.
 */
export function startTable<Row>({ columns }: ListForm<Row>): (page: readonly Row[]) => string {
  const titles = Object.keys(columns).map((title) => paint('bold', title));
  const cellsOf = (row: Row) =>
    Object.values(columns).map(
      (cell) => ((typeof cell === 'string' ? numbered(cell, row[cell]) : cell(row)) as Cell | null) ?? '',
    );
  let format: ((page: Cell[][]) => string) | undefined;
  return (rows) => {
    const page = rows.map(cellsOf);
    if (format !== undefined) return format(page);
    const shown = titles.slice(0, titles.findLastIndex((_, index) => page.some((row) => row[index] !== '')) + 1);
    const align = aligned([shown, ...page]);
    format = (cells) => cells.map(align).join('\n');
    const lines = format([shown, ...page]);
    if (Math.max(...lines.split('\n').map(width)) <= terminalWidth()) return lines;
    const listFields = (row: Cell[]) => fields(titles.map((title, index) => [title, row[index] ?? '']));
    format = (cells) => cells.map((row) => `\n${listFields(row)}`).join('\n');
    return format(page).slice(1);
  };
}

/** IDs, which GraphQL has as texts of digits. A cursor has letters. */
const IDS = new Set(['id', 'user_id', 'merged_into']);
/** What people keep as JSON is theirs. */
const OF_PEOPLE = new Set(['metadata', 'details']);

/** A result of the operators' schema as commands tell it: IDs are numbers. */
export function toJson(result: unknown): string {
  return JSON.stringify(numbered('', result));
}

function numbered(name: string, value: unknown): unknown {
  if (IDS.has(name) && /^\d+$/.test(String(value))) return Number(value);
  if (Array.isArray(value)) return value.map((each) => numbered('', each));
  if (value === null || typeof value !== 'object' || 'toJSON' in value || OF_PEOPLE.has(name)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, numbered(key, each)]));
}

/** One line for each field that is not empty: its name and its value. */
export function fields(values: readonly (readonly [name: string, value: Cell])[]): string {
  const rows = values.filter(([, value]) => value !== '').map(([name, value]) => [name, String(value)]);
  return rows.map(aligned(rows)).join('\n');
}

/** Aligns rows in columns as wide as those of `rows`, so that lines can be copied and searched. Numbers are aligned right. */
function aligned(rows: Cell[][]): (row: Cell[]) => string {
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
export function width(text: Cell): number {
  return stringWidth(String(text));
}

/** Infinite if stdout is not a terminal. */
export function terminalWidth(): number {
  return process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY;
}
