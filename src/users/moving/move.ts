import { IANAZone } from 'luxon';
import { type LineRecord, parseRecord, type SourceLine } from '../../domain/import-format.js';
import type { MoveSummary } from '../../domain/import-results.js';
import { AppError, badInput } from '../../errors.js';
import { createCsvSystem, joinRows, own } from './csv.js';
import { requireDateFormat } from './date-format.js';
import { createFieldTest, idIn, linesOf, MAX_ROWS, type SourceRecord, type System, tooManyRows } from './person.js';
import { type PlacedRecord, readFile } from './read.js';
import { systemNamed } from './systems.js';
import { createDateReader, isEmpty, textOf } from './values.js';

/* Makes the lines of an import from the files of another system, and counts what is in them and what is not kept. */

export interface MoveOptions {
  readonly system: System;
  /** The bytes of each file, which follow one another in the input. Empty for one of any length. */
  readonly sizes?: readonly number[];
  readonly trustUnverified?: boolean;
  /** The format of dates, in the tokens of Luxon, and the zone of those that say none. */
  readonly dates?: string | null;
  readonly zone?: string;
}

/** The options of `user import` for files of another system, as they arrive. */
export interface GivenMove {
  /** The name of the system, or an adapter of one's own. */
  readonly from: string | System;
  readonly sizes?: readonly number[];
  readonly trustUnverified?: boolean;
  readonly dates?: string | null;
  readonly zone?: string | null;
  /** For `csv`: which column is which field, as JSON. */
  readonly map?: string | null;
}

/** Checks the options. BAD_USER_INPUT. */
export function moveOf({ from, zone, map, dates, ...given }: GivenMove): Move {
  if (zone != null && !IANAZone.isValidZone(zone))
    throw badInput('time_zone', zone, 'a time zone such as Europe/Berlin');
  if (dates != null) requireDateFormat(dates);
  if (map != null && from !== 'csv') throw new AppError('BAD_USER_INPUT', 'map: is of the system csv only.');
  const system = typeof from !== 'string' ? from : from === 'csv' ? createCsvSystem(map ?? null) : systemNamed(from);
  return createMove({ ...given, system, dates: dates ?? null, zone: zone ?? 'UTC' });
}

/** Reads lines of this service in another form than NDJSON. */
export const ownMove = (): Move => createMove({ system: own });

const SAMPLE = 10;
/** The names of fields of a file may be any. */
const MAX_KINDS = 100;
/** The text of records of another file, which stay in memory. */
const MAX_JOINED_LENGTH = 2 ** 28;

/** Reads the lines of an import from the files of another system. */
export interface Move {
  /** The name of the system. */
  readonly system: string;
  /** Of the input that was read last. */
  summary(): MoveSummary;
  /** The lines of the input, as many at a time as a piece of it completes. BAD_USER_INPUT where it is another kind of file. */
  read(input: AsyncIterable<Buffer>): AsyncGenerator<SourceLine[]>;
}

export function createMove({
  system,
  sizes = [],
  trustUnverified = false,
  dates = null,
  zone = 'UTC',
}: MoveOptions): Move {
  const counter = createCounter(zone);
  const { summary, note, drop, countUser } = counter;
  const isField = createFieldTest(system);
  /** What a table has was checked by its titles. */
  const isTable = system.checkTitles !== undefined;
  const options = {
    system: system.name,
    title: system.title,
    trustUnverified,
    note,
    drop,
    readDate: createDateReader({ format: dates, zone, note }),
  };

  /** The lines of a record; none where it is of no person. */
  function linesOfRecord(place: number, record: SourceRecord, joined: JoinedRows): SourceLine[] {
    const own = joined.size === 0 ? record : { ...record, ...joinedTo(record, joined, system) };
    for (const field in record) if (!isField(field) && !isEmpty(record[field])) drop(field);
    const person = system.toPerson(own);
    if (typeof person === 'string') {
      drop(person);
      return [];
    }
    if ('line' in person) return [{ number: place, read: () => countUser(parseRecord(person.line)) }];
    const { user, bans } = linesOf(person, options);
    if (summary.sample.length < SAMPLE) summary.sample.push(user);
    if (bans.length > 0) summary.blocked += 1;
    return [user, ...bans].map((line) => ({
      number: place,
      sourceId: person.id,
      read: () => countUser(parseRecord(line)),
    }));
  }

  /** The lines of a record of a file, or one that tells why it cannot be read. */
  function linesOfPlaced({ place, read }: PlacedRecord, joined: JoinedRows, isFirst: boolean): SourceLine[] {
    let sourceId: string | null = null;
    try {
      const record = read();
      if (isFirst && !isTable) requireKnown(record, system, isField);
      if (isJoined(record, system)) return [];
      sourceId = idIn(record, system.idFields);
      return linesOfRecord(place, record, joined);
    } catch (error) {
      if (isFirst && !isTable && sourceId === null) throw error;
      return [
        {
          number: place,
          sourceId,
          read: () => {
            throw error;
          },
        },
      ];
    }
  }

  return {
    system: system.name,
    summary: () => summary,

    async *read(input) {
      counter.begin();
      const joined = await readJoined(input, sizes, system);
      for (let place = 0; place < Math.max(1, sizes.length); place += 1) {
        const { form, records, isPage } = await readFile(
          sizes.length > 1 ? partOf(input, sizes, place) : input,
          system,
        );
        summary.files.push(form);
        let isFirst = true;
        for await (const some of system.joinBy === undefined ? records : joinRows(records, system.joinBy)) {
          // One by one, so that the reader can let others go on in between.
          for (const placed of some) {
            yield linesOfPlaced(placed, joined, isFirst);
            isFirst = false;
          }
        }
        // The last page names no other.
        if (isPage?.() && place + 1 >= sizes.length) drop('further pages, which the last file names');
      }
    },
  };
}

