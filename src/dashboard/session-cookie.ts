import type {} from '@fastify/cookie';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LOOPBACK } from '../config/config.js';
import { SESSION_MS } from '../domain/bounds.js';
import type { BegunSession } from '../domain/operators.js';
import { hostnameOf } from '../http/client-address.js';

/**
 * The cookie of a session. A browser keeps one with the prefix __Host- only if it is Secure, and for this very host. Over plain
 * HTTP on a loopback address not every browser keeps a Secure one, so there it has another name, with the port: cookies do not
 * tell ports apart. Where browsers come by HTTPS, a proxy may pass their requests on as local ones.
 */
export interface SessionCookie {
  readonly name: string;
  readonly attributes: {
    readonly path: '/';
    readonly httpOnly: true;
    readonly secure: boolean;
    readonly sameSite: 'strict';
  };
}

/** What a browser keeps of a session. */
export interface SessionCookies {
  cookieOf(request: FastifyRequest): SessionCookie;
  /** Gives the browser a session that has begun. */
  begin(request: FastifyRequest, reply: FastifyReply, session: BegunSession): void;
  /** Tells the browser to forget the session. */
  forget(request: FastifyRequest, reply: FastifyReply): void;
}

/** `publicUrl` is where browsers reach the service, if the settings say it. */
export function createSessionCookies(publicUrl: string | null): SessionCookies {
  function cookieOf({ protocol, headers, socket }: FastifyRequest): SessionCookie {
    const isSecure = publicUrl?.startsWith('https:') || protocol !== 'http' || !LOOPBACK.test(hostnameOf(headers.host));
    const name = isSecure ? '__Host-userdir-dashboard' : `userdir-dashboard-${socket.localPort}`;
    return { name, attributes: { path: '/', httpOnly: true, secure: isSecure, sameSite: 'strict' } as const };
  }

  return {
    cookieOf,

    begin(request, reply, { token }) {
      const { name, attributes } = cookieOf(request);
      reply.setCookie(name, token, { ...attributes, maxAge: SESSION_MS / 1_000 });
    },

    forget(request, reply) {
      const { name, attributes } = cookieOf(request);
      reply.clearCookie(name, attributes);
    },
  };
}
