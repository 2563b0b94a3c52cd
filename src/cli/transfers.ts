import { type Command, InvalidArgumentError } from 'commander';
import type { Services } from '../context.js';
import { graphql, type ResultOf } from '../dashboard/documents.js';
import { EXPORT_TARGETS, type UserFormat } from '../domain/import-format.js';
import { COMMAND, counted } from '../errors.js';
import { option, parseSince, projectOption, required } from './arguments.js';
import { type Result, textOf } from './door.js';
/** Adds the commands whose input or output is a stream of users. */
import { addImportCommand } from './import.js';
import type { CommandContext, Tools } from './rows.js';
import { progressOf, writeToStdout } from './terminal.js';

export function addTransferCommands(user: Command, context: CommandContext): void {
  const { act } = context;
  addImportCommand(user, context);
  act(user, {
    name: 'user export',
    description: 'write all users and bans to stdout as NDJSON that `user import` reads, from one snapshot',
    help: EXPORT_HELP,
    examples: ['user export --project app_1 > users.ndjson', 'user export --project app_1 --to firebase > users.json'],
    takes: [
      projectOption(),
      option('--to <FORM>', 'for another system, or a spreadsheet').choices([...EXPORT_TARGETS, 'csv']),
    ],
    unit: 'users',
    interrupted: 'Interrupted. The export is incomplete.',
    act: exportUsers,
    print: ({ exported, bans, cursor, not_kept }, { project }) => {
      const banned = bans === 0 ? '' : ` and ${counted(bans, 'ban')}`;
      const counts = Object.entries(not_kept ?? {}).map(([what, count]) => `${what} ${count.toLocaleString('en')}`);
      const notKept = counts.length === 0 ? '' : `\nNot kept: ${counts.join(', ')}.`;
      return `Exported ${counted(exported, 'user')}${banned}.${notKept}\nWhat changes from now on: ${COMMAND} changes --project ${project} --after ${cursor}`;
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

const COUNT = graphql(`query CountUsers($project: ID!) { project(appId: $project) { userCount } }`);

async function exportUsers(
  tools: Tools,
  { project, to: format = 'ndjson' }: { readonly project: string; readonly to?: UserFormat },
) {
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
    return exportReport(await transfers.exportUsers(scope, { format, write, signal }));
  }
  const answer = await where.send(`/dashboard/projects/${project}/export?format=${format}`);
  for await (const chunk of textOf(answer)) await write(chunk);
  return exportReport(JSON.parse(String(answer.trailers['userdir-export'])));
}

const exportReport = ({ users, ...report }: Awaited<ReturnType<Services['transfers']['exportUsers']>>) => ({
  exported: users,
  ...report,
});

const EXPORT_HELP = `
--to writes what another system imports, and at the end how often it cannot hold what, such as accounts:
  auth0     for a bulk import, which takes files of at most 500 KB
  firebase  for firebase auth:import
  keycloak  for a partial import of a realm
  scim      a SCIM 2.0 ListResponse; jq -c '.Resources[]' makes bodies of POST /Users from it
  csv       for spreadsheets, without bans`;

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
