import type { Command } from 'commander';
import { api, inProject, type VariablesOf } from '../dashboard/documents.js';
import { patiently } from '../db/failures.js';
import { CHANGE_MEANINGS } from '../domain/change-types.js';
import { CHANGES_PAGE, changeData, changeTypes } from '../domain/changes.js';
import { parse } from '../domain/parse.js';
import { camelCase, nameOf } from '../domain/spelling.js';
import { FEED_FIELDS } from '../domain/user-columns.js';
import { AppError, counted } from '../errors.js';
import { valuesOf } from '../graphql/shared.js';
import { option, projectOption } from './arguments.js';
import { type Ask, NotListeningError, type Reached, textOf } from './door.js';
import type { CommandContext, Tools } from './rows.js';
import { toJson, writeToStdout } from './terminal.js';

const HELP = `
Each line is one JSON object, in the order of the commits:
  {"id":"…","type":"user.created","at":"2026-01-31T12:00:00.000Z","user_id":42}
The id is a cursor for --after. Without it, the changes begin with the oldest that is kept.`;

const typesOption = changeTypes('--types');
const TYPES = valuesOf(CHANGE_MEANINGS);

/** The types of an option as the schema names them, null for all, and a type of the schema as commands tell it. */
export const namesOfTypes = (text?: string) =>
  text === undefined ? null : parse(typesOption, text).map((type) => nameOf(type));
export const typeOfName = (name: keyof typeof TYPES) => TYPES[name].value;

/** The fields of a user as commands tell them, by their names in the schema. */
const FIELDS: ReadonlyMap<string, string> = new Map(FEED_FIELDS.map((field) => [camelCase(field), field]));

export function addChangesCommand(program: Command, { act }: CommandContext): void {
  act(program, {
    name: 'changes',
    description: 'write what has changed among the users to stdout as NDJSON',
    help: HELP,
    examples: ['changes --project app_1', 'changes --project app_1 --follow --types user.removed'],
    takes: [
      projectOption(),
      option('--after <CURSOR>', 'only changes after this: an id, the cursor of an export, or now'),
      option('--types <TYPES>', 'only these types, separated by commas'),
      option('--follow', 'go on with each change that comes, until Ctrl+C'),
    ],
    variables: ({ project, after = null, types, follow = false }): ChangesParams => {
      return { project, after, follow, types: namesOfTypes(types) };
    },
    interrupted: 'Interrupted. Go on with --after and the last id, or with the cursor above if there was no change.',
    act: writeChanges,
    print: ({ written, end }) => `${counted(written, 'change')}. The next ones come after ${end}`,
    tellsOnStderr: true,
  });
}

const CHANGES = inProject(
  api(`query Changes($after: String, $types: [ChangeType!], $first: Int!) {
    changes(after: $after, types: $types, first: $first) {
      nodes { id type at userId fields mergedInto }
      pageInfo { endCursor hasNextPage }
    }
  }`),
);

type ChangesParams = Required<Omit<VariablesOf<typeof CHANGES>, 'first'>> & { readonly follow: boolean };

async function writeChanges(tools: Tools, { follow, ...params }: ChangesParams) {
  const { notice, signal } = tools;
  const report = { written: 0, end: params.after };
  async function writeNew(ask: Ask): Promise<void> {
    for (let isMore = true; isMore; ) {
      const { nodes, pageInfo } = await ask(CHANGES, { ...params, after: report.end, first: CHANGES_PAGE.max });
      signal.throwIfAborted();
      const lines = nodes.map(({ id, type, at, ...data }) => {
        const fields = data.fields.map((name) => FIELDS.get(name) ?? name);
        return toJson({ id, type: typeOfName(type), at, ...changeData({ ...data, fields }) });
      });
      if (lines.length > 0) await writeToStdout(`${lines.join('\n')}\n`);
      report.written += nodes.length;
      report.end = pageInfo.endCursor;
      isMore = pageInfo.hasNextPage;
    }
  }
  await writeNew(tools.ask);
  if (!follow) return report;
  notice(`Following after ${report.end}.`);
  const where = await tools.reach();
  try {
    for await (const _ of newsOf(where, tools, params.project)) await patiently(() => writeNew(where.ask), signal);
  } catch (error) {
    // It closes already.
    if (!(error instanceof NotListeningError)) throw error;
  }
  signal.throwIfAborted();
  // A server ends its news in order.
  await writeNew(where.ask).catch((error) => {
    if (error instanceof AppError) throw error;
  });
  throw new AppError('UNAVAILABLE', 'The running server closes.');
}

/** Tells that a project may have new changes: at once, and each time. */
async function* newsOf(where: Reached, { operator, signal }: Tools, project: string): AsyncGenerator<unknown, void> {
  if (where.services !== null) {
    const { projects, changes } = where.services;
    yield* changes.watch(await projects.getScope(project, operator), signal);
    return;
  }
  const answer = await where.send(`/dashboard/projects/${project}/news`);
  // Between two events there are comments.
  for await (const text of textOf(answer)) if (text.includes('data:')) yield;
}
