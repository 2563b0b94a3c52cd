import { setImmediate as nextTick } from 'node:timers/promises';
import { identityText, MAX_IDENTITIES } from '../domain/identities.js';
import { type LineRecord, parseLine, type SourceLine } from '../domain/import-format.js';
import { lookAt, splitLines } from '../domain/lines.js';
import { countBytes, type SpoolFile } from '../domain/stored.js';
import { fromUnknown } from '../errors.js';
import { createFirstLines, type FirstLines } from './first-lines.js';
import { type ParsedLine, type PreparedBatch, prepareBatch } from './import-lines.js';
import { fail, type RunningReport } from './import-report.js';
import type { Move } from './moving/move.js';

/* Reads the input of an import, in batches of lines of different users. */

export interface ReadOptions {
  /** Makes the lines of what another system has exported. Without it, the input is NDJSON as an export writes it. */
  readonly move?: Move | null;
  /** Called with the lines that are read so far, and the part of the work that is done, 0 to 1, where the length of the input is known. */
  readonly progress: (lines: number, fraction?: number) => void;
  /** Ends the reading. */
  readonly signal: AbortSignal;
}

/** The time of one turn of the event loop, in which no request goes on. */
const TURN_MS = 2;
/** The lines of one statement. */
export const BATCH_SIZE = 1_000;

/** The part of an import that one reading of its input is: where it begins, and how much it is, 0 to 1. */
export interface Pass {
  readonly start: number;
  readonly share: number;
}
export const WHOLE: Pass = { start: 0, share: 1 };
export const CHECKING: Pass = { start: 0, share: 0.2 };
export const WRITING: Pass = { start: 0.2, share: 0.8 };

/** The input, which is kept in a file as it is read. */
export async function* kept(input: AsyncIterable<Buffer>, file: SpoolFile): AsyncGenerator<Buffer> {
  for await (const chunk of input) {
    await file.write(chunk);
    yield chunk;
  }
}

/**
 * The valid lines of the input, in batches of different users. The others go into the report. A batch may be empty: at the latest after
 * BATCH_SIZE lines that are valid or have failed there is one.
 */
export async function* parsedBatches(
  input: AsyncIterable<Buffer>,
  report: RunningReport,
  { move = null, progress, signal }: ReadOptions,
  { start, share }: Pass,
): AsyncGenerator<ParsedLine[]> {
  let number = 0;
  let batch: ParsedLine[] = [];
  const firstLines = createFirstLines();
  const { chunks, fraction } = countBytes(input);
  let failedBefore = report.failed;
  let turnSince = performance.now();
  for await (const lines of move === null ? readOwn(chunks()) : move.read({ [Symbol.asyncIterator]: chunks })) {
    signal.throwIfAborted();
    for (const line of lines) {
      number = line.number;
      const record = parseOrReport(line, report, firstLines);
      if (record !== null) batch.push({ line: number, sourceId: line.sourceId ?? null, record });
      if (performance.now() - turnSince > TURN_MS) await giveTurn();
      // Also of lines that have failed, so that they are told before they are many.
      if (batch.length + report.failed - failedBefore < BATCH_SIZE) continue;
      yield batch;
      batch = [];
      failedBefore = report.failed;
      turnSince = performance.now();
      firstLines.makeRoom((MAX_IDENTITIES + 1) * BATCH_SIZE);
    }
    // A piece that completes no line takes time, too.
    if (performance.now() - turnSince > TURN_MS) await giveTurn();
  }
  tellProgress();
  if (batch.length > 0) yield batch;

  /** Lets requests and sockets go on, whatever became of the lines. */
  async function giveTurn() {
    signal.throwIfAborted();
    tellProgress();
    await nextTick();
    turnSince = performance.now();
  }

  function tellProgress() {
    const done = fraction();
    progress(number, done === undefined ? undefined : start + share * done);
  }
}

/** The lines of an export of this service: NDJSON or, if they begin so, a JSON list, CSV, UTF-16 or gzip. */
async function* readOwn(input: AsyncGenerator<Buffer>): AsyncGenerator<SourceLine[]> {
  // The first piece of a pipe may be one byte.
  const [first, all] = await lookAt(input, LOOK_BYTES);
  // Loaded only for this, because it takes time.
  if (isOtherForm(Buffer.concat(first))) yield* (await import('./moving/move.js')).ownMove().read(all);
  else yield* readLines(all);
}

const LOOK_BYTES = 4_096;

function isOtherForm(beginning: Buffer): boolean {
  const [one, two] = beginning;
  if ((one === 0x1f && two === 0x8b) || (one === 0xff && two === 0xfe) || (one === 0xfe && two === 0xff)) return true;
  // The byte order mark of UTF-8 is white space.
  const [line = '', next = ''] = beginning.toString('utf8', 0, LOOK_BYTES).trimStart().split('\n');
  const isCsv = /^[^{]*[,;\t|]/.test(line) && !/^\s*\{/.test(next);
  return line.startsWith('[') || /^\{\s*("users"\s*:\s*(\[|$)|$)/.test(line.trimEnd()) || isCsv;
}

/** The lines of NDJSON as an export writes it. */
async function* readLines(input: AsyncIterable<Buffer>): AsyncGenerator<SourceLine[]> {
  let number = 0;
  for await (const lines of splitLines(input))
    yield lines.map((line) => {
      number += 1;
      return { number, read: () => parseLine(line) };
    });
}

/** Batches in the form in which the database takes them. */
export async function* preparedBatches(batches: AsyncIterable<ParsedLine[]>): AsyncGenerator<PreparedBatch> {
  for await (const batch of batches) yield prepareBatch(batch);
}

/** The record of a line; null if the line is empty, or invalid and so reported. */
function parseOrReport(line: SourceLine, report: RunningReport, firstLines: FirstLines): LineRecord | null {
  const place = { line: line.number, sourceId: line.sourceId ?? null };
  try {
    const record = line.read();
    if (record === null || 'ban' in record) return record;
    const { linked = [], externalId } = record.user;
    const texts = [record.user, ...linked].map(identityText);
    // An identity begins with the name of its method, and so with no blank.
    const earlier = firstLines.earlierThan(line.number, [...texts, ...(externalId === null ? [] : [` ${externalId}`])]);
    if (earlier === null) return record;
    const other = earlier.place === texts.length ? 'the same external_id' : 'one of these identities';
    const same = earlier.place === 0 ? 'the same auth_method and auth_value' : other;
    fail(report, place, `Line ${earlier.line} has ${same}.`);
    return null;
  } catch (error) {
    const fault = fromUnknown(error);
    if (fault.code !== 'BAD_USER_INPUT') throw error;
    fail(report, place, fault.message);
    return null;
  }
}
