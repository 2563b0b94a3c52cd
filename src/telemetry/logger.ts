import { hostname } from 'node:os';
import { type DestinationStream, type Logger, pino, symbols } from 'pino';
import pretty from 'pino-pretty';
import { AppError, counted, redact } from '../errors.js';
import { createLineWriter, type LineWriter } from './line-writer.js';

export type { Logger } from 'pino';

/** Properties that may carry a credential. They are removed from every line. */
const SECRETS = ['app-secret', 'appSecret', 'app_secret', 'authorization', 'service-app-secret', 'headers', 'password'];
/** SQLSTATE class 22. Its message repeats the value that the database refused. */
const DATA_EXCEPTION = /^22[0-9A-Z]{3}$/;
const DEEPEST_CAUSE = 5;
/** The length of a message that is logged, and the length that is searched for what must not be logged. */
const [LOGGED_LENGTH, READ_LENGTH] = [2_000, 2_400];
const messageForLog = (message: string) => redact(message.slice(0, READ_LENGTH)).slice(0, LOGGED_LENGTH);

/** Logs go to stderr, because stdout is for results: as text on a terminal, else as one JSON object a line. */
export function createLogger(level: string, destination: DestinationStream = stderr()): Logger {
  const paths = SECRETS.flatMap((name) => [`["${name}"]`, `*["${name}"]`]);
  return pino({ level, redact: { paths, remove: true }, serializers: { err: errorForLog } }, destination);
}

let writer: LineWriter | null = null;

/** Lines of the log that could not be written, since the start of this process. */
export const countDroppedLines = (): number => writer?.dropped() ?? 0;

function stderr(): DestinationStream {
  if (process.stderr.isTTY)
    return pretty({ destination: 2, sync: true, colorize: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss.l' });
  // On a full disk, and for a pipe that nobody reads, lines are kept and then dropped, and the service goes on.
  writer ??= createLineWriter(2, tellDropped);
  return byTicks(writer);
}

/** As pino writes a warning. */
function tellDropped(lines: number): string {
  const msg = `${counted(lines, 'log line')} could not be written, and ${lines === 1 ? 'is' : 'are'} lost.`;
  const line = { level: URGENT, time: Date.now(), pid: process.pid, hostname: hostname(), droppedLines: lines, msg };
  return `${JSON.stringify(line)}\n`;
}

/** A line of this level or above is written at once. */
const URGENT = pino.levels.values['warn'] as number;
/** So many characters are written before the next tick. */
const MOST_KEPT = 65_536;

/** Writes lines at the next tick: a system call for each took 3 % of the CPU of a busy service. Errors, warnings and the exit do not wait. */
function byTicks(destination: Pick<LineWriter, 'write'>): DestinationStream {
  let lines = '';
  const flush = () => {
    const text = lines;
    lines = '';
    if (text !== '') destination.write(text);
  };
  process.on('exit', flush);
  const buffered = {
    // With this symbol, pino sets `lastLevel` before each line.
    [symbols.needsMetadataGsym]: true,
    lastLevel: 0,
    write(line: string) {
      if (lines === '') process.nextTick(flush);
      lines += line;
      if (buffered.lastLevel >= URGENT || lines.length > MOST_KEPT) flush();
    },
  };
  return buffered;
}

/** The message and the place of an error. Its other properties are not logged: those of PostgreSQL have rows of users, and others carry the request. */
function errorForLog(error: unknown, depth = 0, ofOutage = false): object {
  if (!(error instanceof Error)) return { message: messageForLog(String(error)) };
  // While the database is away, each request fails, and no place in this program is the reason.
  const isOutage = ofOutage || (error instanceof AppError && error.code === 'UNAVAILABLE');
  const { code, constraint, table, cause } = error as Error & Record<string, unknown>;
  return {
    type: error.name,
    code,
    message: typeof code === 'string' && DATA_EXCEPTION.test(code) ? undefined : messageForLog(error.message),
    constraint,
    table,
    stack: isOutage ? undefined : (error.stack ?? '').match(/^ {4}at .*$/gm)?.join('\n'),
    ...(cause !== undefined && depth < DEEPEST_CAUSE && { cause: errorForLog(cause, depth + 1, isOutage) }),
    ...(error instanceof AggregateError && {
      errors: error.errors.map((part) => errorForLog(part, DEEPEST_CAUSE, isOutage)),
    }),
  };
}
