import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { ON_CONFLICT } from '../domain/import-format.js';
import type { LineOutcome, MovedReport } from '../domain/import-results.js';
import type { SpoolFile } from '../domain/stored.js';
import { AppError, badInput, type ErrorCode } from '../errors.js';
import { allowLongUpload } from '../http/failures.js';
import { beginTransfer, type Open, type RightOf, readerOf, type StreamOptions } from './transfer.js';

/** The largest upload: about ten million users. */
const MAX_UPLOAD_BYTES = 4 * 2 ** 30;
const PROGRESS_INTERVAL_MS = 200;

/** POST .../import: users that are uploaded. */
export function serveImport(app: FastifyInstance, rightOf: RightOf, { services, lifetimes }: StreamOptions): void {
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
          services.spool.withFile(async (file) => {
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
        const body = beginTransfer(
          lifetimes,
          request,
          reply,
          right,
          transfer,
          ({ write }, { code, publicMessage: message }) => write(frame({ error: { code, message } })),
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

/** A line of the answer, which has one of these. The last one has the report or an error. */
export interface ImportFrame {
  /** How many lines were read, and the part of the work that is done. */
  readonly progress?: { readonly lines: number; readonly fraction: number };
  /** A sentence that says why it takes time. */
  readonly notice?: string;
  readonly rows?: readonly LineOutcome[];
  readonly report?: MovedReport;
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

const frame = (value: ImportFrame) => `${JSON.stringify(value)}\n`;

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
