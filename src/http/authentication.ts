import type { IncomingHttpHeaders } from 'node:http';
import { crc32 } from 'node:zlib';
import type { onRequestHookHandler, preHandlerHookHandler } from 'fastify';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { isTooLong } from '../domain/input-limits.js';
import {
  APP_ID,
  type Credentials,
  type FaultInForm,
  faultInForm,
  type Permission,
  type ProjectScope,
  type RefusalReason,
  RefusedCredentials,
} from '../domain/projects.js';
import { AppError, unavailable } from '../errors.js';
import { UNAUTHENTICATED } from './admission.js';
import { type Addresses, clientNetwork } from './client-address.js';
import { refuseMalformedUrl } from './failures.js';
import { secondsUntil, WINDOW_S } from './rate-limit.js';

declare module 'fastify' {
  interface FastifyRequest {
    /** The project whose credentials came with the request. Set only behind authentication. */
    scope: ProjectScope;
    /** Set if its credentials are refused. */
    refusal: Refusal | null;
  }

  interface FastifyContextConfig {
    /** The permission that a REST route requires of the App Secret. */
    permission?: Permission;
  }
}

/** Why credentials were refused, for the log and the metrics. */
export interface Refusal {
  readonly reason: RefusalReason;
  /** Only what has the form of an App ID: a caller may have sent a secret in its place. */
  readonly appId: string | undefined;
}

/** The caller for authentication: headers, and the addresses by which failures are counted. It hears of a refusal. */
export interface Caller extends Addresses {
  readonly headers: IncomingHttpHeaders;
  refusal?: Refusal | null;
}

/** A service that knows which credentials are right. */
export interface Credentialed {
  /** The scope of credentials that were valid a moment ago; 'stale' if they were before, 'miss' for others. */
  cachedCredentials(credentials: Credentials): ProjectScope | 'stale' | 'miss';
  /** UNAUTHENTICATED. */
  authenticate(credentials: Credentials): Promise<ProjectScope>;
}

/** Runs work in a queue of the fair queue, or at once. */
type Run = <Result>(project: string, work: () => Promise<Result>) => Promise<Result>;

/** Returns at once for credentials that were valid a moment ago. Others are checked when `run` lets it. */
export type Authenticate = (caller: Caller, run?: Run) => ProjectScope | Promise<ProjectScope>;

/** For a request that admission has let in: it would wait for itself. */
const AT_ONCE: Run = (_project, work) => work();

/** Header of every 401. */
export const CHALLENGE = { 'www-authenticate': 'Basic realm="userdir"' };
const SEND =
  'send the headers service-app-id and service-app-secret, or HTTP Basic with the App ID and the App Secret.';
const IN_HEADER = 'send it in the header';
/** Allowed failures a minute: from one address, and with one App ID from all addresses. */
export const FAILURES_OF_ADDRESS = 600;
const FAILURES_WITH_APP_ID = 3_000;
/** Addresses and App IDs are counted by their checksum, so made-up ones cannot fill the memory. */
const BUCKETS = 65_536;

/** Throws UNAVAILABLE while the service is starting or closing. */
export function requireOpen({ isOpen }: { readonly isOpen: boolean }): void {
  if (!isOpen) throw unavailable('The service is starting or closing.');
}

/**
 * Authenticates a request (spec, "Authentication"). UNAUTHENTICATED, with one message for an unknown App ID and a wrong secret; RATE_LIMITED for a
 * failure beyond the limit of its address or App ID. Valid credentials always pass, so no attacker can lock a project out.
 */
export function createAuthenticate(
  service: { readonly isOpen: boolean },
  projects: Credentialed,
  runWithAdmission: Run,
): Authenticate {
  const countOfAddress = createFailureLimit(FAILURES_OF_ADDRESS, 'from this address');
  const countWithAppId = createFailureLimit(FAILURES_WITH_APP_ID, 'with this App ID');
  const refuse = async (
    caller: Caller,
    network: string,
    credentials: Credentials | null,
    error: unknown,
  ): Promise<never> => {
    if (!(error instanceof RefusedCredentials)) throw error;
    const isWrong = error.code === 'UNAUTHENTICATED';
    const fault = isWrong && credentials !== null ? faultInForm(credentials) : null;
    const { appId = '' } = readGiven(caller.headers);
    caller.refusal = { reason: fault?.[0] ?? error.reason, appId: APP_ID.test(appId) ? appId : undefined };
    if (!isWrong) throw error;
    await countOfAddress(network);
    if (credentials !== null) await countWithAppId(credentials.appId);
    const message = fault === null ? error.message : `${error.message} ${fault[1]}`;
    throw new AppError('UNAUTHENTICATED', message, { headers: CHALLENGE });
  };
  return (caller, run = runWithAdmission) => {
    requireOpen(service);
    const { headers } = caller;
    const credentials = readCredentials(headers);
    if (credentials === null) {
      const network = clientNetwork(caller);
      return run(UNAUTHENTICATED, () => refuse(caller, network, null, new RefusedCredentials(...missingIn(headers))));
    }
    const { appId } = credentials;
    const cached = projects.cachedCredentials(credentials);
    if (typeof cached === 'object') return cached;
    // Now, because a connection that has ended has no address.
    const network = clientNetwork(caller);
    return run(cached === 'stale' ? appId : UNAUTHENTICATED, () =>
      projects.authenticate(credentials).catch((error: unknown) => refuse(caller, network, credentials, error)),
    );
  };
}

