import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { redact } from '../errors.js';
import { plainName, refuseBrackets } from '../http/failures.js';

const NAMED = 10;
const NAME_LENGTH = 64;
/** No name is added to a header of this length: a proxy may refuse an answer with more than 4 KiB of headers. */
const HEADER_LENGTH = 1_000;

/**
 * Returns what names the query parameters that a route does not know in the header `Userdir-Ignored-Parameters`, and refuses those that it knows
 * with brackets. Call it before the parameters are checked, because the check drops unknown ones.
 */
export function namesIgnoredParameters({ querystring }: { readonly querystring?: z.ZodObject }) {
  const known = Object.keys(querystring?.shape ?? {});
  return ({ query }: FastifyRequest, reply: FastifyReply): void => {
    const ignored = ignoredParameters(query as object, known);
    if (ignored !== '') reply.header('userdir-ignored-parameters', ignored);
    refuseBrackets(query, known);
  };
}

/** The value of the header: the first unknown query parameters, percent-encoded. */
function ignoredParameters(query: object, known: readonly string[]): string {
  let header = '';
  let named = 0;
  for (const name in query) {
    if (name === '' || known.includes(plainName(name))) continue;
    header += (named === 0 ? '' : ', ') + encodeName(name);
    named += 1;
    if (named === NAMED || header.length >= HEADER_LENGTH) break;
  }
  return header;
}

function encodeName(name: string): string {
  const start = redact(name).slice(0, NAME_LENGTH);
  // Half of a surrogate pair cannot be encoded.
  return encodeURIComponent(start.replace(/[\ud800-\udbff]$/, ''));
}
