import { stripVTControlCharacters, styleText } from 'node:util';
import Table from 'cli-table3';
import { AppError } from '../errors.js';
import type { Finding } from './database-findings.js';
import type { Result } from './operations.js';

/** How results look to a person. */

/** Coloured on a terminal, unless NO_COLOR or --no-color forbids it; with FORCE_COLOR anywhere. */
export function paint(style: 'bold' | 'dim' | 'red' | 'green' | 'yellow', text: string): string {
  return styleText(style, text, { stream: process.stdout });
}

export async function writeToStdout(chunk: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(chunk, (error) => (error ? reject(error) : resolve()));
  });
}

/** For the person in front of it, beside the result. */
export function writeNotice(sentence: string): void {
  process.stderr.write(`userdir: ${sentence}\n`);
}

/** Why something failed, in one line. Of a failed query Prisma's message has the source around it, and what went wrong in its last line. */
export function reason(error: unknown): string {
  const cause = error instanceof AppError && error.code === 'INTERNAL_SERVER_ERROR' ? error.cause : error;
  if (cause instanceof AggregateError) return cause.errors.map(reason).join('; ');
  const { code = '', syscall = '' } = cause as NodeJS.ErrnoException;
  if (['connect', 'getaddrinfo'].includes(syscall)) {
    return `The database of DATABASE_URL cannot be reached: ${(cause as Error).message || code}.`;
  }
  const lines = (cause instanceof Error ? cause.message : String(cause))
    .split('\n')
    .filter((line) => line.trim() !== '');
  return lines.at(-1) ?? 'It failed without a reason.';
}

export function projectTable(projects: Result<'project list'>): string {
  if (projects.length === 0) return 'There is no project yet: userdir project create --name NAME makes one.';
  return table(
    ['ID', 'Name', 'App ID', 'Created', 'Users'],
    projects.map((each) => [each.id, each.name, each.app_id, each.created_at, each.total_user]),
  );
}

export function secretTable(secrets: Result<'project secrets'>): string {
  return table(
    ['ID', 'Label', 'Scopes', 'Created', 'Last used', 'Expires'],
    secrets.map((each) => [
      each.id,
      each.label,
      each.scopes.join(', '),
      each.created_at,
      each.last_used_at ?? 'never',
      each.live ? (each.expires_at ?? 'never') : `ended ${each.expires_at}`,
    ]),
  );
}

export function rotationReport(overlapMs: number) {
  return (rotated: Result<'project rotate'>): string => {
    const fate = overlapMs === 0 ? 'is no longer valid' : `is valid until ${rotated.previous_expires_at}`;
    const others = rotated.other_labels.map((label) => `\nStill valid: the secret labelled ${label}.`);
    return `App ID      ${rotated.app_id}\nApp Secret  ${rotated.app_secret}\n\nThe old secret ${fate}.${others.join('')}`;
  };
}

export function auditTable(entries: Result<'audit'>): string {
  if (entries.length === 0) return 'Nothing is recorded.';
  return table(
    ['At', 'Who', 'Action', 'User', 'Details', 'Request'],
    entries.map((each) => [
      each.at,
      each.actor,
      each.action,
      each.user_id ?? '',
      JSON.stringify(each.details),
      each.request_id ?? '',
    ]),
  );
}

/** Every line of it a line of the terminal: a table that is wider is shown record by record. */
function table(head: string[], rows: (string | number)[][]): string {
  const lines = columns([head.map((title) => paint('bold', title)), ...rows]);
  const fits = lines.every((line) => stripVTControlCharacters(line).length <= terminalWidth());
  return fits ? lines.join('\n') : rows.map((row) => record(head, row)).join('\n\n');
}

function record(head: string[], row: (string | number)[]): string {
  return columns(head.map((title, place) => [paint('bold', title), String(row[place] ?? '')])).join('\n');
}

const NO_BORDERS = Object.fromEntries(
  ['top', 'bottom', 'left', 'right']
    .flatMap((side) => [side, `${side}-mid`, `${side}-left`, `${side}-right`])
    .concat('mid', 'mid-mid')
    .map((place) => [place, '']),
);

