import { Prisma, type Queryable, readValue } from '../db/statements.js';
import { ATTEMPTS_KEPT, ATTEMPTS_KEPT_MS } from '../domain/bounds.js';
import type { Actor } from '../domain/projects.js';
import {
  type Attempt,
  BACKLOG_COUNTED,
  type Backlog,
  LONGEST_RETRY_MS,
  RESEND_REST_MS,
  type Webhook,
  type WebhookHour,
} from '../domain/webhooks.js';
import { insertAuditEntries } from '../projects/audit.sql.js';

/* Acts by the clock of the database (leases, retries, valid secrets) or by the state of the feed. Other acts are in webhooks.ts, by models. */

/** An endpoint as it is listed. */
interface WebhookRow extends Omit<Webhook, 'cursor' | 'nextAttemptAt' | 'attempts'> {
  readonly place: number;
  readonly nextAttemptAt: string;
}

const IS_LIVE = Prisma.sql`(s.expires_at IS NULL OR s.expires_at > now())`;
const PUBLISHED = Prisma.sql`coalesce((SELECT published FROM changes_feed), 1)`;
const ISO = Prisma.raw(`'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`);
const EVENT_TYPES = Prisma.sql`w.types::text[] AS types`;

/** The endpoints of a project, or one of them, oldest first. */
export function listWebhooks(db: Queryable, projectId: number, id: number | null = null): Promise<WebhookRow[]> {
  return db.query(Prisma.sql`
    SELECT w.id, w.url, w.description, ${EVENT_TYPES}, w.place, w.status::text AS status, w.reason, w.created_at AS "createdAt",
           w.failures, w.next_attempt_at AS "nextAttemptAt", w.last_delivered_at AS "lastDeliveredAt",
           w.accepted, w.failed,
           (
             SELECT c.at FROM changes c
             WHERE c.project_id = ${projectId}::int AND c.id > w.place
             ORDER BY c.id LIMIT 1
           ) AS "pendingSince",
           (
             SELECT coalesce(jsonb_agg(jsonb_build_object(
               'id', s.id, 'createdAt', to_char(s.created_at, ${ISO}), 'expiresAt', to_char(s.expires_at, ${ISO})
             ) ORDER BY s.id DESC), '[]')
             FROM webhook_secrets s WHERE s.project_id = ${projectId}::int AND s.webhook_id = w.id AND ${IS_LIVE}
           ) AS secrets
    FROM webhooks w
    WHERE w.project_id = ${projectId}::int AND (${id}::int IS NULL OR w.id = ${id}::int)
    ORDER BY w.id`);
}

/** The newest `limit` attempts of each endpoint of a project, or of one, newest first. Of one instant, the failure is the newer one: it ends a turn. */
export function listAttempts(
  db: Queryable,
  projectId: number,
  { id, limit }: { id: number | null; limit: number },
): Promise<(Attempt & { webhookId: number })[]> {
  return db.query(Prisma.sql`
    SELECT w.id AS "webhookId", a.at, a.message AS id, a.type::text AS type, a.ok, a.status, a.ms, a.error, a.resent
    FROM webhooks w
    CROSS JOIN LATERAL (
      SELECT * FROM webhook_attempts kept
      WHERE kept.project_id = ${projectId}::int AND kept.webhook_id = w.id
      ORDER BY kept.at DESC, kept.ok, kept.number DESC
      LIMIT ${limit}::bigint
    ) AS a
    WHERE w.project_id = ${projectId}::int AND (${id}::int IS NULL OR w.id = ${id}::int)
    ORDER BY w.id, a.at DESC, a.ok, a.number DESC`);
}

/** Attempts at an endpoint by outcome, for each of the last 24 hours, this one included, the oldest first. */
export function listHours(db: Queryable, projectId: number, id: number): Promise<WebhookHour[]> {
  return db.query(Prisma.sql`
    SELECT each.hour::timestamptz(3) AS "from", coalesce(h.accepted, 0) AS accepted, coalesce(h.failed, 0) AS failed
    FROM generate_series(${THIS_HOUR} - interval '23 hours', ${THIS_HOUR}, interval '1 hour') AS each (hour)
    LEFT JOIN webhook_hours h
      ON h.project_id = ${projectId}::int AND h.webhook_id = ${id}::int AND h.slot = ${slotOf('each.hour')} AND h.hour = each.hour
    ORDER BY each.hour`);
}

