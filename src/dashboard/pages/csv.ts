import Papa from 'papaparse';
import { isLost, isOfUser, unprotect } from '#dist/domain/csv-cells.js';

/* Makes the lines of an import from CSV, loaded on demand. It imports nothing of the page. Its errors have words for a reader. */

/** A file is read in such pieces: it is never in memory as a whole, and the page can be used in between. */
const PIECE_BYTES = 2 ** 18;
/** Far more than a user has: a longer row has a quote that is not closed. */
const MAX_ROW_LENGTH = 2 ** 17;
/** After each, what was read is split again, so that they take time. */
const MAX_WRONG_LINES = 20;
const GUESSED_FROM_BYTES = 2 ** 18;
const MAX_COLUMNS = 100;
const PREVIEW_ROWS = 5;
/** As many as a report has. */
const MAX_FAULTS = 1_000;

const WRONG_QUOTES =
  'The quotes of this line are wrong: a cell that begins with a quote has to end with one, within 128 KiB.';
const TOO_LONG = 'The line has more than 128 KiB.';
const TOO_MANY_WRONG = `${MAX_WRONG_LINES} lines above cannot be read. Nothing from here on was read.`;
const NOT_UTF8 = 'The file is not text in UTF-8. Save it as “CSV UTF-8”, and choose it again.';

/** A field of the import format, and how a cell gives it. */
export interface ImportField {
  readonly name: string;
  readonly form: 'TEXT' | 'NUMBER' | 'JSON' | 'ACCOUNTS';
  readonly isRequired: boolean;
}

interface Dialect {
  readonly delimiter: string;
  readonly newline: '\n' | '\r';
}

export interface Row {
  /** The number of its first line in the file. */
  readonly line: number;
  /** As they stand in the file: what an export has protected is still so. */
  readonly cells: readonly string[];
  /** Why it cannot be read. */
  readonly fault: string | undefined;
}

/** The dialect of a file, and its first rows. */
export interface Sheet extends Dialect {
  /** Titles of columns, or a user. */
  readonly first: Row;
  readonly firstIsUser: boolean;
  /** The next rows. */
  readonly rows: readonly Row[];
}

/** Reads the beginning of a file. Throws if it is no CSV, or not in UTF-8. */
export async function openSheet(file: Blob, delimiter: string | null): Promise<Sheet> {
  const dialect = await guessDialect(file, delimiter);
  const { value } = await readRows(file, dialect).next();
  const [first, ...rows] = (value?.rows ?? []).slice(0, 1 + PREVIEW_ROWS).map(asShown);
  if (!first) throw new Error('The file has no rows.');
  if (first.fault) throw new Error(`Line ${first.line}: ${first.fault}`);
  const columns = first.cells.length;
  if (columns > MAX_COLUMNS) throw new Error(`The first row has ${columns} columns. At most ${MAX_COLUMNS} are read.`);
  return { ...dialect, first, firstIsUser: isOfUser(first.cells), rows };
}

const asShown = (row: Row): Row => ({ ...row, cells: row.cells.map(unprotect) });

async function guessDialect(file: Blob, delimiter: string | null): Promise<Dialect> {
  const text = new TextDecoder().decode(await bytesOf(file, 0, GUESSED_FROM_BYTES));
  // UTF-16 without a byte order mark is valid UTF-8 if its letters are Latin.
  if (text.includes('\0')) throw new Error(NOT_UTF8);
  // Lines may end with "\r\n", too: a row is then left with the "\r" (trimEnd).
  const newline = text.includes('\r') && !text.includes('\n') ? '\r' : '\n';
  const delimitersToGuess = [',', ';', '\t', '|'];
  const { meta } = Papa.parse(text, {
    newline,
    delimiter: delimiter ?? '',
    delimitersToGuess,
    skipEmptyLines: true,
    preview: 10,
  });
  return { delimiter: meta.delimiter, newline };
}

interface Piece {
  readonly rows: readonly Row[];
  /** The part of the file that is read by now. */
  readonly fraction: number;
}

/** The rows of a file except those of blank cells, as many at a time as a piece of the file completes. Throws. */
async function* readRows(file: Blob, dialect: Dialect, signal?: AbortSignal): AsyncGenerator<Piece, undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const splitter = createSplitter(dialect);
  for (let end = PIECE_BYTES; end - PIECE_BYTES < file.size && !splitter.hasEnded(); end += PIECE_BYTES) {
    const bytes = await bytesOf(file, end - PIECE_BYTES, end);
    if (signal?.aborted) throw new Error('You stopped the import. Nothing was imported.');
    const isLast = end >= file.size;
    yield { rows: splitter.split(decode(decoder, bytes, isLast), isLast), fraction: Math.min(1, end / file.size) };
  }
}

async function bytesOf(file: Blob, start: number, end: number): Promise<ArrayBuffer> {
  try {
    return await file.slice(start, end).arrayBuffer();
  } catch {
    throw new Error('The browser cannot read the file any more: it was changed or removed. Choose it again.');
  }
}

