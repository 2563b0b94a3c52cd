/* Writes CSV, and protects its cells from spreadsheets. The pages of the dashboard write CSV by it, too, so it imports nothing. */

/** An object is written as JSON. */
type Cell = string | number | boolean | object | null | undefined;

/** A line of CSV (RFC 4180). Texts are protected from spreadsheets, because cells hold what users have typed. */
export function formatCsvLine(cells: readonly Cell[]): string {
  return `${cells.map(formatCell).join(',')}\r\n`;
}

function formatCell(cell: Cell): string {
  if (typeof cell === 'number' || typeof cell === 'boolean') return String(cell);
  const safe = protect(typeof cell === 'string' ? cell : cell == null ? '' : JSON.stringify(cell));
  return /[",;|\t\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A formula at the start of a cell: also of one that a reader begins in a text, because it splits lines at another delimiter. */
const FORMULA = /(?<=^|[;|\t\r\n])(?=[ ']*[=+\-@＝＋－＠\t\r\n])/g;
const PROTECTED_FORMULA = /(?<=^|[;|\t\r\n])'(?=[ ']*[=+\-@＝＋－＠\t\r\n])/g;
/** A number that a spreadsheet would save as another one or as a date, but none that it leaves alone. */
const NUMBER = /^'*(?!(0|[1-9]\d{0,10})$)\d[\d.,:/%eE+ -]*$/;

/** A text that a spreadsheet leaves as it is, by apostrophes. `unprotect` takes them away. */
export function protect(text: string): string {
  return NUMBER.test(text) ? `'${text}` : text.replace(FORMULA, "'");
}

export function unprotect(text: string): string {
  return NUMBER.test(text) ? text.replace(/^'/, '') : text.replace(PROTECTED_FORMULA, '');
}

const ROUNDED = /^(\d([.,]\d+)?E[+-]\d{2,3}|[1-9]\d{14}0{5,})$/i;
const ERROR = /^#(N\/A|NAME\?|REF!|VALUE!|DIV\/0!|NUM!|NULL!|ERROR!|#+)$/;

/** True if a spreadsheet has lost the value of a cell: the end of a long number, or one that it could not compute or show. */
export function isLost(cell: string): boolean {
  return ROUNDED.test(cell.trim()) || ERROR.test(cell.trim());
}

/** An email, an address, an instant or a long number, none of which is a title of a column. */
const VALUE = /^'?([^\s@]+@[^\s@][^\s@.]*\.[^\s@]+|0x[0-9a-f]{40}|G[A-Z2-7]{55}|\d{4}-\d\d-\d\d.*|\d{6,})$/i;

/** True if the first row of a file is of a user: the file has no titles. */
export function isOfUser(cells: readonly string[]): boolean {
  return cells.some((cell) => VALUE.test(cell.trim()));
}
