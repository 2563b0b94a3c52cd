import type { FastifyInstance, FastifyReply } from 'fastify';
import type { Redis } from 'ioredis';
import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible';
import { AppError } from '../errors.js';
import type { Logger } from '../telemetry/logger.js';
import type { Hooks } from './pipeline.js';

export interface RateLimits {
  /** The minute begins with the first request. Null for no limit. */
  readonly requestsPerMinute: number | null;
  /** The Redis in which several processes count together. Without it, each counts by itself. */
  readonly redisUrl?: string;
}

/** What the metrics show of Redis. */
export interface RedisUsage {
  readonly isUp: () => boolean;
  /** Requests that a process counted by itself, because Redis was away or slow. */
  readonly failures: () => number;
}

export interface RateLimiting {
  readonly hooks: Hooks;
  /** Null without Redis. */
  readonly redis: RedisUsage | null;
}

/** Of each limit of requests. */
export const WINDOW_S = 60;
/** A request waits this long for Redis to count it. After that it is counted in this process. */
const COUNT_TIMEOUT_MS = 100;
/** A silent connection is replaced after this time. */
const SILENCE_MS = 500;
const RETRY_MS = 500;

/**
 * Limits the requests of a project in a minute, by its own limit or that of the settings, before they are queued. RATE_LIMITED. Every answer tells
 * what is left (draft-ietf-httpapi-ratelimit-headers-10). http/authentication.ts counts requests without valid credentials.
 */
export async function limitRates(app: FastifyInstance, config: RateLimits, log: Logger): Promise<RateLimiting> {
  const { requestsPerMinute, redisUrl } = config;
  // Projects have different limits, so the limiter only counts.
  const budget = { points: Number.MAX_SAFE_INTEGER, duration: WINDOW_S, keyPrefix: 'userdir:requests' };
  const alone = new RateLimiterMemory(budget);
  let consume = (project: string) => alone.consume(project);
  let redis: RedisUsage | null = null;
  if (redisUrl !== undefined) {
    const storeClient = await connectRedis(redisUrl, log);
    app.addHook('onClose', () => storeClient.disconnect());
    const together = new RateLimiterRedis({ ...budget, storeClient, rejectIfRedisNotReady: true });
    let failures = 0;
    redis = { isUp: () => storeClient.status === 'ready', failures: () => failures };
    // While Redis is away, each service counts by itself and allows the whole budget.
    consume = (project) =>
      together.consume(project).catch(() => {
        failures += 1;
        return alone.consume(project);
      });
  }

  async function count(project: string, limit: number, reply: FastifyReply): Promise<void> {
    const { consumedPoints, msBeforeNext } = await consume(project);
    const seconds = secondsUntil(msBeforeNext);
    reply.headers({
      'ratelimit-policy': `"project";q=${limit};w=${WINDOW_S}`,
      ratelimit: `"project";r=${Math.max(limit - consumedPoints, 0)};t=${seconds}`,
    });
    if (consumedPoints <= limit) return;
    throw new AppError('RATE_LIMITED', `More than ${limit} requests of this project in a minute.`, {
      headers: { 'retry-after': seconds },
    });
  }

  const hooks: Hooks = {
    preParsing({ scope }, reply, payload, done) {
      const limit = scope?.requestsPerMinute ?? requestsPerMinute;
      if (!scope || limit === null) return done(null, payload);
      count(scope.appId, limit, reply).then(() => done(null, payload), done);
    },
  };
  return { hooks, redis };
}

/** At most the window: where the clock of this machine was put back, a minute seems to end much later. */
export const secondsUntil = (ms: number): string => String(Math.min(Math.ceil(ms / 1_000), WINDOW_S));

/** A client that reconnects by itself. While it is not connected, every command fails at once. */
async function connectRedis(url: string, log: Logger): Promise<Redis> {
  // Loaded only here, because most services run without Redis.
  const { Redis: Client } = await import('ioredis');
  const client = new Client(url, {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    commandTimeout: COUNT_TIMEOUT_MS,
    connectTimeout: SILENCE_MS,
    socketTimeout: SILENCE_MS,
    retryStrategy: () => RETRY_MS,
  });
  let isAway = false;
  client.on('error', (error: NodeJS.ErrnoException) => {
    if (!isAway) log.warn({ reason: error.message || error.code }, 'Redis is away; each process counts by itself.');
    isAway = true;
  });
  client.on('ready', () => {
    if (isAway) log.info('Redis is back; the processes count together.');
    isAway = false;
  });
  return client;
}
