import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import { parse } from '../domain/filters.js';
import {
  type ActiveSession,
  actorNameOf,
  type BegunSession,
  hashToken,
  type KnownOperator,
  MAX_USER_AGENT,
  makeToken,
  type Operator,
  type OperatorLogEntry,
  type OperatorRole,
  type OperatorSession,
  operatorName,
  requirePermission,
} from '../domain/operators.js';
import type { Permission } from '../domain/projects.js';
import { AppError, show } from '../errors.js';
import {
  deleteOperator,
  deleteSession,
  findLogEntryBefore,
  findRole,
  insertLink,
  insertOperator,
  insertSession,
  type LogIn,
  listLogEntries,
  listLogEntriesAfter,
  listOperators,
  listSessions,
  recordRefusal,
  updateRole,
  updateSubject,
  useSession,
} from './operators.sql.js';

export type Operators = ReturnType<typeof createOperators>;

/** A link to log in: its token is known here only. */
export interface Link {
  readonly token: string;
  readonly expiresAt: string;
}

/** Where a session begins. */
export interface SessionCaller {
  readonly userAgent: string;
  readonly requestId: string | null;
}

/** A person of the single sign-on: `subject` is theirs for ever. */
export interface Subject {
  readonly subject: string;
  /** The name of a new operator (`operatorName`), who keeps it. Throws BAD_USER_INPUT if the provider gives none. */
  readonly name: () => string;
  readonly role: OperatorRole;
}

const nameArgument = operatorName('name');

