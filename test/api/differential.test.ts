import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { graphqlQuestion } from '../support/garbage.js';

/**
 * The ways to the same answer: a document that is new, one that is known, one that is compiled, one that Yoga's HTTP layer
 * answers, and one in a URL. `npm run fuzz` sends many more (FUZZ_INPUTS); FUZZ_SEED repeats those of a run.
 */

const INPUTS = Number(process.env['FUZZ_INPUTS'] ?? 2_000);
const SEED = Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31);
const WAYS = 6;
/** Executions after which a document is compiled, and one more. */
const TIMES = 4;

// The first user of its database has the id 1.
const app = useTestApp({ ownDatabase: true });
let project: TestProject;
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers(
    { auth_method: 'wallet', auth_value: stellarAddress(1) },
    {
      auth_method: 'email',
      auth_value: 'ada@example.com',
      accounts: [{ network: 'stellar', public_key: stellarAddress(2) }],
    },
    { auth_method: 'google', auth_value: 'a "quote" and é', email: 'ada@example.com' },
  );
});

async function post(body: object): Promise<[number, string]> {
  const headers = { ...project.credentials, 'content-type': 'application/json', accept: 'application/json' };
  const response = await fetch(`${app.url}/graphql`, { method: 'POST', headers, body: JSON.stringify(body) });
  return [response.status, await response.text()];
}

async function get({ query, variables }: { query: string; variables: object }): Promise<[number, string]> {
  const search = new URLSearchParams({ query, variables: JSON.stringify(variables) });
  const headers = { ...project.credentials, accept: 'application/json' };
  const response = await fetch(`${app.url}/graphql?${search}`, { headers });
  return [response.status, await response.text()];
}

test(
  `any query is answered alike by every way, byte for byte (FUZZ_SEED=${SEED})`,
  async () => {
    let withData = 0;
    await fc.assert(
      fc.asyncProperty(graphqlQuestion, async (question) => {
        const first = await post(question);
        for (let time = 1; time < TIMES; time += 1) expect(await post(question)).toEqual(first);
        expect(await post({ ...question, extensions: {} })).toEqual(first);
        expect(await get(question)).toEqual(first);
        if (first[1].startsWith('{"data":{')) withData += 1;
      }),
      { seed: SEED, numRuns: Math.ceil(INPUTS / WAYS / 2), endOnFailure: true },
    );
    // Otherwise it would only compare refusals.
    expect(withData).toBeGreaterThan(INPUTS / WAYS / 20);
  },
  60_000 + INPUTS * 20,
);
