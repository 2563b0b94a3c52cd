import { isUtf8 } from 'node:buffer';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { isOfUser } from '../../domain/csv-cells.js';
import type { FileForm } from '../../domain/import-results.js';
import { describeJsonFault } from '../../domain/json-fault.js';
import { isTooDeep, lookAt, MAX_LEVELS } from '../../domain/lines.js';
import { AppError } from '../../errors.js';
import type { SourceRecord, System } from './person.js';
import { createRowSplitter, fieldNamed, guessDialect, MAX_COLUMNS, type Row, recordOf } from './read-csv.js';
import { createJsonSplitter, MAX_RECORD_LENGTH, parseExactly } from './read-json.js';

/* Reads the records of a file: JSON or CSV, in gzip or not, in UTF-8, UTF-16 or windows-1252. Memory does not grow with the file. */

/** A record of a file. */
export interface PlacedRecord {
  /** The number of its line, or of the record where one is of several lines. */
  readonly place: number;
  /** Its value. BAD_USER_INPUT where it cannot be read. */
  readonly read: () => SourceRecord;
}

/** What a file turned out to be. */
export interface ReadFile {
  readonly form: FileForm;
  readonly records: AsyncGenerator<PlacedRecord[]>;
  /** True if the file, once it was read, turned out to be one page of several. */
  readonly isPage?: () => boolean;
}

/** As much tells what a file is. */
const LOOK_BYTES = 2 ** 18;
/** Against a small file that unpacks to an endless one: some twenty million users. */
const MAX_TEXT_BYTES = 16 * 2 ** 30;

/** Looks at the beginning of a file, and reads it as an export of a system. BAD_USER_INPUT, in one sentence, where it can be none. */
export async function readFile(input: AsyncIterable<Buffer>, system: System): Promise<ReadFile> {
  const { encoding, pieces } = await decode(await unpack(input));
  const [beginning, texts] = await lookAt(pieces, LOOK_BYTES);
  const text = beginning.join('').trimStart();
  if (text === '') throw wrongFile('The file is empty.');
  if (/^[{[]/.test(text)) return readJson(text, texts, encoding, system);
  if (/^[<%]|^PK/.test(text)) throw wrongFile(`This is no JSON and no CSV. ${expected(system)}`);
  return readCsv(text, texts, encoding, system);
}

const wrongFile = (message: string) => new AppError('BAD_USER_INPUT', message);
const expected = ({ title }: System) => `Expected an export of ${title}.`;

async function* chunksOf(input: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  yield* input;
}

/** The bytes of the file, or of the file that is packed in it. */
async function unpack(input: AsyncIterable<Buffer>): Promise<AsyncGenerator<Buffer>> {
  const [first, all] = await lookAt(chunksOf(input), 2);
  const [one, two] = Buffer.concat(first);
  if (one === 0x50 && two === 0x4b) throw wrongFile('This is a zip archive. Unpack it, and import the file in it.');
  if (one !== 0x1f || two !== 0x8b) return all;
  return (async function* () {
    let bytes = 0;
    try {
      for await (const chunk of pipeline(all, createGunzip(), () => undefined) as AsyncIterable<Buffer>) {
        bytes += chunk.length;
        if (bytes > MAX_TEXT_BYTES) throw wrongFile(`The file unpacks to more than ${MAX_TEXT_BYTES} bytes.`);
        yield chunk;
      }
    } catch (error) {
      if (error instanceof AppError) throw error;
      throw wrongFile('The gzip file is cut off, or damaged.');
    }
  })();
}

async function decode(bytes: AsyncGenerator<Buffer>): Promise<{ encoding: string; pieces: AsyncGenerator<string> }> {
  const [first, all] = await lookAt(bytes, LOOK_BYTES);
  const encoding = encodingOf(Buffer.concat(first));
  const decoder = new TextDecoder(encoding, { fatal: true });
  const pieces = (async function* () {
    try {
      for await (const chunk of all) yield decoder.decode(chunk, { stream: true });
      yield decoder.decode();
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      throw wrongFile('The file is not text in one encoding. Save it as UTF-8.');
    }
  })();
  return { encoding, pieces };
}

/** By the byte order mark, by the zeros of Latin letters in UTF-16, or else by what is no UTF-8. */
function encodingOf(beginning: Buffer): string {
  const [one = 1, two = 1] = beginning;
  if ((one === 0xff && two === 0xfe) || (one !== 0 && two === 0)) return 'utf-16le';
  if ((one === 0xfe && two === 0xff) || (one === 0 && two !== 0)) return 'utf-16be';
  // The last letter may be cut.
  for (let cut = 0; cut < 4; cut += 1) if (isUtf8(beginning.subarray(0, beginning.length - cut))) return 'utf-8';
  return 'windows-1252';
}

/** What answers of APIs have beside a list that goes on. */
const NEXT_PAGE =
  /"(@odata\.nextLink|PaginationToken|NextToken|nextPageToken|next_page_token|next_cursor|after)"\s*:\s*"[^"]/;
const END_LENGTH = 4_096;

/** One object a line, if the first line is one; else a list of any form. */
function readJson(text: string, texts: AsyncGenerator<string>, encoding: string, system: System): ReadFile {
  const [firstLine = ''] = text.split('\n', 1);
  const isLines = isObject(firstLine) && !holdsList(firstLine, system);
  const form = { encoding, titles: null };
  if (isLines) return { form: { kind: 'NDJSON', ...form }, records: recordsOfLines(texts) };
  let end = text.slice(0, Math.max(0, text.indexOf('[')));
  const records = recordsOfList(texts, system, (last) => {
    end += last;
  });
  return { form: { kind: 'JSON', ...form }, records, isPage: () => NEXT_PAGE.test(end) };
}

function isObject(line: string): boolean {
  try {
    return !Array.isArray(JSON.parse(line));
  } catch {
    return false;
  }
}

const holdsList = (line: string, { lists = [] }: System) => {
  const object = JSON.parse(line) as SourceRecord;
  return lists.some((name) => Array.isArray(object[name]));
};

async function* recordsOfLines(texts: AsyncGenerator<string>): AsyncGenerator<PlacedRecord[]> {
  let rest = '';
  let place = 0;
  for await (const text of texts) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > MAX_RECORD_LENGTH) rest = rest.slice(0, MAX_RECORD_LENGTH + 1);
    yield lines.flatMap(placed);
  }
  yield placed(rest);

  function placed(line: string): PlacedRecord[] {
    place += 1;
    return line.trim() === '' ? [] : [{ place, read: () => parseRecord(line) }];
  }
}

