import { setTimeout as sleep } from 'node:timers/promises';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database, Session } from '../db/database.js';
import { isNotPermitted } from '../db/failures.js';
import { RESTORED } from '../domain/changes.js';
import * as sql from './changes.sql.js';

/** The leader waits so long between two looks at the sequence: while changes come, and while none has come for long. */
const BUSY_MS = 20;
const IDLE_MS = 100;
/** It counts as busy for so long after a change, and while there are listeners. */
const BUSY_FOR_MS = 5_000;
/** It looks so often whether the open transactions have ended, at first and at last. */
const MIN_SETTLE_MS = 2;
const MAX_SETTLE_MS = 200;
/** Another process asks so often whether the leader has gone. */
const LEAD_RETRY_MS = 1_000;
/** It asks so often while a reader waits: a leader that is there publishes sooner. */
const HURRY_MS = 200;
/** A leader that is silent for so long is frozen. */
const SILENT_SECONDS = 10;
/** A reader waits so long for committed changes to be published, also while no process is known to publish. */
const WAIT_MS = 1_000;
const LEADERLESS_WAIT_MS = 5_000;
const PRUNE_INTERVAL_MS = 600_000;

/**
 * Settles up to where the feed can be read, in one process of all that share a database; the others are told. Ids precede commits:
 * the leader reads the last id, then takes a transaction id of its own, and publishes the first when no transaction up to the second is open:
 * all that have one of these ids have ended. Where that takes long, it looks at the table's locks, which only writers of changes have.
 * NOTIFY by writers would make their commits wait for each other. This process also runs `deleteExpired` from time to time.
 */
export function createChangePublisher(
  db: Database,
  deleteExpired: (signal: AbortSignal) => Promise<void>,
  onFailure: OnFailure,
) {
  const inBackground = createBackground(onFailure);
  const listeners = new Set<(published: number) => void>();
  const isEmbedded = db.engineUsage() !== null;
  const stopped = new AbortController();
  /** Ends the rest of the embedded database, which publishes for listeners only. */
  let wake = () => {};
  let published = 0;
  let isStarted = false;
  let leads = false;
  /** True while this process or another one is known to publish. */
  let isLed = false;
  /** The number of readers that wait for a publication. */
  let waiting = 0;
  let busyUntil = 0;
  let pendingSince: number | null = null;
  let running: Promise<void> = Promise.resolve();
  let pruning: Promise<void> = Promise.resolve();
  let pruneTimer: NodeJS.Timeout | undefined;

  function announce(upto: number, last = upto): void {
    if (last <= upto) pendingSince = null;
    else pendingSince ??= performance.now();
    if (upto === published) return;
    published = upto;
    busyUntil = performance.now() + BUSY_FOR_MS;
    for (const listener of [...listeners]) listener(upto);
  }

  /** For how long there have been changes that are not published, in seconds, as far as this process knows. */
  const lagSeconds = () => (pendingSince === null ? 0 : (performance.now() - pendingSince) / 1_000);
  const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { ref: false, signal });

  /** Ends with the session: from then on this process neither leads, nor knows of a leader. */
  async function followLeader(session: Session): Promise<void> {
    try {
      await leadInTurn(session);
    } finally {
      leads = false;
      isLed = false;
    }
  }

  async function leadInTurn(session: Session): Promise<void> {
    await session.listen(sql.PUBLISHED_CHANNEL, (text) => {
      if (!leads) announce(Number(text));
    });
    const isShared = await session.isShared();
    while (isShared || !(await sql.tryToLead(session))) {
      const feed = await sql.readFeed(session);
      announce(feed.published, feed.last);
      isLed = (await watchLeader(session)) || isShared;
      for (let ms = 0; ms < LEAD_RETRY_MS && (ms === 0 || waiting === 0); ms += HURRY_MS)
        await pause(HURRY_MS, session.signal);
    }
    if (await session.isDirect()) await sql.nameLeader(session);
    leads = true;
    isLed = true;
    schedulePruning();
    // It may have been replaced or promoted while this process ran.
    if ((await sql.recogniseDatabase(session, '', 'server')) === 'restored')
      void inBackground('Recognising the database', () => Promise.reject(new Error(RESTORED)));
    // Begins a new timeline where the database may have lost changes.
    announce(await sql.publishChanges(session, 0));
    await publishAll(session);
  }

  /** True if there is a leader. */
  async function watchLeader(session: Session): Promise<boolean> {
    const leader = await sql.findLeader(session);
    if (leader !== null) await endIfFrozen(session, leader);
    return leader !== null;
  }

  /** Ends the session of a frozen leader, which frees its lock. A leader that wakes up publishes nothing, because it acts in that session only. */
  async function endIfFrozen(session: Session, leader: sql.Leader): Promise<void> {
    const { pid, role, silentSeconds, isNamed } = leader;
    const report = (what: string) =>
      inBackground('Watching the process that publishes changes', () =>
        Promise.reject(new Error(`The session ${pid} of role ${role} publishes changes, ${what}`)),
      );
    if (silentSeconds === null)
      return report('and this role may not see whether it is alive. Give both processes the same role.');
    if (silentSeconds < SILENT_SECONDS) return;
    const silent = `and has been silent for ${Math.round(silentSeconds)} s`;
    if (!isNamed)
      return report(
        `${silent}. A pooler may have lent it to another client, so it is not ended: set DATABASE_DIRECT_URL.`,
      );
    try {
      if (await sql.endSilentLeader(session, SILENT_SECONDS)) await report(`${silent}, so it was ended.`);
    } catch (error) {
      if (!isNotPermitted(error)) throw error;
      await report(`${silent}. This role may not end it. As a superuser: SELECT pg_terminate_backend(${pid}).`);
    }
  }

  async function publishAll(session: Session): Promise<void> {
    for (;;) {
      const last = await sql.lastChangeId(session);
      if (last > published) {
        pendingSince ??= performance.now();
        await settle(session);
        announce(await sql.publishChanges(session, last));
      }
      const isBusy = listeners.size > 0 || performance.now() < busyUntil;
      await pause(isBusy ? BUSY_MS : IDLE_MS, session.signal);
    }
  }

  /** Waits until every transaction has ended that was given a change before this call. */
  async function settle(session: Session): Promise<void> {
    const xid = await sql.takeTransactionId(session);
    let writers: string[] | null = null;
    for (let ms = MIN_SETTLE_MS; !(await sql.haveEnded(session, xid)); ms = Math.min(2 * ms, MAX_SETTLE_MS)) {
      await pause(ms, session.signal);
      // A transaction that has nothing to do with changes, or that is of another database, may be open for long.
      if (ms < MIN_SETTLE_MS * 4) continue;
      const open = await sql.findWriters(session);
      writers ??= open;
      if (!writers.some((writer) => open.includes(writer))) return;
    }
  }

  /** One session does everything, so whatever this statement sees is committed, and no other transaction is open. */
  async function publishEmbedded(): Promise<void> {
    const last = await sql.lastChangeId(db);
    if (last > published) announce(await sql.publishChanges(db, last));
  }

  async function publishEmbeddedWhileListening(): Promise<void> {
    announce(await sql.publishChanges(db, 0));
    schedulePruning();
    while (!stopped.signal.aborted) {
      if (listeners.size === 0)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      else await pause(BUSY_MS, stopped.signal);
      if (listeners.size > 0) await publishEmbedded();
    }
  }

  function pruneInBackground(): Promise<void> {
    pruning = pruning.then(() => inBackground('Deleting what has expired', () => deleteExpired(stopped.signal)));
    return pruning;
  }

  /** Does nothing once closed: a session may still become the leader while the database closes. */
  function schedulePruning(): void {
    if (stopped.signal.aborted) return;
    void pruneInBackground();
    pruneTimer ??= setInterval(() => {
      if (leads || isEmbedded) void pruneInBackground();
    }, PRUNE_INTERVAL_MS).unref();
  }

  return {
    /** Starts to publish, or to follow the process that does. Called by the first reader, or when a server opens its database. */
    start(): void {
      if (isStarted) return;
      isStarted = true;
      if (isEmbedded) {
        running = inBackground('Publishing changes', () =>
          publishEmbeddedWhileListening().catch((error) => {
            if (stopped.signal.aborted) return;
            isStarted = false;
            throw error;
          }),
        );
      } else db.keepSession(followLeader);
    },

    /** Calls back with up to where is published, whenever that has changed. Returns a function that ends it. */
    listen(listener: (published: number) => void): () => void {
      listeners.add(listener);
      wake();
      return () => void listeners.delete(listener);
    },

    /** Waits until the changes up to an id are published, unless a transaction that stays open holds them up, or another process publishes. */
    async waitFor(upto: number): Promise<void> {
      if (isEmbedded) return publishEmbedded();
      if (!isStarted || published >= upto || (isLed && lagSeconds() * 1_000 > WAIT_MS)) return;
      let isDone = () => {};
      const done = new Promise<void>((resolve) => {
        isDone = resolve;
      });
      const stop = this.listen((now) => now >= upto && isDone());
      const timer = setTimeout(isDone, isLed ? WAIT_MS : LEADERLESS_WAIT_MS);
      waiting += 1;
      await done;
      waiting -= 1;
      clearTimeout(timer);
      stop();
    },

    lagSeconds,

    prune: pruneInBackground,

    async close(): Promise<void> {
      stopped.abort();
      wake();
      clearInterval(pruneTimer);
      await Promise.all([running, pruning]);
    },
  };
}

