import type { FastifyInstance } from 'fastify';
import type { Redis } from 'ioredis';
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { RateLimitConfig } from '../config/config.js';
import { AppError } from '../errors.js';
import type { Logger } from '../telemetry/logger.js';

const WINDOW_S = 60;
/** How long a request waits to be counted by Redis before it is counted here. */
const COUNT_TIMEOUT_MS = 100;
/** How long a connection may be silent before it is replaced, and then between attempts. */
const SILENCE_MS = 500;
const RETRY_MS = 500;

/**
 * Lets a project make so many requests a minute and refuses those beyond with RATE_LIMITED, before they wait for their turn. What
 * is left is said in every answer (RateLimit headers, draft-ietf-httpapi-ratelimit-headers-10). Requests without right
 * credentials are nobody's and counted elsewhere (src/auth.ts). To be called before the routes are registered.
 */
export async function limitRates(app: FastifyInstance, config: RateLimitConfig, log: Logger): Promise<void> {
  const { requestsPerMinute, redisUrl } = config;
  const budget = { points: requestsPerMinute, duration: WINDOW_S, keyPrefix: 'userdir:requests' };
  let limiter: RateLimiterMemory | RateLimiterRedis = new RateLimiterMemory(budget);
  if (redisUrl !== undefined) {
    const storeClient = await connectRedis(redisUrl, log);
    app.addHook('onClose', () => storeClient.disconnect());
    // Without Redis nobody waits: until it is back each process allows the budget by itself.
    limiter = new RateLimiterRedis({
      ...budget,
      storeClient,
      rejectIfRedisNotReady: true,
      insuranceLimiter: limiter,
    });
  }

  /** What the project has used and has left, with this request; the limiter rejects with the same. */
  const count = (project: string): Promise<RateLimiterRes> =>
    limiter.consume(project).catch((rejection: unknown) => {
      if (rejection instanceof RateLimiterRes) return rejection;
      throw rejection;
    });

  app.addHook('preParsing', async ({ scope }, reply) => {
    if (!scope) return;
    const { consumedPoints, remainingPoints, msBeforeNext } = await count(scope.appId);
    const seconds = String(Math.ceil(msBeforeNext / 1_000));
    reply.headers({
      'ratelimit-policy': `"project";q=${requestsPerMinute};w=${WINDOW_S}`,
      ratelimit: `"project";r=${remainingPoints};t=${seconds}`,
    });
    if (consumedPoints <= requestsPerMinute) return;
    throw new AppError('RATE_LIMITED', `More than ${requestsPerMinute} requests of this project in a minute.`, {
      headers: { 'retry-after': seconds },
    });
  });
}

/** A client that connects by itself, again and again; as long as it is not connected, every command fails at once. */
async function connectRedis(url: string, log: Logger): Promise<Redis> {
  // Most services have no use for it.
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