/** Sets the scope of a request, or fails by its credentials, then its URL. Known ones call back at once: a promise costs a turn of microtasks. */
export function authenticated(authenticate: Authenticate): onRequestHookHandler {
  return (request, _reply, done) => {
    const proceed = (scope: ProjectScope) => {
      request.scope = scope;
      refuseMalformedUrl(request);
    };
    const scope = authenticate(request);
    if (scope instanceof Promise) scope.then(proceed).then(() => done(), done);
    else {
      proceed(scope);
      done();
    }
  };
}

/** A request that has taken longer is authenticated again before its handler. */
const WAITED_MS = 1_000;

/** A hook for the end of all waiting: a secret may have ended, or its project, while the body arrived or the request was queued. */
export function stillAuthenticated(authenticate: Authenticate): preHandlerHookHandler {
  return (request, { elapsedTime }, done) => {
    if (elapsedTime < WAITED_MS || !request.scope) return done();
    const check = async () => {
      request.scope = await authenticate(request, AT_ONCE);
    };
    check().then(() => done(), done);
  };
}

/** Returns a function that counts a failure. It throws RATE_LIMITED beyond `points` a minute. */
export function createFailureLimit(
  points: number,
  whose: string,
  what = 'failed authentications',
): (key: string) => Promise<void> {
  const failures = new RateLimiterMemory({ keyPrefix: `${what} ${whose}`, points, duration: WINDOW_S });
  return async (key) => {
    await failures.consume(crc32(key) % BUCKETS).catch((rejection: unknown) => {
      if (!(rejection instanceof RateLimiterRes)) throw rejection;
      const headers = { 'retry-after': secondsUntil(rejection.msBeforeNext) };
      throw new AppError('RATE_LIMITED', `More than ${points} ${what} in a minute ${whose}.`, { headers });
    });
  };
}

/** The credentials of a request; null if the App ID or the App Secret is missing or empty. */
export function readCredentials(headers: IncomingHttpHeaders): Credentials | null {
  const { appId, appSecret } = readGiven(headers);
  return appId && appSecret ? bounded({ appId, appSecret }) : null;
}

/** The credentials in headers. If one of the two headers is present, Basic is ignored. */
function readGiven(headers: IncomingHttpHeaders): Partial<Credentials> {
  const appId = headers['service-app-id'];
  const appSecret = headers['service-app-secret'];
  if (appId === undefined && appSecret === undefined) return readBasic(headers.authorization);
  return { appId: appId as string, appSecret: appSecret as string };
}

/** Says what is missing where `readCredentials` returns null. */
function missingIn(headers: IncomingHttpHeaders): FaultInForm {
  const { appId, appSecret } = readGiven(headers);
  if (appId)
    return [
      'missing_secret',
      `The App Secret is missing: ${IN_HEADER} service-app-secret, or as the password of HTTP Basic.`,
    ];
  if (appSecret)
    return ['missing_app_id', `The App ID is missing: ${IN_HEADER} service-app-id, or as the user name of HTTP Basic.`];
  const { authorization } = headers;
  if (appId !== undefined || appSecret !== undefined || authorization === undefined)
    return ['missing', `Credentials are missing: ${SEND}`];
  if (/^bearer\b/i.test(authorization)) return ['bearer', `Authorization: Bearer is not supported: ${SEND}`];
  return ['not_basic', `${NOT_BASIC}: ${SEND}`];
}

const NOT_BASIC = 'The header authorization is not "Basic" with the Base64 of APP_ID:APP_SECRET';

/** Empties a value that is longer than any App ID or App Secret, so that it is never hashed or counted. */
function bounded({ appId, appSecret }: Credentials): Credentials {
  return {
    appId: isTooLong('appId', appId) ? '' : appId,
    appSecret: isTooLong('appSecret', appSecret) ? '' : appSecret,
  };
}

/** RFC 7617: the user name ends at the first colon. */
function readBasic(authorization: string | undefined): Partial<Credentials> {
  const encoded = /^basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization ?? '')?.[1];
  if (encoded === undefined) return {};
  const decoded = Buffer.from(encoded, 'base64').toString();
  const colon = decoded.indexOf(':');
  return colon === -1 ? { appId: decoded } : { appId: decoded.slice(0, colon), appSecret: decoded.slice(colon + 1) };
}
