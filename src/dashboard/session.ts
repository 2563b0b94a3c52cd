import type {} from '@fastify/cookie';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import { LOOPBACK } from '../config/config.js';
import type { Services } from '../context.js';
import { type ActiveSession, type BegunSession, type Operator, RefusedLogIn } from '../domain/operators.js';
import { AppError } from '../errors.js';
import { type RunWithAdmission, UNAUTHENTICATED } from '../http/admission.js';
import { createFailureLimit, FAILURES_OF_ADDRESS } from '../http/authentication.js';
import { clientNetwork, hostnameOf } from '../http/client-address.js';
import type { CommandToken } from './command-token.js';
import { createSessionCookies, type SessionCookies } from './session-cookie.js';

/* How an operator logs in and stays so: a link's token becomes a session, and a cookie holds the token of the session. */

/** Failed attempts a minute, from one address and from all. */
const MAX_FAILURES = { ofAddress: 20, inAll: 200 };
/** How many cookies a process remembers as those of an operator. */
const MAX_KNOWN = 10_000;

const noSession = () =>
  new AppError('UNAUTHENTICATED', 'There is no session: sign in by a link of `userdir dashboard`.');

/** Who sends a request: an operator by a session or, where that is null, by a command on this machine. */
export interface Asker {
  readonly operator: Operator;
  readonly session: ActiveSession | null;
}

const askerOf = (session: ActiveSession): Asker => {
  const { operator: name, role, projects } = session;
  return { operator: { name, role, projects }, session };
};

type SessionQuestion = Parameters<Services['operators']['findSession']>[1];
type SessionOrigin = Parameters<Services['operators']['logIn']>[1];

type LogIn = (caller: SessionOrigin) => Promise<BegunSession>;

/** A page says by this header that it asks by itself. Otherwise an open page would keep the session from becoming idle. */
const BY_PAGE = 'userdir-by-page';

