import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { LOOPBACK, type OidcConfig } from '../config/config.js';
import type { Services } from '../context.js';
import { OPERATOR_ROLES } from '../domain/operator-roles.js';
import { type OperatorRole, operatorName, type RefusedLogIn } from '../domain/operators.js';
import { parse } from '../domain/parse.js';
import { AppError, badInput, fromUnknown } from '../errors.js';
import { createFailureLimit } from '../http/authentication.js';
import { clientNetwork } from '../http/client-address.js';
import { logIds } from '../http/request-log.js';
import type { Sessions } from './session.js';

/*
 * Single sign-on by OpenID Connect (authorization code with PKCE). The person is known by the provider's subject, and a claim decides
 * the role, anew at each login. What the browser must bring back from the provider is in a cookie of its own: it is Lax, because
 * the way back begins at another site, where a Strict cookie would not come along.
 */

export interface OidcOptions {
  readonly oidc: OidcConfig;
  readonly services: Services;
  readonly sessions: Sessions;
  /** The origin under which browsers reach the service. */
  readonly originOf: (request: FastifyRequest) => string;
  readonly requireOpen: () => void;
}

/** What a login waits for. */
interface Pending {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

const PENDING_SECONDS = 600;
/** In a minute. */
const ANSWERS_OF_ADDRESS = 60;
const MAX_LOGGED_SUBJECT = 200;
const FROM_THE_MOST = OPERATOR_ROLES.toReversed();

/** Why a person may not come in, for the page: it is in the fragment of the address. */
type Outcome = 'denied' | 'conflict' | 'failed';

export async function serveOidc(app: FastifyInstance, options: OidcOptions): Promise<void> {
  const { oidc, services, sessions, originOf, requireOpen } = options;
  const client = await import('openid-client');
  let provider: Promise<Awaited<ReturnType<typeof client.discovery>>> | undefined;

  /** What the provider says of itself, asked once; after a failure again. */
  function discover() {
    const issuer = new URL(oidc.issuer);
    const execute = LOOPBACK.test(issuer.hostname) ? [client.allowInsecureRequests] : [];
    provider ??= client.discovery(issuer, oidc.clientId, oidc.clientSecret, undefined, { execute }).catch((error) => {
      provider = undefined;
      throw error;
    });
    return provider;
  }

  const countAnswer = createFailureLimit(ANSWERS_OF_ADDRESS, 'from this address', 'answers of the single sign-on');
  const callbackOf = (request: FastifyRequest) => `${originOf(request)}/dashboard/oidc/callback`;

  app.get('/dashboard/oidc/login', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      requireOpen();
      const pending: Pending = {
        state: client.randomState(),
        nonce: client.randomNonce(),
        verifier: client.randomPKCECodeVerifier(),
      };
      try {
        const url = client.buildAuthorizationUrl(await discover(), {
          redirect_uri: callbackOf(request),
          scope: oidc.scope,
          state: pending.state,
          nonce: pending.nonce,
          code_challenge: await client.calculatePKCECodeChallenge(pending.verifier),
          code_challenge_method: 'S256',
        });
        keep(sessions, request, reply, pending);
        return reply.redirect(url.href, 303);
      } catch (error) {
        return leave(request, reply, error);
      }
    },
  });

  app.get('/dashboard/oidc/callback', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      requireOpen();
      let name: string | undefined;
      try {
        const pending = take(sessions, request, reply);
        if (pending === null)
          throw new AppError('UNAUTHENTICATED', 'This login was not begun here, or it took too long.');
        // Before the provider is asked: it could refuse a service that asks too often.
        await countAnswer(clientNetwork(request));
        const returned = new URL(`${callbackOf(request)}${new URL(request.originalUrl, originOf(request)).search}`);
        const tokens = await client.authorizationCodeGrant(await discover(), returned, {
          pkceCodeVerifier: pending.verifier,
          expectedState: pending.state,
          expectedNonce: pending.nonce,
          idTokenExpected: true,
        });
        const claims = tokens.claims() as Readonly<Record<string, unknown>> & { iss: string; sub: string };
        name = knownName(claims, oidc);
        const role = roleOf(claims[oidc.roleClaim], oidc);
        if (role === null) throw new AppError('FORBIDDEN', 'The account has no role here.');
        const person = { subject: `${claims.iss} ${claims.sub}`, name: () => nameOf(claims, oidc), role };
        sessions.begin(request, reply, await services.operators.logInSubject(person, sessions.callerOf(request)));
        return reply.redirect('/dashboard', 303);
      } catch (error) {
        await sessions.countRefusal(request, whyRefused(error, name)).catch(() => undefined);
        return leave(request, reply, error);
      }
    },
  });
}

