import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyRequest } from 'fastify';
import secureJson from 'secure-json-parse';
import { describeJsonFault } from '../domain/json-fault.js';
import { AppError } from '../errors.js';
import type { RunWithAdmission } from './admission.js';

/** The depth of JSON: all code that parses or walks it recurses. No valid request needs a quarter of it. */
const MAX_DEPTH = 32;
/** The number of values in JSON: objects with many keys take long to build. */
const MAX_VALUES = 10_000;

const UTF8 = new TextDecoder('utf-8', { fatal: true });
const FORBIDDEN_KEY_MESSAGE = 'has the key "__proto__", or "constructor" with a "prototype", which no request needs.';

/**
 * Parses a caller's JSON strictly: UTF-8 only, no keys that reach into a prototype. It counts levels and values before it parses. BAD_USER_INPUT.
 * Errors call it `name`, and count lines from the beginning of `whole`, which may have white space around the JSON.
 */
export function parseJson(json: Uint8Array, name: string, whole = json): unknown {
  const refused = (fault: string, cause?: unknown) => new AppError('BAD_USER_INPUT', `${name} ${fault}`, { cause });
  const excess = findExcess(json);
  if (excess !== null) throw refused(`${excess}.`);
  let text: string;
  try {
    text = UTF8.decode(json);
  } catch (cause) {
    throw refused('is not valid UTF-8; it must not be compressed.', cause);
  }
  try {
    return secureJson.parse(text, { protoAction: 'error', constructorAction: 'error' });
  } catch (cause) {
    const fault = describeJsonFault(whole === json ? text : UTF8.decode(whole));
    // JSON that the strict parser refuses has a forbidden key.
    throw refused(fault === null ? FORBIDDEN_KEY_MESSAGE : `is not valid JSON: ${fault}.`, cause);
  }
}

/** The value of a JSON body; undefined for an empty one. More than `limit` bytes without white space around are refused before they are parsed. BAD_USER_INPUT. */
export function readJsonBody(body: Uint8Array, limit = Number.POSITIVE_INFINITY): unknown {
  if (body.length === 0) return undefined;
  const json = withoutSpaceAround(body);
  if (json.length <= limit) return parseJson(json, 'The body', body);
  throw new AppError('BAD_USER_INPUT', `body: got ${json.length} bytes, expected at most ${limit}.`);
}

export function jsonBodyParser(limit?: number) {
  return (_request: FastifyRequest, body: Buffer, done: (error: Error | null, parsed?: unknown) => void): void => {
    let parsed: unknown;
    try {
      parsed = readJsonBody(body, limit);
    } catch (error) {
      done(error as Error);
      return;
    }
    done(null, parsed);
  };
}

/** One unit of admission in bytes of a JSON body to parse. */
const BYTES_PER_UNIT = 16_384;

/** A large body keeps its place in admission for so long: the buffers of a faster stream of them make V8 collect all garbage many times a second. */
const BYTES_PER_MS = 20_000;

/** The weight of parsing a body; 0 for a small one, which is not admitted by itself. */
export function weightOfBody(bytes: number): number {
  return bytes < BYTES_PER_UNIT ? 0 : Math.ceil(bytes / BYTES_PER_UNIT);
}

type BodyParser = ReturnType<typeof jsonBodyParser>;

/** Parses a large body only when admission lets it, so that many of them do not keep other projects waiting. */
export function parseWithAdmission(parse: BodyParser, runWithAdmission: RunWithAdmission): BodyParser {
  return (request, body, done) => {
    if (body.length < BYTES_PER_UNIT) return parse(request, body, done);
    const parsed = async () => {
      parse(request, body, done);
      await sleep(body.length / BYTES_PER_MS);
    };
    runWithAdmission(request.scope.appId, parsed, weightOfBody(body.length)).catch(done);
  };
}

const [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20];
const isSpace = (byte: number | undefined) =>
  byte === SPACE || byte === LINE_FEED || byte === CARRIAGE_RETURN || byte === TAB;

function withoutSpaceAround(body: Uint8Array): Uint8Array {
  let [start, end] = [0, body.length];
  while (start < end && isSpace(body[start])) start += 1;
  while (start < end && isSpace(body[end - 1])) end -= 1;
  return body.subarray(start, end);
}

const [QUOTE, BACKSLASH, COMMA] = [0x22, 0x5c, 0x2c];
const [LIST, LIST_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Finds what exceeds a limit, in one pass over the bytes; null if nothing does. They need not be valid JSON. */
function findExcess(json: Uint8Array): string | null {
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
    if (depth > MAX_DEPTH) return `nests deeper than ${MAX_DEPTH} levels`;
    if (values > MAX_VALUES) return `has more than ${MAX_VALUES} values`;
  }
  return null;
}
