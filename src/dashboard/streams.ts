import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Services } from '../context.js';
import { dateBound, loginMethods, userFilter } from '../domain/filters.js';
import { EXPORT_FORMATS, type ExportFormat, ON_CONFLICT, type UserFormat } from '../domain/import-format.js';
import { requireNoNul } from '../domain/input-limits.js';
import { parse } from '../domain/parse.js';
import type { AuditQuestion, ProjectScope } from '../domain/projects.js';
import type { SpoolFile } from '../domain/stored.js';
import { EXPORT_TARGETS } from '../domain/systems.js';
import { AppError, badInput, type ErrorCode, fromUnknown } from '../errors.js';
import { allowLongUpload, refuseBrackets, reportFailure } from '../http/failures.js';
import type { Lifetime, Lifetimes, Streams, Terms } from '../http/lifetime.js';

/*
 * Downloads, uploads and what a page follows, which may be of any length. Nothing that they hold for others waits for the network: a file
 * stands between it and a transaction.
 */

/** The largest upload: about ten million users. */
const MAX_UPLOAD_BYTES = 4 * 2 ** 30;
const PROGRESS_INTERVAL_MS = 200;
/** The event says that something is new, not what: the page asks as what its operator may see. */
const NEWS = 'data: \n\n';

/** What says that the operator has lost the right: the session, the role, or the project. */
const LOST: readonly ErrorCode[] = ['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'];

type Open = Lifetime<ProjectScope>;

/** Writes what is to be downloaded. */
type Produce = (write: Open['write'], signal: AbortSignal) => Promise<unknown>;

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

const dates = {
  start: dateBound('start_date', 'first').nullish(),
  end: dateBound('end_date', 'last').nullish(),
  methods: loginMethods('login_method').nullish(),
};

export interface StreamOptions {
  readonly services: Services;
  readonly lifetimes: Lifetimes;
  readonly streams: Streams;
}

export function serveStreams(
  app: FastifyInstance,
  rightOf: RightOf,
  { services, lifetimes, streams }: StreamOptions,
): void {
  const { spool } = services;

  /** Begins a transfer, and returns the body of its answer. `fail` tells the client of a failure, or throws it, which breaks the answer off. */
  function begin(
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

  /** Answers with what `produce` writes, as fast as the client reads. */
  function download(
    request: FastifyRequest,
    reply: FastifyReply,
    right: Right,
    { name, format }: { readonly name: string; readonly format: UserFormat },
    produce: Produce,
  ): FastifyReply {
    const [type, ending] = FILE_TYPES[format as ExportFormat] ?? ['application/json', `${format}.json`];
    const body = begin(
      request,
      reply,
      right,
      ({ write, signal }) => produce(write, signal),
      async (_open, failure) => {
        throw failure;
      },
    );
    return reply
      .type(`${type}; charset=utf-8`)
      .header('content-disposition', `attachment; filename="${name}.${ending}"`)
      .send(body);
  }

  app.get('/dashboard/projects/:appId/export', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const right = await rightOf(request, 'inspect');
      const { scope } = right;
      const { start_date, end_date, login_method } = queryOf(request);
      const filter = userFilter({
        createdFrom: parse(dates.start, start_date),
        createdTo: parse(dates.end, end_date),
        loginMethods: parse(dates.methods, login_method),
      });
      const format = readFormat(request, [...EXPORT_FORMATS, ...EXPORT_TARGETS]);
      let report = '';
      // A command says from where on to follow the changes.
      reply.trailer('userdir-export', async () => report);
      return download(request, reply, right, { name: `users-${scope.appId}`, format }, async (write, signal) => {
        const exported = await services.transfers.exportUsers(scope, {
          filter,
          format,
          requestId: right.requestId,
          write,
          signal,
        });
        report = JSON.stringify(exported);
      });
    },
  });

  app.get('/dashboard/projects/:appId/audit', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const right = await rightOf(request, 'inspect');
      const { scope } = right;
      const question = readQuestion(request);
      // Says what is wrong with the conditions before the answer begins.
      services.audit.checkQuestion(question);
      const format = readFormat(request, EXPORT_FORMATS);
      return download(request, reply, right, { name: `audit-${scope.appId}`, format }, (write, signal) =>
        services.audit.exportEntries(scope, question, { format, write, signal }),
      );
    },
  });

  app.get('/dashboard/projects/:appId/news', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const { scope, terms, restMs } = await rightOf(request, 'inspect', 'follow');
      return streams.follow(request, reply, terms, async function* ({ signal, admit }) {
        try {
          for await (const _ of services.changes.watch(scope, signal)) {
            yield await admit(async () => NEWS);
            await sleep(restMs, undefined, { signal });
          }
        } catch (error) {
          // Where it is not admitted, it ends in order: the page connects again.
          if (!signal.aborted && !(error instanceof AppError)) throw error;
        }
      });
    },
  });

  app.register(async (uploads) => {
    uploads.removeAllContentTypeParsers();
    uploads.addContentTypeParser(['application/x-ndjson', 'application/octet-stream'], ({ headers }, body, done) => {
      if (Number(headers['content-length']) > MAX_UPLOAD_BYTES) done(tooLarge());
      else done(null, body);
    });
    uploads.post('/dashboard/projects/:appId/import', {
      schema: { hide: true },
      bodyLimit: MAX_UPLOAD_BYTES,
      handler: async (request, reply) => {
        const right = await rightOf(request, 'operate');
        const { isDryRun, isTold, given, ...how } = readImportOptions(request);
        const move = given && (await services.transfers.moveOf(given));
        const transfer = (open: Open) =>
          spool.withFile(async (file) => {
            await receive(request, open.signal, file);
            // The upload may have taken long.
            const scope = await right.terms.permit();
            const work = isDryRun ? services.transfers.checkImport : services.transfers.importUsers;
            const report = await work(scope, file, {
              ...how,
              move,
              tell: isTold ? (rows) => open.write(frame({ rows })) : null,
              requestId: right.requestId,
              progress: progressFrames(open),
              ...(right.waitMs !== undefined && { waitMs: right.waitMs }),
              onWait: (notice) => void open.write(frame({ notice })).catch(() => undefined),
              signal: open.signal,
              permit: right.permitWithin,
            });
            await open.write(frame({ report }));
          }, MAX_UPLOAD_BYTES);
        const body = begin(request, reply, right, transfer, ({ write }, { code, publicMessage: message }) =>
          write(frame({ error: { code, message } })),
        );
        // One that has to end ends its connection. Not so a download: without keep-alive, some clients take a part for the whole.
        return reply
          .type('application/x-ndjson; charset=utf-8')
          .headers({ connection: 'close', 'x-accel-buffering': 'no' })
          .send(body);
      },
    });
  });
}

