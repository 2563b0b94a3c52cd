import { isIP } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { LOOPBACK } from '../config/config.js';
import type { Services } from '../context.js';
import { CHALLENGE_MS, type Site } from '../domain/passkeys.js';
import { hostnameOf } from '../http/client-address.js';
import { refuseForeign, type Sessions } from './session.js';

/*
 * Signing in by a passkey. The browser gets a challenge, also as a cookie, and brings both back with the signature. What another browser was
 * asked to sign is not accepted.
 */

export interface PasskeySignInOptions {
  readonly services: Services;
  readonly sessions: Sessions;
  readonly publicUrl: string | null;
  readonly requireOpen: () => void;
}

/**
 * The site of the dashboard: PUBLIC_URL or, where browsers come to this very machine, localhost with the port of this service, because
 * a passkey cannot be bound to an IP address. Null if there is neither. The port is not what a header says: a page of another server of
 * this machine could else get a signature for itself, and use it here.
 */
export function siteOf(publicUrl: string | null, request: Pick<FastifyRequest, 'host' | 'socket'>): Site | null {
  const text = publicUrl ?? `http://${request.host}`;
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  if (LOOPBACK.test(hostnameOf(url.hostname))) url.hostname = 'localhost';
  else if (publicUrl === null || url.protocol !== 'https:' || isAddress(url.hostname)) return null;
  if (publicUrl === null && Number(url.port || 80) !== request.socket.localPort) return null;
  return { origin: url.origin, host: url.hostname };
}

const isAddress = (hostname: string) => hostname.startsWith('[') || isIP(hostname) !== 0;

/** A few parts, each of which is measured before it is decoded. */
const BODY_LIMIT_BYTES = 20_480;

export function servePasskeySignIn(app: FastifyInstance, options: PasskeySignInOptions): void {
  const { services, sessions, publicUrl, requireOpen } = options;
  const onRequest = async (request: FastifyRequest) => {
    requireOpen();
    refuseForeign(request);
  };
  function cookieOf(request: FastifyRequest) {
    const { name, attributes } = sessions.cookieOf(request);
    return { name: `${name}-passkey`, attributes };
  }

  app.post('/dashboard/passkey/challenge', {
    schema: { hide: true },
    bodyLimit: 1_024,
    onRequest,
    handler: (request, reply) =>
      sessions.run(request, async () => {
        const options = await services.passkeys.beginLogIn(siteOf(publicUrl, request));
        const { name, attributes } = cookieOf(request);
        reply.setCookie(name, options.challenge, { ...attributes, maxAge: CHALLENGE_MS / 1_000 });
        return reply.send(options);
      }),
  });

  app.post('/dashboard/passkey/session', {
    schema: { hide: true },
    bodyLimit: BODY_LIMIT_BYTES,
    onRequest,
    handler: (request, reply) =>
      sessions.run(request, () => {
        const { name, attributes } = cookieOf(request);
        reply.clearCookie(name, attributes);
        const { id, clientDataJSON, authenticatorData, signature, userHandle } = (request.body ?? {}) as Record<
          string,
          unknown
        >;
        const assertion = { id, clientDataJSON, authenticatorData, signature, userHandle };
        return sessions.enter(request, reply, (caller) =>
          services.passkeys.logIn(siteOf(publicUrl, request), request.cookies[name], assertion, caller),
        );
      }),
  });
}
