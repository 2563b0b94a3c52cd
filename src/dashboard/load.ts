import type { Check, Figure, StatusSource } from './builder.js';

/** What the page "Status" shows, from the parts of the server. */
export interface LoadSources {
  readonly admission: {
    readonly load: { readonly inFlight: number; readonly queued: number; readonly refused: number };
  };
  readonly pool: { readonly idleCount: number; readonly totalCount: number; readonly waitingCount: number };
  readonly isEmbedded: boolean;
  /** The checks of `userdir doctor` of the database. */
  readonly examine: () => Promise<Check[]>;
}

/** The checks ask the database ten questions one after another, so an answer serves all pages for so long. */
const CHECKED_FOR_MS = 10_000;

/** The same, but its result is kept. A failure is not. */
function keeping<Result>(make: () => Promise<Result>, ms: number): () => Promise<Result> {
  let made: { readonly result: Promise<Result>; readonly at: number } | null = null;
  return () => {
    if (made !== null && performance.now() - made.at < ms) return made.result;
    const result = make();
    const current = { result, at: performance.now() };
    made = current;
    result.catch(() => {
      if (made === current) made = null;
    });
    return result;
  };
}

export function createStatus({ admission, pool, isEmbedded, examine }: LoadSources): StatusSource {
  const startedAt = new Date(Date.now() - process.uptime() * 1_000);
  return {
    startedAt,
    database: isEmbedded ? 'embedded' : 'PostgreSQL',
    checks: keeping(examine, CHECKED_FOR_MS),
    async figures() {
      const { inFlight, queued, refused } = admission.load;
      const figure = (name: string, description: string, value: number, unit = ''): Figure => ({
        name,
        description,
        value,
        unit,
      });
      return [
        figure('uptime', 'How long this process runs', Math.floor(process.uptime()), 'seconds'),
        figure('in_flight', 'Units of work in progress', inFlight),
        figure('queued', 'Units of work that wait', queued),
        figure('refused', 'Requests refused because the queue was full, since the start', refused),
        figure('connections', 'Connections to the database', pool.totalCount),
        figure('idle_connections', 'Connections that are free', pool.idleCount),
        figure('waiting', 'Statements that wait for a connection', pool.waitingCount),
        figure('memory', 'Memory of this process', process.memoryUsage.rss(), 'bytes'),
        figure('cpu', 'Processor time of this process', process.cpuUsage().user / 1e6, 'seconds'),
      ];
    },
  };
}
