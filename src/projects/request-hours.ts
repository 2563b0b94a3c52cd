import { setTimeout as sleep } from 'node:timers/promises';
import { createBackground, type OnFailure } from '../db/background.js';
import type { Database } from '../db/database.js';
import type { Queryable } from '../db/statements.js';
import type { ProjectScope } from '../domain/projects.js';
import type { RequestHour, Tally } from '../domain/requests.js';
import {
  addToHours,
  deleteOldHours,
  type HourOfProject,
  listHours,
  listProjectsWithOldHours,
} from './request-hours.sql.js';

const HOUR_MS = 3_600_000;
/** How often the counts are written. A process that is killed loses those since then. */
const FLUSH_MS = 30_000;
/** How long a stop waits for the last ones. */
const LAST_FLUSH_MS = 1_000;
/** How many go into one statement. */
const AT_ONCE = 500;
/** How many are kept while they cannot be written; what is beyond is not counted. */
const MAX_TALLIES = 100_000;

export type RequestHours = ReturnType<typeof createRequestHours>;

/**
 * Counts the requests, failures and logins of each project by the hour. A count is an addition in memory; they are written in the background,
 * those of all projects together. What cannot be written is kept for the next time.
 */
export function createRequestHours(db: Database, onFailure: OnFailure) {
  const inBackground = createBackground(onFailure);
  /** By the number of the hour, then by App ID. None is empty. */
  const hours = new Map<number, Map<string, Tally>>();
  let size = 0;
  let flushing: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  function tallyOf(appId: string): Tally {
    const hour = Math.floor(Date.now() / HOUR_MS);
    return hours.get(hour)?.get(appId) ?? begin(hour, appId);
  }

  function begin(hour: number, appId: string): Tally {
    const tally = { requests: 0, failures: 0, logins: 0 };
    if (size >= MAX_TALLIES) return tally;
    size += 1;
    const ofHour = hours.get(hour);
    if (ofHour === undefined) hours.set(hour, new Map([[appId, tally]]));
    else ofHour.set(appId, tally);
    return tally;
  }

  /** Takes away what was written. More may have been counted since. */
  function subtract({ appId, hour, ...written }: HourOfProject): void {
    const number = Date.parse(hour) / HOUR_MS;
    const ofHour = hours.get(number);
    const tally = ofHour?.get(appId);
    if (ofHour === undefined || tally === undefined) return;
    tally.requests -= written.requests;
    tally.failures -= written.failures;
    tally.logins -= written.logins;
    if (tally.requests + tally.logins > 0) return;
    size -= 1;
    ofHour.delete(appId);
    if (ofHour.size === 0) hours.delete(number);
  }

  async function writeAll(): Promise<void> {
    const counted = [...hours].flatMap(([number, ofHour]) => {
      const hour = new Date(number * HOUR_MS).toISOString();
      return Array.from(ofHour, ([appId, tally]) => ({ appId, hour, ...tally }));
    });
    for (let from = 0; from < counted.length; from += AT_ONCE) {
      const some = counted.slice(from, from + AT_ONCE);
      await addToHours(db, some);
      for (const each of some) subtract(each);
    }
  }

  /** Writes what was counted by now, once at a time. Never rejects. */
  function flush(): Promise<void> {
    flushing = flushing.then(() => inBackground('Writing the tallies of requests', writeAll));
    return flushing;
  }

  return {
    countRequest(appId: string, isFailure: boolean): void {
      const tally = tallyOf(appId);
      tally.requests += 1;
      if (isFailure) tally.failures += 1;
    },

    countLogin(appId: string): void {
      tallyOf(appId).logins += 1;
    },

    /** Each of the last 720 hours, the oldest first. The last half minute is missing. */
    list: (scope: ProjectScope): Promise<RequestHour[]> => listHours(db, scope.projectIdFor('inspect')),

    flush,

    /** Called once, when a server has opened its database. */
    start(): void {
      timer = setInterval(() => void flush(), FLUSH_MS).unref();
    },

    /** Writes the rest, unless the database does not answer. */
    async close(): Promise<void> {
      clearInterval(timer);
      await Promise.race([flush(), sleep(LAST_FLUSH_MS, undefined, { ref: false })]);
    },
  };
}

/** Deletes the old tallies of all projects. */
export async function deleteOldHoursOfAll(db: Queryable, signal: AbortSignal): Promise<void> {
  for (const projectId of await listProjectsWithOldHours(db)) if (!signal.aborted) await deleteOldHours(db, projectId);
}
