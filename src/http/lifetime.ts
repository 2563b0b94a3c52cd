import { once } from 'node:events';
import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Permission, ProjectScope } from '../domain/projects.js';
import { AppError, unavailable } from '../errors.js';
import type { RunWithAdmission } from './admission.js';
import { type Credentialed, readCredentials } from './authentication.js';
import { createCounts, notRead, onConnectionEnd, type UnreadBytes } from './connections.js';
import { EVENT_STREAM } from './media-types.js';

/*
 * Work that outlives its request: streams of events, downloads, uploads. It is weighed, permitted and bounded here, again at each piece.
 * Routes and services do not listen for the end of an answer themselves (test/unit/source.test.ts).
 */

/** Permissions of open work are read again so often, so that it ends within a second of its permission. */
const CHECK_MS = 400;
/** After its end, a client has this time to read what is left. */
const LINGER_MS = 1_000;

/** On which terms something outlives its request. */
export interface Terms<Permit> {
  /** Its tenant in the fair queue, to whom its work and its unread bytes are charged. */
  readonly tenant: string;
  readonly places: Places;
  /** The holder of one of the places. */
  readonly holder: string;
  /** A key that work of one permission shares, which is read once for all of it. */
  readonly permission: string;
  /** Reads the permission again. Throws an AppError where it is gone. */
  readonly permit: () => Promise<Permit>;
  /** The interval of a permission that asks the database each time. */
  readonly checkMs?: number;
  /** True if it ends as soon as the service closes. Otherwise the service waits for it. */
  readonly endsAtClose: boolean;
}

export interface Lifetime<Permit> {
  /** Aborts when the work has to end: the client or the permission is gone, or the service closes. */
  readonly signal: AbortSignal;
  /** True if the client has gone, so that nothing can be sent. */
  isGone(): boolean;
  /** Runs a piece of `weight` units in its turn, if still permitted. `addWeight` adds later needs. UNAVAILABLE for a full queue, or too much unread. */
  admit<Result>(
    work: (permit: Permit, addWeight: (units: number) => void) => Promise<Result>,
    weight?: number,
  ): Promise<Result>;
  /** Sends a piece, and resolves when the client has room for the next one, or `signal` has aborted: then the client is told why. Rejects if the client has gone. */
  write(piece: string | Buffer): Promise<void>;
}

/** Places for what may be open at once. */
export interface Places {
  /** The number of those that are taken. */
  count(): number;
  /** Takes one; throws where there is none. Returns what gives it back. */
  take(holder: string): () => void;
}

export interface PlaceLimits {
  readonly perHolder: number;
  readonly inAll: number;
}

/** `refusal` makes the error where there is no place: no more of the holder's own, or of all. */
export function createPlaces({ perHolder, inAll }: PlaceLimits, refusal: (isOwn: boolean) => AppError): Places {
  const taken = createCounts();
  return {
    count: taken.all,
    take(holder) {
      const isOwn = taken.of(holder) >= perHolder;
      if (isOwn || taken.all() >= inAll) throw refusal(isOwn);
      return taken.add(holder, 1);
    },
  };
}

interface Open {
  readonly terms: Terms<unknown>;
  /** When the permission was last read, by `performance.now()`. */
  checkedAt: number;
  end(reason: AppError): void;
}

/** All that is open in this process. */
export interface Lifetimes {
  /** Begins work, unless the client has gone, and returns its body. A failure breaks it off, so no part is taken for all. Throws for too many. */
  begin<Permit>(
    request: FastifyRequest,
    reply: FastifyReply,
    terms: Terms<Permit>,
    work: (lifetime: Lifetime<Permit>) => Promise<void>,
  ): Readable;
}

export function createLifetimes(
  app: FastifyInstance,
  runWithAdmission: RunWithAdmission,
  unread: UnreadBytes,
): Lifetimes {
  const open = new Set<Open>();
  let isClosing = false;
  let checking = false;

  async function checkPermissions(): Promise<void> {
    const groups = new Map<string, Open[]>();
    for (const item of open) {
      const group = groups.get(item.terms.permission);
      if (group === undefined) groups.set(item.terms.permission, [item]);
      else group.push(item);
    }
    const now = performance.now();
    const isDue = ({ terms: { checkMs = 0 }, checkedAt }: Open) => now - checkedAt >= checkMs;
    await Promise.all([...groups.values()].filter((group) => group.some(isDue)).map(checkGroup));
  }

  async function checkGroup(group: Open[]): Promise<void> {
    const [{ terms }] = group as [Open];
    for (const item of group) item.checkedAt = performance.now();
    try {
      await terms.permit();
    } catch (error) {
      // While the database is away, nothing is read either.
      if (!(error instanceof AppError) || error.code === 'UNAVAILABLE') return;
      for (const item of group) item.end(error);
    }
  }

  const timer = setInterval(() => {
    if (checking || open.size === 0) return;
    checking = true;
    void checkPermissions().finally(() => {
      checking = false;
    });
  }, CHECK_MS).unref();
  app.addHook('preClose', async () => {
    isClosing = true;
    for (const item of [...open]) if (item.terms.endsAtClose) item.end(closing());
  });
  app.addHook('onClose', async () => clearInterval(timer));

  function begin<Permit>(
    request: FastifyRequest,
    reply: FastifyReply,
    terms: Terms<Permit>,
    work: (lifetime: Lifetime<Permit>) => Promise<void>,
  ): Readable {
    const leave = terms.places.take(terms.holder);
    const controller = new AbortController();
    const { signal } = controller;
    const { socket } = request.raw;
    const body = createBody(reply, terms.tenant, signal, unread);
    let isGone = false;
    const item: Open = {
      terms,
      checkedAt: performance.now(),
      end(reason) {
        if (signal.aborted) return;
        controller.abort(reason);
        // A client that does not read would keep it open.
        setTimeout(() => socket.destroy(), LINGER_MS).unref();
      },
    };
    const gone = () => {
      isGone = true;
      controller.abort(new Error('The client has gone.'));
    };
    // It may have gone while the request waited: then it is told at once, and the work does not begin.
    const forgetConnection = onConnectionEnd(socket, gone);
    open.add(item);
    if (isClosing && terms.endsAtClose) item.end(closing());
    const lifetime: Lifetime<Permit> = {
      signal,
      isGone: () => isGone,
      write: body.write,
      async admit(piece, weight = 1) {
        if (unread.isFull(terms.tenant)) throw notRead();
        return runWithAdmission(terms.tenant, async (addWeight) => piece(await terms.permit(), addWeight), weight);
      },
    };
    (isGone ? Promise.reject(signal.reason as Error) : work(lifetime)).then(body.end, body.breakOff).finally(() => {
      forgetConnection();
      open.delete(item);
      leave();
    });
    return body.stream;
  }

  return { begin };
}

