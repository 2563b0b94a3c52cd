import type { Command } from 'commander';
import type { UserFormat } from '../domain/import-format.js';
import type { ExportTarget } from '../domain/systems.js';
import { COMMAND, counted } from '../errors.js';
import type { Exported } from '../users/export-users.js';
import { option, projectOption } from './arguments.js';
import { textOf } from './door.js';
import { COUNT } from './import.js';
import type { CommandContext, Tools } from './rows.js';
import { partOf, writeToStdout } from './terminal.js';

/** The forms in which `--to` writes users, and what each is. */
const FORMS: Readonly<Record<ExportTarget | 'csv', string>> = {
  auth0: 'for a bulk import, which takes files of at most 500 KB',
  firebase: 'for firebase auth:import',
  keycloak: 'for a partial import of a realm',
  scim: "a SCIM 2.0 ListResponse; jq -c '.Resources[]' makes bodies of POST /Users from it",
  csv: 'for spreadsheets, without bans',
};

const EXPORT_HELP = `
--to writes what another system imports, and at the end how often it cannot hold what, such as accounts:
${Object.entries(FORMS)
  .map(([name, what]) => `  ${name.padEnd(8)}  ${what}`)
  .join('\n')}`;

export function addExportCommand(user: Command, { act }: CommandContext): void {
  act(user, {
    name: 'user export',
    description: 'write all users and bans to stdout as NDJSON that `user import` reads, from one snapshot',
    help: EXPORT_HELP,
    examples: ['user export --project app_1 > users.ndjson', 'user export --project app_1 --to firebase > users.json'],
    takes: [projectOption(), option('--to <FORM>', 'for another system, or a spreadsheet').choices(Object.keys(FORMS))],
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
}

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
    progress(lines, partOf(lines, total));
  }
  async function writeAll(): Promise<Exported> {
    if (where.services !== null) {
      const { projects, transfers } = where.services;
      return transfers.exportUsers(await projects.getScope(project, operator), { format, write, signal });
    }
    const answer = await where.send(`/dashboard/projects/${project}/export?format=${format}`);
    for await (const chunk of textOf(answer)) await write(chunk);
    return JSON.parse(String(answer.trailers['userdir-export']));
  }
  const { users: exported, ...report } = await writeAll();
  return { exported, ...report };
}