/** `atEnd` takes what stands after the list. */
async function* recordsOfList(
  texts: AsyncGenerator<string>,
  { lists = [] }: System,
  atEnd: (text: string) => void,
): AsyncGenerator<PlacedRecord[]> {
  const splitter = createJsonSplitter(lists);
  let count = 0;
  let end = '';
  for await (const text of texts) {
    end = (end + text.slice(-END_LENGTH)).slice(-END_LENGTH);
    yield splitter.split(text).map((json) => {
      count += 1;
      return { place: count, read: () => parseRecord(json) };
    });
  }
  const where = count === 0 ? 'before the first record' : `after record ${count}`;
  if (splitter.isWithin()) throw wrongFile(`The file is cut off ${where}.`);
  atEnd(end.slice(end.lastIndexOf(']') + 1));
}

function parseRecord(json: string | null): SourceRecord {
  if (json === null || json.length > MAX_RECORD_LENGTH)
    throw wrongFile(`The record has more than ${MAX_RECORD_LENGTH} characters.`);
  if (isTooDeep(json)) throw wrongFile(`The record nests deeper than ${MAX_LEVELS} levels.`);
  try {
    return parseExactly(json) as SourceRecord;
  } catch {
    throw wrongFile(`The record is not valid JSON: ${describeJsonFault(json)?.replace('line 1, ', '')}.`);
  }
}

function readCsv(text: string, texts: AsyncGenerator<string>, encoding: string, system: System): ReadFile {
  const dialect = guessDialect(text);
  const [first] = createRowSplitter(dialect).split(text, text.length < LOOK_BYTES);
  const { cells = [], fault } = first ?? {};
  if (fault !== undefined || cells.length > MAX_COLUMNS)
    throw wrongFile(`This is no JSON, and no CSV of at most ${MAX_COLUMNS} columns. ${expected(system)}`);
  const isTitled = system.columns === undefined && !isOfUser(cells);
  if (!isTitled && system.columns === undefined)
    throw wrongFile('The first line of this CSV has values: it needs a line of titles before it.');
  const named = isTitled ? cells.map(fieldNamed) : (system.columns ?? []);
  const titles = cells.map((_, place) => named[place] || `column ${place + 1}`);
  if (isTitled) system.checkTitles?.(titles);
  return {
    form: { kind: 'CSV', encoding, titles: isTitled ? cells : null },
    records: recordsOfRows(),
  };

  async function* recordsOfRows(): AsyncGenerator<PlacedRecord[]> {
    const splitter = createRowSplitter(dialect);
    const needed = (field: string) => system.fields.includes(field);
    let isFirst = isTitled;
    const placed = (rows: readonly Row[]) => {
      const records = isFirst && rows.length > 0 ? rows.slice(1) : rows;
      isFirst &&= rows.length === 0;
      return records.map((row) => ({ place: row.line, read: () => recordOf(titles, row, needed) }));
    };
    for await (const piece of texts) yield placed(splitter.split(piece, false));
    yield placed(splitter.split('', true));
  }
}