/** A body that is written by pieces, each when the client has room for it. Waiting pieces count as unread. */
interface Body extends Pick<Lifetime<unknown>, 'write'> {
  readonly stream: Readable;
  /** Ends it as a whole. */
  end(): void;
  /** Ends it so that no part is taken for all. */
  breakOff(error: Error): void;
}

function createBody({ raw }: FastifyReply, tenant: string, signal: AbortSignal, unread: UnreadBytes): Body {
  const waiting: (() => void)[] = [];
  const wake = () => {
    for (const resolve of waiting.splice(0)) resolve();
  };
  const stream = new Readable({ highWaterMark: 1, read: wake });
  signal.addEventListener('abort', wake, { once: true });
  return {
    stream,
    end: () => void stream.push(null),
    breakOff: (error) => void stream.destroy(error),
    async write(piece) {
      if (stream.destroyed) throw signal.reason ?? new Error('The client has gone.');
      const taken = new Promise<void>((resolve) => waiting.push(resolve));
      stream.push(piece);
      if (!signal.aborted) await taken;
      // Here the stream has handed the piece to the connection.
      if (signal.aborted || !raw.writableNeedDrain) return;
      const forget = unread.add(tenant, raw.writableLength);
      await once(raw, 'drain', { signal })
        .catch(() => undefined)
        .finally(forget);
    },
  };
}

function closing(): AppError {
  return unavailable('The service is closing. Connect again, with the last id that you have handled.');
}

/* Answers that stay open: streams of Server-Sent Events. */

/** Open streams of one project, and of all, in this process. */
const LIMITS = { perProject: 2_000, inAll: 10_000 };
export type StreamLimits = Readonly<typeof LIMITS>;
/** A comment that is sent on a stream, so that nothing on its way counts it as idle. */
export const HEARTBEAT = ': \n\n';

export interface OpenStream extends Lifetime<ProjectScope> {
  /** Sends a text in place of the next heartbeat, unless an event comes before it. The text must not fail. */
  atHeartbeat(text: () => string | Promise<string>): void;
}

/** Makes the texts of a stream. */
export type Events = (stream: OpenStream) => AsyncGenerator<string, void>;

/** The open streams of this process. */
export interface Streams {
  /** The number of open ones, without those that `follow` has put in other places. */
  count(): number;
  /** Streams the texts of `events`: each is made when the client has read most of those before it. Throws where too many are open. */
  follow(request: FastifyRequest, reply: FastifyReply, terms: Terms<ProjectScope>, events: Events): FastifyReply;
  /** The same for a project, by its credentials. RATE_LIMITED where too many are open. */
  send(request: FastifyRequest, reply: FastifyReply, permission: Permission, events: Events): FastifyReply;
}

export function createStreams(
  app: FastifyInstance,
  projects: Pick<Credentialed, 'authenticate'>,
  lifetimes: Lifetimes,
  heartbeatMs: number,
  limits: StreamLimits = LIMITS,
): Streams {
  const places = createPlaces({ perHolder: limits.perProject, inAll: limits.inAll }, () => tooMany(limits));
  const beats = new Set<() => void>();
  const timer = setInterval(() => {
    for (const beat of beats) beat();
  }, heartbeatMs).unref();
  app.addHook('onClose', async () => clearInterval(timer));

  return {
    count: places.count,
    follow(request, reply, terms, events) {
      const stream = lifetimes.begin(request, reply, terms, (open) => writeAll(events, open, beats));
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
      return this.follow(request, reply, terms, events);
    },
  };
}

const comment = () => HEARTBEAT;

/** Writes texts one after another, and a heartbeat where none comes for long. */
async function writeAll(events: Events, open: Lifetime<ProjectScope>, beats: Set<() => void>): Promise<void> {
  let isWriting = false;
  let written = Promise.resolve();
  let heartbeat: () => string | Promise<string> = comment;
  const send = (text: string | Promise<string>) => {
    heartbeat = comment;
    isWriting = true;
    written = written
      .then(async () => open.write(await text))
      .finally(() => {
        isWriting = false;
      });
    return written;
  };
  const beat = () => {
    // If it cannot be written, the next text cannot either.
    if (!isWriting) send(heartbeat()).catch(() => undefined);
  };
  const atHeartbeat: OpenStream['atHeartbeat'] = (text) => {
    heartbeat = text;
  };
  beats.add(beat);
  try {
    for await (const text of events({ ...open, atHeartbeat })) await send(text);
  } finally {
    beats.delete(beat);
  }
}

function tooMany({ perProject }: StreamLimits): AppError {
  return new AppError('RATE_LIMITED', `streams: got more, expected at most ${perProject} of a project.`, {
    headers: { 'retry-after': '10' },
  });
}
