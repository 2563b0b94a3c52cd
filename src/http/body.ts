import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AppError } from '../errors.js';

/** How deep a body may nest: whatever parses or walks it recurses, and no request needs a quarter of it. */
const DEEPEST = 32;
/** How many values a body may have: objects of many keys take long to make. */
const MOST_VALUES = 10_000;

/**
 * The parser of JSON bodies. Bytes that are no UTF-8 are refused rather than replaced; an empty body is none. A body of more than
 * `limit` bytes is not parsed; white space around it does not count.
 */
export function jsonBodyParser(app: FastifyInstance, limit = Number.POSITIVE_INFINITY) {
  const utf8 = new TextDecoder('utf-8', { fatal: true });
  // Fastify's own, which refuses keys that would reach into a prototype.
  const parseJson = app.getDefaultJsonParser('error', 'error') as (
    request: FastifyRequest,
    text: string,
    done: (error: Error | null, parsed?: unknown) => void,
  ) => void;
  const decode = (body: Buffer) => {
    try {
      return utf8.decode(body);
    } catch {
      return null;
    }
  };
  return (request: FastifyRequest, body: Buffer, done: (error: Error | null, parsed?: unknown) => void): void => {
    if (body.length === 0) {
      done(null);
      return;
    }
    const refuse = (message: string, cause?: unknown) => done(new AppError('BAD_USER_INPUT', message, { cause }));
    const value = withoutSpaceAround(body);
    if (value.length > limit) {
      refuse(`body: got ${value.length} bytes, expected at most ${limit}.`);
      return;
    }
    const fault = findExcess(value);
    if (fault !== null) {
      refuse(fault);
      return;
    }
    const text = decode(value);
    if (text === null) {
      refuse('The body is not valid UTF-8.');
      return;
    }
    parseJson(request, text, (cause, parsed) => {
      if (cause === null) done(null, parsed);
      else refuse(isJson(text) ? FORBIDDEN_KEY : 'The body is not valid JSON.', cause);
    });
  };
}

const FORBIDDEN_KEY = 'The body has the key "__proto__", or "constructor" with a "prototype", which nothing has here.';

/** What the parser refuses all the same has a key that it does not let pass. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20];
const isSpace = (byte: number | undefined) =>
  byte === SPACE || byte === LINE_FEED || byte === CARRIAGE_RETURN || byte === TAB;

function withoutSpaceAround(body: Buffer): Buffer {
  let [start, end] = [0, body.length];
  while (start < end && isSpace(body[start])) start += 1;
  while (start < end && isSpace(body[end - 1])) end -= 1;
  return body.subarray(start, end);
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [LIST, LIST_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];

/** What is too much about a body, in one pass over its bytes, whether they are JSON or not. */
function findExcess(json: Buffer): string | null {
  let depth = 0;
  let values = 1;
  let isInText = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === QUOTE) isInText = !isInText;
    else if (isInText) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === COMMA) values += 1;
    else if (byte === LIST || byte === OBJECT) depth += 1;
    else if (byte === LIST_END || byte === OBJECT_END) depth -= 1;
    if (depth > DEEPEST) return `The body nests deeper than ${DEEPEST} levels.`;
    if (values > MOST_VALUES) return `The body has more than ${MOST_VALUES} values.`;
  }
  return null;
}
