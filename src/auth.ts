import type { IncomingHttpHeaders } from 'node:http';
import { crc32 } from 'node:zlib';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { STRANGERS } from './admission.js';
import { AppError } from './errors.js';
import type { Credentials, ProjectScope, Projects } from './services/projects.js';

/** A caller as authentication sees one: the headers, and the address that failures are counted by. */
export interface Caller {
  readonly headers: IncomingHttpHeaders;
  readonly ip: string;
}

/** At once for credentials that were right a moment ago. */
export type Authenticate = (caller: Caller) => ProjectScope | Promise<ProjectScope>;

/** Lets work wait for the turn of a project. */
export type InTurn = <Result>(project: string, work: () => Promise<Result>) => Promise<Result>;

/** Comes with every 401. */
export const CHALLENGE = { 'www-authenticate': 'Basic realm="userdir"' };
const MISSING =
  'Credentials are missing: send the headers service-app-id and service-app-secret, or HTTP Basic with the App ID and the App Secret.';
/** Failures a minute: of one address, and with one App ID from everywhere. */
const FAILURES_OF_ADDRESS = 600;
const FAILURES_WITH_APP_ID = 3_000;
/** Addresses and App IDs are counted by their checksum: a stranger who makes up new ones fills no memory. */
const BUCKETS = 65_536;

/**
 * Request to ProjectScope, for both interfaces (spec, "Authentication"): UNAUTHENTICATED, with one message for an unknown
 * App ID and a wrong secret. Beyond so many failures a minute an address, and an App ID, get RATE_LIMITED for them. Only
 * failures are counted and refused: right credentials always pass, so nobody can lock a project out.
 */
export function createAuthenticate(projects: Projects, inTurn: InTurn): Authenticate {
  const countOfAddress = createFailureLimit(FAILURES_OF_ADDRESS, 'from this address');
  const countWithAppId = createFailureLimit(FAILURES_WITH_APP_ID, 'with this App ID');
  const refuse = async (ip: string, appId: string | null, error: unknown): Promise<never> => {
    if (!(error instanceof AppError && error.code === 'UNAUTHENTICATED')) throw error;
    await countOfAddress(ip);
    if (appId !== null) await countWithAppId(appId);
    throw new AppError('UNAUTHENTICATED', error.message, { headers: CHALLENGE });
  };
  return ({ headers, ip }) => {
    const credentials = readCredentials(headers);
    if (credentials === null) {
      return inTurn(STRANGERS, () => refuse(ip, null, new AppError('UNAUTHENTICATED', MISSING)));
    }
    const { appId } = credentials;
    const known = projects.recall(credentials);
    if (typeof known === 'object') return known;
    return inTurn(known === 'familiar' ? appId : STRANGERS, () =>
      projects.authenticate(credentials).catch((error: unknown) => refuse(ip, appId, error)),
    );
  };
}

/** Counts a failure; RATE_LIMITED beyond `points` a minute. */
function createFailureLimit(points: number, whose: string): (key: string) => Promise<void> {
  const failures = new RateLimiterMemory({ points, duration: 60 });
  return async (key) => {
    await failures.consume(crc32(key) % BUCKETS).catch((rejection: unknown) => {
      if (!(rejection instanceof RateLimiterRes)) throw rejection;
      const headers = { 'retry-after': String(Math.ceil(rejection.msBeforeNext / 1_000)) };
      throw new AppError('RATE_LIMITED', `More than ${points} failed authentications in a minute ${whose}.`, {
        headers,
      });
    });
  };
}

/** As soon as either header is there the headers decide, and Basic is not looked at. */
export function readCredentials(headers: IncomingHttpHeaders): Credentials | null {
  const appId = headers['service-app-id'];
  const appSecret = headers['service-app-secret'];
  if (appId === undefined && appSecret === undefined) return readBasic(headers.authorization);
  return typeof appId === 'string' && typeof appSecret === 'string' ? { appId, appSecret } : null;
}

/** RFC 7617: the user name ends at the first colon. */
function readBasic(authorization: string | undefined): Credentials | null {
  const encoded = /^basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization ?? '')?.[1];
  if (encoded === undefined) return null;
  const decoded = Buffer.from(encoded, 'base64').toString();
  const colon = decoded.indexOf(':');
  return colon === -1 ? null : { appId: decoded.slice(0, colon), appSecret: decoded.slice(colon + 1) };
}
