import { expect, test } from 'vitest';
import { prepareRequest } from '#dist/engine/execution.js';
import { LIMITS } from '#dist/engine/limits.js';
import { AppError } from '#dist/errors.js';
import { engine } from '#dist/graphql/engine.js';
import { keepSubscription, subscriptionEvents } from '#dist/graphql/subscriptions.js';

/** Events of a subscription to changes of one user, whose services are made here. */
const QUERY =
  'subscription ($after: String) { changes(after: $after) { change { id user { authValue accounts { id } } } } }';
const CHANGE = { id: 'cursor-1', type: 'user.updated', at: '2026-01-31T12:00:00.000Z', userId: 1, fields: [] };

interface Setup {
  readonly user: object;
  readonly query?: string;
  /** Fails the first times that a piece of work asks to start. */
  readonly refusals?: number;
}

/** The data of the events, and the weights under which they were admitted. */
async function eventsOf({ user, query = QUERY, refusals = 0 }: Setup) {
  const weights: number[] = [];
  const documents = engine.createDocumentCache();
  const scope = { appId: 'app', permits: () => true, projectIdFor: () => 1 };
  let refused = 0;
  const stream = {
    signal: new AbortController().signal,
    isGone: () => false,
    atHeartbeat: () => undefined,
    admit: async (work: (permit: unknown, add: (units: number) => void) => Promise<unknown>, weight = 1) => {
      if (refused++ < refusals) throw new AppError('UNAVAILABLE', 'The queue is full.');
      const place = weights.push(weight) - 1;
      return work(scope, (units) => {
        weights[place] = (weights[place] as number) + units;
      });
    },
  };
  const services = {
    users: { findUser: async () => user },
    changes: {
      findStart: async () => ({ timeline: '00000000', id: 1 }),
      follow: async function* () {
        yield { changes: [CHANGE], end: CHANGE.id };
      },
    },
  };
  const prepared = prepareRequest(documents.findOrRead(query, 'app'), {
    query,
    variables: { after: 'now', undeclared: 'x' },
    operationName: undefined,
  });
  expect(prepared.refusal).toBeNull();
  const subscription = keepSubscription(prepared);
  const requester = { id: 'request', scope, addWeight: () => undefined, report: () => undefined };
  const texts: string[] = [];
  for await (const text of subscriptionEvents(subscription, { requester, documents, services, stream } as never))
    texts.push(text);
  // The first only tells the cursor.
  const [, ...data] = texts.filter((text) => text.startsWith('event: next')).map((text) => JSON.parse(text.slice(18)));
  return { data, weights: weights.slice(1), subscription };
}

const userWith = (accounts: number, authValue = 'x') => ({
  authValue,
  accounts: Array.from({ length: accounts }, (_, id) => ({ id })),
});

test('a stream keeps the variables that its operation declares, and no others', async () => {
  const { subscription } = await eventsOf({ user: userWith(1) });
  expect(subscription.parameters.variables).toEqual({ after: 'now' });
});

test('an event weighs what its rows cost, beyond the estimate too', async () => {
  const aliases = Array.from({ length: 4 }, (_, n) => `a${n}: accounts { id publicKey: id }`).join(' ');
  const query = `subscription { changes { change { user { ${aliases} } } } }`;
  const few = await eventsOf({ user: userWith(3), query });
  expect(few.weights).toEqual([1 + Math.floor((1 + 1 + 1 + 8 + 4 * (1 + 3 * 2)) / 50)]);
  const many = await eventsOf({ user: userWith(100), query });
  expect(many.weights[0]).toBeGreaterThanOrEqual((few.weights[0] as number) + 4 * Math.floor((97 * 2) / 50));
});

test('an event that is too large all the same has no user, an error and its cursor', async () => {
  const { data } = await eventsOf({ user: userWith(1, 'x'.repeat(9 * 2 ** 20)) });
  expect(data).toHaveLength(1);
  expect(data[0].data).toEqual({ changes: { change: { id: 'cursor-1', user: null } } });
  expect(data[0].errors[0]).toMatchObject({ path: ['changes', 'change', 'user'], extensions: { cursor: 'cursor-1' } });
  expect(data[0].errors[0].message).toContain('got more, expected at most');
});

test('a full queue loses no event', async () => {
  const { data } = await eventsOf({ user: userWith(1), refusals: 2 });
  expect(data[0].data.changes.change).toEqual({ id: 'cursor-1', user: { authValue: 'x', accounts: [{ id: '0' }] } });
});

test('the largest event of an operation counts, and not the estimate', () => {
  const refusalOf = (query: string) => {
    const documents = engine.createDocumentCache();
    return prepareRequest(documents.findOrRead(query, 'app'), { query, variables: {}, operationName: undefined })
      .refusal;
  };
  const aliases = (count: number) =>
    Array.from({ length: count }, (_, n) => `a${n}: accounts { id network publicKey walletType }`).join(' ');
  const most = Math.floor((LIMITS.eventCost - 11) / 401);
  expect(refusalOf(`subscription { changes { change { user { ${aliases(most)} } } } }`)).toBeNull();
  expect(refusalOf(`subscription { changes { change { user { ${aliases(most + 1)} } } } }`)?.[0]?.message).toMatch(
    /^cost of the largest event: got \d+, expected at most/,
  );
  // A query pays for the accounts that there are, when they are read.
  expect(refusalOf(`{ user(id: 1) { ${aliases(most + 1)} } }`)).toBeNull();
});
