import type { Command } from 'commander';
import { userFilter } from '../domain/filters.js';
import { parseBanTerms, parseIdentity, parseUserChanges, snakeCase } from '../domain/identities.js';
import type { OnConflict } from '../domain/import-format.js';
import { COMMAND } from '../errors.js';
import {
  fileArgument,
  jsonOption,
  jsonReportOption,
  openInput,
  option,
  parseLimit,
  projectOption,
  required,
  requireOneOf,
  userIdArgument,
} from './arguments.js';
import { addInactiveCommand, addLookupCommands } from './find-users.js';
import { type Io, type OperationContext, PAGE_ROWS, progressOf } from './operation.js';
import { addRemovalCommands } from './remove-users.js';
import type { CommandContext } from './run.js';
import { counted, tellState, writeNotice } from './terminal.js';

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

export function addUserCommands(program: Command, context: CommandContext): void {
  const user = program
    .command('user')
    .description('find, import, export, change, remove, restore, purge and ban users');
  addLookupCommands(user, context);
  addInactiveCommand(user, context);
  addTransferCommands(user, context);
  addUpdateCommand(user, context);
  addRemovalCommands(user, context);
  addBanCommands(user, context);
}

function addTransferCommands(user: Command, { define }: CommandContext): void {
  define(user, {
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
      jsonOption(),
    ],
    params: (_file, { project, onConflict, replace, skipInvalid = false }, command: Command): ImportParams => {
      if (replace && onConflict !== 'update') command.error('error: --replace needs --on-conflict update');
      return { project, onConflict: replace ? 'replace' : onConflict, skipInvalid };
    },
    input: (file: string) => openInput(file, 'users'),
    unit: 'lines',
    interrupted: ({ skipInvalid }) =>
      skipInvalid
        ? 'Interrupted. The users imported so far remain. Import the file again with --on-conflict skip to add the others.'
        : 'Interrupted. An import that does not complete changes nothing.',
    run: importUsers,
    print: importReport,
    isFailure: ({ failed }, { skipInvalid }) => failed > 0 && !skipInvalid,
  });
  define(user, {
    name: 'user export',
    description: 'write all users and bans to stdout as NDJSON that `user import` reads, from one snapshot',
    examples: ['user export --project app_1 > users.ndjson'],
    takes: [projectOption(), jsonReportOption()],
    unit: 'users',
    interrupted: 'Interrupted. The export is incomplete.',
    run: exportUsers,
    print: ({ exported, bans, cursor }, { project }) => {
      const banned = bans === 0 ? '' : ` and ${counted(bans, 'ban')}`;
      return `Exported ${counted(exported, 'user')}${banned}.\nWhat changes from now on: ${COMMAND} changes --project ${project} --after ${cursor}`;
    },
    tellsOnStderr: true,
  });
}

function addUpdateCommand(user: Command, { define }: CommandContext): void {
  define(user, {
    name: 'user update',
    description: 'change the login email or the external ID of a user, never the identity',
    examples: [
      'user update --project app_1 42 --external-id customer-7',
      'user update --project app_1 42 --email ada@example.com --external-id ""',
    ],
    takes: [
      userIdArgument(),
      projectOption(),
      option('--email <EMAIL>', 'the login email; "" takes it away'),
      option('--external-id <ID>', 'the ID in your own system; "" takes it away'),
      jsonOption(),
    ],
    params: (userId: string, { project, email, externalId }, command: Command): UpdateParams => ({
      ...{ project, userId },
      ...requireOneOf(command, { email, externalId }),
    }),
    run: async ({ services, operator }, { project, userId, email, externalId }: UpdateParams) => {
      const id = BigInt(userId);
      const scope = await services.projects.getScope(project, operator);
      const given = { email: email === '' ? null : email, externalId: externalId === '' ? null : externalId };
      const changed = await services.users.updateUser(scope, id, parseUserChanges(given, snakeCase), null);
      return { id: changed.id, email: changed.loginEmail, external_id: changed.externalId };
    },
    print: ({ id, email, external_id }) =>
      `User ${id} has the email ${email ?? 'none'} and the external ID ${external_id ?? 'none'}.`,
  });
}

interface UpdateParams {
  readonly project: string;
  readonly userId: string;
  readonly email?: string;
  readonly externalId?: string;
}

interface ImportParams {
  readonly project: string;
  readonly onConflict: OnConflict;
  readonly skipInvalid: boolean;
}

async function importUsers(
  { services, operator }: OperationContext,
  params: ImportParams,
  { input, progress, notice, signal }: Io,
) {
  const scope = await services.projects.getScope(params.project, operator);
  return services.transfers.importUsers(scope, input, {
    onConflict: params.onConflict,
    skipInvalid: params.skipInvalid,
    progress: (done, fraction) => progress({ done, ...(fraction !== undefined && { fraction }) }),
    onWait: notice,
    signal,
  });
}

async function exportUsers({ services, operator }: OperationContext, params: { project: string }, io: Io) {
  const scope = await services.projects.getScope(params.project, operator);
  const total = await services.users.countUsers(scope, userFilter({}));
  const exported = await services.transfers.exportUsers(scope, {
    write: io.write,
    progress: (done) => io.progress(progressOf(done, Math.max(done, total))),
    signal: io.signal,
  });
  return { exported: exported.users, bans: exported.bans, cursor: exported.cursor };
}