/** Lines of cells one below the other, without borders, so that they can be cut, pasted and searched. */
export function columns(rows: (string | number)[][], options: { lastWidth?: number } = {}): string[] {
  const isNumber = (place: number) => rows.some((row) => typeof row[place] === 'number');
  const width = rows[0]?.length ?? 0;
  const made = new Table({
    chars: { ...NO_BORDERS, middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
    colAligns: Array.from({ length: width }, (_, place) => (isNumber(place) ? 'right' : 'left')),
    ...(options.lastWidth !== undefined && {
      colWidths: [...Array(width - 1).fill(null), options.lastWidth],
      wordWrap: true,
    }),
  });
  made.push(...rows);
  return made
    .toString()
    .split('\n')
    .map((line) => line.trimEnd());
}

/** One thing that was looked at: its mark, its name, what there is to say of it, and the lines below that. */
export function finding(status: keyof typeof MARKS, name: string, text: string, below: readonly string[] = []): string {
  const width = textWidth() - 3;
  const lines = [`${paint('bold', name)}  ${paint('dim', text)}`, ...below.map((line) => breakable(line, width))];
  return columns([[mark(status), lines.join('\n')]], { lastWidth: width }).join('\n');
}

/** The same of several, with what there is to say below each other. */
export function findings(rows: readonly { status: keyof typeof MARKS; name: string; text: string }[]): string {
  const nameWidth = Math.max(...rows.map(({ name }) => name.length));
  const width = Math.max(textWidth() - nameWidth - 6, MIN_TEXT_WIDTH);
  const cells = rows.map(({ status, name, text }) => [mark(status), paint('bold', name), breakable(text, width)]);
  return columns(cells, { lastWidth: width }).join('\n');
}

/** What has no spaces in it is broken where the line ends, instead of cut off. */
function breakable(text: string, width: number): string {
  return text.replace(new RegExp(`\\S{${width - 1}}(?=\\S)`, 'g'), '$&\n');
}

function mark(status: keyof typeof MARKS): string {
  const [style, sign] = MARKS[status];
  return paint(style, sign);
}

function textWidth(): number {
  return Math.max(Math.min(terminalWidth(), MAX_TEXT_WIDTH), MIN_TEXT_WIDTH);
}

const MIN_TEXT_WIDTH = 20;
const MAX_TEXT_WIDTH = 120;
const MARKS = {
  passed: ['green', '✓'],
  warning: ['yellow', '!'],
  failed: ['red', '✗'],
  skipped: ['dim', '-'],
} as const;

/** Of what is not a terminal there is no end. */
export function terminalWidth(): number {
  return process.stdout.isTTY ? process.stdout.columns : Number.POSITIVE_INFINITY;
}

export function doctorReport(found: readonly Finding[]): string {
  const rows = found.map(({ id, status, found: text, advice }) => ({
    status,
    name: id,
    text: advice === null ? text : `${text}\n→ ${advice}`,
  }));
  const count = (wanted: Finding['status']) => found.filter(({ status }) => status === wanted).length;
  const [wrong, better] = [count('failed'), count('warning')];
  const verdict = wrong === 0 ? paint('green', 'Nothing is wrong.') : paint('red', `${wrong} wrong.`);
  return `${findings(rows)}\n\n${verdict}${better === 0 ? '' : ` ${better} could be better.`}`;
}

export function totalsReport({ projects, differences, repaired }: Result<'totals check'>): string {
  const lines = differences.map(
    ({ app_id, span, starts_at, login_method, expected, actual }) =>
      `${app_id} ${span} ${starts_at} ${login_method}: ${actual} tallied, ${expected} counted`,
  );
  const verdict =
    differences.length === 0 ? 'all agree' : `${differences.length} tallies ${repaired ? 'were mended' : 'disagree'}`;
  return [...lines, `Checked ${projects} projects: ${verdict}.`].join('\n');
}

export function banTable(bans: Result<'user bans'>): string {
  if (bans.length === 0) return 'No identity is banned.';
  return table(
    ['Method', 'Value', 'Since'],
    bans.map((ban) => [ban.auth_method, ban.auth_value, ban.created_at]),
  );
}

/** "1 user", "2 users". */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

export function importReport({ imported, skipped, failed, errors, bans }: Result<'user import'>): string {
  const faults = errors.map(({ line, error }) => `line ${line}: ${error}`);
  const more = failed > errors.length ? [`… and ${failed - errors.length} more`] : [];
  const banned = bans === undefined ? '' : ` Made ${counted(bans, 'ban')}.`;
  return [...faults, ...more, `Imported ${imported}, skipped ${skipped}, failed ${failed}.${banned}`].join('\n');
}
