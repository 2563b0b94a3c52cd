import Fastify from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { isSliceOver } from '#dist/http/turns.js';
import { type VerdictsOptions, verdictsPlugin } from '#dist/rest/wallets.js';

/** What a list of wallets tells admission, and in which turn of the event loop it is verified. From outside both are a matter of time. */

/** Answers one request after `before`. Returns the turns that passed until its wallets were verified, and the weight that was added. */
async function verifying(body: string, before: () => void) {
  let turns = 0;
  const seen: { turns?: number; added?: number } = {};
  const services = {
    wallets: {
      verifyWallets: async () => {
        seen.turns = turns;
        return { asOf: new Date(0).toISOString(), verdicts: [] };
      },
    },
  };
  const app = Fastify();
  app.decorateRequest('addWeight', (units: number) => {
    seen.added = units;
    return true;
  });
  app.addHook('preHandler', (_request, _reply, done) => {
    before();
    setImmediate(() => {
      turns += 1;
    });
    done();
  });
  const scope = { appId: 'a', projectIdFor: () => 1 };
  const options = { services, authenticate: () => scope, runWithAdmission: () => undefined };
  await app.register(verdictsPlugin, options as unknown as VerdictsOptions);
  const { statusCode } = await app.inject({
    method: 'POST',
    url: '/wallets/verify',
    headers: { 'content-type': 'application/json' },
    body,
  });
  await app.close();
  return { statusCode, ...seen };
}

const listOf = (wallets: number) => JSON.stringify({ wallets: Array(wallets).fill({ address: 'G' }) });

let now: number;
beforeEach(() => {
  now = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => now);
});
afterEach(() => vi.restoreAllMocks());

/** Uses this turn of the event loop up. */
function useTurn(): void {
  isSliceOver();
  now += 100;
}

test('a list of wallets is verified in the turn in which it came', async () => {
  expect(await verifying(listOf(1), () => undefined)).toMatchObject({ statusCode: 200, turns: 0 });
});

test('where that turn is over, other projects go on first', async () => {
  expect(await verifying(listOf(1), useTurn)).toMatchObject({ statusCode: 200, turns: 1 });
});

// One unit was charged for each 512 bytes, of which 23 wallets of 15 bytes have fewer.
test.each([
  [1, 0],
  [7, 0],
  [8, 1],
  [23, 2],
])('%i wallets in few bytes weigh %i more than their bytes', async (wallets, added) => {
  expect(await verifying(listOf(wallets), () => undefined)).toMatchObject({ statusCode: 200, added });
});
