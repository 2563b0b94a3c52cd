import { type ArrayItem, arrayText } from '../db/prepared-statement.js';
import { Prisma, type Queryable, THIS_INSTANT } from '../db/statements.js';
import type { Identity, LinkedIdentity, UserRecord } from '../domain/identities.js';
import { COLUMNS } from './identities.sql.js';
import { holderOf, withHolders, withIdentity, write } from './transfers.sql.js';

/* The identities that the lines of an import link to their users. */

/** An identity that a line links to its user. */
export interface Link {
  readonly line: number;
  readonly user: UserRecord;
  readonly identity: LinkedIdentity;
}

/** A link for which a user has the one or the other of its identities. */
interface LinkState {
  /** The place of the link, from 1. */
  readonly place: number;
  /** The user of the line, and how many identities they have; null and 0 where there is none. */
  readonly own: number | null;
  readonly count: number;
  /** The user who has the identity that is to be linked. */
  readonly holder: number | null;
}

/** The primary identity of a user who has the external id of a record. */
export interface Holder extends Identity {
  /** The place of the record, from 1. */
  readonly place: number;
  readonly identityEmail: string | null;
}

/** The users who have the external ids of records, where each has another primary identity. */
export function findHolders(db: Queryable, projectId: number, records: readonly UserRecord[]): Promise<Holder[]> {
  const columns = 'u.auth_method, u.auth_value, u.auth_value_key, u.identity_email';
  return db.query<Holder>(Prisma.sql`
    SELECT r.place::int, holder.auth_method AS "authMethod", holder.auth_value AS "authValue",
      holder.auth_value_key AS "authValueKey", holder.identity_email AS "identityEmail"
    ${withHolders(projectId, records, columns)}`);
}

/** Links as rows `r`, with the identity of the line and that which is to be linked. */
function linkRows(links: readonly Link[]): Prisma.Sql {
  const columns: readonly (readonly [type: string, of: (link: Link) => ArrayItem])[] = [
    ['text', ({ user }) => user.authMethod],
    ['text', ({ user }) => user.authValueKey],
    ['text', ({ identity }) => identity.authMethod],
    ['text', ({ identity }) => identity.authValue],
    ['text', ({ identity }) => identity.authValueKey],
    ['text', ({ identity }) => identity.loginEmail],
    ['boolean', ({ identity }) => identity.emailVerified],
    ['timestamptz', ({ identity }) => identity.createdAt],
    ['timestamptz', ({ identity }) => identity.lastLogin],
  ];
  const arrays = columns.map(([type, of]) => Prisma.sql`${arrayText(links.map(of))}::${Prisma.raw(type)}[]`);
  return Prisma.sql`unnest(${Prisma.join(arrays)}) WITH ORDINALITY AS
    r(auth_method, auth_value_key, method, value, value_key, login_email, email_verified, created_at, last_login, place)`;
}

/** The states of links of which an identity is not new. */
export function findLinkStates(db: Queryable, projectId: number, links: readonly Link[]): Promise<LinkState[]> {
  const holder = holderOf(projectId);
  return db.query<LinkState>(Prisma.sql`
    SELECT r.place::int, own.id AS own, holder.id AS holder, CASE WHEN own.id IS NULL THEN 0 ELSE 1 + (
      SELECT count(*) FROM (
        SELECT i.id FROM identities i
        WHERE i.project_id = ${projectId}::int AND i.user_id >= own.id AND i.user_id <= own.id
        ORDER BY i.user_id
        OFFSET 0
      ) AS ordered
    )::int END AS count
    FROM ${linkRows(links)}
    CROSS JOIN LATERAL (SELECT ${holder} AS id OFFSET 0) AS own
    CROSS JOIN LATERAL (SELECT ${holder} AS id FROM (SELECT r.method AS auth_method, r.value_key AS auth_value_key) AS r OFFSET 0) AS holder
    WHERE own.id IS NOT NULL OR holder.id IS NOT NULL`);
}

/** Links identities that were free to users who are there, in order. CONFLICT. */
export async function linkIdentities(db: Queryable, projectId: number, links: readonly Link[]): Promise<void> {
  if (links.length === 0) return;
  await write(
    db,
    Prisma.sql`
      INSERT INTO identities (${COLUMNS})
      SELECT ${projectId}::int, u.id, r.method, r.value, r.value_key, r.login_email, r.email_verified,
        coalesce(r.created_at, ${THIS_INSTANT}), r.last_login
      FROM ${linkRows(links)}
      CROSS JOIN LATERAL ${withIdentity(projectId, 'u.id')} AS u`,
  );
}
