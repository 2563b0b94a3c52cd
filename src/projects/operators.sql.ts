import type { KeyedRow } from '../db/batched-read.js';
import { keyedStatement, Prisma, type Queryable, THIS_INSTANT } from '../db/statements.js';
import { IDLE_MS, LINK_MS, MAX_LISTED, SESSION_MS } from '../domain/bounds.js';
import {
  type ActiveSession,
  type BegunSession,
  MAX_SESSIONS,
  type Operator,
  type OperatorAction,
  type OperatorSession,
} from '../domain/operators.js';

/* Links and sessions, which end by the clock of the database; all else is in operator-edits.ts and operator-sessions.ts, by models. A change writes its entry into the log in its statement. */

/** A person who acts beside the projects, for the log. */
export interface LogActor {
  readonly actor: string;
  readonly requestId: string | null;
}

/** An insert of an entry for each row of `details`. It must be part of the statement that it records. */
export function insertLogEntries({ actor, requestId }: LogActor, action: OperatorAction, details: Prisma.Sql) {
  return Prisma.sql`
    INSERT INTO operator_log (actor, request_id, action, details)
    SELECT ${actor}::text, ${requestId}::text, ${action}::text, entry.details FROM (${details}) AS entry (details)`;
}

export const milliseconds = (count: number) => Prisma.sql`${count}::float8 * interval '1 millisecond'`;

/** The columns that decide an operator's rights. */
const RIGHTS = Prisma.sql`
  o.role::text AS role,
  CASE WHEN o.is_limited THEN ARRAY(SELECT project_id FROM operator_projects WHERE operator_id = o.id) END AS projects`;

/** An operator as they are now; nothing if they were removed. */
export async function findOperator(db: Queryable, id: number): Promise<Operator | undefined> {
  const [operator] = await db.query<Operator>(Prisma.sql`
    SELECT o.name, ${RIGHTS} FROM operators o WHERE o.id = ${id}::int`);
  return operator;
}

/** Some of what has expired. In the order of its index, which finds it whatever the statistics say. */
function deleteExpired(table: 'login_links' | 'operator_sessions'): Prisma.Sql {
  const name = Prisma.raw(table);
  return Prisma.sql`
    DELETE FROM ${name} WHERE id = ANY (ARRAY(
      SELECT id FROM ${name} WHERE expires_at <= now() ORDER BY expires_at LIMIT 100
    ))`;
}

/** Adds a link that logs an operator in, and returns its end; nothing if there is no operator of this name. */
export async function insertLink(db: Queryable, actor: LogActor, name: string, tokenHash: Uint8Array) {
  const [link] = await db.query<{ expiresAt: string }>(Prisma.sql`
    WITH late AS (
      ${deleteExpired('login_links')}
    ), added AS (
      INSERT INTO login_links (operator_id, token_hash, expires_at)
      SELECT id, ${tokenHash}::bytea, ${THIS_INSTANT} + ${milliseconds(LINK_MS)} FROM operators WHERE name = ${name}::text
      RETURNING expires_at
    ), logged AS (
      ${insertLogEntries(actor, 'make_link', Prisma.sql`SELECT jsonb_build_object('operator', ${name}::text) FROM added`)}
    )
    SELECT expires_at AS "expiresAt" FROM added`);
  return link?.expiresAt;
}

/** A passkey that has just signed, and what its authenticator counts. */
export interface UsedPasskey {
  readonly passkeyId: number;
  readonly counter: number;
}

/** The beginning of a session: by a link, which is used up, by a passkey, or for an operator whom the single sign-on has named. */
export type LogIn = { readonly linkHash: Uint8Array } | UsedPasskey | { readonly name: string };

/** The client with which a session begins. */
export interface SessionOrigin {
  readonly userAgent: string;
  readonly requestId: string | null;
  /** Is told who is about to begin a session by themselves, without a link of an admin. Throws where they begin too many. */
  readonly admit?: (operator: string) => Promise<void>;
}

/** The CTE "operator": who logs in, and by which passkey, if by one. */
function operatorBy(logIn: LogIn): Prisma.Sql {
  // Of several requests with one link exactly one deletes it. A late one stays for a while, so that the log can say whose it is.
  if ('linkHash' in logIn)
    return Prisma.sql`
      used AS (
        DELETE FROM login_links WHERE token_hash = ${logIn.linkHash}::bytea AND expires_at > now() RETURNING operator_id
      ), operator AS (
        SELECT o.id, o.name, NULL::int AS passkey FROM used JOIN operators o ON o.id = used.operator_id
      )`;
  if ('name' in logIn)
    return Prisma.sql`operator AS (SELECT id, name, NULL::int AS passkey FROM operators WHERE name = ${logIn.name}::text)`;
  // Two copies of a key that counts cannot both count on.
  return Prisma.sql`
    used AS (
      UPDATE operator_passkeys SET counter = ${logIn.counter}::bigint, last_used_at = now()
      WHERE id = ${logIn.passkeyId}::int AND (counter < ${logIn.counter}::bigint OR counter = 0)
      RETURNING id, operator_id
    ), operator AS (
      SELECT o.id, o.name, used.id AS passkey FROM used JOIN operators o ON o.id = used.operator_id
    )`;
}

