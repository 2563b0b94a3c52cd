import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AppError } from '../errors.js';
import type { Permission } from '../domain/projects.js';
import type { Projects } from '../services/projects.js';
import type { RunWithAdmission } from './admit-requests.js';
import { readCredentials } from './authentication.js';

/** Answers that stay open: streams of Server-Sent Events. */

export interface StreamLimits {
  /** Open streams of one project, in this process. */
  readonly perProject: number;
  /** Of all projects. */
  readonly inAll: number;
}

const LIMITS: StreamLimits = { perProject: 2_000, inAll: 10_000 };
/** How often the credentials of open streams are checked, so that a revoked secret ends them within a second. */
const CHECK_MS = 400;
/** How often a comment is sent on a stream, so that nothing on its way counts it as idle. */
const HEARTBEAT_MS = 15_000;
/** Also what a stream begins with, once its place in the feed is settled: the client sees the headers then. */
export const HEARTBEAT = ': \n\n';
/** After the end of its events, a client has this time to read them. */
const LINGER_MS = 1_000;
/** Bytes that wait in memory for a slow client, beyond the event that is being sent. */
const BUFFERED_BYTES = 4_096;

export const EVENT_STREAM = 'text/event-stream';

/** Whether an Accept header names a media type. */
export function accepts(header: string | undefined, type: string): boolean {
  return (header ?? '').split(',').some((each) => each.replace(/;.*/s, '').trim().toLowerCase() === type);
}

/** A stream that was admitted. */
export interface OpenStream {
  /** Aborts when the stream has to end; the reason is an AppError, unless the client has gone. */
  readonly signal: AbortSignal;
  /** Whether the client has gone, so that nothing can be sent. */
  isGone(): boolean;
  /** Runs work for the stream in the queue of its project. */
  admit<Result>(work: () => Promise<Result>): Promise<Result>;
}

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

interface Entry {
  readonly appId: string;
  readonly permission: Permission;
  readonly credentials: { readonly appId: string; readonly appSecret: string };
  end(reason: AppError): void;
  beat(): void;
}

/** Call it before the routes are registered. */
export function createStreams(
  app: FastifyInstance,
  projects: Projects,
  runWithAdmission: RunWithAdmission,
  limits: StreamLimits = LIMITS,
): Streams {
  const open = new Set<Entry>();
  const perProject = new Map<string, number>();
  let isClosing = false;
  let checking = false;

  function count(appId: string, change: 1 | -1): void {
    const now = (perProject.get(appId) ?? 0) + change;
    if (now === 0) perProject.delete(appId);
    else perProject.set(appId, now);
  }

  /** One check for all streams with the same credentials, and one statement for all checks. */
  async function checkCredentials(): Promise<void> {
    const groups = new Map<string, Entry[]>();
    for (const entry of open) {
      const key = `${entry.credentials.appId} ${entry.credentials.appSecret}`;
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [entry]);
      else group.push(entry);
    }
    await Promise.all([...groups.values()].map(checkGroup));
  }

  async function checkGroup(entries: Entry[]): Promise<void> {
    const [{ credentials }] = entries as [Entry];
    try {
      const scope = await projects.authenticate(credentials);
      for (const entry of entries) {
        if (!scope.permits(entry.permission))
          entry.end(new AppError('FORBIDDEN', 'The App Secret has lost the scope for this.'));
      }
    } catch (error) {
      // While the database is away, nothing is read either.
      if (!(error instanceof AppError) || error.code === 'UNAVAILABLE') return;
      for (const entry of entries) entry.end(error);
    }
  }

  const checkTimer = setInterval(() => {
    if (checking || open.size === 0) return;
    checking = true;
    void checkCredentials().finally(() => {
      checking = false;
    });
  }, CHECK_MS).unref();
  const beatTimer = setInterval(() => {
    for (const entry of open) entry.beat();
  }, HEARTBEAT_MS).unref();
  app.addHook('preClose', async () => {
    isClosing = true;
    for (const entry of [...open]) entry.end(closing());
  });
  app.addHook('onClose', async () => {
    clearInterval(checkTimer);
    clearInterval(beatTimer);
  });

  function register(request: FastifyRequest, reply: FastifyReply, permission: Permission) {
    const { appId } = request.scope;
    if ((perProject.get(appId) ?? 0) >= limits.perProject || open.size >= limits.inAll)
      throw new AppError('RATE_LIMITED', `streams: got more, expected at most ${limits.perProject} of a project.`, {
        headers: { 'retry-after': '10' },
      });
    // Null only without credentials, and then there is no scope.
    const credentials = readCredentials(request.headers) as NonNullable<ReturnType<typeof readCredentials>>;
    const controller = new AbortController();
    let isGone = false;
    let beat = () => {};
    const entry: Entry = {
      appId,
      permission,
      credentials,
      beat: () => beat(),
      end(reason) {
        if (controller.signal.aborted) return;
        controller.abort(reason);
        // A client that does not read would keep the stream open.
        setTimeout(() => request.raw.socket.destroy(), LINGER_MS).unref();
      },
    };
    open.add(entry);
    count(appId, 1);
    const forget = () => {
      isGone = true;
      if (open.delete(entry)) count(appId, -1);
      controller.abort();
    };
    reply.raw.once('close', forget);
    // It may have gone while the request waited.
    if (request.raw.socket.destroyed) forget();
    if (isClosing) entry.end(closing());
    const stream: OpenStream = {
      signal: controller.signal,
      isGone: () => isGone,
      admit: (work) => runWithAdmission(appId, work),
    };
    const onBeat = (listener: () => void) => {
      beat = listener;
    };
    return { stream, onBeat };
  }

  return {
    count: () => open.size,
    send(request, reply, permission, events) {
      const { stream, onBeat } = register(request, reply, permission);
      const texts = withHeartbeats(events(stream), onBeat);
      return reply
        .headers({
          'content-type': `${EVENT_STREAM}; charset=utf-8`,
          // A proxy would collect the events.
          'x-accel-buffering': 'no',
          // Otherwise the connection would stay open after a stream that ends because the service closes.
          connection: 'close',
        })
        .send(Readable.from(texts, { objectMode: false, highWaterMark: BUFFERED_BYTES }));
    },
  };
}

/** The texts, and a heartbeat where none comes for long. */
async function* withHeartbeats(
  texts: AsyncGenerator<string, void>,
  onBeat: (listener: () => void) => void,
): AsyncGenerator<string, void> {
  try {
    for (;;) {
      let isThere = false;
      let wake = () => {};
      onBeat(() => wake());
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
    await texts.return();
  }
}

function closing(): AppError {
  return new AppError('UNAVAILABLE', 'The service is closing. Connect again, with the last id that you have handled.');
}
