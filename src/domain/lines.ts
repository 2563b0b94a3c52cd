import { setImmediate as nextTick } from 'node:timers/promises';
import { AppError } from '../errors.js';
import { describeJsonFault } from './json-fault.js';

/* Reads the input of commands and uploads: its beginning, its lines, and what comes while one works. */

const MAX_LINE_BYTES = 1_048_576;
const TOO_LONG = Symbol('a line that is too long');
const NEWLINE = 0x0a;
const [QUOTE, BACKSLASH, LIST, LIST_END, OBJECT, OBJECT_END] = [0x22, 0x5c, 0x5b, 0x5d, 0x7b, 0x7d];

export type Line = Buffer | typeof TOO_LONG;

/** The first items, until they have a length together, and all items again. */
export async function lookAt<Item extends string | Buffer>(
  items: AsyncGenerator<Item>,
  length: number,
): Promise<[first: Item[], all: AsyncGenerator<Item>]> {
  const first: Item[] = [];
  for (let seen = 0; seen < length; ) {
    const { done, value } = await items.next();
    if (done) break;
    first.push(value);
    seen += value.length;
  }
  async function* all() {
    yield* first;
    yield* items;
  }
  return [first, all()];
}

/** Prepares an item while the one before is in use: the database writes a batch while the next is checked. */
export async function* readAhead<Item>(items: AsyncGenerator<Item>): AsyncGenerator<Item> {
  try {
    for (let next = items.next(); ; ) {
      const { done, value } = await next;
      if (done) return;
      // In the next turn, so that the item is sent first.
      next = nextTick().then(() => items.next());
      // If the consumer stops first, its own error matters and not this one.
      next.catch(() => undefined);
      yield value;
    }
  } finally {
    // Not awaited: it ends only after the item in preparation, which may wait for input from a terminal.
    items.return(undefined).catch(() => undefined);
  }
}

/** Lines as bytes without their newlines, as many at a time as a chunk completes. A line that is too long is not kept. */
export async function* splitLines(input: AsyncIterable<Buffer>): AsyncGenerator<Line[]> {
  let held: Buffer[] = [];
  let heldBytes = 0;
  for await (const chunk of input) {
    const lines: Line[] = [];
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      hold(chunk.subarray(start, end));
      lines.push(take());
      start = end + 1;
    }
    hold(chunk.subarray(start));
    yield lines;
  }
  if (heldBytes > 0) yield [take()];

  function hold(part: Buffer) {
    heldBytes += part.length;
    if (heldBytes <= MAX_LINE_BYTES) held.push(part);
    else held = [];
  }

  function take(): Line {
    const line = heldBytes > MAX_LINE_BYTES ? TOO_LONG : held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held);
    held = [];
    heldBytes = 0;
    return line;
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The text of a line without the space around it. BAD_USER_INPUT. */
export function textOf(line: Line): string {
  if (line === TOO_LONG) throw new AppError('BAD_USER_INPUT', `The line has more than ${MAX_LINE_BYTES} bytes.`);
  try {
    return utf8.decode(line).trim();
  } catch (cause) {
    throw new AppError('BAD_USER_INPUT', 'The line is not valid UTF-8.', { cause });
  }
}

/** What walks a value recurses. No record of any system nests a quarter as deep. */
export const MAX_LEVELS = 100;

/** Whether JSON nests too deeply. It looks at brackets outside of texts, in one walk, before anything parses them. */
export function isTooDeep(json: string): boolean {
  if (json.length <= MAX_LEVELS) return false;
  let depth = 0;
  let isInText = false;
  for (let at = 0; at < json.length && depth <= MAX_LEVELS; at += 1) {
    const code = json.charCodeAt(at);
    if (isInText && code === BACKSLASH) at += 1;
    else if (code === QUOTE) isInText = !isInText;
    else if (!isInText && (code === OBJECT || code === LIST)) depth += 1;
    else if (!isInText && (code === OBJECT_END || code === LIST_END)) depth -= 1;
  }
  return depth > MAX_LEVELS;
}

/** The value of a line. BAD_USER_INPUT. */
export function parseJson(json: string): unknown {
  if (isTooDeep(json)) throw new AppError('BAD_USER_INPUT', `The line nests deeper than ${MAX_LEVELS} levels.`);
  try {
    return JSON.parse(json);
  } catch (cause) {
    throw new AppError(
      'BAD_USER_INPUT',
      `The line is not valid JSON: ${describeJsonFault(json)?.replace('line 1, ', '')}.`,
      { cause },
    );
  }
}