const wayOf = (logIn: LogIn) => ('linkHash' in logIn ? 'link' : 'name' in logIn ? 'sso' : 'passkey');

/** Begins a session and returns its operator and its end; nothing if the link is used, late or unknown, or the passkey is. */
export async function insertSession(
  db: Queryable,
  logIn: LogIn,
  { tokenHash, userAgent, requestId }: SessionOrigin & { readonly tokenHash: Uint8Array },
) {
  const [session] = await db.query<Omit<BegunSession, 'token'>>(Prisma.sql`
    WITH ${operatorBy(logIn)}, ended AS (
      ${deleteExpired('operator_sessions')}
    ), surplus AS (
      DELETE FROM operator_sessions WHERE id = ANY (ARRAY(
        SELECT s.id FROM operator JOIN operator_sessions s ON s.operator_id = operator.id
        ORDER BY s.id DESC OFFSET ${MAX_SESSIONS - 1}::bigint
      ))
    ), added AS (
      INSERT INTO operator_sessions (operator_id, token_hash, user_agent, passkey_id, expires_at)
      SELECT id, ${tokenHash}::bytea, ${userAgent}::text, passkey, ${THIS_INSTANT} + ${milliseconds(SESSION_MS)} FROM operator
      RETURNING id, expires_at
    ), seen AS (
      UPDATE operators SET last_seen_at = now() WHERE id IN (SELECT id FROM operator)
    ), logged AS (
      INSERT INTO operator_log (actor, request_id, action, details)
      SELECT 'operator:' || operator.name, ${requestId}::text, 'log_in', jsonb_strip_nulls(jsonb_build_object(
        'session', added.id, 'by', ${wayOf(logIn)}::text, 'passkey', operator.passkey
      ))
      FROM operator, added
    )
    SELECT operator.name AS operator, added.expires_at AS "expiresAt" FROM operator, added`);
  return session;
}

const SESSION = Prisma.sql`
  s.id, o.name AS operator, s.created_at AS "createdAt", s.last_seen_at AS "lastSeenAt", s.expires_at AS "expiresAt",
  s.user_agent AS "userAgent",
  CASE WHEN s.passkey_id IS NOT NULL THEN 'passkey' WHEN o.subject IS NULL THEN 'link' ELSE 'link or sso' END AS "by"`;
/** A session ends at its end, or when it was not used for a time, also during a transaction, for which now() is its beginning. */
const NOW = Prisma.sql`statement_timestamp()`;
const IS_ACTIVE = Prisma.sql`s.expires_at > ${NOW} AND s.last_seen_at > ${NOW} - ${milliseconds(IDLE_MS)}`;

/** The ids of the operators whose active sessions have these tokens, each as its SHA-256 in hexadecimal. */
export const findOwners = keyedStatement<string, KeyedRow<{ readonly operatorId: number }>>(
  { token_hash: ['bytea', (tokenHash) => `\\x${tokenHash}`] },
  (keys) => Prisma.sql`
    SELECT k.key_index::int AS "keyIndex", s.operator_id AS "operatorId"
    FROM ${keys} JOIN operator_sessions s ON s.token_hash = k.token_hash
    WHERE ${IS_ACTIVE}`,
);

/** The session of a token, if it is active. Its use, if it is one, is recorded, at most once a minute. */
export async function useSession(
  db: Queryable,
  tokenHash: Uint8Array,
  isUse = true,
): Promise<ActiveSession | undefined> {
  const [session] = await db.query<ActiveSession>(Prisma.sql`
    WITH found AS (
      SELECT s.*, ${isUse}::boolean AND s.last_seen_at <= ${NOW} - interval '1 minute' AS is_due
      FROM operator_sessions s
      WHERE s.token_hash = ${tokenHash}::bytea AND ${IS_ACTIVE}
    ), marked AS (
      UPDATE operator_sessions s SET last_seen_at = ${NOW} FROM found f WHERE s.id = f.id AND f.is_due
    ), seen AS (
      UPDATE operators o SET last_seen_at = ${NOW} FROM found f WHERE o.id = f.operator_id AND f.is_due
    )
    SELECT ${SESSION}, o.id AS "operatorId", ${RIGHTS} FROM found s JOIN operators o ON o.id = s.operator_id`);
  return session;
}

/** The active sessions of an operator, or of all (null), the latest first. */
export function listSessions(db: Queryable, name: string | null): Promise<OperatorSession[]> {
  return db.query(Prisma.sql`
    SELECT ${SESSION}
    FROM operator_sessions s
    JOIN operators o ON o.id = s.operator_id
    WHERE ${IS_ACTIVE} ${name === null ? Prisma.empty : Prisma.sql`AND o.name = ${name}::text`}
    ORDER BY s.last_seen_at DESC, s.id DESC
    LIMIT ${MAX_LISTED}::int`);
}
