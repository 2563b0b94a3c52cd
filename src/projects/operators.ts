import { hash } from 'node:crypto';
import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { isUniqueViolation } from '../db/failures.js';
import type { OperatorLogEntry as OperatorLogEntryModel, Prisma } from '../db/generated/prisma/client.js';
import type { ModelTransaction, Queryable } from '../db/statements.js';
import {
  type ActiveSession,
  type BegunSession,
  type KnownOperator,
  MAX_PROJECTS,
  MAX_USER_AGENT,
  type Operator,
  type OperatorAction,
  type OperatorLogEntry,
  type OperatorRole,
  type OperatorSession,
  operatorName,
  permissionsOf,
  RefusedLogIn,
  requirePermission,
} from '../domain/operators.js';
import { LARGEST_ID, parse } from '../domain/parse.js';
import { noProject } from '../domain/projects.js';
import { AppError, COMMAND, show } from '../errors.js';
import * as sql from './operators.sql.js';
import { actorNameOf } from './projects.js';

export type Operators = ReturnType<typeof createOperators>;

/** A link to log in: its token is known here only. */
type Link = Omit<BegunSession, 'operator'>;

/** A person of the single sign-on: `subject` is theirs for ever. */
export interface Subject {
  readonly subject: string;
  /** The name of a new operator (`operatorName`), who keeps it. Throws BAD_USER_INPUT if the provider gives none. */
  readonly name: () => string;
  readonly role: OperatorRole;
}

interface NewOperator extends Pick<Operator, 'name' | 'role'> {
  readonly subject?: string;
  readonly onlyAsFirst?: boolean;
  readonly appIds?: readonly string[] | null;
}

/** Changes of an operator; an absent field stays. */
export interface OperatorChanges {
  readonly name?: string | undefined;
  readonly role?: OperatorRole | undefined;
  /** The projects to which they are limited; null: all projects are theirs. */
  readonly appIds?: readonly string[] | null | undefined;
}

const nameArgument = operatorName('name');

/** The name of an operator, for one who may change them. FORBIDDEN, BAD_USER_INPUT. */
function requireName(by: Operator, name: string): string {
  requirePermission(by, 'govern');
  return parse(nameArgument, name);
}

/** With the projects to which an operator is limited. */
const WITH_PROJECTS = {
  projects: { select: { project: { select: { appId: true, name: true } } }, orderBy: { project: { id: 'asc' } } },
} as const satisfies Prisma.OperatorInclude;

type OperatorModel = Prisma.OperatorGetPayload<{ include: typeof WITH_PROJECTS }>;

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

function toLogEntry({ id, at, actor, requestId, action, details }: OperatorLogEntryModel): OperatorLogEntry {
  return {
    id: Number(id),
    at: at.toISOString(),
    actor,
    requestId,
    action: action as OperatorAction,
    details: details as Record<string, unknown>,
  };
}

const TOKEN_BYTES = 32;
const TOKEN = /^[\w-]{43}$/;

/** A token of 256 random bits. */
export function makeToken(randomBytes: (size: number) => Buffer): string {
  return randomBytes(TOKEN_BYTES).toString('base64url');
}

export const isToken = (text: unknown): text is string => typeof text === 'string' && TOKEN.test(text);

/** SHA-256 of a token, the only form in which it is stored; null for a text that is no token. */
export function hashToken(token: unknown): Buffer<ArrayBuffer> | null {
  return isToken(token) ? (hash('sha256', token, 'buffer') as Buffer<ArrayBuffer>) : null;
}

/** Options of a look at a session. */
export interface SessionQuestion {
  /** The transaction that asks. */
  readonly tx?: Queryable;
  /** True, as by default, if it keeps the session from becoming idle. */
  readonly isUse?: boolean;
}