/** Who sends the requests of the dashboard: begins sessions, finds their operators, and counts what is refused. */
export interface Sessions extends SessionCookies {
  readonly limits: SessionLimits;
  /** The queue of a request: that of commands or of its operator or, where none is known, that of strangers. */
  queueOf(request: FastifyRequest): string;
  /** Whether a request, which was let in, is of a command. */
  isCommand(request: FastifyRequest): boolean;
  /** Does the work of a request in the turn of its queue: so many units, by default 1. UNAVAILABLE if the queue is full. */
  run<Result>(request: FastifyRequest, work: Work<Result>, weight?: number): Promise<Result>;
  /**
   * Who sends a request that has just come. What cannot be a cookie of ours is refused at once. One that is not known waits with those of
   * all strangers, for a statement that they share. UNAUTHENTICATED; RATE_LIMITED beyond the failures that an address may have.
   */
  identify(request: FastifyRequest, question?: SessionQuestion): Promise<Asker>;
  /** Who sends a request, by what is known now, also as a transaction sees it, or UNAUTHENTICATED. */
  require(request: FastifyRequest, question?: SessionQuestion): Promise<Asker>;
  /** Begins a session by what a page of ours has sent. An attempt that is refused is counted. */
  enter(request: FastifyRequest, reply: FastifyReply, logIn: LogIn): Promise<FastifyReply>;
  /** The client with which a session would begin. */
  callerOf(request: FastifyRequest): SessionOrigin;
  /** Counts and records an attempt that failed. RATE_LIMITED: beyond the limit it is not recorded, so that the log cannot be filled. */
  countRefusal(request: FastifyRequest, details?: RefusedLogIn['details']): Promise<void>;
  /** POST /dashboard/session: the token of a link becomes a session. */
  logIn(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply>;
}

/** Work in its turn. `addWeight` adds units that turn out to be needed. */
type Work<Result> = (addWeight: (units: number) => void) => Promise<Result>;

/** What is recorded for ever, by the name of the operator: in a minute one can add so much to what others read, and no more. RATE_LIMITED. */
export interface SessionLimits {
  /** Counts a change or a transfer of a session. A command has no limit. */
  change(asker: Asker): Promise<void>;
  /** Counts a request of a session that was refused. */
  refusal(asker: Asker): Promise<void>;
  /** Counts a session that an operator begins by themselves. */
  signIn(operator: string): Promise<void>;
}

/** The queue of an operator, and that of commands. No App ID looks like them. */
const tenantOf = ({ operatorId }: Pick<ActiveSession, 'operatorId'>) => `operator ${operatorId}`;
const COMMANDS = 'commands';

export interface SessionsOptions {
  readonly operators: Services['operators'];
  /** Where browsers reach the service, if the settings say it. */
  readonly publicUrl: string | null;
  readonly runWithAdmission: RunWithAdmission;
  /** Lets in commands on this machine; null where there is nothing for them. */
  readonly commandToken: CommandToken | null;
}

export function createSessions({ operators, publicUrl, runWithAdmission, commandToken }: SessionsOptions): Sessions {
  const countAttempt = createFailureLimit(MAX_FAILURES.ofAddress, 'from this address', 'attempts to sign in');
  const limits = createSessionLimits();
  const countInAll = createFailureLimit(MAX_FAILURES.inAll, 'from all addresses', 'attempts to sign in');
  const countFailure = createFailureLimit(FAILURES_OF_ADDRESS, 'from this address');
  const cookies = createSessionCookies(publicUrl);
  const tenants = createTenants(operators, runWithAdmission);

  const tokenOf = (request: FastifyRequest) => request.cookies[cookies.cookieOf(request).name];
  const keyOf = (request: FastifyRequest) => operators.keyOf(tokenOf(request));

  function queueOf(request: FastifyRequest): string {
    if (commandToken?.isAsked(request) && commandToken.operatorOf(request) !== null) return COMMANDS;
    return tenants.find(keyOf(request) ?? '') ?? UNAUTHENTICATED;
  }

  function run<Result>(request: FastifyRequest, work: Work<Result>, weight?: number): Promise<Result> {
    return runWithAdmission(queueOf(request), work, weight);
  }

  async function identify(request: FastifyRequest, question?: SessionQuestion): Promise<Asker> {
    const isCommand = commandToken?.isAsked(request) === true;
    const key = isCommand ? null : keyOf(request);
    if (key === null && !isCommand) throw noSession();
    try {
      if (key !== null && !tenants.has(key)) await tenants.learn(key);
      return await run(request, () => require(request, question));
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'UNAUTHENTICATED')) throw error;
      if (key !== null) tenants.forget(key);
      await countFailure(clientNetwork(request));
      throw error;
    }
  }

  async function require(request: FastifyRequest, question?: SessionQuestion): Promise<Asker> {
    if (commandToken?.isAsked(request)) return askerByToken(commandToken, request);
    const isUse = request.headers[BY_PAGE] === undefined;
    const session = await operators.findSession(tokenOf(request), { isUse, ...question });
    if (session === null) throw noSession();
    return askerOf(session);
  }

  const callerOf = ({ headers, id }: FastifyRequest): SessionOrigin => ({
    userAgent: headers['user-agent'] ?? '',
    requestId: id,
    admit: limits.signIn,
  });

  async function countRefusal(request: FastifyRequest, details?: RefusedLogIn['details']): Promise<void> {
    await countAttempt(clientNetwork(request));
    await countInAll('');
    await operators.recordRefusedLogIn(request.id, details);
  }

  async function enter(request: FastifyRequest, reply: FastifyReply, logIn: LogIn): Promise<FastifyReply> {
    try {
      cookies.begin(request, reply, await logIn(callerOf(request)));
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'UNAUTHENTICATED')) throw error;
      await countRefusal(request, error instanceof RefusedLogIn ? error.details : {});
      throw error;
    }
    return reply.code(204).send();
  }

  return {
    ...cookies,
    limits,
    queueOf,
    isCommand: (request) => commandToken?.isAsked(request) === true,
    run,
    identify,
    require,
    enter,
    callerOf,
    countRefusal,

    logIn(request, reply) {
      const { token } = (request.body ?? {}) as { token?: unknown };
      return enter(request, reply, (caller) => operators.logIn(token, caller));
    },
  };
}

/** The queues of operators, by the keys of their cookies. What a session may do is not remembered: it is read each time. */
interface Tenants {
  find(key: string): string | undefined;
  has(key: string): boolean;
  /** Finds whose a cookie is that is not known. However many requests bring it at once, it has one place among those of strangers. UNAUTHENTICATED. */
  learn(key: string): Promise<void>;
  forget(key: string): void;
}

