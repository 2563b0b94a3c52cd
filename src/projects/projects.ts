import { hash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { createBackground, type OnFailure } from '../db/background.js';
import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { atMost, isTooLong } from '../domain/input-limits.js';
import { type Operator, PERMISSIONS_OF_ROLE, requirePermission, THE_OPERATOR } from '../domain/operators.js';
import {
  type Actor,
  APP_ID,
  type Caller,
  type Credentials,
  makeSecret,
  noProject,
  OPERATOR,
  type OpenProject,
  type Permission,
  type ProjectRow,
  type ProjectScope,
  RefusedCredentials,
  requireProjectName,
  SECRET_SCOPES,
  type SecretScope,
} from '../domain/projects.js';
import { AppError, badInput } from '../errors.js';
import * as sql from './projects.sql.js';
import { findSecrets, markSecretUsed, type SecretRow } from './secrets.sql.js';

export type Projects = ReturnType<typeof createProjects>;

const APP_ID_BYTES = 12;
/** Valid credentials are cached for so long, from the query on. A rotation in another process must take effect within a second. */
const CACHED_MS = 900;
const MAX_CACHED = 10_000;
/** Compared with the hash of the caller if the App ID is unknown, so that the answer takes the same time. */
const NO_SECRET = Buffer.alloc(32);

export interface CreateOptions {
  readonly by?: Operator;
  readonly requestId?: string | null;
  readonly credentials?: Credentials;
}

/** `stale`: they were valid and must be checked again. `miss`: nothing is known, or the last check refused them. */
export type CachedCredentials = ProjectScope | 'stale' | 'miss';

export function createProjects(db: Database, randomBytes: (size: number) => Buffer, onFailure: OnFailure) {
  const inBackground = createBackground(onFailure);
  const secretsOf = createBatchedRead({
    name: 'secrets',
    read: (appIds: readonly string[]) => findSecrets(db, appIds),
    answer: (rows) => rows,
  });
  const projectOf = createBatchedRead({
    name: 'projects',
    read: (appIds: readonly string[]) => sql.findProjects(db, appIds),
    answer: ([row]) => row ?? null,
  });
  const open = (row: ProjectRow, operator: Operator): OpenProject | null => {
    const scope = operatorScope(row.id, row.appId, operator);
    return scope && { ...row, scope };
  };

  /** A project for an operator; null if none of theirs has this App ID. */
  async function openProject(appId: string, operator: Operator): Promise<OpenProject | null> {
    const row = APP_ID.test(appId) ? await projectOf(appId) : null;
    return row && open(row, operator);
  }
  const mintCredentials = (): Credentials => ({
    appId: `app_${randomBytes(APP_ID_BYTES).toString('hex')}`,
    appSecret: makeSecret(randomBytes),
  });

  const cache = createCredentialsCache();
  const marking = new Map<number, Promise<void>>();
  let isListening = false;

  /** Called before the first credentials are cached, so that a process without any needs no connection for it. */
  function subscribeToSecretChanges(): void {
    if (isListening) return;
    isListening = true;
    db.listen(
      'userdir_secrets',
      () => cache.invalidate(),
      (error) => void inBackground('Listening for changed secrets', () => Promise.reject(error)),
    );
  }

  async function check(appId: string, presented: Buffer): Promise<ProjectScope> {
    subscribeToSecretChanges();
    const key = keyOf(appId, presented.toString('base64'));
    const query = cache.beginQuery();
    // A malformed App ID is looked up as an unknown one: in the same time, and without a text that PostgreSQL would refuse.
    const secrets = await secretsOf(APP_ID.test(appId) ? appId : '');
    const match = secrets.filter(({ secretHash }) => timingSafeEqual(presented, secretHash ?? NO_SECRET))[0];
    // Added again below, unless they are refused.
    cache.delete(key);
    if (match === undefined || match.id === null)
      throw new RefusedCredentials(
        secrets[0]?.id == null ? 'unknown_app_id' : 'wrong_secret',
        'The App ID and the App Secret do not belong together: check that both are of one project of this service, and that the secret has not ended.',
      );
    if (match.isDisabled) throw projectDisabled();
    if (!match.isMarked) markUsed(match);
    const authenticated = secretScope(appId, match);
    cache.add(key, authenticated, query, match.leftMs);
    return authenticated;
  }

  /** In the background: no request waits for it. After a failure the next request tries again. */
  function markUsed({ projectId, id }: SecretRow): void {
    if (marking.has(id)) return;
    const marked = inBackground('Recording the use of a secret', () => markSecretUsed(db, projectId, id));
    marking.set(
      id,
      marked.finally(() => marking.delete(id)),
    );
  }

  return {
    /** Credentials as far as they are known without asking the database. */
    cachedCredentials({ appId, appSecret }: Credentials): CachedCredentials {
      return cache.find(keyOf(appId, hashSecretAsText(appSecret)));
    },

    /** The project of an App ID and App Secret; UNAUTHENTICATED if either is wrong (spec, "Authentication"), PROJECT_DISABLED, UNAVAILABLE. */
    authenticate({ appId, appSecret }: Credentials): Promise<ProjectScope> {
      return check(appId, hashSecret(appSecret));
    },

    /** The scope of an operator, who may do in each of their projects what the role allows. NOT_FOUND. */
    async getScope(appId: string, operator = THE_OPERATOR): Promise<ProjectScope> {
      const projectId = APP_ID.test(appId) ? await sql.findProjectId(db, appId) : null;
      const scope = projectId === null ? null : operatorScope(projectId, appId, operator);
      if (scope === null) throw noProject(appId);
      return scope;
    },

    /** The scope of an enabled project. NOT_FOUND, PROJECT_DISABLED. */
    async getEnabledScope(appId: string, operator: Operator): Promise<ProjectScope> {
      const project = await openProject(appId, operator);
      if (project === null) throw noProject(appId);
      if (project.disabledAt !== null) throw projectDisabled();
      return project.scope;
    },

    openProject,

    /** Refuses what an operator has begun by a scope and, as they are known now, may no longer do. NOT_FOUND, FORBIDDEN. */
    requireStill(scope: ProjectScope, operator: Operator, permission: Permission): void {
      const now = operatorScope(scope.projectIdFor(permission), scope.appId, operator);
      if (now === null) throw noProject(scope.appId);
      now.projectIdFor(permission);
    },

    /** A page of the operator's projects whose name or App ID contains a text, and the number of all that do. */
    async openProjects(
      operator: Operator,
      { search, limit, ...page }: Omit<sql.ProjectPage, 'among'>,
    ): Promise<{ projects: OpenProject[]; total: number; hasNext: boolean }> {
      if (search !== null && isTooLong('projectName', search))
        throw badInput('search', search, `text of ${atMost('projectName')}`);
      const rows = await sql.listProjectPage(db.replicaReads, {
        among: operator.projects,
        search: search?.trim() || null,
        ...page,
        limit: limit + 1,
      });
      const projects = rows.flatMap((row) => (row.id === null ? [] : (open(row as ProjectRow, operator) ?? [])));
      return {
        projects: projects.slice(0, limit),
        total: rows[0]?.total ?? 0,
        hasNext: projects.length > limit,
      };
    },

    mintCredentials,

    /** A new project with its first secret. Only the hash is stored, so the secret is returned this once. BAD_USER_INPUT. */
    async createProject(
      name: string,
      { by = THE_OPERATOR, requestId = null, credentials = mintCredentials() }: CreateOptions = {},
    ) {
      requirePermission(by, 'govern');
      const { appId, appSecret } = credentials;
      const data = {
        name: requireProjectName(name),
        appId,
        secrets: { create: { secretHash: hashSecret(appSecret) } },
        audit: { create: { actor: actorNameOf(by), action: 'create' as const, requestId, details: {} } },
      };
      const project = await db.models((models) => models.project.create({ data }));
      return { id: project.id, name: project.name, appId, appSecret };
    },

    sampleProjects: (limit: number) => sql.sampleProjects(db, limit),
    countProjects: () => sql.countProjects(db),

    /** To be called when secrets have ended in this process: all cached credentials become stale. */
    forgetCredentials: cache.invalidate,

    /** Waits for the writes in the background. */
    async flush(): Promise<void> {
      await Promise.all(marking.values());
    },
  };
}

function projectDisabled(): AppError {
  const message = 'The project is disabled. Its data is kept, and its operator can enable it.';
  return new RefusedCredentials('project_disabled', message, 'PROJECT_DISABLED');
}

/** SHA-256, the only form in which a secret is stored. It has 256 random bits, so no slow hash is needed. */
export function hashSecret(secret: string): Buffer<ArrayBuffer> {
  return hash('sha256', secret, 'buffer') as Buffer<ArrayBuffer>;
}

/** By secret: those that this turn of the event loop has read. Nothing is kept beyond the turn. */
let hashesOfTurn = new Map<string, string>();

/** The hash as text, which is faster to look up. Many requests of one turn have the same secret, which is hashed once for all. */
function hashSecretAsText(secret: string): string {
  const cached = hashesOfTurn.get(secret);
  if (cached !== undefined) return cached;
  if (hashesOfTurn.size === 0) setImmediate(forgetHashes);
  const hashed = hash('sha256', secret, 'base64');
  hashesOfTurn.set(secret, hashed);
  return hashed;
}

function forgetHashes(): void {
  hashesOfTurn = new Map();
}

/** The cache has the hash of a secret, never the secret. */
function keyOf(appId: string, presented: string): string {
  return `${appId} ${presented}`;
}

function secretScope(appId: string, { projectId, label, requestsPerMinute, ...row }: SecretRow): ProjectScope {
  const permissions = row.scopes.split(' ') as SecretScope[];
  const caller = { projectName: row.projectName, scopes: permissions, expiresAt: row.expiresAt };
  return mintScope({ projectId, appId, actor: label, permissions, requestsPerMinute, caller }, (...needed) => {
    const missing = SECRET_SCOPES.filter((scope) => needed.includes(scope)).join(' or ');
    const has = permissions.join(', ');
    const refusal =
      missing === '' ? 'Only operators may do this.' : `The App Secret lacks the scope ${missing}; it has ${has}.`;
    throw new AppError('FORBIDDEN', refusal);
  });
}

/** The operator in the audit trail. No secret may have such a label. */
export function actorNameOf({ name }: Pick<Operator, 'name'>): string {
  return name === '' ? OPERATOR : `${OPERATOR}:${name}`;
}

/** The scope of an operator; null in a project that is not theirs, for which everything is answered as where there is none. */
function operatorScope(projectId: number, appId: string, operator: Operator): ProjectScope | null {
  if (operator.projects !== null && !operator.projects.includes(projectId)) return null;
  const permissions = PERMISSIONS_OF_ROLE[operator.role];
  return mintScope(
    { projectId, appId, actor: actorNameOf(operator), permissions, requestsPerMinute: null, caller: null },
    (...needed) => requirePermission(operator, ...needed),
  );
}

interface Mint {
  readonly projectId: number;
  readonly appId: string;
  readonly actor: string;
  readonly permissions: readonly Permission[];
  readonly requestsPerMinute: number | null;
  readonly caller: Caller | null;
}

function mintScope(mint: Mint, refuse: (...needed: Permission[]) => void): ProjectScope {
  const { projectId, appId, actor, permissions, requestsPerMinute, caller } = mint;
  const projectIdFor = (permission: Permission, orPermission: Permission = permission) => {
    if (!permissions.includes(permission) && !permissions.includes(orPermission)) refuse(permission, orPermission);
    return projectId;
  };
  const actorFor = (permission: Permission, requestId: string | null, orPermission?: Permission): Actor => ({
    projectId: projectIdFor(permission, orPermission),
    actor,
    requestId,
  });
  const permits = (permission: Permission) => permissions.includes(permission);
  return { appId, actor, requestsPerMinute, caller, projectIdFor, actorFor, permits } as ProjectScope;
}

interface CacheEntry {
  readonly scope: ProjectScope;
  readonly epoch: number;
  readonly until: number;
}

/**
 * Credentials that were valid a moment ago. `invalidate` ends a secret at once: in this process, and in others when the database announces it.
 * If the announcement is lost, CACHED_MS still keeps the promised second.
 * A stale entry grants nothing: its credentials are checked again, but not in the queue of unknown ones, and a refusal deletes the entry.
 */
function createCredentialsCache() {
  const entries = new LRUCache<string, CacheEntry>({ max: MAX_CACHED });
  let epoch = 0;
  return {
    /** Is called before the database is asked: the time counts from here, however late the answer is. Keeps the number of invalidations by then. */
    beginQuery: () => ({ askedAt: performance.now(), epoch }),
    find(key: string): CachedCredentials {
      const entry = entries.get(key);
      if (entry === undefined) return 'miss';
      return entry.epoch === epoch && entry.until > performance.now() ? entry.scope : 'stale';
    },
    /** The secret had `leftMs` left when the database looked, which was after `askedAt`. */
    add(
      key: string,
      scope: ProjectScope,
      query: Pick<CacheEntry, 'epoch'> & { askedAt: number },
      leftMs: number | null,
    ) {
      const until = query.askedAt + Math.min(CACHED_MS, leftMs ?? CACHED_MS);
      entries.set(key, { scope, epoch: query.epoch, until });
    },
    delete: (key: string) => entries.delete(key),
    /** Queries that began before this are stale too when their answers arrive. */
    invalidate(): void {
      epoch += 1;
    },
  };
}