const THIS_HOUR = Prisma.sql`date_trunc('hour', now(), 'UTC')`;
const slotOf = (hour: string) => Prisma.sql`extract(hour FROM ${Prisma.raw(hour)} AT TIME ZONE 'UTC')::smallint`;

/** The number of next changes that wait for an endpoint. Undefined if there is no such endpoint. */
export async function countBacklog(db: Queryable, projectId: number, id: number): Promise<Backlog | undefined> {
  const [backlog] = await db.query<Backlog>(Prisma.sql`
    SELECT next.wanted AS count, next.seen = ${BACKLOG_COUNTED}::bigint AS "isMore"
    FROM webhooks w
    CROSS JOIN LATERAL (
      SELECT count(*) AS seen, count(*) FILTER (WHERE w.types = '{}' OR part.type = ANY (w.types)) AS wanted
      FROM (
        SELECT c.type FROM changes c
        WHERE c.project_id = ${projectId}::int AND c.id > w.place
        ORDER BY c.id LIMIT ${BACKLOG_COUNTED}::bigint
      ) AS part
    ) AS next
    WHERE w.project_id = ${projectId}::int AND w.id = ${id}::int`);
  return backlog;
}

/**
 * Adds a secret, with an audit entry, and deletes ended ones. The one before ends `overlapMs` from now, and older ones when they were to;
 * all at once without an overlap. Nothing if the project has no such endpoint, or if `max` secrets would stay valid beside the new one.
 */
export async function replaceWebhookSecret(
  tx: Queryable,
  actor: Actor,
  { id, secret, overlapMs, max }: { id: number; secret: Uint8Array; overlapMs: number; max: number },
): Promise<{ previousExpiresAt: string } | undefined> {
  const { projectId } = actor;
  const overlapEnd = Prisma.sql`(now() + ${overlapMs}::float8 * interval '1 millisecond')::timestamptz(3)`;
  const entry = Prisma.sql`SELECT NULL::bigint, jsonb_build_object('webhook', ${id}::int, 'ended_at', ${overlapEnd}) FROM made`;
  const [rotation] = await tx.query<{ previousExpiresAt: string }>(Prisma.sql`
    WITH made AS (
      INSERT INTO webhook_secrets (project_id, webhook_id, secret)
      SELECT w.project_id, w.id, ${secret}::bytea FROM webhooks w
      WHERE w.project_id = ${projectId}::int AND w.id = ${id}::int AND (${overlapMs}::float8 = 0 OR ${max}::bigint > (
        SELECT count(*) FROM webhook_secrets s
        WHERE s.project_id = ${projectId}::int AND s.webhook_id = ${id}::int AND ${IS_LIVE}
      ))
      RETURNING id
    ), shortened AS (
      UPDATE webhook_secrets s SET expires_at = ${overlapEnd}
      WHERE s.project_id = ${projectId}::int AND s.webhook_id = ${id}::int AND s.expires_at IS NULL AND ${overlapMs}::float8 > 0
        AND EXISTS (SELECT FROM made)
    ), deleted AS (
      DELETE FROM webhook_secrets s
      WHERE s.project_id = ${projectId}::int AND s.webhook_id = ${id}::int AND (${overlapMs}::float8 = 0 OR NOT ${IS_LIVE})
        AND EXISTS (SELECT FROM made)
    ), audited AS (
      ${insertAuditEntries(actor, 'rotate_webhook', entry)}
    )
    SELECT ${overlapEnd} AS "previousExpiresAt" FROM made`);
  return rotation;
}

/** The URL of an endpoint and its valid secrets, the newest first. */
export async function findTarget(db: Queryable, projectId: number, id: number) {
  const [target] = await db.query<Pick<ClaimedWebhook, 'url' | 'secrets'> & { isProjectDisabled: boolean }>(Prisma.sql`
    SELECT w.url, ${SECRETS} AS secrets, p.disabled_at IS NOT NULL AS "isProjectDisabled"
    FROM webhooks w JOIN projects p ON p.id = w.project_id
    WHERE w.project_id = ${projectId}::int AND w.id = ${id}::int`);
  return target;
}

/** Lets this process alone send a message again by hand, for so long. False if another one does, or did a moment ago. */
export async function claimResend(db: Queryable, projectId: number, id: number, ms: number): Promise<boolean> {
  const claimed = await db.query(Prisma.sql`
    UPDATE webhooks w SET resend_after = now() + ${ms}::float8 * interval '1 millisecond'
    WHERE w.project_id = ${projectId}::int AND w.id = ${id}::int AND (w.resend_after IS NULL OR ${hasCome(Prisma.sql`w.resend_after`, ms)})
    RETURNING 1`);
  return claimed.length > 0;
}

