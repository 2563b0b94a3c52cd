import { setTimeout as sleep } from 'node:timers/promises';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database, Session } from '../db/database.js';
import { isNotPermitted } from '../db/failures.js';
import { FROZEN_LEADER_SECONDS } from '../domain/bounds.js';
import { RESTORED } from '../domain/changes.js';
import * as sql from './changes.sql.js';
import type { Pruning } from './pruning.js';
import type { Publication, PublisherEngine } from './publication.js';

/** The leader waits so long between two looks at the sequence: while changes come, and while none has come for long. */
const BUSY_MS = 20;
const IDLE_MS = 100;
/** It looks so often whether the open transactions have ended, at first and at last. */
const MIN_SETTLE_MS = 2;
const MAX_SETTLE_MS = 200;
/** Another process asks so often whether the leader has gone. */
const LEAD_RETRY_MS = 1_000;
/** It asks so often while a reader waits: a leader that is there publishes sooner. */
const HURRY_MS = 200;
/** A reader waits so long for committed changes to be published, also while no process is known to publish. */
const WAIT_MS = 1_000;
const LEADERLESS_WAIT_MS = 5_000;

/** Who publishes, as far as this process knows. */
type Leader = 'this process' | 'another process' | 'nobody known';

/**
 * Publishes in one process of all that share a database, the leader; the others are told. Ids precede commits: the leader reads the last id,
 * then takes a transaction id of its own, and publishes the first when no transaction up to the second is open: all that have one of these ids
 * have ended. One statement does that where no other transaction is open. Where it takes long, the leader looks at the table's locks, which only
 * writers of changes have.
 * NOTIFY by writers would make their commits wait for each other.
 */
export function createLeaderPublisher(
  db: Database,
  publication: Publication,
  pruning: Pruning,
  onFailure: OnFailure,
): PublisherEngine {
  const inBackground = createBackground(onFailure);
  let isStarted = false;
  let leader: Leader = 'nobody known';
  /** The number of readers that wait for a publication. */
  let waiting = 0;

  /** Ends with the session: from then on this process neither leads, nor knows of a leader. */
  async function takePart(session: Session): Promise<void> {
    try {
      await session.listen(sql.PUBLISHED_CHANNEL, (text) => {
        if (leader !== 'this process') publication.announce(Number(text));
      });
      await followUntilLeader(session);
      await lead(session);
    } finally {
      leader = 'nobody known';
    }
  }

  /** Follows the leader until this process can be the next one. */
  async function followUntilLeader(session: Session): Promise<void> {
    const isShared = await session.isShared();
    while (isShared || !(await sql.tryToLead(session))) {
      const feed = await sql.readFeed(session);
      publication.announce(feed.published, feed.last);
      const isLed = (await watchLeader(session, report)) || isShared;
      leader = isLed ? 'another process' : 'nobody known';
      for (let ms = 0; ms < LEAD_RETRY_MS && (ms === 0 || waiting === 0); ms += HURRY_MS)
        await pause(HURRY_MS, session);
    }
  }

  async function lead(session: Session): Promise<void> {
    if (await session.isDirect()) await sql.nameLeader(session);
    leader = 'this process';
    pruning.schedule(() => leader === 'this process');
    // It may have been replaced or promoted while this process ran.
    if ((await sql.recogniseDatabase(session, '', 'server')) === 'restored')
      void inBackground('Recognising the database', () => Promise.reject(new Error(RESTORED)));
    // Begins a new timeline where the database may have lost changes.
    publication.announce(await sql.publishChanges(session, 0));
    for (;;) {
      const { last, published, unsettled } = await sql.publishSettled(session, publication.published());
      if (published !== null) publication.announce(published);
      if (unsettled !== null) {
        publication.awaitNext();
        await settle(session, unsettled);
        publication.announce(await sql.publishChanges(session, last));
      }
      await pause(publication.isBusy() ? BUSY_MS : IDLE_MS, session);
    }
  }

  function report(sentence: string): Promise<void> {
    return inBackground('Watching the process that publishes changes', () => Promise.reject(new Error(sentence)));
  }

  return {
    start() {
      if (isStarted) return;
      isStarted = true;
      db.keepSession(takePart);
    },

    async waitFor(upto) {
      const isLed = leader !== 'nobody known';
      if (!isStarted || publication.published() >= upto) return;
      // A transaction that stays open holds it up.
      if (isLed && publication.lagSeconds() * 1_000 > WAIT_MS) return;
      waiting += 1;
      await untilPublished(publication, upto, isLed ? WAIT_MS : LEADERLESS_WAIT_MS);
      waiting -= 1;
    },

    ended: () => Promise.resolve(),
  };
}

/** Waits until the changes up to an id are published, or for so long. */
async function untilPublished(publication: Publication, upto: number, ms: number): Promise<void> {
  let isDone = () => {};
  const done = new Promise<void>((resolve) => {
    isDone = resolve;
  });
  const stop = publication.listen((now) => now >= upto && isDone());
  const timer = setTimeout(isDone, ms);
  await done;
  clearTimeout(timer);
  stop();
}

/** Waits until every transaction up to one has ended, of those that have written changes. */
async function settle(session: Session, xid: string): Promise<void> {
  let writers: string[] | null = null;
  for (let ms = MIN_SETTLE_MS; ; ms = Math.min(2 * ms, MAX_SETTLE_MS)) {
    await pause(ms, session);
    if (await sql.haveEnded(session, xid)) return;
    // A transaction that has nothing to do with changes, or that is of another database, may be open for long.
    if (ms < MIN_SETTLE_MS * 4) continue;
    const open = await sql.findWriters(session);
    writers ??= open;
    if (!writers.some((writer) => open.includes(writer))) return;
  }
}

type Report = (sentence: string) => Promise<void>;

/** True if there is a leader. One that is frozen is ended. */
async function watchLeader(session: Session, report: Report): Promise<boolean> {
  const leader = await sql.findLeader(session);
  if (leader !== null) await endIfFrozen(session, leader, report);
  return leader !== null;
}

/** Ends the session of a frozen leader, which frees its lock. A leader that wakes up publishes nothing, because it acts in that session only. */
async function endIfFrozen(session: Session, leader: sql.Leader, report: Report): Promise<void> {
  const { pid, role, silentSeconds, isNamed } = leader;
  const reportOf = (what: string) => report(`The session ${pid} of role ${role} publishes changes, ${what}`);
  if (silentSeconds === null)
    return reportOf('and this role may not see whether it is alive. Give both processes the same role.');
  if (silentSeconds < FROZEN_LEADER_SECONDS) return;
  const silent = `and has been silent for ${Math.round(silentSeconds)} s`;
  if (!isNamed)
    return reportOf(
      `${silent}. A pooler may have lent it to another client, so it is not ended: set DATABASE_DIRECT_URL.`,
    );
  try {
    if (await sql.endSilentLeader(session, FROZEN_LEADER_SECONDS)) await reportOf(`${silent}, so it was ended.`);
  } catch (error) {
    if (!isNotPermitted(error)) throw error;
    await reportOf(`${silent}. This role may not end it. As a superuser: SELECT pg_terminate_backend(${pid}).`);
  }
}

function pause(ms: number, { signal }: Session): Promise<void> {
  return sleep(ms, undefined, { ref: false, signal });
}
