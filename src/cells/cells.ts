import type { Database } from '../db/database.js';
import { AppError, COMMAND } from '../errors.js';
import { type MoveRow, readMove } from '../projects/projects.sql.js';
import * as cells from './cells.sql.js';
import * as sql from './project-move.sql.js';

/** What holds between cells: databases of the same service, each with projects of its own (docs/decisions/cells.md). */

export interface Move {
  readonly source: Database;
  readonly target: Database;
  readonly projectId: number;
  readonly appId: string;
  /** How the target connects to the source: a URL. */
  readonly from: string;
  readonly tables: readonly sql.MovedTable[];
}

const LAST_PROJECT_ID = 2_147_483_647;
const OLDEST_VERSION = 150_000;
/** A move needs a slot and a sender for the project, and one for each of the two tables that are copied at once. */
const REPLICATION_NEEDS = 3;

export { readProjectIds } from './cells.sql.js';
export { listMoves } from './project-move.sql.js';

/** Gives a cell its range. Projects keep the ids that they have. BAD_USER_INPUT. */
export function setProjectIds(db: Database, first: number, last: number): Promise<cells.ProjectIds> {
  const isRange = [first, last].every(Number.isSafeInteger) && first >= 1 && first < last && last <= LAST_PROJECT_ID;
  if (!isRange)
    throw new AppError(
      'BAD_USER_INPUT',
      `A range of project ids is two numbers from 1 to ${LAST_PROJECT_ID}, such as 1-1000000, the smaller one first.`,
    );
  return db.transaction('READ COMMITTED', (tx) => cells.setProjectIds(tx, first, last));
}

/** The first version in which roles other than superusers may subscribe. */
const VERSION_OF_SUBSCRIBERS = 160_000;

/** What the roles of both databases lack, in sentences with the statements that grant it. */
async function findLackingRights(source: Database, target: Database): Promise<string[]> {
  const [from, to] = [await cells.readCellRights(source), await cells.readCellRights(target)];
  const [mover, subscriber] = [from.isOwner ? from.role : from.owner, to.isOwner ? to.role : to.owner];
  const ofSource = [
    !from.isOwner &&
      `The role ${from.role} does not own the tables of the source. Run the command as ${from.owner}, which does.`,
    !from.mayCreate && `In the source, run as a superuser: GRANT CREATE ON DATABASE ${from.database} TO ${mover};`,
    !from.mayReplicate && `In the source, run as a superuser: ALTER ROLE ${mover} REPLICATION;`,
  ];
  const needsSuperuser = !to.maySubscribe && to.version < VERSION_OF_SUBSCRIBERS;
  const ofTarget = needsSuperuser
    ? [`The role ${to.role} may not subscribe: before PostgreSQL 16 only a superuser may. Name one in --to.`]
    : [
        !to.isOwner &&
          `The role ${to.role} does not own the tables of the target. Name ${to.owner} in --to, which does.`,
        !to.maySubscribe && `In the target, run as a superuser: GRANT pg_create_subscription TO ${subscriber};`,
        !to.mayCreate && `In the target, run as a superuser: GRANT CREATE ON DATABASE ${to.database} TO ${subscriber};`,
      ];
  return [...ofSource, ...ofTarget].filter((sentence) => sentence !== false);
}

/** For how long the target may try to connect to the source. */
const PROBE_WAIT_MS = 15_000;
const PROBED = new Error('The subscription was only tried.');

/** What keeps the target from subscribing to the source by the URL `from`, in sentences. Leaves nothing behind. */
async function findDeadEnds(source: Database, target: Database, projectId: number, from: string): Promise<string[]> {
  let isFound = false;
  // An earlier run may have been killed.
  await cells.dropProbe(source, projectId);
  await cells.createProbe(source, projectId);
  try {
    await target.transaction('READ COMMITTED', async (tx) => {
      isFound = await cells.findProbe(tx, projectId, from, PROBE_WAIT_MS);
      throw PROBED;
    });
  } catch (error) {
    if (error !== PROBED)
      return [
        `The target cannot subscribe to the source: ${(error as Error).message.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '')}. --from says how it connects, and as whom.`,
      ];
  } finally {
    await cells.dropProbe(source, projectId);
  }
  if (isFound) return [];
  return ['For the target, the address of the source leads to another database. Name the right one in --from.'];
}

