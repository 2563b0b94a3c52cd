import { type Command, InvalidArgumentError } from 'commander';
import type { Services } from '../context.js';
import { graphql, type ResultOf } from '../dashboard/documents.js';
import { AppError, COMMAND, counted, type ErrorCode } from '../errors.js';
import { fileArgument, openInput, option, parseSince, projectOption, required } from './arguments.js';
import { type Result, serverEnded, textOf } from './door.js';
import type { CommandContext, Tools } from './rows.js';
import { progressOf, writeToStdout } from './terminal.js';

const IMPORT_HELP = `
One JSON object per line; auth_method and auth_value are required:
  {"auth_method":"email","auth_value":"ada@example.com"}
  {"auth_method":"google","auth_value":"1234","email":"ada@example.com",
   "created_at":"2026-01-31T12:00:00Z","last_login":null,"login_count":3,
   "accounts":[{"network":"stellar","public_key":"G…"}]}   (on one line)
CSV is imported in the dashboard only. A ban has its own line:
  {"ban":{"auth_method":"email","auth_value":"eve@example.com","created_at":null,
   "reason":"spam","expires_at":null}}   (on one line; one that has ended is left out)
created_at and last_login are not in the future. A date is its first instant in UTC, as expires_at its last.`;

/** Adds the commands whose input or output is a stream of users. */
export function addTransferCommands(user: Command, { act }: CommandContext): void {
  act(user, {
    name: 'user import',
    description: 'import users and bans from NDJSON, all or nothing',
    help: IMPORT_HELP,
    examples: [
      'user import --project app_1 users.ndjson',
      'user import --project app_1 --on-conflict update - < users.ndjson',
    ],
    takes: [
      fileArgument(),
      projectOption(),
      option('--on-conflict <ACTION>', 'what to do if a user exists')
        .choices(['skip', 'update', 'fail'])
        .default('fail'),
      option('--replace', 'update users also by what is older: fewer logins, an earlier last one, a later creation'),
      option('--skip-invalid', 'import the valid lines and report the others'),
    ],
    variables(file, { project, onConflict, replace, skipInvalid = false }, command): ImportParams {
      if (replace && onConflict !== 'update') command.error('error: --replace needs --on-conflict update');
      return { file, project, onConflict: replace ? 'replace' : onConflict, skipInvalid };
    },
    unit: 'lines',
    interrupted: ({ skipInvalid }) =>
      skipInvalid
        ? 'Interrupted. The users imported so far remain. Import the file again with --on-conflict skip to add the others.'
        : 'Interrupted. An import that does not complete changes nothing.',
    act: importUsers,
    print: importReport,
    isFailure: ({ failed }, { skipInvalid }) => failed > 0 && !skipInvalid,
  });
  act(user, {
    name: 'user export',
    description: 'write all users and bans to stdout as NDJSON that `user import` reads, from one snapshot',
    examples: ['user export --project app_1 > users.ndjson'],
    takes: [projectOption()],
    unit: 'users',
    interrupted: 'Interrupted. The export is incomplete.',
    act: exportUsers,
    print: ({ exported, bans, cursor }, { project }) => {
      const banned = bans === 0 ? '' : ` and ${counted(bans, 'ban')}`;
      return `Exported ${counted(exported, 'user')}${banned}.\nWhat changes from now on: ${COMMAND} changes --project ${project} --after ${cursor}`;
    },
    tellsOnStderr: true,
  });
  act(user, {
    name: 'user inactive',
    description: 'write the users who have not logged in for some time to stdout as NDJSON',
    help: INACTIVE_HELP,
    examples: ['user inactive --project app_1 --since 90d > inactive.ndjson'],
    takes: [
      projectOption(),
      required('--since <TIME>', 'without a login since: a time such as 90d, or a date', parsePast),
    ],
    unit: 'users',
    interrupted: 'Interrupted. The list is incomplete.',
    act: writeInactive,
    print: ({ inactive, since }) => `${counted(inactive, 'user')} without a login since ${since}.`,
    tellsOnStderr: true,
  });
}

interface ImportParams extends Pick<ImportOptions, 'onConflict' | 'skipInvalid'> {
  readonly project: string;
  readonly file: string;
}

type ImportOptions = Parameters<Services['transfers']['importUsers']>[2];
type ImportReport = Awaited<ReturnType<Services['transfers']['importUsers']>>;

/** A line of the answer of a server to an import. */
type ImportFrame =
  | { readonly progress: { readonly lines: number; readonly fraction: number } }
  | { readonly notice: string }
  | { readonly error: { readonly code: ErrorCode; readonly message: string } }
  | { readonly report: ImportReport };

const COUNT = graphql(`query CountUsers($project: ID!) { project(appId: $project) { userCount } }`);

async function importUsers(tools: Tools, { file, project, ...how }: ImportParams): Promise<ImportReport> {
  const { operator, progress, notice, signal } = tools;
  const input = await openInput(file, 'users', signal);
  // An unknown project is told before anything is read.
  await tools.ask(COUNT, { project });
  const where = await tools.reach();
  if (where.services !== null) {
    const { projects, transfers } = where.services;
    const told = (done: number, fraction?: number) => progress({ done, ...(fraction !== undefined && { fraction }) });
    const options = { ...how, progress: told, onWait: notice, signal };
    return transfers.importUsers(await projects.getScope(project, operator), input, options);
  }
  const query = `on_conflict=${how.onConflict}&skip_invalid=${how.skipInvalid}`;
  const answer = await where.send(`/dashboard/projects/${project}/import?${query}`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-ndjson' },
    body: input,
  });
  let rest = '';
  for await (const chunk of textOf(answer)) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const frame: ImportFrame = JSON.parse(line);
      if ('report' in frame) return frame.report;
      if ('error' in frame) throw new AppError(frame.error.code, frame.error.message);
      if ('notice' in frame) notice(frame.notice);
      else progress({ done: frame.progress.lines, fraction: frame.progress.fraction });
    }
  }
  return serverEnded(null);
}

