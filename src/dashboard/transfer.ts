import type { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Services } from '../context.js';
import { requireNoNul } from '../domain/parse.js';
import type { ProjectScope } from '../domain/projects.js';
import { type AppError, badInput, type ErrorCode, fromUnknown } from '../errors.js';
import { refuseBrackets, reportFailure } from '../http/failures.js';
import type { Lifetime, Lifetimes, Streams, Terms } from '../http/lifetime.js';

/* What downloads and uploads have in common: how they begin and fail, and how their parameters are read. */

/** The right of an operator to a transfer of a project. */
export interface Right {
  readonly scope: ProjectScope;
  /** The id of the request for the trail; null for a command. */
  readonly requestId: string | null;
  /** The right is read again as long as the transfer runs. */
  readonly terms: Terms<ProjectScope>;
  /** The least time between two pieces of news. */
  readonly restMs: number;
  /** How long an import of theirs waits for another one of its project: it has one of the few places meanwhile. */
  readonly waitMs?: number;
  /** Reads it within a transaction. Throws where it is gone. */
  readonly permitWithin: NonNullable<Parameters<Services['transfers']['importUsers']>[2]['permit']>;
  /** Records that the operator was refused. */
  recordRefusal(): Promise<void>;
}

/** Finds the right of the operator in the project of a request, who needs the permission. Throws what the answer shall be. */
export type RightOf = (request: FastifyRequest, permission: 'inspect' | 'operate', use?: Use) => Promise<Right>;

/** A transfer is waited for when the service closes. What is followed is not, and following is no use of the session: it may become idle. */
export type Use = 'transfer' | 'follow';

export interface StreamOptions {
  readonly services: Services;
  readonly lifetimes: Lifetimes;
  readonly streams: Streams;
}

/** What says that the operator has lost the right: the session, the role, or the project. */
const LOST: readonly ErrorCode[] = ['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'];

export type Open = Lifetime<ProjectScope>;

/** Begins a transfer, and returns the body of its answer. `fail` tells the client of a failure, or throws it, which breaks the answer off. */
export function beginTransfer(
  lifetimes: Lifetimes,
  request: FastifyRequest,
  reply: FastifyReply,
  { terms, recordRefusal }: Right,
  transfer: (open: Open) => Promise<unknown>,
  fail: (open: Open, failure: AppError) => Promise<void>,
): Readable {
  return lifetimes.begin(request, reply, terms, async (open) => {
    try {
      await transfer(open);
    } catch (error) {
      // What ends a transfer is the reason of all that fails then.
      const failure = fromUnknown(open.signal.aborted ? open.signal.reason : error);
      if (LOST.includes(failure.code)) await recordRefusal();
      else if (!open.isGone()) reportFailure(failure, request, 'A transfer failed.');
      await fail(open, failure);
    }
  });
}

/** The query. Brackets after any name are refused: `dry_run[]=true` would be no dry run. BAD_USER_INPUT. */
export function queryOf({ query }: FastifyRequest): Record<string, unknown> {
  refuseBrackets(query, null);
  return query as Record<string, unknown>;
}

/** Reads a parameter of the query, which may be given once. */
export function readerOf(request: FastifyRequest) {
  const query = queryOf(request);
  requireNoNul('query', query);
  return (name: string): string | undefined => {
    const value = query[name];
    if (value === undefined || typeof value === 'string') return value;
    throw badInput(name, value, 'one value');
  };
}