/** Counts what is in the files, and what becomes of it. */
interface Counter {
  readonly summary: MoveSummary;
  /** Counts what is kept in another way. */
  readonly note: (what: string) => void;
  /** Counts what is not kept. */
  readonly drop: (what: string) => void;
  /** Counts the user of a line, which it returns. */
  readonly countUser: (line: LineRecord) => LineRecord;
  /** Forgets what was counted before. */
  readonly begin: () => void;
}

function createCounter(zone: string): Counter {
  const summary = newSummary(zone);
  function count(counts: Record<string, number>, what: string): void {
    const name = Object.hasOwn(counts, what) || Object.keys(counts).length < MAX_KINDS ? what : 'other fields';
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return {
    summary,
    note: (what) => count(summary.kept_otherwise, what),
    drop: (what) => count(summary.not_kept, what),
    countUser(line) {
      if ('ban' in line) return line;
      const { user } = line;
      summary.people += 1;
      for (const { authMethod } of [user, ...(user.linked ?? [])]) count(summary.identities, authMethod);
      const emails = [user.saidEmail, user.identityEmail, ...(user.linked ?? []).map(({ loginEmail }) => loginEmail)];
      if (emails.every((email) => email === null || email === '')) summary.without_email += 1;
      return line;
    },
    begin() {
      Object.assign(summary, newSummary(zone));
    },
  };
}

function newSummary(zone: string): MoveSummary {
  return {
    people: 0,
    identities: {},
    without_email: 0,
    blocked: 0,
    kept_otherwise: {},
    not_kept: {},
    time_zone: zone,
    files: [],
    sample: [],
  };
}

/** The records of other files that belong to people, as JSON, by the ID of the person. */
type JoinedRows = ReadonlyMap<string, string[]>;

const isJoined = (record: SourceRecord, { joined }: System) =>
  joined?.fields.every((field) => field in record) ?? false;

function joinedTo(record: SourceRecord, rowsOf: JoinedRows, { joined, idFields }: System): SourceRecord {
  if (joined === undefined) return {};
  const rows = rowsOf.get(textOf(record[idFields[0] as string])) ?? [];
  if (rows.length > MAX_ROWS) throw tooManyRows();
  return { [joined.as]: rows.map((row) => JSON.parse(row)) };
}

/** Reads the records of the files that belong to people of others. BAD_USER_INPUT where they are too many. */
async function readJoined(input: AsyncIterable<Buffer>, sizes: readonly number[], system: System): Promise<JoinedRows> {
  const joined = new Map<string, string[]>();
  let length = 0;
  nextFile: for (let place = 0; system.joined !== undefined && place < sizes.length; place += 1) {
    for await (const records of (await readFile(partOf(input, sizes, place), system)).records) {
      for (const { read } of records) {
        const record = read();
        if (!isJoined(record, system)) continue nextFile;
        const row = JSON.stringify(record);
        length += row.length;
        if (length > MAX_JOINED_LENGTH) throw tooManyJoined(system);
        const id = textOf(record[system.joined.key]);
        const rows = joined.get(id);
        if (rows === undefined) joined.set(id, [row]);
        // One more than is allowed tells that there are too many.
        else if (rows.length <= MAX_ROWS) rows.push(row);
      }
    }
  }
  return joined;
}

/** The least part of the fields of a record that an adapter knows, where it is one of its system. */
const LEAST_KNOWN = 0.25;

/** Only of the first record: that of another kind of file is not reported record by record. */
function requireKnown(
  record: SourceRecord,
  { title, idFields, needs = idFields, joined }: System,
  isField: (name: string) => boolean,
): void {
  if (idFields.length === 0) return;
  const filled = Object.keys(record).filter((field) => !isEmpty(record[field]));
  const isJoined = joined?.fields.some((field) => field in record) ?? false;
  const missing = [idFields, needs].find((names) => !isJoined && !names.some((field) => field in record));
  if (
    missing === undefined &&
    filled.filter((field) => isField(field) || joined?.fields.includes(field)).length >= LEAST_KNOWN * filled.length
  )
    return;
  const why = missing === undefined ? 'has few of the fields' : `has no ${missing.join(' or ')}, as that`;
  throw new AppError(
    'BAD_USER_INPUT',
    `The first record ${why} of an export of ${title}: is the file from another system?`,
  );
}

function tooManyJoined({ title }: System): AppError {
  return new AppError(
    'BAD_USER_INPUT',
    `The second file has more than ${MAX_JOINED_LENGTH} characters. Join it to the first one in ${title}, as docs/moving.md says.`,
  );
}

/** The bytes of one of several files that follow one another. */
async function* partOf(input: AsyncIterable<Buffer>, sizes: readonly number[], place: number): AsyncGenerator<Buffer> {
  const start = sizes.slice(0, place).reduce((sum, size) => sum + size, 0);
  const end = start + (sizes[place] ?? 0);
  let at = 0;
  for await (const chunk of input) {
    const part = chunk.subarray(Math.max(0, start - at), Math.max(0, end - at));
    at += chunk.length;
    if (part.length > 0) yield part;
    if (at >= end) return;
  }
}