/** Records the attempt of a claimed resend. It moves nothing else. */
export async function endResend(db: Queryable, projectId: number, id: number, attempt: Attempt): Promise<void> {
  const attempts: Attempts = { attempts: [attempt], accepted: attempt.ok ? 1 : 0, failed: attempt.ok ? 0 : 1 };
  await db.query(
    recordingAttempts(
      attempts,
      Prisma.sql`
        UPDATE webhooks w SET ${countingAttempts(attempts)}, resend_after = now() + ${RESEND_REST_MS}::float8 * interval '1 millisecond'
        WHERE w.project_id = ${projectId}::int AND w.id = ${id}::int`,
    ),
  );
}

/** Attempts at an endpoint: how many ended which way, and the newest of them, the newest first. */
interface Attempts {
  attempts: readonly Attempt[];
  accepted: number;
  failed: number;
}

const countingAttempts = ({ accepted, failed }: Attempts) =>
  Prisma.sql`accepted = w.accepted + ${accepted}::bigint, failed = w.failed + ${failed}::bigint`;

/** Records attempts at the endpoint that `update` locks and changes. Each takes the slot of the oldest one with its outcome, and counts in this hour. */
function recordingAttempts({ attempts, accepted, failed }: Attempts, update: Prisma.Sql): Prisma.Sql {
  const rows = JSON.stringify(attempts.map((attempt, nth) => ({ ...attempt, nth })));
  const total = (ok: string) => Prisma.sql`CASE WHEN ${Prisma.raw(ok)} THEN w.accepted ELSE w.failed END`;
  return Prisma.sql`
    WITH w AS (
      ${update} RETURNING w.project_id, w.id, w.accepted, w.failed
    ), kept AS (
      INSERT INTO webhook_attempts AS old (project_id, webhook_id, ok, slot, number, at, message, type, status, ms, error, resent)
      SELECT w.project_id, w.id, new.ok, new.number % ${ATTEMPTS_KEPT}::int, new.number, new.at, new.id, new.type, new.status, new.ms, new.error, new.resent
      FROM w CROSS JOIN LATERAL (
        SELECT one.*, ${total('one.ok')} + 1 - row_number() OVER (PARTITION BY one.ok ORDER BY one.nth) AS number
        FROM jsonb_to_recordset(${rows}::jsonb) AS one (
          nth int, at timestamptz, id text, type change_type, ok boolean, status smallint, ms int, error text, resent boolean
        )
      ) AS new
      ON CONFLICT (project_id, webhook_id, ok, slot) DO UPDATE
      SET number = excluded.number, at = excluded.at, message = excluded.message, type = excluded.type, status = excluded.status,
          ms = excluded.ms, error = excluded.error, resent = excluded.resent
    ), forgotten AS (
      DELETE FROM webhook_attempts old USING w
      WHERE old.project_id = w.project_id AND old.webhook_id = w.id AND ${accepted + failed}::int > 0
        AND old.at < now() - ${ATTEMPTS_KEPT_MS}::float8 * interval '1 millisecond'
        -- The others have been overwritten above.
        AND old.number > ${total('old.ok')} - ${ATTEMPTS_KEPT}::int
    )
    INSERT INTO webhook_hours AS known (project_id, webhook_id, slot, hour, accepted, failed)
    SELECT w.project_id, w.id, ${slotOf('now()')}, ${THIS_HOUR}, ${accepted}::int, ${failed}::int FROM w
    WHERE ${accepted + failed}::int > 0
    ON CONFLICT (project_id, webhook_id, slot) DO UPDATE
    SET hour = excluded.hour,
        accepted = excluded.accepted + CASE WHEN known.hour = excluded.hour THEN known.accepted ELSE 0 END,
        failed = excluded.failed + CASE WHEN known.hour = excluded.hour THEN known.failed ELSE 0 END`;
}

/** As base64, the form in which the library takes them. */
const SECRETS = Prisma.sql`ARRAY(
  SELECT replace(encode(s.secret, 'base64'), E'\\n', '') FROM webhook_secrets s
  WHERE s.project_id = w.project_id AND s.webhook_id = w.id AND ${IS_LIVE}
  ORDER BY s.id DESC
)`;

