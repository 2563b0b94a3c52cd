import type { FastifyPluginAsyncZod } from 'fastify-type-provider-zod';
import { z } from 'zod';
import type { Services } from '../context.js';
import { CHANGE_TYPES } from '../domain/change-types.js';
import {
  type Change,
  type ChangesQuery,
  changeCursor,
  changesLimit,
  changeTypes,
  encodeChangeCursor,
  type FollowedChanges,
  formatChange,
} from '../domain/changes.js';
import { ID_META, parse } from '../domain/parse.js';
import { AppError } from '../errors.js';
import { type Authenticate, stillAuthenticated } from '../http/authentication.js';
import { namesIgnoredParameters, refuseMalformedUrl } from '../http/failures.js';
import type { OpenStream, Streams } from '../http/lifetime.js';
import { EVENT_STREAM, JSON_TYPE, preferredType } from '../http/media-types.js';
import { compileValidator } from './plugin.js';
import { answer } from './shapes.js';

export interface ChangesOptions {
  readonly changes: Services['changes'];
  readonly authenticate: Authenticate;
  readonly streams: Streams;
}

/** Changes are short: so many are about the work of one user. */
const CHANGES_PER_UNIT = 50;

const changesQuery = z.object({
  after: changeCursor('after').optional().meta({
    description:
      'A cursor: only changes after it. It is the `id` of a change, the `Userdir-Next-Cursor` of a page, the cursor of an export, or `now`. Without it, a page begins with the oldest change that is kept, and a stream with the next one to come.',
    example: 'now',
  }),
  limit: changesLimit,
  types: changeTypes('types').optional(),
});
const lastEventId = changeCursor('Last-Event-ID');

const EXAMPLE_CHANGE = {
  id: 'ZWUwMTBhODguMTUuNzI5MW8',
  type: 'user.created' as const,
  at: '2026-01-31T12:00:00.000Z',
  user_id: 1,
};

/** A change in a page, as a line or in JSON, and the data of an event. */
const changeObject = z
  .object({
    id: z.string().meta({ description: 'The place of the change in the feed: a cursor. Opaque.' }),
    type: z.enum(CHANGE_TYPES).meta({ description: 'What has changed.' }),
    at: z.iso.datetime().meta({ description: 'When the transaction of the change began, in UTC.' }),
    user_id: z.int().min(1).meta(ID_META).nullable().meta({
      description: 'The user; null for a ban of an identity that no current user has.',
    }),
    fields: z.array(z.string()).optional().meta({
      description:
        'Of `user.updated`: which fields, by their names in the import format, `accounts`, `identities` and `ban`.',
    }),
    merged_into: z
      .int()
      .min(1)
      .optional()
      .meta({
        ...ID_META,
        description: 'Of `user.merged`: the user who has taken over what this one had.',
      }),
  })
  .meta({ id: 'Change', description: 'A change of a user, an account or a ban. It has no personal data.' });

const changesPage = answer(
  z.object({
    changes: z.array(changeObject).meta({ description: 'The changes, in the order of their commits.' }),
    next_cursor: z.string().meta({ description: 'The `after` of the next page.' }),
    has_more: z.boolean().meta({ description: 'Whether there is more now.' }),
  }),
  'A page of changes. `next_cursor` and `Userdir-Next-Cursor` are where the next page begins, also after an empty one.',
  {
    message: 'Changes listed.',
    result: { changes: [EXAMPLE_CHANGE], next_cursor: EXAMPLE_CHANGE.id, has_more: false },
  },
);

const nameIgnored = namesIgnoredParameters({ querystring: changesQuery });

type ChangesPage = Awaited<ReturnType<ChangesOptions['changes']['listChanges']>>;

/** Lines and streams are not in the OpenAPI document: some generators make a client of them that reads no JSON. */
const LINES = 'application/x-ndjson';
/** A client that takes anything gets JSON. One that waits for the end of the answer must get no stream unless it prefers one. */
const ANSWER_TYPES = [JSON_TYPE, LINES, EVENT_STREAM];

function asLines({ changes }: ChangesPage): string {
  return changes.map((change) => `${formatChange(change)}\n`).join('');
}

