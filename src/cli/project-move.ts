import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Command, InvalidArgumentError } from 'commander';
import type { MoveOptions } from '../cells/project-move.js';
import { runThenClose } from '../closers.js';
import { type Config, type Environment, parseConfig } from '../config/config.js';
import type { Database } from '../db/database.js';
import { AppError } from '../errors.js';
import { jsonOption, option, projectOption, required } from './arguments.js';
import type { Io, OperationContext } from './operation.js';
import type { CommandContext } from './run.js';
import { counted, writeNotice } from './terminal.js';

/** The commands for several cells: databases, each with projects of its own. */

/** Loaded only where they are used, because all commands would take longer. */
const loadCells = () => import('../cells/cells.js');
const loadMove = () => import('../cells/project-move.js');

const MOVE_HELP = `
Copies the project while it is used, and then holds its requests for about a second. It can be interrupted or killed at
any time, and goes on when the same command is run again. Each of the three commands runs in a shell that has
USERDIR_APP_ID, must change every balancer, and may run more than once.`;

interface MoveParams {
  readonly appId: string;
  readonly to: string;
  readonly from: string;
  readonly hold: string | null;
  readonly map: string | null;
  readonly release: string | null;
  readonly mode: 'move' | 'dry run' | 'abort';
}

export function addCellCommands(project: Command, { env, define }: CommandContext): void {
  define(project, {
    name: 'project move',
    description: "move a project to another cell's database while it is used",
    help: MOVE_HELP,
    examples: [
      'project move --project app_1 --to postgres://cell2.example.com/userdir --dry-run',
      'project move --project app_1 --to postgres://cell2.example.com/userdir --hold-command "cells.sh hold" --map-command "cells.sh cell2" --release-command "cells.sh release"',
    ],
    takes: [
      projectOption(),
      required('--to <URL>', 'the database of the other cell'),
      option('--from <URL>', 'how that database connects to this one; by default as DATABASE_URL says'),
      option('--hold-command <CMD>', 'lets every balancer refuse the requests of the project'),
      option('--map-command <CMD>', 'lets every balancer send them to the other cell'),
      option('--release-command <CMD>', 'lets every balancer accept them again'),
      option('--dry-run', 'only check whether the project can move'),
      option('--abort', 'undo a move before the map is switched'),
      jsonOption(),
    ],
    params: ({ project, to, from, holdCommand, mapCommand, releaseCommand, dryRun, abort }): MoveParams => ({
      appId: project,
      to: requireDatabaseUrl('--to', to),
      from: from === undefined ? directUrlOf(parseConfig(env)) : requireDatabaseUrl('--from', from),
      hold: holdCommand ?? null,
      map: mapCommand ?? null,
      release: releaseCommand ?? null,
      mode: abort === true ? 'abort' : dryRun === true ? 'dry run' : 'move',
    }),
    unit: 'rows',
    interrupted: 'Interrupted. Run the same command again to go on, or with --abort to undo.',
    run: (context, params, io) => moveOrAbort(env, context, params, io),
    print: report,
  });
  define(project, {
    name: 'project ids',
    description: 'show or set the range from which this cell draws the ids of new projects',
    examples: ['project ids', 'project ids --range 1000001-2000000'],
    takes: [option('--range <FIRST-LAST>', 'a range that no other cell has', parseRange), jsonOption()],
    params: ({ range = null }) => ({ range }),
    run: async ({ db }, { range }: { range: [number, number] | null }) => {
      const { readProjectIds, setProjectIds } = await loadCells();
      return range === null ? readProjectIds(db) : setProjectIds(db, ...range);
    },
    print: ({ first, last, next }) => `New projects get ids from ${first} to ${last}, next ${next}.`,
  });
}

async function moveOrAbort(env: Environment, context: OperationContext, params: MoveParams, io: Io) {
  const { db, services, operator } = context;
  if (db.engineUsage() !== null)
    throw new Error('The embedded database is no cell. Set DATABASE_URL to the database of the project.');
  const { createDatabase } = await import('../db/database.js');
  const { abortMove, inspectMove, moveProject } = await loadMove();
  const target = createDatabase({ engine: 'postgres', url: params.to, ...TARGET });
  return runThenClose(async () => {
    await requireReachable(target);
    const scope = await services.projects.getScope(params.appId, operator).catch((error) => error as AppError);
    if (scope instanceof Error) return alreadyMoved(target, params, scope);
    const actor = scope.actorFor('operate', null);
    const options = { ...moveOptions(params, io, env), source: db, target, actor };
    const moved = { app_id: params.appId, id: actor.projectId, to: options.to };
    if (params.mode === 'dry run') {
      const { tables, step } = await inspectMove(options);
      const { totalUser } = await services.projects.getProject(scope);
      return { ...moved, outcome: 'can move' as const, users: totalUser, tables, step };
    }
    if (params.mode === 'abort') {
      await abortMove(options);
      return { ...moved, outcome: 'aborted' as const };
    }
    const { rows, copyMs, heldMs, deleteMs } = await moveProject(options);
    return { ...moved, outcome: 'moved' as const, rows, copy_ms: copyMs, held_ms: heldMs, delete_ms: deleteMs };
  }, [() => target.close()]);
}

