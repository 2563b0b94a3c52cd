import type { Database } from '../db/database.js';
import { isUniqueViolation } from '../db/failures.js';
import type { Prisma } from '../db/generated/prisma/client.js';
import type { ModelTransaction } from '../db/statements.js';
import {
  type KnownOperator,
  MAX_PROJECTS,
  type Operator,
  type OperatorRole,
  operatorName,
  requirePermission,
} from '../domain/operators.js';
import { parse } from '../domain/parse.js';
import { noProject } from '../domain/projects.js';
import { AppError, show } from '../errors.js';
import { logActor, record } from './operator-log.js';
import type { LogActor } from './operators.sql.js';

/** Lists, adds, changes and removes operators, for an admin of all projects. Each edit has an entry in the log. */
export interface OperatorEdits {
  /** All operators by their names. FORBIDDEN. */
  listOperators(by: Operator): Promise<KnownOperator[]>;
  /** Adds an operator, limited to some projects unless `appIds` is null. FORBIDDEN; BAD_USER_INPUT; NOT_FOUND; CONFLICT if there is an operator of this name. */
  addOperator(by: Operator, name: string, role: OperatorRole, options?: AddOptions): Promise<KnownOperator>;
  /** Changes an operator, from their next request on. FORBIDDEN; NOT_FOUND; BAD_USER_INPUT; CONFLICT if another operator has the name. */
  updateOperator(
    by: Operator,
    name: string,
    changes: OperatorChanges,
    requestId?: string | null,
  ): Promise<KnownOperator>;
  /** Removes an operator, whose sessions, links and passkeys end at once. FORBIDDEN; NOT_FOUND. */
  removeOperator(by: Operator, name: string, requestId?: string | null): Promise<void>;
}

export interface AddOptions extends Pick<OperatorChanges, 'appIds'> {
  readonly requestId?: string | null;
}

/** Changes of an operator; an absent field stays. */
export interface OperatorChanges {
  readonly name?: string | undefined;
  readonly role?: OperatorRole | undefined;
  /** The projects to which they are limited; null: all projects are theirs. */
  readonly appIds?: readonly string[] | null | undefined;
}

export function createOperatorEdits(db: Database): OperatorEdits {
  return {
    async listOperators(by) {
      requirePermission(by, 'govern');
      return listAllOperators(db);
    },

    async addOperator(by, name, role, { appIds = null, requestId = null } = {}) {
      const added = await insertOperator(db, logActor(by, requestId), { name: requireName(by, name), role, appIds });
      if (added === undefined) throw nameIsTaken(name);
      return added;
    },

    async updateOperator(by, name, changes, requestId = null) {
      const parsed = requireName(by, name);
      const newName = changes.name === undefined ? undefined : parse(nameArgument, changes.name);
      if (newName === undefined && changes.role === undefined && changes.appIds === undefined)
        throw new AppError('BAD_USER_INPUT', 'Nothing is to be changed: give a role, a name or projects.');
      const actor = logActor(by, requestId);
      return db
        .change((tx) => changeOperator(tx, actor, parsed, { ...changes, name: newName }))
        .catch((error) => {
          throw newName !== undefined && isUniqueViolation(error) ? nameIsTaken(newName) : error;
        });
    },

    async removeOperator(by, name, requestId = null) {
      const parsed = requireName(by, name);
      await db.change(async (tx) => {
        const { count } = await tx.operator.deleteMany({ where: { name: parsed } });
        if (count === 0) throw noSuchOperator(parsed);
        await record(tx, logActor(by, requestId), 'remove_operator', { operator: parsed });
      });
    },
  };
}

const nameArgument = operatorName('name');

/** The name of an operator, for one who may change them. FORBIDDEN, BAD_USER_INPUT. */
export function requireName(by: Operator, name: string): string {
  requirePermission(by, 'govern');
  return parse(nameArgument, name);
}

export const noSuchOperator = (name: string) => new AppError('NOT_FOUND', `There is no operator ${show(name)}.`);
const nameIsTaken = (name: string) => new AppError('CONFLICT', `There is an operator ${show(name)} already.`);

