import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import { LARGEST_ID } from '../domain/parse.js';
import type { Actor, AuditAction, Permission, ProjectScope } from '../domain/projects.js';
import { noUser, type User } from '../domain/users.js';
import { afterwards } from '../errors.js';
import { recordAction } from '../projects/audit.sql.js';
import { type ChangeOptions, changeOnce, retryOf } from '../projects/idempotency.js';
import { describeUser } from './describe-users.sql.js';
import { findIdentities, lockUsers } from './identities.sql.js';
import { findRegistered } from './logins.sql.js';
import { throwLinkingError } from './user-columns.sql.js';

/** A change of users who are locked for it, in one transaction with its audit entry. */
export interface UserAct {
  readonly action: AuditAction;
  /** The users who are locked; the last one is returned. */
  readonly ids: readonly bigint[];
  /** What an operator needs; a secret needs the scope `write`. */
  readonly permission?: Permission;
  /** True if a user who was removed is as good. */
  readonly ofRemoved?: boolean;
  /** What else is done in the transaction; what it throws undoes all. */
  readonly andThen?: ((tx: Queryable) => Promise<void>) | undefined;
  /** The request beside the users, for the key; `name` where it is not the action. */
  readonly asked?: readonly unknown[];
  readonly name?: string;
}

/** Returns what its audit entry says; null for none, where it has changed nothing or has written its own. */
export type UserWork = (tx: Queryable, actor: Actor) => Promise<Readonly<Record<string, unknown>> | null>;

/** Does `work` in one transaction with its audit entry. NOT_FOUND; CONFLICT for an identity of another user. */
export type ActOnUsers = (scope: ProjectScope, act: UserAct, options: ChangeOptions, work: UserWork) => Promise<User>;

export function createActs(db: Database): ActOnUsers {
  return async (
    scope,
    { action, ids, name = action, asked = [], permission = 'edit', ofRemoved = false, andThen },
    { requestId = null, key = null },
    work,
  ) => {
    const actor = scope.actorFor('write', requestId, permission);
    const { projectId } = actor;
    const id = ids.at(-1) as bigint;
    // Operators see removed users.
    const isOperator = scope.permits('inspect');
    const missing = (wanted: bigint) =>
      noUser(wanted, ids.length === 1 ? undefined : [wanted === id ? 'into' : 'from']);
    for (const wanted of ids) if (wanted > LARGEST_ID) throw missing(wanted);
    const request = [name, ...ids.map(String), ...asked];
    await changeOnce(db.requestTransaction, projectId, retryOf(key, request), async (tx: Queryable) => {
      const locked = await lockUsers(tx, projectId, ids, ofRemoved ? 'any' : 'current');
      for (const wanted of ids) if (!locked.includes(wanted)) throw missing(wanted);
      const details = await work(tx, actor);
      if (details !== null) await recordAction(tx, actor, action, details, id);
      await andThen?.(tx);
      return null;
    }).catch(throwLinkingError);
    const user = await afterwards<User | null>(
      isOperator ? describeUser(db, projectId, id) : findRegistered(db, projectId, Number(id)),
    );
    if (user === null) throw noUser(id);
    return user;
  };
}

/** The identities of users in their order, the primary one of each first. */
export function identitiesOf(tx: Queryable, projectId: number, ...ids: bigint[]) {
  return findIdentities(
    tx,
    ids.map((id) => ({ projectId, userId: Number(id) })),
  );
}