/** The result of a command that was killed when it had done everything. */
async function alreadyMoved(target: Database, { appId, to }: MoveParams, error: AppError) {
  const { findMoved } = await loadMove();
  const id = error.code === 'NOT_FOUND' ? await findMoved(target, appId) : null;
  if (id === null) throw error;
  const { host, pathname } = new URL(to);
  const nothing = { rows: null, copy_ms: null, held_ms: null, delete_ms: null };
  return { app_id: appId, id, to: host + pathname, outcome: 'moved' as const, ...nothing };
}

/** One connection for the statements, and one beside it. */
const TARGET = { poolSize: 2, poolTimeoutMs: 10_000, statementTimeoutMs: 0, replicaMaxLagMs: 0 };

async function requireReachable(target: Database): Promise<void> {
  await target.check().catch((cause) => {
    throw new Error(
      `The database of --to cannot be used: ${(cause as Error).message || (cause as { code?: string }).code}`,
    );
  });
}

function moveOptions(
  { appId, to, from, hold, map, release }: MoveParams,
  { progress, signal }: Io,
  env: Environment,
): Omit<MoveOptions, 'source' | 'target' | 'actor'> {
  const { host, pathname } = new URL(to);
  const runFor = (name: string, command: string | null) => async () => {
    if (command !== null) await runCommand(name, command, { ...env, USERDIR_APP_ID: appId });
  };
  return {
    appId,
    to: host + pathname,
    from,
    hold: runFor('--hold-command', hold),
    switchMap: runFor('--map-command', map),
    release: runFor('--release-command', release),
    notice: (sentence) => writeNotice(`${sentence}.`),
    progress: (rows) => progress({ done: rows }),
    signal,
  };
}

/** A balancer that does not answer must not hold the project for long. */
const COMMAND_LIMIT_MS = 10_000;

/** Runs a command in a shell. Its output goes to stderr. */
async function runCommand(name: string, command: string, env: Environment): Promise<void> {
  const child = spawn('/bin/sh', ['-c', command], {
    env,
    stdio: ['ignore', process.stderr, process.stderr],
    // Ctrl+C is for this process, which ends at a step from which it can go on.
    detached: true,
    timeout: COMMAND_LIMIT_MS,
    killSignal: 'SIGKILL',
  });
  const [code, signal] = await once(child, 'close');
  if (code !== 0) throw new Error(`The command of ${name} ended with ${code ?? signal}.`);
}

/** The error does not repeat the text, which may have a password. */
function requireDatabaseUrl(name: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url !== null && ['postgres:', 'postgresql:'].includes(url.protocol) && url.host !== '') return text;
  throw new AppError('BAD_USER_INPUT', `${name}: expected a URL such as postgres://cell2.example.com/userdir.`);
}

function parseRange(text: string): [number, number] {
  const [, first, last] = /^(\d{1,10})-(\d{1,10})$/.exec(text) ?? [];
  if (first !== undefined && last !== undefined) return [Number(first), Number(last)];
  throw new InvalidArgumentError('Expected the first and the last id, such as 1000001-2000000.');
}

/** Empty for the embedded database, which is refused later. */
function directUrlOf({ db }: Config): string {
  return db.engine === 'postgres' ? (db.directUrl ?? db.url) : '';
}

function report(result: Awaited<ReturnType<typeof moveOrAbort>>): string {
  const { app_id, to } = result;
  switch (result.outcome) {
    case 'can move': {
      const { users, tables, step } = result;
      const now = step === null ? 'has not begun to move' : `is on its way (${step})`;
      return `${app_id} with ${counted(users, 'user')} can move to ${to}: rows of ${tables.join(', ')}. It ${now}.`;
    }
    case 'aborted':
      return `${app_id} stays where it was. What was copied to ${to} is deleted.`;
    case 'moved':
      return `Moved ${app_id} to ${to}${result.held_ms === null ? '' : `, held for ${result.held_ms} ms`}.`;
  }
}
