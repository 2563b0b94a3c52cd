import { open, readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { Argument, type Command, Help } from 'commander';
import { graphql } from '../dashboard/documents.js';
import type { ImportFrame } from '../dashboard/uploads.js';
import { formatCsvLine } from '../domain/csv-cells.js';
import { ON_CONFLICT, type OnConflict } from '../domain/import-format.js';
import { type LineOutcome, type MovedReport, type MoveSummary, OUTCOME_COLUMNS } from '../domain/import-results.js';
import { separated } from '../domain/spelling.js';
import { isStored } from '../domain/stored.js';
import { SYSTEM_NAMES } from '../domain/systems.js';
import { AppError, COMMAND, counted } from '../errors.js';
import type { System } from '../users/moving/person.js';
import { openInput, option, projectOption } from './arguments.js';
import { type Send, serverEnded, textOf } from './door.js';
import type { CommandContext, Tools } from './rows.js';
import { canAsk, confirm, fields } from './terminal.js';

/** As wide as the lines of the help that are written by hand. */
const HELP_WIDTH = 104;

const IMPORT_HELP = `
Without --from, one JSON object per line; auth_method and auth_value are required:
  {"auth_method":"email","auth_value":"ada@example.com"}
  {"auth_method":"google","auth_value":"1234","email":"ada@example.com",
   "created_at":"2026-01-31T12:00:00Z","last_login":null,"login_count":3,
   "accounts":[{"network":"stellar","public_key":"G…"}]}   (on one line)
A ban has its own line:
  {"ban":{"auth_method":"email","auth_value":"eve@example.com","created_at":null,
   "reason":"spam","expires_at":null}}   (on one line; one that has ended is left out)
created_at and last_login are not in the future. A date is its first instant in UTC, as expires_at its last.
${new Help().boxWrap(
  `--from reads JSON and CSV, in gzip or not, of: ${SYSTEM_NAMES.join(', ')}; of any table with --from csv; or by a module of your own, --from ./mine.mjs. On a terminal it first says what is in the files, and asks.`,
  HELP_WIDTH,
)}`;

const UNDO = graphql(`mutation UndoImport($project: ID!, $undo: ID!) {
  undoImport(appId: $project, importId: $undo) { removed kept done }
}`);

/** How the users of a file are imported. */
interface ImportParams {
  readonly project: string;
  readonly files: readonly string[];
  readonly onConflict: OnConflict;
  readonly skipInvalid: boolean;
  readonly from?: string;
  readonly map?: string;
  readonly dates?: string;
  readonly timeZone?: string;
  readonly trustUnverified: boolean;
  readonly dryRun: boolean;
  readonly report?: string;
  readonly undo?: string;
}

type Rows = readonly LineOutcome[];

export function addImportCommand(user: Command, { act }: CommandContext): void {
  act<ImportParams, MovedReport | Awaited<ReturnType<typeof undoImport>>>(user, {
    name: 'user import',
    description: 'import users and bans from NDJSON, or from files of another system, all or nothing',
    help: IMPORT_HELP,
    examples: [
      'user import --project app_1 users.ndjson',
      'user import --project app_1 --on-conflict update - < users.ndjson',
      'user import --project app_1 --from auth0 --dry-run export.ndjson.gz',
      'user import --project app_1 --undo 42',
    ],
    takes: [
      new Argument('[FILE...]', 'files, or - for standard input, which is the default'),
      projectOption(),
      option('--from <SYSTEM>', 'the system that has written the files'),
      option('--map <JSON>', 'of --from csv: which column is which field (docs/moving.md), as JSON or a file'),
      option('--dates <FORMAT>', 'the format of dates that are not understood, such as "dd.MM.yyyy HH:mm"'),
      option('--time-zone <ZONE>', 'the zone of dates that say none (default: UTC)'),
      option('--trust-unverified', 'let people log in by emails and phones that were never verified'),
      option('--dry-run', 'say what is in the files and what will not be kept, and import nothing'),
      option('--yes', 'do not ask before files of another system are imported'),
      option('--report <FILE>', 'write what became of each person, as CSV'),
      option('--on-conflict <ACTION>', 'what to do if a user exists')
        .choices(ON_CONFLICT.filter((action) => action !== 'replace'))
        .default('fail'),
      option('--replace', 'update users also by what is older: fewer logins, an earlier last one, a later creation'),
      option('--skip-invalid', 'import the valid lines and report the others'),
      option('--undo <IMPORT_ID>', 'remove the users whom an import has created and nothing else has touched since'),
    ],
    variables(files: string[], { replace, onConflict, yes: _, json: __, ...given }, command): ImportParams {
      if (replace && onConflict !== 'update') command.error('error: --replace needs --on-conflict update');
      if (files.length > 0 && given.undo !== undefined) command.error('error: --undo takes no FILE');
      const { from, map, dates, timeZone, trustUnverified } = given;
      if (from === undefined && [map, dates, timeZone, trustUnverified].some((value) => value !== undefined))
        command.error('error: --map, --dates, --time-zone and --trust-unverified need --from');
      const flags = { skipInvalid: false, trustUnverified: false, dryRun: false };
      return {
        ...flags,
        ...given,
        files: files.length === 0 ? ['-'] : files,
        onConflict: replace ? 'replace' : onConflict,
      };
    },
    unit: 'lines',
    interrupted: ({ skipInvalid }) =>
      skipInvalid
        ? 'Interrupted. The users imported so far remain. Import the file again with --on-conflict skip to add the others.'
        : 'Interrupted. An import that does not complete changes nothing.',
    async act(tools, given, command) {
      const params = { ...given, ...(given.map !== undefined && { map: await readMap(given.map) }) };
      if (params.undo !== undefined) return undoImport(tools, params.project, params.undo);
      // An unknown project is told before anything is read.
      await tools.ask(COUNT, { project: params.project });
      const input = await openInputs(params.files, tools.signal);
      const isAsked = params.from !== undefined && !params.dryRun && canAsk() && !command.opts()['yes'];
      if (isAsked && isStored(input.bytes)) {
        const found = await importUsers(tools, { ...params, dryRun: true }, input);
        process.stderr.write(`${importReport(found, { ...params, dryRun: true })}\n`);
        await confirm(`Import ${counted(found.imported, 'user')}?`);
      }
      return importUsers(tools, params, input);
    },
    print: (result, params) =>
      'undone' in result
        ? `Removed ${counted(result.undone, 'user')}, kept ${result.kept} who were touched since.`
        : importReport(result, params),
    isFailure: (result, { skipInvalid }) => 'failed' in result && result.failed > 0 && !skipInvalid,
  });
}

/** A mapping is JSON, or the name of a file that holds it. */
async function readMap(text: string): Promise<string> {
  return text.trimStart().startsWith('{') ? text : readFile(text, 'utf8');
}

export const COUNT = graphql(`query CountUsers($project: ID!) { project(appId: $project) { userCount } }`);

/** What became of the users of an import that is undone. */
async function undoImport({ ask, progress, signal }: Tools, project: string, undo: string) {
  const result = { undone: 0, kept: 0 };
  for (let isDone = false; !isDone; ) {
    const part = await ask(UNDO, { project, undo });
    result.undone += part.removed;
    result.kept += part.kept;
    isDone = part.done;
    progress(result.undone + result.kept);
    signal.throwIfAborted();
  }
  return result;
}

type Input = Awaited<ReturnType<typeof openInputs>>;

/** The files of an import, which follow one another, and the bytes of each where there are several. */
async function openInputs(files: readonly string[], signal: AbortSignal) {
  const inputs = await Promise.all(files.map((file) => openInput(file, 'users', signal)));
  const [only, another] = inputs;
  if (only !== undefined && another === undefined) return { bytes: only, sizes: [] as number[] };
  const sizes = inputs.map((input, place) => {
    if (isStored(input)) return input.bytes;
    throw new AppError('BAD_USER_INPUT', `${files[place]}: of several files, each has to be a file and no stream.`);
  });
  async function* readAll() {
    for (const input of inputs) yield* input as AsyncIterable<Buffer>;
  }
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  return { bytes: { bytes, [Symbol.asyncIterator]: readAll }, sizes };
}

const isOwn = (from: string) => /^\.{0,2}\/|\.m?js$/.test(from);

/** An adapter of one's own: the default export of a module. */
async function loadOwn(from: string): Promise<System> {
  const { default: system } = await import(pathToFileURL(resolve(from)).href);
  if (typeof system?.toPerson !== 'function')
    throw new AppError('BAD_USER_INPUT', `${from}: expected a default export as docs/moving.md describes it.`);
  return { name: 'own', title: 'your own system', idFields: [], fields: [], ...system };
}

/** Imports the files, or only looks into them, and writes what became of each line. */
async function importUsers(tools: Tools, params: ImportParams, input: Input): Promise<MovedReport> {
  const where = await tools.reach();
  const report = params.report === undefined ? null : await open(params.report, 'w', 0o600);
  const lineOf = (row: Rows[number]) => formatCsvLine(OUTCOME_COLUMNS.map((column) => row[column]));
  const tell = report && ((rows: Rows) => report.appendFile(rows.map(lineOf).join('')));
  try {
    await report?.appendFile(formatCsvLine(OUTCOME_COLUMNS));
    if (where.services === null) return await sendUsers(tools, params, input, where.send, tell);
    const { projects, transfers } = where.services;
    const { from, dates = null, timeZone: zone = null, map = null, trustUnverified, onConflict, skipInvalid } = params;
    const { progress, notice, signal } = tools;
    const scope = await projects.getScope(params.project, tools.operator);
    const system = from !== undefined && isOwn(from) ? await loadOwn(from) : from;
    const how = { sizes: input.sizes, trustUnverified, dates, zone, map };
    const move = system === undefined ? null : await transfers.moveOf({ from: system, ...how });
    const options = { onConflict, skipInvalid, move, tell, progress, onWait: notice, signal };
    return await (params.dryRun ? transfers.checkImport : transfers.importUsers)(scope, input.bytes, options);
  } finally {
    await report?.close();
  }
}

/** Lets the server import the files, which holds the database. */
async function sendUsers(
  { progress, notice }: Tools,
  { project, files, undo: _, report: __, ...how }: ImportParams,
  { bytes, sizes }: Input,
  send: Send,
  tell: ((rows: Rows) => Promise<void>) | null,
): Promise<MovedReport> {
  if (isOwn(how.from ?? ''))
    throw new AppError('BAD_USER_INPUT', 'An adapter of your own needs PostgreSQL, or that the server is stopped.');
  const asked = { ...how, report: tell !== null, ...(sizes.length > 1 && { sizes }) };
  const parameters = new URLSearchParams(
    Object.entries(asked).map(([name, value]): [string, string] => [separated(name, '_'), `${value}`]),
  );
  const answer = await send(`/dashboard/projects/${project}/import?${parameters}`, {
    method: 'POST',
    headers: { 'content-type': 'application/octet-stream' },
    body: Readable.from(bytes, { objectMode: false }),
  });
  let rest = '';
  for await (const chunk of textOf(answer)) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const frame: ImportFrame = JSON.parse(line);
      if (frame.report) return frame.report;
      if (frame.error) throw new AppError(frame.error.code, frame.error.message);
      if (frame.rows) await tell?.(frame.rows);
      if (frame.notice) notice(frame.notice);
      if (frame.progress) progress(frame.progress.lines, frame.progress.fraction);
    }
  }
  return serverEnded(null);
}

