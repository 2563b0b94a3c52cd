import { randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, open, rm, stat } from 'node:fs/promises';
import { once } from 'node:events';
import { join } from 'node:path';
import { PassThrough, type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config/config.js';
import { dateBound, loginMethods, parse, userFilter } from '../domain/filters.js';
import type { OnConflict } from '../domain/import-format.js';
import type { ProjectScope } from '../domain/projects.js';
import { AppError, badInput, fromUnknown } from '../errors.js';
import { reportFailure } from '../http/failures.js';
import { allowLongUpload } from '../http/malformed-requests.js';
import type { AuditQuestion } from '../services/audit.js';
import type { Services } from '../services/services.js';
import type { ExportFormat } from '../services/transfers.js';

/*
 * Downloads and uploads, which may be of any length. A transfer holds a connection to the database, so there are few at a time. The
 * embedded database has only one connection: there, a file stands between it and the network, whose slowness it must not wait for.
 */

/** How many transfers run at the same time in this process. */
const MAX_TRANSFERS = 2;
/** The largest upload: about ten million users. */
const MAX_UPLOAD_BYTES = 4 * 2 ** 30;
const PROGRESS_INTERVAL_MS = 200;

/** Writes what is to be downloaded. */
type Produce = (write: (chunk: string) => Promise<void>, signal: AbortSignal) => Promise<unknown>;

/** Finds the scope of the operator in the project of a request, who needs the permission. Throws what the answer shall be. */
export type ScopeOf = (request: FastifyRequest, permission: 'inspect' | 'operate') => Promise<ProjectScope>;

const dates = {
  start: dateBound('start_date', 'first').nullish(),
  end: dateBound('end_date', 'last').nullish(),
  methods: loginMethods('login_method').nullish(),
};

export interface StreamOptions {
  readonly config: Config;
  readonly services: Services;
}

export function serveStreams(app: FastifyInstance, scopeOf: ScopeOf, { config, services }: StreamOptions): void {
  const spoolDir = join(config.dataDir, 'spool');
  const isSpooled = config.db.engine === 'embedded';
  let transfers = 0;

  function beginTransfer(): () => void {
    if (transfers >= MAX_TRANSFERS) {
      const message = `${MAX_TRANSFERS} exports or imports are running already. Try again when one has ended.`;
      throw new AppError('UNAVAILABLE', message, { headers: { 'retry-after': '10' } });
    }
    transfers += 1;
    return () => {
      transfers -= 1;
    };
  }

  /** A file for this process only, which `work` may use. */
  async function withFile<Result>(work: (path: string) => Promise<Result>): Promise<Result> {
    await mkdir(spoolDir, { recursive: true, mode: 0o700 });
    const path = join(spoolDir, `dashboard-${randomUUID()}`);
    return work(path).finally(() => rm(path, { force: true }));
  }

  /** Answers with what `produce` writes, as fast as the client reads. */
  function download(request: FastifyRequest, reply: FastifyReply, name: string, produce: Produce): FastifyReply {
    const format = readFormat(request);
    const end = beginTransfer();
    const signal = untilClosed(reply);
    const output = new PassThrough();
    const writeOut = async (chunk: string | Buffer) => {
      if (!output.write(chunk)) await once(output, 'drain', { signal });
    };
    const work = isSpooled
      ? withFile(async (path) => {
          const file = await open(path, 'w', 0o600);
          await produce(async (chunk) => void (await file.write(chunk)), signal).finally(() => file.close());
          for await (const chunk of createReadStream(path)) await writeOut(chunk as Buffer);
        })
      : produce(writeOut, signal);
    work
      .then(() => output.end())
      .catch((error: unknown) => {
        if (!signal.aborted) reportFailure(fromUnknown(error), request, 'A download failed.');
        // The connection breaks off, so that no part is taken for the whole.
        output.destroy(error as Error);
      })
      .finally(end);
    return reply
      .type(format === 'csv' ? 'text/csv; charset=utf-8' : 'application/x-ndjson; charset=utf-8')
      .header('content-disposition', `attachment; filename="${name}.${format}"`)
      .send(output);
  }

  app.get('/dashboard/projects/:appId/export', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const scope = await scopeOf(request, 'inspect');
      const { start_date, end_date, login_method } = request.query as Record<string, unknown>;
      const filter = userFilter({
        createdFrom: parse(dates.start, start_date),
        createdTo: parse(dates.end, end_date),
        loginMethods: parse(dates.methods, login_method),
      });
      return download(request, reply, `users-${scope.appId}`, (write, signal) =>
        services.transfers.exportUsers(scope, {
          filter,
          format: readFormat(request),
          requestId: request.id,
          write,
          progress: () => undefined,
          signal,
        }),
      );
    },
  });

  app.get('/dashboard/projects/:appId/audit', {
    schema: { hide: true },
    exposeHeadRoute: false,
    handler: async (request, reply) => {
      const scope = await scopeOf(request, 'inspect');
      const question = readQuestion(request);
      // Says what is wrong with the conditions before the answer begins.
      await services.audit.listPage(scope, question, { after: null, limit: 1 });
      const format = readFormat(request);
      return download(request, reply, `audit-${scope.appId}`, (write, signal) =>
        services.audit.exportEntries(scope, question, { format, write, signal }),
      );
    },
  });

  app.register(async (uploads) => {
    uploads.removeAllContentTypeParsers();
    uploads.addContentTypeParser('application/x-ndjson', ({ headers }, body, done) => {
      if (Number(headers['content-length']) > MAX_UPLOAD_BYTES) done(tooLarge());
      else done(null, body);
    });
    uploads.post('/dashboard/projects/:appId/import', {
      schema: { hide: true },
      bodyLimit: MAX_UPLOAD_BYTES,
      handler: async (request, reply) => {
        const scope = await scopeOf(request, 'operate');
        const how = readImportOptions(request);
        const end = beginTransfer();
        const signal = untilClosed(reply);
        const output = new PassThrough();
        const frame = (value: object) => void output.write(`${JSON.stringify(value)}\n`);
        const endUpload = allowLongUpload(request);
        withFile(async (path) => {
          const upload = request.body as Readable;
          await pipeline(upload, limitBytes(), createWriteStream(path, { mode: 0o600 }), { signal });
          endUpload();
          const { size } = await stat(path);
          const progress = progressFrames(size, frame);
          return services.transfers.importUsers(scope, countedBytes(path, progress), {
            ...how,
            requestId: request.id,
            progress: progress.lines,
            signal,
          });
        })
          .then((report) => frame({ report }))
          .catch((error: unknown) => {
            const failure = fromUnknown(error);
            if (!signal.aborted) reportFailure(failure, request, 'An import failed.');
            frame({ error: { code: failure.code, message: failure.publicMessage } });
          })
          .finally(() => {
            endUpload();
            end();
            output.end();
          });
        return reply.type('application/x-ndjson; charset=utf-8').send(output);
      },
    });
  });
}

