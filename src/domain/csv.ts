/** Characters by which a spreadsheet takes a cell for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/**
 * A line of CSV (RFC 4180). A text that a spreadsheet would take for a formula begins with an apostrophe: cells hold what users
 * have typed. Numbers are left as they are.
 */
export function formatCsvLine(cells: readonly (string | number | null | undefined)[]): string {
  return `${cells.map(formatCell).join(',')}\r\n`;
}

function formatCell(cell: string | number | null | undefined): string {
  if (typeof cell === 'number') return String(cell);
  const text = cell ?? '';
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
