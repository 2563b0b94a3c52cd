import pg from 'pg';
// @ts-expect-error pg has no types for it. It turns a value into the text or bytes that PostgreSQL reads.
import { prepareValue } from 'pg/lib/utils.js';
import { serialize } from 'pg-protocol';
import { QUERY_TIMEOUT_MESSAGE, sessionEnded } from './failures.js';

/** Makes a row from the texts of its columns, in order. */
type MakeRow = (texts: readonly (string | null)[]) => unknown;

/** A column of a result. */
interface Column {
  readonly name: string;
  readonly dataTypeID: number;
}

/** The connection that pg hands to a statement. Its types leave this out. */
interface Connection {
  readonly stream: { readonly writable: boolean; write(bytes: Buffer): void };
  readonly parsedStatements: Record<string, string | undefined>;
  sendCopyFail(reason: string): void;
}

const DESCRIBE = serialize.describe({ type: 'P' });
const EXECUTE = Buffer.concat([serialize.execute(), serialize.sync()]);

/** The makers of rows of the statements that a connection has prepared. Their columns never change: PostgreSQL refuses a plan whose result would. */
const describedOn = new WeakMap<Connection, Map<string, MakeRow>>();

/** A column, and how its values are read. */
interface Reader {
  readonly name: string;
  readonly read: (text: string) => unknown;
}

function rowMakerOf(columns: readonly Column[]): MakeRow {
  const readers = columns.map(({ name, dataTypeID }): Reader => {
    return { name, read: PARSERS[dataTypeID] ?? pg.types.getTypeParser(dataTypeID, 'text') };
  });
  // A copy has all its properties at once, so that the rows have one shape.
  const empty: Record<string, unknown> = Object.fromEntries(columns.map(({ name }) => [name, null]));
  return (texts) => {
    const row = { ...empty };
    for (let place = 0; place < readers.length; place += 1) {
      const text = texts[place] as string | null;
      const { name, read } = readers[place] as Reader;
      if (text !== null) row[name] = read(text);
    }
    return row;
  };
}

/** Parsers of the text that PostgreSQL sends; those of other types are pg's. */
const PARSERS: Record<number, (text: string) => unknown> = {
  [pg.types.builtins.INT8]: toSafeInteger,
  [pg.types.builtins.TIMESTAMPTZ]: toIsoInstant,
};

/** The sequences of the ids end at 2^53 - 1, so that every id and every total is exact in JSON. */
function toSafeInteger(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new RangeError('The database returned an integer that JSON cannot represent exactly.');
}

/** From `2026-01-31 12:00:00.12+00`, the form that sessions use, to ISO 8601 with milliseconds. */
function toIsoInstant(text: string): string {
  const fraction = text.slice(19, -3);
  return `${text.slice(0, 10)}T${text.slice(11, 19)}${fraction === '' ? '.000' : fraction.padEnd(4, '0')}Z`;
}

/** An array as a parameter, in PostgreSQL's text. It is made before its statement, and in a fifth of the time that pg takes. */
export function arrayText(values: readonly ArrayItem[]): string {
  let text = '';
  for (let place = 0; place < values.length; place += 1)
    text += (place === 0 ? '' : ',') + itemText(values[place] as ArrayItem);
  return `{${text}}`;
}

export type ArrayItem = string | number | bigint | boolean | Date | null | undefined;

function itemText(value: ArrayItem): string {
  if (typeof value === 'string') return `"${TO_ESCAPE.test(value) ? value.replace(/["\\]/g, '\\$&') : value}"`;
  if (value == null) return 'NULL';
  // pg would write a date in the time zone of the process.
  return value instanceof Date ? `"${value.toISOString()}"` : String(value);
}

