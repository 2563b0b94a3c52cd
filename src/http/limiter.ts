import cluster from 'node:cluster';
import { RateLimiterCluster, RateLimiterClusterMaster, RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';

/** Limits by the minute that all workers of a service share. */

export interface Limit {
  /** Tells limits apart. */
  readonly keyPrefix: string;
  readonly points: number;
  /** In seconds. */
  readonly duration: number;
}

/** Counts in this process or, in a worker, in the primary process. */
export type Limiter = RateLimiterMemory | RateLimiterCluster;

export function createLimiter(limit: Limit): Limiter {
  return cluster.isWorker ? new SharedLimiter(limit) : new RateLimiterMemory(limit);
}

/** To be called in the primary process, before it starts workers. */
export function shareLimits(): void {
  new RateLimiterClusterMaster();
}

/** A primary process that does not count in time is not waited for: the worker counts by itself. */
const COUNT_TIMEOUT_MS = 3_000;

class SharedLimiter extends RateLimiterCluster {
  readonly #own: RateLimiterMemory;

  constructor(limit: Limit) {
    super({ ...limit, timeoutMs: COUNT_TIMEOUT_MS });
    this.#own = new RateLimiterMemory(limit);
  }

  override consume(...args: Parameters<RateLimiterMemory['consume']>): Promise<RateLimiterRes> {
    return super.consume(...args).catch((rejection: unknown) => {
      if (rejection instanceof RateLimiterRes) throw rejection;
      return this.#own.consume(...args);
    });
  }
}
