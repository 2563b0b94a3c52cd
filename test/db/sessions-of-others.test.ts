import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Prisma, type Queryable } from '#dist/db/statements.js';
import { endSilentLeader, findLeader, findOldestWriter, findWriters, nameLeader } from '#dist/feed/changes.sql.js';
import { type OpenDatabase, openTestDatabase } from '../support/database.js';

/**
 * What is concluded from the sessions and locks of other processes. Temporary tables stand before the views of PostgreSQL that have their names,
 * so that each condition can be tried, also on the embedded database, which has one session. That PostgreSQL shows its sessions so is seen by
 * test/faults/frozen-leader and test/faults/changes.
 */

let db: OpenDatabase;
let facts: Facts;
beforeAll(async () => {
  db = await openTestDatabase();
  const [row] = await db.query<Facts>(Prisma.sql`
    SELECT d.oid::int4 AS database, 'changes'::regclass::oid::int4 AS changes, 'users'::regclass::oid::int4 AS users
    FROM pg_database d WHERE d.datname = current_database()`);
  facts = row as Facts;
});
afterAll(() => db.drop());

/** The numbers by which PostgreSQL names this database and two tables. */
interface Facts {
  readonly database: number;
  readonly changes: number;
  readonly users: number;
}

interface Lock {
  readonly locktype: string;
  readonly database: number;
  readonly relation: number;
  readonly classid: number;
  readonly objid: number;
  readonly objsubid: number;
  readonly mode: string;
  readonly granted: boolean;
  readonly pid: number | null;
  readonly virtualtransaction: string;
  readonly transactionid: string;
}

/** Instants are so many seconds ago. */
interface Session {
  readonly pid: number;
  readonly usename: string;
  readonly application_name: string;
  readonly client_addr: string | null;
  readonly state: string | null;
  readonly backend_start: number;
  readonly state_change: number;
  readonly xact_start: number | null;
}

interface Prepared {
  readonly gid: string;
  readonly owner: string;
  readonly transaction: string;
  readonly prepared: number;
}

/** What PostgreSQL shows. */
interface Shown {
  readonly locks?: readonly Partial<Lock>[];
  readonly sessions?: readonly Partial<Session>[];
  readonly prepared?: readonly Prepared[];
}

const TABLES = [
  `pg_locks (locktype text, database oid, relation oid, classid oid, objid oid, objsubid int2, mode text, granted bool, pid int4,
     virtualtransaction text, transactionid xid)`,
  `pg_stat_activity (pid int4, usename name, application_name text, client_addr inet, state text, backend_start timestamptz,
     state_change timestamptz, xact_start timestamptz)`,
  'pg_prepared_xacts (gid text, owner name, transaction xid, prepared timestamptz)',
];
const INSTANTS = ['backend_start', 'state_change', 'xact_start', 'prepared'];

/** A value as SQL. */
function literal(name: string, value: unknown): string {
  if (value === undefined || value === null) return 'NULL';
  if (INSTANTS.includes(name)) return `clock_timestamp() - ${value} * interval '1 second'`;
  return typeof value === 'string' ? `'${value}'` : String(value);
}

class Undone extends Error {}

/** What a statement finds, and how many rows it reads, where PostgreSQL shows this. */
async function findWith<Found>(
  { locks = [], sessions = [], prepared = [] }: Shown,
  find: (tx: Queryable) => Promise<Found>,
) {
  let found: Found | undefined;
  let rows = 0;
  const undone = db.transaction('READ COMMITTED', async (tx) => {
    const run = (text: string) => tx.query(Prisma.raw(text));
    for (const [place, shown] of [locks, sessions, prepared].entries()) {
      const table = TABLES[place] as string;
      await run(`CREATE TEMP TABLE ${table}`);
      for (const row of shown) {
        const values = Object.entries(row).map(([name, value]) => literal(name, value));
        await run(`INSERT INTO pg_temp.${table.split(' ')[0]} (${Object.keys(row)}) VALUES (${values})`);
      }
    }
    const counted: Queryable = {
      ...tx,
      async query<Row>(statement: Prisma.Sql) {
        const answer = await tx.query<Row>(statement);
        rows += answer.length;
        return answer;
      },
    };
    found = await find(counted);
    throw new Undone();
  });
  await undone.catch((error) => {
    if (!(error instanceof Undone)) throw error;
  });
  return { found: found as Found, rows };
}