/** The people who use the dashboard: who they are, how they log in, their sessions, and the log of all that. */
export function createOperators(db: Database, randomBytes: (size: number) => Buffer) {
  const logActor = (by: Pick<Operator, 'name'>, requestId: string | null) => ({ actor: actorNameOf(by), requestId });
  const ownerOf = createBatchedRead({
    name: 'sessions',
    read: (tokenHashes: readonly string[]) => sql.findOwners(db, tokenHashes),
    answer: ([row]) => row?.operatorId ?? null,
  });
  const noSuchOperator = (name: string) => new AppError('NOT_FOUND', `There is no operator ${show(name)}.`);
  const nameIsTaken = (name: string) => new AppError('CONFLICT', `There is an operator ${show(name)} already.`);

  const record = (tx: ModelTransaction, by: sql.LogActor, action: OperatorAction, details: Prisma.InputJsonObject) =>
    tx.operatorLogEntry.create({ data: { ...by, action, details } });

  /** Adds an operator; undefined if there is one of this name or subject. With `onlyAsFirst`, undefined if there is any. */
  async function add(by: sql.LogActor, { name, role, subject, appIds = null, onlyAsFirst = false }: NewOperator) {
    return db.change(async (tx) => {
      if (onlyAsFirst && (await tx.operator.count()) > 0) return undefined;
      const [added] = await tx.operator.createManyAndReturn({
        data: { name, role, subject: subject ?? null, isLimited: appIds !== null },
        skipDuplicates: true,
      });
      if (added === undefined) return undefined;
      await limit(tx, added.id, appIds);
      const details = {
        ...(subject !== undefined && { by: 'sso' }),
        ...(appIds !== null && { projects: [...appIds] }),
      };
      await record(tx, by, 'add_operator', { operator: name, role, ...details });
      return find(tx, added.id);
    });
  }

  /** Makes some projects, or all (null), those of an operator. BAD_USER_INPUT; NOT_FOUND if there is no such project. */
  async function limit(tx: ModelTransaction, operatorId: number, appIds: readonly string[] | null): Promise<void> {
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

  const find = async (tx: ModelTransaction, id: number): Promise<KnownOperator> =>
    toOperator(await tx.operator.findUniqueOrThrow({ where: { id }, include: WITH_PROJECTS }));

  const listAll = () =>
    db
      .models(({ operator }) => operator.findMany({ orderBy: { name: 'asc' }, include: WITH_PROJECTS }))
      .then((all) => all.map(toOperator));

  /** The name whose sessions an operator may see and end: their own, or those of all (null). */
  const sessionsOf = (by: Operator) => (permissionsOf(by).includes('govern') ? null : by.name);

  /** Ends a session of an operator, or of any (null); false if there is no such session. */
  async function endSession(by: sql.LogActor, action: 'log_out' | 'revoke_session', id: number, of: string | null) {
    return db.change(async (tx) => {
      const where = { id, ...(of !== null && { operator: { name: of } }) };
      const session = await tx.operatorSession.findFirst({ where, select: { operator: { select: { name: true } } } });
      if (session === null || (await tx.operatorSession.deleteMany({ where })).count === 0) return false;
      await record(tx, by, action, { session: id, operator: session.operator.name });
      return true;
    });
  }

  const listLog = (query: Prisma.OperatorLogEntryFindManyArgs) =>
    db.models(({ operatorLogEntry }) => operatorLogEntry.findMany(query)).then((entries) => entries.map(toLogEntry));

  /** Begins a session; null if the log-in is not valid. */
  async function begin(logIn: sql.LogIn, { userAgent, requestId }: sql.SessionOrigin): Promise<BegunSession | null> {
    const token = makeToken(randomBytes);
    const begun = await sql.insertSession(db, logIn, {
      tokenHash: hashToken(token) as Buffer<ArrayBuffer>,
      userAgent: userAgent.slice(0, MAX_USER_AGENT),
      requestId,
    });
    return begun === undefined ? null : { token, ...begun };
  }

  /** Why a link is refused, for the log. */
  async function whyRefused(tokenHash: Buffer<ArrayBuffer>): Promise<RefusedLogIn['details']> {
    const where = { tokenHash };
    const late = await db.models(({ loginLink }) => loginLink.findFirst({ where, include: { operator: true } }));
    if (late === null) return { by: 'link', reason: 'the link was used before, is long over, or is not known' };
    return { by: 'link', operator: late.operator.name, reason: 'the link is over: it works for ten minutes' };
  }

  /** A token that logs an operator in, once, within ten minutes. NOT_FOUND. */
  async function createLink(by: Operator, name: string, requestId: string | null = null): Promise<Link> {
    const parsed = requireName(by, name);
    const token = makeToken(randomBytes);
    const expiresAt = await sql.insertLink(
      db,
      logActor(by, requestId),
      parsed,
      hashToken(token) as Buffer<ArrayBuffer>,
    );
    if (expiresAt === undefined) throw noSuchOperator(parsed);
    return { token, expiresAt };
  }

  return {
    async listOperators(by: Operator): Promise<KnownOperator[]> {
      requirePermission(by, 'govern');
      return listAll();
    },

    /** Adds an operator, limited to some projects unless `appIds` is null. BAD_USER_INPUT; NOT_FOUND; CONFLICT if there is an operator of this name. */
    async addOperator(
      by: Operator,
      name: string,
      role: OperatorRole,
      {
        appIds = null,
        requestId = null,
      }: Pick<OperatorChanges, 'appIds'> & { readonly requestId?: string | null } = {},
    ) {
      const added = await add(logActor(by, requestId), { name: requireName(by, name), role, appIds });
      if (added === undefined) throw nameIsTaken(name);
      return added;
    },

    /** Changes an operator, from their next request on. NOT_FOUND; BAD_USER_INPUT; CONFLICT if another operator has the name. */
    async updateOperator(by: Operator, name: string, changes: OperatorChanges, requestId: string | null = null) {
      const parsed = requireName(by, name);
      const { role, appIds } = changes;
      const newName = changes.name === undefined ? undefined : parse(nameArgument, changes.name);
      const data = {
        ...(newName !== undefined && { name: newName }),
        ...(role !== undefined && { role }),
        ...(appIds !== undefined && { isLimited: appIds !== null }),
      };
      if (Object.keys(data).length === 0)
        throw new AppError('BAD_USER_INPUT', 'Nothing is to be changed: give a role, a name or projects.');
      const change = db.change(async (tx) => {
        const [changed] = await tx.operator.updateManyAndReturn({ where: { name: parsed }, data });
        if (changed === undefined) throw noSuchOperator(parsed);
        if (appIds !== undefined) await limit(tx, changed.id, appIds);
        await record(tx, logActor(by, requestId), 'update_operator', {
          operator: parsed,
          ...(newName !== undefined && { name: newName }),
          ...(role !== undefined && { role }),
          ...(appIds !== undefined && { projects: appIds === null ? 'all' : [...appIds] }),
        });
        return find(tx, changed.id);
      });
      return change.catch((error) => {
        throw newName !== undefined && isUniqueViolation(error) ? nameIsTaken(newName) : error;
      });
    },

    /** Removes an operator, whose sessions, links and passkeys end at once. NOT_FOUND. */
    async removeOperator(by: Operator, name: string, requestId: string | null = null): Promise<void> {
      const parsed = requireName(by, name);
      await db.change(async (tx) => {
        const { count } = await tx.operator.deleteMany({ where: { name: parsed } });
        if (count === 0) throw noSuchOperator(parsed);
        await record(tx, logActor(by, requestId), 'remove_operator', { operator: parsed });
      });
    },

    createLink,
    begin,

    /** A link for who asks for it. The first operator of all is added as admin, so the first start needs no other command. NOT_FOUND. */
    async createFirstLink(by: Operator, requestId: string | null = null): Promise<Link> {
      requirePermission(by, 'govern');
      await add(logActor(by, requestId), { name: by.name, role: 'admin', onlyAsFirst: true });
      const names = (await listAll()).map(({ name }) => name);
      if (names.includes(by.name)) return createLink(by, by.name, requestId);
      throw new AppError(
        'NOT_FOUND',
        `There is no operator ${show(by.name)}. Name one of ${names.slice(0, 20).join(', ')} by --operator, or add one: ${COMMAND} operator add NAME --role admin`,
      );
    },

    /** Begins a session by a link, which is used up. UNAUTHENTICATED if it is used, late or unknown, with the same message. */
    async logIn(token: unknown, caller: sql.SessionOrigin): Promise<BegunSession> {
      const linkHash = hashToken(token);
      const session = linkHash && (await begin({ linkHash }, caller));
      if (session) return session;
      const details = linkHash ? await whyRefused(linkHash) : { reason: 'this is no link of the service' };
      throw new RefusedLogIn('This link is no longer valid: it works once, within ten minutes.', details);
    },

    /** Begins a session for a person of the single sign-on. BAD_USER_INPUT; CONFLICT if the name belongs to another operator. */
    async logInSubject({ subject, name, role }: Subject, caller: sql.SessionOrigin): Promise<BegunSession> {
      let operator = await db.change(async (tx) => {
        const where = { subject, role: { not: role } };
        for (const changed of await tx.operator.updateManyAndReturn({ where, data: { role } }))
          await record(tx, logActor(changed, caller.requestId), 'set_role', {
            operator: changed.name,
            role,
            by: 'sso',
          });
        return (await tx.operator.findUnique({ where: { subject } }))?.name;
      });
      if (operator === undefined) {
        const added = { name: name(), role, subject };
        operator = (await add(logActor(added, caller.requestId), added))?.name;
        if (operator === undefined)
          throw new AppError(
            'CONFLICT',
            `The name ${show(added.name)} belongs to another operator. Remove that one first.`,
          );
      }
      await caller.admit?.(operator);
      const session = await begin({ name: operator }, caller);
      if (session) return session;
      throw new AppError('UNAUTHENTICATED', `The operator ${show(operator)} was removed in this moment.`);
    },

    /** The part of a session's token to remember; null for no token. */
    keyOf: (token: unknown): string | null => hashToken(token)?.toString('hex') ?? null,

    /** The id of the operator whose active session has the token of a key; null if there is none. Many share a statement. */
    findOwner: ownerOf,

    /** The active session of a token, also as a transaction sees it; null for any other. Its use, if it is one, is recorded. */
    async findSession(token: unknown, { tx = db, isUse = true }: SessionQuestion = {}): Promise<ActiveSession | null> {
      const tokenHash = hashToken(token);
      return (tokenHash && (await sql.useSession(tx, tokenHash, isUse))) ?? null;
    },

    /** The operator of a session, which may have ended, as a transaction sees them now. FORBIDDEN if they were removed. */
    async findAgain({ operator, operatorId }: ActiveSession, tx: Queryable): Promise<Operator> {
      const current = await sql.findOperator(tx, operatorId);
      if (current !== undefined) return current;
      throw new AppError('FORBIDDEN', `The operator ${show(operator)} has been removed.`);
    },

    /** The active sessions that an operator may see: their own, or for an admin of all projects all. */
    listSessions(by: Operator): Promise<OperatorSession[]> {
      return sql.listSessions(db, sessionsOf(by));
    },

    /** Ends a session: one's own, or for an admin of all projects any. NOT_FOUND. */
    async revokeSession(by: Operator, id: number, requestId: string | null): Promise<void> {
      if (!(await endSession(logActor(by, requestId), 'revoke_session', id, sessionsOf(by))))
        throw new AppError('NOT_FOUND', `There is no session ${id}.`);
    },

    async logOut({ id, operator: name }: ActiveSession, requestId: string | null): Promise<void> {
      await endSession(logActor({ name }, requestId), 'log_out', id, name);
    },

    /** Records what an operator was refused beside the projects. */
    async recordRefusal(by: Operator, requestId: string | null, refused: string): Promise<void> {
      await db.models((tx) => record(tx, logActor(by, requestId), 'refuse', { refused, role: by.role }));
    },

    /** Records that a sign-in was refused, and of whom and why as far as that is known. */
    async recordRefusedLogIn(requestId: string | null, details: RefusedLogIn['details'] = {}): Promise<void> {
      await db.models((tx) => record(tx, { actor: 'unknown', requestId }, 'refuse', { refused: 'log_in', ...details }));
    },

    /** The log of what was done beside the projects, newest first, before the entry `before`. FORBIDDEN. */
    async listLog(by: Operator, before: number | null, limit: number): Promise<OperatorLogEntry[]> {
      requirePermission(by, 'govern');
      return listLog({ where: { id: { lt: before ?? LARGEST_ID } }, orderBy: { id: 'desc' }, take: limit });
    },

    /** The entry of the log before the newest `limit` ones; 0 if there are no more. FORBIDDEN. */
    async findLogStart(by: Operator, limit: number): Promise<number> {
      requirePermission(by, 'govern');
      const [entry] = await listLog({ orderBy: { id: 'desc' }, skip: limit, take: 1 });
      return entry?.id ?? 0;
    },

    /** The next entries of the log after the entry `after`, oldest first. FORBIDDEN. */
    async listLogAfter(by: Operator, after: number, limit: number): Promise<OperatorLogEntry[]> {
      requirePermission(by, 'govern');
      return listLog({ where: { id: { gt: after } }, orderBy: { id: 'asc' }, take: limit });
    },
  };
}
