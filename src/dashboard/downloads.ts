import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { userFilter } from '../domain/filters.js';
import { EXPORT_FORMATS, type ExportFormat, type UserFormat } from '../domain/import-format.js';
import { dateBound, loginMethods } from '../domain/parameters.js';
import { parse } from '../domain/parse.js';
import type { AuditQuestion } from '../domain/projects.js';
import { EXPORT_TARGETS } from '../domain/systems.js';
import { badInput } from '../errors.js';
import type { Lifetimes } from '../http/lifetime.js';
import {
  beginTransfer,
  type Open,
  queryOf,
  type Right,
  type RightOf,
  readerOf,
  type StreamOptions,
} from './transfer.js';

/** Writes what is to be downloaded. */
type Produce = (write: Open['write'], signal: AbortSignal) => Promise<unknown>;

const dates = {
  start: dateBound('start_date', 'first').nullish(),
  end: dateBound('end_date', 'last').nullish(),
  methods: loginMethods('login_method').nullish(),
};

/** GET .../export: the users of a project. */
export function serveExport(app: FastifyInstance, rightOf: RightOf, { services, lifetimes }: StreamOptions): void {
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
      return download(
        lifetimes,
        request,
        reply,
        right,
        { name: `users-${scope.appId}`, format },
        async (write, signal) => {
          const exported = await services.transfers.exportUsers(scope, {
            filter,
            format,
            requestId: right.requestId,
            write,
            signal,
          });
          report = JSON.stringify(exported);
        },
      );
    },
  });
}

/** GET .../audit: the audit trail of a project. */
export function serveAudit(app: FastifyInstance, rightOf: RightOf, { services, lifetimes }: StreamOptions): void {
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
      return download(lifetimes, request, reply, right, { name: `audit-${scope.appId}`, format }, (write, signal) =>
        services.audit.exportEntries(scope, question, { format, write, signal }),
      );
    },
  });
}

/** Answers with what `produce` writes, as fast as the client reads. */
function download(
  lifetimes: Lifetimes,
  request: FastifyRequest,
  reply: FastifyReply,
  right: Right,
  { name, format }: { readonly name: string; readonly format: UserFormat },
  produce: Produce,
): FastifyReply {
  const [type, ending] = FILE_TYPES[format as ExportFormat] ?? ['application/json', `${format}.json`];
  const body = beginTransfer(
    lifetimes,
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