/** An endpoint that a process may deliver to, until its lease ends. */
export interface ClaimedWebhook extends Pick<Webhook, 'id' | 'url' | 'types' | 'failures'> {
  readonly projectId: number;
  readonly secrets: string[];
  readonly place: number;
  readonly timeline: string;
  readonly moves: number;
  readonly edits: number;
  /** For how long it has failed; 0 if it has not. */
  readonly failingMs: number;
}

export interface ClaimLimits {
  readonly lease: string;
  readonly leaseMs: number;
  /** The number of endpoints of each project to which this process delivers now. */
  readonly held: ReadonlyMap<number, number>;
  readonly maxPerProject: number;
  readonly max: number;
  /** The most of them that may have failed. */
  readonly maxFailing: number;
}

/**
 * True if an instant has come that was put off by at most `longestMs`. One that is much further off was written before the clock of the
 * database was put back, and counts as past: nothing waits for the clock to catch up. Twice the time, because the clocks of two
 * transactions are those of their beginnings.
 */
const hasCome = (column: Prisma.Sql, longestMs: number) =>
  Prisma.sql`(${column} <= now() OR ${column} > now() + ${2 * longestMs}::float8 * interval '1 millisecond')`;

/**
 * Enabled endpoints whose time has come, which no live process has leased. One that has not failed waits for nothing. A project that is
 * disabled is left alone.
 */
const isDue = (leaseMs: number) => Prisma.sql`
  w.status = 'enabled' AND (w.failures = 0 OR ${hasCome(Prisma.sql`w.next_attempt_at`, LONGEST_RETRY_MS)})
  AND (w.leased_until IS NULL OR ${hasCome(Prisma.sql`w.leased_until`, leaseMs)})`;
/** Changes that are not delivered, or were deleted before they were; or the feed began anew. */
const HAS_WORK = Prisma.sql`(
  EXISTS (SELECT FROM changes c WHERE c.project_id = w.project_id AND c.id > w.place AND c.id <= ${PUBLISHED})
  OR EXISTS (SELECT FROM changes_pruned g WHERE g.project_id = w.project_id AND g.through > w.place)
  OR w.place > ${PUBLISHED}
)`;

/** Leases endpoints with something to deliver: of the projects to which this process delivers least, the one that has waited for longest. */
export function claimWebhooks(db: Queryable, limits: ClaimLimits): Promise<ClaimedWebhook[]> {
  const { lease, leaseMs, held, maxPerProject, max, maxFailing } = limits;
  return db.query(Prisma.sql`
    WITH due AS (
      SELECT w.project_id, w.id, w.next_attempt_at, w.failures > 0 AS failing,
             coalesce(h.held, 0) + row_number() OVER (
               PARTITION BY w.project_id ORDER BY w.failures > 0, w.next_attempt_at, w.id
             ) AS turn
      FROM webhooks w
      JOIN projects p ON p.id = w.project_id AND p.disabled_at IS NULL
      LEFT JOIN unnest(${[...held.keys()]}::int[], ${[...held.values()]}::int[]) AS h(project_id, held)
        ON h.project_id = w.project_id
      WHERE ${isDue(leaseMs)} AND ${HAS_WORK}
    ), ranked AS (
      SELECT due.*, row_number() OVER (PARTITION BY failing ORDER BY turn, next_attempt_at, id) AS of_kind
      FROM due WHERE turn <= ${maxPerProject}::bigint
    ), chosen AS (
      SELECT project_id, id FROM ranked
      WHERE NOT failing OR of_kind <= ${maxFailing}::bigint
      ORDER BY turn, next_attempt_at, id
      LIMIT ${max}::bigint
    ), locked AS (
      SELECT w.project_id, w.id FROM webhooks w JOIN chosen USING (project_id, id)
      WHERE ${isDue(leaseMs)}
      FOR NO KEY UPDATE OF w SKIP LOCKED
    )
    UPDATE webhooks w
    SET leased_by = ${lease}::text, leased_until = now() + ${leaseMs}::float8 * interval '1 millisecond'
    FROM locked
    WHERE w.project_id = locked.project_id AND w.id = locked.id
    RETURNING w.project_id AS "projectId", w.id, w.url, ${SECRETS} AS secrets, ${EVENT_TYPES}, w.place, w.timeline, w.moves, w.edits, w.failures,
              coalesce(extract(epoch FROM now() - w.failing_since) * 1000, 0)::float8 AS "failingMs"`);
}

export function hasEnabledWebhooks(db: Queryable): Promise<boolean> {
  return readValue(db, Prisma.sql`SELECT EXISTS (SELECT FROM webhooks WHERE status = 'enabled')`);
}

