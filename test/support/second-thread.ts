import type { FastifyRequest } from 'fastify';
import type { ProjectScope } from '#dist/domain/projects.js';

/** A request as the second thread needs it. */
export function requestOf(scope: Pick<ProjectScope, 'appId' | 'grant'>): FastifyRequest {
  return { id: 'a', trace: null, measuredCost: null, scope, addWeight: () => true } as unknown as FastifyRequest;
}

/** A light query, as the second thread is asked it. */
export const asked = (query: string) => ({
  method: 'POST',
  url: '/graphql',
  accept: 'application/json',
  body: new Uint8Array(Buffer.from(JSON.stringify({ query }))),
  parameters: { query, operationName: undefined, isPlain: true },
  isWeighed: true,
});
