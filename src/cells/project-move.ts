import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from '../db/database.js';
import { isLockTimeout } from '../db/failures.js';
import type { Actor } from '../domain/projects.js';
import { AppError } from '../errors.js';
import { haveEnded, takeTransactionId } from '../feed/changes.sql.js';
import * as projects from '../projects/projects.sql.js';
import { type Move as CellMove, findMove, requireMovable } from './cells.js';
import { identify } from './cells.sql.js';
import * as sql from './project-move.sql.js';

/** A project moves from the database of one cell to that of another while it is used (docs/decisions/cells.md). */

export interface MoveOptions extends Pick<CellMove, 'source' | 'target' | 'appId' | 'from'> {
  readonly actor: Actor;
  /** How the target is called in the audit trail, without a password. */
  readonly to: string;
  /** Let every balancer refuse the requests of the project, send them to the other cell, accept them again. Each may run twice. */
  readonly hold: () => Promise<void>;
  readonly switchMap: () => Promise<void>;
  readonly release: () => Promise<void>;
  readonly notice: (sentence: string) => void;
  /** Called with the number of rows that are copied so far. */
  readonly progress: (rows: number) => void;
  /** Ends the move between two steps, from which it can be continued. */
  readonly signal: AbortSignal;
}

type Move = MoveOptions & Pick<CellMove, 'projectId' | 'tables'>;

const POLL_MS = 200;
/** PostgreSQL may need a moment to notice that a killed run has gone. */
const ALONE_TRIES = 25;
/** While requests are held. */
const SWITCH_POLL_MS = 10;
/** The target is hardly behind if it gets within this time what the source has written. */
const CLOSE_BEHIND_MS = 500;
/** For how long the open writes of the project are waited for. */
const WRITERS_WAIT_MS = 1_000;
/** For how long the last rows are waited for. */
const LAST_ROWS_WAIT_MS = 5_000;
/** Replication that has failed so often will not succeed by itself. */
const MAX_FAILURES = 3;

/** Whether a project can move, and how far it has come. CONFLICT with everything that is in the way. */
export async function inspectMove(options: MoveOptions) {
  const move = await prepare(options);
  const begun = await requireMovable(move);
  return { tables: move.tables.map(({ name }) => name), step: begun?.step ?? null };
}

async function prepare(options: MoveOptions): Promise<Move> {
  return { ...options, projectId: options.actor.projectId, tables: await sql.listMovedTables(options.source) };
}

/** The id of a project that an earlier run has moved to the target, or null. */
export async function findMoved(target: Database, appId: string): Promise<number | null> {
  const id = await projects.findProjectId(target, appId);
  return id !== null && (await projects.readMove(target, id)) === null ? id : null;
}

/**
 * Moves a project, or continues from where an earlier run has stopped. Times are of this run; null for what an earlier one has done. `rows` are
 * in the target before the switch; requests are held from before the first balancer refuses them until the last accepts them again. CONFLICT.
 */
export const moveProject = alone(async (move: Move) => {
  const begun = await requireMovable(move);
  const isCopying = begun === null || begun.step === 'copying';
  const copied = isCopying ? await copy(move) : { rows: null, copyMs: null };
  const heldMs = begun?.step === 'leaving' ? null : await switchOver(move, begun?.step ?? 'copying');
  // An earlier run may have ended before it did.
  if (heldMs === null) await move.release();
  move.notice('Deleting the rows in the source');
  const started = performance.now();
  await leave(move);
  return { ...copied, heldMs, deleteMs: since(started) };
});

/** Brings a project back to where it was before its move. CONFLICT once the map may have been switched. */
export const abortMove = alone(async (move: Move) => {
  const { source, target, projectId, notice } = move;
  const { atSource, atTarget } = await findMove(source, target, projectId);
  if (atSource === null && atTarget === null) throw new AppError('CONFLICT', 'The project is not being moved.');
  if (atSource?.step === 'mapping' || atSource?.step === 'leaving')
    throw new AppError('CONFLICT', 'The map was switched already. Run the command without --abort to end the move.');
  if (atTarget !== null) await sql.setStep(target, projectId, ['arriving'], 'leaving');
  if (atSource !== null) await reopen(move);
  notice('The source serves the project. Deleting what was copied');
  await endReplication(move);
  // To delete users is recorded too, for a moment, and must not get ids that have come.
  await sql.advanceSequences(target, projectId, move.tables);
  await deleteAllRows(target, move);
  await sql.deleteArrival(target, projectId);
  await sql.deleteMove(source, projectId);
});