/** Keeps leases for longer. Returns those that this process still has. */
export function renewLeases(
  db: Queryable,
  webhooks: readonly Pick<ClaimedWebhook, 'projectId' | 'id'>[],
  lease: string,
  leaseMs: number,
): Promise<{ projectId: number; id: number }[]> {
  return db.query(Prisma.sql`
    UPDATE webhooks w SET leased_until = now() + ${leaseMs}::float8 * interval '1 millisecond'
    FROM unnest(
      ${webhooks.map(({ projectId }) => projectId)}::int[], ${webhooks.map(({ id }) => id)}::int[]
    ) AS mine(project_id, id)
    WHERE w.project_id = mine.project_id AND w.id = mine.id AND w.leased_by = ${lease}::text
    RETURNING w.project_id AS "projectId", w.id`);
}

/** The result of a turn, with the consecutive failures at its end. */
export interface TurnResult extends Pick<Webhook, 'failures' | 'status' | 'reason'>, Attempts {
  place: number;
  timeline: string;
  readonly delayMs: number;
}

/** Ends a turn: records its result and gives the lease back. A place or state that an operator has changed meanwhile stays. */
export async function endTurn(
  db: Queryable,
  { projectId, id, moves, edits }: Pick<ClaimedWebhook, 'projectId' | 'id' | 'moves' | 'edits'>,
  lease: string,
  result: TurnResult,
): Promise<void> {
  const { place, timeline, failures, delayMs, status, reason } = result;
  const delivered = result.accepted > 0;
  const unlessMoved = (column: string, value: Prisma.Sql) =>
    Prisma.sql`CASE WHEN w.moves = ${moves}::int THEN ${value} ELSE ${Prisma.raw(`w.${column}`)} END`;
  const unlessEdited = (column: string, value: Prisma.Sql) =>
    Prisma.sql`CASE WHEN w.edits = ${edits}::int THEN ${value} ELSE ${Prisma.raw(`w.${column}`)} END`;
  const failingSince = Prisma.sql`CASE
    WHEN ${failures}::int = 0 THEN NULL
    WHEN ${delivered}::boolean THEN now()
    ELSE coalesce(w.failing_since, now())
  END`;
  await db.query(
    recordingAttempts(
      result,
      Prisma.sql`
        UPDATE webhooks w
        SET place = ${unlessMoved('place', Prisma.sql`${place}::bigint`)},
            timeline = ${unlessMoved('timeline', Prisma.sql`${timeline}::text`)},
            failures = ${unlessEdited('failures', Prisma.sql`${failures}::int`)},
            failing_since = ${unlessEdited('failing_since', failingSince)},
            next_attempt_at = ${unlessEdited('next_attempt_at', Prisma.sql`now() + ${delayMs}::float8 * interval '1 millisecond'`)},
            status = ${unlessEdited('status', Prisma.sql`${status}::webhook_status`)},
            reason = ${unlessEdited('reason', Prisma.sql`${reason}::text`)},
            last_delivered_at = CASE WHEN ${delivered}::boolean THEN now() ELSE w.last_delivered_at END,
            ${countingAttempts(result)}, leased_by = NULL, leased_until = NULL
        WHERE w.project_id = ${projectId}::int AND w.id = ${id}::int AND w.leased_by = ${lease}::text`,
    ),
  );
}

export type WebhookFigures = Readonly<Record<'enabled' | 'failing' | 'paused' | 'disabled' | 'lagSeconds', number>>;

/** All endpoints by their state, and for how long the one that is furthest behind has waited. */
export async function findWebhookFigures(db: Queryable): Promise<WebhookFigures> {
  const [figures] = await db.query<WebhookFigures>(Prisma.sql`
    SELECT count(*) FILTER (WHERE w.status = 'enabled') AS enabled,
           count(*) FILTER (WHERE w.status = 'enabled' AND w.failures > 0) AS failing,
           count(*) FILTER (WHERE w.status = 'paused') AS paused,
           count(*) FILTER (WHERE w.status = 'disabled') AS disabled,
           coalesce(max(extract(epoch FROM now() - (
             SELECT c.at FROM changes c
             WHERE w.status = 'enabled' AND c.project_id = w.project_id AND c.id > w.place AND c.id <= ${PUBLISHED}
             ORDER BY c.id LIMIT 1
           ))), 0)::float8 AS "lagSeconds"
    FROM webhooks w`);
  return figures as WebhookFigures;
}
