import { type Command, Option } from 'commander';
import { MAIN_LABEL, SECRET_SCOPES } from '../domain/projects.js';
import { duration, entries, examples, json, project, scopes, since, wholeNumber } from './arguments.js';
import { auditTable, projectTable, rotationReport, secretTable } from './output.js';
import type { Run } from './run.js';

/** The words for projects, their secrets and their audit trail. */

const DEFAULT_ENTRIES = 1_000;
const KEEP_IT = 'The App Secret is shown this once; keep it where only your backend can read it.';

export function addProjectCommands(program: Command, run: Run): void {
  const projects = program.command('project').description('create projects, list them, and change their secrets');
  projects
    .command('create')
    .description('create a project and show its App Secret, this once')
    .addHelpText('after', examples('project create --name "My wallet app"'))
    .requiredOption('--name <NAME>', 'a name for people')
    .addOption(json())
    .action(async ({ name, ...options }) => {
      await run(
        'project create',
        { name },
        {
          ...options,
          print: (created) => `App ID      ${created.app_id}\nApp Secret  ${created.app_secret}\n\n${KEEP_IT}`,
        },
      );
    });
  projects
    .command('list')
    .description('list all projects with their exact number of users')
    .addHelpText('after', examples('project list', 'project list --json'))
    .addOption(json())
    .action(async (options) => {
      await run('project list', undefined as never, { ...options, print: projectTable });
    });
  addSecretCommands(projects, run);
}

function addSecretCommands(projects: Command, run: Run): void {
  const command = (words: string, description: string, ...lines: string[]) =>
    projects
      .command(words)
      .description(description)
      .addHelpText('after', examples(...lines))
      .argument('<APP_ID>', 'the App ID of the project')
      .addOption(json());

  command('secrets', 'list the secrets of a project, never themselves', 'project secrets app_1').action(
    async (appId: string, options) => {
      await run('project secrets', { appId }, { ...options, print: secretTable });
    },
  );
  command(
    'add-secret',
    'give a project one more App Secret and show it, this once',
    'project add-secret app_1 --label reports --scope read,verify --expires-in 30d',
  )
    .requiredOption('--label <LABEL>', 'what to call it; the audit trail names it so')
    .option('--scope <SCOPES>', 'what it is good for, such as read,verify', scopes, SECRET_SCOPES)
    .option('--expires-in <TIME>', 'when it ends, such as 30d; without it never', duration)
    .action(async (appId: string, { label, scope, expiresIn, ...options }) => {
      await run(
        'project add-secret',
        { appId, label, scopes: scope, expiresInMs: expiresIn ?? null },
        {
          ...options,
          print: (added) =>
            `App ID      ${added.app_id}\nApp Secret  ${added.app_secret}\nScopes      ${added.scopes.join(', ')}\nExpires     ${added.expires_at ?? 'never'}\n\n${KEEP_IT}`,
        },
      );
    });
  command('revoke', 'end a secret at once', 'project revoke app_1 7')
    .argument('<SECRET_ID>', 'its number in the list of secrets', wholeNumber)
    .action(async (appId: string, secretId: number, options) => {
      await run(
        'project revoke',
        { appId, secretId },
        { ...options, print: ({ id, label }) => `The secret ${id} (${label}) is no longer valid.` },
      );
    });
  command(
    'rotate',
    'give a project a new App Secret in the place of one',
    'project rotate app_1',
    'project rotate app_1 --label reports --overlap 24h',
  )
    .option('--label <LABEL>', 'which secret to replace', MAIN_LABEL)
    .addOption(
      new Option('--overlap <TIME>', 'how long the old secret stays valid beside the new one, such as 24h')
        .argParser(duration)
        .default(0, 'none: it dies at once'),
    )
    .action(async (appId: string, { label, overlap, ...options }) => {
      await run('project rotate', { appId, label, overlapMs: overlap }, { ...options, print: rotationReport(overlap) });
    });
}

export function addAuditCommand(program: Command, run: Run): void {
  program
    .command('audit')
    .description('list who removed, banned, imported, purged and changed secrets, oldest first')
    .addHelpText('after', examples('audit --project app_1 --since 24h', 'audit --project app_1 --limit 20 --json'))
    .addOption(project())
    .option('--since <TIME>', 'only from then on: 24h, 2026-01-31, 2026-01-31T12:00:00Z', since)
    .option('--limit <N>', 'at most so many, the newest', entries, DEFAULT_ENTRIES)
    .addOption(json())
    .action(async ({ project, since: from, limit, ...options }) => {
      await run('audit', { project, since: from ?? null, limit }, { ...options, print: auditTable });
    });
}
