import Fastify, { type FastifyPluginAsync, type FastifyReply, type FastifyRequest } from 'fastify';
import { expect, test } from 'vitest';
import { AppError, unavailable } from '#dist/errors.js';
import { changesPlugin } from '#dist/rest/changes.js';

/** How a stream of events at /changes ends, by what ends the feed. Streams from outside: test/api/change-streams. */

interface Stream {
  readonly signal: AbortSignal;
  readonly isGone: () => boolean;
}

/** The events that a client is sent after the first one, and the failure that is reported, if the feed fails so. */
async function endedBy(failure: unknown, { isGone = false, isAborted = false } = {}) {
  const stop = new AbortController();
  const sent: string[] = [];
  let reported: unknown = null;
  const app = Fastify();
  app.decorateRequest('scope');
  await app.register(changesPlugin as unknown as FastifyPluginAsync<Record<string, unknown>>, {
    authenticate: () => ({ projectIdFor: () => 1 }),
    changes: {
      findStart: async () => ({ timeline: 'a'.repeat(8), place: 1 }),
      async *follow() {
        yield { changes: [], end: 'x' };
        if (isAborted) stop.abort(failure);
        else throw failure;
      },
    },
    streams: {
      async send(
        _request: FastifyRequest,
        reply: FastifyReply,
        _name: string,
        events: (stream: Stream & { atHeartbeat: () => void }) => AsyncIterable<string>,
      ) {
        const stream = { signal: stop.signal, isGone: () => isGone, atHeartbeat: () => undefined };
        try {
          for await (const text of events(stream)) sent.push(text);
        } catch (error) {
          reported = error;
        }
        return reply.send('');
      },
    },
  });
  await app.inject({ url: '/changes', headers: { accept: 'text/event-stream' } });
  await app.close();
  return { events: sent.slice(1), isFirstCursor: sent[0]?.startsWith('event: cursor\n'), reported };
}

const FULL = unavailable('The service is overloaded.');
const NO_RIGHT = new AppError('FORBIDDEN', 'Not you.');
const FAULT = new TypeError('Cannot read properties of undefined.');

test.each<[what: string, failure: unknown, event: string | null]>([
  [
    'tells what may pass, and when',
    FULL,
    '{"error":"The service is overloaded.","code":"UNAVAILABLE","retry_after":1}',
  ],
  ['tells what does not pass', NO_RIGHT, '{"error":"Not you.","code":"FORBIDDEN"}'],
  ['reports a fault of ours, and tells nothing of it', FAULT, null],
])('the end of a stream %s, also where the service ends it', async (_what, failure, data) => {
  const expected = {
    events: data === null ? [] : [`event: error\ndata: ${data}\n\n`],
    isFirstCursor: true,
    reported: data === null ? failure : null,
  };
  expect(await endedBy(failure)).toEqual(expected);
  expect(await endedBy(failure, { isAborted: true })).toEqual(expected);
});

test.each([FULL, NO_RIGHT, FAULT])(
  'a client that has gone is sent nothing, and nothing is reported: %s',
  async (failure) => {
    for (const isAborted of [false, true])
      expect(await endedBy(failure, { isGone: true, isAborted })).toEqual({
        events: [],
        isFirstCursor: true,
        reported: null,
      });
  },
);
