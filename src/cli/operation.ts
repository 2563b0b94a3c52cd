import type { Services } from '../context.js';
import type { Database } from '../db/database.js';
import type { Operator } from '../domain/operators.js';

/**
 * What a command does to a database. It runs in the process of the command or, while a server holds the embedded database, in that
 * server (control-socket.ts). Parameters and result are therefore plain JSON. `--json` prints the result.
 */
export interface Operation<Params, Result> {
  /** The words of the command, such as `user import`. */
  readonly name: string;
  readonly run: (context: OperationContext, params: Params, io: Io) => Promise<Result>;
  /** Whether it goes on until it is interrupted, also by the closing of a server. */
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
