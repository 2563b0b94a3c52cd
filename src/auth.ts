import type { IncomingHttpHeaders } from 'node:http';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { AppError } from './errors.js';
import type { Credentials, ProjectScope, Projects } from './services/projects.js';

/** A caller as authentication sees one: the headers, and the address that failures are counted by. */
export interface Caller {
  readonly headers: IncomingHttpHeaders;
  readonly ip: string;
}

export type Authenticate = (caller: Caller) => Promise<ProjectScope>;

const CHALLENGE = { 'www-authenticate': 'Basic realm="userdir"' };
const MISSING =
  'Credentials are missing: send the headers service-app-id and service-app-secret, or HTTP Basic with the App ID and the App Secret.';
const FAILURES_PER_MINUTE = 600;

/**
 * Request to ProjectScope, for both interfaces (spec, "Authentication"): UNAUTHENTICATED, with one message for an unknown
 * App ID and a wrong secret. Beyond 600 failures a minute an address gets RATE_LIMITED for them; right credentials
 * always pass, so nobody can lock a project out.
 */
export function createAuthenticate(projects: Projects): Authenticate {
  const failures = new RateLimiterMemory({ points: FAILURES_PER_MINUTE, duration: 60 });
  return async ({ headers, ip }) => {
    try {
      const credentials = readCredentials(headers);
      if (credentials === null) throw new AppError('UNAUTHENTICATED', MISSING);
      return await projects.authenticate(credentials);
    } catch (error) {
      if (!(error instanceof AppError && error.code === 'UNAUTHENTICATED')) throw error;
      await failures.consume(ip).catch(refuseFlood);
      throw new AppError('UNAUTHENTICATED', error.message, { headers: CHALLENGE });
    }
  };
}

function refuseFlood(rejection: unknown): never {
  if (!(rejection instanceof RateLimiterRes)) throw rejection;
  throw new AppError(
    'RATE_LIMITED',
    `More than ${FAILURES_PER_MINUTE} failed authentications in a minute from this address.`,
    {
      headers: { 'retry-after': String(Math.ceil(rejection.msBeforeNext / 1_000)) },
    },
  );
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
