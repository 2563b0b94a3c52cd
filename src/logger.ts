import { type Logger, pino } from 'pino';
import pretty from 'pino-pretty';

export type { Logger } from 'pino';

/** Whatever might carry a credential is cut out, wherever it is logged. */
const SECRETS = ['app-secret', 'appSecret', 'app_secret', 'authorization', 'service-app-secret', 'headers', 'password'];

/** Logs go to stderr, because stdout is for answers: readable on a terminal, one JSON object a line elsewhere. */
export function createLogger(level: string): Logger {
  const destination = process.stderr.isTTY
    ? pretty({ destination: 2, sync: true, colorize: true, ignore: 'pid,hostname', translateTime: 'HH:MM:ss.l' })
    : pino.destination({ dest: 2, sync: true });
  const paths = SECRETS.flatMap((name) => [`["${name}"]`, `*["${name}"]`]);
  return pino({ level, redact: { paths, remove: true } }, destination);
}