/** No process of this machine has such a number. */
const PID = 2_000_000_001;

describe('the leader', () => {
  const lock = (): Partial<Lock> => ({
    locktype: 'advisory',
    database: facts.database,
    classid: 0,
    objid: 1_968_399_458,
    objsubid: 1,
    granted: true,
    pid: PID,
  });
  const session: Partial<Session> = {
    pid: PID,
    usename: 'ada',
    application_name: `userdir leads the feed: ${PID}`,
    client_addr: '10.1.2.3',
    state: 'idle',
    backend_start: 60,
    state_change: 7,
  };
  const find = (lockIs: Partial<Lock> = {}, sessionIs: Partial<Session> = {}) =>
    findWith({ locks: [{ ...lock(), ...lockIs }], sessions: [{ ...session, ...sessionIs }] }, findLeader);

  test('is the session with its lock, and who gave its name to it is told', async () => {
    const { found } = await find();
    expect(found).toMatchObject({ pid: PID, role: 'ada', address: '10.1.2.3', isNamed: true });
    expect(Math.round(found?.seconds ?? 0)).toBe(60);
    expect(Math.round(found?.silentSeconds ?? 0)).toBe(7);
  });

  test('is silent since its last statement, and not at all during one; it is not known of a session that one may not see', async () => {
    expect((await find({}, { state: 'active' })).found?.silentSeconds).toBe(0);
    expect((await find({}, { state: null })).found?.silentSeconds).toBeNull();
  });

  test('is named by its own number alone', async () => {
    for (const name of ['psql', 'userdir leads the feed: ', `userdir leads the feed: ${PID + 1}`])
      expect((await find({}, { application_name: name })).found?.isNamed).toBe(false);
  });

  test.each<[string, () => Partial<Lock>]>([
    ['of another kind', () => ({ locktype: 'object' })],
    ['of two numbers', () => ({ classid: 1 })],
    ['of another number', () => ({ objid: 1_968_399_459 })],
    ['of a transaction of two numbers', () => ({ objsubid: 2 })],
    ['that is waited for', () => ({ granted: false })],
    ['in another database', () => ({ database: facts.database + 1 })],
    ['of a process that is gone', () => ({ pid: PID + 1 })],
  ])('is not who has a lock %s', async (_, other) => {
    expect((await find(other())).found).toBeNull();
  });

  test('is ended where it is named, and silent for longer than asked', async () => {
    const endedAfter = async (seconds: number, is: Partial<Session> = {}) => {
      const shown = { locks: [lock()], sessions: [{ ...session, ...is }] };
      const { found, rows } = await findWith(shown, (tx) => endSilentLeader(tx, seconds));
      // There is no such process, so none was ended.
      expect(found).toBe(false);
      return rows;
    };
    expect(await endedAfter(6)).toBe(1);
    expect(await endedAfter(9)).toBe(0);
    expect(await endedAfter(6, { application_name: 'psql' })).toBe(0);
    expect(await endedAfter(6, { state: 'active' })).toBe(0);
    expect(await endedAfter(6, { state: null })).toBe(0);
  });

  test('gives its name to its session', async () => {
    const { found } = await findWith({}, async (tx) => {
      await nameLeader(tx);
      const [row] = await tx.query<{ name: string; pid: number }>(
        Prisma.sql`SELECT current_setting('application_name') AS name, pg_backend_pid() AS pid`,
      );
      return row;
    });
    expect(found?.name).toBe(`userdir leads the feed: ${found?.pid}`);
  });
});