export interface NewOperator extends Pick<Operator, 'name' | 'role'> {
  /** Of the single sign-on, for an operator who comes by it. */
  readonly subject?: string;
  /** True if they are added only where there is no operator yet. */
  readonly onlyAsFirst?: boolean;
  readonly appIds?: readonly string[] | null;
}

/** Adds an operator; undefined if there is one of this name or subject. With `onlyAsFirst`, undefined if there is any. */
export function insertOperator(
  db: Database,
  by: LogActor,
  { name, role, subject, appIds = null, onlyAsFirst = false }: NewOperator,
): Promise<KnownOperator | undefined> {
  return db.change(async (tx) => {
    if (onlyAsFirst && (await tx.operator.count()) > 0) return undefined;
    const [added] = await tx.operator.createManyAndReturn({
      data: { name, role, subject: subject ?? null, isLimited: appIds !== null },
      skipDuplicates: true,
    });
    if (added === undefined) return undefined;
    await limitOperator(tx, added.id, appIds);
    await record(tx, by, 'add_operator', {
      operator: name,
      role,
      ...(subject !== undefined && { by: 'sso' }),
      ...(appIds !== null && { projects: [...appIds] }),
    });
    return getOperator(tx, added.id);
  });
}

/** NOT_FOUND. */
async function changeOperator(
  tx: ModelTransaction,
  by: LogActor,
  name: string,
  { name: newName, role, appIds }: OperatorChanges,
): Promise<KnownOperator> {
  const data = {
    ...(newName !== undefined && { name: newName }),
    ...(role !== undefined && { role }),
    ...(appIds !== undefined && { isLimited: appIds !== null }),
  };
  const [changed] = await tx.operator.updateManyAndReturn({ where: { name }, data });
  if (changed === undefined) throw noSuchOperator(name);
  if (appIds !== undefined) await limitOperator(tx, changed.id, appIds);
  await record(tx, by, 'update_operator', {
    operator: name,
    ...(newName !== undefined && { name: newName }),
    ...(role !== undefined && { role }),
    ...(appIds !== undefined && { projects: appIds === null ? 'all' : [...appIds] }),
  });
  return getOperator(tx, changed.id);
}

/** Makes some projects, or all (null), those of an operator. BAD_USER_INPUT; NOT_FOUND if there is no such project. */
async function limitOperator(
  tx: ModelTransaction,
  operatorId: number,
  appIds: readonly string[] | null,
): Promise<void> {
  const missing = new Set(appIds);
  if (missing.size > MAX_PROJECTS)
    throw new AppError('BAD_USER_INPUT', `projects: got ${missing.size}, expected at most ${MAX_PROJECTS}.`);
  await tx.operatorProject.deleteMany({ where: { operatorId } });
  const projects = await tx.project.findMany({
    where: { appId: { in: [...missing] } },
    select: { id: true, appId: true },
  });
  for (const { appId } of projects) missing.delete(appId);
  for (const appId of missing) throw noProject(appId);
  await tx.operatorProject.createMany({ data: projects.map(({ id: projectId }) => ({ operatorId, projectId })) });
}

/** With the projects to which an operator is limited. */
const WITH_PROJECTS = {
  projects: { select: { project: { select: { appId: true, name: true } } }, orderBy: { project: { id: 'asc' } } },
} as const satisfies Prisma.OperatorInclude;

type OperatorModel = Prisma.OperatorGetPayload<{ include: typeof WITH_PROJECTS }>;

async function getOperator(tx: ModelTransaction, id: number): Promise<KnownOperator> {
  return toOperator(await tx.operator.findUniqueOrThrow({ where: { id }, include: WITH_PROJECTS }));
}

/** All operators by their names. */
export async function listAllOperators(db: Database): Promise<KnownOperator[]> {
  const operators = await db.models(({ operator }) =>
    operator.findMany({ orderBy: { name: 'asc' }, include: WITH_PROJECTS }),
  );
  return operators.map(toOperator);
}

function toOperator({ name, role, createdAt, lastSeenAt, subject, isLimited, projects }: OperatorModel): KnownOperator {
  return {
    name,
    role,
    projects: isLimited ? projects.map(({ project }) => project) : null,
    createdAt: createdAt.toISOString(),
    lastSeenAt: lastSeenAt?.toISOString() ?? null,
    source: subject === null ? 'added' : 'sso',
  };
}