const frame = (value: object) => `${JSON.stringify(value)}\n`;

/** Takes an upload, as slowly as it comes. The connection is left open, so that the client can be told why it ends. */
async function receive(request: FastifyRequest, signal: AbortSignal, file: SpoolFile): Promise<void> {
  const endUpload = allowLongUpload(request);
  try {
    for await (const chunk of (request.body as Readable).iterator({ destroyOnReturn: false })) {
      signal.throwIfAborted();
      await file.write(chunk);
    }
  } finally {
    endUpload();
  }
}

const PARAMETERS = [
  ...['format', 'start_date', 'end_date', 'login_method', 'on_conflict', 'skip_invalid'],
  ...['from', 'sizes', 'trust_unverified', 'dates', 'time_zone', 'map', 'dry_run', 'report'],
  ...['actor', 'action', 'user_id', 'since', 'until'],
];

function queryOf({ query }: FastifyRequest): Record<string, unknown> {
  refuseBrackets(query, PARAMETERS);
  return query as Record<string, unknown>;
}

/** Reads a parameter of the query, which may be given once. */
function readerOf(request: FastifyRequest) {
  const query = queryOf(request);
  requireNoNul('query', query);
  return (name: string): string | undefined => {
    const value = query[name];
    if (value === undefined || typeof value === 'string') return value;
    throw badInput(name, value, 'one value');
  };
}

/** The media type and the ending of a file. */
const FILE_TYPES: Readonly<Record<ExportFormat, readonly [type: string, ending: string]>> = {
  ndjson: ['application/x-ndjson', 'ndjson'],
  csv: ['text/csv', 'csv'],
};

function readFormat<Format extends UserFormat>(request: FastifyRequest, formats: readonly Format[]): Format {
  const { format: name = 'ndjson' } = queryOf(request);
  const format = formats.find((one) => one === name);
  if (format !== undefined) return format;
  throw badInput('format', name, `one of ${formats.join(', ')}`);
}

/** The conditions on entries of the audit trail, each given at most once. */
function readQuestion(request: FastifyRequest): AuditQuestion {
  const read = readerOf(request);
  return {
    actor: read('actor'),
    action: read('action'),
    userId: read('user_id'),
    since: read('since'),
    until: read('until'),
  };
}

function readImportOptions(request: FastifyRequest) {
  const read = readerOf(request);
  const isTrue = (name: string): boolean => {
    const value = read(name) ?? 'false';
    if (value !== 'true' && value !== 'false') throw badInput(name, value, 'true or false');
    return value === 'true';
  };
  const onConflict = ON_CONFLICT.find((action) => action === (read('on_conflict') ?? 'fail'));
  if (onConflict === undefined) throw badInput('on_conflict', read('on_conflict'), `one of ${ON_CONFLICT.join(', ')}`);
  const from = read('from');
  const given =
    from === undefined
      ? null
      : {
          from,
          sizes: readSizes(read('sizes')),
          trustUnverified: isTrue('trust_unverified'),
          dates: read('dates') ?? null,
          zone: read('time_zone') ?? null,
          map: read('map') ?? null,
        };
  return {
    onConflict,
    skipInvalid: isTrue('skip_invalid'),
    isDryRun: isTrue('dry_run'),
    isTold: isTrue('report'),
    given,
  };
}

/** The bytes of each file of an upload, which follow one another. */
function readSizes(text = ''): number[] {
  if (/^(\d{1,13}(,\d{1,13}){0,19})?$/.test(text)) return text === '' ? [] : text.split(',').map(Number);
  throw badInput('sizes', text, 'the bytes of at most 20 files, separated by commas');
}

function tooLarge(): AppError {
  const message = `body: got more, expected at most ${MAX_UPLOAD_BYTES} bytes.`;
  // The rest is not read.
  return new AppError('PAYLOAD_TOO_LARGE', message, { headers: { connection: 'close' } });
}

/** Reports progress now and then, as the lines that are read and the part of the work; not while the client has yet to read. */
function progressFrames({ write }: Open) {
  let sentAt = 0;
  let isUnread = false;
  return (lines: number, fraction = 0) => {
    const now = performance.now();
    if (isUnread || now - sentAt < PROGRESS_INTERVAL_MS) return;
    sentAt = now;
    isUnread = true;
    write(frame({ progress: { lines, fraction } })).then(
      () => {
        isUnread = false;
      },
      () => undefined,
    );
  };
}
