import Papa from 'papaparse';
import { isLost, unprotect } from '../../domain/csv-cells.js';
import { AppError } from '../../errors.js';

/* Cuts CSV of any length into its rows. */

/** Far more than a person has: a longer row has a quote that is not closed. */
const MAX_ROW_LENGTH = 2 ** 17;
/** After each, what was read is cut again, which takes time. */
const MAX_WRONG_LINES = 20;
export const MAX_COLUMNS = 200;

const MOST = `${MAX_ROW_LENGTH / 1_024} KiB`;
const WRONG_QUOTES = `The quotes of this line are wrong: a cell that begins with a quote has to end with one, within ${MOST}.`;
const TOO_LONG = `The line has more than ${MOST}.`;
const TOO_MANY_WRONG = `${MAX_WRONG_LINES} lines above cannot be read. Nothing from here on was read.`;

/** As much tells the delimiter. */
const GUESS_LENGTH = 2 ** 14;

export interface Dialect {
  readonly delimiter: string;
  readonly newline: '\n' | '\r';
}

export interface Row {
  /** The number of its first line in the file. */
  readonly line: number;
  readonly cells: readonly string[];
  /** Why it cannot be read. */
  readonly fault?: string;
}

/** The dialect of CSV by its beginning. */
export function guessDialect(text: string): Dialect {
  // Lines may end with "\r\n", too: a row is then left with the "\r" (withoutReturn).
  const newline = text.includes('\r') && !text.includes('\n') ? '\r' : '\n';
  const delimitersToGuess = [',', ';', '\t', '|'];
  const { meta } = Papa.parse(text.slice(0, GUESS_LENGTH), {
    newline,
    delimitersToGuess,
    skipEmptyLines: true,
    preview: 10,
  });
  return { delimiter: meta.delimiter, newline };
}

/** Makes rows, but none of blank cells only, of a text that comes in pieces. */
export function createRowSplitter({ delimiter, newline }: Dialect) {
  let line = 1;
  /** The text that no row has taken yet. */
  let text = '';
  let rows: Row[] = [];
  let wrongLines = 0;
  let isWithinLongLine = false;

  /** Takes the complete rows up to a wrong one. Returns whether there is one. */
  function takeRows(isLast: boolean): boolean {
    let cursor = 0;
    let isWrong = false;
    const step = ({ data: [cells = []], errors, meta }: Papa.ParseStepResult<string[][]>) => {
      isWrong = errors.length > 0 || meta.cursor - cursor > MAX_ROW_LENGTH;
      if (isWrong) return parser.abort();
      const raw = text.slice(cursor, meta.cursor);
      cursor = meta.cursor;
      const row = withoutReturn(cells, raw);
      if (row.some((cell) => cell.trim() !== '')) rows.push({ line, cells: row.map(unprotect) });
      line += raw.split(newline).length - (raw.endsWith(newline) ? 1 : 0);
    };
    const parser = new Papa.Parser({ delimiter, newline, step });
    const end = endOfRightRows(text, delimiter, newline);
    const isCut = end < text.length;
    parser.parse(isCut ? text.slice(0, end) : text, 0, isCut || !isLast);
    text = text.slice(cursor);
    return isWrong || isCut || text.length > MAX_ROW_LENGTH;
  }

  /** A wrong quote would take the rows below into its cell: what is wrong is the one line, and the next begins a row again. */
  function takeWrongLine(): void {
    const end = text.indexOf(newline) + 1;
    const fault = (end || text.length) > MAX_ROW_LENGTH ? TOO_LONG : WRONG_QUOTES;
    rows.push({ line, cells: [], fault: wrongLines === MAX_WRONG_LINES ? TOO_MANY_WRONG : fault });
    wrongLines += 1;
    line += 1;
    isWithinLongLine = end === 0;
    text = isWithinLongLine ? '' : text.slice(end);
  }

  /** Without what is left of a line that is too long. */
  function skipLongLine(piece: string): string {
    const end = piece.indexOf(newline) + 1;
    isWithinLongLine = end === 0;
    return isWithinLongLine ? '' : piece.slice(end);
  }

  const hasEnded = () => wrongLines > MAX_WRONG_LINES;
  return {
    split(piece: string, isLast: boolean): readonly Row[] {
      rows = [];
      text += isWithinLongLine ? skipLongLine(piece) : piece;
      while (!hasEnded() && takeRows(isLast)) takeWrongLine();
      return rows;
    },
  };
}

/** Where the first row with a wrong quote begins, or the length of the text. Papa Parse looks through all that follows for each such quote. */
function endOfRightRows(text: string, delimiter: string, newline: string): number {
  const ends = [delimiter, newline, '\r', ''];
  let row = 0;
  for (let at = 0; at < text.length; at += 1) {
    if (text[at] === '"') {
      at = afterQuoted(text, at);
      if (!ends.includes(text.charAt(at))) return row;
    } else while (at < text.length && text[at] !== delimiter && text[at] !== newline) at += 1;
    if (text[at] === newline) row = at + 1;
  }
  return text.length;
}

/** The place after a cell in quotes and the blanks behind it: the length of the text where the cell does not end. */
function afterQuoted(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end !== -1 && text[end + 1] === '"') end = text.indexOf('"', end + 2);
  if (end === -1) return text.length;
  let at = end + 1;
  while (text[at] === ' ') at += 1;
  return at;
}

/** Without the "\r" at the end of a line. One that stands within quotes is of the cell. */
function withoutReturn(cells: readonly string[], raw: string): readonly string[] {
  const last = cells.at(-1) ?? '';
  const isOfLine = last.endsWith('\r') && raw.replace(/\n$/, '').endsWith(last);
  return isOfLine ? [...cells.slice(0, -1), last.slice(0, -1)] : cells;
}

/** A title as the name of a field: `Email Verified` is `email_verified`. */
export const fieldNamed = (title: string) =>
  title
    .trim()
    .toLowerCase()
    .replace(/[\s-]+/g, '_');

/** The cells of a row by the names of their fields, without the empty ones. BAD_USER_INPUT, also for a lost value of a field that is `needed`. */
export function recordOf(
  titles: readonly string[],
  { cells, fault }: Row,
  needed: (field: string) => boolean,
): Record<string, string> {
  if (fault !== undefined) throw new AppError('BAD_USER_INPUT', fault);
  if (cells.length !== titles.length)
    throw new AppError('BAD_USER_INPUT', `The row has ${cells.length} cells, expected ${titles.length}.`);
  const record: Record<string, string> = {};
  for (const [place, cell] of cells.entries()) {
    if (cell === '') continue;
    const title = titles[place] as string;
    // It would be taken for the value that it once was.
    if (isLost(cell) && needed(title))
      throw new AppError(
        'BAD_USER_INPUT',
        `${title}: got "${cell}", of which a spreadsheet has lost the value. Make the column text there, and enter its values anew.`,
      );
    record[title] = cell;
  }
  return record;
}
