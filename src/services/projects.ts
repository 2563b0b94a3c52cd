import { createHash, timingSafeEqual } from 'node:crypto';
import { type Database, Prisma } from '../db/client.js';
import { AppError } from '../errors.js';
import { findSecrets } from '../sql/find-secrets.js';
import { createBatchedRead } from './batching.js';

declare const minted: unique symbol;

/**
 * Leave to act on one project. Every service function takes one, and only this file makes them: for a caller who showed
 * the project's secret, or for the operator.
 */
export interface ProjectScope {
  readonly projectId: number;
  readonly appId: string;
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
  readonly createdAt: Date;
  readonly totalUser: number;
}

export type Projects = ReturnType<typeof createProjects>;

const APP_ID = /^app_[0-9a-f]{24}$/;
const APP_ID_BYTES = 12;
const SECRET_BYTES = 32;
/** How long right credentials are believed; a rotation elsewhere is to take effect within a second. */
const ACCEPTED_MS = 900;
const MAX_ACCEPTED = 10_000;
const NAME_MAX_LENGTH = 200;
/** Compared with where there is no such App ID, so that the answer takes the same time. */
const NO_SECRET = Buffer.alloc(32);

export function createProjects(db: Database, randomBytes: (size: number) => Buffer) {
  const { prisma } = db;
  const secretsOf = createBatchedRead((appIds: readonly string[]) => findSecrets(db, appIds));
  const newSecret = () => `uds_${randomBytes(SECRET_BYTES).toString('base64url')}`;
  const mintCredentials = (): Credentials => ({
    appId: `app_${randomBytes(APP_ID_BYTES).toString('hex')}`,
    appSecret: newSecret(),
  });
  const scope = (projectId: number, appId: string) => ({ projectId, appId }) as ProjectScope;

  const accepted = createAcceptedCredentials();

  return {
    /**
     * The project of an App ID and App Secret; UNAUTHENTICATED where either is wrong (spec, "Authentication"). What was right
     * is taken for right for ACCEPTED_MS more without asking the database.
     */
    async authenticate({ appId, appSecret }: Credentials): Promise<ProjectScope> {
      const presented = sha256(appSecret);
      const key = `${appId} ${presented.toString('base64')}`;
      const known = accepted.find(key);
      if (known !== undefined) return known;
      const { epoch } = accepted;
      // What is no App ID is looked up as none: same time, and no text that PostgreSQL would refuse.
      const secrets = await secretsOf(APP_ID.test(appId) ? appId : '');
      timingSafeEqual(presented, NO_SECRET);
      const match = secrets.filter((secret) => timingSafeEqual(presented, secret.secretHash))[0];
      if (match === undefined) throw new AppError('UNAUTHENTICATED', 'The App ID or the App Secret is invalid.');
      const authenticated = scope(match.projectId, appId);
      accepted.add(key, authenticated, epoch);
      return authenticated;
    },

    /** The operator's way into a project; NOT_FOUND. */
    async getScope(appId: string): Promise<ProjectScope> {
      const project = await prisma.project.findUnique({ where: { appId }, select: { id: true } });
      if (project === null)
        throw new AppError('NOT_FOUND', `There is no project with the App ID ${JSON.stringify(appId)}.`);
      return scope(project.id, appId);
    },

    /** Credentials that no project has yet. */
    mintCredentials,

    /** A new project with its first secret, which is kept only as a hash and so is returned this once. BAD_USER_INPUT. */
    async createProject(name: string, { appId, appSecret }: Credentials = mintCredentials()) {
      const trimmed = name.trim();
      if (trimmed === '' || trimmed.length > NAME_MAX_LENGTH || /[\p{Cc}\p{Cs}]/u.test(trimmed)) {
        throw new AppError(
          'BAD_USER_INPUT',
          `A project's name is text of 1 to ${NAME_MAX_LENGTH} characters on one line.`,
        );
      }
      const project = await prisma.project.create({
        data: { name: trimmed, appId, secrets: { create: { secretHash: sha256(appSecret) } } },
      });
      return { id: project.id, name: project.name, appId, appSecret };
    },

    /** Every project with its exact number of current users, oldest first. */
    listProjects(): Promise<ProjectSummary[]> {
      return prisma.$queryRaw(Prisma.sql`
        SELECT p.id, p.name, p.app_id AS "appId", p.created_at AS "createdAt",
               (
                 (SELECT coalesce(sum(t.users), 0) FROM tallies t WHERE t.project_id = p.id AND t.span = 'all')
                 + (SELECT coalesce(sum(d.change), 0) FROM tally_deltas d WHERE d.project_id = p.id)
               )::float8 AS "totalUser"
        FROM projects p
        ORDER BY p.id`);
    },

    /**
     * A new secret for the project. Every earlier one ends `overlapMs` from now (0: at once) unless it ends before that.
     * Returns the new one, this once, and when the earlier ones end.
     */
    async rotateSecret({ projectId, appId }: ProjectScope, overlapMs: number) {
      const appSecret = newSecret();
      // One statement and one clock: at no instant has the project no valid secret.
      const [row] = await prisma.$queryRaw<[{ previousExpiresAt: Date }]>(Prisma.sql`
        WITH ended AS (
          UPDATE app_secrets SET expires_at = least(expires_at, now() + ${overlapMs} * interval '1 millisecond')
          WHERE project_id = ${projectId} AND (expires_at IS NULL OR expires_at > now())
        )
        INSERT INTO app_secrets (project_id, secret_hash) VALUES (${projectId}, ${sha256(appSecret)})
        RETURNING (now() + ${overlapMs} * interval '1 millisecond')::timestamptz(3) AS "previousExpiresAt"`);
      accepted.forget();
      return { appId, appSecret, previousExpiresAt: row.previousExpiresAt };
    },
  };
}

/**
 * Credentials that were right a moment ago. The time is short enough to be the whole answer to a rotation in another process:
 * it takes effect there within a second, whatever happens to the connections between them. `forget` makes it take effect
 * here at once; a check that was under way by then belongs to an earlier epoch and is not remembered.
 */
function createAcceptedCredentials() {
  const accepted = new Map<string, { scope: ProjectScope; until: number }>();
  let epoch = 0;
  return {
    get epoch() {
      return epoch;
    },
    find(key: string): ProjectScope | undefined {
      const entry = accepted.get(key);
      return entry !== undefined && entry.until > performance.now() ? entry.scope : undefined;
    },
    add(key: string, scope: ProjectScope, epochOfCheck: number): void {
      if (epochOfCheck !== epoch) return;
      if (accepted.size >= MAX_ACCEPTED) accepted.clear();
      accepted.set(key, { scope, until: performance.now() + ACCEPTED_MS });
    },
    forget(): void {
      epoch += 1;
      accepted.clear();
    },
  };
}

function sha256(text: string): Buffer<ArrayBuffer> {
  return createHash('sha256').update(text).digest() as Buffer<ArrayBuffer>;
}
