import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../errors.js';
import type { Permission, ProjectScope } from '../domain/projects.js';
import type { Projects } from '../services/projects.js';
import { readCredentials } from './authentication.js';
import { createPlaces, type Lifetime, type Lifetimes } from './lifetime.js';

/** Answers that stay open: streams of Server-Sent Events. */

export interface StreamLimits {
  /** Open streams of one project, in this process. */
  readonly perProject: number;
  /** Of all projects. */
  readonly inAll: number;
}

const LIMITS: StreamLimits = { perProject: 2_000, inAll: 10_000 };
/** How often a comment is sent on a stream, so that nothing on its way counts it as idle. */
const HEARTBEAT_MS = 15_000;
/** Also what a stream begins with, once its place in the feed is settled: the client sees the headers then. */
export const HEARTBEAT = ': \n\n';

export const EVENT_STREAM = 'text/event-stream';

/** Whether an Accept header names a media type. */
export function accepts(header: string | undefined, type: string): boolean {
  return (header ?? '').split(',').some((each) => each.replace(/;.*/s, '').trim().toLowerCase() === type);
}

/** A stream that was admitted. Its permission is that of its credentials. */
export type OpenStream = Lifetime<ProjectScope>;

export interface Streams {
  /**
   * Answers with a stream of the texts that `events` makes. Each is made when the client has read most of those before it. RATE_LIMITED
   * where too many are open.
   */
  send(
    request: FastifyRequest,
    reply: FastifyReply,
    permission: Permission,
    events: (stream: OpenStream) => AsyncGenerator<string, void>,
  ): FastifyReply;
  /** How many are open. */
  count(): number;
}

/** Call it before the routes are registered. */
export function createStreams(
  app: FastifyInstance,
  projects: Projects,
  lifetimes: Lifetimes,
  limits: StreamLimits = LIMITS,
): Streams {
  const places = createPlaces({ perHolder: limits.perProject, inAll: limits.inAll }, () => tooMany(limits));
  const beats = new Set<() => void>();
  const timer = setInterval(() => {
    for (const beat of beats) beat();
  }, HEARTBEAT_MS).unref();
  app.addHook('onClose', async () => clearInterval(timer));

  return {
    count: places.count,
    send(request, reply, permission, events) {
      const { appId } = request.scope;
      // Null only without credentials, and then there is no scope.
      const credentials = readCredentials(request.headers) as NonNullable<ReturnType<typeof readCredentials>>;
      const terms = {
        tenant: appId,
        places,
        holder: appId,
        permission: `${appId} ${credentials.appSecret} ${permission}`,
        async permit() {
          const scope = await projects.authenticate(credentials);
          if (!scope.permits(permission))
            throw new AppError('FORBIDDEN', 'The App Secret has lost the scope for this.');
          return scope;
        },
        endsAtClose: true,
      };
      const stream = lifetimes.begin(request, reply, terms, async (open) => {
        for await (const text of withHeartbeats(events(open), beats)) await open.write(text);
      });
      return reply
        .headers({
          'content-type': `${EVENT_STREAM}; charset=utf-8`,
          // A proxy would collect the events.
          'x-accel-buffering': 'no',
          // Otherwise the connection would stay open after a stream that ends because the service closes.
          connection: 'close',
        })
        .send(stream);
    },
  };
}

/** The texts, and a heartbeat where none comes for long. */
async function* withHeartbeats(
  texts: AsyncGenerator<string, void>,
  beats: Set<() => void>,
): AsyncGenerator<string, void> {
  let wake = () => {};
  const beat = () => wake();
  beats.add(beat);
  try {
    for (;;) {
      let isThere = false;
      // Not Promise.race, which would keep something for each heartbeat until the text comes.
      const next = texts.next().finally(() => {
        isThere = true;
        wake();
      });
      // Awaited below; until then a rejection must not count as unhandled.
      next.catch(() => undefined);
      for (;;) {
        await new Promise<void>((resolve) => {
          wake = resolve;
          if (isThere) resolve();
        });
        if (isThere) break;
        yield HEARTBEAT;
      }
      const { done, value } = await next;
      if (done) return;
      yield value;
    }
  } finally {
    beats.delete(beat);
    await texts.return();
  }
}

function tooMany({ perProject }: StreamLimits): AppError {
  return new AppError('RATE_LIMITED', `streams: got more, expected at most ${perProject} of a project.`, {
    headers: { 'retry-after': '10' },
  });
}
