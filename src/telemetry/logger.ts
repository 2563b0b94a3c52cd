import { type DestinationStream, type Logger, pino } from 'pino';
import pretty from 'pino-pretty';
import { redact } from './redact.js';

export type { Logger } from 'pino';

/** Properties that may carry a credential. They are removed from every line. */
const SECRETS = ['app-secret', 'appSecret', 'app_secret', 'authorization', 'service-app-secret', 'headers', 'password'];
/** SQLSTATE class 22. Its message repeats the value that the database refused. */
const DATA_EXCEPTION = /^22[0-9A-Z]{3}$/;
const DEEPEST_CAUSE = 5;
/** How much of a message is logged, and how much is searched for what must not be logged. */
const [LOGGED_LENGTH, READ_LENGTH] = [2_000, 2_400];
const messageForLog = (message: string) => redact(message.slice(0, READ_LENGTH)).slice(0, LOGGED_LENGTH);

/** Logs go to stderr, because stdout is for results: as text on a terminal, else as one JSON object a line. */
export function createLogger(level: string, destination: DestinationStream = stderr()): Logger {
  const paths = SECRETS.flatMap((name) => [`["${name}"]`, `*["${name}"]`]);
  return pino({ level, redact: { paths, remove: true }, serializers: { err: errorForLog } }, destination);
}

function stderr(): DestinationStream {
  return process.stderr.isTTY
    ? pretty({ destination: 2, sync: true, colorize: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss.l' })
    : pino.destination({ dest: 2, sync: true });
}

/**
 * What went wrong and where. No other property of an error is logged: those of PostgreSQL have rows of users in `detail` and
 * `where`, and others carry the request.
 */
function errorForLog(error: unknown, depth = 0): object {
  if (!(error instanceof Error)) return { message: messageForLog(String(error)) };
  const { code, constraint, table, cause } = error as Error & Record<string, unknown>;
  return {
    type: error.name,
    code,
    message: typeof code === 'string' && DATA_EXCEPTION.test(code) ? undefined : messageForLog(error.message),
    constraint,
    table,
    stack: (error.stack ?? '').match(/^ {4}at .*$/gm)?.join('\n'),
    ...(cause !== undefined && depth < DEEPEST_CAUSE && { cause: errorForLog(cause, depth + 1) }),
    ...(error instanceof AggregateError && { errors: error.errors.map((each) => errorForLog(each, DEEPEST_CAUSE)) }),
  };
}