/** Runs `work` unless another run of the command moves the same project. */
function alone<Result>(work: (move: Move) => Promise<Result>): (options: MoveOptions) => Promise<Result> {
  return async (options) => {
    const session = await options.target.pool.connect();
    try {
      for (let tries = 1; !(await sql.tryToMoveAlone(session, options.actor.projectId)); tries += 1) {
        if (tries === ALONE_TRIES) throw new AppError('CONFLICT', 'Another run of this command is moving the project.');
        await sleep(POLL_MS);
      }
      return await work(await prepare(options));
    } finally {
      // Ends the session, and with it the lock.
      session.release(true);
    }
  };
}

/** Copies the project while it is used, until the target lacks no more than the last moment. */
async function copy(move: Move): Promise<{ rows: number; copyMs: number }> {
  const { source, target, projectId, tables, notice, signal } = move;
  const started = performance.now();
  notice('Preparing both databases, when the transactions that are open have ended');
  await sql.insertMove(source, projectId, 'copying', await identify(target));
  await sql.insertMove(target, projectId, 'arriving', await identify(source));
  // From then on, every transaction that writes rows of the project knows that it moves, and shares the lock of its writers.
  const xid = await takeTransactionId(source);
  await poll(() => haveEnded(source, xid), signal);
  await replicate(move);
  notice('Copying');
  await waitForCopy(move);
  // Plans of an empty table would read all of it.
  await target.vacuum();
  const rows = await sql.countRows(target, projectId, tables);
  return { rows, copyMs: since(started) };
}

/** Begins to replicate, unless an earlier run has. */
async function replicate({ source, target, projectId, appId, tables, from }: Move): Promise<void> {
  const isCopied = await sql.hasSubscription(target, projectId);
  // After a failover the slot is gone. With a new one, changes in between would be missing.
  const isBroken = isCopied
    ? !(await sql.hasSlot(source, projectId))
    : (await sql.hasProject(target, projectId, appId)) || (await sql.countRows(target, projectId, tables)) > 0;
  if (isBroken)
    throw new AppError('CONFLICT', 'The replication of the project was lost. Run with --abort, and then begin again.');
  if (isCopied) return;
  await sql.createPublication(source, projectId, tables);
  await sql.createSlot(source, projectId);
  await sql.createSubscription(target, projectId, from);
}

/** Asks how far replication has come. Throws once it has failed several times. */
async function watchReplication({ target, projectId }: Move): Promise<() => Promise<sql.CopyProgress>> {
  const read = () => sql.readCopyProgress(target, projectId);
  const earlier = (await read()).failures;
  return async () => {
    const progress = await read();
    if (progress.failures - earlier < MAX_FAILURES) return progress;
    throw new Error('Replication fails again and again. The log of the target database says why.');
  };
}

async function waitForCopy(move: Move): Promise<void> {
  const { progress, signal } = move;
  const rows = new Map<string, number>();
  const watch = await watchReplication(move);
  await poll(async () => {
    const { ready, tables, copying } = await watch();
    for (const [table, copied] of Object.entries(copying)) rows.set(table, Math.max(rows.get(table) ?? 0, copied));
    progress([...rows.values()].reduce((sum, copied) => sum + copied, 0));
    return tables > 0 && ready === tables;
  }, signal);
}

/** Waits until the target is hardly behind, and the project has no transaction that has been open for long. */
async function waitForCalm(move: Move): Promise<void> {
  const { source, target, projectId, signal } = move;
  const watch = await watchReplication(move);
  await poll(async () => {
    const started = performance.now();
    const lsn = await sql.currentLsn(source);
    const writers = await sql.findProjectWriters(source, projectId);
    await poll(async () => {
      await watch();
      return sql.hasReceived(target, projectId, lsn);
    }, signal);
    if (since(started) > CLOSE_BEHIND_MS) return false;
    await sleep(POLL_MS);
    const open = await sql.findProjectWriters(source, projectId);
    return !writers.some((writer) => open.includes(writer));
  }, signal);
}

