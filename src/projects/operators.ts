import type { Database } from '../db/database.js';
import { type BegunSession, type Operator, requirePermission } from '../domain/operators.js';
import { AppError, COMMAND, show } from '../errors.js';
import {
  createOperatorEdits,
  insertOperator,
  listAllOperators,
  noSuchOperator,
  type OperatorEdits,
  requireName,
} from './operator-edits.js';
import { createOperatorLog, logActor, type OperatorLog } from './operator-log.js';
import { createOperatorSessions, makeToken, type OperatorSessions } from './operator-sessions.js';
import * as sql from './operators.sql.js';

/** The people who use the dashboard: who they are, how they log in, their sessions, and the log of all that. */
export interface Operators extends OperatorEdits, OperatorSessions, OperatorLog {
  /** A token that logs an operator in, once, within ten minutes. FORBIDDEN; BAD_USER_INPUT; NOT_FOUND. */
  createLink(by: Operator, name: string, requestId?: string | null): Promise<Link>;
  /** A link for who asks for it. The first operator of all is added as admin, so the first start needs no other command. FORBIDDEN; NOT_FOUND. */
  createFirstLink(by: Operator, requestId?: string | null): Promise<Link>;
}

/** A link to log in: its token is known here only. */
export type Link = Omit<BegunSession, 'operator'>;

export function createOperators(db: Database, randomBytes: (size: number) => Buffer): Operators {
  async function createLink(by: Operator, name: string, requestId: string | null = null): Promise<Link> {
    const parsed = requireName(by, name);
    const { token, tokenHash } = makeToken(randomBytes);
    const expiresAt = await sql.insertLink(db, logActor(by, requestId), parsed, tokenHash);
    if (expiresAt === undefined) throw noSuchOperator(parsed);
    return { token, expiresAt };
  }

  return {
    ...createOperatorEdits(db),
    ...createOperatorSessions(db, randomBytes),
    ...createOperatorLog(db),
    createLink,

    async createFirstLink(by, requestId = null) {
      requirePermission(by, 'govern');
      await insertOperator(db, logActor(by, requestId), { name: by.name, role: 'admin', onlyAsFirst: true });
      const names = (await listAllOperators(db)).map(({ name }) => name);
      if (names.includes(by.name)) return createLink(by, by.name, requestId);
      throw new AppError(
        'NOT_FOUND',
        `There is no operator ${show(by.name)}. Name one of ${names.slice(0, 20).join(', ')} by --operator, or add one: ${COMMAND} operator add NAME --role admin`,
      );
    },
  };
}
