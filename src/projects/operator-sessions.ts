import { hash } from 'node:crypto';
import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import { LINK_MS } from '../domain/bounds.js';
import { inWords } from '../domain/figures.js';
import {
  type ActiveSession,
  type BegunSession,
  MAX_USER_AGENT,
  type Operator,
  type OperatorRole,
  type OperatorSession,
  permissionsOf,
  RefusedLogIn,
} from '../domain/operators.js';
import { AppError, show } from '../errors.js';
import { insertOperator } from './operator-edits.js';
import { logActor, record } from './operator-log.js';
import * as sql from './operators.sql.js';

/** How operators log in, and their sessions. */
export interface OperatorSessions {
  /** Begins a session by a link, which is used up. UNAUTHENTICATED if it is used, late or unknown, with the same message. */
  logIn(token: unknown, caller: sql.SessionOrigin): Promise<BegunSession>;
  /** Begins a session for a person of the single sign-on. BAD_USER_INPUT; CONFLICT if the name belongs to another operator. */
  logInSubject(person: Subject, caller: sql.SessionOrigin): Promise<BegunSession>;
  /** Begins a session; null if the log-in is not valid. */
  begin(logIn: sql.LogIn, caller: sql.SessionOrigin): Promise<BegunSession | null>;
  /** The part of a session's token to remember; null for no token. */
  keyOf(token: unknown): string | null;
  /** The id of the operator whose active session has the token of a key; null if there is none. Many share a statement. */
  findOwner(key: string): Promise<number | null>;
  /** The active session of a token, also as a transaction sees it; null for any other. Its use, if it is one, is recorded. */
  findSession(token: unknown, question?: SessionQuestion): Promise<ActiveSession | null>;
  /** The operator of a session, which may have ended, as a transaction sees them now. FORBIDDEN if they were removed. */
  findAgain(session: ActiveSession, tx: Queryable): Promise<Operator>;
  /** The active sessions that an operator may see: their own, or for an admin of all projects all. */
  listSessions(by: Operator): Promise<OperatorSession[]>;
  /** Ends a session: one's own, or for an admin of all projects any. NOT_FOUND. */
  revokeSession(by: Operator, id: number, requestId: string | null): Promise<void>;
  /** Ends the session that asks for it. */
  logOut(session: ActiveSession, requestId: string | null): Promise<void>;
}

/** A person of the single sign-on: `subject` is theirs for ever. */
export interface Subject {
  readonly subject: string;
  /** The name of a new operator (`operatorName`), who keeps it. Throws BAD_USER_INPUT if the provider gives none. */
  readonly name: () => string;
  readonly role: OperatorRole;
}

/** Options of a look at a session. */
export interface SessionQuestion {
  /** The transaction that asks. */
  readonly tx?: Queryable;
  /** True, as by default, if it keeps the session from becoming idle. */
  readonly isUse?: boolean;
}

export function createOperatorSessions(db: Database, randomBytes: (size: number) => Buffer): OperatorSessions {
  const findOwner = createBatchedRead({
    name: 'sessions',
    read: (tokenHashes: readonly string[]) => sql.findOwners(db, tokenHashes),
    answer: ([row]) => row?.operatorId ?? null,
  });

  async function begin(logIn: sql.LogIn, { userAgent, requestId }: sql.SessionOrigin): Promise<BegunSession | null> {
    const { token, tokenHash } = makeToken(randomBytes);
    const begun = await sql.insertSession(db, logIn, {
      tokenHash,
      userAgent: userAgent.slice(0, MAX_USER_AGENT),
      requestId,
    });
    return begun === undefined ? null : { token, ...begun };
  }

  return {
    begin,
    findOwner,
    keyOf: (token) => hashToken(token)?.toString('hex') ?? null,

    async logIn(token, caller) {
      const linkHash = hashToken(token);
      const session = linkHash && (await begin({ linkHash }, caller));
      if (session) return session;
      const details = linkHash ? await whyRefused(db, linkHash) : { reason: 'this is no link of the service' };
      throw new RefusedLogIn(`This link is no longer valid: it works once, within ${inWords(LINK_MS)}.`, details);
    },

    async logInSubject(person, caller) {
      const name =
        (await findSubject(db, person, caller.requestId)) ?? (await addSubject(db, person, caller.requestId));
      await caller.admit?.(name);
      const session = await begin({ name }, caller);
      if (session) return session;
      throw new AppError('UNAUTHENTICATED', `The operator ${show(name)} was removed in this moment.`);
    },

    async findSession(token, { tx = db, isUse = true } = {}) {
      const tokenHash = hashToken(token);
      return (tokenHash && (await sql.useSession(tx, tokenHash, isUse))) ?? null;
    },

    async findAgain({ operator, operatorId }, tx) {
      const current = await sql.findOperator(tx, operatorId);
      if (current !== undefined) return current;
      throw new AppError('FORBIDDEN', `The operator ${show(operator)} has been removed.`);
    },

    listSessions: (by) => sql.listSessions(db, sessionsOf(by)),

    async revokeSession(by, id, requestId) {
      const isEnded = await endSession(db, logActor(by, requestId), 'revoke_session', { id, of: sessionsOf(by) });
      if (!isEnded) throw new AppError('NOT_FOUND', `There is no session ${id}.`);
    },

    async logOut({ id, operator: name }, requestId) {
      await endSession(db, logActor({ name }, requestId), 'log_out', { id, of: name });
    },
  };
}