/** Aborts when the connection closes before the answer is sent. */
function untilClosed(reply: FastifyReply): AbortSignal {
  const closed = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) closed.abort(new Error('The client has gone.'));
  });
  return closed.signal;
}

function readFormat({ query }: FastifyRequest): ExportFormat {
  const { format = 'ndjson' } = query as { format?: unknown };
  if (format === 'ndjson' || format === 'csv') return format;
  throw badInput('format', format, 'ndjson or csv');
}

/** The conditions on entries of the audit trail, each given at most once. */
function readQuestion({ query }: FastifyRequest): AuditQuestion {
  const given = query as Record<string, unknown>;
  const read = (name: string): string | undefined => {
    const value = given[name];
    if (value === undefined || typeof value === 'string') return value;
    throw badInput(name, value, 'one value');
  };
  return {
    actor: read('actor'),
    action: read('action'),
    userId: read('user_id'),
    since: read('since'),
    until: read('until'),
  };
}

const ON_CONFLICT: readonly OnConflict[] = ['skip', 'update', 'fail'];

function readImportOptions({ query }: FastifyRequest) {
  const { on_conflict = 'fail', skip_invalid = 'false' } = query as Record<string, unknown>;
  const onConflict = ON_CONFLICT.find((each) => each === on_conflict);
  if (onConflict === undefined) throw badInput('on_conflict', on_conflict, `one of ${ON_CONFLICT.join(', ')}`);
  if (skip_invalid !== 'true' && skip_invalid !== 'false')
    throw badInput('skip_invalid', skip_invalid, 'true or false');
  return { onConflict, skipInvalid: skip_invalid === 'true' };
}

function limitBytes(): Transform {
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (bytes <= MAX_UPLOAD_BYTES) return done(null, chunk);
      done(tooLarge());
    },
  });
}

function tooLarge(): AppError {
  const message = `body: got more, expected at most ${MAX_UPLOAD_BYTES} bytes.`;
  // The rest is not read.
  return new AppError('PAYLOAD_TOO_LARGE', message, { headers: { connection: 'close' } });
}

interface ProgressFrames {
  read(bytes: number): void;
  lines(count: number): void;
}

/** Reports progress now and then, as the lines that are read and the part of the file. */
function progressFrames(size: number, frame: (value: object) => void): ProgressFrames {
  let readBytes = 0;
  let sentAt = 0;
  return {
    read(bytes) {
      readBytes += bytes;
    },
    lines(count) {
      const now = performance.now();
      if (now - sentAt < PROGRESS_INTERVAL_MS) return;
      sentAt = now;
      frame({ progress: { lines: count, fraction: size === 0 ? 1 : readBytes / size } });
    },
  };
}

async function* countedBytes(path: string, progress: ProgressFrames): AsyncGenerator<Buffer> {
  for await (const chunk of createReadStream(path)) {
    progress.read((chunk as Buffer).length);
    yield chunk as Buffer;
  }
}