function createTenants(
  operators: Pick<Services['operators'], 'findOwner'>,
  runWithAdmission: RunWithAdmission,
): Tenants {
  const known = new LRUCache<string, string>({ max: MAX_KNOWN });
  const searches = new Map<string, Promise<void>>();
  return {
    find: (key) => known.get(key),
    has: (key) => known.has(key),

    learn(key) {
      const begun = searches.get(key);
      if (begun !== undefined) return begun;
      const search = runWithAdmission(UNAUTHENTICATED, () => operators.findOwner(key)).then((operatorId) => {
        if (operatorId === null) throw noSession();
        known.set(key, tenantOf({ operatorId }));
      });
      const end = () => searches.delete(key);
      searches.set(key, search);
      search.then(end, end);
      return search;
    },

    forget: (key) => void known.delete(key),
  };
}

function createSessionLimits(): SessionLimits {
  return {
    change: ofSessions(createFailureLimit(300, 'of this operator', 'changes and transfers')),
    refusal: ofSessions(createFailureLimit(20, 'of this operator', 'requests that were refused')),
    signIn: createFailureLimit(20, 'of this operator', 'sign-ins'),
  };
}

function askerByToken(commandToken: CommandToken, request: FastifyRequest): Asker {
  const operator = commandToken.operatorOf(request);
  if (operator !== null) return { operator, session: null };
  throw new AppError(
    'UNAUTHENTICATED',
    'Only a command on the machine of the service may send a token, and the right one.',
  );
}

/** A limit for those who have a session. */
function ofSessions(count: (operator: string) => Promise<void>) {
  return async ({ session, operator }: Asker): Promise<void> => {
    if (session !== null) await count(operator.name);
  };
}

/** Lets routes read the cookies of a request. */
export async function readCookies(app: FastifyInstance): Promise<void> {
  const { default: cookie } = await import('@fastify/cookie');
  await app.register(cookie);
}

/** Which requests of a browser the dashboard accepts: those of its own pages, under its own name. */

/** Headers of every answer below /dashboard. No other page may show it, hold a window of it, or learn its address. */
export function setPageHeaders(reply: FastifyReply): void {
  reply.headers({
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  });
}

export interface ServiceAddress {
  /** The address on which the service listens. */
  readonly host: string;
  readonly publicUrl: string | null;
}

/**
 * Refuses a request under another name than the service has. On a loopback address a page of another site could else give its own
 * name that address (DNS rebinding), and count as the same origin.
 */
export function requireOwnName({ headers }: FastifyRequest, { host, publicUrl }: ServiceAddress): void {
  const name = hostnameOf(headers.host);
  if (!LOOPBACK.test(host) || LOOPBACK.test(name)) return;
  if (publicUrl !== null && new URL(publicUrl).host === headers.host) return;
  throw new AppError(
    'FORBIDDEN',
    'The dashboard of a service on a loopback address is reached as 127.0.0.1 or localhost, or as PUBLIC_URL says.',
  );
}

/**
 * Whether a page of another origin may have sent the request. Browsers say where it comes from (Sec-Fetch-Site); older ones
 * name the origin of a POST. `none` is an address that a person has typed in.
 */
export function isForeign({ method, headers }: FastifyRequest): boolean {
  const site = headers['sec-fetch-site'];
  const isRead = method === 'GET' || method === 'HEAD';
  if (site !== undefined) return !(site === 'same-origin' || (isRead && site === 'none'));
  if (headers.origin !== undefined) return !isOwnOrigin(headers.origin, headers.host);
  return !isRead;
}

/** Refuses what a page of another site may have sent. A command is no browser. */
export function refuseForeignAsker({ session }: Asker, request: FastifyRequest): void {
  if (session !== null) refuseForeign(request);
}

export function refuseForeign(request: FastifyRequest): void {
  if (isForeign(request))
    throw new AppError('FORBIDDEN', 'Only pages of the dashboard may send this: the request comes from another site.');
}

function isOwnOrigin(origin: string, host: string | undefined): boolean {
  return URL.canParse(origin) && new URL(origin).host === host;
}