type ImportReport = Awaited<ReturnType<typeof importUsers>>;

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

/** The bans of a project, and the identities in them. */
export function addBanCommands(user: Command, { define, list }: CommandContext): void {
  const identityOptions = [
    projectOption(),
    required('--method <METHOD>', 'email, passkey, wallet, or the name of a social provider'),
    required('--value <VALUE>', 'the login email, the address, or the ID at the provider'),
  ];
  define(user, {
    name: 'user ban',
    description: 'refuse logins and registrations of an identity; again, to change its reason or end',
    examples: [
      'user ban --project app_1 --method email --value eve@example.com',
      'user ban --project app_1 --method email --value eve@example.com --reason "spam" --until 2027-01-31',
    ],
    takes: [
      ...identityOptions,
      option('--reason <TEXT>', 'why, on one line; "" takes it away'),
      option(
        '--until <TIME>',
        'when it ends: 2027-01-31 (through that day, UTC), 2027-01-31T12:00:00Z; "" takes it away',
      ),
      jsonOption(),
    ],
    params: ({ project, method, value, reason, until }): BanParams => ({
      ...{ project, method, value, reason, until },
    }),
    run: banIdentity,
    print: ({ changed, auth_method, auth_value, expires_at }) => {
      const end = expires_at === null ? '' : ` until ${expires_at}`;
      return tellState({ changed }, `${auth_method} ${auth_value} is banned${end}.`);
    },
  });
  define(user, {
    name: 'user unban',
    description: 'lift a ban',
    examples: ['user unban --project app_1 --method email --value eve@example.com'],
    takes: [...identityOptions, jsonOption()],
    run: async ({ services, operator }, { project, method, value }: IdentityParams) => {
      const scope = await services.projects.getScope(project, operator);
      const given = { authMethod: method, authValue: value };
      const { authMethod, authValue, changed } = await services.bans.unbanIdentity(scope, given, snakeCase);
      return { auth_method: authMethod, auth_value: authValue, banned: false, changed };
    },
    print: ({ changed, auth_method, auth_value }) =>
      tellState({ changed }, `${auth_method} ${auth_value} is ${changed ? 'unbanned' : 'not banned'}.`),
  });
  list(user, {
    name: 'user bans',
    description: 'list banned identities, oldest ban first',
    examples: ['user bans --project app_1 --search eve@', 'user bans --project app_1 --limit 100 --json'],
    takes: [
      projectOption(),
      option('--search <TEXT>', 'only identities whose value contains this text'),
      option('--limit <N>', 'one page of at most this many; without it, all', parseLimit),
      option('--after <CURSOR>', 'the page after an earlier one, which told its cursor on stderr'),
      jsonOption(),
    ],
    params: ({ project, search = null, limit = null, after = null }): BansParams => ({ project, search, limit, after }),
    read: readBans,
    head: ['Method', 'Value', 'Since', 'Until', 'Reason'],
    cells: ({ auth_method, auth_value, created_at, expires_at, reason }) => [
      ...[auth_method, auth_value, created_at],
      expires_at ?? '',
      reason ?? '',
    ],
    none: 'No identity is banned.',
    tellNext: (next) => {
      if (next !== null) writeNotice(`There are more bans. The next page: --after ${next}`);
    },
  });
}

interface BansParams {
  readonly project: string;
  readonly search: string | null;
  readonly limit: number | null;
  readonly after: string | null;
}

interface IdentityParams {
  readonly project: string;
  readonly method: string;
  readonly value: string;
}

interface BanParams extends IdentityParams {
  readonly reason?: string;
  readonly until?: string;
}

async function banIdentity(
  { services, operator }: OperationContext,
  { project, method, value, reason: why, until }: BanParams,
) {
  const scope = await services.projects.getScope(project, operator);
  const identity = parseIdentity({ authMethod: method, authValue: value }, snakeCase);
  const terms = parseBanTerms({ reason: why, end: until === '' ? null : until }, 'until');
  const { reason, expiresAt, changed } = await services.bans.ban(scope, identity, terms);
  const { authMethod: auth_method, authValue: auth_value } = identity;
  return { auth_method, auth_value, banned: true, reason, expires_at: expiresAt, changed };
}

async function* readBans({ services, operator }: OperationContext, { project, search, limit, after }: BansParams) {
  const scope = await services.projects.getScope(project, operator);
  let left = limit ?? Number.POSITIVE_INFINITY;
  let next = after;
  do {
    const size = Math.min(left, PAGE_ROWS);
    const page = await services.bans.listBans(scope, { after: next, limit: size, order: 'oldest first', search });
    yield page.bans.map(({ authMethod, authValue, createdAt, reason, expiresAt }) => ({
      auth_method: authMethod,
      auth_value: authValue,
      created_at: createdAt,
      reason,
      expires_at: expiresAt,
    }));
    left -= page.bans.length;
    next = page.next;
  } while (next !== null && left > 0);
  return next;
}