describe('who writes changes', () => {
  const lock = (is: Partial<Lock> = {}): Partial<Lock> => ({
    locktype: 'relation',
    database: facts.database,
    relation: facts.changes,
    mode: 'RowExclusiveLock',
    granted: true,
    pid: PID,
    virtualtransaction: '3/7',
    ...is,
  });
  const session = { pid: PID, usename: 'ada', application_name: 'backend', state: 'active', xact_start: 9 };

  test('has the lock of a writer on the table of changes, and is there once', async () => {
    const locks = [lock(), lock(), lock({ virtualtransaction: '4/1' })];
    expect((await findWith({ locks }, findWriters)).found.sort()).toEqual(['3/7', '4/1']);
  });

  test.each<[string, () => Partial<Lock>]>([
    ['of another kind', () => ({ locktype: 'tuple' })],
    ['on another table', () => ({ relation: facts.users })],
    ['of a reader', () => ({ mode: 'AccessShareLock' })],
    ['that is waited for', () => ({ granted: false })],
    ['in another database', () => ({ database: facts.database + 1 })],
  ])('is not who has a lock %s', async (_, other) => {
    const shown = { locks: [lock(other())], sessions: [session] };
    expect((await findWith(shown, findWriters)).found).toEqual([]);
    expect((await findWith(shown, findOldestWriter)).found).toBeNull();
  });

  test('longest is named with the session, whatever else is open', async () => {
    const locks = [
      lock({ pid: PID + 1, virtualtransaction: '4/1' }),
      lock(),
      lock({ pid: PID + 2, virtualtransaction: '5/1' }),
    ];
    const sessions = [
      { ...session, pid: PID + 1, application_name: 'young', xact_start: 5 },
      session,
      { ...session, pid: PID + 2, application_name: 'younger', xact_start: 1 },
      { ...session, pid: PID + 3, application_name: 'a reader', xact_start: 500 },
    ];
    const { found } = await findWith({ locks, sessions }, findOldestWriter);
    expect(found).toMatchObject({ pid: PID, name: 'backend', role: 'ada', state: 'active' });
    expect(Math.round(found?.seconds ?? 0)).toBe(9);
  });

  test('is told as far as one may see the session', async () => {
    const { found } = await findWith({ locks: [lock()], sessions: [{ pid: PID, usename: 'ada' }] }, findOldestWriter);
    expect(found).toEqual({ pid: PID, name: '', role: 'ada', state: 'unknown', seconds: 0 });
  });

  test('is not the session that asks', async () => {
    const { found } = await findWith({}, async (tx) => {
      const [own] = await tx.query<{ pid: number }>(Prisma.sql`SELECT pg_backend_pid() AS pid`);
      const pid = own?.pid as number;
      await tx.query(
        Prisma.raw(`INSERT INTO pg_temp.pg_locks (locktype, database, relation, mode, granted, pid, virtualtransaction)
        VALUES ('relation', ${facts.database}, ${facts.changes}, 'RowExclusiveLock', true, ${pid}, '3/7')`),
      );
      return findOldestWriter(tx);
    });
    expect(found).toBeNull();
  });

  test('may be a prepared transaction, which has no process: it is found by the lock of its own number', async () => {
    const ofId = { locktype: 'transactionid', mode: 'ExclusiveLock', granted: true };
    const locks = [
      lock({ pid: null }),
      { ...ofId, pid: null, virtualtransaction: '3/7', transactionid: '812' },
      // Of others: another prepared one, a session with the same virtual number, and another kind of lock.
      { ...ofId, pid: null, virtualtransaction: '3/8', transactionid: '813' },
      { ...ofId, pid: PID, virtualtransaction: '3/7', transactionid: '814' },
      { locktype: 'tuple', pid: null, virtualtransaction: '3/7', transactionid: '815', granted: true },
    ];
    const prepared = [812, 813, 814, 815].map((id) => ({
      gid: `prepared ${id}`,
      owner: 'grace',
      transaction: String(id),
      prepared: id === 812 ? 30 : 300,
    }));
    const { found } = await findWith({ locks, prepared }, findOldestWriter);
    expect(found).toMatchObject({ pid: null, name: 'prepared 812', role: 'grace', state: 'prepared' });
    expect(Math.round(found?.seconds ?? 0)).toBe(30);
  });
});
