import type { Services } from '../context.js';
import type { Database } from '../db/database.js';
import { isStored, type Stored } from '../domain/import-format.js';
import type { Operator } from '../domain/operators.js';
import type { ProjectSummary } from '../domain/projects.js';

/**
 * What a command does to a database. It runs in the process of the command or, while a server holds the embedded database, in that
 * server (control-socket.ts). Parameters and result are therefore plain JSON. `--json` prints the result.
 */
export interface Operation<Params, Result> {
  /** The words of the command, such as `user import`. */
  readonly name: string;
  readonly run: (context: OperationContext, params: Params, io: Io) => Promise<Result>;
  /** Whether its output is passed on as it is written. Without it, a server sends all of it at the end. */
  readonly isLive?: boolean;
}

/** The operations of all commands by name. */
export type Operations = Map<string, Operation<never, unknown>>;

export interface OperationContext {
  readonly db: Database;
  readonly services: Services;
  /** The person who runs the command. */
  readonly operator: Operator;
  /** Where browsers reach the service: the address that a running server listens on, or what the settings say. Null without a dashboard. */
  readonly dashboardUrl: string | null;
  /** Names of the migrations that were applied when the database was opened. */
  readonly applied: readonly string[];
}

export interface Io {
  readonly input: AsyncIterable<Buffer> | Stored;
  readonly write: (chunk: string) => Promise<void>;
  readonly progress: (progress: Progress) => void;
  /** Tells a person something before the end. */
  readonly notice: (sentence: string) => void;
  readonly signal: AbortSignal;
}

export interface Progress {
  /** How many lines, users or projects are done. */
  readonly done: number;
  /** The part of the whole that is done, from 0 to 1, if the whole is known. */
  readonly fraction?: number;
}

export function progressOf(done: number, total: number): Progress {
  return { done, fraction: total === 0 ? 1 : done / total };
}

/** How many rows a list reads and prints at a time. */
export const PAGE_ROWS = 1_000;

/** Pages of at most `limit` rows in all. `read` is told the last row of the page before. */
export async function* readPages<Row>(
  limit: number,
  read: (last: Row | undefined, limit: number) => Promise<Row[]>,
): AsyncGenerator<Row[]> {
  let page: Row[] = [];
  for (let left = limit; left > 0; left -= page.length) {
    const size = Math.min(left, PAGE_ROWS);
    page = await read(page.at(-1), size);
    yield page;
    if (page.length < size) return;
  }
}

/** All projects, oldest first. */
export function readProjects({ projects }: Services): AsyncGenerator<ProjectSummary[]> {
  return readPages(Number.POSITIVE_INFINITY, (last, limit) => projects.listProjects(last?.id ?? 0, limit));
}

/** The input, and how much of it has been read, if its length is known. */
export function countBytes(input: Io['input']) {
  let readBytes = 0;
  async function* chunks() {
    for await (const chunk of input) {
      readBytes += chunk.length;
      yield chunk;
    }
  }
  return { chunks: chunks(), fraction: () => (isStored(input) ? { fraction: readBytes / input.bytes } : {}) };
}