async function exportUsers(tools: Tools, { project }: { readonly project: string }) {
  const { operator, progress, signal } = tools;
  const total = await tools.ask(COUNT, { project });
  const where = await tools.reach();
  let lines = 0;
  async function write(chunk: string): Promise<void> {
    await writeToStdout(chunk);
    lines += chunk.split('\n').length - 1;
    progress(progressOf(lines, Math.max(lines, total)));
  }
  if (where.services !== null) {
    const { projects, transfers } = where.services;
    const scope = await projects.getScope(project, operator);
    return exportReport(await transfers.exportUsers(scope, { write, progress: () => undefined, signal }));
  }
  const answer = await where.send(`/dashboard/projects/${project}/export`);
  for await (const chunk of textOf(answer)) await write(chunk);
  return exportReport(JSON.parse(String(answer.trailers['userdir-export'])));
}

const exportReport = ({ users, ...report }: Awaited<ReturnType<Services['transfers']['exportUsers']>>) => ({
  exported: users,
  ...report,
});

const INACTIVE_HELP = `
Each line is one JSON object, newest user first. A user who never logged in counts by the registration:
  {"id":42,"auth_method":"email","auth_value":"ada@example.com","email":"ada@example.com","external_id":null,
   "created_at":"2026-01-31T12:00:00.000Z","last_login":null,"login_count":0}   (on one line)`;

/** Since an instant that is to come, all users would be inactive. */
function parsePast(text: string): string {
  const since = parseSince(text);
  if (Date.parse(since) <= Date.now()) return since;
  throw new InvalidArgumentError('Expected a time that is past.');
}

const INACTIVE = graphql(`query InactiveUsers($project: ID!, $since: String!, $after: String) {
  project(appId: $project) {
    scanUsers(state: { lastLoginBefore: $since }, first: 100, after: $after) {
      nodes {
        id auth_method: authMethod auth_value: authValue email external_id: externalId
        created_at: createdAt last_login: lastLogin login_count: loginCount
      }
      endCursor
    }
  }
}`);

async function writeInactive(
  { ask, progress, signal }: Tools,
  { project, since }: { readonly project: string; readonly since: string },
) {
  const report = { inactive: 0, since };
  let after: string | null = null;
  do {
    const { nodes, endCursor }: Result<ResultOf<typeof INACTIVE>> = await ask(INACTIVE, { project, since, after });
    signal.throwIfAborted();
    const lines = nodes.map((each) => `${JSON.stringify({ ...each, id: Number(each.id) })}\n`);
    if (lines.length > 0) await writeToStdout(lines.join(''));
    report.inactive += lines.length;
    progress({ done: report.inactive });
    after = endCursor;
  } while (after !== null);
  return report;
}

function importReport(report: ImportReport, { skipInvalid }: ImportParams): string {
  const { imported, created, updated, unchanged, skipped, failed, bans } = report;
  const faults = report.error_kinds.map(({ error, lines, first }) => {
    const more = lines > first.length ? ` and ${(lines - first.length).toLocaleString('en')} more` : '';
    return `${lines === 1 ? 'line' : 'lines'} ${first.join(', ')}${more}: ${error}`;
  });
  const outcomes = imported === created ? '' : ` Created ${created}, updated ${updated}, unchanged ${unchanged}.`;
  const banned = bans === undefined ? '' : ` Added ${counted(bans, 'ban')}.`;
  const counts = `Imported ${imported}, skipped ${skipped}, failed ${failed}.${outcomes}${banned}`;
  return [...faults, counts, ...skippedLines(report, skipInvalid)].join('\n');
}

/** The last line: how many lines of the input are not in the database. */
function skippedLines(
  { skipped, failed, bans_kept = 0, bans_ended = 0, error_kinds }: ImportReport,
  skipInvalid: boolean,
): string[] {
  if (failed > 0 && !skipInvalid) {
    const isCsv = error_kinds.every(({ error }) => error.includes('not valid JSON'));
    const hint = isCsv ? ' CSV is imported in the dashboard only.' : '';
    return [`Nothing was imported, because ${counted(failed, 'line')} failed.${hint}`];
  }
  const left = [
    [failed, 'failed', 'failed'],
    [skipped, 'is of a user who exists', 'are of users who exist'],
    [bans_kept, 'is of an identity that is banned already', 'are of identities that are banned already'],
    [bans_ended, 'is of a ban that has ended', 'are of bans that have ended'],
  ] as const;
  const lines = left.reduce((sum, [count]) => sum + count, 0);
  if (lines === 0) return [];
  const reasons = left.flatMap(([count, one, many]) => (count > 0 ? `${count} ${count === 1 ? one : many}` : []));
  return [`${counted(lines, 'line')} skipped: ${reasons.join(', ')}.`];
}