function importReport(report: MovedReport, { project, skipInvalid, dryRun }: ImportParams): string {
  const { imported, created, updated, unchanged, skipped, failed, bans, bans_kept, bans_ended, import_id } = report;
  const faults = report.error_kinds.map(({ error, lines, first }) => {
    const more = lines > first.length ? ` and ${(lines - first.length).toLocaleString('en')} more` : '';
    return `${lines === 1 ? 'line' : 'lines'} ${first.join(', ')}${more}: ${error}`;
  });
  const moved = 'people' in report ? summaryOf(report as MovedReport & MoveSummary, dryRun) : [];
  const outcomes = imported === created ? '' : ` Created ${created}, updated ${updated}, unchanged ${unchanged}.`;
  const would = `Nothing was imported: this was a dry run. ${imported} would be, ${failed} failed.${outcomes}`;
  if (dryRun) return [...faults, ...moved, skipped === 0 ? would : `${would} Skipped ${skipped}.`].join('\n');
  const nothing =
    failed > 0 && !skipInvalid ? `\nNothing was imported, because ${counted(failed, 'line')} failed.` : '';
  const also = (count = 0, what: string) => (count > 0 ? `, ${count} ${what}` : '');
  const banned =
    bans === undefined
      ? ''
      : ` Added ${counted(bans, 'ban')}${also(bans_kept, 'there already')}${also(bans_ended, 'ended')}.`;
  const counts = `Imported ${imported}, skipped ${skipped}, failed ${failed}.${outcomes}${banned}${nothing}`;
  const undo = `To undo it: ${COMMAND} user import --project ${project} --undo ${import_id}`;
  return [...faults, ...moved, counts, ...(moved.length > 0 && import_id !== null ? [undo] : [])].join('\n');
}

/** What is in the files of another system. */
function summaryOf(found: MovedReport & MoveSummary, isWhole: boolean): string[] {
  const list = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([what, count]) => `${what} ${count.toLocaleString('en')}`)
      .join(', ') || 'nothing';
  const sample = isWhole ? found.sample.map((line) => JSON.stringify(line)) : [];
  const rows: [string, string][] = [
    ['File', found.files.map(({ kind, encoding }) => `${kind} in ${encoding}`).join(', ')],
    ['People', found.people.toLocaleString('en')],
    ['Identities', list(found.identities)],
    ['Blocked', found.blocked.toLocaleString('en')],
    ['Without email', found.without_email.toLocaleString('en')],
    ['Kept otherwise', list(found.kept_otherwise)],
    ['Not kept', list(found.not_kept)],
    ['Time zone', found.time_zone],
  ];
  return [...sample, fields(rows)];
}
