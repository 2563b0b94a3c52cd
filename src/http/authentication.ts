import type { IncomingHttpHeaders } from 'node:http';
import { isIPv6 } from 'node:net';
import { crc32 } from 'node:zlib';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { UNAUTHENTICATED } from './admission.js';
import type { RunWithAdmission } from './admit-requests.js';
import { AppError } from '../errors.js';
import { isTooLong } from '../input-limits.js';
import type { Credentials, ProjectScope } from '../domain/projects.js';
import type { Projects } from '../services/projects.js';

/** A caller as authentication sees one: the headers, and the address that failures are counted by. */
export interface Caller {
  readonly headers: IncomingHttpHeaders;
  /** Undefined once the connection is gone. */
  readonly ip: string | undefined;
}

/** At once for credentials that were right a moment ago. */
export type Authenticate = (caller: Caller) => ProjectScope | Promise<ProjectScope>;

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
export function createAuthenticate(projects: Projects, runWithAdmission: RunWithAdmission): Authenticate {
  const countOfAddress = createFailureLimit(FAILURES_OF_ADDRESS, 'from this address');
  const countWithAppId = createFailureLimit(FAILURES_WITH_APP_ID, 'with this App ID');
  const refuse = async (ip: string | undefined, appId: string | null, error: unknown): Promise<never> => {
    if (!(error instanceof AppError && error.code === 'UNAUTHENTICATED')) throw error;
    await countOfAddress(networkOf(ip));
    if (appId !== null) await countWithAppId(appId);
    throw new AppError('UNAUTHENTICATED', error.message, { headers: CHALLENGE });
  };
  return ({ headers, ip }) => {
    const credentials = readCredentials(headers);
    if (credentials === null) {
      return runWithAdmission(UNAUTHENTICATED, () => refuse(ip, null, new AppError('UNAUTHENTICATED', MISSING)));
    }
    const { appId } = credentials;
    const known = projects.cachedCredentials(credentials);
    if (typeof known === 'object') return known;
    return runWithAdmission(known === 'stale' ? appId : UNAUTHENTICATED, () =>
      projects.authenticate(credentials).catch((error: unknown) => refuse(ip, appId, error)),
    );
  };
}

const MAPPED_IPV4 = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/;
const GROUPS = 8;

/**
 * Whose failures are counted together: an IPv4 address, also where it is written as IPv6, or the /64 of an IPv6 address, of which a
 * single machine has all the addresses. What is no address stands for itself.
 */
export function networkOf(ip = ''): string {
  const address = ip.replace(/%.*$/s, '');
  if (!isIPv6(address)) return ip;
  // The one form of RFC 5952, all groups in hexadecimal.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const mapped = MAPPED_IPV4.exec(canonical)
    ?.slice(1)
    .map((group) => Number.parseInt(group, 16));
  if (mapped) return mapped.flatMap((group) => [group >> 8, group & 255]).join('.');
  const [before = [], after = []] = canonical
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''));
  const zeros = Array<string>(GROUPS - before.length - after.length).fill('0');
  return [...before, ...zeros, ...after].slice(0, GROUPS / 2).join(':');
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
  return typeof appId === 'string' && typeof appSecret === 'string' ? bounded({ appId, appSecret }) : null;
}

/** What is longer than any App ID or App Secret is wrong; it is refused as an empty one is, and never hashed or counted. */
function bounded({ appId, appSecret }: Credentials): Credentials {
  return {
    appId: isTooLong('appId', appId) ? '' : appId,
    appSecret: isTooLong('appSecret', appSecret) ? '' : appSecret,
  };
}

/** RFC 7617: the user name ends at the first colon. */
function readBasic(authorization: string | undefined): Credentials | null {
  const encoded = /^basic +([A-Za-z0-9+/_-]+=*) *$/i.exec(authorization ?? '')?.[1];
  if (encoded === undefined) return null;
  const decoded = Buffer.from(encoded, 'base64').toString();
  const colon = decoded.indexOf(':');
  return colon === -1 ? null : bounded({ appId: decoded.slice(0, colon), appSecret: decoded.slice(colon + 1) });
}