function decode(decoder: TextDecoder, bytes: ArrayBuffer, isLast: boolean): string {
  try {
    return decoder.decode(bytes, { stream: !isLast });
  } catch {
    throw new Error(NOT_UTF8);
  }
}

/** Makes rows of a text that comes in pieces. */
function createSplitter({ delimiter, newline }: Dialect) {
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
      const row = trimEnd(cells, raw);
      if (row.some((cell) => cell.trim() !== '')) rows.push({ line, cells: row, fault: undefined });
      line += raw.split(newline).length - (raw.endsWith(newline) ? 1 : 0);
    };
    const parser = new Papa.Parser({ delimiter, newline, step });
    parser.parse(text, 0, !isLast);
    text = text.slice(cursor);
    return isWrong || text.length > MAX_ROW_LENGTH;
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
    hasEnded,
    split(piece: string, isLast: boolean): readonly Row[] {
      rows = [];
      text += isWithinLongLine ? skipLongLine(piece) : piece;
      while (!hasEnded() && takeRows(isLast)) takeWrongLine();
      return rows;
    },
  };
}

/** Without the "\r" at the end of a line. One that stands within quotes is of the cell. */
function trimEnd(cells: readonly string[], raw: string): readonly string[] {
  const last = cells.at(-1) ?? '';
  const isOfLine = last.endsWith('\r') && raw.replace(/\n$/, '').endsWith(last);
  return isOfLine ? [...cells.slice(0, -1), last.slice(0, -1)] : cells;
}

/** The lines to send, and faults of rows by their lines, which replace the service's words for them. */
export interface Converted {
  readonly body: Blob;
  readonly faults: ReadonlyMap<number, string>;
}

interface Conversion {
  /** True if the first row has titles, and no user. */
  readonly hasTitles: boolean;
  /** For each column the field that it is imported as, if it is. */
  readonly columns: readonly (ImportField | undefined)[];
  /** Values of all lines. */
  readonly always: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
  readonly onProgress: (fraction: number) => void;
}

/** Makes NDJSON of a file. A user has the line that the row has in the file; the lines between are empty. Throws. */
export async function toNdjson(file: Blob, sheet: Sheet, conversion: Conversion): Promise<Converted> {
  const { hasTitles, columns, always, signal, onProgress } = conversion;
  const faults = new Map<number, string>();
  const parts: Blob[] = [];
  let isFirst = true;
  let next = 1;
  for await (const { rows, fraction } of readRows(file, sheet, signal)) {
    let text = '';
    for (const row of isFirst && hasTitles ? rows.slice(1) : rows) {
      const fault =
        row.fault ?? countFault(row.cells.length, sheet.first.cells.length) ?? lossFault(row.cells, columns);
      if (fault && faults.size < MAX_FAULTS) faults.set(row.line, fault);
      // No object, so that the service counts the line as a wrong one.
      const user = fault ? 0 : { ...always, ...toUser(row.cells, columns) };
      text += `${'\n'.repeat(row.line - next)}${JSON.stringify(user)}\n`;
      next = row.line + 1;
    }
    isFirst = false;
    // The browser keeps it, if need be on the disk.
    parts.push(new Blob([text]));
    onProgress(fraction);
  }
  return { body: new Blob(parts), faults };
}

const countFault = (cells: number, expected: number) =>
  cells === expected ? undefined : `The row has a wrong number of cells: got ${cells}, expected ${expected}.`;

/** The fault of a row with a lost value, which is not sent: it would be taken for the value that it once was. */
function lossFault(cells: readonly string[], columns: Conversion['columns']): string | undefined {
  const place = columns.findIndex((field, index) => field !== undefined && isLost(cells[index] ?? ''));
  if (place < 0) return undefined;
  return `${columns[place]?.name}: got "${cells[place]}", of which a spreadsheet has lost the value. Make the column text there, and enter its values anew.`;
}

/** Cells by the names of their fields. Empty ones are left out. */
function toUser(cells: readonly string[], columns: Conversion['columns']): Record<string, unknown> {
  const user: Record<string, unknown> = {};
  for (const [index, field] of columns.entries()) {
    const cell = unprotect(cells[index] ?? '');
    if (field && cell) user[field.name] = VALUES[field.form](cell);
  }
  return user;
}

/** A text that is no number, JSON or address is sent as it is, and the service says so of its line. */
const VALUES: Record<ImportField['form'], (cell: string) => unknown> = {
  TEXT: (cell) => cell,
  NUMBER: (cell) => (/^[0-9]{1,15}$/.test(cell) ? Number(cell) : cell),
  JSON: (cell) => {
    try {
      return JSON.parse(cell);
    } catch {
      return cell;
    }
  },
  ACCOUNTS: (cell) =>
    cell.split(/\s+/).flatMap((address) => {
      const network = address.startsWith('0x') ? 'ethereum' : 'stellar';
      return address === '' ? [] : [{ network, public_key: address }];
    }),
};