const TO_ESCAPE = /["\\]/;

/**
 * A named statement that pg runs (`client.query(statement)`), instead of pg's own Query. It asks once for a connection, and not with each
 * execution, for its columns, and emits no events. With pg's Query, reads are 8 % slower, and logins 1 % (docs/decisions/sql.md).
 */
export class PreparedStatement<Row> implements pg.Submittable, Limited {
  readonly #rows: Row[] = [];
  #makeRow: MakeRow | undefined;
  #fault: Error | null = null;
  #isSettled = false;

  /** `settle` is called once, with an error or with the rows. */
  constructor(
    readonly name: string,
    readonly text: string,
    readonly values: readonly unknown[],
    private readonly settle: (error: Error | null, rows: Row[]) => void,
  ) {}

  /** An error that is returned counts as the error of the statement. */
  submit(pgConnection: pg.Connection): Error | undefined {
    const connection = pgConnection as unknown as Connection;
    const { name, text } = this;
    const parsedText = connection.parsedStatements[name];
    if (parsedText !== undefined && parsedText !== text)
      return this.#refuse(new Error(`Two statements have the name ${name}.`));
    let values: unknown[];
    try {
      values = this.values.map((value) => prepareValue(value));
    } catch (error) {
      return this.#refuse(error as Error);
    }
    this.#makeRow = describedOn.get(connection)?.get(name);
    const messages = [serialize.bind({ statement: name, values }), EXECUTE];
    if (this.#makeRow === undefined) messages.splice(1, 0, DESCRIBE);
    if (parsedText === undefined) messages.unshift(serialize.parse({ name, text }));
    // One write: pg's own methods write each message.
    if (connection.stream.writable) connection.stream.write(Buffer.concat(messages));
    return undefined;
  }

  #refuse(fault: Error): Error {
    this.#fault = fault;
    return fault;
  }

  handleRowDescription({ fields }: { fields: readonly Column[] }): void {
    this.#makeRow = rowMakerOf(fields);
  }

  handleDataRow({ fields }: { fields: readonly (string | null)[] }): void {
    if (this.#fault !== null) return;
    try {
      this.#rows.push((this.#makeRow as MakeRow)(fields) as Row);
    } catch (error) {
      this.#fault = error as Error;
    }
  }

  handleReadyForQuery(connection: Connection): void {
    // A statement that returns no rows has no description.
    const makeRow = this.#makeRow ?? rowMakerOf([]);
    const described = describedOn.get(connection);
    if (described === undefined) describedOn.set(connection, new Map([[this.name, makeRow]]));
    else if (!described.has(this.name)) described.set(this.name, makeRow);
    this.#end(this.#fault);
  }

  /** What is neither our own fault nor an answer of PostgreSQL has ended the session. */
  handleError(error: Error): void {
    const isAnswer = error === this.#fault || error instanceof pg.DatabaseError;
    this.#end(isAnswer ? error : sessionEnded(error));
  }

  handleCommandComplete(): void {}

  handleEmptyQuery(): void {}

  handlePortalSuspended(): void {}

  handleCopyInResponse(connection: Connection): void {
    connection.sendCopyFail('A statement of a request cannot copy.');
  }

  handleCopyData(): void {}

  giveUp(): void {
    this.#end(new Error(QUERY_TIMEOUT_MESSAGE));
  }

  /** pg reports the error of a connection to each statement, also to one whose time was over. */
  #end(error: Error | null): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.settle(error, this.#rows);
  }
}

/** Work that a time limit can give up. */
export interface Limited {
  giveUp(): void;
}

export interface TimeLimit {
  /** Returns the slot by which the work is closed. */
  open(work: Limited): number;
  close(slot: number): void;
  /** Gives up all work that is open now. */
  giveUpAll(): void;
}

/** The pause between checks: work may take that much longer than its limit. */
const CHECK_MS = 250;

/**
 * Gives up work that is open for longer than `limitMs`, by one timer while there is any. A timer for each statement, as pg's `query_timeout`,
 * costs more; and V8 keeps each statement alive until the next full collection (docs/benchmarks.md, "Garbage collection").
 */
export function createTimeLimit(limitMs: number): TimeLimit {
  /** The open work in slots that are used again, with the time when it was opened. */
  const works: (Limited | null)[] = [];
  const openedAt: number[] = [];
  const free: number[] = [];
  let timer: NodeJS.Timeout | null = null;

  function check(): void {
    const latest = performance.now() - limitMs;
    for (const [slot, work] of works.entries()) if (work !== null && (openedAt[slot] as number) < latest) work.giveUp();
    if (free.length < works.length) return;
    clearInterval(timer as NodeJS.Timeout);
    timer = null;
  }

  return {
    open(work) {
      const slot = free.pop() ?? works.length;
      works[slot] = work;
      openedAt[slot] = performance.now();
      timer ??= setInterval(check, CHECK_MS).unref();
      return slot;
    },
    close(slot) {
      works[slot] = null;
      free.push(slot);
    },
    giveUpAll() {
      for (const work of works) work?.giveUp();
    },
  };
}
