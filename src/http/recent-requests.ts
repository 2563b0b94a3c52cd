import { LRUCache } from 'lru-cache';
import {
  hasFailed,
  newestFirst,
  type RecentRequest,
  type Remembered,
  type RequestsQuestion,
} from '../domain/requests.js';
import type { Hooks } from './pipeline.js';

/** Counts a request of a project. */
type CountRequest = (appId: string, isFailure: boolean) => void;

/** How many of a project are kept. Those that failed have room of their own, so that successes do not push them out. */
const KEPT = { succeeded: 200, failed: 100 };
/** How many projects; those that have sent nothing for longest are forgotten. */
const MAX_PROJECTS = 200;
/** The most of one answer: a page of the dashboard has as many. */
const MOST_ANSWERED = 100;

export type RecentRequests = ReturnType<typeof createRecentRequests>;

/** The last requests of each project, in the memory of this process. */
export function createRecentRequests() {
  const since = Date.now();
  const projects = new LRUCache<string, Record<keyof typeof KEPT, Ring>>({ max: MAX_PROJECTS });

  function ringsOf(appId: string) {
    const known = projects.get(appId);
    if (known !== undefined) return known;
    const made = { succeeded: createRing(KEPT.succeeded), failed: createRing(KEPT.failed) };
    projects.set(appId, made);
    return made;
  }

  return {
    add(request: RecentRequest, isFailure: boolean): void {
      const rings = ringsOf(request.appId);
      (isFailure ? rings.failed : rings.succeeded).add(request);
    },

    /** The newest come first. */
    read({ appId, requestId, isFailed }: RequestsQuestion): Remembered {
      const asked = appId === null ? [...projects.values()] : [projects.peek(appId) ?? []].flat();
      const requests = asked
        .flatMap(({ succeeded, failed }) => (isFailed ? failed.all : [...failed.all, ...succeeded.all]))
        .filter(({ id }) => requestId === null || id === requestId)
        .sort(newestFirst)
        .slice(0, MOST_ANSWERED);
      return { since, requests };
    },
  };
}

interface Ring {
  readonly all: readonly RecentRequest[];
  add(request: RecentRequest): void;
}

/** A new one takes the place of the oldest. */
function createRing(size: number): Ring {
  const all: RecentRequest[] = [];
  let next = 0;
  return {
    all,
    add(request) {
      all[next] = request;
      next = (next + 1) % size;
    },
  };
}

/**
 * Counts the requests of each project, and remembers them in `recent` where something may ask for them. A request without valid credentials
 * belongs to no project.
 */
export function recordRequests(count: CountRequest, recent: RecentRequests | null): Hooks {
  return {
    onResponse(request, reply, done) {
      const { scope, failure: code, operation } = request;
      if (!scope) return done();
      const { statusCode: status } = reply;
      const isFailure = hasFailed({ status, code });
      count(scope.appId, isFailure);
      recent?.add(
        {
          appId: scope.appId,
          id: request.id,
          at: Date.now(),
          ms: Math.round(reply.elapsedTime * 10) / 10,
          method: request.method,
          route: request.routeOptions.url ?? 'none',
          operation: operation === null ? null : operation.name,
          cost: operation === null ? null : operation.cost,
          status,
          code,
          secret: scope.actor,
        },
        isFailure,
      );
      done();
    },
  };
}
