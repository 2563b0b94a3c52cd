import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type TestProject, useTestApp } from '../support/app.js';
import { graphqlQuestion } from '../support/garbage.js';

/**
 * A document may be new, cached or compiled, be named by its hash, and may go through Yoga's HTTP layer or a URL.
 * All answers must be equal.
 * `npm run fuzz` sends many more documents (FUZZ_INPUTS). FUZZ_SEED repeats the documents of an earlier run.
 */

const INPUTS = Number(process.env['FUZZ_INPUTS'] ?? 2_000);
const SEED = Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31);
const WAYS = 8;
/** One more than the number of executions after which a document is compiled. */
const TIMES = 4;

// With its own database, the first user has the id 1.
const app = useTestApp({ ownDatabase: true });
let project: TestProject;
/** When the users were there. A later instant is the `asOf` of an answer, which differs from one answer to the next. */
let started: string;
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
  started = new Date().toISOString();
});

const withoutInstant = (text: string) =>
  text.replace(/"\d{4}-\d\d-\d\dT[\d:.]+Z"/g, (instant) => (instant.slice(1) >= started ? '"now"' : instant));

async function post(body: object): Promise<[number, string]> {
  const headers = { ...project.credentials, 'content-type': 'application/json', accept: 'application/json' };
  const response = await fetch(`${app.url}/graphql`, { method: 'POST', headers, body: JSON.stringify(body) });
  return [response.status, withoutInstant(await response.text())];
}

async function get({ query, variables }: { query: string; variables: object }): Promise<[number, string]> {
  const search = new URLSearchParams({ query, variables: JSON.stringify(variables) });
  const headers = { ...project.credentials, accept: 'application/json' };
  const response = await fetch(`${app.url}/graphql?${search}`, { headers });
  return [response.status, withoutInstant(await response.text())];
}

test(
  `any query gets the same answer in every way of execution, byte for byte (FUZZ_SEED=${SEED})`,
  async () => {
    let withData = 0;
    await fc.assert(
      fc.asyncProperty(graphqlQuestion, async (question) => {
        const first = await post(question);
        for (let time = 1; time < TIMES; time += 1) expect(await post(question)).toEqual(first);
        expect(await post({ ...question, extensions: {} })).toEqual(first);
        expect(await get(question)).toEqual(first);
        const sha256Hash = createHash('sha256').update(question.query).digest('hex');
        const extensions = { persistedQuery: { version: 1, sha256Hash } };
        expect(await post({ ...question, extensions })).toEqual(first);
        const byHash = await post({ variables: question.variables, extensions });
        // Invalid queries are not kept.
        if (!byHash[1].includes('PersistedQueryNotFound')) expect(byHash).toEqual(first);
        if (first[1].startsWith('{"data":{')) withData += 1;
      }),
      { seed: SEED, numRuns: Math.ceil(INPUTS / WAYS / 2), endOnFailure: true },
    );
    // Without this, the test might compare only errors.
    expect(withData).toBeGreaterThan(INPUTS / WAYS / 20);
  },
  60_000 + INPUTS * 20,
);