/** The people who use the dashboard: who they are, how they log in, their sessions, and the log of all that. */
export function createOperators(db: Database, randomBytes: (size: number) => Buffer) {
  const logActor = (by: Operator, requestId: string | null) => ({ actor: actorNameOf(by), requestId });
  const noSuchOperator = (name: string) => new AppError('NOT_FOUND', `There is no operator ${show(name)}.`);

  async function begin(logIn: LogIn, { userAgent, requestId }: SessionCaller): Promise<BegunSession | null> {
    const token = makeToken(randomBytes);
    const tokenHash = hashToken(token) as Buffer<ArrayBuffer>;
    const begun = await insertSession(db, logIn, {
      tokenHash,
      userAgent: userAgent.slice(0, MAX_USER_AGENT),
      requestId,
    });
    return begun === undefined ? null : { token, ...begun };
  }

  /** A token that logs an operator in, once, within ten minutes. NOT_FOUND. */
  async function createLink(by: Operator, name: string, requestId: string | null = null): Promise<Link> {
    requirePermission(by, 'operate');
    const parsed = parse(nameArgument, name);
    const token = makeToken(randomBytes);
    const expiresAt = await insertLink(db, logActor(by, requestId), parsed, hashToken(token) as Buffer<ArrayBuffer>);
    if (expiresAt === undefined) throw noSuchOperator(parsed);
    return { token, expiresAt };
  }

  return {
    /** Every operator, by name. FORBIDDEN. */
    async listOperators(by: Operator): Promise<KnownOperator[]> {
      requirePermission(by, 'operate');
      return listOperators(db);
    },

    /** BAD_USER_INPUT; CONFLICT if there is an operator of this name. */
    async addOperator(
      by: Operator,
      name: string,
      role: OperatorRole,
      requestId: string | null = null,
    ): Promise<KnownOperator> {
      requirePermission(by, 'operate');
      const added = await insertOperator(db, logActor(by, requestId), { name: parse(nameArgument, name), role });
      if (added === undefined) throw new AppError('CONFLICT', `There is an operator ${show(name)} already.`);
      return added;
    },

    /** Gives an operator another role, from the next request on. NOT_FOUND. */
    async setRole(
      by: Operator,
      name: string,
      role: OperatorRole,
      requestId: string | null = null,
    ): Promise<KnownOperator> {
      requirePermission(by, 'operate');
      const parsed = parse(nameArgument, name);
      const changed = await updateRole(db, logActor(by, requestId), parsed, role);
      if (changed === undefined) throw noSuchOperator(parsed);
      return changed;
    },

    /** Removes an operator, whose sessions and links end at once. NOT_FOUND. */
    async removeOperator(by: Operator, name: string, requestId: string | null = null): Promise<void> {
      requirePermission(by, 'operate');
      const parsed = parse(nameArgument, name);
      if (!(await deleteOperator(db, logActor(by, requestId), parsed))) throw noSuchOperator(parsed);
    },

    createLink,

    /**
     * A link for the person who runs the command. Where there is no operator at all, they are added first, with the role admin:
     * so the first start needs no other command. NOT_FOUND.
     */
    async createFirstLink(by: Operator): Promise<Link> {
      requirePermission(by, 'operate');
      await insertOperator(db, logActor(by, null), { name: by.name, role: 'admin', onlyAsFirst: true });
      const names = (await listOperators(db)).map(({ name }) => name);
      if (names.includes(by.name)) return createLink(by, by.name);
      throw new AppError(
        'NOT_FOUND',
        `There is no operator ${show(by.name)}. Name one of ${names.slice(0, 20).join(', ')} by --operator, or add one: userdir operator add NAME --role admin`,
      );
    },

    /** Begins a session by a link, which is used up. UNAUTHENTICATED if it is used, late or unknown, with the same message. */
    async logIn(token: unknown, caller: SessionCaller): Promise<BegunSession> {
      const linkHash = hashToken(token);
      const session = linkHash && (await begin({ linkHash }, caller));
      if (session) return session;
      throw new AppError(
        'UNAUTHENTICATED',
        'This link is no longer valid: it works once, within ten minutes. Make another: userdir dashboard',
      );
    },

    /** Begins a session for a person of the single sign-on. BAD_USER_INPUT; CONFLICT if the name belongs to another operator. */
    async logInSubject({ subject, name, role }: Subject, caller: SessionCaller): Promise<BegunSession> {
      let known = await updateSubject(db, caller.requestId, subject, role);
      if (known === undefined) {
        const added = { name: name(), role, subject };
        known = (await insertOperator(db, logActor(added, caller.requestId), added))?.name;
        if (known === undefined)
          throw new AppError(
            'CONFLICT',
            `The name ${show(added.name)} belongs to another operator. Remove that one first.`,
          );
      }
      const session = await begin({ name: known }, caller);
      if (session) return session;
      throw new AppError('UNAUTHENTICATED', `The operator ${show(known)} was removed in this moment.`);
    },

    /** The active session of a token, also as a transaction sees it; null for any other. Its use is recorded. */
    async findSession(token: unknown, tx: Queryable = db): Promise<ActiveSession | null> {
      const tokenHash = hashToken(token);
      return (tokenHash && (await useSession(tx, tokenHash))) ?? null;
    },

    /** Refuses what an operator has begun and may no longer do, as a transaction sees it. Their session may have ended. FORBIDDEN. */
    async requireStill({ name }: Operator, permission: Permission, tx: Queryable): Promise<void> {
      const role = await findRole(tx, name);
      if (role === undefined) throw new AppError('FORBIDDEN', `The operator ${show(name)} has been removed.`);
      requirePermission({ name, role }, permission);
    },

    /** The active sessions that an operator may see: their own, or for an admin all. */
    listSessions(by: Operator): Promise<OperatorSession[]> {
      return listSessions(db, by.role === 'admin' ? null : by.name);
    },

    /** Ends a session: one's own, or for an admin any. NOT_FOUND. */
    async revokeSession(by: Operator, id: number, requestId: string | null): Promise<void> {
      const of = by.role === 'admin' ? null : by.name;
      const ended = await deleteSession(db, logActor(by, requestId), { id, of, action: 'revoke_session' });
      if (!ended) throw new AppError('NOT_FOUND', `There is no session ${id}.`);
    },

    /** Ends the session of a request. */
    async logOut({ id, operator, role }: ActiveSession, requestId: string | null): Promise<void> {
      const by = { name: operator, role };
      await deleteSession(db, logActor(by, requestId), { id, of: operator, action: 'log_out' });
    },

    /** Records what an operator was refused beside the projects. */
    async recordRefusal(by: Operator, requestId: string | null, refused: string): Promise<void> {
      await recordRefusal(db, logActor(by, requestId), { refused, role: by.role });
    },

    /** Records that a link was refused: it was used, late or unknown. */
    async recordRefusedLogIn(requestId: string | null): Promise<void> {
      await recordRefusal(db, { actor: 'unknown', requestId }, { refused: 'log_in' });
    },

    /** The log of what was done beside the projects, newest first, before the entry `before`. FORBIDDEN. */
    async listLog(by: Operator, before: number | null, limit: number): Promise<OperatorLogEntry[]> {
      requirePermission(by, 'operate');
      return listLogEntries(db, before, limit);
    },

    /** The entry of the log before the newest `limit` ones; 0 if there are no more. FORBIDDEN. */
    async findLogStart(by: Operator, limit: number): Promise<number> {
      requirePermission(by, 'operate');
      return findLogEntryBefore(db, limit);
    },

    /** The next entries of the log after the entry `after`, oldest first. FORBIDDEN. */
    async listLogAfter(by: Operator, after: number, limit: number): Promise<OperatorLogEntry[]> {
      requirePermission(by, 'operate');
      return listLogEntriesAfter(db, after, limit);
    },
  };
}