/** Tells followers when their project has new changes: one statement for all projects that are followed, at each publication. */
export function createNews(db: Database, listen: (listener: (published: number) => void) => () => void) {
  const waiting = new Map<number, Set<() => void>>();
  let checked: number | null = null;
  let stopListening: (() => void) | null = null;
  let checking: Promise<void> = Promise.resolve();

  function wake(projectIds: Iterable<number>): void {
    for (const projectId of projectIds) for (const resolve of waiting.get(projectId) ?? []) resolve();
  }

  async function check(published: number): Promise<void> {
    const from = checked;
    checked = published;
    // A smaller number is that of a database that was restored.
    if (from === null || published < from) return wake([...waiting.keys()]);
    await sql.findChangedProjects(db, [...waiting.keys()], from, published).then(wake, () => wake([...waiting.keys()]));
  }

  return {
    /** `wait` resolves once the project may have changes that were not published when this was called, or when `signal` aborts. */
    of(projectId: number, signal: AbortSignal) {
      stopListening ??= listen((published) => {
        checking = checking.then(() => check(published));
      });
      let resolve = () => {};
      const woken = new Promise<void>((done) => {
        resolve = done;
      });
      const ofProject = waiting.get(projectId) ?? new Set();
      waiting.set(projectId, ofProject.add(resolve));
      signal.addEventListener('abort', resolve, { once: true });
      if (signal.aborted) resolve();
      return {
        wait: () => woken,
        forget() {
          signal.removeEventListener('abort', resolve);
          ofProject.delete(resolve);
          if (ofProject.size === 0) waiting.delete(projectId);
          if (waiting.size > 0 || stopListening === null) return;
          stopListening();
          stopListening = null;
          checked = null;
        },
      };
    },
  };
}
