import http from 'node:http';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { stellarAddress } from '../support/addresses.js';
import { type Json, type TestProject, useTestApp } from '../support/app.js';
import { type Garbage, graphqlGarbage, restGarbage } from '../support/garbage.js';

/**
 * Random invalid requests, made from the grammar of REST and GraphQL. Each answer has a documented form and is in time.
 * FUZZ_INPUTS is their number (`npm run fuzz`: 100,000). FUZZ_SEED repeats the requests of an earlier run.
 */

const INPUTS = Number(process.env['FUZZ_INPUTS'] ?? 2_000);
const SEED = Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31);
/** The number of simultaneous requests. If one of them harms the server, the others fail too. */
const AT_ONCE = 20;
const ANSWERED_WITHIN_MS = 10_000;

// With its own database, the first user has the id 1.
const app = useTestApp({ ownDatabase: true });
let project: TestProject;
const agent = new http.Agent({ keepAlive: true, maxSockets: AT_ONCE });
beforeAll(async () => {
  project = await app.createProject();
  await project.addUsers(
    { auth_method: 'wallet', auth_value: stellarAddress(1) },
    { auth_method: 'email', auth_value: 'ada@example.com' },
  );
});
afterAll(() => agent.destroy());

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

function send({ method, path, headers, body }: Garbage): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      method,
      path,
      agent,
      headers: { ...project.credentials, ...headers },
      timeout: ANSWERED_WITHIN_MS,
    };
    const request = http.request(app.url, options, async (response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk);
      const { statusCode = 0, headers: received } = response;
      resolve({ status: statusCode, type: received['content-type'] ?? '', text: Buffer.concat(chunks).toString() });
    });
    request.on('timeout', () => request.destroy(new Error('It was not answered in time.'))).on('error', reject);
    request.end(body ?? undefined);
  });
}

/** Throws unless the answer has a documented form. */
function expectRest({ status, type, text }: Answer, { path }: Garbage): void {
  // With a damaged first path segment, the request is no longer for the REST interface.
  if (!/^\/(server|wallets)\//.test(path)) {
    expect(status).toBeLessThan(500);
    return;
  }
  expect([200, 400, 401, 404, 405, 413, 415, 429]).toContain(status);
  expect(type).toBe('application/json; charset=utf-8');
  const body: Json = JSON.parse(text);
  if (status !== 200) expect(body).toEqual({ error: expect.stringMatching(/./) });
  else expect(body).toMatchObject({ message: expect.any(String) });
}

const CODES = `BAD_USER_INPUT NOT_FOUND BANNED CONFLICT UNAUTHENTICATED METHOD_NOT_ALLOWED UNSUPPORTED_MEDIA_TYPE
  RATE_LIMITED FORBIDDEN`.split(/\s+/);

function expectGraphQL({ status, type, text }: Answer): void {
  expect([200, 400, 401, 405, 415, 429]).toContain(status);
  // A GET that accepts HTML gets the GraphiQL page.
  if (type.startsWith('text/html')) return;
  expect(type).toMatch(/^application\/(json|graphql-response\+json); charset=utf-8$/);
  const body: Json = JSON.parse(text);
  for (const key of Object.keys(body)) expect(['data', 'errors']).toContain(key);
  if (body.errors === undefined) expect(body.data).toEqual(expect.any(Object));
  for (const error of body.errors ?? []) {
    expect(error.message).toMatch(/./);
    expect(CODES).toContain(error.extensions.code);
    expect(Object.keys(error).every((key) => ['message', 'locations', 'path', 'extensions'].includes(key))).toBe(true);
  }
}

test.each([
  ['REST', restGarbage, expectRest],
  ['GraphQL', graphqlGarbage, expectGraphQL],
] as const)(
  `any invalid request gets a documented answer: %s (FUZZ_SEED=${SEED})`,
  async (_name, garbage, expectDocumented) => {
    await fc.assert(
      fc.asyncProperty(fc.array(garbage, { minLength: AT_ONCE, maxLength: AT_ONCE }), async (inputs) => {
        const answers = await Promise.all(inputs.map(send));
        for (const [index, answer] of answers.entries()) {
          try {
            expectDocumented(answer, inputs[index] as Garbage);
          } catch (cause) {
            throw new Error(`${JSON.stringify(inputs[index])} was answered with ${JSON.stringify(answer)}`, { cause });
          }
        }
      }),
      { seed: SEED, numRuns: Math.ceil(INPUTS / 2 / AT_ONCE), endOnFailure: true },
    );
    expect((await project.rest('/server/users/count')).status).toBe(200);
  },
  60_000 + INPUTS * 20,
);
