import { timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { type Database, Prisma, SecretScope } from '../db/client.js';
import { AppError } from '../errors.js';
import { INPUT_LIMITS, isTooLong } from '../input-limits.js';
import { observe } from '../telemetry/request-trace.js';
import { findSecrets, markSecretUsed, type SecretRow } from '../sql/find-secrets.js';
import type { Actor } from '../sql/audit.js';
import { createBatchedRead } from '../db/batched-read.js';
import { hashSecret, makeSecret } from '../domain/secret-format.js';

export { SecretScope };

/** What there is to do in a project: as a secret may, by its scopes, or as only the operator may. */
export type Act = SecretScope | 'operate';

declare const minted: unique symbol;

/**
 * Leave to act on one project. Every service function takes one, and only this file makes them: for a caller who showed
 * one of the project's secrets, or for the operator. The project's id is had from it by saying what for and in no other way,
 * so that no function can forget to refuse what a secret is not good for.
 */
export interface ProjectScope {
  readonly appId: string;
  /** The project's id as the log has it, and of no type that a statement would take. */
  readonly loggedId: unknown;
  /** The project's id for an act, or for either of two. FORBIDDEN. */
  idFor(act: Act, orAct?: Act): number;
  /** The same with who it is that acts, for the audit trail. FORBIDDEN. */
  actorFor(act: Act, requestId: string | null): Actor;
  readonly [minted]: true;
}

export interface Credentials {
  readonly appId: string;
  readonly appSecret: string;
}

export interface ProjectSummary {
  readonly id: number;
  readonly name: string;
  readonly appId: string;
  /** ISO 8601. */
  readonly createdAt: string;
  readonly totalUser: number;
}

export type Projects = ReturnType<typeof createProjects>;

const APP_ID = /^app_[0-9a-f]{24}$/;
const APP_ID_BYTES = 12;
/** How long right credentials are believed after the database was asked; a rotation elsewhere is to take effect within a second. */
const ACCEPTED_MS = 900;
const MAX_ACCEPTED = 10_000;
/** Compared with where there is no such App ID, so that the answer takes the same time. */
const NO_SECRET = Buffer.alloc(32);
/** What the audit trail calls whoever has no secret. */
export const OPERATOR = 'operator';
const OPERATOR_ACTS: readonly Act[] = [...Object.values(SecretScope), 'operate'];

export function createProjects(db: Database, randomBytes: (size: number) => Buffer) {
  const secretsOf = createBatchedRead({
    name: 'secrets',
    read: (appIds: readonly string[]) => findSecrets(db, appIds),
    answer: (rows) => rows,
  });
  const mintCredentials = (): Credentials => ({
    appId: `app_${randomBytes(APP_ID_BYTES).toString('hex')}`,
    appSecret: makeSecret(randomBytes),
  });

  const accepted = createAcceptedCredentials();
  const marking = new Map<number, Promise<void>>();
  let isListening = false;

  /** Before the first credentials are believed, so that a process which checks none holds no connection for it. */
  function hearOfEndedSecrets(): void {
    if (isListening) return;
    isListening = true;
    db.listen('userdir_secrets', () => accepted.forget());
  }

  async function check(appId: string, presented: Buffer): Promise<ProjectScope> {
    hearOfEndedSecrets();
    const key = keyOf(appId, presented);
    const question = accepted.ask();
    // What is no App ID is looked up as none: same time, and no text that PostgreSQL would refuse.
    const secrets = await secretsOf(APP_ID.test(appId) ? appId : '');
    const match = secrets.filter(({ secretHash }) => timingSafeEqual(presented, secretHash ?? NO_SECRET))[0];
    if (match === undefined || match.id === null) {
      accepted.delete(key);
      throw new AppError('UNAUTHENTICATED', 'The App ID or the App Secret is invalid.');
    }
    if (!match.isMarked) markUsed(match);
    const authenticated = mintScope(match.projectId, appId, match.label, match.scopes.split(' ') as SecretScope[]);
    accepted.add(key, authenticated, question, match.leftMs);
    return authenticated;
  }

  /** In the background: no request waits for it, and where it fails the next one tries again. */
  function markUsed({ projectId, id }: SecretRow): void {
    if (marking.has(id)) return;
    const marked = observe(null, () => markSecretUsed(db, projectId, id))
      .catch(() => undefined)
      .finally(() => marking.delete(id));
    marking.set(id, marked);
  }

  return {
    /**
     * What is known of credentials without asking the database. What was right is taken for right for ACCEPTED_MS more: a
     * ProjectScope. After that it is only `familiar`; what was never seen, or was refused since, is `strange`.
     */
    recall({ appId, appSecret }: Credentials): ProjectScope | 'familiar' | 'strange' {
      return accepted.find(keyOf(appId, hashSecret(appSecret)));
    },

    /** The project of an App ID and App Secret; UNAUTHENTICATED where either is wrong (spec, "Authentication"). */
    authenticate({ appId, appSecret }: Credentials): Promise<ProjectScope> {
      return check(appId, hashSecret(appSecret));
    },

    /** The operator's way into a project; NOT_FOUND. */
    async getScope(appId: string): Promise<ProjectScope> {
      // Not by Prisma's model, whose engine takes a quarter of a second to start, in every command.
      const [project] = await db.query<{ id: number }>(Prisma.sql`SELECT id FROM projects WHERE app_id = ${appId}`);
      if (project === undefined)
        throw new AppError('NOT_FOUND', `There is no project with the App ID ${JSON.stringify(appId)}.`);
      return mintScope(project.id, appId, OPERATOR, OPERATOR_ACTS);
    },

    /** Credentials that no project has yet. */
    mintCredentials,

    /** A new project with its first secret, which is kept only as a hash and so is returned this once. BAD_USER_INPUT. */
    async createProject(name: string, { appId, appSecret }: Credentials = mintCredentials()) {
      const trimmed = isTooLong('projectName', name) ? '' : name.trim();
      if (trimmed === '' || /[\p{Cc}\p{Cs}]/u.test(trimmed)) {
        throw new AppError(
          'BAD_USER_INPUT',
          `A project's name is text of 1 to ${INPUT_LIMITS.projectName.max} characters on one line.`,
        );
      }
      const project = await db.prisma.project.create({
        data: { name: trimmed, appId, secrets: { create: { secretHash: hashSecret(appSecret) } } },
      });
      return { id: project.id, name: project.name, appId, appSecret };
    },

    /** Every project with its exact number of current users, oldest first. */
    listProjects(): Promise<ProjectSummary[]> {
      return db.query(Prisma.sql`
        SELECT p.id, p.name, p.app_id AS "appId", p.created_at AS "createdAt",
               (
                 (SELECT coalesce(sum(t.users), 0) FROM tallies t WHERE t.project_id = p.id AND t.span = 'all')
                 + (SELECT coalesce(sum(d.change), 0) FROM tally_deltas d WHERE d.project_id = p.id)
               )::float8 AS "totalUser"
        FROM projects p
        ORDER BY p.id`);
    },

    /** To be told when a secret has ended here: whatever was believed is checked again. */
    forgetCredentials: accepted.forget,

    /** Waits for what is being written down in the background. */
    async settle(): Promise<void> {
      await Promise.all(marking.values());
    },
  };
}

/** Of the secret only its hash is kept. */
function keyOf(appId: string, presented: Buffer): string {
  return `${appId} ${presented.toString('base64')}`;
}

function mintScope(projectId: number, appId: string, actor: string, acts: readonly Act[]): ProjectScope {
  const idFor = (act: Act, orAct: Act = act) => {
    if (acts.includes(act) || acts.includes(orAct)) return projectId;
    const missing = act === orAct ? act : `${act} or ${orAct}`;
    throw new AppError('FORBIDDEN', `The App Secret lacks the scope ${missing}; it has ${acts.join(', ')}.`);
  };
  const actorFor = (act: Act, requestId: string | null): Actor => ({ projectId: idFor(act), actor, requestId });
  return { appId, loggedId: projectId, idFor, actorFor } as ProjectScope;
}

/** When the database was asked about a secret, and how often everything had been forgotten by then. */
interface Question {
  readonly askedAt: number;
  readonly epoch: number;
}

interface Accepted {
  readonly scope: ProjectScope;
  readonly epoch: number;
  readonly until: number;
}

/**
 * Credentials that were right a moment ago. `forget` makes the end of a secret take effect at once, here and, announced by
 * the database, in other processes; the time is short enough to keep the promised second where the announcement is lost.
 * What was right stays familiar, which opens nothing: it is checked again, but not in the queue of strangers. What a check
 * refuses is deleted, so that an ended secret waits where made-up ones wait.
 */
function createAcceptedCredentials() {
  const accepted = new LRUCache<string, Accepted>({ max: MAX_ACCEPTED });
  let epoch = 0;
  return {
    /** To be called before the database is asked: however late it answers, the time counts from here. */
    ask: (): Question => ({ askedAt: performance.now(), epoch }),
    find(key: string): ProjectScope | 'familiar' | 'strange' {
      const entry = accepted.get(key);
      if (entry === undefined) return 'strange';
      return entry.epoch === epoch && entry.until > performance.now() ? entry.scope : 'familiar';
    },
    /** `leftMs` of the secret itself were left when the database looked, which was later than `askedAt`. */
    add(key: string, scope: ProjectScope, question: Question, leftMs: number | null): void {
      const until = question.askedAt + Math.min(ACCEPTED_MS, leftMs ?? ACCEPTED_MS);
      accepted.set(key, { scope, epoch: question.epoch, until });
    },
    delete: (key: string): boolean => accepted.delete(key),
    /** What was asked before this, and is answered after it, is not believed either. */
    forget(): void {
      epoch += 1;
    },
  };
}