function asJson({ changes, end, hasMore }: ChangesPage): string {
  const position = `"next_cursor":${JSON.stringify(end)},"has_more":${hasMore}`;
  return `{"message":"Changes listed.","result":{"changes":[${changes.map(formatChange).join()}],${position}}}`;
}

/** The feed of changes at /changes: pages as JSON or NDJSON, or a stream of Server-Sent Events. */
export const changesPlugin: FastifyPluginAsyncZod<ChangesOptions> = async (app, { changes, authenticate, streams }) => {
  app.addHook('onRequest', async (request) => {
    request.scope = await authenticate(request);
    request.scope.projectIdFor('changes');
    refuseMalformedUrl(request);
  });
  app.addHook('preHandler', stillAuthenticated(authenticate));
  app.setValidatorCompiler(compileValidator);
  app.setSerializerCompiler(() => String);
  app.get(
    '/changes',
    {
      config: {
        weight: ({ query }) => 1 + Math.floor((query as z.output<typeof changesQuery>).limit / CHANGES_PER_UNIT),
      },
      schema: {
        operationId: 'listChanges',
        summary: 'Read or follow changes',
        description:
          'The changes of users, in the order in which they were committed, none skipped and none twice. Needs the scope `changes`. Where `Accept` prefers `application/x-ndjson`, a page is one change a line. Where it prefers `text/event-stream`, the answer is a stream, which goes on after the header `Last-Event-ID`: events with a change as `data` and its `id`. An event named `cursor` tells only the `id`.',
        tags: ['changes'],
        querystring: changesQuery,
        response: { 200: changesPage },
      },
      preValidation: async (request, reply) => nameIgnored(request, reply),
    },
    async (request, reply) => {
      const { scope, query } = request;
      const changesQuery: ChangesQuery = { after: query.after ?? null, types: query.types ?? null };
      const type = preferredType(request.headers.accept, ANSWER_TYPES) ?? JSON_TYPE;
      if (type === EVENT_STREAM) {
        // A browser that connects again sends the header, and the URL that it had at first.
        const eventId = request.headers['last-event-id'];
        const after = await changes.findStart(scope, eventId ? parse(lastEventId, eventId) : changesQuery.after);
        // The time of the request has run out.
        if (reply.sent) return reply;
        return streams.send(request, reply, 'changes', (stream) =>
          changeEvents(
            encodeChangeCursor(after),
            changes.follow(scope, { ...changesQuery, after }, stream.signal, stream.admit),
            stream,
          ),
        );
      }
      const page = await changes.listChanges(scope, { ...changesQuery, first: query.limit }, (units) =>
        request.addWeight(units),
      );
      if (reply.sent) return reply;
      return reply
        .headers({ 'userdir-next-cursor': page.end, 'userdir-has-more': String(page.hasMore) })
        .type(`${type}; charset=utf-8`)
        .send((type === JSON_TYPE ? asJson(page) : asLines(page)) as never);
    },
  );
};

/** The event has a name and data, because some clients forget an `id` that comes without data. */
const cursorEvent = (cursor: string) => `event: cursor\nid: ${cursor}\ndata: ${JSON.stringify({ cursor })}\n\n`;
const changeEvent = (change: Change) => `id: ${change.id}\ndata: ${formatChange(change)}\n\n`;

async function* changeEvents(
  start: string,
  followed: AsyncIterable<FollowedChanges>,
  stream: OpenStream,
): AsyncGenerator<string, void> {
  try {
    yield cursorEvent(start);
    for await (const { changes, end } of followed) {
      if (changes.length > 0) yield changes.map(changeEvent).join('');
      stream.atHeartbeat(() => cursorEvent(end));
    }
    if (stream.signal.aborted) throw stream.signal.reason;
  } catch (error) {
    if (stream.isGone()) return;
    if (!(error instanceof AppError)) throw error;
    const { publicMessage, code, retryAfter } = error;
    const data = { error: publicMessage, code, ...(retryAfter !== null && { retry_after: retryAfter }) };
    yield `event: error\ndata: ${JSON.stringify(data)}\n\n`;
  }
}