/** What keeps a project from moving from one database to another, in sentences. */
async function findObstacles(source: Database, target: Database, projectId: number, tables: readonly sql.MovedTable[]) {
  const lacking = await findLackingRights(source, target);
  // Without the rights, the rest cannot be read.
  if (lacking.length > 0) return lacking;
  const [from, to] = [await cells.readCellFacts(source), await cells.readCellFacts(target)];
  const unfiltered = tables.filter(({ isFiltered }) => !isFiltered).map(({ name }) => name);
  const obstacles = [
    from.walLevel !== 'logical' &&
      `The source has wal_level=${from.walLevel}. Set wal_level=logical and restart its PostgreSQL.`,
    (from.freeSlots < REPLICATION_NEEDS || from.freeSenders < REPLICATION_NEEDS) &&
      `The source has ${from.freeSlots} free replication slots and ${from.freeSenders} free senders, and a move needs ${REPLICATION_NEEDS}. Raise max_replication_slots and max_wal_senders.`,
    to.freeWorkers < 2 &&
      `The target has ${to.freeWorkers} free workers of logical replication, and a move needs 2. Raise max_logical_replication_workers.`,
    (from.version < OLDEST_VERSION || to.version < OLDEST_VERSION) &&
      'Both need PostgreSQL 15 or newer, which can replicate some rows of a table.',
    from.migrations.join() !== to.migrations.join() &&
      `The two databases have different migrations. Run ${COMMAND} migrate of the same version on both.`,
    from.firstId <= to.lastId &&
      to.firstId <= from.lastId &&
      `Both databases draw ids of new projects from one range: the source from ${from.firstId} to ${from.lastId}, the target from ${to.firstId} to ${to.lastId}. Give each its own: userdir project ids --range 1000001-2000000.`,
    to.drawnId < projectId &&
      projectId <= to.lastId &&
      projectId >= to.firstId &&
      `The target will give the id ${projectId} of this project to a new one. Give it another range: ${COMMAND} project ids --range 1000001-2000000.`,
    unfiltered.length > 0 &&
      `Rows of ${unfiltered.join(', ')} cannot be told by project: their replica identity lacks project_id.`,
  ];
  return obstacles.filter((sentence) => sentence !== false);
}

/** The move of a project in both databases, if it has begun. CONFLICT where it is on its way to or from another database than these two. */
export async function findMove(source: Database, target: Database, projectId: number) {
  const [here, there] = [await cells.identify(source), await cells.identify(target)];
  if (here === there) throw conflict('The target is the database in which the project is.');
  const [atSource, atTarget] = [await readMove(source, projectId), await readMove(target, projectId)];
  if (atSource !== null && (atSource.step === 'arriving' || atSource.other !== there))
    throw conflict('The project is on its way to or from another database. End that move first.');
  if (atTarget !== null && atTarget.other !== here)
    throw conflict('The target is getting a project with this id from another database.');
  return { atSource, atTarget };
}

/** Throws CONFLICT with everything that keeps a project from moving between two databases. Returns how far it has come. */
export async function requireMovable(move: Move): Promise<MoveRow | null> {
  const { source, target, projectId, appId, from, tables } = move;
  const { atSource, atTarget } = await findMove(source, target, projectId);
  if (atTarget?.step === 'leaving')
    throw conflict('The move of this project is being undone. Run with --abort to end that.');
  // What the move has made says nothing against it.
  if (atSource !== null) return atSource;
  const obstacles = await findObstacles(source, target, projectId, tables);
  if (atTarget !== null)
    obstacles.push('The target has the rest of an earlier move of this project. Run with --abort.');
  else if (await sql.hasProject(target, projectId, appId))
    obstacles.push(`The target has a project with the id ${projectId} or this App ID already.`);
  if (obstacles.length === 0) obstacles.push(...(await findDeadEnds(source, target, projectId, from)));
  if (obstacles.length > 0) throw conflict(obstacles.join(' '));
  return null;
}

function conflict(message: string): AppError {
  return new AppError('CONFLICT', message);
}
