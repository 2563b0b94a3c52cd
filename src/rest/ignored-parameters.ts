import type { FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { redact } from '../errors.js';
import { plainName, refuseBrackets } from '../http/failures.js';

const NAMED = 10;
const NAME_LENGTH = 64;
/** No name is added to a header of this length: a proxy may refuse an answer with more than 4 KiB of headers. */
const HEADER_LENGTH = 1_000;

/** Names unknown query parameters in `Userdir-Ignored-Parameters`, and refuses brackets, before the check, which drops unknown ones. */
export function namesIgnoredParameters({ querystring }: { readonly querystring?: z.ZodObject }) {
  const names = Object.keys(querystring?.shape ?? {});
  return ({ query }: FastifyRequest, reply: FastifyReply): void => {
    const ignored = ignoredParameters(query as object, names);
    if (ignored !== '') reply.header('userdir-ignored-parameters', ignored);
    refuseBrackets(query, names);
  };
}

/** The value of the header: the first unknown query parameters, percent-encoded. */
function ignoredParameters(query: object, names: readonly string[]): string {
  let header = '';
  let named = 0;
  for (const name in query) {
    if (name === '' || names.includes(plainName(name))) continue;
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