const TOKEN_BYTES = 32;
const TOKEN = /^[\w-]{43}$/;

/** A token of 256 random bits, and its hash. */
export function makeToken(randomBytes: (size: number) => Buffer): { token: string; tokenHash: Buffer<ArrayBuffer> } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, tokenHash: hashText(token) };
}

export const isToken = (text: unknown): text is string => typeof text === 'string' && TOKEN.test(text);

/** SHA-256 of a token, the only form in which it is stored; null for a text that is no token. */
export function hashToken(token: unknown): Buffer<ArrayBuffer> | null {
  return isToken(token) ? hashText(token) : null;
}

const hashText = (text: string) => hash('sha256', text, 'buffer') as Buffer<ArrayBuffer>;

/** Why a link is refused, for the log. */
async function whyRefused(db: Database, tokenHash: Buffer<ArrayBuffer>): Promise<RefusedLogIn['details']> {
  const where = { tokenHash };
  const late = await db.models(({ loginLink }) => loginLink.findFirst({ where, include: { operator: true } }));
  if (late === null) return { by: 'link', reason: 'the link was used before, is long over, or is not known' };
  return { by: 'link', operator: late.operator.name, reason: `the link is over: it works for ${inWords(LINK_MS)}` };
}

/** The name of the operator who is this person of the single sign-on, with the role of now; undefined if there is none. */
function findSubject(db: Database, { subject, role }: Subject, requestId: string | null): Promise<string | undefined> {
  return db.change(async (tx) => {
    const where = { subject, role: { not: role } };
    for (const changed of await tx.operator.updateManyAndReturn({ where, data: { role } }))
      await record(tx, logActor(changed, requestId), 'set_role', { operator: changed.name, role, by: 'sso' });
    return (await tx.operator.findUnique({ where: { subject } }))?.name;
  });
}

/** Adds the operator who is this person of the single sign-on, and returns their name. BAD_USER_INPUT; CONFLICT if the name belongs to another operator. */
async function addSubject(db: Database, { subject, name, role }: Subject, requestId: string | null): Promise<string> {
  const operator = { name: name(), role, subject };
  const added = await insertOperator(db, logActor(operator, requestId), operator);
  if (added !== undefined) return added.name;
  throw new AppError('CONFLICT', `The name ${show(operator.name)} belongs to another operator. Remove that one first.`);
}

/** The name whose sessions an operator may see and end: their own, or those of all (null). */
const sessionsOf = (by: Operator) => (permissionsOf(by).includes('govern') ? null : by.name);

/** Ends a session of an operator, or of any (null); false if there is no such session. */
function endSession(
  db: Database,
  by: sql.LogActor,
  action: 'log_out' | 'revoke_session',
  { id, of }: { readonly id: number; readonly of: string | null },
): Promise<boolean> {
  return db.change(async (tx) => {
    const where = { id, ...(of !== null && { operator: { name: of } }) };
    const session = await tx.operatorSession.findFirst({ where, select: { operator: { select: { name: true } } } });
    if (session === null || (await tx.operatorSession.deleteMany({ where })).count === 0) return false;
    await record(tx, by, action, { session: id, operator: session.operator.name });
    return true;
  });
}