/** The project is held from here to the end. Not interrupted: it would be held for longer. */
async function switchOver(move: Move, step: projects.MoveStep): Promise<number> {
  const { notice } = move;
  if (step === 'copying') {
    notice('Waiting until the target has caught up');
    await waitForCalm(move);
  }
  notice('Switching');
  const started = performance.now();
  if (step === 'copying') await close(move);
  try {
    if (step === 'switching') await waitForLastRows(move);
    await open(move);
    await move.release();
  } catch (cause) {
    throw new Error(`${messageOf(cause)} The project refuses requests until the command has run again.`, { cause });
  }
  return since(started);
}

/** The source takes no more writes, and the target has all of them. After a failure the source serves the project again. */
async function close(move: Move): Promise<void> {
  const { source, actor, to } = move;
  try {
    await move.hold();
    await source.transaction('READ COMMITTED', (tx) => sql.closeProject(tx, actor, to, WRITERS_WAIT_MS));
    await waitForLastRows(move);
  } catch (cause) {
    await reopen(move).catch((error) => {
      throw new Error(
        `${messageOf(cause)} ${messageOf(error)} The project stays in the source, but a balancer may still refuse its requests. Run the command again to go on, or with --abort.`,
        { cause },
      );
    });
    throw new Error(`${messageOf(cause)} The project stays in the source. Run the command again to go on.`, { cause });
  }
}

async function waitForLastRows({ source, target, projectId }: Move): Promise<void> {
  const { mark } = (await projects.readMove(source, projectId)) as projects.MoveRow;
  const until = AbortSignal.timeout(LAST_ROWS_WAIT_MS);
  await poll(() => sql.hasEntry(target, projectId, mark as number), until, SWITCH_POLL_MS);
}

/** The source serves the project as before the switch. */
async function reopen({ source, projectId, release }: Move): Promise<void> {
  await sql.setStep(source, projectId, ['switching'], 'copying');
  await release();
}

/** The target serves the project, which the source has closed. */
async function open(move: Move): Promise<void> {
  const { source, target, projectId, tables } = move;
  await sql.dropSubscription(target, projectId);
  await sql.advanceSequences(target, projectId, tables);
  await sql.setStep(source, projectId, ['switching'], 'mapping');
  await move.switchMap();
  await sql.adoptWebhooks(target, projectId);
  // From here on there is no way back: the target accepts writes.
  await sql.deleteMove(target, projectId);
  await source.transaction('READ COMMITTED', (tx) => sql.leaveProject(tx, projectId));
}

function messageOf(cause: unknown): string {
  if (isLockTimeout(cause)) return 'A transaction has been writing the project for more than a second.';
  const { name, message } = cause as Error;
  if (name === 'TimeoutError') return 'The target did not get the last rows in time.';
  return /\.$/.test(message) ? message : `${message}.`;
}

/** Deletes the project in the source. The target serves it. */
async function leave(move: Move): Promise<void> {
  const { source, actor, to } = move;
  await endReplication(move);
  await deleteAllRows(source, move);
  await sql.finishMove(source, actor, to);
  await source.vacuum();
}

async function endReplication({ source, target, projectId, signal }: Move): Promise<void> {
  await sql.dropSubscription(target, projectId);
  await poll(async () => {
    await sql.dropIdleSlot(source, projectId);
    return !(await sql.hasSlot(source, projectId));
  }, signal);
  await sql.dropPublication(source, projectId);
}

/** Users go before what counts and tells that they go. */
const DELETED_LAST: readonly string[] = [
  ...['users', 'accounts', 'tallies', 'tally_slices', 'tally_deltas', 'changes', 'changes_pruned'],
];
const BATCH_SIZE = 2_000;

/** Deletes what a project has in the tables, in transactions of bounded size. */
async function deleteAllRows(db: Database, { projectId, tables, signal }: Move): Promise<void> {
  const place = ({ name }: projects.ProjectTable) => DELETED_LAST.indexOf(name);
  for (const table of tables.toSorted((one, other) => place(one) - place(other))) {
    for (let deleted = BATCH_SIZE; deleted === BATCH_SIZE; ) {
      signal.throwIfAborted();
      deleted = await projects.deleteRows(db, projectId, table, BATCH_SIZE);
    }
  }
}

/** Asks again and again until the answer is yes. */
async function poll(ask: () => Promise<boolean>, signal: AbortSignal, everyMs = POLL_MS): Promise<void> {
  while (!(await ask())) {
    signal.throwIfAborted();
    await sleep(everyMs);
  }
}

function since(started: number): number {
  return Math.round(performance.now() - started);
}
