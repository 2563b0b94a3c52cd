import { hash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { createBackground, type OnFailure } from '../db/background.js';
import { createBatchedRead } from '../db/batched-read.js';
import type { Database } from '../db/database.js';
import { APP_ID, type Credentials, type ProjectScope, RefusedCredentials } from '../domain/projects.js';
import type { AppError } from '../errors.js';
import { secretScope } from './scopes.js';
import { findSecrets, markSecretUsed, type SecretRow } from './secrets.sql.js';

/** Checks the App ID and App Secret of a caller. */
export interface CredentialChecks {
  /** Credentials as far as they are known without asking the database. */
  cachedCredentials(credentials: Credentials): CachedCredentials;
  /** The project of an App ID and App Secret; UNAUTHENTICATED if either is wrong (spec, "Authentication"), PROJECT_DISABLED, UNAVAILABLE. */
  authenticate(credentials: Credentials): Promise<ProjectScope>;
  /** To be called when secrets have ended in this process: all cached credentials become stale. */
  forgetCredentials(): void;
  /** Waits for the writes in the background. */
  flush(): Promise<void>;
}

/** `stale`: they were valid and must be checked again. `miss`: nothing is known, or the last check refused them. */
export type CachedCredentials = ProjectScope | 'stale' | 'miss';

/** Valid credentials are cached for so long, from the query on. A rotation in another process must take effect within a second. */
const CACHED_MS = 900;
const MAX_CACHED = 10_000;
/** Compared with the hash of the caller if the App ID is unknown, so that the answer takes the same time. */
const NO_SECRET = Buffer.alloc(32);

export function createCredentialChecks(db: Database, onFailure: OnFailure): CredentialChecks {
  const inBackground = createBackground(onFailure);
  const secretsOf = createBatchedRead({
    name: 'secrets',
    read: (appIds: readonly string[]) => findSecrets(db, appIds),
    answer: (rows) => rows,
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
    cachedCredentials: ({ appId, appSecret }) => cache.find(keyOf(appId, hashSecretAsText(appSecret))),
    authenticate: ({ appId, appSecret }) => check(appId, hashSecret(appSecret)),
    forgetCredentials: cache.invalidate,

    async flush() {
      await Promise.all(marking.values());
    },
  };
}

export function projectDisabled(): AppError {
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
