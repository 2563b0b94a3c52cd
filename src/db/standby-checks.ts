import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { createLagMeter } from './lag-meter.js';
import { createTimeLimit } from './prepared-statement.js';
import { createStatements, Prisma, type Queryable } from './statements.js';

/* What is asked of the primary, and of a connection to a standby before its answers are used. */

/** The pause between questions to the primary for its position, and to the standby whether it follows. A connection counts as checked for so long. */
export const CHECK_MS = 250;
/** A standby that does not answer a check for so long counts as frozen. */
const CHECK_LIMIT_MS = 750;

/** The identity of the database. A standby has that of its primary. */
const IDENTITY = Prisma.sql`
  SELECT s.system_identifier::text || ' ' || d.oid::text AS identity
  FROM pg_control_system() s, pg_database d WHERE d.datname = current_database()`;
/** On an idle primary this may lie inside a record, which no standby can replay until it is flushed (15 s at most). Lists then go there. */
const WRITTEN = Prisma.sql`SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::float8 AS position`;
const REPLAYED = Prisma.sql`
  SELECT pg_is_in_recovery() AS "isStandby", (pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::float8 AS position`;

/** The standby answers, and must not be used. */
export class Behind extends Error {
  override name = 'Behind';
}

export interface StandbyChecks {
  /** Asks the primary on this session which database it is, and then for its position now and then, until the signal. */
  followPrimary(session: Queryable & { readonly signal: AbortSignal }): Promise<void>;
  /** Resolves when the primary has told which database it is. */
  identified(signal: AbortSignal): Promise<void>;
  /** Throws where the connection leads to another database than the primary's, or where that is not known yet. */
  requireSameDatabase(client: pg.ClientBase): Promise<void>;
  /** The age of this connection's answers. Throws where they are too old, or not those of the primary. */
  check(client: pg.ClientBase): Promise<number>;
  /** Checks a connection that was not checked a moment ago. One address may lead to several standbys, so each is checked. */
  requireFresh(client: pg.ClientBase): Promise<void>;
}

export function createStandbyChecks(maxLagMs: number): StandbyChecks {
  const meter = createLagMeter(2 * maxLagMs);
  const checksOn = createStatements(undefined);
  const checkLimit = createTimeLimit(CHECK_LIMIT_MS);
  const checked = new WeakMap<pg.ClientBase, { replayed: number; at: number }>();
  let identity: string | null = null;

  async function check(client: pg.ClientBase): Promise<number> {
    const [row] = await checksOn(client as pg.Client, checkLimit).query<{ isStandby: boolean; position: number }>(
      REPLAYED,
    );
    const { isStandby, position: replayed } = row as { isStandby: boolean; position: number };
    if (!isStandby) throw new Error('DATABASE_REPLICA_URL leads to a server that is not a standby.');
    const before = checked.get(client);
    if (before !== undefined && meter.isAhead(before.replayed, before.at))
      throw new Behind('The standby has what the primary has not: it does not follow it.');
    const at = performance.now();
    const ageMs = meter.ageOf(replayed, at);
    if (ageMs > maxLagMs)
      throw new Behind(`The standby has not replayed what the primary had written ${maxLagMs} ms before.`);
    checked.set(client, { replayed, at });
    return ageMs;
  }

  return {
    async followPrimary(session) {
      const [row] = await session.query<{ identity: string }>(IDENTITY);
      identity = row?.identity ?? null;
      for (;;) {
        const at = performance.now();
        const [written] = await session.query<{ position: number }>(WRITTEN);
        meter.record((written as { position: number }).position, at);
        await sleep(CHECK_MS, undefined, { ref: false, signal: session.signal });
      }
    },

    async identified(signal) {
      while (identity === null) await sleep(CHECK_MS, undefined, { ref: false, signal });
    },

    async requireSameDatabase(client) {
      const [row] = await checksOn(client as pg.Client, checkLimit).query<{ identity: string }>(IDENTITY);
      if (identity === null) throw new Behind('The primary has not told yet which database it is.');
      if (row?.identity !== identity)
        throw new Error('DATABASE_REPLICA_URL leads to another database than DATABASE_URL.');
    },

    check,

    async requireFresh(client) {
      if (performance.now() - (checked.get(client)?.at ?? Number.NEGATIVE_INFINITY) > CHECK_MS) await check(client);
    },
  };
}
