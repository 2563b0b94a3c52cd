import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import { isOneLine, oneLineForm } from '../domain/input-limits.js';
import {
  MAIN_LABEL,
  makeSecret,
  type NewSecret,
  OPERATOR,
  type ProjectScope,
  type Rotation,
  type Secret,
} from '../domain/projects.js';
import { AppError, badInput, show } from '../errors.js';
import { hashSecret } from './credentials.js';
import { lockProject } from './projects.sql.js';
import {
  type AddedSecret,
  endSecret,
  insertSecret,
  listSecrets,
  type ReplacingSecret,
  replaceSecret,
} from './secrets.sql.js';

export type SecretToAdd = Omit<AddedSecret, 'secretHash'>;
export type SecretToRotate = Pick<ReplacingSecret, 'overlapMs'> & Partial<Pick<ReplacingSecret, 'label'>>;

/** The secrets of a project. Live ones of a label are one and its predecessors, with equal scopes. */
export interface Secrets {
  /** All secrets of the project, live or not. */
  listSecrets(scope: ProjectScope): Promise<Secret[]>;
  /** One secret, live or not. NOT_FOUND. */
  getSecret(scope: ProjectScope, id: number): Promise<Secret>;
  /** Adds a secret that ends `expiresInMs` from now (null: never). BAD_USER_INPUT; CONFLICT if a secret of this label is live. */
  addSecret(scope: ProjectScope, secret: SecretToAdd, requestId?: string | null): Promise<NewSecret>;
  /**
   * Replaces the live secret of a label by one with its scopes and end. NOT_FOUND if the label never had a secret.
   * The old one ends `overlapMs` from now, or earlier if it was to, and those before it when they were to (0: all end at once).
   */
  rotateSecret(scope: ProjectScope, secret: SecretToRotate, requestId?: string | null): Promise<Rotation>;
  /** Ends a secret at once and returns its label. Idempotent. NOT_FOUND. */
  revokeSecret(scope: ProjectScope, id: number, requestId?: string | null): Promise<string>;
}

/** `onEnded` hears that secrets have ended. */
export function createSecrets(db: Database, randomBytes: (size: number) => Buffer, onEnded: () => void): Secrets {
  /** One change at a time in a project: of two rotations the later one replaces the secret of the earlier one. */
  function exclusively<Result>(projectId: number, change: (tx: Queryable) => Promise<Result>): Promise<Result> {
    return db.transaction('READ COMMITTED', async (tx) => {
      await lockProject(tx, projectId);
      return change(tx);
    });
  }

  return {
    listSecrets(scope) {
      return listSecrets(db, scope.projectIdFor('inspect'));
    },

    async getSecret(scope, id) {
      const secret = (await listSecrets(db, scope.projectIdFor('inspect'))).find((other) => other.id === id);
      if (secret === undefined) throw new AppError('NOT_FOUND', `The project has no secret ${id}.`);
      return secret;
    },

    async addSecret(scope, { label, scopes, expiresInMs }, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      requireLabel(label);
      const appSecret = makeSecret(randomBytes);
      const added = await exclusively(actor.projectId, (tx) =>
        insertSecret(tx, actor, { secretHash: hashSecret(appSecret), label, scopes, expiresInMs }),
      );
      if (added === undefined)
        throw new AppError(
          'CONFLICT',
          `The project has a live secret labelled ${label}: rotate it, or choose another label.`,
        );
      return { ...added, appSecret };
    },

    async rotateSecret(scope, { label = MAIN_LABEL, overlapMs }, requestId = null) {
      const actor = scope.actorFor('operate', requestId);
      const appSecret = makeSecret(randomBytes);
      const rotation = await exclusively(actor.projectId, (tx) =>
        replaceSecret(tx, actor, { secretHash: hashSecret(appSecret), label, overlapMs }),
      );
      if (rotation === undefined) throw new AppError('NOT_FOUND', `The project has no secret labelled ${show(label)}.`);
      onEnded();
      return { ...rotation, appSecret };
    },

    async revokeSecret(scope, id, requestId = null) {
      const label = await endSecret(db, scope.actorFor('operate', requestId), id);
      if (label === undefined) throw new AppError('NOT_FOUND', `The project has no secret ${id}.`);
      onEnded();
      return label;
    },
  };
}

function requireLabel(label: string): void {
  const isOperator = label === OPERATOR || label.startsWith(`${OPERATOR}:`);
  if (isOneLine('secretLabel', label) && !isOperator) return;
  throw badInput('label', label, `${oneLineForm('secretLabel')}, and not ${OPERATOR} or ${OPERATOR}:…`);
}
