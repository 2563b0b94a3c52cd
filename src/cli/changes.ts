import type { Command } from 'commander';
import { CHANGES_PAGE, type Change, changeCursor, changeTypes, formatChange } from '../domain/changes.js';
import { parse } from '../domain/parse.js';
import { addCommand, jsonOption, option, projectOption } from './arguments.js';
import type { Io, OperationContext } from './operation.js';
import type { CommandContext } from './run.js';
import { counted } from './terminal.js';

const HELP = `
Each line is one JSON object, in the order of the commits:
  {"id":"…","type":"user.created","at":"2026-01-31T12:00:00.000Z","user_id":42}
The id is a cursor for --after. Without it, the changes begin with the oldest that is kept.`;

interface ChangesParams {
  readonly project: string;
  readonly after: string | null;
  readonly types: string | null;
  readonly follow: boolean;
}

export function addChangesCommand(program: Command, { operation }: CommandContext): void {
  const changes = operation({ name: 'changes', run: writeChanges, isLive: true });
  addCommand(program, {
    name: 'changes',
    description: 'write what has changed among the users to stdout as NDJSON',
    help: HELP,
    examples: ['changes --project app_1', 'changes --project app_1 --follow --types user.removed'],
    takes: [
      projectOption(),
      option('--after <CURSOR>', 'only changes after this: an id, the cursor of an export, or now'),
      option('--types <TYPES>', 'only these types, separated by commas'),
      option('--follow', 'go on with each change that comes, until Ctrl+C'),
      // The output is JSON with and without the option.
      jsonOption().hideHelp(),
    ],
  }).action(async ({ project, after = null, types = null, follow = false }) => {
    const { written, end } = await changes(
      { project, after, types, follow },
      {
        interrupted:
          'Interrupted. Go on with --after and the last id, or with the cursor above if there was no change.',
        print: () => '',
      },
    );
    process.stderr.write(`${counted(written, 'change')}. The next ones come after ${end}\n`);
  });
}

const afterOption = changeCursor('--after');
const typesOption = changeTypes('--types');

async function writeChanges({ services, operator }: OperationContext, params: ChangesParams, io: Io) {
  const { changes, projects } = services;
  const scope = await projects.getScope(params.project, operator);
  const types = params.types === null ? null : parse(typesOption, params.types);
  const report = { written: 0, end: params.after };
  const write = async (list: readonly Change[]) => {
    if (list.length > 0) await io.write(list.map((change) => `${formatChange(change)}\n`).join(''));
    report.written += list.length;
  };
  for (let hasMore = true; hasMore; ) {
    const after = report.end === null ? null : parse(afterOption, report.end);
    const page = await changes.listChanges(scope, { after, types, first: CHANGES_PAGE.max });
    io.signal.throwIfAborted();
    await write(page.changes);
    report.end = page.end;
    hasMore = page.hasMore;
  }
  if (params.follow) {
    const after = await changes.findStart(scope, parse(afterOption, report.end));
    io.notice(`Following after ${report.end}.`);
    const followed = changes.follow(scope, { after, types }, io.signal, (work) => work());
    for await (const { changes: list } of followed) await write(list);
    io.signal.throwIfAborted();
  }
  return report;
}