/** The role that allows most of those that the values of the claim give; null for none. */
function roleOf(claim: unknown, { roles }: OidcConfig): OperatorRole | null {
  const values = [claim].flat();
  return FROM_THE_MOST.find((role) => roles[role].some((value) => values.includes(value))) ?? null;
}

/**
 * The name of the person in the audit trail. It is not made to fit: two people could get the same one, or one that only looks like
 * that of another.
 */
function nameOf(claims: Readonly<Record<string, unknown>>, { nameClaim }: OidcConfig): string {
  if (nameClaim === 'email' && claims['email_verified'] === false)
    throw badInput('email_verified', false, 'true, because the email names the operator');
  return parse(operatorName(nameClaim), claims[nameClaim]);
}

/** The name for the log: that of the operator or, where it can be none, the subject. */
function knownName(claims: Readonly<Record<string, unknown>> & { readonly sub: string }, oidc: OidcConfig): string {
  try {
    return nameOf(claims, oidc);
  } catch {
    return claims.sub.slice(0, MAX_LOGGED_SUBJECT);
  }
}

/** Why a person does not come in, for the log. What the provider says may hold the code of the login. */
function whyRefused(error: unknown, name: string | undefined): RefusedLogIn['details'] {
  const reason = error instanceof AppError ? error.publicMessage : 'the provider has not confirmed the login';
  return { by: 'sso', ...(name !== undefined && { operator: name }), reason };
}

function pendingCookieOf({ cookieOf }: Sessions, request: FastifyRequest) {
  const { name, attributes } = cookieOf(request);
  return { name: `${name}-oidc`, attributes: { ...attributes, sameSite: 'lax' } as const };
}

function keep(sessions: Sessions, request: FastifyRequest, reply: FastifyReply, pending: Pending): void {
  const { name, attributes } = pendingCookieOf(sessions, request);
  const value = Buffer.from(JSON.stringify(pending)).toString('base64url');
  reply.setCookie(name, value, { ...attributes, maxAge: PENDING_SECONDS });
}

/** What was kept, which counts once; null where nothing was. */
function take(sessions: Sessions, request: FastifyRequest, reply: FastifyReply): Pending | null {
  const { name, attributes } = pendingCookieOf(sessions, request);
  reply.clearCookie(name, attributes);
  try {
    const { state, nonce, verifier } = JSON.parse(Buffer.from(request.cookies[name] ?? '', 'base64url').toString());
    const isWhole = [state, nonce, verifier].every((text) => typeof text === 'string' && text !== '');
    return isWhole ? { state, nonce, verifier } : null;
  } catch {
    return null;
  }
}

/** Back to the page, which says in words what went wrong. The reason of a failure is for the log. */
function leave(request: FastifyRequest, reply: FastifyReply, error: unknown): FastifyReply {
  const { code } = fromUnknown(error);
  const outcome: Outcome = code === 'FORBIDDEN' ? 'denied' : code === 'CONFLICT' ? 'conflict' : 'failed';
  // Not the error itself: its cause may hold the code of the login.
  const { message, code: reason } = error as Error & { code?: unknown };
  if (outcome === 'failed') request.log.warn({ ...logIds(request), reason, message }, 'A single sign-on failed.');
  return reply.redirect(`/dashboard#sso=${outcome}`, 303);
}
